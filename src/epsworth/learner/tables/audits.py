"""Audits of a published classifier: `ScoreAudit` asks fresh users, `AuditedClassifier` certifies what they tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, as_floats
from epsworth.learner.aggregation import Aggregator
from epsworth.learner.certificates import Adjust, Certificates, Certifying, Fakes
from epsworth.learner.coins import Ints
from epsworth.learner.config import LatticeConfig
from epsworth.learner.encoding import cells, class_array
from epsworth.learner.mechanism import Mechanism, Users
from epsworth.learner.model import Classifier
from epsworth.learner.tables.columns import Records, binned
from epsworth.learner.tables.config import TableConfig
from epsworth.learner.tables.rounds import WIDEST, Maps, Step, read_binary, read_knots
from epsworth.learner.tables.scores import UNIT, Additive, Binary, TableClassifier, differences

BANDS = {"labels": 16, "probabilities": 32}
KERNELS = {"labels": "hadamard", "probabilities": "oue"}
REACH = 3.0  # spreads of the score on either side that have bands of their own
LEAST_SPREAD = 1e-3
CLEARLY = 3.0  # standard errors that a group of bands holds


@dataclass(frozen=True, eq=False)
class ScoreAudit(Step):
    """A question about a published classifier of two labels, for users who answered in none of its rounds.

    Claim: a report keeps pure epsilon-LDP for the record, label included.  Scores and bands are fixed before these
    users report, which makes the certificates of `AuditedClassifier` exact.

    Attributes
    ----------
    config, knots
        Of the table, as in `Round`.
    score : Binary
        The score of the second label less that of the first, in whole numbers: the same on every device.
    about : {"labels", "probabilities"}
    middle, spread : int
        Of the scores, in the same units: where the bands lie.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Aggregator, Client, Number, ScoreAudit, TableConfig, learn_table
    >>> X = np.random.default_rng(0).uniform(size=(20_000, 5))
    >>> y = X[:, 0] + X[:, 1] > 1
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> model = learn_table(TableConfig(columns, (False, True), epsilon=2, users=20_000), X, y, 1)
    >>> audit = ScoreAudit.of(model)
    >>> Aggregator(audit).add(Client(audit).reports(X[:3], y[:3]))
    3
    """

    FORMAT: ClassVar[str] = "epsworth-score-audit-1"
    WORD: ClassVar[str] = "audit"
    KEYS: ClassVar[tuple[str, ...]] = ("config", "about", "score", "knots", "middle", "spread")
    NEEDED: ClassVar[tuple[str, ...]] = KEYS
    HASHED: ClassVar[str] = "epsworth audit"

    config: TableConfig
    knots: Maps | None
    score: Binary
    about: str
    middle: int
    spread: int

    def __post_init__(self) -> None:
        if len(self.config.classes) != 2:
            raise ValueError(
                f"an audit is about two labels, got {len(self.config.classes)}; learn one against the rest"
            )
        if self.about not in BANDS:
            raise ValueError(f"about must be one of {', '.join(BANDS)}, got {self.about!r}")
        if self.config.rows == "hash" and self.about != "labels":
            raise ValueError("rows='hash' is for audits about labels; reports about probabilities have no rows")

    @classmethod
    def of(cls, model: TableClassifier, about: str = "labels") -> ScoreAudit:
        """Return the audit of a classifier of two labels; refuse any other.

        Certificates need the sign of a band's labels alone, ``about="labels"``; "probabilities" need both labels'
        shares, which costs another report and more users.
        """
        return cls(model.config, model.knots, Binary.of(model.scoring), about, *_typical(model.scoring))

    @cached_property
    def bands(self) -> LatticeConfig:
        """The question itself: cells of one feature, the score."""
        reach = REACH * self.spread
        box = [((self.middle - reach) / UNIT, (self.middle + reach) / UNIT)]
        return LatticeConfig(
            box, BANDS[self.about], 1, self.config.classes, KERNELS[self.about], self.config.epsilon, "clip",
            ("score",), self.config.rows,
        )  # fmt: skip

    @property
    def kernel(self) -> Mechanism:
        """How a user answers."""
        return self.bands.kernel

    @property
    def mechanism(self) -> str:
        """What it asks for."""
        return "audit of a table"

    def scores(self, X: ArrayLike) -> Floats:
        """Return the published score of every row ``(n, 1)``; whatever a row holds, it has one."""
        return self._scores(self.config.points(X))

    def _scores(self, records: Records) -> Floats:
        bins = binned(self.config.columns, records.place, self.knots)
        return as_floats(self.score.totals(bins, records.known)[:, None] / UNIT)

    def users_of(self, records: Records) -> Users:
        """Return where scores lie among the bands."""
        unit, _ = self.bands.scaled(self._scores(records))
        return Users(unit, np.maximum(records.label, 0), records.label < 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "format": self.FORMAT, "config": self.config.to_dict(), "about": self.about, "score": self.score.to_dict(),
            "knots": self.knots, "middle": self.middle, "spread": self.spread,
        }  # fmt: skip

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> ScoreAudit:
        """Read the JSON form; whatever does not fit the configuration is refused."""
        config = TableConfig.from_dict(document["config"])
        middle, spread = document["middle"], document["spread"]
        for name, found, least in (("middle", middle, -WIDEST), ("spread", spread, 1)):
            if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= WIDEST:
                raise ValueError(f"{name} must be a whole number of modest size; write the audit again")
        knots, score = read_knots(document["knots"], config), read_binary(document["score"], config)
        return cls(config, knots, score, document["about"], middle, spread)


def _typical(model: Additive) -> tuple[int, int]:
    """Return the middle and the spread of scores if bins were even and columns independent: public numbers alone."""
    start = float(model.intercept[1] - model.intercept[0])
    own = differences(model)
    spread = float(np.sqrt(sum(float(np.var(score)) for score in own)))
    middle = start + sum(float(score.mean()) for score in own)
    return round(middle * UNIT), max(round(spread * UNIT), round(LEAST_SPREAD * UNIT))


class BandCertificates(Certificates):
    """Certificates of bands of the score."""

    OVER = ("row", "band of scores")


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
        found = self._bands.certificate(self.audit.scores(X), confidence=confidence, adjust=adjust, fakes=fakes)
        return BandCertificates(**vars(found))

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
