"""`Aggregator`: exact sums over reports, and `simulate`: the sums of a whole population without a report each."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Rng, generator
from epsworth.documents import read_json
from epsworth.files import reading, replacing
from epsworth.learner.client import MARK, Called, Seed, called
from epsworth.learner.coins import Ints
from epsworth.learner.config import ClientConfig, checked_config, config_kind
from epsworth.learner.mechanism import Tally, checked_users
from epsworth.learner.wire import joined, unpack

MAGIC = b"epsworth tally 1\n"
BATCH = 1 << 22  # bytes of reports that are read together
CACHED = 1 << 18  # bytes of reports that are looked at together, or as many as there are bytes of counters
_ADDING = threading.Lock()
Reports = bytes | bytearray | memoryview | Iterable[bytes]


class SeenUsers:
    """Who reported under one seed: marks of ids, 16 bytes of a digest each.

    Whoever holds it and guesses an id can tell whether it reported, never what.
    """

    def __init__(self, seed: str = "", marks: Iterable[bytes] = ()) -> None:
        self.seed, self.marks = seed, set(marks)

    def add(self, seed: str, marks: Collection[bytes]) -> None:
        """Enter users; refuse those of another seed, and those who reported before."""
        if self.marks and seed != self.seed:
            raise ValueError("seed: reports were added under another one; users of two seeds are aggregated apart")
        twice = next((number for number, mark in enumerate(marks) if mark in self.marks), None)
        if twice is not None:
            raise ValueError(f"users: number {twice} reported before; one report per user, drop the second")
        self.seed = seed
        self.marks.update(marks)

    def joined(self, other: SeenUsers) -> SeenUsers:
        """Return both, none of whose users may be in the other."""
        if common := len(self.marks & other.marks):
            raise ValueError(f"{common} users reported to both; one report per user: aggregate them once")
        found = SeenUsers(self.seed, self.marks)
        if other.marks:
            found.add(other.seed, other.marks)
        return found

    def body(self) -> bytes:
        """Return the marks in order."""
        return b"".join(sorted(self.marks))

    @classmethod
    def of_body(cls, seed: object, body: bytes, count: int) -> SeenUsers:
        """Read `body`; refuse what is none."""
        marks = [body[start : start + MARK] for start in range(0, len(body), MARK)]
        ordered = all(one < other for one, other in itertools.pairwise(marks))
        if not isinstance(seed, str) or len(seed) != 64 or len(marks) != count or len(body) % MARK or not ordered:
            raise ValueError("the state's ids were changed after it was written; aggregate the reports again")
        return cls(seed, marks)


def refuse_other_rows(rows: Ints, assigned: Ints) -> None:
    """Refuse reports that are about another row than their user's."""
    other = rows != assigned
    if other.any():
        number = int(np.argmax(other))
        raise ValueError(
            f"report {number}: it is about row {int(rows[number])}, but its user's is {int(assigned[number])}; it is a "
            "fake, or stands beside another id: drop it"
        )


def begins_with(path: str | Path, magic: bytes) -> bool:
    """Tell whether there is such a file, and how it begins."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as stream:
        return stream.read(len(magic)) == magic


class Aggregator:
    """The server's counters: integers, so that any order of adding and merging gives the same state.

    The reports of one user must enter once: reports carry no name, so a duplicate cannot be seen here, and
    k reports of one user tell k epsilon about them (`Client.guarantee`).  With ``rows="hash"`` reports come with their
    users' ids: a second one of an id is refused, also when sums are merged, and so is a report about another row than
    the id's.  For that the state keeps a mark of every id, 16 bytes of a digest: whoever guesses an id can tell from it
    whether it reported, never what.

    Whoever sends a report may lie: nothing here tells a fake from an honest one (see `Classifier.certificate`).

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
    tally : Tally, optional
        Sums to begin with; refused where no reports add up to them.

    Attributes
    ----------
    batches : frozenset of str
        Digests of the shuffler's batches that `aggregate_files` added up: sums that share one are not merged.

    Examples
    --------
    >>> from epsworth.learner import Aggregator, Client, LatticeConfig, assigned_rows
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> here, there = Aggregator(config), Aggregator(config)
    >>> here.add(Client(config).report([0.3], 1)), there.add(Client(config).reports([[0.2], [0.9]], [0, 1]))
    (1, 2)
    >>> here.merge(there).users
    3
    """

    def __init__(self, config: ClientConfig, tally: Tally | None = None) -> None:
        self.config = checked_config(config)
        self.tally = config.kernel.empty() if tally is None else config.kernel.checked(tally)
        self._roll = SeenUsers()
        self.batches: frozenset[str] = frozenset()

    @property
    def users(self) -> int:
        """Reports so far."""
        return int(self.tally.users.sum())

    @property
    def seed(self) -> str:
        """A digest of the public seed that rows follow from; empty where clients draw them, or ids are not known."""
        return self._roll.seed if self._roll.marks else ""

    def __str__(self) -> str:
        return f"{self.users:,} reports of {self.config.mechanism}, {self.config.guarantee} each"

    def add(
        self, reports: Reports, *, users: Iterable[str] | None = None, seed: Seed | None = None, shuffled: bool = False
    ) -> int:
        """Add reports that lie end to end, or an iterable of them; return how many.

        With ``rows="hash"``, and only then, ``users`` are the registered ids of the reports' users, in their order, and
        ``seed`` is the public one; or ``shuffled`` says that they are a batch of a trusted shuffler, which checked rows
        and ids, and dropped these: `shuffle_files`.

        Raises
        ------
        ValueError
            For a damaged or foreign report, one about another row than its user's, and a user who reported before:
            then none of this call is added.
        """
        asked = self._called(users, seed, shuffled)
        if not isinstance(reports, (bytes, bytearray, memoryview)):
            reports = joined(self.config, reports)
            if not reports and (asked is None or not asked.ids):
                return 0
        size, kernel = self.config.report_size, self.config.kernel
        found = kernel.empty()
        step = max(1, max(CACHED, found.counts.nbytes) // size) * size
        whole = memoryview(reports)
        if len(whole) == 0 or len(whole) % size:
            unpack(self.config, whole)
        if asked is not None and len(asked.ids) != len(whole) // size:
            raise ValueError(f"users has {len(asked.ids)} ids for {len(whole) // size} reports; give one per report")
        for start in range(0, len(whole), step):
            try:
                messages = kernel.format.decode(unpack(self.config, whole[start : start + step]))
                if asked is not None:
                    refuse_other_rows(messages // 2, asked.rows[start // size :][: len(messages)])
                found = found + kernel.tally(messages)
            except ValueError as error:
                where = f" (counted from report {start // size} of this call)" if start else ""
                raise ValueError(f"{error}{where}") from None
        marks = [] if asked is None else asked.marks()
        with _ADDING:  # threads may add at once: none of their reports is lost, and no user enters twice
            total = kernel.checked(self.tally + found)
            if asked is not None:
                self._roll.add(asked.seed, marks)
            self.tally = total
        return int(found.users.sum())

    def _called(self, users: Iterable[str] | None, seed: Seed | None, shuffled: bool) -> Called | None:
        if shuffled and self._roll.marks:
            raise ValueError("these sums know their users' ids, and a shuffled batch holds none; aggregate it apart")
        if (shuffled or self.config.rows != "hash") and users is None and seed is None:
            return None
        if shuffled:
            raise ValueError("a shuffled batch holds no ids: leave out users and seed")
        if self.config.rows == "hash" and self.users and not self._roll.marks:
            raise ValueError(
                "these sums know no ids: they were simulated or shuffled, or are a model's; add reports to a new "
                "aggregator"
            )
        return called(self.config, users, seed)

    def merge(self, other: Aggregator) -> Aggregator:
        """Return a new aggregator with the reports of both."""
        if other.config.fingerprint() != self.config.fingerprint():
            raise ValueError(
                f"fingerprints differ ({self.config.fingerprint()[:12]}, {other.config.fingerprint()[:12]}): sums of "
                "different configurations cannot be merged"
            )
        if self.users and other.users and bool(self._roll.marks) != bool(other._roll.marks):
            raise ValueError(
                "one of the sums knows no ids: it was simulated or shuffled, or is a model's; merge those that do"
            )
        if self.batches & other.batches:
            raise ValueError("a shuffled batch is in these sums already: every report counts once; leave it out")
        kernel = self.config.kernel
        found = Aggregator(self.config, kernel.checked(self.tally) + kernel.checked(other.tally))
        found._roll, found.batches = self._roll.joined(other._roll), self.batches | other.batches
        return found

    def __copy__(self) -> Aggregator:  # a shallow one would share the ids
        return self.merge(Aggregator(self.config))

    def __add__(self, other: object) -> Aggregator:
        return self.merge(other) if isinstance(other, Aggregator) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self.state() == other.state() if isinstance(other, Aggregator) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes with every report

    def state(self) -> bytes:
        """Return everything as bytes: equal states are equal bytes."""
        body = b"".join(part.astype("<i8").tobytes() for part in self.tally) + self._roll.body()
        head = {"config": self.config.to_dict(), "sha256": _digest(body, self.batches)}
        if self._roll.marks:
            head |= {"seed": self._roll.seed}
        if self.batches:
            head |= {"batches": sorted(self.batches)}
        return MAGIC + json.dumps(head, sort_keys=True).encode() + b"\n" + body

    @classmethod
    def from_state(cls, state: bytes) -> Aggregator:
        """Read `state`; refuse what was cut or changed."""
        if not isinstance(state, bytes) or not state.startswith(MAGIC) or state.count(b"\n") < 2:
            raise ValueError("not a state of an aggregator; give what Aggregator.state() or save() wrote")
        head, _, body = state[len(MAGIC) :].partition(b"\n")
        try:
            document = read_json(head)
            config = config_kind(document["config"]).from_dict(document["config"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the state's configuration cannot be read: {error}") from None
        empty = config.kernel.empty()
        size, seed = 8 * sum(part.size for part in empty), document.get("seed")
        batches = document.get("batches", [])
        whole = len(body) > size if config.rows == "hash" and seed is not None else len(body) == size
        whole = whole and isinstance(batches, list) and all(isinstance(one, str) for one in batches)
        if not whole or _digest(body, batches) != document.get("sha256"):
            raise ValueError("the state was cut or changed after it was written; aggregate the reports again")
        numbers = np.frombuffer(body[:size], dtype="<i8").astype(np.int64)
        counts, users = np.split(numbers, [empty.counts.size])
        found = cls(config, Tally(counts.reshape(empty.counts.shape), users))
        found.batches = frozenset(batches)
        if seed is not None and config.rows == "hash":
            found._roll = SeenUsers.of_body(seed, body[size:], found.users)
        return found

    def save(self, path: str | Path) -> None:
        """Write the state to a file, whole or not at all."""
        with replacing(path) as temporary:
            temporary.write_bytes(self.state())

    @classmethod
    def load(cls, path: str | Path) -> Aggregator:
        """Read a file that `save` wrote."""
        with reading(path, "state") as state:
            return cls.from_state(state)


def simulate(
    config: ClientConfig, X: ArrayLike, y: ArrayLike, rng: Rng = None, *, users: int | None = None
) -> Aggregator:
    """Return what the server would hold after one report per row: for experiments, never a release.

    The sums are drawn directly with the law of the reports' sums, so that a billion users cost as much as a table of
    cells.  Reports that may leave a device come from `Client` alone.  With ``rows="hash"`` the law is that over all
    seeds, and the sums know no ids: reports cannot be added to them.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
    X, y : array_like
        Points ``(n, d)`` in natural units, and labels; undeclared labels and other shapes are refused.
    rng : Generator, int or None
        The experiment's randomness, or its seed.
    users : int, optional
        Draw this many users from the rows with replacement.

    Examples
    --------
    >>> from epsworth.learner import LatticeConfig, simulate
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> simulate(config, [[0.2], [0.9]], [0, 1], 0, users=10**9).users
    1000000000
    """
    if users is not None:
        users = checked_users(users, "leave it out for one per row")
    return Aggregator(config, config.kernel.simulate(config.checked(X, y), generator(rng), users))


def _digest(body: bytes, batches: Iterable[str]) -> str:
    return hashlib.sha256("".join(sorted(batches)).encode() + body).hexdigest()
