"""What left already, per person: every run is charged before its first draw, and drawn from a key that the charge made.

A person, whom a column of ids names, loses epsilon and delta with each of its rows.  Whatever lies on the disk was
drawn from a run's key, which exists once the run is charged; a run that was stopped goes on under its key, so that its
draws are the same.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.numerals import counted
from epsworth.policy.folders import folder_named, state_folder
from epsworth.policy.ledger import ids, people
from epsworth.policy.ledger.costs import (
    ONE,
    Amounts,
    CapCheck,
    ChargeRequest,
    Identity,
    LedgerConfig,
    Lost,
    Record,
    Run,
    RunCost,
    State,
    decimal_of,
)
from epsworth.policy.ledger.people import RowCounts
from epsworth.policy.ledger.store import NO_RUNS, LedgerEntry, Store, Tables

HEAD = re.compile("([0-9]{1,18})-([0-9a-f]{64})", re.ASCII)
ERASING = 20.0  # seconds for whoever reads the log
NOTHING = Amounts(0, 0)


class Ledger:
    r"""Runs, and what each person lost in them.

    Claim: a run's key, without which nothing can be drawn, arises in the transaction that charges the run; no person's
    sums exceed the caps, whatever runs at once or is killed.

    Parameters
    ----------
    folder : path, optional
        By default the account's own (``EPSWORTH_STATE``).

    Attributes
    ----------
    path : Path
        The database.
    files : dict of Path
        What no output may take the place of, by what messages call it.
    key, digest_key : bytes
        Of the hashes of ids, which workers of a run are given, and of the digests of inputs; neither tells the other.

    Raises
    ------
    ValueError
        For a ledger that cannot be read or written, or whose database and key do not belong together.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsworth import Domain, Policy, perturb_file
    >>> from epsworth.policy import Ledger
    >>> policy = Policy.of("krr:k=2", 1, Domain.of({"sick": (0, 1)}), passing=["id"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table, kept = Path(folder, "visits.csv"), Path(folder, "ledger")
    ...     written = table.write_text("id,sick\n7,0\n8,1\n7,1\n")
    ...     receipt = perturb_file(policy, table, Path(folder, "released.csv"), person="id", cap="2.5", ledger=kept)
    ...     ledger = Ledger(kept)
    ...     ([f"{spent:.3f}" for spent in ledger.spent([7, 8, 9])], ledger.runs()[0].state)
    (['2.000', '1.000', '0.000'], 'done')
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._store = Store(state_folder() if folder is None else folder_named("ledger", folder))
        self.path, self.files = self._store.path, self._store.files
        self.key, self.digest_key = self.subkey(b"epsworth-people"), self.subkey(b"epsworth-digest")

    def __repr__(self) -> str:
        return f"Ledger({str(self._store.folder)!r})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        return Ledger, (str(self._store.folder),)  # opened anew: the key stays where it lies

    def subkey(self, purpose: bytes) -> bytes:
        """Return a key for one purpose, which tells nothing of the others."""
        return self._store.subkey(purpose)

    def check_apart(self, what: str, path: Path) -> None:
        """Refuse an output in the ledger's folder under a name that the ledger may give a file."""
        self._store.check_apart(what, path)

    def digest(self, content: bytes) -> bytes:
        """Return a keyed digest of a part of an input: without the key it confirms no guess of a row."""
        return hashlib.blake2b(content, key=self.digest_key, digest_size=32).digest()

    def hashes(self, values: Any) -> ids.Hashes:
        """Return the hashes of ids under this ledger's key; see `ids.hashes`."""
        return ids.hashes(values, self.key)

    def settled(self) -> tuple[str | None, Decimal | None, Decimal | None]:
        """Return what is fixed: the column of people and both caps."""
        with self._store.reading() as tables:
            config, _ = tables.meta()
        cap, delta_cap = (None if cap is None else decimal_of(cap) for cap in (config.cap, config.delta_cap))
        return config.person, cap, delta_cap

    def begin(self, request: ChargeRequest, identity: Identity, counts: RowCounts | None = None) -> Run:
        """Charge a run, or find the one that was charged before; the same run goes on, or is done.

        Raises
        ------
        ValueError
            For records that left before, unless told; for a cap that people would exceed, saying how many.
        """
        cost = RunCost.of(request, counts)
        with self._store.transaction() as tables:
            config, everybody = tables.meta()
            config = config.agreed(request)
            records = tables.entries("digest = ?", identity.digest)
            entry, state = self._same(records, request, identity, cost)
            if entry is None:
                everybody, lost = everybody.plus(cost.of_everybody), _charge(tables, config, everybody, cost)
                entry = _entry(tables.newest(), request, identity, cost)
                tables.charge(entry, secrets.token_bytes(32))
                records.append(entry)
            else:
                lost = _lost(tables, cost)
            tables.set_meta(config, everybody)  # what is stated holds from now on
            key = None if state == "done" else tables.key(entry.id)
        so_far = _sum(record.price for record in records) if request.terms.person is None else everybody.plus(lost)
        before = sum(record.fingerprint == request.policy for record in records) - 1
        epsilon, delta = (Fraction(amount, ONE) for amount in so_far)
        return Run(entry.id, key, state, entry.sha256, before, epsilon, min(delta, Fraction(1)))

    def preview(self, request: ChargeRequest, identity: Identity, counts: RowCounts | None = None) -> State:
        """Return what `begin` would find, and refuse what it would; nothing is charged."""
        cost = RunCost.of(request, counts)
        with self._store.reading() as tables:
            config, everybody = tables.meta()
            config = config.agreed(request)
            entry, state = self._same(tables.entries("digest = ?", identity.digest), request, identity, cost)
            if entry is None:
                _charge(tables, config, everybody, cost, keep=False)
        return state

    def _same(
        self, records: list[LedgerEntry], request: ChargeRequest, identity: Identity, cost: RunCost
    ) -> tuple[LedgerEntry | None, State]:
        """Return the same run, charged before, and what to do; refuse records that left before.

        ``records``: the runs of the same records.
        """
        same = [entry for entry in records if entry.fingerprint == request.policy]
        known = _last(same, identity, request.terms.person)
        state = "new" if known is None else self._known(known, cost, again=request.terms.again)
        if known is not None and state != "new":
            return known, state
        if same and not request.terms.again:
            raise self.repeated(request, len(same), stopped=any(entry.state == "charged" for entry in same))
        return None, "new"

    def _known(self, entry: LedgerEntry, cost: RunCost, *, again: bool) -> State:
        """Return what to do with a run that was charged before."""
        charged = entry.state == "charged"
        if again and not charged:
            return "new"
        if cost.most > entry.most:
            first = "let it end as it was charged, then " if charged else ""
            raise ValueError(
                f"this run was charged for at most {counted(entry.most, 'row')} of a person, not "
                f"{cost.most} (ledger {self.path}); {first}say again=True to charge another for more"
            )
        if charged and (entry.price, entry.rows) != (cost.price, cost.rows):
            raise ValueError(f"this run was charged at another price (ledger {self.path}); start anew with again=True")
        return "resumed" if charged else "done"

    def repeated(self, request: ChargeRequest, times: int, *, stopped: bool = False) -> ValueError:
        """Return the refusal of records that left so many times; ``stopped``: of a run that was, among them."""
        half = " (a run that was stopped half-way counts: asked again just as it was, it goes on)" if stopped else ""
        return ValueError(
            f"these records {request.left} {counted(times, 'time')} {request.where}{half} (ledger {self.path}); "
            f"{request.advice}"
        )

    def find(self, identity: Identity, person: str | None) -> LedgerEntry | None:
        """Return the last run of an identity that was charged for this column of people; nothing is charged."""
        with self._store.reading() as tables:
            return _last(tables.entries("digest = ?", identity.digest), identity, person)

    def finish(self, run: Run, sha256: str, move: Callable[[], None] | None = None) -> bool:
        """End a run whose output is whole: its key is erased, from the database and its log.

        ``move`` gives the output its name; it is called before the run is done, unless another output is known of it.
        Return False while another process still reads the log: whoever opens the ledger next tries again.
        """
        with self._store.transaction() as tables:
            entry = tables.entry(run.id)
            if entry.sha256 not in (None, sha256):  # the same key and input give the same bytes
                raise ValueError(
                    f"the output of this run differs from what it was before (ledger {self.path}); start anew"
                )
            if move is not None:
                move()
            if entry.state == "charged":
                tables.finish(run.id, sha256)
        return self._store.empty_log(ERASING)

    def output_of(self, run: Run) -> str | None:
        """Return the hash of a run's output, once nobody finishes it."""
        with self._store.transaction() as tables:
            return tables.entry(run.id).sha256

    def spent(self, people: Sequence[int | str]) -> list[Decimal]:
        """Return the epsilon that each of these people lost in all runs; never less than it did."""
        return [one.epsilon for one in self.lost(people)]

    def spent_delta(self, people: Sequence[int | str]) -> list[Decimal]:
        """Return the delta that each of these people lost in all runs, at most one."""
        return [one.delta for one in self.lost(people)]

    def lost(self, ids: Sequence[int | str]) -> list[Lost]:
        """Return what each of these people lost in all runs, by one reading of the ledger."""
        asked, places = np.unique(self.hashes(ids), return_inverse=True)
        with self._store.reading() as tables:
            _, everybody = tables.meta()
            own = [Amounts(*row) for found in people.slices(tables.database, asked) for row in found.lost.tolist()]
        sums = [everybody.plus(one) for one in own]
        lost = [
            Lost(decimal_of(both.epsilon), decimal_of(min(both.delta, ONE)), any(one))
            for both, one in zip(sums, own, strict=True)
        ]
        return [lost[place] for place in places.tolist()]

    def runs(self) -> list[Record]:
        """Return all runs, in the order in which they were charged."""
        with self._store.reading() as tables:
            entries = tables.entries()
        return [
            Record(e.fingerprint, e.rows, decimal_of(e.epsilon), decimal_of(e.delta), e.most, e.person, e.state, e.day)
            for e in entries
        ]

    def head(self) -> str:
        """Return a hash of all runs, with their number, to be kept where the ledger's owner cannot write.

        It covers what every run was charged, when and for which records; not what became of outputs.  It tells nothing
        of people or records.

        Returns
        -------
        str
            For `verify`, which tells whether a ledger still holds these runs.

        Examples
        --------
        >>> import tempfile
        >>> from epsworth.policy import Ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger(folder)
        ...     head = ledger.head()
        ...     ledger.verify(head)
        >>> head[:4]
        '0-00'
        """
        with self._store.reading() as tables:
            last = tables.newest()
        return f"0-{NO_RUNS.hex()}" if last is None else f"{last.serial}-{last.head.hex()}"

    def verify(self, head: str) -> None:
        """Check that the ledger begins with exactly the runs that a head covers, and that sums are those of all runs.

        Everything is read: the database, the link of every run to the one before, what people lost.

        Parameters
        ----------
        head : str
            What `head` returned before; the ledger may have grown since.

        Raises
        ------
        ValueError
            For no head, where runs are missing or differ, and for sums that are not those of the runs.

        Examples
        --------
        >>> import tempfile
        >>> from epsworth.policy import Ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Ledger(folder).verify("1-" + 64 * "0")
        Traceback (most recent call last):
        ...
        ValueError: the ledger ... is not the one of this head: it holds 0 runs, but the head covers 1: ...
        """
        given = HEAD.fullmatch(head) if isinstance(head, str) else None
        if given is None:
            raise ValueError(
                "the head must be a number of runs, a minus and 64 hexadecimal digits; give what head printed"
            )
        count, heads = int(given[1]), [NO_RUNS]
        with self._store.reading() as tables:
            tables.check_sound()
            entries, (_, everybody) = tables.entries(), tables.meta()
            parts = people.everyone(tables.database)
            sums = sum((part.sum(axis=0) for part in parts), np.zeros(2, np.uint64)).tolist()
        for serial, entry in enumerate(entries, start=1):
            heads.append(entry.linked(heads[-1]))
            if (entry.serial, entry.head) != (serial, heads[-1]):
                raise self._differs(f"run {serial} is not what was charged")
        if count > len(entries):
            raise self._differs(
                f"it holds {len(entries)} runs, but the head covers {count}: runs are missing, as in an older copy"
            )
        if heads[count] != bytes.fromhex(given[2]):
            raise self._differs(f"its first {count} runs are others than those that the head covers")
        of_people = _sum(entry.price.times(entry.rows) for entry in entries if entry.person is not None)
        of_everybody = _sum(entry.price.times(entry.most) for entry in entries if entry.person is None)
        if everybody != of_everybody or sums != [total % 2**64 for total in of_people]:
            raise self._differs("what people lost is not what its runs were charged")

    def _differs(self, why: str) -> ValueError:
        return ValueError(f"the ledger {self.path} is not the one of this head: {why}; restore the whole folder")


def _last(records: list[LedgerEntry], identity: Identity, person: str | None) -> LedgerEntry | None:
    """Return the last run of an identity among those of its records."""
    same = (identity.target, identity.policy, person)
    found = [entry for entry in records if (entry.target, entry.policy, entry.person) == same]
    return found[-1] if found else None


def _charge(tables: Tables, config: LedgerConfig, everybody: Amounts, cost: RunCost, *, keep: bool = True) -> Amounts:
    """Charge the people of a run, unless a cap is exceeded; return the most that one of them lost by name.

    ``everybody``: what runs that name nobody charged before.
    """
    check = CapCheck(config, cost, everybody.plus(cost.of_everybody))
    if cost.people is None or cost.counts is None:
        for sums in people.everyone(tables.database) if (config.cap, config.delta_cap) != (None, None) else ():
            check.add(sums)
    else:
        price = np.array(cost.price, np.uint64)
        for found in people.slices(tables.database, cost.people):
            rows = cost.counts[found.people]
            sums = found.lost + rows[:, None] * price
            check.add(sums, rows)
            if keep and not check.over:
                people.keep(tables.database, found, cost.people[found.people], sums)
    check.check()
    return check.largest


def _lost(tables: Tables, cost: RunCost) -> Amounts:
    """Return the most that a person of a run lost by name so far."""
    asked = np.empty(0, np.uint64) if cost.people is None else cost.people
    lost = [found.lost.max(axis=0).tolist() for found in people.slices(tables.database, asked)]
    return Amounts(*map(max, zip(*lost, strict=True))) if lost else NOTHING


def _entry(newest: LedgerEntry | None, request: ChargeRequest, identity: Identity, cost: RunCost) -> LedgerEntry:
    serial, before = (1, NO_RUNS) if newest is None else (newest.serial + 1, newest.head)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    entry = LedgerEntry(
        serial, secrets.token_bytes(16), request.policy, identity.policy, identity.digest, identity.target,
        request.terms.person, *cost.price, cost.rows, cost.most, day,
    )  # fmt: skip
    return entry._replace(head=entry.linked(before))


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total = NOTHING
    for one in amounts:
        total = total.plus(one)
    return total
