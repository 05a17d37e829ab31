"""What each random word becomes, said without drawing: runs of words, for checks of the code that draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Indices
from epsworth.client.kernels import WORD
from epsworth.mechanisms.words import Words

HALF = 32  # bits: sums of halves of words stay exact in 64 bits


@dataclass(frozen=True, eq=False)
class Pieces:
    """Runs of words: ``count`` times ``step`` words in a row lead to ``output``, ``output + 1``, ..

    Iterating yields ``(first word, step, count, first output)``, as integers, for one input.  A rejected word leads
    to -1.

    Attributes
    ----------
    first, step, count, output : ndarray, shape ``(runs,)``, or ``(runs, inputs)`` where they differ between inputs
        In the order of the words.
    shift : ndarray, shape ``(inputs,)``
        Added to ``output``.
    points : int
        Outputs beyond the grid are released as its ends, or rejected, as ``beyond`` says; ``output`` of `points` is a
        rejected word either way.

    Examples
    --------
    >>> from epsworth.mechanisms import kernel
    >>> coin = kernel("krr", 1, k=3)
    >>> [(count, output) for _, _, count, output in coin.pieces(1)]  # a level for all outputs, then more for one
    [(3, 0), (1, 1)]
    >>> coin.pieces(1).weights() == coin.weights(1)
    True
    """

    first: Words
    step: Words
    count: Indices
    output: Indices
    points: int
    shift: Indices
    beyond: Literal["clipped", "rejected"] = "rejected"

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the runs of one input."""
        rows = (part.reshape(len(self.first)).tolist() for part in (self.first, self.step, self.count, self.output))
        for first, step, count, output in zip(*rows, strict=True):
            yield first, step, count, int(self.settled(np.array([output]), self.shift[:1])[0])

    def settled(self, reached: Indices, shift: Indices) -> Indices:
        """Return outputs from places before the shift; -1 for rejected words."""
        outputs, last = reached + shift, self.points - 1
        if self.beyond == "clipped":
            return np.where(reached == self.points, -1, np.clip(outputs, 0, last))
        return np.where((reached == self.points) | (outputs < 0) | (outputs > last), -1, outputs)

    def follow(self, words: Words) -> Indices:
        """Return what words lead to, shape ``(inputs, words)``."""
        if self.first.ndim == 1:
            run = np.searchsorted(self.first, words, side="right") - 1
            reached = self.output[run] + ((words - self.first[run]) // self.step[run]).astype(np.int64)
            return self.settled(reached, self.shift[:, np.newaxis])
        outputs = np.full(words.shape, self.points, dtype=np.int64)
        for first, step, count, output in zip(self.first, self.step, self.count, self.output, strict=True):
            at = (words - first[:, np.newaxis]) // step[:, np.newaxis]
            inside = (words >= first[:, np.newaxis]) & (at < count.astype(np.uint64)[:, np.newaxis])
            np.copyto(outputs, output[:, np.newaxis] + at.astype(np.int64), where=inside)
        return self.settled(outputs, self.shift[:, np.newaxis])

    def whole(self) -> bool:
        """Tell whether the runs of every input follow each other without a gap, from word 0 to the last."""
        after = self.first + self.step * self.count.astype(np.uint64)  # modulo 2^64; the sum below tells how often
        joined = np.all(self.first[1:] == after[:-1]) and np.all(self.first[0] == 0) and np.all(after[-1] == 0)
        total = (self.step.astype(np.float64) * self.count).sum(axis=0)
        return bool(joined and np.all((self.step > 0) & (self.count > 0)) and np.all(np.abs(total / WORD - 1) < 0.5))

    def weights(self) -> list[int]:
        """Return how many words lead to each output, for one input: lengths of runs, added up."""
        step, count, output = (part.reshape(len(self.first)) for part in (self.step, self.count, self.output))
        single = count == 1
        sums = _added(self.settled(output[single], self.shift[:1]), step[single], self.points)
        for size, several, start in zip(step[~single].tolist(), count[~single], output[~single], strict=True):
            for y in self.settled(np.arange(start, start + several), self.shift[:1]).tolist():
                sums[y] += size
        return sums[:-1]


def _added(outputs: Indices, steps: Words, points: int) -> list[int]:
    """Return sums of steps by output, then those of -1, as whole numbers."""
    halves = []
    for half in (steps >> np.uint64(HALF), steps & np.uint64((1 << HALF) - 1)):
        sums = np.zeros(points + 1, dtype=np.uint64)
        np.add.at(sums, outputs, half)
        halves.append(sums.tolist())
    return [(high << HALF) + low for high, low in zip(*halves, strict=True)]


def few(inputs: Indices, points: int, runs: list[tuple[object, object, int, object]]) -> Pieces:
    """Return some runs, each number of which may differ between inputs."""
    shape = (len(runs), inputs.size)
    first, step = np.empty(shape, dtype=np.uint64), np.empty(shape, dtype=np.uint64)
    count, output = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    parts: tuple[NDArray[Any], ...] = (first, step, count, output)
    for row, run in enumerate(runs):
        for part, value in zip(parts, run, strict=True):
            part[row] = np.asarray(value, dtype=part.dtype)
    return Pieces(first, step, count, output, points, np.zeros(inputs.size, dtype=np.int64))
