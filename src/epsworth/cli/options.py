"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer
from typer.models import OptionInfo

from epsworth.deprecation import warn
from epsworth.numerals import exact_decimal, fits

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from epsworth.space import Domain
    from epsworth.utility.curves import Curves

B = TypeVar("B")
T = TypeVar("T")

Model = Annotated[
    Path, typer.Argument(help="Fitted classifier: a .skops file, a file of learn fit, or a pickle with --trust.")
]
RECORDS = typer.Argument(
    help="Records in natural units: .csv, .csv.gz, .jsonl or .parquet; - reads standard input.", metavar="TABLE"
)
PERTURBED = typer.Option("--sensitive", "-s", help="Feature that users perturb; repeat, or separate by commas.")
Table = Annotated[Path, RECORDS]
Sensitive = Annotated[list[str], PERTURBED]
DomainFile = Annotated[
    Path | None,
    typer.Option("--domain", help="Public ranges of the sensitive features, .toml or .json; default: all on [0, 1]."),
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
        "Default: the six pure families whose outputs stay in the declared range.",
    ),
]
Epsilons = Annotated[
    str,
    typer.Option("--epsilon", "-e", help="Privacy parameter per feature: first:last:step, or a list 1,2,4."),
]
RecordEpsilons = Annotated[
    str | None,
    typer.Option(
        "--record-epsilon",
        "-E",
        help="The same per record, shared evenly by the features: what a person pays. Instead of --epsilon.",
    ),
]
Target = Annotated[
    str | None, typer.Option("--target", help="Column of true labels; the accuracy is then bounded, too.")
]
Over = Annotated[
    str, typer.Option(help="records: bound every record; dataset: average and worst case; auto: by the cost.")
]
Method = Annotated[
    str,
    typer.Option(help="auto, paper (a heuristic), or an engine (grid, cells, sampled, ...); others are told."),
]
Quantise = Annotated[
    int | None, typer.Option(help="Round continuous outputs to this many grid points: exact for any classifier.")
]
Alpha = Annotated[str | None, typer.Option("--alpha", hidden=True)]  # spelt so before
Level = Annotated[float | None, typer.Option("--level", hidden=True)]
Confidence = Annotated[float, typer.Option(help="Probability that all bounds hold together.")]
Tolerance = Annotated[float, typer.Option(help="Half-width of the intervals at which drawing stops.")]
Seed = Annotated[
    int | None, typer.Option(help="Seed of the analysis, for repeatable figures (nothing here is a release).")
]
Trust = Annotated[bool, typer.Option("--trust", help="Load pickles and unknown types: runs the code in the file.")]
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
Record = Annotated[int, typer.Option("--record", "-r", help="Row of the table, counted from 0.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Write a plot to this .png, .svg or .pdf file.")]

MOST_EPSILONS = 10_000


def apart(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command none of whose files is another one of them: no output replaces an input, or another output.

    Every command is registered through this, so that none has to remember.  Files are what is a path, or a text whose
    metavar is `STREAM_OR_FILE`.
    """
    words = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        info = getattr(parameter.annotation, "__metadata__", (None,))[-1]
        if "Path" in str(parameter.annotation) or getattr(info, "metavar", None) == STREAM_OR_FILE:
            option = f"--{name.replace('_', '-')}" if isinstance(info, OptionInfo) else name
            words[name] = next(iter(getattr(info, "param_decls", None) or ()), option)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        check_files({word: given.get(name) for name, word in words.items()})
        command(**given)

    return run


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


def epsilon_grid(text: str, option: str = "--epsilon", above: float = 0.0) -> list[float]:
    """Read ``first:last:step`` (both ends included) or a comma-separated list.

    Examples
    --------
    >>> epsilon_grid("1:2:0.5"), epsilon_grid("1,4")
    ([1.0, 1.5, 2.0], [1.0, 4.0])
    """
    need = f"need {'' if above else '0 < '}first <= last and a positive step"
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        first, last, step = (exact_decimal(option, part) for part in text.split(":"))  # 0.1 steps hit the end
    except ValueError:
        told = f": {need}" if ":" in text else ""
        raise ValueError(f"{option} must be first:last:step or a list like 1,2,4, got {text!r}{told}") from None
    if not (above < first <= last and step > 0):
        raise ValueError(f"{option} {text}: {need}")
    if (last - first) / step > MOST_EPSILONS:
        raise ValueError(f"{option} {text}: more than {MOST_EPSILONS} values; take a larger step")
    return [float(first + i * step) for i in range(int((last - first) / step) + 1)]


def spelt_before(old: str, before: B | None, new: str, given: T | None) -> B | T | None:
    """Return what an option was given, or what its deprecated spelling was, with a warning."""
    if before is None:
        return given
    if given is not None:
        raise ValueError(f"{old} and {new} mean the same; give {new} alone")
    warn(old, new)
    return before


def confidence_of(confidence: float | None, level: float | None) -> float | Fraction | None:
    """Return a confidence, or what the deprecated --level leaves of 1."""
    for option, value in (("--level", level), ("--confidence", confidence)):
        if value is not None and not 0 < value < 1:
            raise ValueError(f"{option} must lie strictly between 0 and 1, got {value:g}")
    return spelt_before("--level", None if level is None else 1 - Fraction(level), "--confidence", confidence)


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


def families(words: list[str] | None) -> list[str]:
    """Read the mechanisms: names separated by commas, or one with options; ``all`` stands for every family."""
    from epsworth.mechanisms import FAMILIES
    from epsworth.utility.stability import DEFAULT_MECHANISMS

    named = [part for word in words or DEFAULT_MECHANISMS for part in ([word] if ":" in word else word.split(","))]
    return [name for part in named for name in (FAMILIES if part == "all" else [part])]


def check_outputs(json_file: str | None, plot: Path | None, other: Path | None = None) -> None:
    """Refuse outputs that cannot be written before any long work starts; `apart` tells them from inputs."""
    from epsworth.drawing import check_plot
    from epsworth.files import check_writable

    for path in (json_file, other):
        if path not in (None, "-"):
            check_writable(path)
    if plot is not None:
        check_plot(plot)


def check_policy_out(policy: Path | None, domain_from_data: bool) -> None:
    """Refuse, before any work, a policy that cannot be written, or that would hand out a table's extremes."""
    from epsworth.release.policy import check_policy

    if policy is not None:
        check_policy(policy)
    if policy is not None and domain_from_data:
        raise ValueError("--policy is handed to every client, and --domain-from-data is a leak; declare --domain")


@dataclass(frozen=True)
class Inputs:
    """What MODEL, TABLE and the options beside them name.

    Attributes
    ----------
    model : classifier
    frame : polars data frame
        Without the column of true labels.
    truth : ndarray or None
    names : list of str
        Sensitive columns.
    domain : Domain or None
        Declared ranges.
    """

    model: Any
    frame: pl.DataFrame
    truth: Any
    names: list[Any]
    domain: Domain | None

    @classmethod
    def of(cls, given: Mapping[str, Any], model: Path, table: Path) -> Self:
        """Load what the options name."""
        from epsworth.space import Domain
        from epsworth.table_files import read_table

        if given["domain"] is not None and given["domain_from_data"]:
            raise ValueError("--domain and --domain-from-data exclude each other; keep --domain")
        declared = None if given["domain"] is None else Domain.load(given["domain"])
        frame = read_table(table)
        truth = column_of(frame, "--target", given["target"])
        frame = frame if truth is None else frame.drop(given["target"])
        names = [column_named(name, frame.columns) for name in split_commas(given["sensitive"] or [], frame.columns)]
        if given["domain_from_data"]:
            declared = Domain.from_data({name: frame[name].to_numpy() for name in names})
        return cls(classifier(model, trust=given["trust"]), frame, truth, names, declared)

    def check_row(self, row: int) -> None:
        """Refuse a record that the table does not hold."""
        if not 0 <= row < len(self.frame):
            raise ValueError(f"there is no record {row}; the table holds records 0 to {len(self.frame) - 1}")

    def record(self, row: int) -> pl.DataFrame:
        """Return a record, as a table of one row."""
        self.check_row(row)
        return self.frame[row : row + 1]


def compute(given: Mapping[str, Any], model: Path, table: Path, rows: Sequence[int] = ()) -> Curves:
    """Load what the options name and ask the one question.

    Parameters
    ----------
    given : mapping
        The options of ``utility``, by name.
    rows : sequence of int
        Records that must exist.
    """
    from epsworth.utility.stability import stability

    if given["record_epsilon"] is None:
        grid = epsilon_grid(given["epsilon"])
    else:
        total = epsilon_grid(given["record_epsilon"], "--record-epsilon")
    asked = Inputs.of(given, model, table)
    for row in rows:
        asked.check_row(row)
    if given["record_epsilon"] is not None:
        grid = [shared_evenly(one, len(asked.names)) for one in total]
    with progress_bar("asking the classifier") as progress:
        return stability(
            asked.model, asked.frame, sensitive=asked.names, mechanisms=families(given["mechanism"]), epsilons=grid,
            domain=asked.domain, rng=given["seed"], y=asked.truth, progress=progress,
            **{name: given[name] for name in ("confidence", "tolerance", "over", "method", "quantise")},
        )  # fmt: skip


def shared_evenly(total: float, features: int) -> float:
    """Return the largest double so many of which do not sum to more than the total.

    Examples
    --------
    >>> shared_evenly(4.0, 2), 3 * Fraction(shared_evenly(1.0, 3)) <= 1
    (2.0, True)
    """
    from epsworth.rounding import float_below

    return float_below(Fraction(total) / max(features, 1))


def column_of(frame: pl.DataFrame, option: str, name: str | None) -> Any:
    """Return the values of the column that an option names; None for none."""
    from epsworth.records import shown_names

    if name is None:
        return None
    if name not in frame.columns:
        raise ValueError(f"{option}: the table has no column {name!r}; {shown_names(frame.columns)}")
    return frame[name].to_numpy()


def classifier(path: Path, *, trust: bool) -> Any:
    """Load a classifier: one that learn fit wrote, else as `load_model` does."""
    import numpy as np

    from epsworth.classifiers import load_model
    from epsworth.learner import Classifier

    if not Classifier.wrote(path):
        return load_model(path, trust=trust)
    learnt = Classifier.load(path)
    learnt.feature_names_in_ = np.array(learnt.config.names, dtype=object)  # columns of a table go by name, x0 too
    return learnt


def column_named(name: str, columns: list[str]) -> Any:
    """Return the column that a text names, or numbers where the table has a header."""
    from epsworth.records import looks_like_header, shown_names

    if name in columns:
        return name
    if name.isdigit() and int(name) < len(columns) and looks_like_header(columns):
        return columns[int(name)]
    raise ValueError(f"--sensitive: the table has no column {name!r}; {shown_names(columns)}")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar on standard error while it is a terminal; yield the function that moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    if not console.is_terminal:  # some versions of rich end a disabled bar with an empty line
        yield lambda share: None
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)
