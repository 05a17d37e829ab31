"""`TableLearner`: opens one round after another, and closes each with the sums of its reports."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Rng, generator
from epsworth.documents import in_words, read_json
from epsworth.files import reading, write_text
from epsworth.learner.aggregation import Aggregator, begins_with
from epsworth.learner.fakes import why_odd
from epsworth.learner.mechanism import Tally
from epsworth.learner.tables.columns import Knots, Records
from epsworth.learner.tables.config import TableConfig
from epsworth.learner.tables.estimates import Joint, Values, joint, knots_of, values_of
from epsworth.learner.tables.rounds import Round
from epsworth.learner.tables.scores import Additive, Alive, Binary, TableClassifier, alive, naive_bayes, weighted

FORMAT = "epsworth-table-learner-1"
BEGINNING = f'{{"format": "{FORMAT}"'.encode()


class TableLearner:
    """The server's side: `open` a round, add its reports up, `close` it; after the last one, `classifier`.

    Everything between two rounds is computed from sums of reports alone, and costs no privacy.

    Attributes
    ----------
    config : TableConfig
    closed : list of Aggregator
        The sums of the rounds that are closed.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Aggregator, Client, Number, TableConfig, TableLearner
    >>> X = np.random.default_rng(0).uniform(size=(6000, 5))
    >>> learner = TableLearner(TableConfig([Number(n, 0, 1) for n in "abcde"], (0, 1), epsilon=4, users=6000))
    >>> while (asked := learner.open()) is not None:
    ...     reports = Aggregator(asked)
    ...     sent = reports.add(Client(asked).reports(X[: asked.users], X[: asked.users, 0] > 0.5))
    ...     learner.close(reports)
    ...     X = np.roll(X, -asked.users, axis=0)  # everybody answers once
    >>> float(np.mean(learner.classifier().predict(X) == (X[:, 0] > 0.5))) > 0.75
    True
    """

    def __init__(self, config: TableConfig) -> None:
        if not isinstance(config, TableConfig):
            raise ValueError(f"config must be a TableConfig, got a {type(config).__name__}")
        self.config = config
        self.closed: list[Aggregator] = []
        self._knots: tuple[Knots | None, ...] | None = None
        self._joint: Joint | None = None
        self._model: Additive | None = None
        self._alive: Alive | None = None
        self._candidates: tuple[Additive, ...] = ()
        self._seed = ""  # a digest of the public one, where rows follow from ids

    def open(self) -> Round | None:
        """Return the next round, with what its clients must know; None after the last one."""
        shares = self.config.shares
        at = len(self.closed)
        while at < len(shares) and self._needless(shares[at].purpose):
            at += 1
        if at == len(shares):
            return None
        purpose = shares[at].purpose
        return Round(
            self.config, purpose, self._knots, self._alive if purpose == "weights" else None,
            tuple(map(Binary.of, self._candidates)) if purpose == "validation" else (),
        )  # fmt: skip

    @property
    def rounds(self) -> list[tuple[Aggregator, Round]]:
        """The sums of the closed rounds, and what these asked."""
        return [(sums, sums.config) for sums in self.closed if isinstance(sums.config, Round)]

    def _needless(self, purpose: str) -> bool:
        """Tell whether a round has nothing to ask about: fewer than two columns say anything."""
        if purpose == "weights":
            return self._alive is None or len(self._alive.columns) < 2
        return purpose == "validation" and len(self._candidates) < 2

    def close(self, aggregate: Aggregator) -> None:
        """Take the sums of the open round's reports."""
        if not isinstance(aggregate, Aggregator):
            raise ValueError(f"aggregate must be an Aggregator of the open round, got a {type(aggregate).__name__}")
        asked = self.open()
        if asked is None:
            raise ValueError("all rounds are closed: what was learnt is a model")
        given = aggregate.config
        if not isinstance(given, Round) or given.fingerprint() != asked.fingerprint():
            raise ValueError(
                f"these are sums of another round ({given.mechanism}); the open one asks for "
                f"{asked.mechanism}, fingerprint {asked.fingerprint()[:12]}"
            )
        if aggregate.users == 0:
            raise ValueError("nobody answered this round; add reports before closing it")
        if self._seed and aggregate.seed and aggregate.seed != self._seed:
            raise ValueError(
                "these reports follow from another public seed than those of earlier rounds: with two seeds a user "
                "may answer twice; open the session anew"
            )
        if (why := why_odd(aggregate)) is not None:
            warnings.warn(f"{why}; learn from other reports", UserWarning, stacklevel=2)
        self._seed = aggregate.seed or self._seed
        self._take(given, Aggregator(given, aggregate.tally))

    def _take(self, asked: Round, aggregate: Aggregator) -> None:
        """Learn from a round's sums; what was published for it stands, whatever would be computed here."""
        self._knots, self._alive = asked.knots or self._knots, asked.scores or self._alive
        kernel = asked.kernel
        values = values_of(aggregate.tally.counts, kernel.shares, kernel.contrast)
        getattr(self, f"_close_{asked.purpose}")(asked, values)
        self.closed.append(aggregate)

    def _close_quantiles(self, asked: Round, values: Values) -> None:
        self._knots = knots_of(values, asked.sign_rows, self.config.columns)

    def _close_tables(self, asked: Round, values: Values) -> None:
        config = self.config
        self._joint = joint(values, asked.sign_rows, config.columns, len(config.classes), config.plan)
        self._model = naive_bayes(self._joint)
        if config.plan.weights:
            self._alive = alive(self._model, self._joint)

    def _close_weights(self, asked: Round, values: Values) -> None:
        assert self._model is not None  # the order of rounds
        assert self._joint is not None
        assert self._alive is not None
        found, _ = weighted(self._model, self._joint, self._alive, values)
        self._candidates = (self._model, found)
        self._model = found

    def _close_validation(self, asked: Round, values: Values) -> None:
        """Go back to naive Bayes where it is better by more than a standard error."""
        naive, _ = self._candidates
        # the value of a vote is 2 accuracy - 1
        if (values.value[0] - values.value[1]) / 2 > float(np.sqrt(values.variance[0])) / 2:
            self._model = naive

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: the configuration, and every closed round with its sums."""
        closed = [{"round": sums.config.to_dict(), "counts": sums.tally.counts.tolist()} for sums in self.closed]
        found = {"format": FORMAT, "config": self.config.to_dict(), "closed": closed}
        return found | ({"seed": self._seed} if self._seed else {})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> TableLearner:
        """Read the JSON form; sums that no reports add up to are refused."""
        if document.get("format") != FORMAT:
            raise ValueError(f"this is not an {FORMAT} document; write one with epsworth learn close")
        found = cls(TableConfig.from_dict(document["config"]))
        closed, seed = document["closed"], document.get("seed", "")
        if not isinstance(closed, list) or not isinstance(seed, str):
            raise ValueError("closed must be a list of rounds, and seed a text; close the rounds again")
        found._seed = seed
        for entry in closed:
            asked, counts = Round.from_dict(entry["round"]), np.array(entry["counts"], dtype=np.int64).reshape(-1, 2)
            if asked.config != found.config:
                raise ValueError("a closed round is one of another configuration; close the rounds again")
            expected = found.open()
            if expected is None or expected.purpose != asked.purpose:
                raise ValueError("the rounds are not those of the configuration, in order; close them again")
            found._take(asked, Aggregator(asked, Tally(counts, np.array([counts.sum()]))))
        return found

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all; once all rounds are closed it is a model."""
        write_text(path, json.dumps(self.to_dict()) + "\n")

    @staticmethod
    def wrote(path: str | Path) -> bool:
        """Tell whether a file begins like those of `save`."""
        return begins_with(path, BEGINNING)

    @classmethod
    def load(cls, path: str | Path) -> TableLearner:
        """Read a file that `save` wrote, or a configuration, of which no round is closed."""
        with reading(path, "session") as content:
            try:
                document = read_json(content)
                form = document.get("format")
                if form == Round.FORMAT:
                    raise ValueError("this is a round, which clients get; give the session, or the configuration")
                return cls.from_dict(document) if form == FORMAT else cls(TableConfig.from_dict(document))
            except (TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
                raise ValueError(f"damaged or incomplete ({in_words(error)})") from None

    def classifier(self) -> TableClassifier:
        """Return what was learnt."""
        if (left := self.open()) is not None or self._model is None:
            raise ValueError(f"the round of {left.purpose if left else 'tables'} is still open; close it first")
        return TableClassifier(self.config, self._knots, self._model)


def learn_table(
    config: TableConfig, X: ArrayLike, y: ArrayLike, rng: Rng = None, *, users: int | None = None
) -> TableClassifier:
    """Return what would be learnt of a table from simulated reports: for experiments, never a release.

    Parameters
    ----------
    config : TableConfig
    X, y, rng
        As for `simulate`: rows, labels and randomness.  Values and labels that are not declared are refused; messages
        name rows and columns, never values.
    users : int, optional
        Draw this many users from the rows with replacement, and their sums directly; by default every row reports
        once, in a round drawn for it.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.learner import Number, TableConfig, learn_table
    >>> X = np.random.default_rng(0).uniform(size=(10_000, 6))
    >>> config = TableConfig([Number(name, 0, 1) for name in "abcdef"], (0, 1), epsilon=2, users=10_000)
    >>> model = learn_table(config, X, X.sum(axis=1) > 3, 1)
    >>> float(np.mean(model.predict(X) == (X.sum(axis=1) > 3))) > 0.8
    True
    """
    records = config.checked(X, y)
    return _learnt(TableLearner(config), records, generator(rng), users)


def _learnt(learner: TableLearner, records: Records, source: np.random.Generator, users: int | None) -> TableClassifier:
    n = records.label.size
    order = source.permutation(n) if users is None else np.arange(n)
    start = 0
    while (asked := learner.open()) is not None:
        part = max(1, int(dict(learner.config.shares)[asked.purpose] * (n if users is None else users)))
        if users is None:
            own = records.part(order[start : start + part] if start < n else order[-1:])
            tally = asked.kernel.simulate(own, source)
        else:
            tally = asked.kernel.simulate(records, source, part)
        learner.close(Aggregator(asked, tally))
        start += part
    return learner.classifier()
