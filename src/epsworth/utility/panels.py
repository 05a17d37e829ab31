"""Panels of a page beside curves: one record's labels near it, where it is safe, who is served how, what is declared.

Computed by `panels_of` where model and table are at hand, at a small cost; kept beside curves in files, and read from
there by people who have neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, Rng, generator
from epsworth.bounds import Overspent
from epsworth.classifiers import ClassifierError
from epsworth.documents import in_words, read_as
from epsworth.guarantees import promise_from_dict
from epsworth.headers import looks_like_header
from epsworth.mechanisms.family import LABEL_RESPONSE, is_tailored
from epsworth.numerals import short, whole
from epsworth.results import Result, json_form
from epsworth.rounding import down, round_down
from epsworth.space import Domain, Feature
from epsworth.utility.boxes import SafeBox, safe_box
from epsworth.utility.curves import Curves
from epsworth.utility.policies import NAME as POLICY
from epsworth.utility.problem import Problem
from epsworth.utility.recommendation import Recommendation, recommend
from epsworth.utility.splitting import Split, split_budget
from epsworth.utility.tailored_policies import TailoredProblem

FORMAT = "epsworth-panels-1"
MOST_VALUES = 12  # of a column that groups records


@dataclass(frozen=True, eq=False)
class DecisionMap(Result):
    """The labels around one record while one or two features vary: a picture.

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
    """

    features: tuple[str, ...]
    edges: tuple[Floats, ...]
    own: tuple[float, ...]
    labels: tuple[str, ...]
    label: int
    cells: NDArray[np.int64]

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
    result = []
    for number, value in enumerate(values):
        own = lower[numbers == number]
        if own.size:
            average = max(float(down(own.mean(), ulps=own.size + 1)), float(own.min()))  # as `Bounds.average`
            result.append(Served(value, int(own.size), average, float(own.min())))
    return sorted(result, key=lambda one: (one.average, one.value))


@dataclass(frozen=True, eq=False)
class Panels(Result):
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
        """Return the JSON form: full precision, nothing rounded."""
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
            raise ValueError(f"panels: damaged or incomplete ({in_words(error)}); write them again") from None


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


CELLS = {1: 200, 2: 64}  # per feature of a map
MOST_LABELS = 12
MOST_COLUMNS = 8  # that group records
FEWEST_RECORDS = 5  # of a group in a file: what fewer keep would tell of one
PLAIN = "pm"  # weighs a box where the mechanism has no continuous law
SPLIT_RECORDS = (20, 5)  # at most, and at least
SPLIT_TOLERANCE = 0.03
SHARES = {2: 41, 3: 153, 4: 300}  # splits that are looked at, about, by features
BOX_ASKS = 24_000  # records, about
ALLOWED = 4.0  # seconds of a part, unless the curves themselves took long
ALLOWED_SHARE = 0.1  # of what the curves took
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where to look: mechanism and epsilon, by number, and the record that is guaranteed least there."""

    m: int
    e: int
    record: int

    @classmethod
    def of(cls, curves: Curves, found: Recommendation | None, record: int | None) -> Place:
        """Take what was recommended, else what comes closest; of nothing that was asked for, what keeps most."""
        bounds = curves.stability
        best = recommend(curves, at_least=1.0).closest if found is None else found.choice or found.closest
        m = 0 if best is None else curves.mechanisms.index(best.mechanism)
        e = 0 if best is None else curves.epsilons.tolist().index(best.epsilon)
        if record is not None:
            record = whole("record", record, least=0, most=bounds.lower.shape[2] - 1)
        return cls(m, e, int(bounds.lower[m, e].argmin()) if record is None else record)


def panels_of(
    curves: Curves,
    problem: Problem | TailoredProblem,
    X: Any,
    *,
    found: Recommendation | None = None,
    record: int | None = None,
    ask_model: bool = True,
    rng: Rng = None,
    progress: Callable[[float], None] | None = None,
) -> Panels:
    """Return what a page shows beside curves: a map of labels, a safe box, a split of the epsilon, groups.

    Claim: the bounds of the box and of the split hold with the curves' confidence, each for itself.  What would cost
    more than a few seconds, or a tenth of what the curves took, is left out, and a note says so.

    Parameters
    ----------
    curves : Curves
        The answer to the question.
    problem : Problem
        As `Problem.of` or `problem_of_policy` returned it.
    X : table
        The records, with columns that the model may not read: they make groups.
    found : Recommendation, optional
        At whose mechanism and epsilon to look; by default at what keeps most of what `recommend` accepts.
    record : int, optional
        Which to look at; by default the one that is guaranteed least there.
    ask_model : bool
        False where each query costs: what needs the model's answers is then left out.

    Returns
    -------
    Panels
    """
    _check_answered(curves, problem)
    place, draws, notes = Place.of(curves, found, record), generator(rng), list[str]()
    around = Panels(
        record=place.record, records=len(curves.labels), mechanism=curves.mechanisms[place.m],
        epsilon_per_record=curves.guarantees[place.m][place.e].epsilon,
        groups=_tried("the groups", notes, lambda: _groups(curves, place, X, problem.y, notes)) or (),
        domain=_declared(problem), model=problem.classifier.name, seed=rng if isinstance(rng, int) else None,
    )  # fmt: skip
    if not ask_model:
        notes.append("the model was not asked again: no map, no safe ranges, no split")
    elif isinstance(problem, TailoredProblem):
        notes.append("the columns of a tailored policy are released together: no map, no safe ranges, no split")
    else:
        around = _near(around, curves, place, problem, draws, notes, progress or (lambda share: None))
    return replace(around, notes=tuple(notes))


def _check_answered(curves: Any, problem: Any) -> None:
    """Refuse curves that are no answer to the problem."""
    if not isinstance(curves, Curves) or not isinstance(problem, (Problem, TailoredProblem)):
        raise TypeError(f"give curves, their problem, its table, in this order; got {short(curves)}, {short(problem)}")
    if isinstance(problem, TailoredProblem):
        names = tuple(problem.policy.names)
    else:
        names = tuple(feature.name for feature in problem.features)
    if names != tuple(curves.features) or not np.array_equal(problem.labels, curves.labels):
        raise ValueError("the curves answer a problem of other features, records or labels; give the one they answer")


def _declared(problem: Problem | TailoredProblem) -> Domain | None:
    """Return what is declared of the perturbed features."""
    if isinstance(problem, TailoredProblem) or problem.domain is None:
        return None
    return Domain(tuple(problem.domain[feature.name] for feature in problem.features))


def _near(
    around: Panels, curves: Curves, place: Place, problem: Problem, draws: np.random.Generator,
    notes: list[str], said: Callable[[float], None],
) -> Panels:  # fmt: skip
    """Add what needs the model's answers: a map, a box and a split."""
    one = replace(problem, start=place.record, stop=place.record + 1).part()

    def look() -> float:
        problem.check_unchanged()
        return _slowness(one)

    slow = _tried("the map", notes, look)
    if slow is None:
        return around
    numeric = all(feature.categories is None for feature in problem.features)
    if numeric and len(problem.features) in CELLS:
        around = replace(around, map=_tried("the map", notes, lambda: _map(one)))
    said(0.2)
    if numeric and BOX_ASKS * slow > _allowed(curves):
        notes.append("safe ranges would take long with this model and were left out; ask epsworth safe-box")
    elif numeric:
        words = PLAIN if curves.mechanisms[place.m] == POLICY else curves.mechanisms[place.m]
        epsilon = float(curves.epsilons[place.e])
        box = _tried("safe ranges", notes, lambda: _box(one, words, epsilon, curves, draws))
        own = () if box is None else tuple(float(one.records.column(p)[0]) for p in one.positions)
        around = replace(around, box=box, values=own)
    said(0.4)
    around = _with_split(around, curves, place, problem, draws, notes)
    said(1.0)
    return around


def _given(problem: Problem) -> dict[str, Any]:
    """Return what a question about the same features is asked with."""
    return {"sensitive": problem.positions, "domain": problem.domain}


def _with_split(
    around: Panels, curves: Curves, place: Place, problem: Problem, draws: np.random.Generator,
    notes: list[str],
) -> Panels:  # fmt: skip
    """Add how the total would be split, where that is affordable."""
    words, features, records = curves.mechanisms[place.m], len(problem.features), problem.records
    total = curves.guarantees[place.m][place.e].epsilon
    if features < 2 or is_tailored(words) or words in (LABEL_RESPONSE, POLICY):
        return around
    if ":" in words:
        notes.append(f"no split was looked for: {words} has options of its own")
        return around
    if features not in SHARES:
        notes.append(f"the best split over {features} features takes long and was left out; ask epsworth split")
        return around
    most, least = SPLIT_RECORDS
    each = SHARES[features] * curves.seconds / max(1, curves.lower.size)  # seconds for a record, about
    rows = min(most, len(records), int(_allowed(curves) / each) if each > 0 else most)
    if rows < min(least, len(records)):
        notes.append("the best split would take long with this model and was left out; ask epsworth split")
        return around
    at = np.unique(np.linspace(0, len(records) - 1, rows).astype(np.intp))
    split: Split | None = _tried(
        "the split",
        notes,
        lambda: split_budget(
            problem.classifier, records.take(at), total=total, mechanism=words, on="average",
            tolerance=SPLIT_TOLERANCE, confidence=_confidence(curves), rng=draws, **_given(problem),
        ),
    )  # fmt: skip
    return around if split is None else replace(around, split=split, split_records=len(at))


def _tried(what: str, notes: list[str], part: Callable[[], T]) -> T | None:
    """Return a part, or nothing and a note that says why there is none."""
    try:
        return part()
    except (ValueError, TypeError, ClassifierError) as error:
        notes.append(f"{what} could not be computed: {str(error).partition(chr(10))[0][:300]}")
        return None


def _allowed(curves: Curves) -> float:
    return max(ALLOWED, ALLOWED_SHARE * curves.seconds)


def _confidence(curves: Curves) -> float:
    return curves.confidence if curves.confidence < 1 else 0.999


def _slowness(problem: Problem) -> float:
    """Return the seconds that the model takes for one record among many."""
    rows = 512
    values = [feature.from_unit(np.linspace(0, 1, rows)) for feature in problem.features]
    began = time.perf_counter()
    problem.ask(np.zeros(rows, dtype=np.intp), values)
    return (time.perf_counter() - began) / rows


def _box(one: Problem, words: str, epsilon: float, curves: Curves, draws: np.random.Generator) -> SafeBox:
    """Return a box at the mechanism, or by the weights of another one where it has no continuous law."""
    try:
        return safe_box(
            one.classifier, one.records.take(np.array([0])), mechanism=words, epsilon=epsilon,
            confidence=_confidence(curves), rng=draws, **_given(one),
        )  # fmt: skip
    except ValueError:
        if words == PLAIN:
            raise
        return _box(one, PLAIN, epsilon, curves, draws)


def _own(feature: Feature, column: NDArray[Any]) -> float:
    """Return the one value of a column, and for a gap what is perturbed in its place."""
    return float(feature.missing if feature.gaps(column)[0] else column[0])


def _map(problem: Problem) -> DecisionMap:
    """Ask about the centres of a grid around the one record of a question."""
    features = problem.features
    size = CELLS[len(features)]
    edges, centres = np.linspace(0, 1, size + 1), (np.arange(size) + 0.5) / size
    points = np.stack(np.meshgrid(*[centres] * len(features), indexing="ij"), axis=-1).reshape(-1, len(features))
    rows = np.zeros(len(points), dtype=np.intp)
    answers = problem.ask(rows, [feature.from_unit(points[:, j]) for j, feature in enumerate(features)])
    labels, numbers = numbered([*problem.labels.tolist(), *answers.tolist()])
    if len(labels) > MOST_LABELS:
        raise ValueError(f"there are {len(labels)} labels around this record, too many for a picture")
    natural = tuple(np.asarray(feature.from_unit(edges), dtype=np.float64) for feature in features)
    return DecisionMap(
        features=tuple(feature.name for feature in features),
        edges=natural,
        own=tuple(map(_own, features, (problem.records.column(p) for p in problem.positions))),
        labels=labels,
        label=int(numbers[0]),
        cells=numbers[1:].reshape([size] * len(features)),
    )


def _groups(curves: Curves, place: Place, X: Any, y: ArrayLike | None, notes: list[str]) -> tuple[Grouping, ...]:
    """Return what records keep that have the same true label, or the same value in a column that is not perturbed."""
    columns = [] if y is None else [("true label", np.asarray(y))]
    columns += [(name, values) for name, values in _columns(X) if name not in curves.features]
    result: list[list[Grouping]] = []
    for by, values in columns:
        kinds = _kinds(values) if len(values) == len(curves.labels) and len(result) < MOST_COLUMNS else None
        if kinds is not None and (one := _grouping(curves, place, by, *kinds, notes)):
            result.append(one)
    return tuple(group for both in result for group in both)


def _kinds(values: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[np.int64]] | None:
    if values.dtype.kind == "f" and not (values == np.rint(values)).all():
        return None
    kinds, numbers = numbered(list(values))
    return (kinds, numbers) if 2 <= len(kinds) <= min(MOST_VALUES, len(values) // 2) else None


def _grouping(
    curves: Curves, place: Place, by: str, kinds: tuple[str, ...], numbers: NDArray[np.int64], notes: list[str]
) -> list[Grouping]:
    """Return counts and bounds of the groups at the place alone: of many places the records' groups could be solved."""
    result = []
    for of, bounds in {"stability": curves.stability, "accuracy": curves.accuracy}.items():
        every = [] if bounds is None else served(kinds, numbers, bounds.lower[place.m, place.e])
        kept = [one for one in every if one.records >= FEWEST_RECORDS]
        if kept:
            result.append(Grouping.held(by, of, kept))
    if np.bincount(numbers).min() < FEWEST_RECORDS:
        notes.append(f"groups: values of {by[:40]} that fewer than {FEWEST_RECORDS} records have are left out")
    return result


def _columns(X: Any) -> list[tuple[str, NDArray[Any]]]:
    """Return the table's columns, also those that the model does not read."""
    import narwhals as nw

    if isinstance(X, Mapping):
        return [(str(name), np.asarray(values)) for name, values in X.items()]
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        if not looks_like_header(frame.columns):
            return []
        return [(str(name), frame.get_column(name).to_numpy()) for name in frame.columns]
    values = np.asarray(X)
    return [(f"x{j}", values[:, j]) for j in range(values.shape[1])] if values.ndim == 2 else []
