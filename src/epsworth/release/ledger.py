"""What left already, per unit: every run is charged before its first draw, and drawn from a key that the charge made.

A unit, which a column of ids names, loses epsilon and delta with each of its rows.  Whatever lies on the disk was drawn
from a run's key, which exists once the run is charged; a run that was stopped goes on under its key, so that its draws
are the same.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import secrets
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from epsworth.release.folders import folder_named, state_folder
from epsworth.release.ledger_folder import LedgerFolder
from epsworth.release.ledger_prices import Price, added, agreed, everybody, most_of
from epsworth.release.ledger_tables import EMPTY, Amounts, Line, Tables
from epsworth.release.ledger_terms import (
    ONE,
    Charged,
    Identity,
    Record,
    Run,
    State,
    Terms,
    decimal_of,
)
from epsworth.release.unit_files import ENDING, UnitFile
from epsworth.release.unit_levels import kept
from epsworth.release.units import Hashes, UnitCounts, hashes

HEAD = re.compile("([0-9]{1,18})-([0-9a-f]{64})", re.ASCII)
ERASING = 20.0  # seconds for whoever reads the log


class Ledger:
    r"""Runs, and what each unit lost in them.

    Claim: a run's key, without which nothing can be drawn, arises in the transaction that charges the run; no unit's
    sums exceed the caps, whatever runs at once or is killed.

    Parameters
    ----------
    folder : path, optional
        By default the account's own (``EPSWORTH_STATE``).

    Raises
    ------
    ValueError
        For a ledger that cannot be read or written, or whose database, key and files do not belong together.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsworth import Domain, Policy, perturb_file
    >>> from epsworth.release import Ledger
    >>> policy = Policy.of("krr:k=2", 1, Domain.of({"sick": (0, 1)}), passing=["id"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table, kept = Path(folder, "visits.csv"), Path(folder, "ledger")
    ...     written = table.write_text("id,sick\n7,0\n8,1\n7,1\n")
    ...     receipt = perturb_file(policy, table, Path(folder, "released.csv"), unit="id", cap="2.5", ledger=kept)
    ...     ledger = Ledger(kept)
    ...     ([f"{spent:.3f}" for spent in ledger.spent([7, 8, 9])], ledger.runs()[0].state)
    (['2.000', '1.000', '0.000'], 'done')
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._place = LedgerFolder(state_folder() if folder is None else folder_named("ledger", folder))

    def __repr__(self) -> str:
        return f"Ledger({str(self._place.folder)!r})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        return Ledger, (str(self._place.folder),)  # opened anew: the key stays where it lies

    @property
    def path(self) -> Path:
        """The database."""
        return self._place.path

    @property
    def key(self) -> bytes:
        """The key of the hashes of ids, which workers of a run are given; it tells nothing of the others."""
        return self._place.subkey(b"epsworth-units")

    @property
    def digest_key(self) -> bytes:
        """The key of the digests of inputs."""
        return self._place.subkey(b"epsworth-digest")

    @property
    def files(self) -> dict[str, Path]:
        """The files that no output may take the place of, by what messages call them."""
        return {f"ledger's {what}": path for what, path in self._place.files.items()}

    def check_apart(self, what: str, path: Path) -> None:
        """Refuse an output in the ledger's folder under a name that the ledger may give a file."""
        self._place.check_apart(what, path)

    def digest(self, content: bytes) -> bytes:
        """Return a keyed digest of a part of an input: without the key it confirms no guess of a row."""
        return hashlib.blake2b(content, key=self.digest_key, digest_size=32).digest()

    def hashes(self, values: Any) -> Hashes:
        """Return the hashes of ids under this ledger's key; see `units.hashes`."""
        return hashes(values, self.key)

    def settled(self) -> tuple[str | None, Decimal | None, Decimal | None]:
        """Return what is fixed: the column of units and both caps."""
        with self._place.alone() as tables:
            found = tables.settled()
        cap, delta_cap = (None if cap is None else decimal_of(cap) for cap in (found.cap, found.delta_cap))
        return found.unit, cap, delta_cap

    def begin(self, terms: Terms, identity: Identity, units: UnitCounts | None = None) -> Run:
        """Charge a run, or find the one that was charged before; the same run goes on, or is done.

        Raises
        ------
        ValueError
            For records that left before, unless told; for a cap that units would exceed, saying how many.
        """
        asked = _price(terms, identity, units)
        with self._place.alone() as tables:
            settled = agreed(before := tables.settled(), terms, units is not None)
            unit = settled.unit if units is not None else None
            found = self._same(tables, terms, identity, unit, asked)
            if found is not None:
                if settled != before:  # what is stated holds from now on
                    tables.settle(settled)
                return _told(tables, *found)
            last, files = tables.newest(), tables.files()
            sums = asked.checked(settled, everybody(last, asked), files, self._place.folder)
            tables.settle(settled)
            run, key = secrets.token_bytes(16), secrets.token_bytes(32)
            file = None if units is None else kept(self._place.folder, tables, asked, run.hex(), files)
            line = _line(tables, run, terms, identity, unit, asked, file)
            made = _told(tables, tables.charge(line, key), "new", key, sums)
        with self._place.alone():  # which names the run's file, and removes those that were put together
            return made

    def preview(self, terms: Terms, identity: Identity, units: UnitCounts | None = None) -> State:
        """Return what `begin` would find, and refuse what it would; nothing is charged."""
        asked = _price(terms, identity, units)
        with self._place.alone() as tables:
            settled = agreed(tables.settled(), terms, units is not None)
            found = self._same(tables, terms, identity, settled.unit if units is not None else None, asked)
            if found is None:
                asked.checked(settled, everybody(tables.newest(), asked), tables.files(), self._place.folder)
        return "new" if found is None else found[1]

    def _same(
        self, tables: Tables, terms: Terms, identity: Identity, unit: str | None, asked: Price
    ) -> tuple[Line, State, bytes | None] | None:
        """Return the same run, charged before; None where one is to be charged; refuse records that left before."""
        same, found = tables.same(terms.policy, identity.digest), tables.of(identity, unit)
        if found and found.fingerprint == terms.policy:
            known = self._known(tables, found, asked, terms.again)
            if known is not None:
                return found, *known
        if same and not terms.again:
            raise self.repeated(terms, same.repeats + 1, tables.stopped(terms.policy, identity.digest))
        return None

    def find(self, identity: Identity, unit: str | None) -> Charged | None:
        """Return the last run of an identity that was charged for this column of units; nothing is charged."""
        with self._place.alone() as tables:
            line = tables.of(identity, unit)
        return None if line is None else Charged(line.id, line.state, line.sha256)

    def seal(self, run: Run, sha256: str) -> None:
        """Keep the hash of a run's output, which is whole, before it gets its name."""
        if len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
            raise ValueError(f"the hash of an output must be 64 hexadecimal digits, got {len(sha256)} letters")
        with self._place.alone() as tables:
            line = tables.line(run.id)
            if line.sha256 not in (None, sha256):  # the same key and input give the same bytes
                raise ValueError(
                    f"the output of this run differs from what it was before (ledger {self.path}); start anew"
                )
            if line.state == "charged":
                tables.seal(line, sha256)

    def sealed(self, run: Run) -> str | None:
        """Return the hash of a run's output, if that was whole once."""
        with self._place.alone() as tables:
            return tables.line(run.id).sha256

    def done(self, run: Run) -> bool:
        """End a run whose output has its name: its key is erased, from the database and its log.

        Returns
        -------
        bool
            False while another process still reads the log; whoever opens the ledger next tries again.
        """
        with self._place.alone() as tables:
            line = tables.line(run.id)
            if line.sha256 is None:
                raise ValueError(f"this run has no whole output yet (ledger {self.path}); seal it first")
            if line.state == "charged":
                tables.erase(line)
        return self._place.erased(ERASING)

    def spent(self, units: Sequence[int | str]) -> list[Decimal]:
        """Return the epsilon that each of these units lost in all runs; never less than it did."""
        return [decimal_of(epsilon) for epsilon, _ in self._spent(units)]

    def spent_delta(self, units: Sequence[int | str]) -> list[Decimal]:
        """Return the delta that each of these units lost in all runs, at most one."""
        return [decimal_of(min(delta, ONE)) for _, delta in self._spent(units)]

    def runs(self) -> list[Record]:
        """Return all runs, in the order in which they were charged."""
        with self._place.alone() as tables:
            lines = list(tables.lines())
        return [
            Record(
                line.fingerprint, line.rows, decimal_of(line.epsilon), decimal_of(line.delta), line.most, line.unit,
                line.state, line.day,
            )
            for line in lines
        ]  # fmt: skip

    def head(self) -> str:
        """Return a hash of all runs, with their number, to be kept where the ledger's owner cannot write.

        It covers what every run was charged, when and for which records, and the file of units that was written with
        it; not what became of outputs.  It tells nothing of people or records.

        Returns
        -------
        str
            For `verify`, which tells whether a ledger still holds these runs.

        Examples
        --------
        >>> import tempfile
        >>> from epsworth.release import Ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger(folder)
        ...     head = ledger.head()
        ...     ledger.verify(head)
        >>> head[:4]
        '0-00'
        """
        with self._place.alone() as tables:
            last = tables.newest()
        return f"0-{EMPTY.hex()}" if last is None else f"{last.serial}-{last.head.hex()}"

    def verify(self, head: str) -> None:
        """Check that the ledger begins with exactly the runs that a head covers, and that its files are whole.

        Everything is read: the database, the link of every run to the one before, the files of units.

        Parameters
        ----------
        head : str
            What `head` returned before; the ledger may have grown since.

        Raises
        ------
        ValueError
            For no head, where runs are missing or differ, and for files that are not what was written.

        Examples
        --------
        >>> import tempfile
        >>> from epsworth.release import Ledger
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
        count, covered = int(given[1]), bytes.fromhex(given[2])
        with self._place.alone() as tables:
            tables.check_sound()
            files = tables.files()
            links = [EMPTY, *self._links(tables, {file.name: file for file in files})]
            for file in files:
                file.read(self._place.folder)
        if count >= len(links):
            raise self._differs(
                f"it holds {len(links) - 1} runs, but the head covers {count}: runs are missing, as in an older copy"
            )
        if links[count] != covered:
            raise self._differs(f"its first {count} runs are others than those that the head covers")

    def _links(self, tables: Tables, files: dict[str, UnitFile]) -> Iterator[bytes]:
        """Yield the head after every run; refuse one that does not follow, or whose file of units is another."""
        link = EMPTY
        for serial, line in enumerate(tables.lines(), start=1):
            link, file = line.linked(link), files.pop(line.id.hex() + ENDING, None)
            if (line.serial, line.head) != (serial, link) or (file is not None and file.sha256 != line.units):
                raise self._differs(f"run {serial} is not what was charged")
            yield link
        if files:
            raise self._differs("it has units of runs that it does not hold")

    def _differs(self, why: str) -> ValueError:
        return ValueError(f"the ledger {self.path} is not the one of this head: {why}; restore the whole folder")

    def _known(self, tables: Tables, line: Line, asked: Price, again: bool) -> tuple[State, bytes | None] | None:
        """Return what to do with a run that was charged before; None where another one is wanted."""
        if line.state != "charged" and again:
            return None
        if asked.most > line.most:
            first = "let it end as it was charged, then " if line.state == "charged" else ""
            raise ValueError(
                f"this run was charged for at most {line.most} row{'s' * (line.most != 1)} of a unit, not {asked.most} "
                f"(ledger {self.path}); {first}say --again (again=True) to charge another for more"
            )
        if line.state != "charged":
            return "done", None
        if (line.epsilon, line.delta, line.rows) != (asked.epsilon, asked.delta, asked.rows):
            raise ValueError(f"this run was charged at another price (ledger {self.path}); start anew with again=True")
        return "resumed", tables.key(line.id)

    def repeated(self, terms: Terms, times: int, stopped: bool = False) -> ValueError:
        """Return the refusal of records that left so many times; ``stopped``: of a run that was, among them."""
        half = " (a run that was stopped half-way counts: asked again just as it was, it goes on)" if stopped else ""
        return ValueError(
            f"these records {terms.left} {times} time{'s' * (times > 1)} {terms.where}{half} (ledger {self.path}); "
            f"another run adds {terms.adds} per record: use the {terms.output} you have, or say --again (again=True)"
        )

    def _spent(self, units: Sequence[int | str]) -> list[Amounts]:
        asked = hashes(units, self.key)
        with self._place.alone() as tables:
            last = tables.newest()
            sums = [file.read(self._place.folder, len(asked)).lost(asked) for file in tables.files()]
        epsilon, delta = (0, 0) if last is None else last.of_everybody
        return [
            (epsilon + sum(int(of[0][place]) for of in sums), delta + sum(int(of[1][place]) for of in sums))
            for place in range(len(asked))
        ]


def _price(terms: Terms, identity: Identity, units: UnitCounts | None) -> Price:
    if len(identity.digest) != 32:
        raise ValueError(f"the digest of the input must have 32 bytes, got {len(identity.digest)}; take digest_key's")
    return Price.of(terms, units)


def _line(
    tables: Tables, run: bytes, terms: Terms, identity: Identity, unit: str | None, asked: Price, file: UnitFile | None
) -> Line:
    """Return a run with the sums up to it, which those before it hold."""
    last, same = tables.newest(), tables.same(terms.policy, identity.digest)
    records = tables.newest("digest = ?", identity.digest)
    lost, alike = (asked.epsilon, asked.delta), everybody(last, asked)
    if records is not None:
        lost = added(records.of_records, lost)
    serial, repeats = 1 if last is None else last.serial + 1, 0 if same is None else same.repeats + 1
    return Line(
        serial, run, terms.policy, identity.policy, identity.digest, identity.target, unit, asked.epsilon, asked.delta,
        terms.rows, asked.most, _today(), None if file is None else file.sha256, repeats,
        str(lost[0]), str(lost[1]), str(alike[0]), str(alike[1]),
    )  # fmt: skip


def _told(tables: Tables, line: Line, state: State, key: bytes | None, sums: Amounts | None = None) -> Run:
    """Return a run with what its records lost; ``sums``: the most that a unit did."""
    same, records, last = (
        tables.same(line.fingerprint, line.digest), tables.newest("digest = ?", line.digest), tables.newest()
    )  # fmt: skip
    assert same is not None
    assert records is not None
    assert last is not None
    if line.unit is None:
        sums = records.of_records
    elif sums is None:
        sums = added(last.of_everybody, most_of(tables.files()))
    epsilon, delta = (Fraction(amount, ONE) for amount in sums)
    return Run(line.id, key, state, line.sha256, same.repeats, epsilon, min(delta, Fraction(1)))


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()
