"""Dependence between draws that should be independent: autocorrelation at all lags at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Risk
from epsworth.rounding import show_down

LENGTH = 1 << 16  # draws in a row
CHANCE = 1e-9  # probability that independent draws look dependent, by any lag and any of their functions
MOST = 4.0  # standard deviations: what draws rarely hold counts no more, or a few of them would decide
WAVES = (8, 64)  # of a cosine and a sine over the range of the draws
ROUNDING = 1e-3  # of what a Fourier transform, and an estimated mean, may add to a sum


@dataclass(frozen=True)
class Dependence:
    """The strongest dependence between draws in a row, of all lags and some of their functions.

    Attributes
    ----------
    draws : int
    function : str
        Of the draws: ``value``, ``parity``, ``cosine`` or ``sine``.
    lag : int
        How many rows apart; draws of several columns follow each other column by column.
    score : float
        The autocorrelation in standard deviations.
    limit : float
        What independent draws exceed, by any function at any lag, with probability at most ``chance``.
    """

    draws: int
    function: str
    lag: int
    score: float
    limit: float
    chance: float

    @property
    def fault(self) -> bool:
        """Whether the draws depend on each other, and not by chance."""
        return self.score > self.limit

    def __str__(self) -> str:
        """Return the finding in a sentence."""
        told = (
            f"{self.draws:,} draws in a row, {self.score:.1f} standard deviations at lag {self.lag:,} ({self.function})"
        )
        return (
            f"{told}: {'they depend on each other' if self.fault else f'below {show_down(self.limit, 2)}, no pattern'}"
        )


def dependence(columns: Sequence[NDArray[Any]], risk: Risk | None = None) -> Dependence:
    """Return the strongest autocorrelation of columns of draws, one behind the other.

    Claim: independent draws, each column of one law, exceed the limit with at most the probability of ``risk``, but for
    what the estimates of means and deviations add: a Freedman bound for sums of g(y_k) g(y_k+lag), whose variance is
    at most the sum of g(y_k)^2, and whose terms are at most `MOST` squared.

    Parameters
    ----------
    columns : sequence of ndarray
        Numbers, or words.
    risk : Risk, optional
        By default of `CHANCE`.
    """
    coded = [_numbers(column) for column in columns]
    size = sum(column.size for column in coded)
    functions = list(_functions(coded))
    paid = (risk or Risk(CHANCE)).split(2 * len(functions) * max(1, size - 1))
    chance = float(paid.each * paid.left)
    exponent = -math.log(paid.spend(paid.left))
    found = Dependence(size, functions[0][0], 0, 0.0, math.sqrt(2 * exponent), chance)
    for name, series in functions:
        sums, limits = _sums(series), _limits(series, exponent)
        if sums.size and (share := sums / limits)[at := int(np.argmax(share))] > found.score / found.limit:
            scale = math.sqrt(max(float((series[: size - 1 - at] ** 2).sum()), 1.0))
            found = Dependence(size, name, at + 1, float(sums[at]) / scale, float(limits[at]) / scale, chance)
    return found


def _numbers(column: NDArray[Any]) -> Floats:
    """Return numbers as they are where they are whole, otherwise the places of values in their order."""
    plain = np.asarray(column)
    numbers = plain.dtype.kind in "iu" or (plain.dtype.kind == "f" and bool(np.isfinite(plain).all()))
    if numbers and bool((plain % 1 == 0).all()) and np.abs(plain).max(initial=0) < 2**53:
        return plain.astype(np.float64)
    return np.unique(plain, return_inverse=True)[1].astype(np.float64)


def _functions(columns: Sequence[Floats]) -> Iterator[tuple[str, Floats]]:
    """Yield functions of the draws, centred and scaled in every column; what does not vary is 0."""

    def series(function: Any) -> Floats:
        return np.concatenate([_standard(function(column)) for column in columns])

    def angle(column: Floats, waves: int) -> Floats:
        low, high = column.min(initial=0), column.max(initial=0)
        return np.asarray(2 * np.pi * waves * (column - low) / max(high - low, 1.0))

    yield "value", series(lambda column: column)
    yield "parity", series(lambda column: column % 2)
    yield "cosine", series(lambda column: np.cos(angle(column, WAVES[0])))
    yield "sine", series(lambda column: np.sin(angle(column, WAVES[1])))


def _standard(values: Floats) -> Floats:
    centred = values - values.mean() if values.size else values
    deviation = math.sqrt(float((centred**2).mean())) if values.size else 0.0
    if deviation <= 1e-12 * max(1.0, float(np.abs(values).max(initial=0))):
        return np.zeros_like(values)
    cut = np.clip(centred / deviation, -MOST, MOST)
    return np.asarray(cut - cut.mean())


def _sums(series: Floats) -> Floats:
    """Return the sizes of the sums over all rows of a value times the one ``lag`` rows later, for all lags from 1."""
    size = 1 << (2 * series.size - 1).bit_length()
    spectrum = np.fft.rfft(series, size)
    return np.abs(np.fft.irfft(np.abs(spectrum) ** 2, size)[1 : series.size])


def _limits(series: Floats, exponent: float) -> Floats:
    """Return s with s^2 / (2 (v + b s / 3)) = exponent, v the sum of squares of those that have a later one."""
    squares = np.cumsum(series**2)[-2::-1]
    bounded = exponent * float(np.abs(series).max(initial=0)) ** 2 / 3
    return np.asarray((1 + ROUNDING) * (bounded + np.sqrt(bounded**2 + 2 * exponent * squares)) + 1.0)
