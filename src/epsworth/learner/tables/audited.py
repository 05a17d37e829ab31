"""`AuditedClassifier`: certificates and probabilities of a published classifier, from users who judged its scores."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.learner.aggregation import Aggregator
from epsworth.learner.certificates import Adjust, Certificates
from epsworth.learner.lattice import cells
from epsworth.learner.model import Classifier
from epsworth.learner.tables.audits import ScoreAudit


class AuditedClassifier:
    """What the users of an audit tell of a classifier that was published before they reported.

    Claim: with the stated confidence more of the people in every certified band have the certified label than the
    other one; bands and scores are fixed, so the test is exact.  Nothing is said of single scores, nor of the people
    within a band.

    Parameters
    ----------
    aggregate : Aggregator
        The sums of the reports of a `ScoreAudit`.

    Attributes
    ----------
    audit : ScoreAudit
    classes_ : ndarray
        The two labels.

    Raises
    ------
    ValueError
        For sums of anything else, or of nobody.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import AuditedClassifier, Number, ScoreAudit, TableConfig, learn_table, simulate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(20_000, 5))
    >>> y = X[:, 0] + X[:, 1] > 1
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> model = learn_table(TableConfig(columns, (False, True), epsilon=2, users=20_000), X, y, 1)
    >>> audited = AuditedClassifier(simulate(ScoreAudit.of(model), X, y, 2, users=20_000))
    >>> sure = audited.certificate([[0.9] * 5, [0.1] * 5])
    >>> sure.label.tolist(), sure.certified.tolist()
    ([True, False], [True, True])
    """

    def __init__(self, aggregate: Aggregator) -> None:
        if not isinstance(aggregate.config, ScoreAudit):
            raise ValueError("these are no sums of an audit; aggregate the reports about a ScoreAudit")
        self.audit = aggregate.config
        self.aggregate = aggregate
        self.classes_: NDArray[Any] = np.array(self.audit.config.classes)
        self._bands = Classifier.from_aggregate(Aggregator(self.audit.bands, aggregate.tally), smoothing=None)

    def certificate(
        self, X: ArrayLike, *, confidence: float | Fraction = 0.95, adjust: Adjust = "bonferroni", fakes: int = 0
    ) -> Certificates:
        """Certify the commoner label of the band of every row's score, all bands together.

        Parameters
        ----------
        X : array_like or data frame
            Rows of the table ``(n, columns)``.
        confidence : float or Fraction
            Probability with which all certified bands are right.
        adjust : {"bonferroni", "bh", "none"}
        fakes : int
            At most so many of the audit's reports are fakes.

        Returns
        -------
        Certificates

        See Also
        --------
        Classifier.certificate
        """
        return self._bands.certificate(self.audit.scores(X), confidence=confidence, adjust=adjust, fakes=fakes)

    def abstain(
        self, X: ArrayLike, *, confidence: float | Fraction = 0.95, adjust: Adjust = "bonferroni", fakes: int = 0
    ) -> np.ma.MaskedArray[Any, Any]:
        """Return the certified labels of the rows' bands, masked where there is none."""
        return self._bands.abstain(self.audit.scores(X), confidence=confidence, adjust=adjust, fakes=fakes)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the shares of the labels in the band of every row's score ``(n, 2)``, rising with the score.

        An estimate, no certificate: the bands' shares, made monotone by least squares.

        Parameters
        ----------
        X : array_like or data frame
            Rows of the table ``(n, columns)``.

        Returns
        -------
        ndarray
            In the order of ``classes_``.

        Raises
        ------
        ValueError
            For an audit that is about labels alone.
        """
        from sklearn.isotonic import IsotonicRegression

        audit = self.audit
        if audit.about != "probabilities":
            raise ValueError("these reports tell which label is commoner alone; audit with about='probabilities'")
        mass = self._masses()
        whole = mass.sum(axis=1)
        share = np.where(whole > 0, mass[:, 1] / np.maximum(whole, 1e-12), 0.5)
        rising = IsotonicRegression(y_min=0, y_max=1).fit_transform(
            np.arange(len(mass)), share, sample_weight=whole + 1e-9
        )
        own = rising[cells(audit.bands.points(audit.scores(X))[0], audit.bands.m)]
        return as_floats(np.column_stack([1 - own, own]))

    def _masses(self) -> Floats:
        """Return the estimated share of the users with every band and label, at least 0 ``(bands, 2)``."""
        kernel, sums = self.audit.kernel, self.aggregate
        told = sums.tally.counts.diagonal(axis1=1, axis2=2) / sums.users  # how often the bit of a pair is set
        off = (1 - kernel.contrast) / 2
        return np.maximum((told - off) / (0.5 - off), 0.0)
