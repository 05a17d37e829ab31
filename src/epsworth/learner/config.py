"""`LatticeConfig`: everything that clients and server must agree on, all of it public."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Bools, Floats
from epsworth.documents import read_json
from epsworth.files import reading, write_text
from epsworth.guarantees import Central, Pure
from epsworth.headers import shown_names
from epsworth.learner import amplification, door
from epsworth.learner.coins import Ints, checked_epsilon
from epsworth.learner.entries import Values, column_of, names_of
from epsworth.learner.mechanism import Mechanism, Users
from epsworth.learner.rows import Rowed
from epsworth.learner.table import MECHANISMS, MOST_CELLS, MOST_COUNTERS, MOST_GRID_AXES, choose
from epsworth.mechanisms.rational import Exact, stated
from epsworth.rounding import float_above

Outside = Literal["clip", "zero", "refuse"]
Rows = Literal["drawn", "hash"]
VERSION = 1

KEYS = ("box", "m", "classes", "mechanism", "alpha", "outside", "names", "rows")  # of the file: its epsilon is "alpha"
PREFIX = 8  # bytes of the fingerprint that every report carries


@dataclass(frozen=True)
class LatticeConfig:
    """What a population of clients is asked, and how they answer.

    Claim: one report keeps pure epsilon-LDP for the pair (point, label), whatever the values, unusable ones included;
    with ``outside="refuse"`` among the values that are reported at all.  See `Client`.

    Parameters
    ----------
    box : sequence of (low, high), or one pair
        Public range of each feature; never taken from the private data.
    m : int
        Cells per axis (for "cosine": the highest total degree).
    d : int, optional
        Number of features; needed where ``box`` is one pair.
    classes : sequence
        The public labels, at least two; text, whole numbers or booleans.
    mechanism : str
        A name in `MECHANISMS`; "auto" chooses by variance and is replaced by what it chose.
    epsilon : number or text
        Privacy parameter of a whole report.  In files its name is "alpha", and fingerprints are of that: what is
        deployed stays valid.
    outside : {"clip", "zero", "refuse"}
        What a client does with a point outside the box: move it to the edge, or report it as nowhere; both keep epsilon
        and hide that it was outside.  Either way a record that cannot be used (missing value, text, undeclared label)
        is reported as nowhere.  "refuse" raises for all of these: then epsilon is promised of those who report
        alone, since everybody sees who does not.
    names : sequence of str, optional
        Names of the features.
    rows : {"drawn", "hash"}
        Which row a report of "hadamard", "parity" or "cosine" is about: one that the client draws, or the one that a
        public seed and the user's id say (`assigned_rows`), so that a fake cannot choose it.

    Examples
    --------
    >>> from epsworth.learner import LatticeConfig
    >>> config = LatticeConfig(box=[(0, 100), (0, 1)], m=8, classes=(0, 1), epsilon=1)
    >>> config.mechanism, config.report_size
    ('hadamard', 13)
    """

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
        fix(self, "box", checked_box(self.box, self.d))
        fix(self, "d", len(self.box))
        fix(self, "classes", checked_classes(self.classes))
        fix(self, "names", _names(self.names, len(self.box)))
        if isinstance(self.m, bool) or not isinstance(self.m, (int, np.integer)) or self.m < 1:
            raise ValueError(
                f"m must be a whole number of at least 1, got {shown(self.m)}; it is the number of cells per axis"
            )
        if self.m > MOST_CELLS:
            raise ValueError(f"m must be at most {MOST_CELLS}; take a smaller m")
        fix(self, "m", int(self.m))
        fix(self, "epsilon", plain_epsilon(checked_epsilon(self.epsilon)))
        if self.outside not in get_args(Outside):
            raise ValueError(f"outside must be one of {', '.join(get_args(Outside))}, got {shown(self.outside)}")
        if self.rows not in get_args(Rows):
            raise ValueError(f"rows must be one of {', '.join(get_args(Rows))}, got {shown(self.rows)}")
        if self.mechanism == "auto":
            fix(self, "mechanism", self._chosen())
        _check_mechanism(self)

    def _chosen(self) -> str:
        d = len(self.box)
        if self.rows == "hash":
            return "cosine" if d > MOST_GRID_AXES else "hadamard"
        return choose(self.budget, self.m, d, len(self.classes))

    @property
    def named(self) -> bool:
        """Whether the features have names of their own, not x0, x1, .."""
        return bool(self.names != _names((), len(self.box)))

    @property
    def budget(self) -> Fraction:
        """Epsilon, exactly."""
        return stated(self.epsilon, "epsilon")

    @cached_property
    def kernel(self) -> Mechanism:
        """The mechanism itself."""
        return MECHANISMS[self.mechanism](self.budget, self.m, len(self.box), len(self.classes))

    @property
    def guarantee(self) -> Pure:
        """What one report keeps; k reports of one user keep k times the epsilon."""
        return self.promise(1)

    def promise(self, reports: int) -> Pure:
        """Return what so many reports of one user keep together."""
        kind = PureOfReporters if self.outside == "refuse" else Pure
        return kind(float_above(reports * self.budget), "record")

    def shuffled(self, *, users: int, delta: float, fakes: int = 0, smallest_row: int | None = None) -> Central:
        """Return what a batch of such reports keeps behind an anonymising shuffler: see `epsworth.shuffled`.

        Parameters
        ----------
        users : int
            Reports that arrived, one of everybody.
        delta : float
            Central, well below 1 / users.
        fakes : int
            How many of them may be fakes, or of people who tell what they sent.
        smallest_row : int, optional
            With ``rows="hash"``: how many reports the smallest row has, since ids tell rows.

        Raises
        ------
        ValueError
            With ``outside="refuse"``, where records decide who reports; and as `epsworth.shuffled` does.

        Examples
        --------
        >>> from epsworth.learner import LatticeConfig
        >>> config = LatticeConfig(box=(0, 1), m=8, mechanism="krr", epsilon=1)
        >>> round(config.shuffled(users=10_000, delta=1e-6).epsilon, 4)
        0.0186
        """
        if self.outside == "refuse":
            raise ValueError(
                "outside='refuse' lets the record decide whether it is reported, which a batch must not tell; "
                "configure outside='clip' or 'zero'"
            )
        return amplification.shuffled_reports(
            self.guarantee, amplification.law_of(self.kernel), rows=self.rows, users=users, delta=delta, fakes=fakes,
            smallest_row=smallest_row,
        )  # fmt: skip

    @cached_property
    def report_size(self) -> int:
        """Bytes of one report: fingerprint, message, check."""
        return PREFIX + self.kernel.format.size + 4

    @property
    def session(self) -> str:
        """What a record answers once."""
        return self.fingerprint()

    def fingerprint(self) -> str:
        """Return the hash of all entries; every report carries its beginning."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        text = json.dumps(self.to_dict() | {"alpha": str(self.budget)}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"epsworth learner, rows from the system's entropy: {text}".encode()).hexdigest()

    @cached_property
    def _edges(self) -> tuple[Floats, Floats]:
        low, high = np.array(self.box, dtype=np.float64).T
        return low, high

    @cached_property
    def known(self) -> Values:
        """Which label an entry of a record is."""
        return Values(self.classes)

    def users(self, X: ArrayLike, y: ArrayLike) -> Users:
        """Return the users of a client's reports, each of whom has to state something: `admitted`, if none is nowhere.

        Raises
        ------
        ValueError
            For what a client reports as nowhere: a value that is missing or no number, a label that is not declared.
            With ``outside="refuse"`` for a point outside the box, too.  Messages name rows, never values.
        """
        unit, outside = self.points(X)
        if self.outside == "refuse" and outside.any():
            raise ValueError(
                f"row {int(np.argmax(outside))} lies outside the box; clip it, or configure outside='clip' or 'zero'"
            )
        return Users(unit, self.label_numbers(y, len(unit)), outside & (self.outside == "zero"))

    def points(self, X: ArrayLike) -> tuple[Floats, Bools]:
        """Return points clipped to the unit box, and which were outside; a frame's columns must be the features."""
        points = door.points(self, X)
        if (missing := np.isnan(points)).any():
            row, axis = np.argwhere(missing)[0]
            raise ValueError(
                f"row {row}, {self.names[axis]}: the value is missing or no number; decide what stands for it"
            )
        return self.scaled(points)

    def admitted(self, X: ArrayLike, y: Any) -> Users:
        """Return users as a client takes them: no value is refused, unless ``outside="refuse"``."""
        return door.admitted(self, X, y)

    def check_columns(self, X: ArrayLike) -> None:
        """Refuse a frame whose columns are not the features."""
        columns = names_of(X) or list(self.names)
        if columns != list(self.names) and (self.named or set(columns) == set(self.names)):
            raise ValueError(
                f"{shown_names(columns, 'X has the columns')}, but the configuration's features are "
                f"{', '.join(self.names)}; select them in this order"
            )

    def scaled(self, points: Floats) -> tuple[Floats, Bools]:
        """Return numbers ``(n, d)``, infinite ones too, clipped to the unit box, and which were outside."""
        low, high = self._edges
        inside = np.minimum(np.maximum(points, low), high)
        with np.errstate(all="ignore"):
            return (inside - low) / (high - low), np.asarray((inside != points).any(axis=1))

    def label_numbers(self, y: ArrayLike, users: int | None = None) -> Ints:
        """Return the position of each label among the classes."""
        return checked_labels(self.classes, door.positions(self, y, users))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; drawn rows go unsaid."""
        assigned = {"rows": self.rows} if self.rows != "drawn" else {}
        return {
            "version": VERSION, "box": [list(pair) for pair in self.box], "m": self.m, "classes": list(self.classes),
            "mechanism": self.mechanism, "alpha": self.epsilon, "outside": self.outside, "names": list(self.names),
            **assigned,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LatticeConfig:
        """Read the JSON form; a stated fingerprint must be the content's."""
        version = document.get("version") if isinstance(document, Mapping) else None
        if isinstance(version, bool) or version != VERSION:
            raise ValueError(f"the configuration is not a table with version = {VERSION}; write it anew")
        if unknown := [key for key in document if key not in (*KEYS, "version", "fingerprint")]:
            raise ValueError(f"{unknown[0]}: unknown entry; the entries are {', '.join(KEYS)}")
        if lacking := [key for key in ("box", "m", "alpha") if key not in document]:
            raise ValueError(f"{lacking[0]}: is missing from the configuration")
        checked_epsilon(document["alpha"], "alpha")
        config = cls(**{"epsilon" if key == "alpha" else key: document[key] for key in KEYS if key in document})
        if document.get("fingerprint", config.fingerprint()) != config.fingerprint():
            raise ValueError("fingerprint: it is not the content's; the configuration was edited after it was written")
        return config

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all."""
        write_text(path, json.dumps(self.to_dict() | {"fingerprint": self.fingerprint()}, indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> LatticeConfig:
        """Read a JSON file."""
        with reading(path, "configuration") as content:
            try:
                return cls.from_dict(read_json(content))
            except TypeError as error:  # an entry of another kind
                raise ValueError(str(error)) from None


@dataclass(frozen=True)
class PureOfReporters(Pure):
    """Epsilon-LDP of those who report: that somebody does not is told to everybody."""

    def __str__(self) -> str:
        """Return the promise with its unit, and of whom."""
        return f"{super().__str__()} of those who report"


def shown(value: object) -> str:
    """Return a public value for a message, shortened."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


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
        raise ValueError(f"mechanism must be auto or one of {', '.join(MECHANISMS)}, got {shown(name)}")
    kind = MECHANISMS[name]
    if kind.binary_only and len(config.classes) > 2:
        raise ValueError(f"mechanism {name!r} knows two classes, got {len(config.classes)}; use hadamard, krr or oue")
    if name != "cosine" and d > MOST_GRID_AXES:
        raise ValueError(f"cells on {d} features hold nobody; use mechanism='cosine' with m <= 2, or fewer features")
    if config.rows == "hash" and not issubclass(kind, Rowed):
        raise ValueError(
            f"rows='hash' needs a mechanism whose reports name a row, got {name!r}; use hadamard, parity or cosine"
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


def checked_box(box: Any, d: int | None) -> tuple[tuple[float, float], ...]:
    """Return the public range of each feature; one pair stands for all."""
    try:
        pairs = np.asarray(box, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"box must be one pair of numbers (low, high) per feature, got {shown(box)}") from None
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (1 if d is None else d, 1))
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0 or (d is not None and len(pairs) != d):
        raise ValueError(
            f"box must be one (low, high) per feature, got shape {pairs.shape}" + (f" for d = {d}" if d else "")
        )
    for i, (low, high) in enumerate(pairs.tolist()):
        if not (math.isfinite(high - low) and low < high):
            raise ValueError(
                f"box, feature {i}: need finite low < high, got {low:g} and {high:g}; give the public range"
            )
    return tuple((low, high) for low, high in pairs.tolist())


def checked_classes(classes: Any) -> tuple[Any, ...]:
    """Return declared labels as a tuple of texts, or of numbers."""
    if hasattr(classes, "to_numpy"):  # a column of a frame
        classes = column_of(classes)
    if isinstance(classes, str) or not isinstance(classes, (Sequence, np.ndarray)) or getattr(classes, "ndim", 1) != 1:
        raise ValueError(f"classes must be a list of labels, got {shown(classes)}")
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in classes)
    for label in labels:
        if not isinstance(label, (str, int, float)) or (isinstance(label, float) and not math.isfinite(label)):
            raise ValueError(f"classes must be texts or numbers, got {shown(label)}")
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError(f"classes must be at least two different labels, got {shown(list(labels))}")
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError(f"classes must be all texts or all numbers, got {shown(list(labels))}; write as texts")
    return labels


def _names(names: Any, d: int) -> tuple[str, ...]:
    if (
        isinstance(names, str)
        or not isinstance(names, (Sequence, np.ndarray))
        or any(not isinstance(name, str) for name in names)
    ):
        raise ValueError(f"names must be a list of texts, one per feature, got {shown(names)}")
    found = tuple(map(str, names)) or tuple(f"x{i}" for i in range(d))
    if len(found) != d or len(set(found)) < d:
        raise ValueError(f"names must be {d} different names, one per feature, got {shown(list(found))}")
    return found
