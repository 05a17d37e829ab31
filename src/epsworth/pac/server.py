"""Answers by one secret model of many, and the models made for it.

Until a total of nats is spent, and for ever after without the secret model.
"""

from __future__ import annotations

import hashlib
import io
import math
import secrets
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Bools, Floats, as_floats
from epsworth.classifiers.model_files import load_model
from epsworth.files import check_name, file_named, reading, replacing
from epsworth.numerals import as_float, short, whole
from epsworth.pac.budgets import MI, DPEquivalent, Posterior, nats_of
from epsworth.pac.fingerprints import fitted_mark, mark
from epsworth.pac.journal import Entry, Journal
from epsworth.pac.ledger import ProcessLock
from epsworth.pac.mechanism import check_masked, fixed
from epsworth.pac.pool import check_finite, check_pool, checked_columns, checked_labels
from epsworth.pac.responses import (
    LEAST,
    MOST,
    ONE,
    SLACK,
    Beliefs,
    Channel,
    Records,
    Votes,
    channel_of,
    checked_fallback,
    checked_nats,
    weaker,
)
from epsworth.pac.worlds import Sampler, SecretSeed, Seed
from epsworth.parallel import in_order
from epsworth.rounding import UNIT, float_above, show_up
from epsworth.values import label_array

VERSION = 1


class PublicState(NamedTuple):
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
        self._lock = ProcessLock("server", "answer")
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
        self._public = self._state()

    @property
    def total(self) -> float:
        """Nats that all answers together may spend."""
        return self._total

    @property
    def spent(self) -> float:
        """Nats spent so far, rounded up."""
        return float_above(self._public.spent)

    @property
    def charged(self) -> int:
        """How many answers were charged; all others were free."""
        return self._public.charged

    @property
    def probabilities(self) -> Floats:
        """A copy of the public's belief about the secret model, a function of votes and answers only."""
        return self._public.probabilities.copy()

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
        if not self._lock.at_home:
            self._journal.close()  # its lock stays its owner's
            return
        with self._lock:
            self._journal.close()

    def answer(self, X: Any) -> NDArray[Any]:
        """Return one label per row; rows are answered in order, each by what the earlier ones told.

        Raises
        ------
        ValueError
            Where a model does not give every row one of ``classes``, and where the journal cannot be written: then
            nothing leaves, and the server is closed for good.
        """
        self._lock.check()
        votes = self._votes(X)
        with self._lock:
            if not self._journal.open:
                raise ValueError(f"this server is closed; open its ledger {self._journal.path} anew")
            entries: list[Entry] = []
            try:
                labels = [self._label(row, entries.append) for row in votes]
                if entries:
                    self._journal.append(entries)
                    self._public = self._state()
            except BaseException:  # what was drawn and not written must not be drawn again
                self._journal.close()
                raise
        return np.asarray(self._classes[labels])

    def _state(self) -> PublicState:
        return PublicState(self._spent, self._beliefs.answers, self._beliefs.probabilities)

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


ABOUT = "members.npz"
LARGEST = 1 << 31  # bytes of that file


@dataclass(frozen=True, eq=False)
class WorldModels:
    """Classifiers made from halves of a pool, of which a `ResponseServer` makes one its secret.

    Attributes
    ----------
    models : tuple of estimators
        One per half; as private as the pool.
    members : ndarray of bool, shape ``(models, rows)``
        Which rows each was made from.  Every row is in exactly half of them.
    classes : ndarray
        All labels.
    on_pool : float
        Share of the pool's own rows that most models label as the pool does.  Where this lies far above the share on
        other rows, answers show who is in the pool: that is not protected.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsworth.pac import MI, ResponseServer, WorldModels
    >>> X = np.random.default_rng(0).normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)
    >>> kept = WorldModels.fit(LogisticRegression(), X, y, worlds=16)
    >>> settings = {"classes": kept.classes, "fallback": "votes", "per_query": 2**-10, "record_posterior": 0.6}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ResponseServer(kept.models, kept.members, MI(1), ledger=f"{folder}/answers", **settings) as server:
    ...         server.answer([[2.0, 0.0], [-2.0, 0.0]]).tolist()
    [1, 0]
    """

    models: Sequence[Any]
    members: Bools
    classes: NDArray[Any]
    on_pool: float

    @classmethod
    def fit(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        worlds: int = 128,
        groups: ArrayLike | None = None,
        near: float | None = None,
        worlds_seed: Seed | None = None,
        n_jobs: int | None = None,
    ) -> WorldModels:
        """Fit a classifier on halves of a pool, class by class; halves 2i and 2i + 1 are complements of each other.

        Parameters
        ----------
        estimator : classifier
            A scikit-learn estimator or pipeline; a random one is given one seed for all halves.
        X, y : array_like or data frame, array_like
            The pool: numbers and labels.
        worlds : int
            How many halves; even.
        groups : array_like, optional
            A value per row; rows that share it go in or out together, as identical rows always do.
        near : float, optional
            Rows whose columns all differ by at most this much go in or out together.
        worlds_seed : int or SecretSeed, optional
            By default the halves are secret; a number makes them repeatable, and public to whoever knows it.
        n_jobs : int, optional
            Workers.

        Raises
        ------
        ValueError
            For pools with missing numbers, or with classes too small to be halved.
        """
        if whole("worlds", worlds, least=2) % 2:
            raise ValueError(f"worlds must be even, each half beside its complement, got {worlds}")
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise TypeError(f"estimator must be a classifier with fit and predict, got {short(estimator)}")
        X = checked_columns(X)
        framed = hasattr(X, "columns")
        table = as_floats(X if not framed else np.column_stack([np.asarray(X[name]) for name in X.columns]))
        if table.ndim != 2:
            raise ValueError(f"X must be a table, a row per record, got shape {table.shape}")
        check_finite(table, list(X.columns) if framed else None)
        labels, units = check_pool(table, y, groups, estimator, near)
        if labels is None:
            raise ValueError("y must hold the label of every row, got None")
        members = Sampler(units, 0.5, SecretSeed() if worlds_seed is None else worlds_seed, True).draw(range(worlds))
        rows = X if framed else table
        models = tuple(in_order(partial(_fitted, fixed(estimator), rows, labels), list(members), n_jobs=n_jobs))
        classes = np.unique(labels)
        return cls(models, members, classes, _share_right(models, classes, rows, labels))

    def accuracy(self, X: Any, y: ArrayLike) -> float:
        """Return the share of rows that most models label right: what ``fallback="plurality"`` comes to at first."""
        return _share_right(self.models, self.classes, X, checked_labels(y, len(X)))

    def save(self, folder: str | Path) -> None:
        """Write a new folder for its owner alone: a .skops file per model, and ``members.npz``; no pickles.

        Raises
        ------
        ValueError
            For a folder that is there, and for models that skops cannot write.
        """
        from skops.io import dump

        place = check_name("folder", file_named(folder))
        try:
            place.mkdir(mode=0o700)
        except OSError as error:
            raise ValueError(f"cannot make the folder {place}: {error.strerror}; give a new one") from None
        for number, model in enumerate(self.models):
            with replacing(place / _name(number), mode=0o600) as temporary:
                dump(model, temporary)
        classes = self.classes.astype(str) if self.classes.dtype.kind == "O" else self.classes
        if classes.tolist() != self.classes.tolist():  # NumPy's files hold no other ones
            raise ValueError("a label is neither a number nor a text that such a folder holds; recode the labels first")
        with replacing(place / ABOUT, mode=0o600) as temporary:  # last: without it, the folder is none
            np.savez_compressed(
                temporary, members=np.packbits(self.members, axis=1), rows=self.members.shape[1], classes=classes,
                on_pool=self.on_pool,
            )  # fmt: skip

    @classmethod
    def load(cls, folder: str | Path, *, trust: bool | Sequence[str] = False) -> WorldModels:
        """Read what `save` wrote.

        Parameters
        ----------
        trust : bool or sequence of str
            Types that the models may hold besides those that skops knows; see `load_model`.
        """
        place = check_name("folder", file_named(folder))
        with reading(place / ABOUT, "list of members", most=LARGEST) as content:
            try:
                with np.load(io.BytesIO(content), allow_pickle=False) as found:
                    packed, rows = np.asarray(found["members"]), int(found["rows"])
                    classes, on_pool = np.asarray(found["classes"]), float(found["on_pool"])
                if packed.dtype != np.uint8 or packed.ndim != 2 or not 0 <= 8 * packed.shape[1] - rows < 8:
                    raise ValueError
            except (KeyError, TypeError, ValueError, EOFError, BadZipFile):
                raise ValueError("is none; give a folder that WorldModels.save wrote") from None
        members = np.unpackbits(packed, axis=1, count=rows).astype(bool)
        models = tuple(load_model(place / _name(number), trust=trust) for number in range(len(members)))
        return cls(models, members, classes, on_pool)


def _name(number: int) -> str:
    return f"model_{number:05d}.skops"


def _share_right(models: Sequence[Any], classes: NDArray[Any], X: Any, y: NDArray[Any]) -> float:
    votes = np.stack(
        [np.searchsorted(classes, checked_labels(model.predict(X), len(y), "what a model gives")) for model in models]
    )
    counts = np.stack([(votes == label).sum(axis=0) for label in range(len(classes))])
    return float(np.mean([a == b for a, b in zip(classes[counts.argmax(axis=0)].tolist(), y.tolist(), strict=True)]))


def _fitted(template: Any, X: Any, y: NDArray[Any], chosen: Bools) -> Any:
    """Fit a clone on some rows, silently: a warning would tell something of them."""
    from sklearn.base import clone

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(template).fit(_rows(X, chosen), y[chosen])


def _rows(X: Any, chosen: Bools) -> Any:
    if not hasattr(X, "columns"):
        return X[chosen]
    import narwhals as nw

    return nw.from_native(X, eager_only=True)[np.flatnonzero(chosen).tolist()].to_native()
