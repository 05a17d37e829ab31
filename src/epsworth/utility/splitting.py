"""Budget split: one total epsilon per record, shared out over its sensitive features where it does most good."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from epsworth.arrays import Floats, Rng, generator
from epsworth.bounds import check_spent
from epsworth.callbacks import check_callback
from epsworth.files import check_writable, file_named
from epsworth.guarantees import Guarantee, compose, promise_to_dict
from epsworth.mechanisms import Mechanism
from epsworth.mechanisms.family import families
from epsworth.mechanisms.record import RecordRelease, record_release
from epsworth.numerals import positive, short
from epsworth.results import Result, how_sure
from epsworth.rounding import round_down, show_up
from epsworth.space import Ranges
from epsworth.utility.curves import MET
from epsworth.utility.engines.run import Method
from epsworth.utility.figures import draw_spans
from epsworth.utility.problem import Problem
from epsworth.utility.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = {2: 40, 3: 16}  # of the whole grid of shares; beyond, pairs of features exchange budget
EXCHANGES = (8, 16, 32)
SMALLEST_SHARE = 1 / 200
SEARCHED = 0.9  # share of the work after the search
PART = re.compile(r"\d{4}")  # of a checkpoint


@dataclass(frozen=True)
class Split(Result):
    """A budget shared out, and what it buys beside the even split, at the same total.

    Attributes
    ----------
    features : tuple of str
    epsilons : tuple of float
        Per feature, summing to ``total`` (rounded so that the sum never exceeds it).
    lower, upper : float
        Bounds on the average or worst-case stability with this split.
    even_lower, even_upper : float
        The same with total / s for every feature.
    guarantee : Guarantee
        Per record.
    confidence : float
        With which all four bounds hold; 1 where an exact engine answered.
    notes : tuple of str
        Which features get another mechanism than the one named, and whether the tolerance was not met.
    passing : tuple of str
        Columns that the classifier is known to read besides: a policy lets them pass.
    spent : float
        What bounds on draws spent of 1 - confidence; the search before them promises nothing and spends nothing.

    Examples
    --------
    >>> import epsworth as ew
    >>> split = ew.split_budget(lambda X: X[:, 0] > 0.5, [[0.2, 0.7]], sensitive=[0, 1], total=4, mechanism="krr:k=11")
    >>> sum(split.epsilons) <= split.total, round(split.lower, 3), round(split.even_upper, 3)
    (True, 0.921, 0.712)
    >>> print(split.guarantee)
    pure LDP, epsilon 4 per record
    """

    mechanism: str
    total: float
    on: str
    features: tuple[str, ...]
    epsilons: tuple[float, ...]
    lower: float
    upper: float
    even_lower: float
    even_upper: float
    guarantee: Guarantee
    confidence: float
    notes: tuple[str, ...] = ()
    spent: float = 0.0
    passing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_spent(self.spent, self.confidence)

    def __str__(self) -> str:
        """Return the split as a sentence, rounded to the safe side."""
        where = "on average" if self.on == "average" else "in the worst case"
        shares = ", ".join(f"{name} {show_up(e)}" for name, e in zip(self.features, self.epsilons, strict=True))
        return (
            f"{self.mechanism} with total epsilon {show_up(self.total)} per record split as {shares}: "
            f"labels kept {where} at least {round_down(self.lower):g} (even split: {round_down(self.even_lower):g}), "
            f"{how_sure(self.confidence)}; {self.guarantee}." + "".join(f" Note, {note}." for note in self.notes)
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every feature's share beside the even one; return the axes."""
        even, none = self.total / len(self.features), [0.0] * len(self.features)
        return draw_spans(ax, self.features, none, self.epsilons, mark=even, what="epsilon, and an even split")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded."""
        return super().to_dict() | {"guarantee": promise_to_dict(self.guarantee)}


def split_budget(
    model: Any,
    X: Any,
    *,
    sensitive: str | int | Sequence[str | int],
    total: float,
    mechanism: str = "pm",
    domain: Ranges | None = None,
    on: Literal["average", "worst"] = "average",
    method: Method = "auto",
    confidence: float = 0.999,
    tolerance: float = 0.01,
    rng: Rng = None,
    progress: Callable[[float], None] | None = None,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
) -> Split:
    """Share a record's budget out over its features so that the average or worst case is best.

    Claim: the bounds of the result hold together with ``confidence`` (with certainty where an exact engine
    answers); they are computed afresh for the chosen split, after the search.  The search itself promises
    nothing beyond: it looks at a grid of shares for two or three features and exchanges budget between pairs of
    features beyond, so a better split may exist.

    Parameters
    ----------
    model, X, sensitive, domain, method, confidence, tolerance, rng
        As for `stability`.  X must be public or an aggregate's stand-in: a split chosen on private records leaks.
    total : float
        Epsilon of the whole record.
    mechanism : str
        One mechanism's words.
    on : {"average", "worst"}
        Over the records of X.
    progress : callable, optional
        Called with the share of the work that is done.
    n_jobs : int, optional
        Workers that share the records, as for `stability`: the same split and the same bits whatever their number.
    checkpoint : path, optional
        A folder that the run is kept in, one part of it for every question that the search puts: the same call goes
        on from there.  It is computed from X: keep it as you keep the table.

    Returns
    -------
    Split

    Raises
    ------
    ValueError
        For a total that is not positive, and whatever `stability` refuses.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth import split_budget
    >>> only_first = lambda records: records[:, 0] > 0.5
    >>> split = split_budget(only_first, np.array([[0.2, 0.7]]), sensitive=[0, 1], total=4.0, mechanism="krr:k=11")
    >>> split.epsilons[0] > 3.9 and split.lower > split.even_upper
    True
    """
    total = positive("total", total)
    Run.of(method=method, confidence=confidence, tolerance=tolerance, n_jobs=n_jobs)
    if not isinstance(on, str) or on not in ("average", "worst"):
        raise ValueError(f"on must be 'average' or 'worst', got {short(on)}")
    result = families(mechanism)
    if len(result) != 1:
        raise ValueError("mechanism must be one mechanism's words")
    base = Problem.of(
        model, X, sensitive=sensitive, mechanisms=mechanism, epsilons=[total], domain=domain, y=None
    )  # fmt: skip
    s, seed = len(base.features), int(generator(rng).integers(1 << 62))
    if s < 2:
        raise ValueError("a budget is split over at least two sensitive features; name more, or use stability")
    report, asked = check_callback("progress", progress) or (lambda share: None), count()
    folder = None if checkpoint is None else _folder(file_named(checkpoint, "checkpoint"))

    def scores(
        shares: Floats, confidence: float, tolerance: float, told: Callable[[float], None] = lambda share: None
    ) -> tuple[Floats, Floats, float]:
        problem, number = _with_splits(base, result[0].build, total, shares), next(asked)
        draws = np.random.default_rng([seed, number])  # its own: the same whether those before were asked or kept
        kept = None if folder is None else folder / f"{number:04}"
        run = Run.of(
            method=method, confidence=confidence, tolerance=tolerance, rng=draws, n_jobs=n_jobs, checkpoint=kept,
            progress=told,
        )  # fmt: skip
        bounds, spent = run.bounds(problem)
        lower, upper = bounds.average() if on == "average" else bounds.worst()
        return lower[0], upper[0], spent

    def score(shares: Floats, told: Callable[[float], None] = lambda share: None) -> Floats:
        lower, upper, _ = scores(shares, 0.9, 2 * tolerance, told)
        return lower + upper

    best = _search(s, score, report)
    pair = np.stack([best, np.full(s, 1 / s)])
    lower, upper, spent = scores(pair, confidence, tolerance)
    chosen = 0 if lower[0] >= lower[1] else 1  # never recommend a split that is guaranteed less than the even one
    problem = _with_splits(base, result[0].build, total, pair[chosen : chosen + 1])
    release = problem.releases[0][0]
    half = float((upper - lower).max()) / 2
    unmet = (f"{mechanism}: the tolerance of {show_up(tolerance)} is not met: the half-width is {show_up(half, 3)}",)
    report(1.0)
    return Split(
        mechanism=mechanism,
        total=float(total),
        on=on,
        features=tuple(feature.name for feature in base.features),
        passing=base.passing,
        epsilons=tuple(m.scalar_epsilon for m in release.mechanisms),
        lower=float(lower[chosen]),
        upper=float(upper[chosen]),
        even_lower=float(lower[1]),
        even_upper=float(upper[1]),
        guarantee=release.guarantee,
        confidence=confidence if spent else 1.0,
        notes=(*base.notes, *(unmet if half > tolerance * MET else ())),
        spent=spent,
    )


def _with_splits(base: Problem, build: Callable[[float], Any], total: float, shares: Floats) -> Problem:
    """Return the question whose "epsilons" are splits of the total."""
    releases = []
    for share in shares:
        mechanisms: list[Mechanism] = []
        for epsilon, feature in zip(_shared_out(total, share), base.features, strict=True):
            mechanisms += record_release(build(float(epsilon)), [feature]).mechanisms
        guarantee = compose([m.guarantee for m in mechanisms])
        tight = sum(m.tight_epsilon for m in mechanisms)
        releases.append(RecordRelease(tuple(mechanisms), 0.0, guarantee, tight))
    return replace(base, epsilons=np.arange(1.0, len(shares) + 1), releases=(tuple(releases),))


def _shared_out(total: float, share: Floats) -> Floats:
    """Return epsilons of nine decimals at most whose sum does not exceed the total.

    Examples
    --------
    >>> 0.00625 + 0.025 + 0.06875 == 0.1, math.fsum([0.00625, 0.025, 0.06875, -0.1]) > 0
    (True, True)
    >>> math.fsum([*_shared_out(0.1, np.array([0.0625, 0.25, 0.6875])), -0.1]) <= 0
    True
    """
    epsilons = np.floor(total * share * 1e9) / 1e9
    while math.fsum([*epsilons, -total]) > 0:  # its sign is exact
        epsilons = np.nextafter(epsilons, 0)
    return np.asarray(epsilons)


def _folder(path: Path) -> Path:
    """Make a folder for what a run leaves, where there is none; refuse one that holds anything else."""
    if not path.exists():
        check_writable(path)
    elif not (path.is_dir() and all(PART.fullmatch(one.name) for one in path.iterdir())):
        raise ValueError(f"checkpoint {path}: must be a folder of a split, or not be there yet; name another one")
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _search(s: int, score: Callable[..., Floats], progress: Callable[[float], None]) -> Floats:
    if s in STEPS:
        shares = _all_shares(s, STEPS[s])
        return np.asarray(shares[int(np.argmax(score(shares, lambda share: progress(SEARCHED * share))))])
    best = np.full(s, 1 / s)
    for round_, step in enumerate(EXCHANGES):
        for _ in range(2 * s):
            candidates = _exchanges(best, 1 / step)
            values = score(candidates)
            if np.argmax(values) == 0:
                break
            best = candidates[int(np.argmax(values))]
        progress((round_ + 1) / (len(EXCHANGES) + 1))
    return best


def _all_shares(s: int, steps: int) -> Floats:
    """Return every share in multiples of 1/steps; zeros become a token share, since every mechanism needs epsilon."""
    parts = [p for p in product(range(steps + 1), repeat=s) if sum(p) == steps]
    shares = np.maximum(np.array(parts) / steps, SMALLEST_SHARE)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _exchanges(shares: Floats, step: float) -> Floats:
    """Return the shares themselves and all that move ``step`` from one feature to another."""
    result = [shares]
    for giver, taker in product(range(len(shares)), repeat=2):
        amount = min(step, shares[giver] - SMALLEST_SHARE)
        if giver != taker and amount > 0:
            moved = shares.copy()
            moved[giver] -= amount
            moved[taker] += amount
            result.append(moved)
    return np.array(result)
