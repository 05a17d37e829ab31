"""Models opened layer by layer, readings that are compared with their labels, and what counts as a label.

Only what is an object of a library's own class is read, and what is read is believed only where the model's own labels
agree with it.

*Labels.*  Where the model declares its classes, whatever it answers must be one of them, of whatever kind.  Complex
numbers are no labels, and no question is answered by bytes, dates or lists, which results cannot hold.  Of a model that
declares none, booleans, strings and other things are labels; numbers are taken for scores, and refused, as soon as

- broken ones come as a column, which is how networks return a probability;
- broken ones were answered, and all numbers answered so far lie between 0 and 1, more than one of them or after the
  whole ranges of the sensitive features were asked about: probabilities;
- more than `MOST_BROKEN` different broken ones were answered;
- more than `MOST_WHOLE` different whole ones were answered, be they integers or floats, but for a clustering's.

What counts is everything that was answered since the model was wrapped, not one batch: half points such as 0.5, 1.5
and 2.5 remain labels, and a few records cannot hide a score.  Whole scores that take few values, such as percentages
rounded to 0, 1, .., 99, cannot be told from labels: declare classes to have them refused.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats
from epsworth.records import Indices

LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost", "_catboost", "interpret", "torch")
METHODS = {"predict", "predict_proba", "decision_function", "transform", "forward"}
SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
COMPONENTS = {"KMeans": "cluster_centers_", "MiniBatchKMeans": "cluster_centers_", "GaussianMixture": "weights_"}
UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # from what another version fitted, or wrote
LEAST_CLEAR = 16  # of at least 64 points that every caller asks about
Model = TypeVar("Model")
Form = TypeVar("Form")


class Unsupported(Exception):
    """What stands in the way of reading a model, or of an engine that would answer for it."""


def read_once(memory: dict[Callable[[Model], Any], Any], reader: Callable[[Model], Form], model: Model) -> Form:
    """Return what a reader reads of a model, or raise why it reads nothing: it is asked once, and remembered."""
    if reader not in memory:
        try:
            memory[reader] = reader(model)
        except Unsupported as why:
            memory[reader] = why
    if isinstance(form := memory[reader], Unsupported):
        raise type(form)(*form.args)
    return form  # type: ignore[no-any-return]  # what the reader returned


def library_class(model: Any) -> str | None:
    """Return the name of the library's class that a model is one of; None for a subclass, or another answer.

    Claim: the class is the library's own, not one of its name or made from it, and no method that answers was put in
    the place of the library's on the object; one that was on the class is found out by asking.
    """
    kind: Any = type(model)
    return _library_class(kind) if METHODS.isdisjoint(getattr(model, "__dict__", ())) else None


def library_classes(models: Iterable[Any]) -> set[str | None]:
    """Return the names of the library's classes that models are of, None among them as of `library_class`."""
    models = list(models)
    if not METHODS.isdisjoint([name for model in models for name in getattr(model, "__dict__", ())]):
        return {None}
    return set(map(_library_class, set(map(type, models))))


@cache
def _library_class(kind: type) -> str | None:
    module = sys.modules.get(str(kind.__module__))
    ours = str(kind.__module__).partition(".")[0] in LIBRARIES and getattr(module, kind.__name__, None) is kind
    return kind.__name__ if ours else None


def answers_as_read(labels: NDArray[Any], read: NDArray[Any], clear: Bools) -> bool:
    """Tell whether a model's labels are those of its reading wherever that is clear, which it must be often enough.

    Claim: a reading of which fewer than `LEAST_CLEAR` points are compared is not believed: one wrong at a third of
    the points passes with probability (2/3)^16 = 0.0016 at most.  NaN, of which no comparison holds, is never clear.

    Parameters
    ----------
    labels : ndarray, shape ``(n,)``
        What the model answers.
    read : ndarray, shape ``(n,)``
        What its reading answers for the same records.
    clear : ndarray of bool, shape ``(n,)``
        Where the reading leads by more than rounding can turn.
    """
    return bool(clear.sum() >= LEAST_CLEAR and (labels == read)[clear].all())


def unlike(parts: str) -> str:
    """Say why what was read of a model is not believed."""
    return f"its answers are not those of its {parts}, or too few of these are clear"


def leading(scores: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the place of the largest of each record's scores, the first one of equals, and its lead over the next.

    A single score is that of the second label over the first.

    Examples
    --------
    >>> places, lead = leading(np.array([[0.5], [-2.0]]))
    >>> places.tolist(), lead.tolist()
    ([1, 0], [0.5, 2.0])
    """
    both = np.column_stack([np.zeros(len(scores)), scores]) if scores.shape[1] == 1 else scores
    best = np.partition(both, -2, axis=1)[:, -2:]
    with np.errstate(invalid="ignore"):  # NaN, where both are infinite
        return np.argmax(both, axis=1), np.asarray(best[:, 1] - best[:, 0])


def adjacent_floats(thresholds: NDArray[Any]) -> NDArray[Any]:
    """Return thresholds and their neighbours among numbers of their precision: a wrong comparison shows there."""
    low, high = (np.nextafter(thresholds, thresholds.dtype.type(end)) for end in (-np.inf, np.inf))
    return np.concatenate([low, thresholds, high])


@contextmanager
def ignoring_names() -> Iterator[None]:
    """Silence scikit-learn's remark that arrays carry no names, or frames carry some: positions are checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
        yield


@dataclass(frozen=True, eq=False)
class Predict:
    """Ask a model's own ``predict``, whether the records carry names or not."""

    model: Any

    def __call__(self, records: Any) -> Any:
        """Return what the model predicts: scikit-learn does not know the columns of Arrow's tables by name."""
        if hasattr(records, "column_names") and find_spec("polars") and type(self.model).__module__[:8] == "sklearn.":
            import narwhals as nw

            records = nw.from_native(records, eager_only=True).to_polars()
        with ignoring_names():
            return self.model.predict(records)


def delegate(model: Any) -> Any | None:
    """Return the estimator that answers in a model's place: the best one of a search, or a frozen one."""
    kind = library_class(model)
    if kind in SEARCHES:
        return getattr(model, "best_estimator_", None)
    return model.estimator if kind == "FrozenEstimator" else None


def steps_of(model: Any, *, nested: bool = True) -> tuple[Any, list[Any]]:
    """Return the estimator at the end of a pipeline and the steps before it that do something.

    ``nested``: also of what answers in its place (`delegate`), and of pipelines within pipelines.
    """
    if nested and (inner := delegate(model)) is not None:
        return steps_of(inner)
    steps = getattr(model, "steps", None)
    pairs = isinstance(steps, list) and all(isinstance(step, tuple) and len(step) == 2 for step in steps)
    if not pairs or not steps:
        return model, []
    *before, (_, last) = steps
    own = [step for _, step in before if step is not None and step != "passthrough"]
    if not nested:
        return last, own
    last, inner = steps_of(last)
    return last, [*own, *inner]


class Opened(NamedTuple):
    """The estimator at the end of a pipeline, its kind, and the steps before it, of whatever kind."""

    estimator: Any
    kind: str
    steps: list[Any]


def opened(model: Any) -> Opened | None:
    """Open pipelines, searches and frozen estimators, which answer as what they hold, at any depth.

    None where a layer answers by other code than its library's (`library_class`), or where two classes have the same
    label.
    """
    estimator, steps = model, list[Any]()
    while (kind := library_class(estimator)) is not None:
        inner = delegate(estimator)
        if kind == "Pipeline":
            inner, before = steps_of(estimator, nested=False)
            steps += before
        if inner is estimator:
            return None
        if inner is None:
            labels = getattr(estimator, "classes_", None)
            twice = isinstance(labels, np.ndarray) and len(set(labels.ravel().tolist())) < labels.size
            return None if twice else Opened(estimator, kind, steps)
        estimator = inner
    return None


def dense(coefficients: Any) -> Floats:
    """Return coefficients as an array; ``sparsify`` makes them a sparse matrix."""
    return np.asarray(coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients, dtype=np.float64)


def known_labels(model: Any) -> NDArray[Any] | None:
    """Return the labels that a fitted estimator or pipeline can give, in the order of its scores; None if unknown."""
    classes, last = getattr(model, "classes_", None), steps_of(model)[0]
    if isinstance(classes, np.ndarray):
        return classes if classes.ndim == 1 else None
    counted = COMPONENTS.get(library_class(last) or "") if last is model or library_class(model) == "Pipeline" else None
    return None if counted is None else np.arange(len(getattr(last, counted)))


Labels = NDArray[Any]

MOST_BROKEN = 16  # different broken numbers that may still be the names of classes
MOST_WHOLE = 100  # different whole numbers that may
FEW = 16  # classes that answers are compared with one by one
NUMBERS = (int, float, np.integer, np.floating, Decimal, Fraction)
LABELS = (*NUMBERS, str, bool, np.bool_)
ALONE = 3  # rows of a batch that are asked about once more, each by itself
REPEATS = 3  # of a whole batch, to tell chance from dependence on the other rows


class ClassifierError(ValueError):
    """The classifier failed, or answered something that is not one label per record.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth import ClassifierError, as_classifier
    >>> scores = as_classifier(lambda X: X[:, 0] / 7)  # no labels
    >>> try:
    ...     scores.labels(np.arange(6.0)[:, None])
    ... except ClassifierError as error:
    ...     print(str(error).partition(";")[0])
    <lambda> answered broken numbers that all lie between 0 and 1
    """


class NondeterministicError(ClassifierError):
    """The classifier gave one record two labels."""


@dataclass(eq=False)
class AnswerHistory:
    """The different numbers that a classifier without declared classes answered so far.

    ``numbering``: whole ones are known to number something, such as clusters, however many they are.
    """

    broken: set[float] = field(default_factory=set)
    whole: set[float] = field(default_factory=set)
    numbering: bool = False

    def check(self, name: str, labels: Labels, classes: tuple[Any, ...] | None, *, column: bool) -> None:
        """Refuse answers that are none of the classes, or look like scores, given those before."""
        if labels.dtype.kind == "c" or (
            labels.dtype == object and any(isinstance(v, (complex, np.complexfloating)) for v in labels)
        ):
            raise ClassifierError(f"{name} answered complex numbers, which are no labels; return labels")
        if classes is not None:
            if not _all_known(labels, classes):
                raise _scores(name, "values that are none of its classes")
            return
        numbers = _distinct(_numbers(labels))
        broken = numbers != np.rint(numbers)
        self.broken.update(numbers[broken].tolist())
        self.whole.update(numbers[~broken].tolist())
        if self.broken and column:
            raise _scores(name, "a column of broken numbers")
        if len(self.broken) + len(self.whole) > 1:
            self.settle(name)
        if len(self.broken) > MOST_BROKEN:
            raise _scores(name, f"more than {MOST_BROKEN} different broken numbers")
        if len(self.whole) > MOST_WHOLE and not self.numbering:
            raise _scores(name, f"more than {MOST_WHOLE} different whole numbers")

    @property
    def doubtful(self) -> bool:
        """Whether numbers were answered of which more answers may show that they are scores."""
        return bool(self.broken or self.whole - {-1.0, 0.0, 1.0})

    def settle(self, name: str) -> None:
        """Refuse broken numbers that all lie between 0 and 1, once enough was asked to see others."""
        if self.broken and all(0 <= number <= 1 for number in self.broken | self.whole):
            raise _scores(name, "broken numbers that all lie between 0 and 1")


def _all_known(labels: Labels, classes: tuple[Any, ...]) -> bool:
    """Tell whether all answers are among the classes, as Python compares them: 1 is 1.0, and no text."""
    if labels.dtype == object or len(classes) > FEW:
        return set(labels.tolist() if labels.dtype == object else np.unique(labels).tolist()) <= set(classes)
    known = np.zeros(len(labels), dtype=bool)
    for one in classes:
        known |= labels == one
    return bool(known.all())


def _numbers(labels: Labels) -> NDArray[Any]:
    """Return the answers that are numbers, and no booleans."""
    if labels.dtype.kind in "fiu":
        return labels
    numbers = (
        [v for v in labels if isinstance(v, NUMBERS) and not isinstance(v, bool)] if labels.dtype == object else []
    )
    return np.array(list(map(_as_float, numbers)), dtype=np.float64)


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # of a whole number or a fraction, beyond what floats hold
        return float("inf") if number > 0 else float("-inf")


def _distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the different ones; whole numbers in a narrow range are counted, which is faster than sorting them."""
    if numbers.dtype.kind in "iu" and numbers.size:
        low, high = int(numbers.min()), int(numbers.max())
        if high < 2**62 and low > -(2**62) and high - low < numbers.size + MOST_WHOLE:
            return np.flatnonzero(np.bincount(numbers.astype(np.int64) - low)) + low
    return np.unique(numbers)


def _scores(name: str, what: str) -> ClassifierError:
    return ClassifierError(
        f"{name} answered {what}; these look like scores: return labels, such as scores > 0.5, "
        "or declare numbers that are labels by Classifier(name, answer, classes=...)"
    )


def check_kind(name: str, labels: Labels) -> None:
    """Refuse labels that no result could write down: bytes, dates, lists."""
    if labels.dtype == object:
        odd = [one for one in set(map(type, labels)) if not issubclass(one, LABELS) or issubclass(one, np.timedelta64)]
    else:
        odd = [labels.dtype.type] if labels.dtype.kind in "SMmV" else []
    if odd:
        kind = odd[0].__name__.rstrip("_")
        raise ClassifierError(f"{name} answers labels of type {kind}; let it answer texts, numbers or truths")


def check_batch_invariance(name: str, ask: Callable[[Indices], Labels], labels: Labels, what: str, needs: str) -> int:
    """Ask about some rows of a batch alone, refuse other labels than the batch's; return how many were asked about.

    Rows of different labels come first, as far as there are some: what a batch has to differ by shows there.

    Parameters
    ----------
    ask : callable
        From rows of the batch to their labels.
    labels : ndarray
        Those that the whole batch got.
    """
    if len(labels) < 2:
        return 0  # that was alone
    values = labels.tolist()
    first = list({value: row for row, value in reversed(list(enumerate(values)))}.values())
    rows = list(dict.fromkeys([*sorted(first)[:ALONE], *range(len(values))]))[:ALONE]
    for row in rows:
        if ask(np.array([row]))[0] != labels[row]:
            raise nondeterminism(name, lambda: ask(np.arange(len(labels))), labels, what, needs)
    return len(rows)


def nondeterminism(
    name: str, repeat: Callable[[], Labels], labels: Labels, what: str, needs: str
) -> NondeterministicError:
    """Return why a record had two labels: by chance, where the same batch gets others when it is asked about again.

    Else the other rows of the batch had a say: in what is computed, or only in how it is rounded next to a tie.
    """
    same = f"{name} gives different labels for the same {what}"
    if all(np.array_equal(repeat(), labels) for _ in range(REPEATS)):
        return NondeterministicError(
            f"{same}, alone and among others: its answer depends on the other rows of the batch, or on rounding next "
            f"to a tie; {needs} needs a classifier that answers every row by itself"
        )
    return NondeterministicError(f"{same}; {needs} needs a deterministic classifier: fix its seed")
