"""`ScoreAudit`: users who took part in no round are asked for the band of their published score, and their label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Floats, as_floats
from epsworth.learner.config import LatticeConfig
from epsworth.learner.mechanism import Mechanism, Users
from epsworth.learner.tables import reading as door
from epsworth.learner.tables.columns import Records, binned
from epsworth.learner.tables.config import TableConfig
from epsworth.learner.tables.model import TableClassifier
from epsworth.learner.tables.rounds import WIDEST, Maps, knots_told, read_binary, read_knots
from epsworth.learner.tables.scores import UNIT, Additive, Binary, differences
from epsworth.learner.tables.steps import Step

BANDS = {"labels": 16, "probabilities": 32}
KERNELS = {"labels": "hadamard", "probabilities": "oue"}
REACH = 3.0  # spreads of the score on either side that have bands of their own
LEAST_SPREAD = 1e-3


@dataclass(frozen=True, eq=False)
class ScoreAudit(Step):
    """A question about a published classifier of two labels, for users who answered in none of its rounds.

    Claim: a report keeps pure epsilon-LDP for the record, label included.  Scores and bands are fixed before these
    users report, which makes the certificates of `AuditedClassifier` exact.

    Attributes
    ----------
    config : TableConfig
    knots : tuple, one per column
        Of the maps that even out the bins; None for categories.
    score : Binary
        The score of the second label less that of the first, in whole numbers: the same on every device.
    about : {"labels", "probabilities"}
    middle, spread : int
        Of the scores, in the same units: where the bands lie.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Aggregator, Client, Number, ScoreAudit, TableConfig, learn_table
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(20_000, 5))
    >>> y = X[:, 0] + X[:, 1] > 1
    >>> columns = [Number(name, 0, 1) for name in "abcde"]
    >>> model = learn_table(TableConfig(columns, (False, True), epsilon=2, users=20_000), X, y, 1)
    >>> audit = ScoreAudit.of(model)
    >>> Aggregator(audit).add(Client(audit).reports(X[:3], y[:3]))
    3
    """

    FORMAT: ClassVar[str] = "epsworth-score-audit-1"
    WORD: ClassVar[str] = "audit"
    KEYS: ClassVar[tuple[str, ...]] = ("about", "score", "knots", "middle", "spread")
    NEEDED: ClassVar[tuple[str, ...]] = KEYS

    config: TableConfig
    knots: Maps | None
    score: Binary
    about: str
    middle: int
    spread: int

    def __post_init__(self) -> None:
        if len(self.config.classes) != 2:
            raise ValueError(f"an audit is about two labels, got {len(self.config.classes)}")
        if self.about not in BANDS:
            raise ValueError(f"about must be one of {', '.join(BANDS)}, got {self.about!r}")
        if self.config.rows == "hash" and self.about != "labels":
            raise ValueError("rows='hash' is for audits about labels; reports about probabilities have no rows")

    @classmethod
    def of(cls, model: TableClassifier, about: str = "labels") -> ScoreAudit:
        """Return the audit of a classifier.

        Parameters
        ----------
        model : TableClassifier
            Of two labels.
        about : {"labels", "probabilities"}
            Certificates need the sign of a band's labels alone; probabilities need both labels' shares, which costs
            another report and more users.

        Returns
        -------
        ScoreAudit

        Raises
        ------
        ValueError
            For more than two labels, and for anything else to be about.
        """
        knots = None if model.knots is None else tuple(model.knots)
        if len(model.classes_) != 2:
            raise ValueError(f"an audit is about two labels, got {len(model.classes_)}; learn one against the rest")
        middle, spread = _typical(model.scoring)
        return cls(model.config, knots, Binary.of(model.scoring), about, middle, spread)

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

    @property
    def rows(self) -> str:
        """Whether clients draw their rows, or these follow from their ids."""
        return str(self.bands.rows)

    def admitted(self, X: ArrayLike, y: Any) -> Users:
        """Return users as a client takes them: nobody is refused."""
        return self._users(door.admitted(self.config, X, y))

    def checked(self, X: ArrayLike, y: Any) -> Users:
        """Return users of an experiment: values that are not declared are refused."""
        return self._users(door.checked(self.config, X, y))

    def scores(self, X: ArrayLike) -> Floats:
        """Return the published score of every row ``(n, 1)``; whatever a row holds, it has one."""
        return self._scores(door.points(self.config, X))

    def _scores(self, records: Records) -> Floats:
        bins = binned(self.config.columns, records.place, self.knots)
        return as_floats(self.score.totals(bins, records.known)[:, None] / UNIT)

    def _users(self, records: Records) -> Users:
        """Return the scores as points of the bands; a label that was not declared is nowhere."""
        unit, _ = self.bands.scaled(self._scores(records))
        return Users(unit, np.maximum(records.label, 0), records.label < 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "format": self.FORMAT, "config": self.config.to_dict(), "about": self.about, "score": self.score.to_dict(),
            "knots": None if self.knots is None else knots_told(self.knots), "middle": self.middle,
            "spread": self.spread,
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
