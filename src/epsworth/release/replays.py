"""Attempts to make a sampler repeat itself: whoever can replay its noise can take it off."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.bounds import Risk
from epsworth.rounding import float_above, show_up, up

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
        Whether both blocks of draws were identical; None where the attempt failed.
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
            return f"{self.attempt}: could not be tried"
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
