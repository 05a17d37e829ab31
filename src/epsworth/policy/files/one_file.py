"""`perturb_file`: CSV, JSON lines and Parquet, read twice: checked and charged, then drawn part by part."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

from epsworth.callbacks import check_callback
from epsworth.files import check_distinct, check_name, check_readable, check_writable, file_named, writing
from epsworth.numerals import short
from epsworth.parallel import check_n_jobs
from epsworth.policy.files.file_tables import FileTable, FirstReading, PartWords, derivation, file_table, with_sep
from epsworth.policy.files.outputs import STANDARD, bytes_of, execute_run, standard_output
from epsworth.policy.ledger import Amount, ChargeRequest, Identity, Ledger, RowCounts, Run, RunTerms
from epsworth.policy.policy import Given, Policy, as_policy
from epsworth.policy.receipt import Receipt
from epsworth.policy.tables import Perturbation, check_words
from epsworth.rounding import float_above, show_up
from epsworth.version import __version__

if TYPE_CHECKING:
    from epsworth.mechanisms.words import WordSource

Format = Literal["csv", "jsonl", "parquet"]
ENDINGS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
Progress = Callable[[float], None]
READING = 0.4  # of the work, where progress is told
HELD = 1 << 26  # bytes of a file that stay in memory between its readings; their columns take some four times that


def perturb_file(
    policy: Given,
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
    jobs: int = 1,
    progress: Progress | None = None,
    words: WordSource | None = None,
) -> Receipt:
    """Perturb a file as the policy says and write the same kind of file.

    Claim: every record of the output keeps ``policy.guarantee``; m rows of one person keep m times that, and no person
    is charged more than ``cap`` over all runs of the ledger.  Rows, their order and all other columns are as they were,
    text for text.  Whatever happens, ``destination`` is the old file or the whole new one; a run that was stopped goes
    on where the same command is given again, draws the same bytes, and is charged once.

    Parameters
    ----------
    policy : Policy or path
    source, destination : path or "-"
        ``.csv``, ``.jsonl``, ``.ndjson`` or ``.parquet``; "-" is standard input or output.
    kind : {"csv", "jsonl", "parquet"}, optional
        By default what the endings say, and CSV for two standard streams.
    sep : str
        What separates the fields of CSV, on both ends: a comma, semicolon, tab or bar.
    person : str, optional
        The column that says who a row is about.  Without it nobody knows, and the run is charged to everybody.
    cap, delta_cap : number or text, optional
        The largest sums of epsilon and delta of a person over all runs; a ledger keeps what it was told first.
    max_rows_per_person : int, optional
        With ``person``: only the first so many rows of a person are released, in the order of the file.  Without it:
        how many rows one person has at most, which nobody checks; else all rows may be one person's.
    ledger : path, optional
        Folder of the ledger; by default the account's own (``EPSWORTH_STATE``).
    again : bool
        Allow records to leave a second time under the same policy: budgets add.
    jobs : int
        Processes that perturb parts of a CSV or JSON file side by side; the output is the same.
    progress : callable, optional
        Called with the share of the work that is done.
    words : WordSource, optional
        For tests alone: the receipt then says NOT PRIVATE.

    Returns
    -------
    Receipt

    Raises
    ------
    ValueError
        For input that the policy refuses, naming the row; where the ledger knows the records, or a person would exceed
        the cap.  Nothing is charged then.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import polars as pl
    >>> from epsworth import Domain, Policy, perturb_file
    >>> policy = Policy.of("pm", 1, Domain.of({"age": (0, 100)}), passing=["id"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source, released = Path(folder, "people.csv"), Path(folder, "released.csv")
    ...     pl.DataFrame({"id": [7, 8], "age": [30, 61]}).write_csv(source)
    ...     receipt = perturb_file(policy, source, released, person="id", cap=3, ledger=Path(folder, "ledger"))
    ...     ids = pl.read_csv(released)["id"].to_list()
    >>> ids, receipt.rows, receipt.epsilon <= 1
    ([7, 8], 2, True)
    """
    policy = as_policy(policy, source)
    form = with_sep(kind_of_ends(source, destination, kind), sep)
    terms = RunTerms(person, cap, delta_cap, max_rows_per_person, again)
    many = check_n_jobs(jobs, "jobs")
    check_words(words)
    told = check_callback("progress", progress) or (lambda share: None)
    store = Ledger(ledger)
    with _at_hand(str(source), str(destination), store) as (path, output):
        perturbation = Perturbation(policy, words)
        hold = HELD if many == 1 and max_rows_per_person is None else 0
        checked = first_reading(
            perturbation, form, path, output, terms, store, hold=hold, told=lambda share: told(READING * share)
        )
        table, seen, identity, request, counts = checked
        run = store.begin(request, identity, counts)

        def write(temporary: Path) -> None:
            drawn = table.write(seen, words_of(run, identity, words), temporary, drawing, jobs=many)
            if drawn != seen.released:
                raise RuntimeError(f"{drawn} rows were drawn instead of {seen.released}; nothing was written")

        def drawing(share: float) -> None:
            told(READING + (1 - READING) * share)

        execute_run(store, run, request, output, write)
        told(1.0)
    receipt = receipt_of(policy, seen.columns, run, request, counts, private=perturbation.private)
    return replace(receipt, rows_left_out=seen.rows - seen.released)


class Checked(NamedTuple):
    """A file that was read once: what a run is charged for."""

    table: FileTable
    seen: FirstReading
    identity: Identity
    request: ChargeRequest
    counts: RowCounts | None


def first_reading(
    perturbation: Perturbation, form: str, path: Path, output: Path | None, terms: RunTerms, store: Ledger,
    *, hold: int = 0, told: Progress,
) -> Checked:  # fmt: skip
    """Read a file, count whose rows these are, and refuse what could not be released; nothing is drawn or charged."""
    table, counts, policy = (
        file_table(form, perturbation, path, terms.person, store.digest), terms.counts, perturbation.policy,
    )  # fmt: skip
    count = None if counts is None else lambda ids: counts.add(store.hashes(ids))
    seen = table.seen(count, told, hold=hold)
    seen = seen if counts is None else replace(seen, kept=counts.kept())  # where people have a largest number of rows
    derived = derivation(policy, form, terms.person, terms.most)
    identity = Identity(derived, seen.digest, STANDARD if output is None else str(output))
    return Checked(table, seen, identity, request_of(policy, seen.released, terms), counts)


def request_of(policy: Policy, rows: int, terms: RunTerms) -> ChargeRequest:
    """Return what a run under a policy costs a row, and how a person's rows are counted."""
    epsilon, delta = price_of(policy)
    each = show_up(float(policy.total))
    advice = f"another run adds epsilon {each} per record: use the output you have, or say again=True"
    return ChargeRequest(policy.fingerprint, epsilon, delta, rows, terms, advice=advice)


def price_of(policy: Policy) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta of a record, exactly: sums over what is released together (basic composition).

    No more than the policy's guarantee, whose floats are rounded up, nor than its stated total.
    """
    promise, proven = policy.guarantee, [rule.proven for rule in policy.rules]
    epsilon = sum(sorted((epsilon for epsilon, _ in proven), reverse=True)[: policy.released], Fraction(0))
    delta = sum(sorted((delta for _, delta in proven), reverse=True)[: policy.released], Fraction(0))
    if policy.tailoring is not None:  # no two rows differ by more than exp(stated epsilon), rounded down
        epsilon += policy.tailoring.randomiser.stated
    return min(epsilon, Fraction(promise.epsilon)), min(delta, Fraction(promise.delta))


def words_of(run: Run, identity: Identity, words: WordSource | None) -> Callable[[int, bytes], WordSource]:
    """Return what the parts of a run are drawn with; ``words``: of a test."""
    if words is not None:
        return lambda index, digest: words
    assert run.key is not None  # only of a run that is done
    return PartWords(run.key, identity.policy)


@contextmanager
def _at_hand(source: str, destination: str, store: Ledger) -> Iterator[tuple[Path, Path | None]]:
    """Yield a file with the input and the path of the output, None for standard output; refuse what cannot be."""
    for what, name in {"table": source, "output": destination}.items():
        check_name(what, Path(name))
    output = None if destination == STANDARD else check_writable(destination)
    if output is None:
        standard_output()
    if source != STANDARD:
        check_readable(source, "table")
    given = "/dev/stdin" if source == STANDARD else source
    check_distinct(input=given, **store.files, output="/dev/stdout" if output is None else output)
    if output is not None:
        output = output.resolve()
        store.check_apart("output", output)
    with at_hand_as_file(source) as path:
        yield path, output


@contextmanager
def at_hand_as_file(source: str) -> Iterator[Path]:
    """Yield a file that can be read twice: the one that is named, or what standard input holds."""
    if source != STANDARD:
        yield Path(source)
        return
    with _spooled() as path:
        yield path


@contextmanager
def _spooled() -> Iterator[Path]:
    """Yield standard input as a file that can be read twice, for the owner's eyes only.

    Where the system can open a file by its number it has no name: it goes with the process, however that ends.
    """
    stream = bytes_of(sys.stdin, "standard input")
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())
        path = Path(f"/proc/self/fd/{file.fileno()}")
        if not path.exists():
            file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="epsworth-"))
            path = Path(file.name)
        with writing(f"the temporary folder {tempfile.gettempdir()}"):
            shutil.copyfileobj(stream, file, 1 << 20)
            file.flush()
        yield path


def receipt_of(
    policy: Policy,
    columns: Sequence[str],
    run: Run,
    request: ChargeRequest,
    counts: RowCounts | None,
    *,
    private: bool = True,
) -> Receipt:
    """Return the receipt of a run that is done; where every record has columns of its own, those of the policy."""
    passing = policy.passing
    promise = policy.guarantee
    of_each = None if counts is None else counts.sorted()[1]
    return Receipt(
        policy.fingerprint,
        request.rows,
        policy.names,
        tuple(name for name in columns or passing.columns if name in passing.columns),
        tuple(name for name in columns or passing.drop if name in passing.drop),
        promise.epsilon,
        promise.delta,
        promise.notion,
        __version__,
        private=private,
        stated=float_above(Fraction(policy.total)),
        together=() if policy.tailoring is None else policy.tailoring.names,
        times_before=run.times_before,
        epsilon_so_far=float_above(run.epsilon_so_far),
        delta_so_far=min(1.0, float_above(run.delta_so_far)),
        person=request.terms.person,
        people=None if of_each is None else len(of_each),
        most=request.terms.most if of_each is None else int(of_each.max(initial=0)),
        already_done=run.state == "done",
    )


def kind_of_ends(source: str | Path, destination: str | Path, kind: Format | None) -> Format:
    """Return the common format of both ends."""
    for field, path in {"source": source, "destination": destination}.items():
        file_named(path, field)
    found = {
        str(path): ENDINGS.get(Path(path).suffix.lower()) for path in (source, destination) if str(path) != STANDARD
    }
    for path, ending in found.items():
        if ending is None:
            if path == str(source):
                check_readable(path, "table")
            raise ValueError(f"{path} has an unknown ending; give {', '.join(ENDINGS)}, or - for a standard stream")
    if kind is not None and not isinstance(kind, str):
        raise ValueError(f"the format must be csv, jsonl or parquet, got {short(kind)}")
    kinds = set(found.values()) | ({kind} if kind else set())
    if len(kinds) > 1:
        raise ValueError(f"input and output must be of one kind, got {' and '.join(sorted(map(str, kinds)))}")
    chosen = kinds.pop() if kinds else "csv"
    if chosen not in ENDINGS.values():
        raise ValueError(f"the format must be csv, jsonl or parquet, got {short(chosen)}")
    if chosen == "parquet" and len(found) < 2:
        raise ValueError("parquet cannot be streamed through standard input or output; give two files")
    assert chosen is not None
    return chosen
