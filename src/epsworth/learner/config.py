"""`LatticeConfig`: everything that clients and server must agree on, all of it public; what every configuration has."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats
from epsworth.documents import in_words, read_json
from epsworth.files import reading, write_text
from epsworth.guarantees import Central, Pure, Shuffled, shuffled
from epsworth.headers import shown_names
from epsworth.learner.coins import Ints, checked_epsilon
from epsworth.learner.encoding import Values, column_of, label_positions, names_of, points_of
from epsworth.learner.mechanism import Mechanism, Rowed, Symbols, Users
from epsworth.learner.mechanisms import MECHANISMS, MOST_CELLS, MOST_COUNTERS, MOST_GRID_AXES, choose
from epsworth.learner.wire import CHECK, HEAD
from epsworth.mechanisms.rational import Exact, stated
from epsworth.numerals import short, whole
from epsworth.rounding import float_above

Outside = Literal["clip", "zero", "refuse"]
Rows = Literal["drawn", "hash"]
A_TABLE = "this is the configuration of a table; its clients get a round: write one with epsworth learn open, or open()"


class Law(NamedTuple):
    """Which bound holds for a mechanism's reports: its name for `shuffled`, and its symbols or classes."""

    mechanism: Shuffled
    symbols: int | None = None


def law_of(kernel: Mechanism) -> Law:
    """Return which law the reports of a mechanism follow; "any" where no smaller bound is proven."""
    if kernel.name == "krr" and isinstance(kernel, Symbols):
        return Law("krr", kernel.symbols)
    if kernel.name == "hadamard" and kernel.classes > 2:
        return Law("hadamard", kernel.classes)
    if kernel.name == "oue":
        return Law("oue")
    return Law("ternary") if kernel.name == "ternary" else Law("any")


def hiding(rows: str, users: int, smallest_row: int | None) -> int:
    """Return how many reports hide each other: all, or those of the smallest row, which whoever knows an id knows."""
    if rows == "hash":
        if smallest_row is None:
            raise ValueError(
                "smallest_row is missing: with rows='hash' ids tell rows, and only reports of one row hide each other; "
                "give how many honest reports the smallest row has, or let clients draw their rows"
            )
        return whole("smallest_row", smallest_row, least=0, most=whole("users", users))
    if smallest_row is not None:
        raise ValueError("smallest_row is for rows='hash'; clients draw their rows here, and all reports count")
    return users


def shuffled_reports(
    promise: Pure, law: Law, rows: str, users: int, delta: float, fakes: int, smallest_row: int | None
) -> Central:
    """Return what a batch of such reports keeps behind a shuffler."""
    count = hiding(rows, users, smallest_row)
    return shuffled(promise, users=count, delta=delta, mechanism=law.mechanism, symbols=law.symbols, fakes=fakes)


class Configuration(ABC):
    """What clients and server agree on, all of it public: a JSON document, told by its fingerprint."""

    FORMAT: ClassVar[str]
    WORD: ClassVar[str] = "configuration"  # what messages call it
    KEYS: ClassVar[tuple[str, ...]]
    NEEDED: ClassVar[tuple[str, ...]]
    HASHED: ClassVar[str]  # what its fingerprint begins with
    KINDS: ClassVar[dict[str, type[Configuration]]] = {}  # by format

    classes: Any  # the public labels
    epsilon: Any  # of a whole report
    names: Any  # of the features
    rows: Any  # whether clients draw what their reports are about, or a public seed and their ids say

    def __init_subclass__(cls) -> None:
        if "FORMAT" in vars(cls):
            Configuration.KINDS[cls.FORMAT] = cls

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""

    @classmethod
    @abstractmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the JSON form, whose entries are known; whatever does not fit is refused."""

    @cached_property
    def known(self) -> Values:
        """Which label an entry of a record is."""
        return Values(self.classes)

    def check_columns(self, names: Sequence[object]) -> None:
        """Refuse a frame of other columns, or in another order."""
        if list(names) != list(self.names):
            raise ValueError(
                f"{shown_names(names, 'X has the columns')}, but the configuration's features are "
                f"{', '.join(self.names)}; select them in this order"
            )

    @property
    def budget(self) -> Fraction:
        """Epsilon, exactly."""
        return stated(self.epsilon, "epsilon")

    @property
    def guarantee(self) -> Pure:
        """What one report keeps; k reports of one user keep k times the epsilon."""
        return self.promise(1)

    def promise(self, reports: int) -> Pure:
        """Return what so many reports of one user keep together."""
        return Pure(float_above(reports * self.budget), "record")

    def hashed(self) -> dict[str, Any]:
        """Return what the fingerprint tells apart."""
        return self.to_dict() | {"epsilon": str(self.budget)}

    def fingerprint(self) -> str:
        """Return the hash of all entries; every report carries its beginning."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        text = json.dumps(self.hashed(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{self.HASHED}: {text}".encode()).hexdigest()

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read the JSON form; a stated fingerprint must be the content's."""
        if format_of(document) != cls.FORMAT:
            raise ValueError(f"this is not an {cls.FORMAT} document of version 1; write one with epsworth learn")
        for name in document:
            if name not in (*cls.KEYS, "format", "version", "fingerprint"):
                raise ValueError(f"{short(name)}: unknown entry; the entries are {', '.join(cls.KEYS)}")
        for name in cls.NEEDED:
            if name not in document:
                raise ValueError(f"{name}: is missing from the {cls.WORD}; write it again")
        found = cls.read(document)
        if document.get("fingerprint", found.fingerprint()) != found.fingerprint():
            raise ValueError(f"fingerprint: it is not the content's; the {cls.WORD} was edited after it was written")
        return found

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all."""
        write_text(path, json.dumps(self.to_dict() | {"fingerprint": self.fingerprint()}) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a JSON file."""
        with reading(path, cls.WORD) as content:
            return cls.of_file(read_json(content))

    @classmethod
    def of_file(cls, document: Any) -> Self:
        """Read what a file holds."""
        try:
            return cls.from_dict(document)
        except (TypeError, KeyError, AttributeError, IndexError) as error:
            raise ValueError(f"damaged or incomplete ({in_words(error)})") from None


class ClientConfig(Configuration):
    """A configuration that clients answer, and what a report of it is."""

    @property
    @abstractmethod
    def kernel(self) -> Any:
        """How a user answers: a `Mechanism`, or a `Query` about a table."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """What it asks for."""

    @abstractmethod
    def admitted(self, X: ArrayLike, y: Any) -> Any:
        """Return users as a client takes them: nobody is refused."""

    @abstractmethod
    def checked(self, X: ArrayLike, y: Any) -> Any:
        """Return users of an experiment: values that are not declared are refused."""

    @property
    def law(self) -> Law:
        """Which bound holds for its reports behind a shuffler."""
        return Law("any")

    def shuffled(self, *, users: int, delta: float, fakes: int = 0, smallest_row: int | None = None) -> Central:
        """Return what a batch of such reports keeps behind an anonymising shuffler: see `epsworth.shuffled`.

        Of the ``users`` reports that arrived, one of everybody, ``fakes`` may be fakes, or of people who tell what they
        sent; ``delta`` lies well below 1 / users.  With ``rows="hash"`` ids tell rows, and ``smallest_row`` is how many
        reports the smallest one has.  With ``outside="refuse"``, where records decide who reports, it refuses.

        Examples
        --------
        >>> from epsworth.learner import LatticeConfig
        >>> config = LatticeConfig(box=(0, 1), m=8, mechanism="krr", epsilon=1)
        >>> round(config.shuffled(users=10_000, delta=1e-6).epsilon, 4)
        0.0186
        """
        return shuffled_reports(self.guarantee, self.law, self.rows, users, delta, fakes, smallest_row)

    @property
    def session(self) -> str:
        """What a record answers once."""
        return self.fingerprint()

    @cached_property
    def report_size(self) -> int:
        """Bytes of one report: version, fingerprint, message, check."""
        return HEAD + int(self.kernel.format.size) + CHECK


def format_of(document: Any) -> Any:
    """Return the format that a JSON document states; cells state a version alone."""
    if not isinstance(document, Mapping):
        return None
    version = document.get("version")
    of_cells = "format" not in document and version == 1 and not isinstance(version, bool)
    return LatticeConfig.FORMAT if of_cells else document.get("format")


def config_kind(document: Any) -> type[ClientConfig]:
    """Return what reads a JSON document that asks something."""
    form = format_of(document)
    kind = Configuration.KINDS.get(form, LatticeConfig) if isinstance(form, str) else LatticeConfig
    if not issubclass(kind, ClientConfig):
        raise ValueError(A_TABLE)
    return kind


def load_config(path: str | Path) -> ClientConfig:
    """Read a file that `LatticeConfig.save`, `Round.save` or `ScoreAudit.save` wrote."""
    with reading(path, "configuration") as content:
        document = read_json(content)
        return config_kind(document).of_file(document)


def checked_config(config: Any) -> ClientConfig:
    """Return what a client or an aggregator was given, if it is a question."""
    if isinstance(config, ClientConfig):
        return config
    if isinstance(config, Configuration):
        raise ValueError(A_TABLE)
    raise ValueError(f"config must be a LatticeConfig, a Round or a ScoreAudit, got a {type(config).__name__}")


@dataclass(frozen=True)
class LatticeConfig(ClientConfig):
    """What a population of clients is asked, and how they answer.

    Claim: one report keeps pure epsilon-LDP for the pair (point, label), whatever the values, unusable ones included;
    with ``outside="refuse"`` among the values that are reported at all.  See `Client`.

    Parameters
    ----------
    box : sequence of (low, high), or one pair
        Public range of each feature; never taken from the private data.
    m, d : int
        Cells per axis (for "cosine": the highest total degree); the features, needed where ``box`` is one pair.
    classes : sequence
        The public labels, at least two; text, whole numbers or booleans.
    mechanism : str
        A name in `MECHANISMS`; "auto" chooses by variance and is replaced by what it chose.
    epsilon : number or text
        Privacy parameter of a whole report; in files its name is "alpha".
    outside : {"clip", "zero", "refuse"}
        What a client does with a point outside the box: move it to the edge, or encode it as the reserved symbol
        "outside"; both keep epsilon and hide that it was outside.  Either way a record that cannot be used (missing
        value, text, undeclared label) is encoded as that symbol.  "refuse" raises for all of these: then epsilon is
        promised of those who report alone, since everybody sees who does not.
    names : sequence of str, optional
        Names of the features.
    rows : {"drawn", "hash"}
        Which row a report of "hadamard" or "cosine" is about: one that the client draws, or the one that a
        public seed and the user's id say (`assigned_rows`), so that a fake cannot choose it.

    Examples
    --------
    >>> from epsworth.learner import LatticeConfig
    >>> config = LatticeConfig(box=[(0, 100), (0, 1)], m=8, classes=(0, 1), epsilon=1)
    >>> config.mechanism, config.report_size
    ('hadamard', 14)
    """

    FORMAT: ClassVar[str] = "epsworth-cells"  # which files leave out
    KEYS: ClassVar[tuple[str, ...]] = ("box", "m", "classes", "mechanism", "alpha", "outside", "names", "rows")
    NEEDED: ClassVar[tuple[str, ...]] = ("box", "m", "alpha")  # in files epsilon is "alpha"
    HASHED: ClassVar[str] = "epsworth learner, rows from the system's entropy"

    box: Any
    m: int
    d: int | None = None
    classes: Any = (0, 1)
    mechanism: str = "auto"
    epsilon: Exact = math.nan
    outside: Outside = "clip"
    names: Any = ()
    rows: Rows = "drawn"

    def __post_init__(self) -> None:
        fix = object.__setattr__
        fix(self, "box", checked_box(self.box, self.d, self.names))
        fix(self, "d", len(self.box))
        fix(self, "classes", checked_classes(self.classes))
        fix(self, "names", _names(self.names, len(self.box)))
        if isinstance(self.m, bool) or not isinstance(self.m, (int, np.integer)) or self.m < 1:
            raise ValueError(
                f"m must be a whole number of at least 1, got {short(self.m)}; it is the number of cells per axis"
            )
        if self.m > MOST_CELLS:
            raise ValueError(f"m must be at most {MOST_CELLS}; take a smaller m")
        fix(self, "m", int(self.m))
        fix(self, "epsilon", plain_epsilon(checked_epsilon(self.epsilon)))
        check_choice("outside", self.outside, get_args(Outside))
        check_choice("rows", self.rows, get_args(Rows))
        if self.mechanism == "auto":
            fix(self, "mechanism", choose(self.budget, self.m, len(self.box), len(self.classes), self.rows))
        _check_mechanism(self)

    @property
    def named(self) -> bool:
        """Whether the features have names of their own, not x0, x1, .."""
        return bool(self.names != _names((), len(self.box)))

    @cached_property
    def kernel(self) -> Mechanism:
        """The mechanism itself."""
        return MECHANISMS[self.mechanism](self.budget, self.m, len(self.box), len(self.classes))

    def promise(self, reports: int) -> Pure:
        """Return what so many reports of one user keep together."""
        kind = PureOfReporters if self.outside == "refuse" else Pure
        return kind(float_above(reports * self.budget), "record")

    @property
    def law(self) -> Law:
        """Which bound holds for its reports behind a shuffler."""
        if self.outside == "refuse":
            raise ValueError(
                "outside='refuse' lets the record decide whether it is reported, which a batch must not tell; "
                "configure outside='clip' or 'zero'"
            )
        return law_of(self.kernel)

    def hashed(self) -> dict[str, Any]:
        """Return what the fingerprint tells apart."""
        return self.to_dict() | {"alpha": str(self.budget)}

    def users(self, X: ArrayLike, y: ArrayLike) -> Users:
        """Return the users of reports; refuse, naming rows and never values, what a client encodes as outside.

        With ``outside="refuse"`` that is a point outside the box, too.
        """
        unit, outside = self.points(X)
        if self.outside == "refuse" and outside.any():
            raise ValueError(
                f"row {int(np.argmax(outside))} lies outside the box; clip it, or configure outside='clip' or 'zero'"
            )
        return Users(unit, self.label_numbers(y, len(unit)), outside & (self.outside == "zero"))

    def points(self, X: ArrayLike) -> tuple[Floats, Bools]:
        """Return points clipped to the unit box, and which were outside; a frame's columns must be the features."""
        points = self._numbers(X)
        if (missing := np.isnan(points)).any():
            row, axis = np.argwhere(missing)[0]
            raise ValueError(
                f"row {row}, {self.names[axis]}: the value is missing or no number; fill it, or drop the row"
            )
        return self.scaled(points)

    checked = users

    def admitted(self, X: ArrayLike, y: Any) -> Users:
        """Return the users as their reports will state them.

        A record with a missing value, a text, or a label that is not declared states nothing, by a law that the public
        configuration alone decides, within e^epsilon of that of every record.  Infinite values lie outside the box.
        Shapes and columns, which no value decides, are refused; with ``outside="refuse"`` all that `users` refuses.
        """
        if self.outside == "refuse":
            return self.users(X, y)
        found = self._numbers(X)
        label = label_positions(self.known, y, len(found))
        unusable = np.isnan(found).any(axis=1) | (label < 0)
        unit, outside = self.scaled(np.where(unusable[:, None], np.array(self.box)[:, 0], found))
        return Users(unit, np.maximum(label, 0), unusable | (outside & (self.outside == "zero")))

    def _numbers(self, X: ArrayLike) -> Floats:
        """Return the numbers of a table ``(n, d)``, NaN where an entry is none; a frame's columns must be ours."""
        columns = names_of(X) or list(self.names)
        if self.named or set(columns) == set(self.names):
            self.check_columns(columns)
        return points_of(X, len(self.box), ", ".join(self.names))

    def scaled(self, points: Floats) -> tuple[Floats, Bools]:
        """Return numbers ``(n, d)``, infinite ones too, clipped to the unit box, and which were outside."""
        low, high = np.array(self.box, dtype=np.float64).T
        inside = np.minimum(np.maximum(points, low), high)
        with np.errstate(all="ignore"):
            return (inside - low) / (high - low), np.asarray((inside != points).any(axis=1))

    def label_numbers(self, y: ArrayLike, users: int | None = None) -> Ints:
        """Return the position of each label among the classes."""
        return checked_labels(self.classes, label_positions(self.known, y, users))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; drawn rows go unsaid."""
        assigned = {"rows": self.rows} if self.rows != "drawn" else {}
        return {
            "version": 1, "box": [list(pair) for pair in self.box], "m": self.m, "classes": list(self.classes),
            "mechanism": self.mechanism, "alpha": self.epsilon, "outside": self.outside, "names": list(self.names),
            **assigned,
        }  # fmt: skip

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> LatticeConfig:
        """Read the JSON form."""
        checked_epsilon(document["alpha"], "alpha")
        return cls(**{"epsilon" if key == "alpha" else key: document[key] for key in cls.KEYS if key in document})


@dataclass(frozen=True)
class PureOfReporters(Pure):
    """Epsilon-LDP of those who report: that somebody does not is told to everybody."""

    def __str__(self) -> str:
        return f"{super().__str__()} of those who report"


def check_choice(field: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise ValueError(f"{field} must be one of {', '.join(choices)}, got {short(value)}")


def checked_labels(classes: Sequence[Any], positions: Ints) -> Ints:
    """Return the positions of labels if all of them are declared."""
    if (positions < 0).any():
        raise ValueError(
            f"row {int(np.argmin(positions))}: its label is not one of the declared classes "
            f"({', '.join(map(repr, classes))}); declare it, or recode it"
        )
    return positions


def _check_mechanism(config: LatticeConfig) -> None:
    name, d = config.mechanism, len(config.box)
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ValueError(f"mechanism must be auto or one of {', '.join(MECHANISMS)}, got {short(name)}")
    kind = MECHANISMS[name]
    if kind.binary_only and len(config.classes) > 2:
        raise ValueError(f"mechanism {name!r} knows two classes, got {len(config.classes)}; use hadamard, krr or oue")
    if name != "cosine" and d > MOST_GRID_AXES:
        raise ValueError(f"cells on {d} features hold nobody; use mechanism='cosine' with m <= 2, or fewer features")
    if config.rows == "hash" and not issubclass(kind, Rowed):
        raise ValueError(
            f"rows='hash' needs a mechanism whose reports name a row, got {short(name)}; use hadamard or cosine"
        )
    kernel = config.kernel
    if kernel.cells * kernel.outputs > MOST_CELLS or math.prod(kernel.shape) > MOST_COUNTERS:
        raise ValueError(f"m = {config.m} on {d} features gives more than {MOST_CELLS:.0e} cells; take a smaller m")
    if name != "cosine" and d > 4:
        warnings.warn(
            f"cells on {d} features: accuracy improves as slowly as users^(-1/{d + 1}); "
            "consider mechanism='cosine', or fewer features", UserWarning, stacklevel=5,
        )  # fmt: skip


def plain_epsilon(epsilon: Fraction) -> int | float | str:
    """Return epsilon as a number where that says the same, else as its text."""
    if epsilon.denominator == 1:
        return int(epsilon)
    return float(epsilon) if stated(float(epsilon), "epsilon") == epsilon else str(epsilon)


def checked_box(box: Any, d: int | None, names: Any = None) -> tuple[tuple[float, float], ...]:
    """Return the public range of each feature; one pair stands for all."""
    d = None if d is None else whole("d", d, most=MOST_CELLS)
    try:
        pairs = np.asarray(box, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"box must be one pair of numbers (low, high) per feature, got {short(box)}") from None
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (1 if d is None else d, 1))
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0 or (d is not None and len(pairs) != d):
        raise ValueError(
            f"box must be one (low, high) per feature, got shape {pairs.shape}" + (f" for d = {d}" if d else "")
        )
    for i, (low, high) in enumerate(pairs.tolist()):
        if not (math.isfinite(high - low) and low < high):
            named = isinstance(names, Sequence) and len(names) == len(pairs)
            shown = f"column {names[i]!r}" if named else f"box, feature {i}"
            raise ValueError(f"{shown}: need finite low < high, got {low:g} and {high:g}; give the public range")
    return tuple((low, high) for low, high in pairs.tolist())


def checked_classes(classes: Any) -> tuple[Any, ...]:
    """Return declared labels as a tuple of texts, or of numbers."""
    if hasattr(classes, "to_numpy"):  # a column of a frame
        classes = column_of(classes)
    if isinstance(classes, str) or not isinstance(classes, (Sequence, np.ndarray)) or getattr(classes, "ndim", 1) != 1:
        raise ValueError(f"classes must be a list of labels, got {short(classes)}")
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in classes)
    for label in labels:
        if not isinstance(label, (str, int, float)) or (isinstance(label, float) and not math.isfinite(label)):
            raise ValueError(f"classes must be texts or numbers, got {short(label)}")
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError(f"classes must be at least two different labels, got {short(list(labels))}")
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError(f"classes must be all texts or all numbers, got {short(list(labels))}; write as texts")
    return labels


def _names(names: Any, d: int) -> tuple[str, ...]:
    if (
        isinstance(names, str)
        or not isinstance(names, (Sequence, np.ndarray))
        or any(not isinstance(name, str) for name in names)
    ):
        raise ValueError(f"names must be a list of texts, one per feature, got {short(names)}")
    found = tuple(map(str, names)) or tuple(f"x{i}" for i in range(d))
    if len(found) != d or len(set(found)) < d:
        raise ValueError(f"names must be {d} different names, one per feature, got {short(list(found))}")
    return found
