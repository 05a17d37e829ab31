"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import ArgumentInfo, OptionInfo

from epsworth.cli import messages, parsing, services
from epsworth.cli.panels import panel_of
from epsworth.cli.trust import trusted
from epsworth.numerals import fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from epsworth.policy import Policy


Model = Annotated[
    Path,
    typer.Argument(
        parser=services.file_or_address,
        metavar="MODEL",
        help="Fitted classifier: .skops, .onnx, a booster's own file, .npz of privatize, one of learn fit (see "
        "--trust), or a service's http:// address.",
    ),
]
RECORDS = typer.Argument(
    help="Records in natural units: .csv, .csv.gz, .jsonl or .parquet; - reads standard input.", metavar="TABLE"
)
PERTURBED = typer.Option("--sensitive", "-s", help="Feature that users perturb; repeat, or separate by commas.")
Table = Annotated[Path, RECORDS]
Sep = Annotated[
    str,
    typer.Option(
        "--sep",
        parser=lambda text: {"tab": "\t", "\\t": "\t"}.get(text, text),
        metavar="SIGN",
        help="What separates the fields of a CSV: , ; | or tab.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Tell all: notes, promises, cost, columns that nothing declares.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict alone.")]
Sensitive = Annotated[list[str], PERTURBED]
DomainFile = Annotated[
    Path | None,
    typer.Option("--domain", help="Public ranges of the sensitive features, .toml or .json; default: all on [0, 1]."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="NAME=VALUE",
        help="What a gap in a sensitive column is read as, before it is perturbed; repeat. Default: what --domain "
        "says; other gaps are refused (tailor: the usual value).",
    ),
]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="Columns to leave out; repeat, or separate by commas.")]
Filled = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="NAME=VALUE",
        help="What a gap in a column of numbers is read as; repeat.",
    ),
]
DomainFromData = Annotated[
    bool,
    typer.Option("--domain-from-data", help="Take the ranges from the table. This leaks its extreme values."),
]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        "-m",
        help="Mechanism, with options after a colon (krr:k=33, pm:indicator=0.1); repeat; 'all' for every family. "
        "Default: the six pure families whose outputs stay in the declared range. 'tailored' is made for the model out "
        "of TABLE, which must then be public (see tailor).",
    ),
]
EPSILONS = "0.5,1,2,3,4,6,8"
Epsilons = Annotated[
    str,
    typer.Option("--epsilon", "-e", help="Epsilon of the whole record: a list 1,2,4, or first:last:step."),
]
PerFeature = Annotated[
    bool, typer.Option("--per-feature", help="--epsilon is that of every feature; the record's is their sum.")
]
Target = Annotated[
    str | None, typer.Option("--target", help="Column of true labels; the accuracy is then bounded, too.")
]
Over = Annotated[
    str, typer.Option(help="records: bound every record; dataset: average and worst case; auto: by the cost.")
]
Method = Annotated[
    str,
    typer.Option(help="auto, or an engine (grid, cells, sampled, ...); others are told."),
]
Quantise = Annotated[
    int | None, typer.Option(help="Round continuous outputs to this many grid points: exact for any classifier.")
]
Confidence = Annotated[float, typer.Option(help="Probability that all bounds hold together.")]
Tolerance = Annotated[float, typer.Option(help="Half-width of the intervals at which drawing stops.")]
Seed = Annotated[
    int | None, typer.Option(help="Seed of the analysis, for repeatable figures (nothing here is a release).")
]
Trust = Annotated[
    Any,
    typer.Option(
        "--trust",
        parser=trusted,
        metavar="[TYPE,TYPE]",
        show_default=False,
        help="Types that a skops file may hold; alone: load pickles, programs and all types, which runs their code.",
    ),
]
TABLES = ("table", "--file", "model")  # words of files in which rows are counted: profile's first may be its table
STREAM_OR_FILE = "FILE"  # metavar of texts that name a file, or by - a standard stream
Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar=STREAM_OR_FILE, help="Write everything as JSON to this file; - for standard output."
    ),
]
PolicyOut = Annotated[
    Path | None, typer.Option("--policy", help="Write what clients must run to this .toml file (see perturb).")
]
Passing = Annotated[
    list[str] | None,
    typer.Option(
        "--pass",
        help="Columns that the policy lets pass as they are; repeat, or separate by commas. Default: what the model "
        "reads and nobody perturbs.",
    ),
]
PolicyFile = Annotated[Path, typer.Argument(help="Policy file (.toml), as recommend --policy writes it.")]
AtLeast = Annotated[float, typer.Option(help="The least share of labels to keep, in (0, 1].")]
MaxEpsilon = Annotated[
    float | None,
    typer.Option(help="The largest epsilon per record to accept.", show_default="4: certainty of at most 98.3 %"),
]
AtMostSure = Annotated[
    float | None, typer.Option(help="The same by how sure an attacker may get of one of two values, such as 0.9.")
]
Jobs = Annotated[int | None, typer.Option(help="Workers; -1 for all cores.", callback=parsing.checked_jobs)]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers do the work (tcp://host:port); see --jobs."),
]
Person = Annotated[
    str | None, typer.Option("--id", help="Column that says who a row is about; without it everybody is charged.")
]
Cap = Annotated[str | None, typer.Option(help="Largest epsilon of a person over all runs of the ledger.")]
MaxRows = Annotated[
    int | None,
    typer.Option(
        "--max-rows-per-person", help="With --id: release a person's first rows alone; without: what one has at most."
    ),
]
LedgerFolder = Annotated[
    str | None,  # an empty one is refused, which a path would take for the current folder
    typer.Option("--ledger", help="Folder of the ledger; by default the account's own (EPSWORTH_STATE)."),
]
Record = Annotated[int, typer.Option("--record", "-r", help="Row of the table, counted from 0.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Write a plot to this .png, .svg or .pdf file.")]
Report = Annotated[
    Path | None, typer.Option("--report", help="Write a page to this .html file: one file that asks for nothing.")
]

WithinSeconds = Annotated[
    float | None,
    typer.Option(
        "--within-seconds", help="End by then with what is proven: valid bounds, wider where they are not finished."
    ),
]
DEADLINE = 60.0  # seconds, unless another is given
Deadline = Annotated[
    float | None,
    typer.Option(
        "--within-seconds",
        help="End by then with what is proven: averages first, valid bounds always; inf for no end.",
        show_default="60, but none with --parts",
    ),
]
ResumeFolder = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        help="Folder in which the run is kept: go on from it where it is there. It is computed from TABLE.",
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        help="Folder in which the run is kept: go on from it where it is there. It is computed from raw data.",
    ),
]


More = dict[str, tuple[Any, Any]]  # parameters by name: annotation and default
ASKED: More = {  # of commands that ask a model, in a file or behind an address, about a table
    "sep": (Sep, ","), "trust": (Trust, False), "cache": (services.Cache, None), "batch": (services.Batch, None),
    "timeout": (services.Timeout, None), "inputs": (services.Inputs, None), "output": (services.Output, None),
}  # fmt: skip
BUDGETED: More = ASKED | {"missing": (Missing, None), "most_asked": (services.Budget, None)}
CURVES: More = BUDGETED | {  # of commands that compute curves
    "mechanism": (Mechanisms, None), "per_feature": (PerFeature, False), "method": (Method, "auto"),
    "quantise": (Quantise, None), "confidence": (Confidence, 0.999), "tolerance": (Tolerance, 0.01),
    "within_seconds": (Deadline, None), "jobs": (Jobs, None), "cluster": (Cluster, None),
}  # fmt: skip


def takes(more: More) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of commands that find these parameters, too, in their context."""

    def marked(command: Callable[..., None]) -> Callable[..., None]:
        command.more = more  # type: ignore[attr-defined]
        return command

    return marked


def apart(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command none of whose files is another one of them: no output replaces an input, or another output.

    Every command is registered through this, so that none has to remember.  Files are what is a path, or a text whose
    metavar is `STREAM_OR_FILE`.
    """
    signature, more = inspect.signature(command, eval_str=True), getattr(command, "more", {})
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in signature.parameters.values()]
    if "sep" in signature.parameters or "sep" in more:  # it reads a table
        more = more | {"verbose": (Verbose, False)}
    own += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in more.items()
    ]
    files: dict[str, str] = {}  # words for them
    arguments: dict[str, str] = {}  # options for them
    for parameter in own:
        info = getattr(parameter.annotation, "__metadata__", (None,))[-1]
        if isinstance(info, ArgumentInfo):
            info.metavar = info.metavar or parameter.name.upper()
        word = str(getattr(info, "metavar", None) or parameter.name).partition(".")[0].lower()
        if isinstance(info, OptionInfo):
            info.rich_help_panel = info.rich_help_panel or panel_of(parameter.name)
            names = (info.default, *(info.param_decls or ()))  # the first one counts as the default
            long = (name for name in names if str(name).startswith("--"))
            word = str(next(long, f"--{parameter.name.replace('_', '-')}")).partition("/")[0]
            arguments |= {word.strip("-").replace("-", "_"): word} | arguments | {parameter.name: word}
        if "Path" in str(parameter.annotation) or getattr(info, "metavar", None) == STREAM_OR_FILE:
            files[parameter.name] = word

    @functools.wraps(command)
    def run(**given: Any) -> None:
        messages.name_options(arguments, [str(given.get(name)) for name, word in files.items() if word in TABLES])
        if given.get("verbose", False) and given.get("quiet", False):
            raise ValueError("--quiet prints the verdict alone, and --verbose everything; give one of them")
        if given.get("verbose", False):
            _tell_what_is_inferred()
        if (context := given.get("context")) is not None:
            context.params |= {name: one for name, one in given.items() if isinstance(one, Path)}  # texts in old typers
        check_files({word: given.get(name) for name, word in files.items()})
        try:
            command(**{name: value for name, value in given.items() if name not in more})
        except (typer.Exit, SystemExit):  # all is written, though not all is well
            _tell_page(given)
            raise
        _tell_page(given)

    told = inspect.cleandoc(command.__doc__ or "").split("\n\n")  # help breaks no line where the source does
    run.__doc__ = "\n\n".join(part if part.startswith("\b") else " ".join(part.split()) for part in told)
    run.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    return run


def _tell_page(given: Mapping[str, Any]) -> None:
    """Say which page --report wrote, unless standard output is one of JSON, or is to hold the verdict alone."""
    page = given.get("report")
    if page is not None and "-" not in (given.get("json"), given.get("output")) and not given.get("quiet"):
        tell_page(page)


def tell_page(page: Path) -> None:
    """Say where a page is."""
    typer.echo(f"Page: {page}")


def _tell_what_is_inferred() -> None:
    import logging

    logging.basicConfig(format="epsworth: %(message)s")
    logging.getLogger("epsworth.tables").setLevel(logging.INFO)


def check_files(named: Mapping[str, Path | str | Sequence[Path] | None]) -> None:
    """Refuse files of which two are one, before any of them is read; - is a standard stream."""
    from epsworth.files import check_distinct

    given = {word: [_stream(value)] if isinstance(value, (str, Path)) else value or () for word, value in named.items()}
    for (word, paths), (other, others) in combinations(given.items(), 2):
        for path, second in product(paths, others):
            check_distinct(**{word: path, other: second})


def _stream(value: Path | str) -> Path | str:
    """Return the file that - stands for: a Path is an input, a text an output."""
    return value if str(value) != "-" else "/dev/stdin" if isinstance(value, Path) else "/dev/stdout"


def confidence_of(confidence: float | None) -> float | None:
    """Return a confidence; refuse what is none."""
    if confidence is not None and not 0 < confidence < 1:
        raise ValueError(f"--confidence must lie strictly between 0 and 1, got {confidence:g}")
    return confidence


def view_asked(on: str) -> str | int:
    """Read what --on names."""
    if on.isdecimal():
        return int(on)
    if on not in ("average", "worst"):
        raise ValueError(f"--on must be average, worst or a record number from 0, got {on!r}")
    return on


def check_choice(
    at_least: float, of: str, delta: float | None, max_epsilon: float | None, at_most_sure: float | None
) -> None:
    """Refuse a choice that nothing can answer."""
    if not 0 < at_least <= 1:
        raise ValueError(f"--at-least must lie in (0, 1], got {at_least:g}")
    if of not in ("stability", "accuracy"):
        raise ValueError(f"--of must be stability or accuracy, got {of!r}")
    if delta is not None and not 0 <= delta < 1:
        raise ValueError(f"--delta must lie in [0, 1), got {delta:g}; without it any is accepted")
    if max_epsilon is not None and at_most_sure is not None:
        raise ValueError("--max-epsilon and --at-most-sure are two ways to say one thing; keep one")
    if max_epsilon is not None and not 0 < max_epsilon < math.inf:
        raise ValueError(f"--max-epsilon must be positive and finite, got {max_epsilon:g}")
    if at_most_sure is not None and not 0.5 < at_most_sure < 1:
        raise ValueError(f"--at-most-sure must lie strictly between 0.5 and 1, got {at_most_sure:g}")


def fraction(option: str, text: str) -> float:
    """Read a number, also as a fraction.

    Examples
    --------
    >>> fraction("--mi", "1/16")
    0.0625
    """
    try:
        if not fits(text):
            raise OverflowError  # 1e99999999 would fill the memory
        value = float(Fraction(text))
        vanished = value == 0 and Fraction(text) != 0
    except (ValueError, ZeroDivisionError, OverflowError):
        value, vanished = math.nan, False
    if not math.isfinite(value) or vanished:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise ValueError(f"{option} must be a number such as 0.0625 or 1/16, got {shown!r}")
    return value


def split_commas(words: list[str], whole: Container[str] = ()) -> list[str]:
    """Read a repeatable, comma-separated option; words in ``whole`` are kept as they are."""
    parts = [[word] if word in whole else word.split(",") for word in words]
    return [part.strip() for found in parts for part in found if part.strip()]


@contextmanager
def workers(jobs: int | None, cluster: str | None) -> Iterator[int | None]:
    """Yield the ``n_jobs`` of --jobs; all that runs through `epsworth.parallel` within goes to --cluster's workers."""
    from epsworth.parallel import on_cluster

    if jobs is not None and cluster is not None:
        raise ValueError("--jobs and --cluster each say where the work is done; give one of them")
    with on_cluster(cluster):
        yield jobs


def check_outputs(json_file: str | None, plot: Path | None, *others: Path | None) -> None:
    """Refuse outputs that cannot be written before any long work starts; `apart` tells them from inputs."""
    from epsworth.drawing import check_plot
    from epsworth.files import check_writable

    for path in (json_file, *others):
        if path not in (None, "-"):
            check_writable(path)
    if plot is not None:
        check_plot(plot)


def check_resume(resume: Path | None) -> None:
    """Refuse, before any work, a place where no run can be kept."""
    from epsworth.utility.engines.checkpoint import check_folder

    if resume is not None and not resume.is_file():  # a file may be an input, which is told apart from outputs
        check_folder(resume, "--resume")


def check_page(page: Path | None, mechanisms: Sequence[str] | None = None) -> None:
    """Refuse, before any work, a page that cannot be written, or cannot hold so many mechanisms."""
    if page is not None:
        from epsworth.report.curves_view import check_mechanisms
        from epsworth.report.page import check_page as check

        check(page)
        check_mechanisms(len(mechanisms or ()))


def check_policy_out(policy: Path | None, domain_from_data: bool) -> None:
    """Refuse, before any work, a policy that cannot be written, or that would hand out a table's extremes."""
    from epsworth.policy.policy import check_policy

    if policy is not None:
        check_policy(policy)
    if policy is not None and domain_from_data:
        raise ValueError("--policy is handed to every client, and --domain-from-data is a leak; declare --domain")


def passing_columns(words: list[str] | None, policy: Path | None) -> list[str] | None:
    """Return the columns that --pass names; None for what the model reads."""
    if words is not None and policy is None:
        raise ValueError("--pass names the columns that a policy lets pass; give --policy, too, or drop it")
    return None if words is None else split_commas(words)


def passing_only(policy: Policy, columns: list[str] | None) -> Policy:
    """Return a policy that lets these columns pass; others at which it looks are left out, with a warning."""
    from dataclasses import replace

    from epsworth.policy import Pass

    if columns is None:
        return policy
    rest = tuple(name for name in (*policy.passing.columns, *policy.passing.drop) if name not in columns)
    made = replace(policy, passing=Pass(tuple(columns), rest))
    if told := unread(policy.passing.columns, columns):
        warnings.warn(told, UserWarning, stacklevel=1)
    return made


def unread(read: Sequence[str], columns: list[str] | None) -> str | None:
    """Say which columns that the model reads --pass leaves out; None where it leaves out none."""
    lost = [] if columns is None else [name for name in read if name not in columns]
    if columns is None or not lost:
        return None
    return (
        f"--pass leaves out {', '.join(lost)}, which the model reads, so that it cannot take what clients release; "
        f"say --pass {','.join([*columns, *lost])}"
    )


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar on standard error while it is a terminal; yield the function that moves it."""
    from epsworth.cli.running import bar

    with bar() as show:
        show(what, 0.0)
        yield lambda share: show(what, share)
