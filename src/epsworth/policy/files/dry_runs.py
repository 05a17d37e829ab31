"""A run that is only looked at: what it would release and charge, with nothing drawn, written or charged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from epsworth.callbacks import check_callback
from epsworth.files import check_name, check_readable, check_writable
from epsworth.numerals import counted
from epsworth.policy.files.file_tables import FirstReading, derivation, file_table, with_sep
from epsworth.policy.files.many_files import MANIFEST, check_limit, digests_of, inputs
from epsworth.policy.files.one_file import (
    ENDINGS,
    Format,
    at_hand_as_file,
    first_reading,
    kind_of_ends,
    request_of,
)  # fmt: skip
from epsworth.policy.files.outputs import STANDARD, is_there
from epsworth.policy.files.workers import Secret
from epsworth.policy.folders import folder_named, state_folder
from epsworth.policy.ledger import Amount, ChargeRequest, Identity, Ledger, RowCounts, RunTerms, is_ledger
from epsworth.policy.ledger.costs import State
from epsworth.policy.policy import Policy
from epsworth.policy.tables import Perturbation
from epsworth.results import Result
from epsworth.rounding import float_above, show_up

Progress = Callable[[float], None]
STATES = {
    "resumed": "this run was charged before, and would go on without another charge",
    "done": "this run is done already: nothing would be drawn or charged",
}


@dataclass(frozen=True)
class DryRun(Result):
    """What a run would release and charge.

    Attributes
    ----------
    rows, rows_left_out : int
        Those that would leave, and those of people who had as many rows as one may have.
    columns, passed, left_out : tuple of str
        Those that would be perturbed, sent as they are, and not sent.
    epsilon, delta, notion
        Per record.
    person : str or None
        The column that says who a row is about; None: everybody would be charged.
    people : int or None
        How many people there are; None where nobody is named.
    most : int
        Rows that one person is charged for, at most.
    charge : float
        Epsilon that this takes from one person, at most, rounded up.
    ledger : str
        Its folder.
    state : {"new", "resumed", "done"}
        Whether the run would be charged, go on, or find its work done.
    """

    rows: int
    columns: tuple[str, ...]
    passed: tuple[str, ...]
    left_out: tuple[str, ...]
    epsilon: float
    delta: float
    notion: str
    person: str | None
    people: int | None
    most: int
    charge: float
    ledger: str
    state: State
    rows_left_out: int = 0

    def __str__(self) -> str:
        """Return a line per fact."""
        rows = f"{self.rows:,}"
        if self.person is not None:
            rows += f", of {counted(self.people or 0, 'people')} ({self.person}), at most {self.most:,} of one"
        if self.rows_left_out:
            rows += f"; {self.rows_left_out:,} more are left out"
        delta = f", delta {show_up(self.delta)}" if self.delta else ""
        whom = "one person, at most"
        if self.person is None:
            whom = "everybody, as no column says whose rows these are (person=)"
        charge = STATES.get(self.state, f"epsilon {show_up(self.charge)} to {whom}")
        facts = {
            "rows": rows,
            "perturbed": ", ".join(self.columns),
            "passing": ", ".join(self.passed) or "none",
            "left out": ", ".join(self.left_out) or "none",
            "epsilon": f"{show_up(self.epsilon)}{delta} per record, {self.notion} LDP",
            "charge": charge,
            "ledger": self.ledger,
        }
        lines = (f"  {name:<10} {fact}" for name, fact in facts.items())
        return "\n".join(["Dry run: nothing is written, drawn or charged.", *lines])


def dry_run(
    policy: Policy,
    source: str | Path,
    destination: str | Path,
    *,
    kind: Format | None = None,
    sep: str = ",",
    person: str | None = None,
    cap: Amount | None = None,
    delta_cap: Amount | None = None,
    max_rows_per_person: int | None = None,
    ledger: str | Path | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> DryRun:
    r"""Return what `perturb_file` or, for a folder, `perturb_files` would do with these arguments.

    Claim: no file is written, nothing is drawn and no ledger is made or charged; what the run would refuse is refused.

    Parameters
    ----------
    policy : Policy
    source, destination : path or "-"
        A file and the output, or a folder and the folder of outputs.
    kind, sep, person, cap, delta_cap, max_rows_per_person, ledger, again
        As of `perturb_file`.
    progress : callable, optional
        Called with the share that is read.

    Returns
    -------
    DryRun

    Raises
    ------
    ValueError
        For what the run would refuse.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsworth import Domain, Policy
    >>> policy = Policy.of("pm", 1, Domain.of({"age": (0, 100)}), passing=["id"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "people.csv")
    ...     written = table.write_text("id,age\n7,30\n8,61\n7,31\n")
    ...     found = dry_run(policy, table, Path(folder, "out.csv"), person="id", ledger=Path(folder, "ledger"))
    ...     made = sorted(path.name for path in Path(folder).iterdir())
    >>> found.rows, found.people, found.most, found.state, made
    (3, 2, 2, 'new', ['people.csv'])
    """
    told = check_callback("progress", progress) or (lambda share: None)
    place = state_folder() if ledger is None else folder_named("ledger", ledger)
    terms = RunTerms(person, cap, delta_cap, max_rows_per_person, again)
    read = _folder if str(source) != STANDARD and Path(source).is_dir() else _file
    with _looked_into(place) as store:
        seen, identity, request, counts, output = read(policy, source, destination, kind, sep, terms, store, told)
        state = store.preview(request, identity, counts)
        known = store.find(identity, person)
        if state == "done" and not is_there(output, None if known is None else known.sha256):
            raise store.repeated(request, 1)
    return _told(policy, seen, request, counts, place, state)


def _told(
    policy: Policy,
    seen: list[FirstReading],
    request: ChargeRequest,
    counts: RowCounts | None,
    place: Path,
    state: State,
) -> DryRun:
    """Return the facts of a run."""
    names = tuple(dict.fromkeys(name for one in seen for name in one.columns))
    passing, promise = policy.passing, policy.guarantee
    stated = request.rows if request.terms.most is None else request.terms.most
    people, most = (None, stated) if counts is None else (len(of := counts.sorted()[1]), int(of.max(initial=0)))
    return DryRun(
        request.rows, policy.names,
        tuple(name for name in names or passing.columns if name in passing.columns),
        tuple(name for name in names or passing.drop if name in passing.drop),
        promise.epsilon, promise.delta, promise.notion, request.terms.person, people, most,
        float_above(Fraction(promise.epsilon) * most), str(place), state,
        sum(one.rows - one.released for one in seen),
    )  # fmt: skip


@contextmanager
def _looked_into(place: Path) -> Iterator[Ledger]:
    """Yield the ledger; where there is none yet, an empty one that is thrown away."""
    with ExitStack() as stack:
        if not is_ledger(place):
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epsworth-")))
        yield Ledger(place)


class Preview(NamedTuple):
    """What a run would be charged for, and where its last output would lie."""

    seen: list[FirstReading]
    identity: Identity
    request: ChargeRequest
    counts: RowCounts | None
    output: Path | None


def _file(
    policy: Policy, source: str | Path, destination: str | Path, kind: Format | None, sep: str, terms: RunTerms,
    store: Ledger, told: Progress,
) -> Preview:  # fmt: skip
    """Read one file."""
    form = with_sep(kind_of_ends(source, destination, kind), sep)
    output = None if str(destination) == STANDARD else check_writable(check_name("output", Path(destination))).resolve()
    if str(source) != STANDARD:
        check_readable(check_name("table", Path(source)), "table")
    with at_hand_as_file(str(source)) as path:
        checked = first_reading(Perturbation(policy), form, path, output, terms, store, told=told)
    return Preview([checked.seen], checked.identity, checked.request, checked.counts, output)


def _folder(
    policy: Policy, source: str | Path, destination: str | Path, kind: Format | None, sep: str, terms: RunTerms,
    store: Ledger, told: Progress,
) -> Preview:  # fmt: skip
    """Read the files of a folder, which are one run."""
    given = inputs(source, kind, ENDINGS)
    form, place = with_sep(given.kind, sep), Path(destination).resolve()
    check_limit(terms)
    counts = terms.counts
    count = None if counts is None else lambda ids: counts.add(store.hashes(ids))
    perturbation = Perturbation(policy)
    seen = [file_table(form, perturbation, path, terms.person, store.digest).seen(count, told) for path in given.paths]
    whole = digests_of(Secret(store.digest_key), given.names, seen)[1]
    request = request_of(policy, sum(one.released for one in seen), terms)
    return Preview(seen, Identity(derivation(policy, form), whole, str(place)), request, counts, place / MANIFEST)
