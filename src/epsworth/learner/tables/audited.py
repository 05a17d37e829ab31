"""`AuditedClassifier`: certificates and probabilities of a published classifier, from users who judged its scores."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.learner.aggregation import Aggregator
from epsworth.learner.certificates import Adjust, Certificates, Certifying, Fakes
from epsworth.learner.coins import Ints
from epsworth.learner.encoding import cells, class_array
from epsworth.learner.model import Classifier
from epsworth.learner.tables.rounds import ScoreAudit

CLEARLY = 3.0  # standard errors that a group of bands holds


class AuditedClassifier(Certifying):
    """What the users of an audit tell of a classifier that was published before they reported.

    Claim: with the stated confidence more of the people in every certified band have the certified label than the
    other one; bands and scores are fixed, so the test is exact.  Nothing is said of single scores, nor of the people
    within a band.

    Parameters
    ----------
    aggregate : Aggregator
        The sums of the reports of a `ScoreAudit`; those of anything else, or of nobody, are refused.

    Attributes
    ----------
    audit : ScoreAudit
    classes_ : ndarray
        The two labels.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import AuditedClassifier, Number, ScoreAudit, TableConfig, learn_table, simulate
    >>> X = np.random.default_rng(0).uniform(size=(20_000, 5))
    >>> y = X[:, 0] + X[:, 1] > 1
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> model = learn_table(TableConfig(columns, (False, True), epsilon=2, users=20_000), X, y, 1)
    >>> audited = AuditedClassifier(simulate(ScoreAudit.of(model), X, y, 2, users=20_000))
    >>> sure = audited.certificate([[0.8, 0.8, 0.5, 0.5, 0.5], [0.2, 0.2, 0.5, 0.5, 0.5]], fakes=0)
    >>> sure.label.tolist(), sure.certified.tolist()
    ([True, False], [True, True])
    """

    def __init__(self, aggregate: Aggregator) -> None:
        if not isinstance(aggregate.config, ScoreAudit):
            raise ValueError("these are no sums of an audit; aggregate the reports about a ScoreAudit")
        self.audit = aggregate.config
        self.aggregate = aggregate
        self.classes_: NDArray[Any] = class_array(self.audit.config.classes)
        self._bands = Classifier.from_aggregate(Aggregator(self.audit.bands, aggregate.tally), smoothing=None)

    def certificate(
        self, X: ArrayLike, *, fakes: Fakes, confidence: float | Fraction = 0.95, adjust: Adjust = "bonferroni"
    ) -> Certificates:
        """Certify the commoner label of the band of every row's score, all bands together: `Classifier.certificate`.

        ``X`` are rows of the table ``(n, columns)``; ``fakes`` a bound on the number or share of fake reports.
        """
        return self._bands.certificate(self.audit.scores(X), confidence=confidence, adjust=adjust, fakes=fakes)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the shares of the labels in the band of every row's score ``(n, 2)``, in the order of ``classes_``.

        An estimate, no certificate: the bands' shares, made monotone by least squares.  An audit about labels alone is
        refused.
        """
        from sklearn.isotonic import IsotonicRegression

        audit = self.audit
        if audit.about != "probabilities":
            raise ValueError("these reports tell which label is commoner alone; audit with about='probabilities'")
        group, mass, noise = self._pooled()
        whole = np.maximum(mass.sum(axis=1), noise)
        expected, error = self._expected(group), noise / whole
        spread = np.sqrt(expected * (1 - expected)) / 2  # how far off scores may be
        trust = spread**2 / (spread**2 + error**2)
        share = expected + trust * (np.clip(mass[:, 1] / whole, 0, 1) - expected)
        rising = IsotonicRegression(y_min=0, y_max=1).fit_transform(np.arange(len(share)), share, sample_weight=whole)
        own = rising[group[cells(audit.bands.points(audit.scores(X))[0], audit.bands.m)]]
        return as_floats(np.column_stack([1 - own, own]))

    def _expected(self, group: Ints) -> Floats:
        """Return the second label's share that scores stand for, if they are log odds, on average over each group."""
        (low, high), side = self.audit.bands.box[0], self.audit.bands.m
        middles = low + (np.arange(side) + 0.5) / side * (high - low)
        return as_floats(np.bincount(group, 1 / (1 + np.exp(-middles))) / np.bincount(group))

    def _pooled(self) -> tuple[Ints, Floats, Floats]:
        """Return every band's group, the groups' estimated shares of the users by label ``(groups, 2)``, their noise.

        Cutting estimates of bands off at zero instead would make rare labels of empty bands, and shares too even.
        """
        kernel, sums = self.audit.kernel, self.aggregate
        told = sums.tally.counts.diagonal(axis1=1, axis2=2) / sums.users  # how often the bit of a pair is set
        off = (1 - kernel.contrast) / 2
        mass, noise = (told - off) / (0.5 - off), 2 * off * (1 - off) / (0.5 - off) ** 2 / sums.users
        group, start = np.zeros(len(mass), dtype=np.int64), 0
        for band in range(len(mass)):
            group[band:] = group[band]
            held = mass[start : band + 1].sum()
            rest = mass[band + 1 :].sum()
            if held >= CLEARLY * np.sqrt(noise * (band + 1 - start)) and rest >= CLEARLY * np.sqrt(noise * len(mass)):
                start = band + 1
                group[start:] += 1
        pooled = np.zeros((int(group.max()) + 1, 2))
        np.add.at(pooled, group, mass)
        return group, pooled, as_floats(np.sqrt(noise * np.bincount(group)))
