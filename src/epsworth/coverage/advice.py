"""Which epsilons are worth trying: between *everyone is hard to find* and *half of the rows are all but exposed*."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.coverage.calibration import Calibration, sensitivity
from epsworth.coverage.exposure import Kernels, kernels
from epsworth.coverage.fitting import check_coefficients, check_data, fit_base
from epsworth.coverage.glm import CoverageError
from epsworth.coverage.neighbours import Neighbours, Regulariser, loo
from epsworth.coverage.plateaus import plateau_ends
from epsworth.coverage.usefulness import Usefulness, simulate
from epsworth.rounding import show_down, show_up

Rule = Literal["advantage", "plateau"]
NOT_PRIVATE = "computed from raw data: not private"
TOLERANCE = 1e-4  # relative error to refine to ..
FEWEST, AFFORDABLE = 20, 10**8  # .. for as many rows as cost a tenth of a second or so, and never fewer than these
GRID = (1e-3, 1e4, 57)  # epsilons at which utility is simulated: eight to a factor of ten


@dataclass(frozen=True, eq=False)
class Window:
    """A range of epsilons, and what the rows pay at its ends; not private.

    Attributes
    ----------
    eps_low : float
        Up to it *every* row's membership advantage is at most ``adv_safe`` (rule ``advantage``).
    eps_high : float
        From it on, a share ``1 - q_exposed`` of the rows has an advantage of at least ``adv_exposed``.
    eps_util : float or None
        Smallest epsilon on the grid from which on accuracy is kept; ``inf``: none; None: not asked.
    adv_low, adv_high : float
        Advantage against the most exposed row at both ends, rounded up by less than 1e-8.
    rule : str
        ``advantage``, or ``plateau``: the published detector, where the *ratio of loss to epsilon* changes.
    kappa : float
        ``beta = kappa epsilon``.
    neighbours : Neighbours
        The leave-one-out models behind it.
    usefulness : Usefulness or None
        Simulated accuracy by epsilon.
    """

    eps_low: float
    eps_high: float
    eps_util: float | None
    adv_low: float
    adv_high: float
    rule: Rule
    kappa: float
    neighbours: Neighbours
    usefulness: Usefulness | None
    adv_safe: float
    adv_exposed: float
    q_exposed: float

    @property
    def law(self) -> Kernels:
        """The kernels of this dimension."""
        return kernels(self.neighbours.deltas.shape[1])

    def exposure(self, epsilon: float) -> Floats:
        """Return every row's exact pure epsilon, certificate included, when the mechanism runs at ``epsilon``."""
        return as_floats(self.kappa * epsilon * (self.neighbours.distances + self.neighbours.errors))

    def advantage(self, epsilon: float) -> Floats:
        """Return every row's membership advantage at ``epsilon``."""
        return self.law.adv(self.exposure(epsilon))

    def to_dict(self) -> dict[str, Any]:
        """Return what is worth keeping, for JSON; infinite values become None."""
        useful = self.usefulness
        curve = None
        if useful is not None:
            rows = zip(useful.epsilons, useful.accuracy, useful.kept, useful.kept_lower, strict=True)
            names = ("epsilon", "accuracy", "kept", "kept_lower")
            curve = [dict(zip(names, map(float, row), strict=True)) for row in rows]
        return {
            "notice": NOT_PRIVATE,
            "rule": self.rule,
            "eps_low": self.eps_low,
            "eps_high": self.eps_high if math.isfinite(self.eps_high) else None,
            "eps_util": self.eps_util if self.eps_util is not None and math.isfinite(self.eps_util) else None,
            "adv_low": self.adv_low,
            "adv_high": self.adv_high,
            "kappa": self.kappa,
            "wishes": {"adv_safe": self.adv_safe, "adv_exposed": self.adv_exposed, "q_exposed": self.q_exposed},
            "verdict": self.verdict,
            "utility": curve,
            "base_accuracy": None if useful is None else useful.base,
            "majority": None if useful is None else useful.majority,
        }

    @property
    def verdict(self) -> str:
        """The advice in a sentence, and a warning where the model is useless to begin with."""
        useful = self.usefulness
        if useful is None or useful.base > useful.majority:
            return self._advice
        return (
            f"{self._advice} But even without noise the model (accuracy {useful.base:.3f}) is no better than always "
            f"answering the commoner label ({useful.majority:.3f})."
        )

    @property
    def _advice(self) -> str:
        if self.rule == "plateau":
            return (
                f"Loss/epsilon ratio plateau (the published rule, which is no protection): it ends at epsilon "
                f"{show_down(self.eps_low, 3)}, where the advantage against the most exposed row is already "
                f"{show_up(self.adv_low, 3)}."
            )
        safe = (
            f"every row's membership advantage is at most {self.adv_safe:g} up to epsilon {show_down(self.eps_low, 3)}"
        )
        if self.eps_util is None:
            return f"Consider epsilon up to {show_down(self.eps_high, 3)}: {safe}."
        if self.eps_util <= self.eps_low:
            return (
                f"Choose epsilon between {show_up(self.eps_util, 3)} and {show_down(self.eps_low, 3)}: "
                f"utility costs nothing there, and {safe}."
            )
        if self.eps_util == float("inf"):
            return f"No epsilon up to {GRID[1]:g} keeps the accuracy; {safe}. Take more rows or a larger l2."
        worst = float(self.advantage(self.eps_util).max())
        return (
            f"A trade-off: accuracy is kept from epsilon {show_up(self.eps_util, 3)} on, where the most exposed row's "
            f"advantage is {show_up(worst, 3)}, but {safe}."
        )


def window(
    X: ArrayLike,
    y: ArrayLike,
    l2: float,
    *,
    f: ArrayLike | None = None,
    n: int | None = None,
    adv_safe: float = 0.1,
    adv_exposed: float = 0.9,
    q_exposed: float = 0.5,
    rule: Rule = "advantage",
    calibration: Calibration = "chaudhuri",
    regulariser: Regulariser = "mean",
    loss: str = "logistic",
    held_out: tuple[ArrayLike, ArrayLike] | None = None,
    tolerance: float = 0.01,
    share: float = 0.9,
    confidence: float = 0.95,
    draws: int = 400,
    rng: np.random.Generator | None = None,
) -> Window:
    """Return the epsilons worth considering for output perturbation on this data set; not private.

    Claims: below ``eps_low`` no membership test has an advantage above ``adv_safe`` against any row, the certificate of
    its neighbour included; above ``eps_high`` at least a share ``1 - q_exposed`` of the rows is exposed to
    ``adv_exposed``; from ``eps_util`` on a model keeps the accuracy on the given rows to ``tolerance`` with probability
    at least ``share``, at all grid points together with ``confidence``.

    Parameters
    ----------
    X, y, l2, regulariser, loss
        As in `loo`.
    f : array_like of shape ``(d,)``, optional
        The base model where it is at hand.
    n : int, optional
        Public size that the noise is calibrated to; by default the number of rows.
    adv_safe, adv_exposed, q_exposed : float
        What counts as safe, as exposed, and the quantile of rows that decides ``eps_high``.
    rule : {"advantage", "plateau"}
        ``plateau`` reproduces the published detector; see `plateau_ends` for why it is no advice.
    calibration : {"chaudhuri", "add_remove"}
        As in `sensitivity`.
    held_out : (X, y), optional
        Rows on which accuracy is measured; by default the training rows.
    tolerance, share, confidence, draws
        Loss of accuracy to accept; probability of keeping it; confidence and number of simulated models.
    rng : numpy.random.Generator, optional
        Simulates utility; without it ``eps_util`` is None.  Do not reuse the seed that made the data.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(2000, 2))
    >>> found = window(X, X[:, 0] > 0, 0.01, rng=np.random.default_rng(1))
    >>> found.eps_util < found.eps_low < found.eps_high
    True
    """
    wishes = {"adv_safe": adv_safe, "adv_exposed": adv_exposed, "q_exposed": q_exposed}
    for name, value in {**wishes, "share": share, "confidence": confidence}.items():
        if not 0 < value < 1:
            raise CoverageError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    if rule not in ("advantage", "plateau"):
        raise CoverageError(f"rule must be advantage or plateau, got {rule!r}")
    rows, labels = check_data(X, y)
    if n is not None and len(rows) < n:
        raise CoverageError(f"X has {len(rows)} rows, fewer than the public n = {n}; noise for n does not cover it")
    size, d = n or len(rows), rows.shape[1]
    base = fit_base(rows, labels, l2, loss=loss) if f is None else check_coefficients(f, d)
    top = max(FEWEST, AFFORDABLE // (len(rows) * d))  # certificates shrink as 1/n: large tables need few rows refined
    found = loo(rows, labels, base, l2, regulariser=regulariser, loss=loss, tol=TOLERANCE, top=top)
    kappa = 1 / sensitivity(size, l2, calibration, regulariser=regulariser, loss=loss)
    law = kernels(d)
    if rule == "plateau":
        u_low, u_high = plateau_ends(d)
    else:
        u_low, u_high = (float(u) for u in law.inverse_adv([adv_safe, adv_exposed]))
    most = float((found.distances + found.errors).max())
    typical = float(np.quantile(np.maximum(found.distances - found.errors, 0), q_exposed, method="lower"))
    eps_low = u_low / (kappa * most) * (1 - 1e-12)
    eps_high = u_high / (kappa * typical) * (1 + 1e-12) if typical > 0 else float("inf")
    useful = None
    if rng is not None:
        test = (rows, labels) if held_out is None else check_data(*held_out)
        grid = as_floats(np.geomspace(*GRID))
        useful = simulate(
            *test, base, kappa * grid, grid, tolerance=tolerance, confidence=confidence, draws=draws, rng=rng
        )
    return Window(
        eps_low, eps_high, None if useful is None else useful.least(share),
        float(law.adv(u_low)), float(law.adv(kappa * eps_high * most)) if typical > 0 else 1.0,
        rule, kappa, found, useful, adv_safe, adv_exposed, q_exposed,
    )  # fmt: skip
