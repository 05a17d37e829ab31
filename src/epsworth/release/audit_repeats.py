"""Whether a release repeats itself: by columns, in calls of few rows, in forked processes; and the words it takes.

One source of words per column multiplies the seeds of a whole release, so columns are compared by themselves; how often
independent ones agree is summed exactly from the weights.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.bounds import Risk
from epsworth.client.door import fresh
from epsworth.mechanisms import Kernel
from epsworth.mechanisms.words import FEW, SystemWords, Words
from epsworth.release import replays
from epsworth.release.audit_rows import Check
from epsworth.release.parts import WIDTH, PartWords
from epsworth.release.replays import POWER_ULPS, Replay, digest, in_children, same_state
from epsworth.rounding import float_above, up

Release = Callable[[int], Sequence[NDArray[Any]]]
ROWS = (64, 256, 1024, 4096)  # of a call, of which there are many: the first that leaves nothing to chance
AT_ONCE = 64  # calls of few rows that a process makes
SOURCES = 4096  # of words, each asked for few: seeds of 20 bits come back in all but 0.04 % of the tries
OF_WORDS = Fraction(1, 5)  # the share of the risk that pays for equal words


@dataclass(frozen=True)
class Columns:
    """A release's columns, each with the probability that two draws of it agree."""

    release: Release
    names: Sequence[str]
    agree: Sequence[Fraction]

    def digests(self, rows: int, calls: int = 1) -> list[bytes]:
        """Return a digest of every column of some calls in a row."""
        made = [self.release(rows) for _ in range(calls)]
        return [digest(np.concatenate([call[at] for call in made])) for at in range(len(self.names))]

    def chance(self, at: int, rows: int, pairs: int = 1) -> float:
        """Return a bound on the probability that some pair of independent blocks of a column agrees everywhere."""
        return min(1.0, up(pairs * up(float_above(self.agree[at]) ** rows, ulps=POWER_ULPS)))


def agreeing(kernel: Kernel, i: int) -> Fraction:
    """Return the probability that two draws from an input agree.

    Examples
    --------
    >>> from epsworth.mechanisms import kernel
    >>> round(float(agreeing(kernel("krr", "1", k=2), 0)), 3)
    0.607
    """
    return Fraction(sum(weight * weight for weight in kernel.weights(i)), kernel.total(i) ** 2)


def repeats(columns: Columns, rows: int, risk: Risk) -> Iterator[Replay]:
    """Try to make each column repeat itself, in every way that betrays a seeded, shared or inherited generator.

    Claim: independent draws are called a fault with at most the probability of ``risk``.
    """
    attempts: dict[str, tuple[int, Callable[[], list[list[bytes]]]]] = {
        "two calls in a row": (rows, lambda: [columns.digests(rows), columns.digests(rows)]),
        "the generators of random and numpy set to one state": (rows, lambda: _of_one_state(columns, rows)),
        "two processes forked from one parent": (rows, lambda: _forked(columns, rows, 1)),
        f"calls of {FEW} rows in forked processes": (FEW * AT_ONCE, lambda: _forked(columns, FEW, AT_ONCE)),
    }
    shares = iter(risk.split((len(attempts) + 2) * len(columns.names)))
    for attempt, (drawn, blocks) in attempts.items():
        yield _compared(columns, attempt, drawn, blocks(), shares)
    yield _many(columns, ROWS, replays.CALLS, shares)
    yield _many(columns, (FEW,), replays.CALLS // 4, shares)


def _of_one_state(columns: Columns, rows: int) -> list[list[bytes]]:
    found = []
    for _ in range(2):
        with same_state():
            found.append(columns.digests(rows))
    return found


def _forked(columns: Columns, rows: int, calls: int) -> list[list[bytes]]:
    """Return the digests of two children, and of their parent afterwards; none where there is no fork."""
    answers = in_children(lambda: b"".join(columns.digests(rows, calls)))
    told = [answer for answer in answers if answer is not None]
    if len(told) < len(answers):
        return []
    size = len(told[0]) // len(columns.names)
    children = [[answer[size * at : size * (at + 1)] for at in range(len(columns.names))] for answer in told]
    return [*children, columns.digests(rows, calls)]


def _compared(
    columns: Columns, attempt: str, rows: int, blocks: Sequence[Sequence[bytes]], shares: Iterator[Risk]
) -> Replay:
    """Return the first column of which two blocks are the same, and not by chance."""
    pairs, worst = len(blocks) * (len(blocks) - 1) // 2, 0.0
    found: list[Replay] = []
    for at, (name, share) in enumerate(zip(columns.names, shares, strict=False)):
        chance = columns.chance(at, rows, pairs)
        worst = max(worst, chance)
        if blocks and len({block[at] for block in blocks}) < len(blocks):
            found.append(Replay(f"{attempt}, {name!r}", True, chance, chance <= share.spend()))
    faults = [replay for replay in found if replay.fault]
    if faults or found:
        return (faults or found)[0]
    return Replay(attempt, False if blocks else None, worst, False)


def _many(columns: Columns, sizes: Sequence[int], calls: int, shares: Iterator[Risk]) -> Replay:
    """Make many calls, and look for two that drew the same of a column: few seeds collide."""
    width = len(columns.names)
    pairs, allowed = calls * (calls - 1) // 2, [next(shares).spend() for _ in range(width)]
    for rows in sizes:
        told = [at for at in range(width) if columns.chance(at, rows, pairs) <= allowed[at]]
        if len(told) == width:
            break
    coarse = [name for at, name in enumerate(columns.names) if at not in told]
    attempt = f"{calls:,} calls in a row, of {rows} rows each"
    attempt += f" (too few for {', '.join(map(repr, coarse))})" if coarse else ""
    started, seen = time.monotonic(), {at: set[bytes]() for at in told}
    for call in range(1, calls + 1) if told else ():
        drawn = columns.release(rows)
        for at in told:
            seen[at].add(digest(drawn[at]))
            if len(seen[at]) < call:
                return Replay(f"{attempt}, {columns.names[at]!r}", True, columns.chance(at, rows, pairs), True)
        if time.monotonic() - started > replays.ENOUGH:
            attempt = f"{attempt}, stopped after {call:,}"
            break
    return Replay(attempt, False if told else None, 1.0, False)


def audit_sources(risk: Risk) -> Check:
    """Ask sources for few words and for many, here and in forked processes, and keyed ones: no word may come twice.

    A faultless source fails with probability n^2 / 2^65 for n words, which ``risk`` must pay for.
    """
    answers = [answer for answer in in_children(lambda: _words(AT_ONCE).tobytes()) if answer is not None]
    children = [np.frombuffer(answer, dtype=np.uint64) for answer in answers]
    keyed, same = _keyed()
    found = np.concatenate([_words(SOURCES), *children, *keyed])
    chance = Fraction(found.size * (found.size - 1) // 2, 1 << 64)
    told = f"{found.size:,} words of {SOURCES:,} sources, forked processes and {len(keyed)} parts of runs"
    if np.unique(found).size < found.size and chance <= Fraction(risk.spend()):
        return Check("sources", False, f"{told}: one comes twice; the randomness can be replayed")
    if not same:
        return Check("sources", False, f"{told}: a part of a run that is drawn again has other words")
    return Check("sources", True, f"{told} differ, and a part that is drawn again has the same")


def _words(sources: int) -> Words:
    """Return the words of many sources: 1 to 16, more of every 64th, and as a device takes them."""
    found = [SystemWords().take(1 + at % FEW) for at in range(sources)]
    found += [SystemWords().words(FEW + 1 + at) for at in range(sources // AT_ONCE)]
    return np.concatenate([*found, np.array(list(islice(fresh(3), AT_ONCE)), dtype=np.uint64)])


def _keyed() -> tuple[list[Words], bool]:
    """Return the words of parts that differ in key, what is drawn, index or digest, and whether equal ones agree."""
    keys, digests = ([os.urandom(WIDTH) for _ in range(2)] for _ in range(2))
    found, same = [], True
    for key, identity, index, told in product(keys, ("one policy", "another"), (0, 1), digests):
        found.append(PartWords(key, identity)(index, told).take(AT_ONCE))
        again = PartWords(key, identity)(index, told)
        same = same and np.array_equal(found[-1], np.concatenate([again.take(FEW), again.take(AT_ONCE - FEW)]))
    return found, same
