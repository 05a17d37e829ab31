"""What a release from a finite list of worlds really gives away: per record and in all, by Monte Carlo.

The release is a draw from a Gaussian mixture whose components are known, so the best possible attack on any record
is Bayes' rule.  Nothing here can be seeded into a release: draws are for analysis.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from epsworth.arrays import Bools, Floats
from epsworth.pac.certificate import bernstein_upper

CELLS = 2**22  # of a chunk of draws x worlds or records


@dataclass(frozen=True, eq=False)
class Exposure:
    """Success of the best attack on every record, and the true mutual information.

    Attributes
    ----------
    success : ndarray, shape ``(n,)``
        Estimated success of Bayes' rule at "was this record used".
    upper : ndarray, shape ``(n,)``
        Upper limits that hold for all records *together* with the confidence asked for.
    prior : ndarray, shape ``(n,)``
        Blind success in this list of worlds.
    mi, mi_half_width : float
        Estimate in nats, and 2.576 standard errors (99 %, normal approximation).
    record_mi : ndarray, shape ``(n,)``
        Estimated mutual information of the release with each record's membership.
    draws : int
        Simulated releases.
    """

    success: Floats
    upper: Floats
    prior: Floats
    mi: float
    mi_half_width: float
    record_mi: Floats
    draws: int

    @property
    def worst(self) -> float:
        """Upper limit for the most exposed record."""
        return float(self.upper.max())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able values, one entry per record in the lists."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()}
        return plain | {"worst": self.worst, "confidence": 0.99}


def expose(
    whitened: Floats,
    members: Bools,
    rng: np.random.Generator,
    *,
    draws: int = 8192,
    miss: float = 0.01,
    probabilities: Floats | None = None,
) -> Exposure:  # fmt: skip
    """Simulate releases and attack every record by Bayes' rule.

    Parameters
    ----------
    whitened : ndarray, shape ``(m, r)``
        Outputs of the worlds in standard deviations of the noise.
    members : ndarray of bool, shape ``(m, n)``
        Which records each world holds.
    miss : float
        Chance that any of the ``n`` upper limits fails.

    Notes
    -----
    Costs draws x m x (r + n) operations; memory stays below a few chunks of 32 MB.
    """
    worlds, records = members.shape
    p = np.full(worlds, 1 / worlds) if probabilities is None else probabilities
    unit, back = np.unique(np.packbits(members, axis=0), axis=1, return_index=True, return_inverse=True)[1:]
    inside = members[:, unit].astype(np.float64)
    total, squares, information = np.zeros(len(unit)), np.zeros(len(unit)), np.zeros(len(unit))
    gains = np.empty(draws)
    chunk = max(1, CELLS // max(worlds, len(unit)))
    for start in range(0, draws, chunk):
        count = min(chunk, draws - start)
        truth = rng.choice(worlds, size=count, p=p)
        weights = posterior_weights(whitened, whitened[truth] + rng.standard_normal((count, whitened.shape[1])), p)
        gains[start : start + count] = np.log(weights[np.arange(count), truth] / p[truth])
        guess = np.clip(weights @ inside, 0, 1)
        best = np.maximum(guess, 1 - guess)
        total += best.sum(axis=0)
        squares += (best**2).sum(axis=0)
        information += _negative_entropy(guess).sum(axis=0)
    mean = total / draws
    variance = np.maximum(squares / draws - mean**2, 0) * draws / (draws - 1)
    share = p @ inside
    prior = np.maximum(share, 1 - share)
    upper = np.minimum(1.0, bernstein_upper(mean, variance, draws, 0.5, miss / records))
    record_mi = np.maximum(0.0, information / draws - _negative_entropy(share))
    back = back.reshape(-1)
    half = 2.576 * float(gains.std(ddof=1)) / np.sqrt(draws)
    return Exposure(mean[back], upper[back], prior[back], float(gains.mean()), float(half), record_mi[back], draws)


def posterior_weights(whitened: Floats, released: Floats, probabilities: Floats) -> Floats:
    """Return the chance of every world given each released vector, shape ``(releases, worlds)``."""
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities) - 0.5 * (whitened**2).sum(axis=1) + released @ whitened.T
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    logs /= logs.sum(axis=1, keepdims=True)
    return np.asarray(logs)


def _negative_entropy(p: Floats) -> Floats:
    from scipy.special import xlogy

    return np.asarray(xlogy(p, p) + xlogy(1 - p, 1 - p))
