"""What words become, audited for every input: runs of words against weights, and the code that draws against runs.

Losses are ratios of sums of integers, their logarithms rounded up.  Nothing random is tested here but words that are
drawn to be looked at: a faultless kernel never fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import lcm, log
from random import SystemRandom

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats, Indices
from epsworth.mechanisms import Kernel, Pieces
from epsworth.mechanisms.kernels import CHUNK
from epsworth.mechanisms.words import SystemWords, Words, WordSource
from epsworth.policy.policy import Policy
from epsworth.rounding import show_up, up

EXHAUSTIVE = 256  # points up to which the weights of every input are read
EXHAUSTIVE_DELTA = 64  # points up to which delta is computed for every pair of inputs, not for those with an end alone
SPOTS = 8  # random inputs whose weights are read on larger grids, beside the ends and the middle
DRAWS = 1 << 17  # per input whose draws are tested
CELLS = 32  # groups of outputs whose shares are tested
DIGITS = 120
UP, DOWN = Context(prec=DIGITS, rounding=ROUND_CEILING), Context(prec=DIGITS, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Check:
    """One obligation, whether it is met, and what was found."""

    name: str
    passed: bool
    says: str


def _inputs(points: int) -> list[int]:
    last = points - 1
    if points <= EXHAUSTIVE:
        return list(range(points))
    return sorted({0, 1, last // 2, last // 2 + 1, last - 1, last, *SystemRandom().sample(range(points), SPOTS)})


class Rows:
    """The weights of some inputs, each with its own sum: what is drawn has probabilities weight / sum."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.inputs = kernel, _inputs(kernel.points)
        self.weights = {i: kernel.weights(i) for i in self.inputs}
        self.sums = {i: sum(row) for i, row in self.weights.items()}

    @property
    def faults(self) -> list[int]:
        """Inputs whose weights are no probabilities, or do not add up to the total that is drawn from."""
        kernel = self.kernel
        shapes = {i: len(row) == kernel.points and min(row) >= 0 for i, row in self.weights.items()}
        return [i for i in self.inputs if not shapes[i] or self.sums[i] != kernel.total(i)]

    def scaled(self) -> Iterator[list[int]]:
        """Yield every row over one common total."""
        scale = lcm(*self.sums.values())
        for i, row in self.weights.items():
            factor = scale // self.sums[i]
            yield row if factor == 1 else [factor * weight for weight in row]

    @cached_property
    def groups(self) -> dict[int, tuple[Indices, Floats]]:
        """For the ends and the middle: the group of every output, and the groups' exact shares; about even groups."""
        found, last = {}, self.kernel.points - 1
        for i in sorted({0, last // 2, last}):
            row, total = self.weights[i], self.sums[i]
            group = [min(before * CELLS // total, CELLS - 1) for before in accumulate(row[:-1], initial=0)]
            masses = [0] * CELLS
            for at, weight in zip(group, row, strict=True):
                masses[at] += weight
            found[i] = np.array(group), np.array([mass / total for mass in masses])
        return found

    @cached_property
    def loss(self) -> Fraction | None:
        """The largest log ratio of the probabilities of one output, above by less than 1e-100; None: infinite."""
        rows = self.scaled()
        largest = smallest = next(rows)
        for row in rows:
            largest, smallest = list(map(max, largest, row)), list(map(min, smallest, row))
        most, least = 1, 1
        for a, b in zip(largest, smallest, strict=True):
            if a * least > most * b:
                most, least = a, b
        return log_above(most, least) if least else None

    def delta(self, epsilon: Decimal) -> Fraction:
        """Return the largest delta that a pair of inputs needs at ``epsilon``."""
        bound = Fraction(DOWN.next_minus(DOWN.exp(epsilon)))
        ends = {self.inputs[0], self.inputs[-1]}
        worst = Fraction(0)
        for i in self.inputs:
            for j in self.inputs:
                if i == j or (len(self.inputs) > EXHAUSTIVE_DELTA and not ends & {i, j}):
                    continue
                a, b = self.sums[j] * bound.denominator, self.sums[i] * bound.numerator
                excess = sum(max(0, a * p - b * q) for p, q in zip(self.weights[i], self.weights[j], strict=True))
                worst = max(worst, Fraction(excess, self.sums[i] * a))
        return worst


def log_above(numerator: int, denominator: int) -> Fraction:
    """Return the logarithm of a ratio, too large by less than 1e-100."""
    return Fraction(UP.next_plus(UP.ln(UP.divide(Decimal(numerator), Decimal(denominator)))))


FEWEST, MOST = 256, 4096  # random words per input
TRIED = 1 << 20  # of all inputs together, where there are not more inputs
UNSEEN = 1e-9  # probability with which random words miss a fault of the share that is told
FEW = 4  # runs of a kernel whose runs are all looked at


@dataclass
class Given(WordSource):
    """Words that are given, in their order."""

    private = False
    left: Words

    def take(self, count: int) -> Words:
        """Return the next words."""
        if count > self.left.size:
            raise ArithmeticError("more words are drawn than a draw takes")
        taken, self.left = self.left[:count], self.left[count:]
        return taken


@dataclass
class Recorded(WordSource):
    """Words of the operating system, all of which are kept to be compared with what they became."""

    private = False
    source: WordSource = field(default_factory=SystemWords)
    taken: list[Words] = field(default_factory=list)

    def take(self, count: int) -> Words:
        """Return fresh words, read-only: whoever draws must not change what is kept."""
        self.taken.append(self.source.take(count).copy())
        self.taken[-1].flags.writeable = False
        return self.taken[-1]

    def again(self) -> Given:
        """Return the same words once more."""
        return Given(np.concatenate([np.empty(0, dtype=np.uint64), *self.taken]))


def words_of(points: int) -> int:
    """Return how many random words are tried for every input."""
    return max(FEWEST, min(MOST, TRIED // points))


def excluded(points: int) -> float:
    """Return the share of an input's words of which a fault is missed with probability at most `UNSEEN`, rounded up.

    Of R random words for each input all miss a fault in a share f of one's words with probability at most e^(-f R);
    over all inputs together, points e^(-f R).

    Examples
    --------
    >>> excluded(1 << 16)
    0.1242...
    """
    return float(up(log(points / UNSEEN) / words_of(points), ulps=8))


def audit_words(rows: Rows) -> tuple[Check, Fraction | None]:
    """Return whether all words of every input become what its weights say, and the largest loss; None: infinite."""
    kernel = rows.kernel
    told = next(_faults(rows), None)
    share = show_up(100 * excluded(kernel.points), 3)
    says = (
        f"runs of words add up to the weights of all {kernel.points:,} inputs, and draws follow them: {share} % of any "
        "input's words are the most that a fault could hold"
    )
    return Check("words", told is None, told or says), all_inputs(rows)


def _faults(rows: Rows) -> Iterator[str]:
    """Yield what is wrong: gaps between runs, sums that are not the weights, draws that do not follow."""
    kernel, every = rows.kernel, np.arange(rows.kernel.points)
    for share, part in kernel.parts():
        if share and not all(part.pieces(block).whole() for block in _blocks(part, every, every.size)):
            yield f"runs of words of {part.name} leave a gap, or overlap"
    for i in rows.inputs:
        if not _same(kernel, i, rows.weights[i]):
            yield f"the words that lead from input {i} to its outputs do not add up to its weights"
    source = SystemWords()
    for block in _blocks(kernel, every, max(1, CHUNK // words_of(kernel.points))):
        if (wrong := _differing(kernel, block, source)) is not None:
            yield f"input {wrong}: a word leads elsewhere than its run says"
    for i in sorted({0, kernel.points // 2, kernel.points - 1}):
        if _wrong_ends(kernel, i):
            yield f"input {i}: an end of a run leads elsewhere than it says"


def _blocks(kernel: Kernel, every: Indices, size: int) -> Iterator[Indices]:
    """Yield inputs that are looked at together; small kernels may tell runs of one at a time."""
    size = 1 if kernel.points <= EXHAUSTIVE else size
    for start in range(0, every.size, size):
        yield every[start : start + size]


def _same(kernel: Kernel, i: int, weights: list[int]) -> bool:
    """Compare an input's weights with the lengths of its runs: proportional, over all outputs."""
    mixed = [0] * kernel.points
    for share, part in kernel.parts():
        lengths = part.pieces(i).weights()
        whole = sum(lengths) if len(kernel.parts()) > 1 else 1
        if whole not in (1, 1 << 64):  # parts never reject words
            return False
        mixed = [m + share * length for m, length in zip(mixed, lengths, strict=True)]
    a, b = sum(mixed), sum(weights)
    return a > 0 and (mixed == weights if a == b else all(x * b == y * a for x, y in zip(mixed, weights, strict=True)))


def _differing(kernel: Kernel, inputs: Indices, source: WordSource) -> int | None:
    """Return an input some of whose words lead elsewhere than its runs say: ends of pieces, and random words."""
    random = words_of(kernel.points)
    parts = [_Part(part.pieces(inputs), share) for share, part in kernel.parts()]
    ends = [part.ends() for part in parts]
    most = max(end.shape[1] for end in ends)
    columns = [_beside(np.resize(end.T, (most, len(end))).T, random, source) for end in ends]
    coin = _coins(parts, inputs.size, most + random, source)
    flat = np.repeat(inputs, most + random)
    given = [np.broadcast_to(words, (inputs.size, most + random)).ravel() for words in (*coin, *columns)]
    drawn = _outcomes(kernel, flat, Given(np.concatenate(given)))
    told = _chosen(parts, coin[0] if coin else None, [p.pieces.follow(w) for p, w in zip(parts, columns, strict=True)])
    if drawn is None or drawn.shape != flat.shape:
        return int(inputs[0])
    wrong = np.flatnonzero(drawn != told.ravel())
    return int(flat[wrong[0]]) if wrong.size else None


def _beside(ends: Words, random: int, source: WordSource) -> Words:
    """Return ends of pieces, and random words beside them."""
    return np.concatenate([ends, source.words(len(ends) * random).reshape(len(ends), random)], axis=1)


@dataclass
class _Part:
    pieces: Pieces
    share: int

    def ends(self) -> Words:
        """Return both ends of the first, a middle and the last piece of some runs, shape ``(inputs or 1, ends)``.

        One row is for all inputs, where these share a table; they then share random words, too.
        """
        runs = len(self.pieces.first)
        chosen = sorted({0, runs // 2, runs - 1} | set(range(runs if runs <= FEW else 0)))
        found = []
        for run in chosen:
            first, step, count = (part[run] for part in (self.pieces.first, self.pieces.step, self.pieces.count))
            for piece in (0 * count, count // 2, count - 1):
                start = first + piece.astype(np.uint64) * step
                found += [start, start + (step - np.uint64(1))]
        return np.stack([np.atleast_1d(end) for end in found], axis=1)


def _coins(parts: list[_Part], inputs: int, width: int, source: WordSource) -> list[Words]:
    """Return words that choose between two parts: both ends of either, then random ones; none where there is one."""
    if len(parts) == 1:
        return []
    share = parts[0].share
    coins = source.words(inputs * width).reshape(inputs, width).copy()
    ends = np.array([0, max(share - 1, 0), share, (1 << 64) - 1], dtype=np.uint64)
    coins[:, : ends.size] = ends
    return [coins]


def _chosen(parts: list[_Part], coin: Words | None, told: list[Indices]) -> Indices:
    return told[0] if coin is None else np.where(coin < np.uint64(parts[0].share), told[0], told[1])


def _outcomes(kernel: Kernel, inputs: Indices, source: Given) -> Indices | None:
    """Return what is drawn from words, in the order of the inputs; None where it takes more words, or fewer."""
    try:
        drawn = np.asarray(kernel.outcomes(inputs, source))
    except ArithmeticError:
        return None
    return None if source.left.size else drawn


def _wrong_ends(kernel: Kernel, i: int) -> bool:
    """Tell whether an end of any run of an input leads elsewhere than it says, where runs are of single words."""
    if len(kernel.parts()) > 1:
        return False
    pieces = kernel.pieces(i)
    ends = np.stack([pieces.first, pieces.first + (pieces.step * pieces.count.astype(np.uint64) - np.uint64(1))])
    words = np.ascontiguousarray(ends.reshape(1, -1))
    drawn = _outcomes(kernel, np.full(words.size, i), Given(words.ravel()))
    return drawn is None or not np.array_equal(drawn, pieces.follow(words).ravel())


def kept_by(policy: Policy, rows: int, source: Given) -> NDArray[np.bool_] | None:
    """Return which features each row must release by the words that choose them: the least ones, ties from the left."""
    if policy.sampling is None:
        return None
    d = len(policy.rules)
    ranked = np.argsort(source.take(rows * d).reshape(rows, d), axis=1, kind="stable")
    kept = np.zeros((rows, d), dtype=bool)
    np.put_along_axis(kept, ranked[:, : policy.sampling.features], True, axis=1)
    return kept


def followed(kernel: Kernel, inputs: Indices, source: WordSource) -> Indices:
    """Return what `Kernel.draw` must give of words: row by row, rejected rows once more, in their order."""
    drawn = np.empty(inputs.size, dtype=np.int64)
    for start in range(0, inputs.size, CHUNK):
        drawn[start : start + CHUNK] = _once(kernel, inputs[start : start + CHUNK], source)
    while (again := np.flatnonzero(drawn < 0)).size:
        for part in np.array_split(again, -(-again.size // CHUNK)):
            drawn[part] = _once(kernel, inputs[part], source)
    return drawn


def _once(kernel: Kernel, inputs: Indices, source: WordSource) -> Indices:
    parts = [_Part(part.pieces(inputs), share) for share, part in kernel.parts()]
    coin = source.take(inputs.size)[:, np.newaxis] if len(parts) > 1 else None
    told = [part.pieces.follow(source.take(inputs.size)[:, np.newaxis]) for part in parts]
    return _chosen(parts, coin, told)[:, 0]


def all_inputs(rows: Rows) -> Fraction | None:
    """Return what no log ratio of probabilities of one output exceeds, over all inputs; None: infinite.

    Up to 256 points the rows tell; on larger grids the runs, without a list of all weights: of noise, by the largest
    and the least probability of an inner output, and of either end.  Of two parts it is the larger one's (mediants).
    What the rows tell is never left out.
    """
    if rows.kernel.points <= EXHAUSTIVE:
        return rows.loss
    found = [_largest(part) for share, part in rows.kernel.parts() if share]
    if None in found or (read := rows.loss) is None:
        return None
    most = max(ratio for ratio in found if ratio is not None)
    return max(read, log_above(most.numerator, most.denominator))


def _largest(kernel: Kernel) -> Fraction | None:
    pieces = kernel.pieces(np.arange(kernel.points))
    if pieces.first.ndim > 1:
        return _of_levels(pieces)
    noise, last = _noise(pieces), kernel.points - 1
    return _of_clipped(noise, last) if pieces.beyond == "clipped" else _of_renewed(noise, last)


def _noise(pieces: Pieces) -> list[int]:
    """Return how many words lead to each distance, from -last to last."""
    last, found = pieces.points - 1, [0] * (2 * pieces.points)
    for distance, step, count in zip(pieces.output.tolist(), pieces.step.tolist(), pieces.count.tolist(), strict=True):
        found[distance + last] += step * count  # rejected words come last
    return found[:-1]


def _of_clipped(noise: list[int], last: int) -> Fraction | None:
    """Return the larger ratio of an inner output and of the ends, whose weights are tails."""
    inner = noise[1:-1]
    below = list(accumulate(noise))[last::-1][: last + 1]  # of noise <= -i, for every input i
    above = list(accumulate(reversed(noise)))[last::-1][: last + 1]
    found = [_ratio(max(some), min(some)) for some in (inner, below, above)]
    return None if None in found else max(ratio for ratio in found if ratio is not None)


def _of_renewed(noise: list[int], last: int) -> Fraction | None:
    """Return the largest probability over the least one: attained at one output where weights fall with distance."""
    sums = list(accumulate(noise, initial=0))
    down, most_down = (list(accumulate(noise[last::-1], better)) for better in (min, max))
    rise, most_rise = (list(accumulate(noise[last:], better)) for better in (min, max))
    largest, least = Fraction(0), Fraction(1)
    for i in range(last + 1):
        total = sums[2 * last - i + 1] - sums[last - i]
        if not total:
            return None
        high, low = max(most_down[i], most_rise[last - i]), min(down[i], rise[last - i])
        if high * largest.denominator > largest.numerator * total:
            largest = Fraction(high, total)
        if low * least.denominator < least.numerator * total:
            least = Fraction(low, total)
    return largest / least if least else None


def _of_levels(pieces: Pieces) -> Fraction | None:
    """Return the largest weight over the least one that is not 0 for all inputs; None where it is for some."""
    reach = np.zeros(pieces.points + 1, dtype=np.int64)
    largest, least = 0, 1 << 64
    step, count, output = (part.T.tolist() for part in (pieces.step, pieces.count, pieces.output))
    for steps, counts, starts in zip(step, count, output, strict=True):
        runs = list(zip(steps, starts, (a + n for a, n in zip(starts, counts, strict=True)), strict=True))
        for low, high in pairwise(sorted({edge for _, *edges in runs for edge in edges})):
            if weight := sum(size for size, first, end in runs if first <= low and high <= end):
                largest, least = max(largest, weight), min(least, weight)
                reach[low] += 1
                reach[high] -= 1
    covered = np.cumsum(reach)[:-1]
    everywhere = np.all((covered == 0) | (covered == pieces.shift.size))
    return Fraction(largest, least) if everywhere else None


def _ratio(most: int, least: int) -> Fraction | None:
    return Fraction(most, least) if least else None
