"""What a question names, checked and read: models, tables, columns, mechanisms, grids; and what read it."""

from __future__ import annotations

import difflib
import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any, Self

from epsworth.files import check_readable
from epsworth.numerals import as_float, exact_decimal, positive, short, whole
from epsworth.version import __version__

if TYPE_CHECKING:
    import polars as pl

    from epsworth.classifiers import Classifier
    from epsworth.policy import Policy
    from epsworth.space import Domain, Feature
    from epsworth.utility.choice import Choice
    from epsworth.utility.tailored import Tailored

MOST_EPSILONS = 10_000
SCHEMES = ("http://", "https://")
LONGEST = 4096  # letters of a name or a path
MOST_NAMES = 1000
ELSEWHERE = {  # what is never said in a study file, and where it is
    "trust": "a study file cannot trust the model that it names; pass --trust where you run it, if you made that model",
    "send": "a study file cannot have records sent; pass --send where you run it",
    "cache": "a study file names no file that is written; pass --cache where you run it",
}
LIBRARIES = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn"}  # module -> package
WHERE_USED = ("polars", "skops", "onnxruntime", "xgboost", "lightgbm", "catboost", "torch", "keras", "pandas")


def is_address(model: object) -> bool:
    """Tell the address of a service from a file."""
    return isinstance(model, str) and model.lower().startswith(SCHEMES)


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
            listed = [float(part) for part in text.split(",")]
            if not all(map(math.isfinite, listed)):
                raise ValueError
            return listed
        first, last, step = (exact_decimal(option, part) for part in text.split(":"))  # 0.1 steps hit the end
    except ValueError:
        told = f": {need}" if ":" in text else ""
        raise ValueError(
            f"{option} must be first:last:step or a list of finite numbers like 1,2,4, got {short(text)}{told}"
        ) from None
    if not (above < first <= last and step > 0):
        raise ValueError(f"{option} {text}: {need}")
    if (last - first) / step > MOST_EPSILONS:
        raise ValueError(f"{option} {text}: more than {MOST_EPSILONS} values; take a larger step")
    return [float(first + i * step) for i in range(int((last - first) / step) + 1)]


def epsilon_text(name: str, value: object) -> str:
    """Return a grid as the text that states it: numbers of a list by their own texts, with every digit."""
    import numpy as np

    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, (str, bytes)) and (isinstance(value, Sequence) or getattr(value, "shape", None)):
        if len(value) > MOST_EPSILONS:  # type: ignore[arg-type]  # what has a shape has a length
            raise ValueError(f"{name}: more than {MOST_EPSILONS} values; take fewer")
        if np.ma.is_masked(value):
            raise ValueError(f"{name} masks some of its entries; leave these out")
        listed = value if isinstance(value, Sequence) else np.asarray(value)
        value = ",".join(_stated(f"{name}[{i}]", one) for i, one in enumerate(listed))
    elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        value = _stated(name, value)
    if not isinstance(value, str) or len(value) > 64 * MOST_EPSILONS:
        raise ValueError(f'{name} must be a text such as "1:8:1", or a list of numbers, got {short(value)}')
    grid = epsilon_grid(value, name)
    if len(grid) > MOST_EPSILONS:
        raise ValueError(f"{name}: more than {MOST_EPSILONS} values; take fewer")
    if not grid[0] > 0 or any(not low < high for low, high in pairwise(grid)):
        raise ValueError(f"{name} must be positive and increase, got {short(value)}; sort them, each once")
    return value


def _stated(name: str, value: Any) -> str:
    value = value.item() if getattr(value, "ndim", None) == 0 else value
    exact_decimal(name, value)
    return str(value)


def families(words: Iterable[str] | None) -> list[str]:
    """Read mechanisms: names separated by commas, or one with options; ``all`` stands for every family."""
    from epsworth.mechanisms import MECHANISMS
    from epsworth.utility.problem import DEFAULT_MECHANISMS

    named = [part for word in words or DEFAULT_MECHANISMS for part in ([word] if ":" in word else word.split(","))]
    return [name for part in named for name in (MECHANISMS if part == "all" else [part])]


def read_records(
    path: str | Path,
    classifier: Classifier,
    domain: Domain | None,
    target: str | None,
    *,
    policy: Policy | None = None,
    field: str = "--target",
    sep: str = ",",
) -> tuple[pl.DataFrame, Any]:
    """Read a table by what is declared of its columns; return the records, and their true labels.

    What the domain or the policy declares goes before what the model takes its columns for; labels are the model's.
    """
    from epsworth.classifiers.classifier import declared_inputs
    from epsworth.tables import ENTRY, Declared, kinds_of, read_table, selected

    def declared(names: list[str]) -> Declared:
        check_column(target, names, field)
        if target is not None and target in (classifier.features or ()):
            raise ValueError(f"{field}: the model reads {target!r}, so it holds no labels; name the column that does")
        kinds = declared_inputs(classifier, [name for name in names if name != target])
        kinds |= {} if domain is None else kinds_of(domain.features)
        kinds |= {} if policy is None else kinds_of((rule.feature for rule in policy.rules), ENTRY)
        return kinds if target is None or classifier.classes is None else kinds | {target: classifier.classes}

    frame = read_table(path, declared, sep=sep)
    truth = column_of(frame, target)
    return selected(frame, [name for name in frame.columns if name != target]), truth


def column_of(frame: pl.DataFrame, name: str | None) -> Any:
    """Return the values of a column that is there; None for none."""
    return None if name is None else frame[name].to_numpy()


def check_column(name: str | None, columns: list[str], field: str) -> None:
    """Refuse a column that a table does not have."""
    from epsworth.headers import shown_names

    if name is not None and name not in columns:
        raise ValueError(f"{field}: the table has no column {name!r}; {shown_names(columns)}")


def column_named(name: str, columns: list[str], field: str = "--sensitive") -> Any:
    """Return the column that a text names, or numbers where the table has a header."""
    from epsworth.headers import looks_like_header

    if name not in columns and name.isdigit() and int(name) < len(columns) and looks_like_header(columns):
        return columns[int(name)]
    check_column(name, columns, field)
    return name


def check_gaps_of(frame: pl.DataFrame, names: Sequence[str], domain: Domain | None, table: str | Path) -> None:
    """Refuse gaps in a table's sensitive columns for which nothing stands."""
    from epsworth.space import unit_domain
    from epsworth.utility.gaps import check_gaps

    declared = domain or unit_domain(names)
    series = [frame.get_column(name) for name in names]
    columns = [one.to_numpy() if one.dtype.is_float() else one.to_list() if one.null_count() else [] for one in series]
    check_gaps([declared[name] for name in names], columns, frame.columns, table, declared=domain is not None)


def with_whole_numbers(feature: Feature, values: Any) -> Feature:
    """Return a feature that stays whole when it is released, where a column's values all are, and the range allows.

    Examples
    --------
    >>> import polars as pl
    >>> from epsworth import Feature
    >>> with_whole_numbers(Feature("age", 0, 100), pl.Series([31, None, 64])).integer
    True
    >>> with_whole_numbers(Feature("bmi", 15, 60), pl.Series([31.5, None, 64.0])).integer
    False
    """
    present = values.drop_nulls()
    if feature.categories is not None or feature.points is not None or not present.dtype.is_numeric():
        return feature
    numbers = present.to_numpy().astype(float)
    numbers = numbers[numbers == numbers]
    if not len(numbers) or (numbers % 1 != 0).any() or not float(feature.missing or 0).is_integer():
        return feature
    try:
        return replace(feature, integer=True)
    except ValueError:  # ends that are not whole, or too many numbers between them
        return feature


def check_row(row: int, count: int) -> None:
    """Refuse a record that a table does not hold."""
    if not 0 <= row < count:
        raise ValueError(f"there is no record {row}; the table holds records 0 to {count - 1}")


def model_of_file(path: Path, trust: bool | Sequence[str]) -> Any:
    """Load a classifier: one that learn fit, learn close or privatize wrote, else as `load_model` does."""
    import numpy as np

    from epsworth.classifiers import load_model
    from epsworth.learner import Classifier, TableLearner

    if path.suffix.lower() == ".npz":
        from epsworth.pac.model_files import load_model as released

        return released(path)
    if TableLearner.wrote(path):
        return TableLearner.load(path).classifier()
    if not Classifier.wrote(path):
        return load_model(path, trust=trust)
    learnt = Classifier.load(path)
    learnt.feature_names_in_ = np.array(learnt.config.names, dtype=object)  # columns of a table go by name, x0 too
    return learnt


def tailored_of(
    choice: Choice,
    model: Any,
    frame: pl.DataFrame,
    *,
    sensitive: Sequence[str],
    domain: Domain | None,
    y: Any,
    rng: int | None,
    progress: Callable[[float], None] | None,
) -> Tailored:
    """Make the tailored policy that was chosen; what is public was said when it was compared."""
    from epsworth.mechanisms.family import parse
    from epsworth.utility.tailored import tailor

    epsilon = min(len(sensitive) * Decimal(repr(choice.epsilon)), Decimal(choice.guarantee.epsilon))
    return tailor(
        model, frame, sensitive=sensitive, epsilon=epsilon, domain=domain, y=y, rng=rng, public=True,
        progress=progress, **parse(choice.mechanism).options,  # type: ignore[arg-type]  # checked when it was compared
    )  # fmt: skip


@dataclass(frozen=True)
class FileDigest:
    """A file as it was read: its SHA-256 and how many bytes it had."""

    sha256: str
    bytes: int

    @classmethod
    def of(cls, path: Path, what: str) -> Self:
        """Read a file to its end."""
        with check_readable(path, what).open("rb") as stream:
            return cls(hashlib.file_digest(stream, "sha256").hexdigest(), stream.tell())

    def named(self, path: object) -> str:
        """Return what pages say of it: its name without folders, which tell about their owner, and the SHA-256."""
        return f"{Path(str(path)).name}, SHA-256 {self.sha256}"


def versions() -> dict[str, str]:
    """Return the versions of what computes, the model's library included where it was loaded."""
    found = {"epsworth": __version__, "python": python_version()}
    for module, package in (LIBRARIES | {name: name for name in WHERE_USED if name in sys.modules}).items():
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # built from source, or under another name
            found[package] = str(getattr(sys.modules.get(module), "__version__", "unknown"))
    return found


def in_a_line(found: Mapping[str, str]) -> str:
    """Return versions in a line."""
    return ", ".join(f"{name} {version}" for name, version in found.items())


# ---- the fields of a study, one check each


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value or len(value) > LONGEST:
        raise ValueError(f"{name} must be a text of 1 to {LONGEST} letters, got {short(value)}; write it in quotes")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{name} holds half of a letter (a lone surrogate), which no file can; rename it")
    return value


def _file(name: str, value: object) -> str:
    found = _text(name, str(value) if isinstance(value, Path) else value)
    if found == "-":
        raise ValueError(f"{name} is '-', standard input, which nobody can ask again; name a file")
    return found


def _texts(name: str, value: object) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not 1 <= len(listed) <= MOST_NAMES:
        raise ValueError(f'{name} must be a list of texts such as ["age", "bmi"], got {short(value)}')
    found = tuple(_text(f"{name}[{i}]", one) for i, one in enumerate(listed))
    for one in found:
        if found.count(one) > 1:
            raise ValueError(f"{name} names {short(one)} twice; keep one")
    return found


def _mechanisms(name: str, value: object) -> tuple[str, ...]:
    """Return mechanisms by their words, spelt out."""
    from epsworth.mechanisms.family import family, is_tailored

    found = _texts(name, families(_texts(name, value)))
    for words in found:
        try:
            if not is_tailored(words):
                family(words).build(1.0)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def _domain(name: str, value: object) -> str | Domain:
    """Return the name of a file with public ranges, or the ranges themselves."""
    from epsworth.space import Domain, Feature

    if isinstance(value, Domain):
        return value
    if not isinstance(value, Mapping):
        return _file(name, value)
    if not value:
        raise ValueError(f"{name} is an empty table; write one section [{name}.NAME] per feature, or a file")
    if any(isinstance(one, (tuple, list, Feature)) for one in value.values()):
        return Domain.of(value)
    try:
        return Domain.from_dict({"features": value})
    except ValueError as error:
        raise ValueError(f"{name}.{str(error).removeprefix('features.')}") from None


def _one_of(*words: str) -> Callable[[str, object], str]:
    def check(name: str, value: object) -> str:
        if value not in words:
            raise ValueError(f"{name} must be {' or '.join(map(repr, words))}, got {short(value)}")
        return str(value)

    return check


def _view(name: str, value: object) -> str | int:
    if isinstance(value, str) and value not in ("average", "worst"):
        raise ValueError(f"{name} must be 'average', 'worst' or a record number from 0, got {short(value)}")
    return value if isinstance(value, str) else whole(name, value, least=0)


def _separator(name: str, value: object) -> str:
    from epsworth.csv_grammar import SEPARATORS

    return _one_of(*SEPARATORS)(name, value)


def _at_least(name: str, value: object) -> float:
    if not 0 < (found := as_float(value)) <= 1:
        raise ValueError(f"{name} must lie in (0, 1], got {short(value)}")
    return found


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {short(value)}")
    return value


SERVICE: dict[str, Callable[[str, object], Any]] = {
    "budget": partial(whole, least=1, most=10**12),
    "batch": partial(whole, least=1, most=10**6),
    "timeout": positive,
    "inputs": _one_of("tensor", "columns"),
    "output": _text,
}


def _service(name: str, value: object) -> dict[str, Any]:
    """Return how a service is asked: nothing of it names a file, or a secret."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a table with {', '.join(SERVICE)}, got {short(value)}")
    for entry in value:
        if entry not in SERVICE:
            raise unknown(entry, tuple(SERVICE), f"{name}.{entry}")
    return {entry: SERVICE[entry](f"{name}.{entry}", given) for entry, given in value.items()}


def unknown(name: str, allowed: Sequence[str], where: str | None = None) -> ValueError:
    """Return the refusal of an entry: what it is meant for, the nearest that there is, or all of them."""
    if name in ELSEWHERE:
        return ValueError(f"{where or name}: {ELSEWHERE[name]}")
    close = difflib.get_close_matches(name, allowed, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(allowed)}"
    return ValueError(f"unknown entry {short(where or name)}; {hint}")


CHECKS: dict[str, Callable[[str, object], Any]] = {  # the others are checked by `Limits` and `Run`
    "model": _file,
    "table": _file,
    "sensitive": _texts,
    "domain": _domain,
    "mechanisms": _mechanisms,
    "epsilons": epsilon_text,
    "per": _one_of("record", "feature"),
    "target": _text,
    "sep": _separator,
    "at_least": _at_least,
    "on": _view,
    "of": _one_of("stability", "accuracy"),
    "method": _text,
    "over": _text,
    "quantise": partial(whole, least=2, most=10**6),
    "seed": partial(whole, least=0, most=2**63 - 1),  # the largest whole number of TOML
    "service": _service,
    "panels": _truth,
}
