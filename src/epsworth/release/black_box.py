"""A statistical audit: any sampler as a black box, and a lower confidence bound on the epsilon it really keeps.

An event whose share of the outputs is p from one input and q from another forces e^epsilon >= (p - delta)/q.  Draws
have three uses, kept apart: a quarter orders cells of outputs by likelihood ratio, a quarter chooses one event of each
kind, and the fresh half bounds the two shares of the chosen events.  So the bound holds however cleverly they were
sought.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Risk, check_spent, clopper_pearson
from epsworth.release.drawn import doubles, guarded, stacked, words
from epsworth.release.replays import Replay, Sampler, replays
from epsworth.release.serial import LENGTH, Dependence, dependence
from epsworth.results import Result
from epsworth.rounding import down, float_below, show_down, show_up, up

Indices = NDArray[np.int64]
FEWEST_DRAWS = 1000
MOST_CANDIDATES = 512  # nested events that compete, per kind and pair of inputs
REGIONS, TAILS = 64, 1024  # intervals of about equal share
OFTEN = 8  # a value is an atom of its own if the ordering draws hold it so many times
# A logarithm of NumPy errs by at most 4 units (what its own validation set allows, umath-validation-set-log.csv), and
# the difference of two rounds by half a unit of itself: it is no larger than the larger of the two, both below 0.
LOG_ULPS = 4.5
SMALLEST, LARGEST = -80, 80  # binary magnitudes beyond these fall into the outermost classes


@dataclass(frozen=True)
class Evidence:
    """One event, how often fresh draws from two inputs fell into it, and the epsilon that this forces.

    Attributes
    ----------
    kind : str
        ``values``, ``tails``, ``regions`` or ``low bits``.
    event : str
        The set of outputs, in words.
    inputs : tuple
        The input that favours the event, and the other.
    hits : tuple of int
        Of ``draws`` fresh draws from each.
    epsilon : float
        Lower confidence bound; all evidence of one audit holds together.
    """

    kind: str
    event: str
    inputs: tuple[Any, Any]
    hits: tuple[int, int]
    draws: int
    epsilon: float

    def __str__(self) -> str:
        """Return the finding in a sentence."""
        share, other = (f"{100 * hits / self.draws:.3g} %" if hits else "none" for hits in self.hits)
        return (
            f"{share} of the outputs from {self.inputs[0]} and {other} of those from {self.inputs[1]} "
            f"{self.event}: epsilon is at least {show_down(self.epsilon)}"
        )


@dataclass(frozen=True)
class SamplerAudit(Result):
    """What draws alone reveal about a sampler.

    Attributes
    ----------
    epsilon_lower : float
        With ``confidence``, no smaller epsilon holds (at ``delta``).
    epsilon : float or None
        The stated one.
    draws : int
        Per input.
    evidence : tuple of Evidence
        One event of each kind, strongest first.
    replays : tuple of Replay
        Ways in which draws might come back.
    spent : float
        Probability that any evidence claims too much: what its bounds spent, at most ``1 - confidence``.
    serial : Dependence or None
        The strongest pattern between draws in a row, from the first input.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.release import audit_sampler
    >>> rng = np.random.default_rng(0)
    >>> found = audit_sampler(lambda x: rng.random(x.size) < np.where(x > 0, 0.9, 0.1), [0, 1], epsilon=1, draws=2000)
    >>> found.violates, found.passed, bool(1.5 < found.epsilon_lower < np.log(9))
    (True, False, True)
    >>> found.evidence[0].kind
    'values'
    """

    epsilon_lower: float
    epsilon: float | None
    delta: float
    confidence: float
    draws: int
    evidence: tuple[Evidence, ...]
    replays: tuple[Replay, ...]
    spent: float = 0.0
    serial: Dependence | None = None

    def __post_init__(self) -> None:
        check_spent(self.spent, self.confidence)

    @property
    def violates(self) -> bool:
        """Whether the stated epsilon is refuted."""
        return self.epsilon is not None and self.epsilon_lower > self.epsilon

    @property
    def findings(self) -> tuple[str, ...]:
        """Every fault in a sentence."""
        beyond = [] if self.epsilon is None else [str(e) for e in self.evidence if e.epsilon > self.epsilon]
        again = [str(replay) for replay in self.replays if replay.fault]
        return (*beyond, *again, *([str(self.serial)] if self.serial is not None and self.serial.fault else []))

    @property
    def passed(self) -> bool:
        """Whether no fault was found; that none was found is not a proof."""
        return not self.findings

    def __str__(self) -> str:
        """Return the bound and every finding."""
        sure, each = show_down(100 * self.confidence), f"{self.draws:,} draws per input"
        told = "" if self.epsilon is None else f", stated {show_up(self.epsilon)}"
        lines = [f"epsilon is at least {show_down(self.epsilon_lower)} ({sure} % confidence, {each}{told})"]
        lines += [f"  fault: {finding}" for finding in self.findings]
        lines += [f"  {replay}" for replay in self.replays if not replay.fault]
        lines += [] if self.serial is None or self.serial.fault else [f"  {self.serial}"]
        return "\n".join([*lines, "faults found" if self.findings else "no fault found (which is no proof)"])

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON form."""
        return asdict(self) | {"violates": self.violates, "passed": self.passed, "findings": list(self.findings)}


def audit_sampler(
    sampler: Sampler,
    inputs: ArrayLike,
    epsilon: float | None = None,
    delta: float = 0.0,
    *,
    draws: int = 200_000,
    confidence: float = 0.999,
) -> SamplerAudit:
    """Bound from below the epsilon of any sampler, from its draws alone, and try to make it repeat itself.

    Claim: if the draws within a call are independent, ``epsilon_lower`` exceeds the epsilon that the sampler keeps at
    ``delta`` with probability at most ``1 - confidence``, whatever the sampler.

    Parameters
    ----------
    sampler : callable
        From an array of true values to an array of released ones, one each.
    inputs : array_like
        At least two true values; opposite ends of the range first of all.
    epsilon, delta : float
        The promise to refute; without ``epsilon`` the bound is only reported.
    draws : int
        Per input.
    confidence : float

    Returns
    -------
    SamplerAudit

    Raises
    ------
    ValueError
        For fewer than two different inputs, and a sampler that fails or returns another shape, long doubles, or a type
        that depends on the input.

    Notes
    -----
    Kinds of events: repeated ``values``, bit for bit (-0.0 is not 0.0, and NaN no infinity); ``tails``; ``regions`` of
    high likelihood ratio; ``low bits``: classes of magnitude and trailing zeros of the binary mantissa, in which the
    rounding of floating-point noise shows through (Mironov 2012; Haney et al. 2022; Casacuberta et al. 2022).  A fault
    that moves every share by less than about sqrt(1/draws), or ties rows at random places, is not seen: use
    `audit_policy`, which reads the integers.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.release import audit_sampler
    >>> rng = np.random.default_rng(0)
    >>> found = audit_sampler(lambda x: x + rng.laplace(size=x.shape), [0.0, 1.0], epsilon=1.0)
    >>> found.violates, found.evidence[0].kind
    (True, 'low bits')
    """
    true = _checked(np.asarray(inputs), epsilon, delta, draws, confidence)
    sampler = guarded(sampler)
    drawn = stacked([sampler(np.full(draws, value)) for value in true])
    first, second = draws // 4, draws // 2
    kinds = list(_kinds(drawn[:, :first]))
    risk = Risk.of(confidence)
    evidence = []
    for cells, part in zip(kinds, risk.split(len(kinds)), strict=True):
        order, choose, test = (_counts(cells, draws_of) for draws_of in np.split(drawn, [first, second], axis=1))
        a, b, chosen = _best(cells, order, choose, delta, float(part.each))
        pair, hits = (true[a].item(), true[b].item()), (int(test[a, chosen].sum()), int(test[b, chosen].sum()))
        bound = max(0.0, float(_bound(hits[0], hits[1], draws - second, delta, part.spend())))
        evidence.append(Evidence(cells.kind, cells.describe(chosen), pair, hits, draws - second, bound))
    evidence.sort(key=lambda e: -e.epsilon)
    again = replays(lambda values: words(sampler(values)), np.repeat(true, -(-draws // (2 * len(true))) * 2))
    spent = float_below(risk.spent)
    serial = dependence([sampler(np.repeat(true[:1], min(LENGTH, draws)))])
    return SamplerAudit(evidence[0].epsilon, epsilon, delta, confidence, draws, tuple(evidence), again, spent, serial)


def _checked(true: NDArray[Any], epsilon: float | None, delta: float, draws: int, confidence: float) -> NDArray[Any]:
    if true.ndim != 1 or len(np.unique(true)) < 2:
        raise ValueError(f"inputs must be at least two different values, got {true.tolist()}; give the range's ends")
    if epsilon is not None and not epsilon > 0:
        raise ValueError(f"epsilon must be positive, got {epsilon!r}")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta!r}")
    if draws < FEWEST_DRAWS:
        raise ValueError(f"draws must be at least {FEWEST_DRAWS}, got {draws}; fewer show nothing")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    return true


@dataclass(frozen=True)
class Cells:
    """Outputs cut into numbered cells; events are unions of them.

    ``code`` gives each output's cell.  ``ordered``: only ends of the numbering are events (tails).
    """

    kind: str
    size: int
    code: Callable[[NDArray[Any]], Indices]
    describe: Callable[[Indices], str]
    ordered: bool = False


def _kinds(drawn: NDArray[Any]) -> Iterator[Cells]:
    """Yield the kinds of events that make sense for such outputs; cells may depend on the ordering draws alone."""
    yield _values(drawn)
    if drawn.dtype.kind in "fiub":
        yield _intervals(drawn, "tails", TAILS)
        yield _intervals(drawn, "regions", REGIONS)
        last = (LARGEST - SMALLEST + 1) * 64 + 1
        yield Cells("low bits", last + 1, low_bits, _say_low_bits)


def _values(drawn: NDArray[Any]) -> Cells:
    """Cells are the values that occur often; the last cell holds all others."""
    found, counts = np.unique(words(drawn), return_counts=True)
    atoms = found[counts >= OFTEN]

    def code(outputs: NDArray[Any]) -> Indices:
        if not atoms.size:
            return np.zeros(outputs.shape, dtype=np.int64)
        bits = words(outputs)
        at = np.minimum(np.searchsorted(atoms, bits), atoms.size - 1)
        return np.where(atoms[at] == bits, at, atoms.size).astype(np.int64)

    def describe(chosen: Indices) -> str:
        names = [str(value) for value in atoms.view(drawn.dtype)[chosen[chosen < atoms.size]].tolist()]
        rest = ["any rarer value"] * bool((chosen == atoms.size).any())
        shown = names[:3] + [f"{len(names) - 3} more values"] * (len(names) > 3) + rest
        return f"are {' or '.join(shown)}"

    return Cells("values", atoms.size + 1, code, describe)


def _intervals(drawn: NDArray[Any], kind: str, most: int) -> Cells:
    """Cells are intervals (edge, next edge] of about equal share over all inputs."""
    edges = np.unique(np.quantile(doubles(drawn), np.arange(1, most) / most, method="inverted_cdf"))

    def code(outputs: NDArray[Any]) -> Indices:
        return np.asarray(np.searchsorted(edges, doubles(outputs), side="left"), dtype=np.int64)

    def describe(chosen: Indices) -> str:
        low, high = int(chosen.min()), int(chosen.max())
        if chosen.size < high - low + 1:
            return f"lie in {chosen.size} of {edges.size + 1} intervals"
        above = f"above {edges[low - 1]:.6g}" if low > 0 else ""
        upto = f"at most {edges[high]:.6g}" if high < edges.size else ""
        return f"are {' and '.join(filter(None, (above, upto))) or 'anything'}"

    return Cells(kind, edges.size + 1, code, describe, ordered=kind == "tails")


def low_bits(outputs: NDArray[Any]) -> Indices:
    """Return the class of each number: its binary magnitude, and the trailing zeros of its 53-bit mantissa.

    Of integers, which may have more bits, they are the trailing zeros of the integer itself.

    The noise of a floating-point sampler, added to x, is rounded to the grid of doubles near x: which low bits can
    be set tells x apart from x', sometimes for certain.

    Examples
    --------
    >>> low_bits(np.array([0.5, 0.75, 0.1, 1 + 0.1 - 1])) % 64  # the last one has lost four bits to the 1
    array([52, 51,  1,  5])
    """
    numbers = doubles(outputs)
    usual = np.isfinite(numbers) & (numbers != 0)
    mantissa, exponent = np.frexp(np.where(usual, np.abs(numbers), 1.0))
    whole = outputs.astype(np.uint64) if outputs.dtype.kind in "iu" else np.ldexp(mantissa, 53).astype(np.uint64)
    zeros = np.frexp((whole & (~whole + np.uint64(1))).astype(np.float64))[1] - 1
    classes = (np.clip(exponent, SMALLEST, LARGEST) - SMALLEST) * 64 + zeros
    unusual = (LARGEST - SMALLEST + 1) * 64 + (numbers != 0)  # zero, or not finite
    return np.asarray(np.where(usual, classes, unusual), dtype=np.int64)


def _say_low_bits(chosen: Indices) -> str:
    return f"fall into {chosen.size} classes of magnitude and trailing zero bits"


def _counts(cells: Cells, drawn: NDArray[Any]) -> Indices:
    """Return how many draws fell into each cell, shape (inputs, cells)."""
    return np.stack([np.bincount(cells.code(row), minlength=cells.size) for row in drawn])


def _best(cells: Cells, order: Indices, choose: Indices, delta: float, miss: float) -> tuple[int, int, Indices]:
    """Return the pair of inputs and the cells of the event whose bound looks largest; rankings come from ``order``."""
    seen = np.flatnonzero(order.any(axis=0))
    found: tuple[float, int, int, Indices] = (-math.inf, 0, 1, seen)
    log, draws = np.log(order[:, seen] + 0.5), int(choose[0].sum())
    sizes = np.unique(np.geomspace(1, seen.size, min(seen.size, MOST_CANDIDATES)).astype(np.int64))
    for a, b in permutations(range(len(order)), 2):
        rankings = (seen, seen[::-1]) if cells.ordered else (seen[np.argsort(log[b] - log[a], kind="stable")],)
        for ranking in rankings:
            hits_a, hits_b = (np.cumsum(choose[i][ranking])[sizes - 1] for i in (a, b))
            bounds = _bound(hits_a, hits_b, draws, delta, miss)
            at = int(np.argmax(bounds))
            if bounds[at] > found[0]:
                found = float(bounds[at]), a, b, np.sort(ranking[: sizes[at]])
    return found[1:]


def _bound(hits_a: ArrayLike, hits_b: ArrayLike, draws: int, delta: float, miss: float) -> Floats:
    """Return ln((p - delta)/q), p bounded from below and q from above; both hold but for a probability ``miss``.

    An interval may miss by ``miss / 2`` on either side, and one side of each is used.
    """
    lower = clopper_pearson(hits_a, draws, miss).lower
    return log_ratio(down(lower - delta), clopper_pearson(hits_b, draws, miss).upper)


def log_ratio(p: Floats, q: Floats) -> Floats:
    """Return ln(p/q) for probabilities, rounded down; some -700 where p is not positive.

    Examples
    --------
    >>> bool(log_ratio(np.array(0.5), np.array(0.25)) <= np.log(2))
    True
    """
    return down(np.log(np.maximum(p, np.finfo(float).tiny)), ulps=LOG_ULPS) - up(np.log(q), ulps=LOG_ULPS)
