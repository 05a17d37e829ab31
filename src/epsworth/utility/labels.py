"""Labels of records, asked of a classifier, and the true ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.classifiers import Classifier, ClassifierError, Labels
from epsworth.classifiers.reading import check_kind, nondeterminism
from epsworth.records import Indices, Records
from epsworth.values import is_missing, label_array

ASKED_AGAIN = 64, 256  # rows, least and most, that are asked about a second time
SAME_RECORDS = "records", "stability"  # for the sentences that refuse a classifier


def answer(
    classifier: Classifier,
    records: Records,
    rows: Indices,
    values: Mapping[int, NDArray[Any]] | None = None,
    copies: str | None = None,
) -> Labels:
    """Query the classifier; when it fails, find one record on which it does and say so.

    Parameters
    ----------
    copies : str, optional
        What to call a row, with ``{}`` for its number.
    """
    try:
        labels = classifier.labels(records.take(rows, values))
    except ClassifierError:
        raise
    except Exception as error:
        row = _failing_row(classifier, records, rows, values)
        copy = copies or ("a perturbed copy of record {}" if values else "record {}")
        where = "a whole batch" if row is None else copy.format(row)
        raise ClassifierError(
            f"the classifier failed on {where}: {type(error).__name__}{_told(error, records, row)}; "
            f"repair that row, or the model's preprocessing{_texts(records)}"
        ) from None  # a traceback would show what the model said of the record
    check_kind(classifier.name, labels)
    return labels


def _texts(records: Records) -> str:
    """Name the columns that hold texts, of which a model that takes numbers says nothing."""
    named = [name for p, name in enumerate(records.names) if _holds_text(records.column(p))]
    return f"; texts stand in the columns: {', '.join(named)}" if named else ""


def _holds_text(column: NDArray[Any]) -> bool:
    return column.dtype.kind in "USTO" and any(isinstance(value, (str, bytes)) for value in column)


def _told(error: Exception, records: Records, row: int | None) -> str:
    """Return the first line of what the classifier said, without the record's own values."""
    if row is None:
        return ""
    values = [records.column(p)[row] for p in range(len(records.names))]
    texts = {
        form for v in values for form in (str(v), repr(v), *([f"{v:g}"] if isinstance(v, (float, np.floating)) else []))
    }
    result = (str(error).strip() or "no message").splitlines()[0]
    for text in sorted(texts - {""}, key=len, reverse=True):
        result = re.sub(rf"(?<![\w.]){re.escape(text)}(?![\w.])", "...", result)
    return f": {result}"


def _failing_row(
    classifier: Classifier, records: Records, rows: Indices, values: Mapping[int, NDArray[Any]] | None
) -> int | None:
    at = np.arange(len(rows))

    def fails(part: Indices) -> bool:
        try:
            classifier.labels(records.take(rows[part], {p: v[part] for p, v in (values or {}).items()}))
        except Exception:
            return True
        return False

    while len(at) > 1:
        half = len(at) // 2
        at = at[:half] if fails(at[:half]) else at[half:]
    return int(rows[at[0]]) if fails(at) else None


def reference_labels(classifier: Classifier, records: Records) -> tuple[Labels, int]:
    """Return the records' labels, and the number of queries.

    Asked again, in another order and several times over, they must be the same.
    """
    every, again = np.arange(len(records)), _again(len(records))
    labels = answer(classifier, records, every)
    if not np.array_equal(labels[again], answer(classifier, records, again)):
        raise nondeterminism(classifier.name, lambda: answer(classifier, records, every), labels, *SAME_RECORDS)
    return labels, len(every) + len(again)


def _again(n: int) -> Indices:
    """Return the records that are asked about a second time."""
    least, most = ASKED_AGAIN
    return np.arange(max(least, min(n, most)))[::-1] % n


def true_labels(y: ArrayLike, labels: Labels, classifier: Classifier) -> NDArray[Any]:
    """Return the user's labels, one for each record, in the classifier's words."""
    if np.ma.is_masked(y):
        raise ValueError("y is a masked array with masked (missing) labels; leave out records without a label")
    truth = label_array(y, "y")
    if truth.shape != labels.shape:
        raise ValueError(f"y must hold one label per record, shape {labels.shape}, got {truth.shape}")
    if any(is_missing(label) for label in truth.tolist()):
        raise ValueError("y holds gaps (NaN or None); leave out records without a label")
    given, own = _kind(truth), _kind(labels)
    if "objects" not in (given, own) and (given == "texts") != (own == "texts"):
        raise ValueError(f"y holds {given} but the classifier answers {own}; encode y as it does")
    if classifier.classes is not None and not set(truth.tolist()) & set(classifier.classes):
        raise ValueError(
            f"y shares no value with the classifier's labels {list(classifier.classes)[:5]}; "
            "encode y as the classifier does"
        )
    return truth


def _kind(labels: NDArray[Any]) -> str:
    if labels.dtype == object and all(isinstance(label, (str, bytes)) for label in labels.tolist()):
        return "texts"
    return {"U": "texts", "S": "texts", "b": "booleans", "O": "objects"}.get(labels.dtype.kind, "numbers")
