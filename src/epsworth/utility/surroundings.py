"""What surrounds curves on a page: one record's labels near it, where it is safe, who is served how, what is declared.

Computed by `epsworth.utility.looking_around` where model and table are at hand; kept beside curves in files, and read
from there by people who have neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Overspent
from epsworth.documents import in_words, read_as
from epsworth.guarantees import promise_from_dict
from epsworth.results import Result, json_form
from epsworth.rounding import down, round_down
from epsworth.space import Domain
from epsworth.utility.boxes import SafeBox
from epsworth.utility.splitting import Split

FORMAT = "epsworth-surroundings-2"
MASS_UNIT = 100_000  # masses of a picture are whole numbers of 1/MASS_UNIT, rounded down
MOST_VALUES = 12  # of a column that groups records


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

    def __str__(self) -> str:
        """Return how large it is, and the labels in it."""
        sizes = " x ".join(str(size) for size in self.cells.shape)
        return f"a map of {sizes} cells over {' and '.join(self.features)}; labels: {', '.join(self.labels)}"


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
        """Read what `to_dict` wrote."""
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise ValueError(f"this is not an {FORMAT} document; write it again")
        try:
            made: Self = read_as(cls, document, split=None)
            split = document["split"]
            if split is None:
                return made
            promise = promise_from_dict(split["guarantee"])
            return replace(made, split=read_as(Split, split, guarantee=promise))
        except (KeyError, TypeError, ValueError, AttributeError, Overspent) as error:
            raise ValueError(f"surroundings: damaged or incomplete ({in_words(error)}); write them again") from None


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
