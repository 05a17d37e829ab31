"""What `tailor` is asked: everything that the user gave, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from epsworth.classifiers import Classifier, as_classifier
from epsworth.classifiers.fingerprints import fingerprint
from epsworth.classifiers.inputs import table_of
from epsworth.client.kernels import EPSILON_RANGE
from epsworth.mechanisms.regions import MOST_REGIONS, checked_gain
from epsworth.numerals import as_float, exact_decimal, short, whole
from epsworth.records import Records
from epsworth.release.grids import Grid
from epsworth.space import as_domain
from epsworth.tailoring.asking import Asked, cannot_answer
from epsworth.tailoring.building import EXACT, WISHES, Asking, Parts, Wish
from epsworth.tailoring.columns import grids_of
from epsworth.tailoring.surrogates import KINDS, TREE
from epsworth.utility.engines.digests import digest_of_model
from epsworth.utility.labels import answer, true_labels

Classifiers = Sequence[Any] | Mapping[Any, float]


def record_epsilon(epsilon: str | float | Decimal, name: str = "epsilon") -> Decimal:
    """Return the epsilon that a text states for a record, in the range that kernels are built for."""
    value, (low, high) = exact_decimal(name, epsilon), EPSILON_RANGE
    if not Decimal(str(low)) <= value <= Decimal(str(high)):
        raise ValueError(f"{name} must lie between {low:g} and {high:g} (per record), got {value:.6g}; give another")
    return value


def asking_of(
    model: Any, X: Any, sensitive: Any, domain: Any, missing: Any, outside: Any, wish: Wish, y: Any, gain: Any,
    classifiers: Classifiers | None, cells: int, fidelity: float, draw: bool, surrogate: str,
    holdout: float, rng: np.random.Generator,
) -> tuple[Asking, Parts, Records]:  # fmt: skip
    """Check everything that the user gave, once; of what is held out nothing else is seen, not even its range.

    Return the question about all other records, the parts of the table, and the records that are held out.
    """
    surrogate = surrogate.lower() if isinstance(surrogate, str) else surrogate
    _check(wish, y, gain, classifiers, cells, fidelity, draw, surrogate)
    cells, weighed = whole("cells", cells, most=MOST_REGIONS), _weighed(classifiers)
    given = [one for one, _ in weighed if one is not model]
    own = [weight for one, weight in weighed if one is model] or [1.0]  # the model may be named among them
    weights = (own[-1], *(weight for one, weight in weighed if one is not model))
    if not all(0 < weight < np.inf for weight in weights):
        raise ValueError("classifiers: weights must be positive and finite")
    every = tuple(as_classifier(one) for one in (model, *given))
    ranges = None if domain is None else as_domain(domain)
    records = table_of(every[0], X, ranges.features if ranges else ())
    positions = tuple(sorted(records.positions("sensitive", sensitive)))  # as the copy's inputs stand
    parts = Parts.of(len(records), holdout, rng)
    known = records.part(parts.known)
    grids = grids_of(known, positions, ranges, missing, outside)
    known, held = (part.releasing(words_of(grids)) for part in (known, records.part(parts.hold)))
    asked = Asked(every, known, positions, tuple(grids[p] for p in positions))
    truth = None
    if y is not None:
        truth = true_labels(y, answer(every[0], records, np.arange(len(records))), every[0])[parts.known]
    worth = None if gain is None else checked_gain(gain)
    marks = tuple(_mark(classifier, grids, known) for classifier in every)
    exactly = float(fidelity), bool(draw)
    return Asking(asked, weights, grids, wish, surrogate, cells, *exactly, truth, worth, marks), parts, held


def _mark(classifier: Classifier, grids: Sequence[Grid], known: Records) -> str:
    try:
        return fingerprint(classifier, [grid.feature for grid in grids], known)
    except (ValueError, TypeError) as error:
        raise cannot_answer(classifier, "the public records", error) from None


def _weighed(classifiers: Classifiers | None) -> list[tuple[Any, float]]:
    """Return further classifiers and their weights; NaN for one that is no number."""
    if isinstance(classifiers, Mapping):
        return [(one, as_float(weight)) for one, weight in classifiers.items()]
    # an ensemble is a sequence, too: of its members
    if hasattr(classifiers, "predict") or not isinstance(classifiers, (Iterable, type(None))):
        raise TypeError(f"classifiers must be a list, or a mapping from each to its weight, got {short(classifiers)}")
    return [(one, 1.0) for one in classifiers or ()]


def _check(
    wish: object, y: object, gain: object, classifiers: object, cells: object, fidelity: object, draw: object,
    surrogate: object,
) -> None:  # fmt: skip
    if wish not in WISHES:
        raise ValueError(f"wish must be one of {', '.join(map(repr, WISHES))}, got {short(wish)}")
    if wish == "accuracy" and y is None:
        raise ValueError("wish='accuracy' needs the true labels of the public records: give y")
    if not 0 <= as_float(fidelity) < np.inf:
        raise ValueError(f"fidelity must not be negative, and finite, got {fidelity!r}")
    if fidelity and cells == 1:
        raise ValueError("fidelity needs cells, between which what is sent can differ; give cells=32, say")
    if not isinstance(draw, (bool, np.bool_)):
        raise ValueError(f"draw must be True or False, got {draw!r}")
    known = ("auto", EXACT, TREE, *KINDS)
    if surrogate not in known:
        raise ValueError(f"surrogate must be one of {', '.join(map(repr, known))}, got {short(surrogate)}")
    asked = [name for name, given in (("wish='accuracy'", wish == "accuracy"), ("gain", gain is not None),
                                      ("cells", cells != 1), ("classifiers", classifiers)) if given]  # fmt: skip
    if len(asked) > 1:
        raise ValueError(f"{' and '.join(asked)} each ask for a kernel of their own; choose one")


def words_of(grids: Sequence[Grid]) -> dict[str, tuple[Any, ...] | None]:
    """Return what columns of categories may hold."""
    return {grid.name: grid.feature.categories for grid in grids}


def data_of(asking: Asking, held: Records) -> dict[str, tuple[object, ...]]:
    """Return what a tailored policy is made of, by the words of a refusal: what digests are taken of."""
    tables = (asking.records, held)
    columns = [table.column(place) for table in tables for place in range(len(table.names))]
    return {
        "records": (tuple(asking.records.names), *columns),
        "models": tuple(digest_of_model(classifier.inside) for classifier in asking.asked.classifiers),
        "answers of the classifiers": asking.fingerprints,
        "ranges": tuple(repr(grid) for grid in asking.grids),
        "true labels": (asking.truth,),
        "gain": (asking.gain,),
    }


def options_of(asking: Asking) -> dict[str, object]:
    """Return what else a tailored policy is made by."""
    names = "wish", "surrogate", "cells", "fidelity", "draw", "weights"
    sensitive = ", ".join(grid.name for grid in asking.asked.grids)
    return {"sensitive features": sensitive} | {name: getattr(asking, name) for name in names}
