"""What can be certified of a table's classifier: fresh users tell the band of its published score, and their label."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, Rng, as_floats
from epsworth.learner.aggregation import Aggregator, simulate
from epsworth.learner.certificates import Adjust, Certificates
from epsworth.learner.client import Client
from epsworth.learner.config import LatticeConfig
from epsworth.learner.lattice import cells
from epsworth.learner.model import Classifier
from epsworth.learner.tables.model import TableClassifier
from epsworth.learner.tables.scores import differences

BANDS = {"labels": 16, "probabilities": 32}
KERNELS = {"labels": "hadamard", "probabilities": "oue"}
REACH = 3.0  # spreads of the score on either side that have bands of their own


@dataclass(frozen=True, eq=False)
class Audit:
    """A round about a published classifier of two labels, answered by users who took part in none before.

    Claim: the bands and the scores were fixed before these users report, so the certificate of a band is exact: with
    the stated confidence more of the people in it have the certified label than the other one.  Nothing is said of
    single scores, nor of the people within a band.

    Attributes
    ----------
    model : TableClassifier
        As it was published.
    config : LatticeConfig
        What these users report: their score's band, and their label.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Audit, Number, TableConfig, learn_table
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(20_000, 5))
    >>> y = X[:, 0] + X[:, 1] > 1
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> model = learn_table(TableConfig(columns, (False, True), epsilon=2, users=20_000), X, y, 1)
    >>> audit = Audit.of(model)
    >>> sure = audit.certificate(audit.simulate(X, y, 2, users=20_000), [[0.9] * 5, [0.1] * 5])
    >>> sure.label.tolist(), sure.certified.tolist()
    ([True, False], [True, True])
    """

    model: TableClassifier
    config: LatticeConfig

    @classmethod
    def of(cls, model: TableClassifier, about: str = "labels") -> Audit:
        """Return the audit of a classifier.

        Parameters
        ----------
        model : TableClassifier
            Of two labels.
        about : {"labels", "probabilities"}
            Certificates need the sign of a band's labels alone; probabilities need both labels' shares, which costs
            another report and more users.

        Raises
        ------
        ValueError
            For more than two labels, and for anything else to be about.
        """
        if len(model.classes_) != 2:
            raise ValueError(f"an audit is about two labels, got {len(model.classes_)}; audit one label against others")
        if about not in BANDS:
            raise ValueError(f"about must be one of {', '.join(BANDS)}, got {about!r}")
        middle, spread = _typical(model)
        box = [(middle - REACH * spread, middle + REACH * spread)]
        epsilon, classes = model.config.epsilon, model.config.classes
        return cls(model, LatticeConfig(box, BANDS[about], 1, classes, KERNELS[about], epsilon, "clip", ("score",)))

    def scores(self, X: ArrayLike) -> Floats:
        """Return the published score of every row ``(n, 1)``; whatever a row holds, it has one."""
        return as_floats(self.model.decision_function(X)[:, None])

    def reports(self, X: ArrayLike, y: ArrayLike) -> bytes:
        """Return one report per row, end to end, fit for release."""
        return Client(self.config).reports(self.scores(X), y)

    def simulate(self, X: ArrayLike, y: ArrayLike, rng: Rng = None, *, users: int | None = None) -> Aggregator:
        """Return the sums of an experiment; see `simulate`."""
        return simulate(self.config, self.scores(X), y, rng, users=users)

    def certificate(
        self, aggregate: Aggregator, X: ArrayLike, *, confidence: float | Fraction = 0.95, adjust: Adjust = "bonferroni"
    ) -> Certificates:
        """Certify the commoner label of the band of every row's score; see `Classifier.certificate`."""
        found = Classifier.from_aggregate(self._checked(aggregate), smoothing=None)
        return found.certificate(self.scores(X), confidence=confidence, adjust=adjust)

    def probabilities(self, aggregate: Aggregator, X: ArrayLike) -> Floats:
        """Return the shares of the labels in the band of every row's score ``(n, 2)``, rising with the score.

        An estimate, no certificate: shares of the two labels, made monotone by least squares.

        Raises
        ------
        ValueError
            For sums of an audit that is about labels alone.
        """
        from sklearn.isotonic import IsotonicRegression

        sums = self._checked(aggregate)
        if self.config.mechanism != "oue":
            raise ValueError("these reports tell which label is commoner alone; audit with about='probabilities'")
        kernel = self.config.kernel
        set_ = sums.tally.counts.diagonal(axis1=1, axis2=2) / sums.users
        off = (1 - kernel.contrast) / 2  # how often the bit of another pair is set
        masses = np.maximum((set_ - off) / (0.5 - off), 0.0)
        whole = masses.sum(axis=1)
        share = np.where(whole > 0, masses[:, 1] / np.maximum(whole, 1e-12), 0.5)
        rising = IsotonicRegression(y_min=0, y_max=1).fit_transform(
            np.arange(kernel.cells), share, sample_weight=whole + 1e-9
        )
        own = rising[cells(self.config.points(self.scores(X))[0], kernel.m)]
        return as_floats(np.column_stack([1 - own, own]))

    def _checked(self, aggregate: Aggregator) -> Aggregator:
        if aggregate.config.fingerprint() != self.config.fingerprint():
            raise ValueError("these are sums of another configuration than this audit's; aggregate its own reports")
        return aggregate


def _typical(model: TableClassifier) -> tuple[float, float]:
    """Return the middle and the spread of scores if bins were even and columns independent: public numbers alone."""
    start = float(model.model.intercept[1] - model.model.intercept[0])
    own = differences(model.model)
    spread = float(np.sqrt(sum(float(np.var(score)) for score in own)))
    return start + sum(float(score.mean()) for score in own), max(spread, 1e-3)
