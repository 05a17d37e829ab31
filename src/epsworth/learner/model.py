"""`Classifier`: labels from an aggregate, smoothed, with a certificate for each."""

from __future__ import annotations

import warnings
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter1d, map_coordinates

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.files import reading, replacing
from epsworth.learner.aggregation import Aggregator, begins_with
from epsworth.learner.certificates import Adjust, Certificates, Certifying, Fakes, Holder, certify
from epsworth.learner.config import LatticeConfig
from epsworth.learner.encoding import cells, class_array, flat, nearest
from epsworth.learner.fakes import why_odd
from epsworth.learner.mechanisms import Cosine

WIDTHS = (0.0, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25)  # of the box
REACH = 4  # standard deviations
MOST = 1024  # cells per axis: matrices are dense
Smoothing = Literal["sure"] | None
MAGIC = b"epsworth learner 1\n"


@cache
def gaussian(m: int, width: float) -> Floats:
    """Return the row-normalised Gaussian of m cells, reflected at both ends; width 0 is the identity."""
    if width == 0:
        return np.eye(m)
    return as_floats(gaussian_filter1d(np.eye(m), width * m, axis=0, radius=int(np.ceil(REACH * width * m))))


def smoothed(table: Floats, matrix: Floats, d: int) -> Floats:
    """Apply a matrix along the first d axes of a table."""
    for axis in range(d):
        table = np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
    return table


def best_width(table: Floats, d: int, noise: float) -> float:
    """Return the width of least unbiased risk estimate |S T - T|^2 + 2 noise tr S (Stein 1981)."""
    m, outputs = table.shape[0], table.shape[-1]
    if m > MOST:
        raise ValueError(
            f"smoothing by the risk estimate takes up to {MOST} cells per axis, this table has {m}; take fewer cells "
            "or smoothing=None"
        )
    risks = []
    for width in WIDTHS:
        matrix = gaussian(m, width)
        change = ((smoothed(table, matrix, d) - table) ** 2).sum()
        risks.append(change + 2 * noise * outputs * np.trace(matrix) ** d)
    return WIDTHS[int(np.argmin(risks))]


def interpolate(table: Floats, unit: Floats) -> Floats:
    """Interpolate linearly between the centres of cells, constant beyond the outermost: ``(n, outputs)``."""
    place = (unit * table.shape[0] - 0.5).T
    outputs = np.moveaxis(table, -1, 0)
    return np.column_stack([map_coordinates(own, place, order=1, mode="nearest") for own in outputs])


def squared_weights(unit: Floats, m: int, width: float) -> Floats:
    """Return the sum of the squared weights of all cells in a smoothed, interpolated value ``(n,)``."""
    rows = interpolate(gaussian(m, width), unit.reshape(-1, 1))
    return as_floats((rows**2).sum(axis=1).reshape(unit.shape).prod(axis=1))


class Classifier(Certifying):
    """What was learnt: a deterministic function from points to labels.

    It has ``predict``, so `epsworth.stability` and `epsworth.as_classifier` accept it.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As of scikit-learn; names only where the configuration has them.
    width_ : float or None
        Width of the smoothing, as a share of the box; None where cells are read as they are.

    Parameters
    ----------
    aggregate, smoothing
        As for `from_aggregate`, which checks the sums.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Classifier, LatticeConfig, simulate
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> x = np.linspace(0, 1, 100)
    >>> aggregate = simulate(config, x[:, None], x > 0.5, np.random.default_rng(0), users=10**6)
    >>> Classifier.from_aggregate(aggregate).predict([[0.2], [0.8]]).tolist()
    [0, 1]
    """

    def __init__(self, aggregate: Aggregator, smoothing: Smoothing) -> None:
        self.aggregate, self.smoothing = aggregate, smoothing
        self.classes_: NDArray[Any] = class_array(self.config.classes)
        self.n_features_in_ = len(self.config.box)
        if self.config.named:
            self.feature_names_in_: NDArray[Any] = np.array(self.config.names, dtype=object)

    @classmethod
    def from_aggregate(cls, aggregate: Aggregator, smoothing: Smoothing = "sure") -> Classifier:
        """Fit: read the labels off the sums, once; adding to them later does not change the classifier.

        ``smoothing`` is a Gaussian whose width has the least unbiased risk estimate (for "cosine": degree), or none.

        Warns of sums in which a row of "hadamard" or "cosine" is named too often or too rarely for reports
        that are all honest; of those it warns with probability at most one in a million.  Nothing is certified of them
        but with more fakes declared: see `certificate`.
        """
        if smoothing not in ("sure", None):
            raise ValueError(f"smoothing must be 'sure' or None, got {smoothing!r}")
        if not isinstance(aggregate.config, LatticeConfig):
            raise ValueError("these are sums of a round about a table; close it with them: epsworth learn close")
        if aggregate.users == 0 or not aggregate.tally.users.all():
            raise ValueError("the aggregate holds too few reports to read a label from; add reports first")
        if (why := why_odd(aggregate)) is not None:
            warnings.warn(f"{why}; nothing is certified of them: learn from other reports", UserWarning, stacklevel=2)
        return cls(Aggregator(aggregate.config, aggregate.tally), smoothing)

    def __str__(self) -> str:
        width = "" if self.width_ is None else f", smoothed over {self.width_:g} of the box"
        return f"{self.aggregate}: {self.config.kernel.cells:,} cells{width}"

    def save(self, path: str | Path) -> None:
        """Write the smoothing and the sums to a file, whole or not at all: nothing in it needs to be trusted."""
        with replacing(path) as temporary:
            temporary.write_bytes(MAGIC + f"{self.smoothing}\n".encode() + self.aggregate.state())

    @staticmethod
    def wrote(path: str | Path) -> bool:
        """Tell whether a file begins like those of `save`."""
        return begins_with(path, MAGIC)

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """Read a file that `save` wrote."""
        with reading(path, "model") as content:
            smoothing, _, state = content.removeprefix(MAGIC).partition(b"\n")
            if not content.startswith(MAGIC) or smoothing not in (b"sure", b"None"):
                raise ValueError("not a learnt model; give what epsworth learn fit wrote, or the session of a table")
            return cls.from_aggregate(Aggregator.from_state(state), "sure" if smoothing == b"sure" else None)

    @property
    def config(self) -> LatticeConfig:
        """The public configuration."""
        assert isinstance(self.aggregate.config, LatticeConfig)  # `from_aggregate` looks
        return self.aggregate.config

    @property
    def noise(self) -> float:
        """Variance of an estimate on average over cells, from the mechanism's formulas."""
        return self.config.kernel.mean_variance / self.aggregate.users

    @cached_property
    def estimates(self) -> Floats:
        """The unbiased estimates ``(cells, outputs)``."""
        return self.config.kernel.estimate(self.aggregate.tally)

    @cached_property
    def _surface(self) -> tuple[Floats, float | None]:  # scores on a grid, smoothed so widely; None: cell by cell
        kernel, found = self.config.kernel, self.estimates
        if isinstance(kernel, Cosine):
            return (kernel.shortened(found, self.noise) if self.smoothing else found), None
        table = found.reshape(*[kernel.side] * kernel.d, -1)
        if self.smoothing is None or kernel.overlapping:
            return table, None
        width = best_width(table, kernel.d, self.noise)
        return smoothed(table, gaussian(kernel.m, width), kernel.d), width

    @property
    def width_(self) -> float | None:
        """Width of the smoothing, as a share of the box."""
        return self._surface[1]

    def _scores(self, unit: Floats) -> Floats:
        kernel, (table, width) = self.config.kernel, self._surface
        if isinstance(kernel, Cosine):
            return kernel.evaluate(table, unit)
        if width is not None:
            return interpolate(table, unit)
        return as_floats(table.reshape(kernel.cells, -1)[self._cell(unit)])

    def _cell(self, unit: Floats) -> NDArray[np.int64]:
        kernel = self.config.kernel
        return flat(nearest(unit, kernel.m), kernel.side) if kernel.overlapping else cells(unit, kernel.m)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return scores: for two classes ``(n,)``, positive for the second one; else a mass per class ``(n, classes)``.

        An even vote, which goes to the second class (Berrett & Butucea 2019), scores the least positive number.
        """
        scores = self._scores(self.config.points(X)[0])
        return np.where(scores[:, 0] == 0, np.finfo(float).tiny, scores[:, 0]) if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return one label per point ``(n,)``."""
        return np.asarray(self.classes_[self.numbers(X)])

    def numbers(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the position of each label among the classes ``(n,)``."""
        return _best(self._scores(self.config.points(X)[0]))

    def z_scores(self, X: ArrayLike) -> Floats:
        """Return smoothed scores of two classes over their standard deviation ``(n,)``: these are no certificates."""
        kernel, width = self.config.kernel, self._surface[1]
        if width is None or kernel.outputs > 1:
            raise ValueError("z-scores belong to smoothed scores of two classes; ask for a certificate instead")
        unit = self.config.points(X)[0]
        spread = np.sqrt(self.noise * squared_weights(unit, kernel.m, width))
        return as_floats(self._scores(unit)[:, 0] / spread)

    def certificate(
        self, X: ArrayLike, *, fakes: Fakes, confidence: float | Fraction = 0.95, adjust: Adjust = "bonferroni",
        holder: Holder | None = None,
    ) -> Certificates:  # fmt: skip
        """Certify, per point, the label of its cell.

        Claim: the probability, over the users and their reports, that a cell whose average of eta - 1/2 has the other
        sign gets a p-value of at most ``1 - confidence`` is at most that; with ``adjust="bonferroni"`` this holds for
        all cells together.  What is certified is the sign of the *cell's average*, not of eta at the point; see
        ``holder``.  Labels are those of the cells, outside the box of the nearest one, and may differ from predictions.

        All of it holds if no more than ``fakes`` of these reports are fakes, of clients or added to theirs, and
        whatever they say, even if whoever makes them sees all other reports.

        Not claimed: anything once more reports are fakes than declared.  Nobody can tell a fake from an honest report,
        and a share f of them shifts an estimate by up to f times what one report weighs (1 / tanh(epsilon / 2) for
        one-bit reports), in every cell at once: 1 % of the reports can turn every label, and with ``fakes=0`` the
        wrong ones are certified.  Only fakes that name one row more often than honest clients would are seen: where
        there must be more of them than declared, nothing is certified, and ``reason`` says why.

        Parameters
        ----------
        X : array_like
            Points ``(n, d)``.
        fakes : int, or float or Fraction below one half
            At most so many of the aggregated reports, or this share of them, rounded up, are fakes: a bound on those
            that are there, not on what is expected.  0: nobody forges reports, as it must be beside ``holder`` and
            "bh".
        confidence : float or Fraction
            Probability that no certificate is wrong.
        adjust : {"bonferroni", "bh", "by"}
            Over all cells: no wrong one but with probability ``1 - confidence`` (any dependence); or at most that share
            of false discoveries among the certified, after Benjamini & Hochberg 1995 (independent or positively
            dependent cells), or after Benjamini & Yekutieli 2001 (any dependence).
        holder : Holder, optional
            Declared smoothness of eta: then ``point`` tells where the sign at the point itself is certified.

        Examples
        --------
        >>> import numpy as np
        >>> from epsworth.learner import Classifier, LatticeConfig, simulate
        >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
        >>> x = np.linspace(0, 1, 100)
        >>> learnt = Classifier.from_aggregate(simulate(config, x[:, None], x > 0.5, 0, users=10**6))
        >>> [learnt.certificate([[0.9]], fakes=fakes).certified.item() for fakes in (0, 0.01, 40_000)]
        [True, True, False]
        """
        unit, outside = self.config.points(X)
        best = _best(self.estimates)
        return certify(self.aggregate, self._cell(unit), outside, best, confidence, adjust, holder, fakes)


def _best(scores: Floats) -> NDArray[np.int64]:
    """Return label numbers: the second class from zero on, or the class of the largest mass."""
    best: Bools | NDArray[np.int64] = scores[:, 0] >= 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return np.asarray(best, dtype=np.int64)
