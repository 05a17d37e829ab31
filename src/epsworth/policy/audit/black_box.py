"""A statistical audit: any sampler as a black box, and a lower confidence bound on the epsilon it really keeps.

An event whose share of the outputs is p from one input and q from another forces e^epsilon >= (p - delta)/q.  Draws
have three uses, kept apart: a quarter orders cells of outputs by likelihood ratio, a quarter chooses one event of each
kind, and the fresh half bounds the two shares of the chosen events.  So the bound holds however cleverly they were
sought.  Before that, a sampler is made to repeat itself: whoever can replay its noise can take it off.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import permutations, product
from math import prod
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, Indices
from epsworth.bounds import Risk, check_spent, clopper_pearson
from epsworth.policy.audit.serial import LENGTH, Dependence, dependence
from epsworth.policy.columns import Column
from epsworth.refusals import alone
from epsworth.results import Result
from epsworth.rounding import down, float_above, float_below, percent_down, show_down, show_up, up

if TYPE_CHECKING:
    from epsworth.policy.policy import Policy
    from epsworth.tailored.mechanism import Tailoring

MOST_OUTCOMES = 1 << 16
Released = dict[str, Any]


@alone()
def outcomes(policy: Policy, record: Mapping[str, Any] | NDArray[Any]) -> list[tuple[Any, Fraction]]:
    """Return what `Policy.outcomes` promises."""
    if isinstance(record, np.ndarray):
        return _of_row(policy, record)
    if not isinstance(record, Mapping):
        raise ValueError(f"record: must be a mapping from column to value, or a row, got a {type(record).__name__}")
    if policy.sampling is not None:
        raise ValueError("outcomes: a policy that samples features is not listed; ask stability_of_policy")
    tailoring = policy.tailoring
    columns = {rule.feature.name: Column(rule) for rule in policy.rules}
    for name in columns:
        if name not in record:
            raise ValueError(f"record: lacks {name!r}, which the policy perturbs; give every column")
    kept = policy.passing.kept(list(record), policy.names)
    drawn = {name: _of_rule(column, record[name]) for name, column in columns.items()}
    if prod(map(len, drawn.values())) > MOST_OUTCOMES:
        raise ValueError(
            f"outcomes: there are more than {MOST_OUTCOMES} of what the rules release; use grids of fewer points"
        )
    found: list[tuple[Released, Fraction]] = []
    for chosen in product(*drawn.values()):
        share = prod((part for _, part in chosen), start=Fraction(1))
        values = {name: value for name, (value, _) in zip(columns, chosen, strict=True)}
        if tailoring is None:
            found.append(({**record, **values}, share))
        else:
            found += [(sent, share * part) for sent, part in _tailored(tailoring, record, values)]
    left = {name for name in record if name not in kept}
    return [({n: v for n, v in sent.items() if n not in left}, part) for sent, part in found] if left else found


def _of_row(policy: Policy, row: NDArray[Any]) -> list[tuple[Any, Fraction]]:
    """Return the same for a row of an array, whose columns are x0, x1, ..: what is sent are tuples."""
    if row.ndim != 1:
        raise ValueError(f"record: must be one row, got shape {row.shape}")
    names = [f"x{j}" for j in range(len(row))]
    found = outcomes(policy, dict(zip(names, row.tolist(), strict=True)))
    kept = policy.passing.kept(names, policy.names)
    return [(tuple(sent.get(name) for name in kept), share) for sent, share in found]


def _of_rule(column: Column, value: Any) -> list[tuple[Any, Fraction]]:
    """Return what one value is released as; points that are rounded to one value are added up."""
    given = np.empty(1, dtype=object)
    given[0] = value
    index = int(column.encode(given)[0])
    weights, total = column.rule.kernel.weights(index), column.rule.kernel.total(index)
    shares: dict[Any, Fraction] = {}
    for sent, weight in zip(column.values.tolist(), weights, strict=True):
        if weight:
            shares[sent] = shares.get(sent, Fraction(0)) + Fraction(weight, total)
    return list(shares.items())


def _tailored(
    tailoring: Tailoring, record: Mapping[str, Any], released: Mapping[str, Any]
) -> list[tuple[Released, Fraction]]:
    """Return what is sent where rules have released some columns: the region alone sees their true values."""
    values = tailoring.released_values
    found = tailoring.outcomes(_places(tailoring, record), _places(tailoring, {**record, **released}))
    public = {name: value for name, value in record.items() if name not in values}  # where those stood, or not, is lost
    shares: dict[tuple[Any, ...], Fraction] = {}  # of a narrow range, several places have one value
    for places, share in found:
        sent = tuple(column[place] for column, place in zip(values.values(), places, strict=True))
        shares[sent] = shares.get(sent, Fraction(0)) + share
    return [({**public, **released, **dict(zip(values, sent, strict=True))}, share) for sent, share in shares.items()]


def _places(tailoring: Tailoring, record: Mapping[str, Any]) -> Indices:
    return np.array([grid.place(record.get(grid.name)) for grid in tailoring.grids], dtype=np.int64)


Sampler = Callable[[NDArray[Any]], NDArray[Any]]
CHANCE = 4e-9  # probability that chance alone makes a faultless sampler look replayable, by any attempt
# Of the C library's power (glibc's manual, "Known Maximum Errors": pow, 1 unit); an allowance: no input is known that
# needs it, as `up` takes one more step anyway.
POWER_ULPS = 1
PATIENCE = 60.0  # seconds for a child
ENOUGH = 20.0  # seconds for calls in a row, of a slow sampler
CALLS = 4096  # in a row: seeds of 20 bits come back in all but 0.04 % of the tries
ROWS = (64, 256, 1024)  # of such a call: the first that leaves nothing to chance
TRIALS = 1 << 14  # pairs of draws, at least, that tell how often two agree
STATE = 20250101  # any state: what matters is that it is set twice


@dataclass(frozen=True)
class Replay:
    """One attempt.

    Attributes
    ----------
    attempt : str
        What was done.
    same : bool or None
        Whether both blocks of draws were identical; None where the attempt could tell nothing.
    chance : float
        Largest probability that independent blocks are identical.
    fault : bool
        Whether the sampler repeated itself, and not by chance.
    """

    attempt: str
    same: bool | None
    chance: float
    fault: bool

    def __str__(self) -> str:
        """Return the attempt's outcome in a sentence."""
        if self.same is None:
            return f"{self.attempt}: left out, as it could tell nothing here"
        if not self.same:
            return f"{self.attempt}: different draws"
        chance = f"independent ones agree with probability at most {show_up(self.chance, 1)}"
        told = "the randomness can be replayed" if self.fault else "chance explains it, so it says nothing"
        return f"{self.attempt}: the same draws ({chance}); {told}"


def replays(sampler: Sampler, values: NDArray[Any], risk: Risk | None = None) -> tuple[Replay, ...]:
    """Call the sampler twice on the same values in each way that betrays a seeded or shared generator.

    Claim: draws that are independent, within calls and between them, are called a fault with at most the
    probability of ``risk``.

    Parameters
    ----------
    values : ndarray
        True values; each stands at two neighbouring places 2j, 2j + 1, from which the chance of equal draws is
        learnt.
    risk : Risk, optional
        By default of `CHANCE`.
    """
    usual = digest(sampler(values)), digest(sampler(values))
    drawn = np.asarray(sampler(values))
    with same_state():
        first = digest(sampler(values))
    with same_state():
        second = digest(sampler(values))
    children = in_children(lambda: digest(sampler(values)))
    found = {
        "two calls in a row": usual[0] == usual[1],
        "the generators of random and numpy set to one state": first == second,
        "two processes forked from one parent": None if None in children else children[0] == children[1],
    }
    of_bound, of_calls, *of_attempts = (risk or Risk(CHANCE)).split(2 + len(found))
    agreeing = _agreeing(drawn, of_bound)
    chance = min(1.0, float_above(Fraction(agreeing) + of_bound.each))
    attempts = (
        Replay(attempt, same, chance, same is True and agreeing <= allowed.spend())
        for (attempt, same), allowed in zip(found.items(), of_attempts, strict=True)
    )
    return *attempts, many_calls(sampler, values, of_calls)


def many_calls(sampler: Sampler, values: NDArray[Any], risk: Risk) -> Replay:
    """Call the sampler `CALLS` times on few values, and look for two calls that drew the same: few seeds collide.

    Claim: independent draws are called a fault with at most the probability of ``risk``.  Seeds of b bits come back
    with probability 1 - e^(-CALLS^2 / 2^(b+1)), if the calls are not cut short after `ENOUGH`.
    """
    of_bounds, of_calls = risk.split(2)
    bounds, allowed = of_bounds.split(len(ROWS)), of_calls.spend()
    pairs, chance = CALLS * (CALLS - 1) // 2, 1.0
    for rows in ROWS:
        places = np.linspace(0, values.size - 1, min(rows, values.size)).astype(np.int64)
        block = values[places]
        copies = 2 * max(1, -(-TRIALS // block.size))
        drawn = np.asarray(sampler(np.tile(block, copies))).reshape(copies // 2, 2, -1)
        bound = bounds.take()
        agree, trials = int((drawn[:, 0] == drawn[:, 1]).sum()), drawn[:, 0].size
        one = min(1.0, up(float(bound.interval(agree, trials).upper) ** drawn.shape[2], ulps=POWER_ULPS))
        chance = min(1.0, up(pairs * one))
        if chance <= allowed:
            break
    else:
        return Replay(f"{CALLS:,} calls in a row", None, chance, False)
    started, seen = time.monotonic(), set[bytes]()
    for call in range(1, CALLS + 1):
        seen.add(digest(sampler(block)))
        if len(seen) < call or time.monotonic() - started > ENOUGH:
            break
    same = len(seen) < call
    return Replay(f"{call:,} calls in a row, of {block.size} rows each", same, chance, same)


def digest(outputs: Any) -> bytes:
    """Return a digest of the outputs of a call."""
    drawn = np.asarray(outputs)
    return hashlib.sha256((drawn.astype(str) if drawn.dtype.kind == "O" else drawn).tobytes()).digest()


def _agreeing(drawn: NDArray[Any], risk: Risk) -> float:
    """Return a bound on the probability that independent blocks agree everywhere.

    It is prod c_i <= (mean c)^n for the probabilities c_i that two draws at place i agree.  Neighbouring draws from
    the same value bound their mean from above.
    """
    pairs = drawn[: drawn.size // 2 * 2].reshape(-1, 2)
    agree = int((pairs[:, 0] == pairs[:, 1]).sum())
    return min(1.0, up(float(risk.interval(agree, len(pairs)).upper) ** drawn.size, ulps=POWER_ULPS))


@contextmanager
def same_state() -> Iterator[None]:
    """Set the process's global generators to one public state, and put them back."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  the global generator is what is tested
    random.seed(STATE)
    np.random.seed(STATE)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def in_children(call: Callable[[], bytes]) -> list[bytes | None]:
    """Return what two children forked from here say; None for one that did not answer."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return [None, None]
    context = multiprocessing.get_context("fork")
    started = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the child may hang, see below
        for _ in range(2):
            here, there = context.Pipe(duplex=False)
            child = context.Process(target=_answer, args=(call, there), daemon=True)
            child.start()
            there.close()
            started.append((child, here))
    answers: list[bytes | None] = []
    for child, here in started:
        try:
            answers.append(here.recv_bytes() if here.poll(PATIENCE) else None)
        except EOFError:
            answers.append(None)
        child.kill()
        child.join()
        here.close()
    return answers


def _answer(call: Callable[[], bytes], there: Connection) -> None:
    there.send_bytes(call())


NUMBERS = "fiubcmM"  # kinds of types whose values are all of one size


def guarded(sampler: Sampler) -> Sampler:
    """Refuse in one sentence what no audit can use; numbers stay as they are, objects become text."""

    def call(values: NDArray[Any]) -> NDArray[Any]:
        try:
            drawn = np.asarray(sampler(values.copy()))
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            told = repr(error) if isinstance(error, SystemExit) else error
            raise ValueError(f"the sampler failed on {len(values)} values: {told}; repair it") from error
        if drawn.shape != values.shape:
            raise ValueError(
                f"the sampler must return one output per input, shape {values.shape}, got {drawn.shape}; repair it"
            )
        if drawn.dtype.type in (np.longdouble, np.clongdouble) and drawn.dtype.itemsize > np.dtype(float).itemsize:
            raise ValueError("the sampler returns long doubles, whose bytes hold padding; return doubles")
        return drawn.astype(drawn.dtype.newbyteorder("=") if drawn.dtype.kind in NUMBERS else str)

    return call


def stacked(drawn: list[NDArray[Any]]) -> NDArray[Any]:
    """Stack the draws of all inputs; a common type of different ones would round some."""
    types = {str(draws.dtype) for draws in drawn if draws.dtype.kind != "U"}
    if len(types) + any(draws.dtype.kind == "U" for draws in drawn) > 1:
        raise ValueError("the sampler's type of outputs depends on the input and tells of it; return one type")
    return np.stack(drawn)


def words(outputs: NDArray[Any]) -> NDArray[Any]:
    """Return what stands in memory, word by word, where two outputs are equal only if all their bits are."""
    if outputs.dtype.kind not in NUMBERS:
        return outputs
    size = outputs.dtype.itemsize
    return np.ascontiguousarray(outputs).view(f"u{size}" if size <= 8 else f"S{size}")


def doubles(outputs: NDArray[Any]) -> Floats:
    """Return outputs to be ordered: NaN becomes infinity, and large integers are rounded."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(outputs.astype(np.float64), nan=np.inf, posinf=np.inf, neginf=-np.inf)


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
    >>> from epsworth.policy import audit_sampler
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
        sure, each = percent_down(self.confidence, 4), f"{self.draws:,} draws per input"
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
    >>> from epsworth.policy import audit_sampler
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
