"""Which epsilons are worth trying: between *everyone is hard to find* and *half of the rows are all but exposed*."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.bounds import Risk
from epsworth.callbacks import check_callback
from epsworth.exposure.calibration import Calibration, sensitivity
from epsworth.exposure.distances import Kernels, above, kernels, plateau_ends
from epsworth.exposure.fitting import Rows, check_any, check_coefficients, check_l2, fit
from epsworth.exposure.glm import ExposureError, Loss, loss_named
from epsworth.exposure.inputs import NOT_PRIVATE, Classes, generator, number, positive, whole
from epsworth.exposure.inputs import share as share_of_one
from epsworth.exposure.left_out import Regulariser
from epsworth.exposure.neighbours import Neighbours, leave_one_out
from epsworth.exposure.sparse import SparseRows
from epsworth.exposure.steps import Moves, moved
from epsworth.exposure.usefulness import GRID, KEPT, Usefulness, simulate
from epsworth.keeping import Keeping
from epsworth.numerals import short
from epsworth.parallel import check_n_jobs
from epsworth.results import Result, json_form
from epsworth.rounding import down, show_down, show_up, up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rule = Literal["advantage", "plateau"]
TOLERANCE = 1e-4  # relative error to refine to ..
FEWEST, AFFORDABLE = 20, 10**8  # .. for as many rows as cost a tenth of a second or so, and never fewer than these
FEWEST_OF_SPARSE, AFFORDABLE_OF_SPARSE = 4, 10**9  # some seconds, or some passes over a table that is large
MOST_DRAWS = 100_000
FITTED, SIMULATED = 0.1, 0.3  # shares of the work before neighbours are refined, and before utility is simulated
LEAST = 1e-300  # of what the most exposed row pays at epsilon 1


@dataclass(frozen=True, eq=False)
class Window(Result):
    """A range of epsilons, and what the rows pay at its ends; not private.

    Attributes
    ----------
    epsilon_low : float
        Up to it *every* row's membership advantage is at most ``adv_safe`` (rule ``advantage``).
    epsilon_high : float
        From it on, a share ``1 - q_exposed`` of the rows has an advantage of at least ``adv_exposed``.
    epsilon_util : float or None
        Smallest epsilon on the grid from which on accuracy is kept; ``inf``: none; None: not asked.
    adv_low, adv_high : float
        Advantage against the most exposed row at both ends, rounded up by less than 1e-8.
    rule : str
        ``advantage``, or ``plateau``: the published detector, where the *ratio of loss to epsilon* changes.
    kappa : float
        The noise's rate is kappa epsilon.
    neighbours : Neighbours or Moves
        The leave-one-out models behind it; of sparse tables only how far they are.
    usefulness : Usefulness or None
        Simulated accuracy by epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import window
    >>> X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(300, 2))
    >>> found = window(X, X[:, 0] > 0, 0.01)
    >>> round(found.epsilon_low, 2), round(found.epsilon_high)
    (6.8, 746)
    >>> bool(found.advantage(found.epsilon_low).max() <= 0.1 + 1e-9)  # no row is less safe
    True
    """

    epsilon_low: float
    epsilon_high: float
    epsilon_util: float | None
    adv_low: float
    adv_high: float
    rule: Rule
    kappa: float
    neighbours: Neighbours | Moves
    usefulness: Usefulness | None
    adv_safe: float
    adv_exposed: float
    q_exposed: float

    def __str__(self) -> str:
        return f"{self.verdict} ({NOT_PRIVATE})"

    def plot(self, ax: Axes | None = None, *, epsilon: float | None = None) -> Axes:
        """Draw advantage and accuracy by epsilon, and the advised window; not private, and it says so on its face."""
        from epsworth.exposure.trade import draw_trade

        return draw_trade(self, epsilon, ax)

    @property
    def advised(self) -> tuple[float, float] | None:
        """The one range of epsilons that every door names: text, JSON and plot.  None: no epsilon is worth advising.

        It ends at ``epsilon_low``, where rows start to be exposed, and starts where accuracy is kept; where that is not
        possible, where most models are at least better than the commoner label.  With the published rule: its own ends.
        """
        if self.rule == "plateau":
            return self.epsilon_low, self.epsilon_high
        if self.usefulness is None or self.epsilon_util is None:
            return 0.0, self.epsilon_low
        start = self.epsilon_util if self.epsilon_util <= self.epsilon_low else self.usefulness.least_use()
        return None if self._hopeless or start > self.epsilon_low else (start, self.epsilon_low)

    @property
    def law(self) -> Kernels:
        """The kernels of this dimension."""
        return kernels(len(self.neighbours.base))

    @property
    def _hopeless(self) -> bool:
        return self.usefulness is not None and self.usefulness.hopeless

    def exposure(self, epsilon: float) -> Floats:
        """Return every row's exact pure epsilon, certificate included, when the mechanism runs at ``epsilon``."""
        return as_floats(positive("epsilon", epsilon) * self._shares)

    @cached_property
    def _shares(self) -> Floats:
        """Each row's part of epsilon: never above 1, since kappa is one over the sensitivity."""
        return as_floats(np.minimum(self.kappa * (self.neighbours.distances + self.neighbours.errors), 1.0))

    def advantage(self, epsilon: float) -> Floats:
        """Return every row's membership advantage at ``epsilon``."""
        return self.law.adv(self.exposure(epsilon))

    def worst_advantage(self, epsilon: float) -> float:
        """Return the advantage against the most exposed row at ``epsilon``."""
        return float(self.law.adv(positive("epsilon", epsilon) * float(self._shares.max())))

    def to_dict(self) -> dict[str, Any]:
        """Return what is worth keeping, for JSON; infinite values become None."""
        useful, curve = self.usefulness, None
        if useful is not None:
            rows = zip(useful.epsilons, useful.accuracy, useful.kept, useful.kept_lower, strict=True)
            names = ("epsilon", "accuracy", "kept", "kept_lower")
            curve = [dict(zip(names, row, strict=True)) for row in rows]
        told = {
            "notice": NOT_PRIVATE,
            "rule": self.rule,
            "window": self.advised,
            "eps_low": self.epsilon_low,
            "eps_high": self.epsilon_high,
            "eps_util": self.epsilon_util,
            "adv_low": self.adv_low,
            "adv_high": self.adv_high,
            "adv_util": self.adv_util,
            "kappa": self.kappa,
            "wishes": {"adv_safe": self.adv_safe, "adv_exposed": self.adv_exposed, "q_exposed": self.q_exposed},
            "verdict": self.verdict,
            "utility": curve,
            "base_accuracy": None if useful is None else useful.base,
            "majority": None if useful is None else useful.majority,
        }
        return {name: json_form(value) for name, value in told.items()}

    @property
    def verdict(self) -> str:
        """The advice in a sentence, and a warning where the model is useless to begin with."""
        useful = self.usefulness
        if useful is None or not useful.hopeless:
            return self._advice()
        why = (
            f"even without noise the model (accuracy {show_down(useful.base, 3)}) is useless: no better than always "
            f"answering the commoner label ({show_down(useful.majority, 3)})."
        )
        if self.rule == "plateau":
            return f"{self._advice()} But {why}"
        return f"No epsilon is worth trying: {why} {self._safe.capitalize()}."

    @property
    def _safe(self) -> str:
        low = show_down(self.epsilon_low, 3)
        return f"every row's membership advantage is at most {self.adv_safe:g} up to epsilon {low}"

    def _advice(self) -> str:
        low, safe = show_down(self.epsilon_low, 3), self._safe
        if self.rule == "plateau":
            return (
                f"Loss/epsilon ratio plateau (the published rule, which is no protection): it ends at epsilon {low}, "
                f"where the advantage against the most exposed row is already {show_up(self.adv_low, 3)}."
            )
        if self.epsilon_util is None:
            return f"Consider epsilon up to {low}: {safe}."
        start = None if self.advised is None else show_up(self.advised[0], 3)
        if self.epsilon_util <= self.epsilon_low:
            return f"Choose epsilon between {start} and {low}: utility costs nothing there, and {safe}."
        use = (
            f"from {start} on most models are better than the commoner label"
            if start
            else "up to there models are not surely better than the commoner label, so that none is advised"
        )
        if self.adv_util is None:
            return f"No epsilon up to {GRID[1]:,.9g} keeps the accuracy; {safe}; {use}. Take more rows or a larger l2."
        kept = show_up(self.epsilon_util, 3)
        paid = f"where the most exposed row's advantage is {show_up(self.adv_util, 3)}"
        return f"A trade-off: accuracy is kept from epsilon {kept} on, {paid}, but {safe}; {use}."

    @property
    def adv_util(self) -> float | None:
        """The advantage against the most exposed row at ``epsilon_util``; None where there is no such epsilon."""
        if self.epsilon_util is None or not math.isfinite(self.epsilon_util):
            return None
        return self.worst_advantage(self.epsilon_util)

    def candidate(self, epsilon: float) -> str:
        """Return what one epsilon means, in words: for the most exposed row, and whether the model is any use."""
        worst = show_up(self.worst_advantage(epsilon), 3)
        said = f"At epsilon {epsilon:g} the advantage against the most exposed row is {worst}"
        useful = self.usefulness
        if useful is None:
            return f"{said}."
        found = f"the mean accuracy is {show_down(useful.at(epsilon), 3)}"
        if useful.useless_at(epsilon):
            found += f": useless, not surely better than always answering the commoner label ({useful.majority:.3f})"
        return f"{said}; {found}."


def window(
    X: Any,
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
    held_out: tuple[Any, ArrayLike] | None = None,
    tolerance: float = 0.01,
    share: float = KEPT,
    confidence: float = 0.95,
    draws: int = 400,
    rng: np.random.Generator | int | None = None,
    classes: Classes | None = None,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> Window:
    """Return the epsilons worth considering for output perturbation on this data set; not private.

    Claims: below ``epsilon_low`` no membership test has an advantage above ``adv_safe`` against any row, the
    certificate of its neighbour included; above ``epsilon_high`` at least a share ``1 - q_exposed`` of the rows is
    exposed to ``adv_exposed``; from ``epsilon_util`` on a model keeps the accuracy on the given rows to ``tolerance``
    with probability at least ``share``, at all grid points together with ``confidence``.

    Parameters
    ----------
    X, y, l2, regulariser, loss
        As in `loo`; X may be a sparse matrix of SciPy, or `SparseRows`: see `moves` for what it costs.
    f : array_like of shape ``(d,)``, optional
        The base model where it is at hand.
    n : int, optional
        Public size that the noise is calibrated to; by default the number of rows.
    adv_safe, adv_exposed, q_exposed : float
        What counts as safe, as exposed, and the quantile of rows that decides ``epsilon_high``.
    rule : {"advantage", "plateau"}
        ``plateau`` reproduces the published detector; see `plateau_ends` for why it is no advice.
    calibration : {"chaudhuri", "add_remove"}
        As in `sensitivity`.
    held_out : (X, y), optional
        Rows on which accuracy is measured; by default the training rows.
    tolerance, share, confidence, draws
        Loss of accuracy to accept; probability of keeping it; confidence and number of simulated models.
    rng : numpy.random.Generator or int, optional
        Simulates utility; without it ``epsilon_util`` is None.  Do not reuse the seed that made the data.
    classes : pair of labels, optional
        The two labels, -1 first, where they are declared; the data may then hold one of them only.
    n_jobs : int, optional
        Workers that refine neighbours and simulate utility; -1 for all cores.  Results do not depend on it, to the bit.
    checkpoint : path, optional
        A folder in which pieces are kept as they are done: the same call goes on from it, and finds the same bits;
        where utility is simulated, the draws are those of the folder, whatever ``rng`` is.  It is computed from raw
        data: keep it as you keep the table.
    progress : callable, optional
        Called with the share of the work that is done.

    Raises
    ------
    ExposureError
        For rows outside the unit ball, other than two labels, and parameters out of their ranges.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import window
    >>> X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(2000, 2))
    >>> found = window(X, X[:, 0] > 0, 0.01, rng=np.random.default_rng(1))
    >>> found.epsilon_util < found.epsilon_low < found.epsilon_high
    True
    """
    told = check_callback("progress", progress) or (lambda share: None)
    wishes = {"adv_safe": adv_safe, "adv_exposed": adv_exposed, "q_exposed": q_exposed}
    wishes = {name: share_of_one(name, value) for name, value in wishes.items()}
    if wishes["adv_safe"] > wishes["adv_exposed"]:
        raise ExposureError(
            f"adv_safe must not be above adv_exposed, got {short(adv_safe)} and {short(adv_exposed)}; what is exposed "
            "is not safe"
        )
    share, confidence = share_of_one("share", share), share_of_one("confidence", confidence)
    if not 0 <= number(tolerance) < 1:
        raise ExposureError(f"tolerance must be a loss of accuracy in [0, 1), got {short(tolerance)}")
    draws = whole("draws", draws, 1, MOST_DRAWS)
    if not isinstance(rule, str) or rule not in ("advantage", "plateau"):
        raise ExposureError(f"rule must be advantage or plateau, got {short(rule)}")
    check_n_jobs(n_jobs)
    if checkpoint is not None:
        from epsworth.utility.engines.checkpoint import check_folder

        check_folder(checkpoint)
    rows, labels = check_any(X, y, classes)
    rng = None if rng is None else generator(rng)
    test = (rows, labels) if held_out is None else _held_out(held_out, rows.shape[1], classes)
    size, d = len(rows) if n is None else whole("n", n, 2), rows.shape[1]
    if len(rows) < size:
        raise ExposureError(f"X has {len(rows)} rows, fewer than the public n = {n}; noise for n does not cover it")
    weight, law, smooth = check_l2(l2), kernels(d), loss_named(loss)
    kappa = 1 / sensitivity(size, l2, calibration, regulariser=regulariser, loss=loss)
    base = fit(rows, labels, weight, smooth) if f is None else check_coefficients(f, d)
    kept = None
    if checkpoint is not None:
        from epsworth.utility.steps import KeptSteps

        options: dict[str, object] = {
            "l2": weight, "n": size, "rule": rule, "calibration": calibration, "regulariser": regulariser, "loss": loss,
            "tolerance": tolerance, "share": share, "confidence": confidence, "draws": draws,
            **wishes,
        }  # fmt: skip
        data = {"rows": _told(rows, labels), "held-out rows": _told(*test), "the base model": (base,)}
        kept = KeptSteps.of(checkpoint, "window of epsilons", data, options, rng)
    told(FITTED)
    found = _neighbours(
        rows, labels, base, weight, smooth, regulariser, n_jobs, kept,
        lambda part: told(FITTED + (SIMULATED - FITTED) * part),
    )  # fmt: skip
    if rule == "plateau":
        u_low, u_high = plateau_ends(d)
    else:
        u_low, u_high = float(law.inverse_adv(adv_safe)), float(law.inverse_adv(adv_exposed, upwards=True))
    most = min(float((found.distances + found.errors).max()) * kappa, 1.0)  # no row's loss is above epsilon
    typical = kappa * float(np.quantile(np.maximum(found.distances - found.errors, 0), q_exposed, method="lower"))
    epsilon_low = down(u_low / max(most, LEAST), ulps=d + 10)  # of a norm of d numbers, and a few
    with np.errstate(over="ignore", divide="ignore"):
        epsilon_high = up(float(np.divide(u_high, typical)), ulps=d + 10)
    useful = None
    if rng is not None:
        grid = as_floats(np.geomspace(*GRID))
        useful = simulate(
            *test,
            base,
            kappa * grid,
            grid,
            tolerance=tolerance,
            risk=Risk.of(confidence),
            draws=draws,
            rng=rng,
            n_jobs=n_jobs,
            kept=kept,
            told=lambda part: told(SIMULATED + (1 - SIMULATED) * part),
        )
    told(1.0)
    return Window(
        epsilon_low, epsilon_high, None if useful is None else useful.least(share),
        _rounded_up(law, u_low), _rounded_up(law, epsilon_high * most) if math.isfinite(epsilon_high * most) else 1.0,
        rule, kappa, found, useful, wishes["adv_safe"], wishes["adv_exposed"], wishes["q_exposed"],
    )  # fmt: skip


def _neighbours(
    X: Rows, y: Floats, f: Floats, l2: float, loss: Loss, regulariser: Regulariser, n_jobs: int | None,
    kept: Keeping | None, told: Callable[[float], None],
) -> Neighbours | Moves:  # fmt: skip
    """Return how far rows move the model, those refined that may move it furthest."""
    # certificates shrink as 1/n: large tables need few rows refined
    if isinstance(X, SparseRows):
        top = max(FEWEST_OF_SPARSE, AFFORDABLE_OF_SPARSE // (len(X) * max(1, len(X.slots))))
        return moved(X, y, f, l2, loss, regulariser, tol=TOLERANCE, top=top, n_jobs=n_jobs, kept=kept, told=told)
    return leave_one_out(
        X, y, f, l2, loss, regulariser=regulariser, tol=TOLERANCE, top=max(FEWEST, AFFORDABLE // X.size),
        n_jobs=n_jobs, kept=kept, told=told,
    )  # fmt: skip


def _told(rows: Rows, labels: Floats) -> tuple[object, ...]:
    return (*rows.arrays(), labels) if isinstance(rows, SparseRows) else (rows, labels)


def _rounded_up(law: Kernels, u: float) -> float:
    return min(above(float(law.adv(u))), 1.0)


def _held_out(held_out: tuple[Any, ArrayLike], d: int, classes: Classes | None) -> tuple[Rows, Floats]:
    """Return rows and labels on which accuracy is measured."""
    if not isinstance(held_out, (tuple, list)) or len(held_out) != 2:
        raise ExposureError(f"held_out must be a pair (X, y), got {type(held_out).__name__}")
    try:
        rows, labels = check_any(*held_out, classes)
    except ExposureError as error:
        raise ExposureError(f"held_out: {error}") from None
    if rows.shape[1] != d:
        raise ExposureError(f"held_out must have the columns of X, {d}, got {rows.shape[1]}")
    return rows, labels
