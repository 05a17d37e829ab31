"""What surrounds curves on a page: one record's labels near it, where it is safe, who is served how, what is declared.

Computed by `epsworth.utility.looking_around` where model and table are at hand; kept beside curves in files, and read
from there by people who have neither.  So everything is checked again when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Overspent
from epsworth.documents import in_words
from epsworth.guarantees import promise_from_dict
from epsworth.results import Result, json_form
from epsworth.rounding import down, round_down
from epsworth.space import Domain
from epsworth.utility.boxes import SafeBox
from epsworth.utility.splitting import Split

FORMAT = "epsworth-surroundings-2"
MASS_UNIT = 100_000  # masses of a picture are whole numbers of 1/MASS_UNIT, rounded down
MOST_CELLS = 512  # of a feature in a file
MOST_VALUES = 12  # of a column that groups records
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class DecisionMap(Result):
    """The labels around one record while one or two features vary, and where mechanisms send them: a picture.

    Attributes
    ----------
    features : tuple of str
    edges : tuple of ndarray
        Of the cells of each feature, in natural units.
    own : tuple of float
        The record's own values.
    labels : tuple of str
        Those that occur; ``label`` is the number of the record's own.
    cells : ndarray of int, shape ``(cells,)`` or ``(cells, cells)``
        The number of the label at every cell's centre; the first feature comes first.
    mechanisms : tuple of str
        Those that release features; of others there is no mass.
    epsilons : tuple of float
        Some of the curves', as they state them.
    masses : ndarray of int, shape ``(mechanisms, epsilons, features, cells)``
        How likely a released value lies in each cell, in units of 1/100,000, rounded down.
    """

    features: tuple[str, ...]
    edges: tuple[Floats, ...]
    own: tuple[float, ...]
    labels: tuple[str, ...]
    label: int
    cells: NDArray[np.int64]
    mechanisms: tuple[str, ...]
    epsilons: tuple[float, ...]
    masses: NDArray[np.int64]

    def __post_init__(self) -> None:
        count = len(self.features)
        _need(count in (1, 2) and len(self.edges) == len(self.own) == count, "a map has one or two features")
        for edges, own in zip(self.edges, self.own, strict=True):
            _need(edges.ndim == 1 and 2 <= len(edges) <= MOST_CELLS + 1, "edges must be a list of modest length")
            _need(bool(np.isfinite(edges).all() and (np.diff(edges) > 0).all()), "edges must be finite and increase")
            _need(bool(edges[0] <= own <= edges[-1]), "a record lies within its map")
        sizes = tuple(len(edges) - 1 for edges in self.edges)
        _need(self.cells.shape == sizes and len(set(sizes)) == 1, "a map has as many cells as its edges say")
        _need(bool(((self.cells >= 0) & (self.cells < len(self.labels))).all()), "cells must name labels by number")
        _need(0 <= self.label < len(self.labels) == len(set(self.labels)), "the record's label must be one of the map")
        shape = (len(self.mechanisms), len(self.epsilons), count, sizes[0])
        _need(self.masses.shape == shape, f"masses must be mechanisms x epsilons x features x cells, {shape}")
        whole = self.masses.sum(axis=-1)
        _need(bool((self.masses >= 0).all() and (whole <= MASS_UNIT).all()), "masses must sum to 1 at most")
        _need(all(math.isfinite(e) and e > 0 for e in self.epsilons), "epsilons must be positive")

    def __str__(self) -> str:
        """Return how large it is, and the labels in it."""
        sizes = " x ".join(str(size) for size in self.cells.shape)
        return f"a map of {sizes} cells over {' and '.join(self.features)}; labels: {', '.join(self.labels)}"

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        edges = tuple(np.array(_numbers(one), dtype=np.float64) for one in _list(document, "edges"))
        shape = [len(document[name]) for name in ("mechanisms", "epsilons", "features")]
        masses = _integers(document, "masses") if all(shape) else np.zeros((*shape, len(edges[0]) - 1), dtype=np.int64)
        return cls(
            features=_texts(document, "features"),
            edges=edges,
            own=_numbers(document["own"]),
            labels=_texts(document, "labels"),
            label=_whole(document["label"]),
            cells=_integers(document, "cells"),
            mechanisms=_texts(document, "mechanisms"),
            epsilons=_numbers(document["epsilons"]),
            masses=masses,
        )


class Served(NamedTuple):
    """One group: how many records it has, what they keep on average at least, and the worst of them."""

    value: str
    records: int
    average: float
    worst: float


@dataclass(frozen=True, eq=False)
class Grouping(Result):
    """What groups of records keep at one mechanism and epsilon: by a column's value, or by the true label.

    Nothing is held record by record, and no group is small: rounded numbers of many records tell little of one.

    Attributes
    ----------
    by : str
        A column's name, or "true label".
    of : str
        What is kept: ``"stability"`` or ``"accuracy"``.
    values : tuple of str
    records : tuple of int
        How many have each value.
    average, worst : tuple of float
        What each value's records keep at least: on average, and the worst of them; rounded down to three digits.
    """

    by: str
    of: str
    values: tuple[str, ...]
    records: tuple[int, ...]
    average: tuple[float, ...]
    worst: tuple[float, ...]

    def __post_init__(self) -> None:
        _need(1 <= len(self.values) <= MOST_VALUES, f"a grouping has at most {MOST_VALUES} values")
        _need(len(set(self.values)) == len(self.values), "a grouping holds each value once")
        _need(self.of in ("stability", "accuracy"), "a grouping is of stability or of accuracy")
        counts = {len(self.records), len(self.average), len(self.worst)}
        _need(counts == {len(self.values)}, "a grouping holds a count and two bounds for each value")
        _need(min(self.records) >= 1, "a group has records")
        kept = zip(self.worst, self.average, strict=True)
        _need(all(0 <= worst <= average <= 1 for worst, average in kept), "a group's bounds must be probabilities")

    def __str__(self) -> str:
        """Return what it groups by."""
        return f"by {self.by}: {', '.join(self.values)}"

    @classmethod
    def held(cls, by: str, of: str, kept: Sequence[Served]) -> Self:
        """Return what a file may hold of groups: numbers rounded down, so that no single record's can be solved for."""
        return cls(
            by, of, tuple(one.value for one in kept), tuple(one.records for one in kept),
            tuple(round_down(one.average) for one in kept), tuple(round_down(one.worst) for one in kept),
        )  # fmt: skip

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            by=_text(document["by"]),
            of=_text(document["of"]),
            values=_texts(document, "values"),
            records=tuple(map(_whole, _list(document, "records"))),
            average=_numbers(document["average"]),
            worst=_numbers(document["worst"]),
        )

    @property
    def served(self) -> list[Served]:
        """One entry for each value."""
        return [Served(*one) for one in zip(self.values, self.records, self.average, self.worst, strict=True)]


def served(values: Sequence[str], numbers: NDArray[np.int64], lower: Floats) -> list[Served]:
    """Return what each group keeps, given lower bounds on what its records keep; the least first.

    Examples
    --------
    >>> two = served(("f", "m"), np.array([0, 1, 1]), np.array([0.9, 0.5, 0.7]))
    >>> [(one.value, one.records, one.worst) for one in two]
    [('m', 2, 0.5), ('f', 1, 0.9)]
    """
    found = []
    for number, value in enumerate(values):
        own = lower[numbers == number]
        if own.size:
            average = max(float(down(own.mean(), ulps=own.size + 1)), float(own.min()))  # as `Bounds.average`
            found.append(Served(value, int(own.size), average, float(own.min())))
    return sorted(found, key=lambda one: (one.average, one.value))


@dataclass(frozen=True, eq=False)
class Surroundings(Result):
    """What a page shows beside curves; every part may be lacking, and ``notes`` say why.

    Claim: the bounds of ``box`` and of ``split`` hold with their own confidence, each for itself.

    Attributes
    ----------
    record : int
        The one that ``map`` and ``box`` are about.
    records : int
        How many the curves hold.
    mechanism : str or None
        At which ``split`` and ``groups`` were computed, with ``epsilon_per_record``; what was recommended then, or came
        closest.
    values : tuple of float
        The record's own, of the features of ``box``.
    split_records : int
        How many records the split was chosen on; 0 without one.
    groups : tuple of Grouping
    domain : Domain or None
        Ranges of the perturbed features; ``declared`` unless they were taken from the data.
    model : str
        The classifier's name.
    seed : int or None
        Of the analysis.
    """

    record: int
    records: int
    mechanism: str | None = None
    epsilon_per_record: float | None = None
    map: DecisionMap | None = None
    box: SafeBox | None = None
    values: tuple[float, ...] = ()
    split: Split | None = None
    split_records: int = 0
    groups: tuple[Grouping, ...] = ()
    domain: Domain | None = None
    declared: bool = True
    model: str = ""
    seed: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _need(0 <= self.record < self.records, "there is no such record")
        _need(all(sum(group.records) <= self.records for group in self.groups), "groups hold some of these records")
        _need(not self.groups or None not in (self.mechanism, self.epsilon_per_record), "groups are of one mechanism")
        sides = () if self.box is None else tuple(zip(self.box.lower, self.box.upper, strict=True))
        _need(len(self.values) == len(sides), "a box needs the record's own values, and no others are kept")
        inside = all(low <= own <= high for own, (low, high) in zip(self.values, sides, strict=True))
        _need(inside, "a record lies within its box")
        _need((self.split is None) == (self.split_records == 0), "a split is chosen on some records")
        _need(0 <= self.split_records <= self.records, "a split is chosen on some of these records")

    def __str__(self) -> str:
        """Return its parts, one a line."""
        parts = [self.map, self.box, self.split, *self.groups]
        return "\n".join([f"around record {self.record}:", *(f"  {part}" for part in parts if part is not None)])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded but the masses of the map."""
        domain = None if self.domain is None else json_form(self.domain.to_dict())
        return {"format": FORMAT, **super().to_dict(), "domain": domain}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; what does not hold together is refused in one sentence."""
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise ValueError(f"this is not an {FORMAT} document; write it again")
        try:
            return cls(
                record=_whole(document["record"]),
                records=_whole(document["records"]),
                mechanism=_maybe(document["mechanism"], _text),
                epsilon_per_record=_maybe(document["epsilon_per_record"], _positive),
                map=_maybe(document["map"], DecisionMap.from_dict),
                box=_maybe(document["box"], _box),
                values=_numbers(document["values"]),
                split=_maybe(document["split"], _split),
                split_records=_whole(document["split_records"]),
                groups=tuple(map(Grouping.from_dict, _list(document, "groups"))),
                domain=_maybe(document["domain"], Domain.from_dict),
                declared=_truth(document["declared"]),
                model=_text(document["model"]),
                seed=_maybe(document["seed"], _whole),
                notes=_texts(document, "notes"),
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, Overspent) as error:
            raise ValueError(f"surroundings: damaged or incomplete ({in_words(error)}); write them again") from None


def _need(holds: bool, said: str) -> None:
    if not holds:
        raise ValueError(said)


def _maybe(value: Any, read: Callable[[Any], T]) -> T | None:
    return None if value is None else read(value)


def _text(value: object) -> str:
    _need(isinstance(value, str), f"expected a text, got a {type(value).__name__}")
    return str(value)


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document[name]
    _need(isinstance(found, list), f"{name} must be a list")
    return list(found)


def _texts(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(map(_text, _list(document, name)))


def _whole(value: object) -> int:
    _need(isinstance(value, int) and not isinstance(value, bool), "expected a whole number")
    return int(value)  # type: ignore[call-overload,no-any-return]  # checked


def _truth(value: object) -> bool:
    _need(isinstance(value, bool), "expected true or false")
    return bool(value)


def _number(value: object) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    _need(good, "expected a finite number")
    return float(value)  # type: ignore[arg-type]  # checked


def _positive(value: object) -> float:
    _need((found := _number(value)) > 0, "expected a positive number")
    return found


def _share(value: object) -> float:
    _need(0 <= (found := _number(value)) <= 1, "expected a probability")
    return found


def _numbers(values: object) -> tuple[float, ...]:
    _need(isinstance(values, list), "expected a list of numbers")
    return tuple(map(_number, values))  # type: ignore[call-overload]  # checked


def _integers(document: Mapping[str, Any], name: str) -> NDArray[np.int64]:
    found = np.array(_list(document, name))
    _need(found.dtype.kind == "i" or found.size == 0, f"{name} must hold whole numbers")
    return found.astype(np.int64)


def _box(document: Mapping[str, Any]) -> SafeBox:
    lower, upper = (_numbers(document[side]) for side in ("lower", "upper"))
    names, whole = _texts(document, "features"), _list(document, "whole")
    _need(len(lower) == len(upper) == len(names) == len(whole) > 0, "a box has a lower and an upper end per feature")
    _need(all(low <= high for low, high in zip(lower, upper, strict=True)), "a box's lower end exceeds its upper end")
    _need({type(one) for one in (*whole, document["best"])} <= {bool}, "whole and best must be true or false")
    shares = ("flips_at_most", "mass", "guaranteed", "confidence", "spent")
    _need(isinstance(document["label"], (str, int, float, bool)), "a label must be a text or a number")
    return SafeBox(
        label=document["label"], features=names, lower=lower, upper=upper, whole=tuple(whole),
        mechanism=_text(document["mechanism"]), epsilon=_positive(document["epsilon"]), best=document["best"],
        **{name: _share(document[name]) for name in shares},
    )  # fmt: skip


def _split(document: Mapping[str, Any]) -> Split:
    names, epsilons, total = _texts(document, "features"), _numbers(document["epsilons"]), _positive(document["total"])
    _need(len(names) == len(epsilons) > 1 and min(epsilons) > 0, "a split has a positive epsilon for each feature")
    _need(math.fsum([*epsilons, -total]) <= 0, "the parts of a split exceed its total")
    shares = ("lower", "upper", "even_lower", "even_upper", "confidence", "spent")
    read: dict[str, Any] = {name: _share(document[name]) for name in shares}
    _need(read["lower"] <= read["upper"] and read["even_lower"] <= read["even_upper"], "a lower bound exceeds an upper")
    return Split(
        mechanism=_text(document["mechanism"]), total=total, on=_text(document["on"]), features=names,
        epsilons=epsilons, guarantee=promise_from_dict(document["guarantee"]), notes=_texts(document, "notes"), **read,
    )  # fmt: skip


def numbered(values: Sequence[Any]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the different values as texts, and the number of each.

    Examples
    --------
    >>> numbered(["b", "a", "b"])
    (('a', 'b'), array([1, 0, 1]))
    """
    texts = [str(value) for value in np.asarray(values).tolist()]
    kinds = sorted(set(texts))
    number = {kind: i for i, kind in enumerate(kinds)}
    return tuple(kinds), np.array([number[text] for text in texts], dtype=np.int64)
