"""Looking around curves while model and table are at hand: what a page shows beside them, at a small cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats, Rng, generator
from epsworth.classifiers import Classifier, ClassifierError, as_classifier
from epsworth.classifiers.inputs import table_of
from epsworth.headers import looks_like_header
from epsworth.mechanisms.family import Build, is_tailored, parse
from epsworth.mechanisms.record import RecordRelease
from epsworth.records import Records
from epsworth.release import Policy
from epsworth.release.analysis import Released
from epsworth.release.given import as_policy
from epsworth.space import Domain, Feature, Ranges, as_domain
from epsworth.utility.boxes import SafeBox, safe_box
from epsworth.utility.curves import Curves
from epsworth.utility.policies import NAME as POLICY
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question
from epsworth.utility.recommendation import Recommendation
from epsworth.utility.splitting import Split, split_budget
from epsworth.utility.surroundings import MASS_UNIT, MOST_VALUES, DecisionMap, Grouping, Surroundings, numbered, served

CELLS = {1: 200, 2: 64}  # per feature of a map
MOST_EPSILONS = 16  # of which a map holds masses
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
        """Take what was recommended, else what comes closest."""
        bounds = cls.bounds(curves)
        if found is not None and found.choice is not None:
            m = curves.mechanisms.index(found.choice.mechanism)
            e = curves.epsilons.tolist().index(found.choice.epsilon)
        else:
            lower = bounds.average().lower
            m, e = (int(at) for at in np.unravel_index(lower.argmax(), lower.shape))
        count = bounds.lower.shape[2]
        if record is not None and not 0 <= record < count:
            raise ValueError(f"there is no record {record}; the curves hold records 0 to {count - 1}")
        return cls(m, e, int(bounds.lower[m, e].argmin()) if record is None else record)

    @staticmethod
    def bounds(curves: Curves) -> Bounds:
        """Return what is bounded: not what a heuristic claims."""
        return curves.stability


def look_around(
    curves: Curves,
    model: Any,
    X: Any,
    *,
    found: Recommendation | None = None,
    domain: Ranges | None = None,
    y: ArrayLike | None = None,
    mechanisms: Mapping[str, Build] | None = None,
    quantise: int | None = None,
    policy: Policy | str | Path | None = None,
    record: int | None = None,
    ask_model: bool = True,
    rng: Rng = None,
    progress: Callable[[float], None] | None = None,
) -> Surroundings:
    """Return what a page shows beside curves: a map of labels, a safe box, a split of the epsilon, groups.

    Claim: the bounds of the box and of the split hold with the curves' confidence, each for itself.  What would cost
    more than a few seconds, or a tenth of what the curves took, is left out, and a note says so.

    Parameters
    ----------
    curves : Curves
        Of this model and this table.
    model, X, domain, y, mechanisms, quantise, policy
        As they were given to `stability`; mechanisms only where they were a mapping.
    found : Recommendation, optional
        At whose mechanism and epsilon to look; by default at the highest guarantee.
    record : int, optional
        Which to look at; by default the one that is guaranteed least there.
    ask_model : bool
        False where each question costs: what needs the model's answers is then left out.

    Returns
    -------
    Surroundings
    """
    policy = None if policy is None else as_policy(policy)
    place, classifier, draws, tell = Place.of(curves, found, record), as_classifier(model), generator(rng), progress
    said, count = tell or (lambda share: None), len(curves.labels)
    ranges = None if domain is None else as_domain(domain)
    if policy is not None:
        ranges = Domain(tuple(rule.feature for rule in policy.rules))
    notes: list[str] = []
    grouped = _tried("the groups", notes, lambda: _groups(curves, place, X, y, notes)) or ()
    around = Surroundings(
        record=place.record, records=count, mechanism=curves.mechanisms[place.m],
        epsilon_per_record=curves.guarantees[place.m][place.e].epsilon, groups=grouped, domain=_only(ranges, curves),
        model=classifier.name, seed=rng if isinstance(rng, int) else None,
    )  # fmt: skip
    if not ask_model:
        return replace(around, notes=(*notes, "the model was not asked again: no map, no safe ranges, no split"))
    around = _asking(around, curves, place, classifier, X, ranges, mechanisms, quantise, policy, draws, notes, said)
    said(1.0)
    return replace(around, notes=tuple(notes))


def _asking(
    around: Surroundings, curves: Curves, place: Place, classifier: Classifier, X: Any, ranges: Domain | None,
    mechanisms: Mapping[str, Build] | None, quantise: int | None, policy: Policy | None, draws: np.random.Generator,
    notes: list[str], said: Callable[[float], None],
) -> Surroundings:  # fmt: skip
    """Add what needs the model's answers."""
    records = table_of(classifier, X, ranges.features if ranges else ())
    names = [name for name in curves.features if name in records.names]
    if not names:
        notes.append("the columns that are perturbed are none of the model's: no map, no safe ranges, no split")
        return around
    one = records.take(np.array([place.record]))
    given = {"sensitive": names, "domain": ranges}
    question = _tried(
        "the map",
        notes,
        lambda: Question.of(classifier, one, mechanisms=PLAIN, epsilons=[1.0], y=None, **given),  # type: ignore[arg-type]
    )
    if question is None:
        return around
    numeric = all(feature.categories is None for feature in question.features)
    if numeric and len(names) in CELLS:
        laws = _laws(curves, question, classifier, one, given, mechanisms, quantise, policy)
        around = replace(around, map=_tried("the map", notes, lambda: _map(curves, place, question, laws)))
    said(0.2)
    slow = _slowness(question)
    total = curves.guarantees[place.m][place.e].epsilon
    if numeric and BOX_ASKS * slow > _allowed(curves):
        notes.append("safe ranges would take long with this model and were left out; ask epsworth safe-box")
    elif numeric:
        words = PLAIN if curves.mechanisms[place.m] == POLICY else curves.mechanisms[place.m]
        share = float(curves.epsilons[place.e]) * len(names) / len(curves.features)
        box = _tried("safe ranges", notes, lambda: _box(classifier, one, given, words, share, curves, draws))
        own = () if box is None else tuple(float(question.records.column(p)[0]) for p in question.positions)
        around = replace(around, box=box, values=own)
    said(0.4)
    return _with_split(around, curves, place, classifier, records, given, total, draws, notes)


def _with_split(
    around: Surroundings, curves: Curves, place: Place, classifier: Classifier, records: Records,
    given: Mapping[str, Any], total: float, draws: np.random.Generator, notes: list[str],
) -> Surroundings:  # fmt: skip
    """Add how the total would be split, where that is affordable."""
    words, features = curves.mechanisms[place.m], len(given["sensitive"])
    splits = not (is_tailored(words) or words in ("label_rr", POLICY) or ":" in words)
    if features < 2 or not splits or len(given["sensitive"]) < len(curves.features):
        if ":" in words and features > 1 and not is_tailored(words):
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
    found: Split | None = _tried(
        "the split",
        notes,
        lambda: split_budget(
            classifier, records.take(at), total=total, mechanism=words, on="average", tolerance=SPLIT_TOLERANCE,
            confidence=_confidence(curves), rng=draws, **given,
        ),
    )  # fmt: skip
    return around if found is None else replace(around, split=found, split_records=len(at))


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


def _slowness(question: Question) -> float:
    """Return the seconds that the model takes for one record among many."""
    rows = 512
    values = [feature.from_unit(np.linspace(0, 1, rows)) for feature in question.features]
    began = time.perf_counter()
    question.ask(np.zeros(rows, dtype=np.intp), values)
    return (time.perf_counter() - began) / rows


def _only(ranges: Domain | None, curves: Curves) -> Domain | None:
    """Return what is declared of the perturbed features."""
    return None if ranges is None else Domain(tuple(ranges[name] for name in curves.features if name in ranges))


def _box(
    classifier: Classifier, one: Any, given: Mapping[str, Any], words: str, epsilon: float, curves: Curves,
    draws: np.random.Generator,
) -> SafeBox:  # fmt: skip
    """Return a box at the mechanism, or by the weights of another one where it has no continuous law."""
    try:
        return safe_box(
            classifier, one, mechanism=words, epsilon=epsilon, confidence=_confidence(curves), rng=draws,
            **{**given, "domain": _continuous(given["domain"])},
        )  # fmt: skip
    except ValueError:
        if words == PLAIN:
            raise
        return _box(classifier, one, given, PLAIN, epsilon, curves, draws)


def _laws(
    curves: Curves, question: Question, classifier: Classifier, one: Any, given: Mapping[str, Any],
    mechanisms: Mapping[str, Build] | None, quantise: int | None, policy: Policy | None,
) -> dict[str, list[RecordRelease]]:  # fmt: skip
    """Return what releases the features, by mechanism, at the epsilons of a map; those without laws left out."""
    at = shown_epsilons(curves)
    if policy is not None:
        rules = {rule.feature.name: rule for rule in policy.rules}
        if policy.sampling is not None or policy.tailoring is not None:
            return {}
        parts = tuple(Released.of(rules[feature.name]) for feature in question.features)
        return {curves.mechanisms[0]: [RecordRelease(parts, 0.0, policy.guarantee, 0.0)] * len(at)}
    found, share = {}, len(given["sensitive"]) / len(curves.features)
    for name in curves.mechanisms:
        words: Any = name if mechanisms is None else {name: mechanisms[name]}
        if mechanisms is None and (is_tailored(name) or parse(name).name == "label_rr"):
            continue
        try:
            built = Question.of(
                classifier, one, mechanisms=words, epsilons=share * curves.epsilons[at], y=None, quantise=quantise,
                **given,
            )  # fmt: skip
        except (ValueError, TypeError):  # a name of the caller's own: nothing is known of its law
            continue
        found[name] = list(built.releases[0])
    return found


def shown_epsilons(curves: Curves) -> NDArray[np.intp]:
    """Return which of the curves' epsilons a map holds masses for."""
    count = len(curves.epsilons)
    return np.unique(np.linspace(0, count - 1, min(count, MOST_EPSILONS)).round().astype(np.intp))


def _continuous(domain: Domain | None) -> Domain | None:
    """Return ranges without what is rounded: a box lies in all of them."""
    if domain is None:
        return None
    return Domain(tuple(replace(one, integer=False, points=None) if one.integer else one for one in domain.features))


def _own(feature: Feature, column: NDArray[Any]) -> float:
    """Return the one value of a column, and for a gap what is perturbed in its place."""
    return float(feature.missing if feature.gaps(column)[0] else column[0])


def _map(curves: Curves, place: Place, question: Question, laws: Mapping[str, list[RecordRelease]]) -> DecisionMap:
    """Ask about the centres of a grid around the record."""
    features, own = question.features, question.unit[0]
    size = CELLS[len(features)]
    edges, centres = np.linspace(0, 1, size + 1), (np.arange(size) + 0.5) / size
    points = np.stack(np.meshgrid(*[centres] * len(features), indexing="ij"), axis=-1).reshape(-1, len(features))
    rows = np.zeros(len(points), dtype=np.intp)
    answers = question.ask(rows, [feature.from_unit(points[:, j]) for j, feature in enumerate(features)])
    labels, numbers = numbered([*question.labels.tolist(), *answers.tolist()])
    if len(labels) > MOST_LABELS:
        raise ValueError(f"there are {len(labels)} labels around record {place.record}, too many for a picture")
    natural = tuple(np.asarray(feature.from_unit(edges), dtype=np.float64) for feature in features)
    return DecisionMap(
        features=tuple(feature.name for feature in features),
        edges=natural,
        own=tuple(map(_own, features, (question.records.column(p) for p in question.positions))),
        labels=labels,
        label=int(numbers[0]),
        cells=numbers[1:].reshape([size] * len(features)),
        mechanisms=tuple(laws),
        epsilons=tuple(curves.epsilons[shown_epsilons(curves)].tolist()),
        masses=_masses(laws, own, edges, len(shown_epsilons(curves))),
    )


def _masses(laws: Mapping[str, list[RecordRelease]], own: Floats, edges: Floats, count: int) -> NDArray[np.int64]:
    """Return the masses of the cells, in whole units, rounded down; the raw record's own cell where one may be sent."""
    found = np.zeros((len(laws), count, len(own), len(edges) - 1), dtype=np.int64)
    for m, releases in enumerate(laws.values()):
        for e, release in enumerate(releases):
            for j, mechanism in enumerate(release.mechanisms):
                masses = (1 - release.reveal) * mechanism.law(own[j]).cell_masses(edges)
                masses[min(int(np.searchsorted(edges, own[j], "left") or 1) - 1, len(masses) - 1)] += release.reveal
                found[m, e, j] = np.floor(MASS_UNIT * np.clip(masses, 0, 1) * (1 - 1e-9))
    return found


def _groups(curves: Curves, place: Place, X: Any, y: ArrayLike | None, notes: list[str]) -> tuple[Grouping, ...]:
    """Return what records keep that have the same true label, or the same value in a column that is not perturbed."""
    columns = [] if y is None else [("true label", np.asarray(y))]
    columns += [(name, values) for name, values in _columns(X) if name not in curves.features]
    found: list[list[Grouping]] = []
    for by, values in columns:
        kinds = _kinds(values) if len(values) == len(curves.labels) and len(found) < MOST_COLUMNS else None
        if kinds is not None and (one := _grouping(curves, place, by, *kinds, notes)):
            found.append(one)
    return tuple(group for both in found for group in both)


def _kinds(values: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[np.int64]] | None:
    if values.dtype.kind == "f" and not (values == np.rint(values)).all():
        return None
    kinds, numbers = numbered(list(values))
    return (kinds, numbers) if 2 <= len(kinds) <= min(MOST_VALUES, len(values) // 2) else None


def _grouping(
    curves: Curves, place: Place, by: str, kinds: tuple[str, ...], numbers: NDArray[np.int64], notes: list[str]
) -> list[Grouping]:
    """Return counts and bounds of the groups at the place alone: of many places the records' groups could be solved."""
    found = []
    for of, bounds in {
        "stability": place.bounds(curves),
        "accuracy": curves.accuracy,
    }.items():
        every = [] if bounds is None else served(kinds, numbers, bounds.lower[place.m, place.e])
        kept = [one for one in every if one.records >= FEWEST_RECORDS]
        if kept:
            found.append(Grouping.held(by, of, kept))
    if np.bincount(numbers).min() < FEWEST_RECORDS:
        notes.append(f"groups: values of {by[:40]} that fewer than {FEWEST_RECORDS} records have are left out")
    return found


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
