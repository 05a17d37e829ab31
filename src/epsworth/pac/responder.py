"""Answers by one secret model of many, until a total of nats is spent, and for ever after without it."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats
from epsworth.numerals import as_float, short
from epsworth.pac.alone import Alone
from epsworth.pac.beliefs import MOST, Beliefs, Records, Votes
from epsworth.pac.budgets import MI, DPEquivalent, Posterior, nats_of
from epsworth.pac.description import fitted_mark, mark
from epsworth.pac.journal import Entry, Journal
from epsworth.pac.mechanism import check_masked
from epsworth.pac.responses import LEAST, ONE, SLACK, Channel, channel_of, checked_fallback, checked_nats, weaker
from epsworth.rounding import UNIT, float_above, show_up
from epsworth.values import label_array

VERSION = 1


class Told(NamedTuple):
    """What may be shown at any moment: no draw that is not on the disk yet, and might be drawn again."""

    spent: Fraction
    charged: int
    probabilities: Floats


class ResponseServer:
    """Answers queries about labels, one by one or many at once, by models of which one is the secret.

    Claim: all answers together, each of which may depend on those before, obey MI(secret model; answers) <= ``spent``
    <= ``budget``, whichever threads and processes ask, and whatever is killed: an answer is on the disk before it
    leaves.  With ``record_posterior`` = q every record's membership keeps a chance in [1 - q, q] on *every* path of
    answers, so that at any false-positive rate at most q / (1 - q) (1 - f) / f times as many members are found, f being
    the share of the models that hold the record.

    Parameters
    ----------
    models : sequence of estimators or functions
        At least two, of which each gives a label to every row; one is drawn as the secret.  All run on every query.
    members : array_like of bool, shape ``(models, records)``
        Which records of the pool each model was made from.
    budget : MI, Posterior or DPEquivalent
        What all answers together may tell.
    classes : sequence
        All labels that the models may give.
    fallback : {"uniform", "votes", "plurality"}
        What answers where the secret model is not asked: any label, a label by the public's chances, or the likeliest.
        With ``"plurality"`` and without ``record_posterior`` it is never asked, and nothing is spent: another answer
        would rule out all models that voted otherwise.
    per_query : float or MI
        Nats that one answer may cost; unanimous votes, and votes that were charged before, cost none.
    ledger : path
        Journal of the answers, which knows the secret; made if absent, with a fresh secret.  As private as the pool.
    record_posterior : float, optional
        q of the claim for single records, in (0.5, 1).
    head : str, optional
        What ``head`` was at any time since: an older copy of the journal, which would spend again, is refused.

    Raises
    ------
    ValueError
        For a journal that is in use, damaged, older than ``head``, or of other models, members or promises.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from epsworth.pac import MI, ResponseServer
    >>> models = [lambda X, c=c: (X[:, 0] > c).astype(int) for c in (0.3, 0.4, 0.5, 0.6)]
    >>> members = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool)
    >>> settings = {"classes": [0, 1], "fallback": "votes", "per_query": 0.01}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ResponseServer(models, members, MI(0.5), ledger=f"{folder}/answers", **settings) as server:
    ...         labels = server.answer([[0.1], [0.45], [0.9]])
    ...     labels[[0, 2]].tolist(), 0 < server.spent <= 0.01
    ([0, 1], True)

    Notes
    -----
    Given the past, the secret has exactly the public's belief, so that exact costs add up (chain rule).  Being in the
    pool at all is not protected: unanimous and plurality answers are functions of the pool.  How long an answer takes
    does not depend on the secret; it tells whether the models agreed.
    """

    def __init__(
        self,
        models: Sequence[Any],
        members: ArrayLike,
        budget: MI | Posterior | DPEquivalent,
        *,
        classes: Sequence[Any] | NDArray[Any],
        fallback: str,
        per_query: float | MI,
        ledger: str | Path,
        record_posterior: float | None = None,
        head: str | None = None,
    ) -> None:
        self._alone = Alone("server", "answer")
        self._total = nats_of(budget)
        self._models, held = _checked_models(models), _checked_members(members)
        if len(self._models) != len(held):
            raise ValueError(f"members must have a row per model, {len(self._models)}, got shape {held.shape}")
        self._classes = _checked_classes(classes)
        self._votes_kind = np.min_scalar_type(len(self._classes) - 1)
        self._fallback = checked_fallback(fallback)
        self._nats = max(0.0, (checked_nats("per_query", per_query) - LEAST) / (1 + SLACK) * (1 - 4 * UNIT))
        q = None if record_posterior is None else _checked_q(record_posterior)
        self._records = None if q is None else Records(held, q)
        if self._fallback == "plurality" and q is None:
            self._nats = 0.0
        self._beliefs, self._spent, self._ended = Beliefs(len(held)), Fraction(0), False
        self._answers: dict[bytes, int] = {}
        self._secret = -1
        self._journal = Journal(ledger, head)
        try:
            self._open(
                {
                    "responses": VERSION, "models": _mark_of(self._models), "members": _mark_of_members(held),
                    "classes": mark(self._classes.tolist()), "budget": self._total, "record_posterior": q,
                }
            )  # fmt: skip
        except BaseException:
            self._journal.close()
            raise
        self._told = self._known()

    @property
    def total(self) -> float:
        """Nats that all answers together may spend."""
        return self._total

    @property
    def spent(self) -> float:
        """Nats spent so far, rounded up."""
        return float_above(self._told.spent)

    @property
    def charged(self) -> int:
        """How many answers were charged; all others were free."""
        return self._told.charged

    @property
    def probabilities(self) -> Floats:
        """A copy of the public's belief about the secret model, a function of votes and answers only."""
        return self._told.probabilities.copy()

    @property
    def head(self) -> str:
        """The mark of the journal's last line, which tells nothing of it: note it elsewhere, and give it when opening.

        Whoever restores an older copy of the journal spends again what was spent since; this mark finds that out.
        """
        return self._journal.head

    def __repr__(self) -> str:
        """Show budget and use, nothing else."""
        return f"ResponseServer(spent {show_up(self.spent)} of {self.total:g} nats in {self.charged} charged answers)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server knows the secret model and cannot be copied or pickled; open its ledger anew")

    def __enter__(self) -> ResponseServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Answer no more, and let another process have the journal."""
        if not self._alone.at_home:
            self._journal.close()  # its lock stays its owner's
            return
        with self._alone:
            self._journal.close()

    def answer(self, X: Any) -> NDArray[Any]:
        """Return one label per row; rows are answered in order, each by what the earlier ones told.

        Raises
        ------
        ValueError
            Where a model does not give every row one of ``classes``, and where the journal cannot be written: then
            nothing leaves, and the server is closed for good.
        """
        self._alone.check()
        votes = self._votes(X)
        with self._alone:
            if not self._journal.open:
                raise ValueError(f"this server is closed; open its ledger {self._journal.path} anew")
            entries: list[Entry] = []
            try:
                labels = [self._label(row, entries.append) for row in votes]
                if entries:
                    self._journal.append(entries)
                    self._told = self._known()
            except BaseException:  # what was drawn and not written must not be drawn again
                self._journal.close()
                raise
        return np.asarray(self._classes[labels])

    def reveal_for_tests(self) -> int:
        """Return which model is the secret one.  NOT PRIVATE."""
        return self._secret

    def _known(self) -> Told:
        return Told(self._spent, self._beliefs.answers, self._beliefs.probabilities)

    def _open(self, promised: Entry) -> None:
        """Read what was answered; the first time, draw the secret."""
        for number, entry in enumerate(self._journal.read(), 1):
            try:
                if number > 1:
                    self._replay(entry)
                    continue
                found = dict(entry)
                self._secret = int(found.pop("secret"))
                if not 0 <= self._secret < len(self._models):
                    raise ValueError
            except (KeyError, TypeError, ValueError, IndexError):
                raise ValueError(
                    f"line {number} of the ledger {self._journal.path} is none of such a server; give another file"
                ) from None
            for name, value in promised.items():
                if found.get(name) != value:
                    raise ValueError(
                        f"the ledger {self._journal.path} was begun with other {WORDS.get(name, name)}; give those, or "
                        "another ledger, whose total is counted apart"
                    )
        if self._secret < 0:
            self._secret = secrets.randbelow(len(self._models))
            self._journal.append([{**promised, "secret": self._secret}])

    def _replay(self, entry: Entry) -> None:
        """Take one line of the journal as it was drawn."""
        if "end" in entry:
            self._ended = True
            return
        votes = np.frombuffer(bytes.fromhex(entry["votes"]), dtype=self._votes_kind)
        by, label = Channel(int(entry["k"]), tuple(map(int, entry["others"])), 0.0), int(entry["label"])
        cost, labels = float(entry["cost"]), len(self._classes)
        if not (
            len(votes) == len(self._models) and votes.max() < labels == len(by.others) and 0 <= label < labels
            and by.k > 0 and min(by.others) >= 0 and by.k + sum(by.others) == ONE and 0 < cost < math.inf
            and by.row(int(votes[self._secret]))[label]
        ):  # fmt: skip
            raise ValueError
        self._count(votes, label, by, Fraction(cost))

    def _count(self, votes: Votes, label: int, by: Channel, cost: Fraction) -> None:
        self._spent += cost
        self._answers[votes.tobytes()] = label
        self._beliefs.update(votes, label, by)

    def _label(self, votes: Votes, keep: Callable[[Entry], None]) -> int:
        """Answer one query: plan without the secret, draw with it, keep what must be on the disk first."""
        if (known := self._answers.get(votes.tobytes())) is not None:  # though models may be ruled out since
            return known
        agreed = votes[self._beliefs.possible]
        if (agreed == agreed[0]).all():
            return int(agreed[0])
        by = self._planned(votes, keep)
        label = by.answer(int(votes[self._secret]), secrets.randbits(64))
        if by.k:
            keep({"votes": votes.tobytes().hex(), "k": by.k, "others": by.others, "label": label, "cost": by.cost})
            self._count(votes, label, by, Fraction(by.cost))
        return label

    def _planned(self, votes: Votes, keep: Callable[[Entry], None]) -> Channel:
        """Return the channel for these votes: a function of the public's belief only."""
        chances = self._beliefs.chances(votes, len(self._classes))
        free = self._ended or self._beliefs.answers >= MOST
        by = channel_of(chances, self._fallback, 0.0 if free else self._nats)
        if by.k and self._records is not None:
            by = self._records.allowed(self._beliefs, votes, chances, self._fallback, by)
        if by.k and self._spent + Fraction(by.cost) > Fraction(self._total):
            self._ended = True
            keep({"end": True})
            by = weaker(chances, self._fallback, by, by.k.bit_length())
        return by

    def _votes(self, X: Any) -> Votes:
        """Ask all models; return the places of their labels in ``classes``, a row per query."""
        rows = X if hasattr(X, "columns") else _array(X, "X must be a table, a row per query")
        if len(rows.shape) != 2:
            raise ValueError(f"X must be a table, a row per query, got shape {rows.shape}")
        votes = np.empty((rows.shape[0], len(self._models)), dtype=self._votes_kind)
        for number, model in enumerate(self._models if len(votes) else ()):
            labels = model.predict(rows) if hasattr(model, "predict") else model(rows)
            check_masked(labels, told := f"what model {number} gives")
            given = label_array(labels, told)
            if given.shape != (len(votes),):
                raise ValueError(f"model {number} gave shape {given.shape} for {len(votes)} queries; one label each")
            votes[:, number] = self._places(given, number)
        return votes

    def _places(self, given: NDArray[Any], number: int) -> NDArray[np.intp]:
        """Return where in `classes` these labels stand."""
        places = {label: place for place, label in enumerate(self._classes.tolist())}
        try:
            return np.array([places[label] for label in given.tolist()], dtype=np.intp)
        except (KeyError, TypeError):  # one that cannot be looked up is none, too
            raise ValueError(
                f"model {number} gave a label that is none of {len(places)} classes; name them all"
            ) from None


WORDS = {"responses": "rules (another version's)"}


def _checked_members(members: ArrayLike) -> Bools:
    found = _array(members, "members must be an array of truth values")
    if found.ndim != 2 or found.dtype != bool or len(found) < 2 or not found.shape[1]:
        raise ValueError(
            "members must be an array of truth values, a row for each of at least two models and a column per record, "
            f"got {found.dtype} of shape {found.shape}"
        )
    return found.copy()


def _checked_models(models: Sequence[Any]) -> list[Any]:
    found = list(models) if isinstance(models, (list, tuple)) else []
    if len(found) < 2 or not all(callable(model) or hasattr(model, "predict") for model in found):
        raise ValueError("models must be a list of at least two estimators or functions, each from rows to labels")
    return found


def _checked_classes(classes: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    found = label_array(classes, "classes").copy()
    try:
        whole = found.ndim == 1 and bool((found == found).all()) and len(found) == len(np.unique(found)) >= 2
    except TypeError:  # of kinds that cannot be compared
        whole = False
    if not whole or found.dtype.kind not in "biufSUO":
        raise ValueError(f"classes must name at least two labels of one kind, each once, got {short(classes)}")
    return found


def _array(given: Any, told: str) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError:
        raise ValueError(f"{told}, got rows of unequal lengths") from None


def _checked_q(given: Any) -> float:
    found = as_float(given)
    if not 0.5 < found < 1:
        raise ValueError(f"record_posterior must lie strictly between 0.5 and 1, or be None, got {short(given)}")
    return found


def _mark_of_members(members: Bools) -> str:
    return hashlib.sha256(np.packbits(members).tobytes() + repr(members.shape).encode()).hexdigest()


def _mark_of(models: Sequence[Any]) -> str:
    """Return a hash of the models in their order."""
    return hashlib.sha256("\n".join(map(fitted_mark, models)).encode()).hexdigest()


Responder = ResponseServer
