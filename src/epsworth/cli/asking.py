"""What MODEL, TABLE and the options beside them name: loaded once, then asked the one question."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from epsworth.cli import services
from epsworth.cli.options import DEADLINE, fraction, split_commas, workers
from epsworth.cli.substitutes import with_gaps
from epsworth.inputs import (
    FileDigest,
    check_column,
    check_gaps_of,
    check_row,
    column_named,
    epsilon_grid,
    families,
    is_address,
    model_of_file,
    read_records,
    with_whole_numbers,
)

if TYPE_CHECKING:
    import polars as pl
    import typer

    from epsworth.classifiers import Classifier
    from epsworth.exposure import Encoded
    from epsworth.guarantees import Unit
    from epsworth.space import Domain
    from epsworth.study import Study
    from epsworth.utility.deadline import RunState


KNOWN = "as every average is known (--within-seconds inf goes on)"
PATIENCE = 10.0  # seconds that a run goes on for what it was not asked for, before and after
NEARLY = 0.5  # share of the work from which on the rest is foreseen
CLEAR = 0.06  # width of an average that is told, and decided
LEAST = 1e-3  # seconds of a run whose time was spent before it began


@dataclass(frozen=True)
class Inputs:
    """What MODEL, TABLE and the options beside them name.

    Attributes
    ----------
    model : Classifier
    frame : polars data frame
        Without the column of true labels.
    truth : ndarray or None
    names : list of str
        Sensitive columns.
    domain : Domain or None
        Declared ranges.
    origins : dict
        Where they come from, in words, where a page is to tell that.
    table : Path
        The file, or - for standard input.
    columns : sequence of str
        All of the table, that of true labels last.
    """

    model: Classifier
    frame: pl.DataFrame
    truth: Any
    names: list[Any]
    domain: Domain | None
    origins: Mapping[str, str]
    table: Path
    columns: Sequence[str]

    @classmethod
    def of(cls, given: Mapping[str, Any], model: Path | str, table: Path, policy: Path | None = None) -> Self:
        """Load what the options name."""
        from epsworth.classifiers import as_classifier
        from epsworth.policy import Policy
        from epsworth.space import Domain

        if given["domain"] is not None and given["domain_from_data"]:
            raise ValueError("--domain and --domain-from-data exclude each other; keep --domain")
        named = {"model": model, "table": table} if given.get("report") is not None else {}
        files = {name: Path(path) for name, path in named.items() if str(path) != "-" and not is_address(path)}
        digests = {name: FileDigest.of(path, name) for name, path in files.items()}
        declared = None if given["domain"] is None else Domain.load(given["domain"])
        clients = None if policy is None else Policy.load(policy)
        asked = as_classifier(classifier(model, given))
        frame, truth = read_records(table, asked, declared, given["target"], policy=clients, sep=given["sep"])
        names = [column_named(name, frame.columns) for name in split_commas(given["sensitive"] or [], frame.columns)]
        columns = [*frame.columns, *([given["target"]] if given["target"] else [])]
        for name in split_commas(given.get("passing") or [], frame.columns):
            check_column(name, columns, "--pass")
        if given["domain_from_data"]:
            declared = Domain.from_data({name: frame[name].to_numpy() for name in names})
        declared = with_gaps(declared, given.get("missing"), names, frame.columns, given["domain"])
        origins = {name.capitalize(): one.named(files[name]) for name, one in digests.items()}
        return cls(asked, frame, truth, names, declared, origins, table, columns)

    def with_whole_numbers(self) -> Self:
        """Return the same, in which columns of whole numbers stay such when they are released."""
        if self.domain is None:
            return self
        found = [
            with_whole_numbers(one, self.frame.get_column(one.name)) if one.name in self.names else one
            for one in self.domain.features
        ]
        return replace(self, domain=replace(self.domain, features=tuple(found)))

    def check_gaps(self) -> None:
        """Refuse gaps in sensitive columns for which nothing stands."""
        check_gaps_of(self.frame, self.names, self.domain, self.table)

    def check_row(self, row: int) -> None:
        """Refuse a record that the table does not hold."""
        check_row(row, len(self.frame))

    def record(self, row: int) -> pl.DataFrame:
        """Return a record, as a table of one row."""
        self.check_row(row)
        return self.frame[row : row + 1]


class Computed(NamedTuple):
    """The answer, the question, and whether Ctrl-C has cut it short."""

    curves: Any
    problem: Any
    interrupted: bool


def compute(
    given: Mapping[str, Any],
    model: Path | str,
    table: Path,
    rows: Sequence[int] = (),
    policy: Path | None = None,
    loaded: Inputs | None = None,
    enough: Callable[[RunState], bool] | None = None,
) -> Computed:
    """Load what the options name and ask the one question.

    Parameters
    ----------
    given : mapping
        The options of ``utility``, by name.
    model : Path or str
        A file, or the address of a service.
    rows : sequence of int
        Records that must exist.
    policy : path, optional
        What clients run, in place of features, mechanisms and epsilons.
    loaded : Inputs, optional
        What the options name, where it is loaded already: standard input is read once.
    enough : callable, optional
        Tells when what was asked for is known, so that the rest need not be.
    """
    from epsworth.cli.running import bar, running
    from epsworth.files import check_curves_size
    from epsworth.threads import one_openmp_thread
    from epsworth.utility.curve_parts import stability_in_parts
    from epsworth.utility.problem import Problem
    from epsworth.utility.run import Run
    from epsworth.utility.stability import problem_of_policy

    began, within = time.monotonic(), deadline(given)
    grid = epsilon_grid(given["epsilon"], "--epsilon")
    asked = loaded or Inputs.of(given, model, table, policy)
    for row in rows:
        asked.check_row(row)
    parameters: dict[str, Any] = {}
    if policy is None:
        asked.check_gaps()
        parameters = {
            "sensitive": asked.names,
            "mechanisms": families(given["mechanism"]),
            "epsilons": grid,
            "per": per_of(given),
            "domain": asked.domain,
            "quantise": given["quantise"],
        }
    options = {name: given[name] for name in ("confidence", "tolerance", "method")} | {"rng": given["seed"]}
    folder = given.get("parts")
    if given["json"] is not None and folder is None:
        pairs = (1, 1) if policy is not None else (len(parameters["mechanisms"]), len(grid))
        check_curves_size((*pairs, len(asked.frame)), accuracy=asked.truth is not None)
    if folder is None:
        options |= {"over": given["over"], "checkpoint": given["resume"]}
    with (
        workers(given["jobs"], given["cluster"]) as n_jobs,
        bar() as show,
        running(f"asking the classifier{f', {within:g} s at most' if within else ''}", show, within=within) as run,
    ):

        def watch(standing: RunState) -> bool | str:
            return run.watch(standing) or (KNOWN if enough is not None and enough(standing) else False)

        options |= {"progress": run.progress, "watch": watch, "n_jobs": n_jobs, "seconds": left_of(within, began)}
        how = None if folder is not None else Run.of(**options)
        with one_openmp_thread():
            if policy is not None:
                problem = problem_of_policy(policy, asked.model, asked.frame, y=asked.truth)
            else:
                problem = Problem.of(asked.model, asked.frame, y=asked.truth, **parameters)
            curves: Any = stability_in_parts(problem, str(folder), **options) if how is None else how.curves(problem)
    return Computed(curves, problem, curves.stopped and run.interrupted)


def encoded(given: Mapping[str, Any], table: Path, **how: Any) -> tuple[Any, Encoded]:
    """Return rows to train on, without what --drop names and with what --missing says of gaps, and these encoded."""
    from epsworth.exposure import ExposureError, encode
    from epsworth.tables import read_table, selected

    rows: Any = table  # of Parquet one column at a time
    if given["drop"] or given["missing"] or not str(table).lower().endswith(".parquet"):
        rows = read_table(table, sep=given["sep"])
        kept = chosen(rows.columns, given["target"], None, None, given["drop"])
        rows = selected(rows, [name for name in rows.columns if name in kept or name == given["target"]])
    filled: set[str] = set()
    for word in given["missing"] or ():
        name, equals, text = word.rpartition("=")
        if name in filled:
            raise ValueError(f"--missing names {name} twice; keep one")
        filled.add(name)
        if not equals:
            raise ValueError(f"--missing {word}: write NAME=VALUE, such as {word}=0")
        own = rows.get_column(column_named(name, rows.columns, "--missing"))
        if not (own.dtype.is_numeric() or str(own.dtype) == "Boolean"):
            raise ValueError(f"--missing {word}: {name} holds texts, and a gap is a text of its own; leave it out")
        rows = rows.with_columns(own.cast(float).fill_nan(None).fill_null(fraction(f"--missing {name}", text)))
    try:
        return rows, encode(rows, given["target"], **how)
    except ExposureError as error:
        if "drop it" not in str(error) or str(error).startswith("target"):
            raise
        raise ValueError(f"{error}: --drop NAME leaves it out, --missing NAME=VALUE fills gaps of numbers") from None


def chosen(
    names: list[str], target: str | None, group: str | None, only: list[str] | None, drop: list[str] | None
) -> list[str]:
    """Return the columns to learn from, in the table's order."""
    if only is not None and drop is not None:
        raise ValueError("--columns says what to learn from, and --drop what to leave out; give one of them")
    word, texts = ("--drop", drop) if only is None else ("--columns", only)
    given = [column_named(text, names, word) for text in split_commas(texts or [], names)]
    for name in given:
        if name in (target, group):
            raise ValueError(f"{word} names the column of --{'target' if name == target else 'group'}; drop it there")
    return [name for name in names if name not in (target, group) and (name in given) == (only is not None)]


def per_of(given: Mapping[str, Any]) -> Unit:
    """Return what --epsilon is stated for."""
    return "feature" if given["per_feature"] else "record"


def check_study(path: Path, table: Path | None, domain_from_data: bool) -> None:
    """Refuse, before any work, a study file that cannot be written, or of a question that cannot be asked again."""
    from epsworth.files import check_writable

    path = check_writable(path)
    if path.suffix.lower() != ".toml":
        raise ValueError(f"cannot write {path}: a study is a TOML file; let its name end in .toml")
    if table is None:
        raise ValueError("--study writes the question about a model and a table; give both, or leave it out")
    if str(table) == "-":
        raise ValueError("--study names its table, and standard input has no name; give a file")
    if domain_from_data:
        raise ValueError("--study names public ranges, and --domain-from-data is a leak; declare --domain")


def study_of(given: Mapping[str, Any], model: Path | str, table: Path, loaded: Inputs, destination: Path) -> Study:
    """Return the question of ``recommend`` as a study that lies at a destination."""
    from epsworth.space import Domain
    from epsworth.study import REQUEST, Study

    folder = Path(destination).absolute().parent  # some versions of Typer leave texts in their context
    names: dict[str, Any] = {"model": model, "table": table, "domain": given["domain"]}
    files = {name: _from(folder, one) for name, one in names.items()}
    if given["domain"] is None or Domain.load(given["domain"]) != loaded.domain:  # options and columns say more
        files["domain"] = loaded.domain
    service = {word: given[name] for name, word in services.ONLY_SERVICES.items() if word != "cache"}
    same = (set(REQUEST) - {"on"}) | {"target", "sep", "method", "over", "confidence", "tolerance", "quantise", "seed"}
    return Study(
        **files,
        sensitive=loaded.names,
        mechanisms=families(given["mechanism"]),
        epsilons=given["epsilon"],
        per=per_of(given),
        on=int(given["on"]) if given["on"].isdecimal() else given["on"],
        service={word: one for word, one in service.items() if one is not None} or None,
        folder=folder,
        **{name: given[name] for name in same},
    )


def _from(folder: Path, named: Path | str | None) -> Any:
    """Return how a file is named from a folder; where no such way leads, its whole path."""
    if named is None or is_address(named):
        return named
    try:
        return os.path.relpath(named, folder)
    except ValueError:  # another drive
        return str(Path(named).absolute())


def deadline(given: Mapping[str, Any]) -> float | None:
    """Return the seconds that a command has; None where it may take as long as it takes."""
    seconds = given["within_seconds"]
    if seconds is None:
        return DEADLINE if given.get("parts") is None else None
    return None if seconds == math.inf else within_seconds(seconds)


def decided(at_least: float, tolerance: float) -> Callable[[RunState], bool]:
    """Return what tells whether the average is known to either side of a wish everywhere, and the rest would be long.

    Within the first seconds nothing is cut short: what is exact by then is worth having.
    """
    import numpy as np

    def enough(standing: RunState) -> bool:
        if standing.seconds < PATIENCE or standing.done <= 0:
            return False
        rest = standing.seconds / standing.done - standing.seconds
        if standing.done > NEARLY and rest < PATIENCE and standing.seconds < 2 * PATIENCE:
            return False
        lower, upper = standing.average()
        clear = (lower >= at_least) | (upper < at_least)
        return bool(np.all(upper - lower <= np.where(clear, CLEAR, 2 * tolerance)))

    return enough


def within_seconds(seconds: float | None) -> float | None:
    """Check a deadline."""
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"--within-seconds must be positive and finite, got {seconds:g}")
    return seconds


def left_of(within: float | None, began: float) -> float | None:
    """Return what is left of the seconds that a command has."""
    return None if within is None else max(within - (time.monotonic() - began), LEAST)


def refuse_given(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Refuse options that were given where they mean nothing, instead of ignoring them."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"--{name.replace('_', '-')} {why}")


def refuse_beside_policy(context: typer.Context) -> None:
    """Refuse options that a policy answers already."""
    beside = (
        "sensitive", "mechanism", "epsilon", "per_feature", "domain", "missing", "domain_from_data", "quantise",
    )  # fmt: skip
    refuse_given(context, beside, "and --policy exclude each other: a policy says its own; keep one")


def classifier(path: Path | str, given: Mapping[str, Any]) -> Any:
    """Load a classifier: one that learn fit wrote, else as `load_model` does; or find the service behind an address."""
    if isinstance(path, str):
        return services.service(path, given)
    services.refuse_for_files(path, given)
    return model_of_file(path, given["trust"])


def others(paths: Sequence[Path], given: Mapping[str, Any]) -> list[Any]:
    """Load further classifiers; the options of services are for those that are services."""
    files = dict(given) | dict.fromkeys(services.ONLY_SERVICES)
    return [classifier(path, given if is_address(path) else files) for path in paths]
