"""How far can each record of a table move before its label can change?  `radius`, shared among workers, in pieces.

A piece is a range of records, and follows from the question and its range alone: every record's randomness begins anew
(`radius` is asked about it by itself), and the risk is divided over all records before any of them is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.arrays import Floats, Rng, generator
from epsworth.callbacks import check_callback
from epsworth.classifiers import Labels, as_classifier
from epsworth.classifiers.classifier import table_of
from epsworth.parallel import batches_of, check_n_jobs, in_order
from epsworth.records import Records
from epsworth.results import Result, Table, how_sure
from epsworth.rounding import show_down, show_up
from epsworth.utility.deadline import check_seconds
from epsworth.utility.engines.checkpoint import (
    Checkpoint,
    digest,
    digest_of_classifier,
    drawn_seeds,
    reading_piece,
    refusing_damaged,
    write_piece,
)
from epsworth.utility.engines.pieces import piece_size
from epsworth.utility.radius import Radius, bounded, check_options
from epsworth.utility.radius.question import RadiusQuestion, Tightening, ask, check_records, order_of
from epsworth.version import __version__

__all__ = ["Radii", "radii"]

PIECE = 16  # records at most: a radius can take a second
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)  # of the records, in print
NUMBERS = ("lower", "upper", "tested", "confidence", "spent")
ARRAYS = {**dict.fromkeys(NUMBERS, np.float64), "sound": np.bool_, "stopped": np.bool_, "seen": np.bool_}
SLACK = 2.0**-50  # per feature: sums of squares in another order


@dataclass(frozen=True, eq=False)
class Radii(Result):
    """The `Radius` of every record of a table; all hold together with ``confidence``.

    Attributes
    ----------
    radii : tuple of Radius
        In the order of the records.
    confidence : float
        1 where nothing was drawn.

    Examples
    --------
    >>> import epsworth as ew
    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])  # cuts at 0.5
    >>> found = ew.radii(model, [[0.0], [0.4], [2.0]])
    >>> found.lower.round(3).tolist(), found.nearest(1).tolist()
    ([0.5, 0.1, 1.5], [1])
    """

    radii: tuple[Radius, ...]
    confidence: float

    @cached_property
    def lower(self) -> Floats:
        """Distances at which no label has changed yet, shape ``(records,)``; 0 where nothing is proven."""
        return np.array([result.lower for result in self.radii])

    @cached_property
    def upper(self) -> Floats:
        """Distances of seen points with other labels, shape ``(records,)``; infinite where none was seen."""
        return np.array([result.upper for result in self.radii])

    @property
    def stopped(self) -> bool:
        """Whether the time of some record ran out."""
        return any(result.stopped for result in self.radii)

    def nearest(self, count: int = 5) -> np.ndarray[Any, np.dtype[np.intp]]:
        """Return the records whose labels change soonest, by what was seen, then by what is proven."""
        return np.lexsort((self.lower, self.upper))[:count]

    def shown(self) -> Sequence[str | Table]:
        """Return how far shares of the records can move, and what is not proven."""
        first, n = self.radii[0], len(self.radii)
        norm = "inf" if math.isinf(first.norm) else "2"
        lower, upper = np.sort(self.lower), np.sort(self.upper)
        at = [min(int(share * n), n - 1) for share in SHARES]  # so many records are no farther from another label
        heads = ["least" if share == 0 else f"{share:.0%}" for share in SHARES]
        rows = [
            ["proven", *(show_down(lower[place]) for place in at)],
            ["seen", *(show_up(upper[place]) for place in at)],
        ]
        title = f"Distance to another label, norm {norm} over {', '.join(first.features)}, by share of {n} records"
        methods = sorted({result.method for result in self.radii})
        told: list[str | Table] = [
            Table(title, ["records", *heads], rows),
            f"By {', '.join(methods)}; {how_sure(self.confidence)}.",
        ]
        if unproven := sum(not result.sound for result in self.radii):
            told.append(f"Of {unproven} records nothing is proven of every point: their proven distance counts as 0.")
        if stopped := sum(result.stopped for result in self.radii):
            told.append(f"The time of {stopped} records ran out; more can bring their bounds closer.")
        return told

    def __str__(self) -> str:
        """Return the table of distances, rounded to the safe side."""
        return "\n".join(str(part) for part in self.shown())


def radii(
    model: Any,
    X: Any,
    *,
    norm: float | str = 2,
    features: str | int | Sequence[str | int] | None = None,
    confidence: float = 0.999,
    rng: Rng = None,
    failing: float = 0.01,
    budget: int | None = None,
    seconds: float | None = None,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> Radii:
    """Bound, for every record of a table, how far its features can move before its label can change.

    Claim: every bound is that of `radius`, and all hold together with ``confidence``.  Without ``seconds`` no bit
    depends on the number of workers, on who did what, or on what was resumed.

    Parameters
    ----------
    model : classifier
        As of `radius`.
    X : array or data frame of shape ``(records, d)``
    norm, features, failing, budget
        As of `radius`.
    confidence : float
        Of all tested radii together: each record has an equal share of the risk.
    rng : numpy Generator or int, optional
        Where the randomness of all records begins; a resumed run takes that of its folder.
    seconds : float, optional
        Time of *each* record.
    n_jobs : int, optional
        Workers among which the records are shared; -1 for all cores, None as ``joblib.parallel_config`` says.
    checkpoint : path, optional
        A folder in which the pieces are kept as they are done; the same call goes on from it.
    progress : callable, optional
        Called with the share of the records that is done.

    Returns
    -------
    Radii

    Raises
    ------
    ValueError
        For another norm, features that are not there, a record (by its number) that holds what cannot move, and a
        folder of another question.
    ClassifierError
        Where the classifier fails, by the number of the record, or answers no labels.

    Examples
    --------
    >>> import epsworth as ew
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])  # cuts the first feature at 0.5
    >>> ew.radii(model, [[0.2, 0.7], [0.9, 0.1]]).upper.round(3).tolist()
    [0.3, 0.4]
    """
    check_options(confidence, failing, budget)
    check_seconds(seconds)
    check_n_jobs(n_jobs)
    check_callback("progress", progress)
    order_of(norm)
    classifier, random = as_classifier(model), generator(rng)
    records = table_of(classifier, X)
    if not len(records):
        raise ValueError("X must have records, got a table without rows")
    each = float(np.nextafter(1 - (1 - confidence) / len(records), 1))
    if each >= 1:
        raise ValueError(f"confidence {confidence!r} leaves nothing for each of {len(records)} records; lower it")
    labels = check_records(classifier, records, features)
    settings = {"confidence": each, "failing": failing, "budget": budget}
    piece = _Piece(classifier, records, {"norm": norm, "features": features}, settings, seconds)
    first = piece.ask(0)
    size, folder = min(piece_size(len(records), n_jobs), PIECE), None
    if checkpoint is not None:
        options = {"confidence": confidence, "failing": failing, "budget": budget, "seconds": seconds}
        asked = _described(classifier, records, labels, first, **options)
        folder = Checkpoint(checkpoint, asked, len(records), size, random)
        size = folder.size
    piece = replace(piece, seeds=drawn_seeds(random) if folder is None else folder.seeds)
    result: dict[range, list[Radius]] = {}
    pieces = batches_of(len(records), size)
    for done in pieces if folder is not None else ():
        if folder is not None and _file(folder, done).exists():
            result[done] = _read(_file(folder, done), folder.digest, done, first, piece)
    left = [wanted for wanted in pieces if wanted not in result]
    with closing(in_order(piece, left, n_jobs=n_jobs)) as answers:
        for wanted, answer in zip(left, answers, strict=True):
            if folder is not None:
                _write(_file(folder, wanted), folder.digest, answer)
            result[wanted] = answer
            if progress is not None:
                progress(sum(map(len, result)) / len(records))
    all_found = tuple(one for wanted in pieces for one in result[wanted])
    return Radii(all_found, confidence if any(one.confidence < 1 for one in all_found) else 1.0)


@dataclass(frozen=True)
class _Piece:
    """What workers do: every record of a range by itself, its randomness begun anew."""

    classifier: Any
    records: Records
    problem: dict[str, Any]
    settings: dict[str, Any]
    seconds: float | None
    seeds: tuple[int, ...] = ()

    def __call__(self, piece: range) -> list[Radius]:
        """Return the radii of some records."""
        result = []
        for record in piece:
            rng = np.random.default_rng(np.random.SeedSequence(self.seeds, spawn_key=(record,)))
            asked = self.ask(record, Tightening(self.seconds))
            result.append(bounded(asked, rng, **self.settings))
        return result

    def ask(self, record: int, run: Tightening | None = None) -> RadiusQuestion:
        """Return the question about a record."""
        x = self.records.take(np.array([record]))
        return ask(self.classifier, x, run=run, number=record, **self.problem)


def _described(
    classifier: Any, records: Records, labels: Labels, first: RadiusQuestion, **settings: object
) -> dict[str, str]:
    """Say what is asked, by the words of a refusal."""
    rows = np.unique(np.linspace(0, len(records) - 1, 64).astype(np.intp))
    return {
        "version of epsworth": __version__,
        "records": digest(records.names, *(records.column(place) for place in range(len(records.names)))),
        "the model": digest_of_classifier(classifier),
        "answers of the classifier": digest(labels[rows]),
        "norm": "inf" if math.isinf(first.norm) else "2",
        "features": ", ".join(first.names),
    } | {name: f"{value}" for name, value in settings.items()}


def _file(folder: Checkpoint, piece: range) -> Path:
    return folder.path / f"{piece.start:012d}-radii.npz"


def _write(path: Path, asked: str, found: list[Radius]) -> None:
    arrays: dict[str, Any] = {
        "lower": [one.lower for one in found],
        "upper": [one.upper for one in found],
        "tested": [math.nan if one.tested is None else one.tested for one in found],
        "confidence": [one.confidence for one in found],
        "spent": [one.spent for one in found],
        "sound": [one.sound for one in found],
        "stopped": [one.stopped for one in found],
        "seen": [one.witness is not None for one in found],
    }
    arrays = {name: np.array(values, dtype=ARRAYS[name]) for name, values in arrays.items()}
    nothing = np.full(len(found[0].features), math.nan)
    arrays["witness"] = np.array([nothing if one.witness is None else one.witness for one in found], dtype=np.float64)
    write_piece(path, asked, arrays, methods=[one.method for one in found], notes=[one.notes for one in found])


def _read(path: Path, asked: str, done: range, first: RadiusQuestion, piece: _Piece) -> list[Radius]:
    """Return the radii that a file holds; refuse a damaged one, or one of another question."""
    with reading_piece(path, asked) as (words, arrays), refusing_damaged():
        columns = {name: arrays[name].tolist() for name in ARRAYS}
        columns |= {"witness": list(arrays["witness"]), "method": words["methods"], "notes": words["notes"]}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return [_restored(row, first, piece.settings["failing"]) for row in rows]


def _restored(kept: dict[str, Any], first: RadiusQuestion, failing: float) -> Radius:
    sampled = kept["method"] == "sampled"
    return Radius(
        lower=kept["lower"], upper=kept["upper"], norm=first.norm, features=first.names, method=kept["method"],
        confidence=kept["confidence"], sound=kept["sound"], witness=kept["witness"] if kept["seen"] else None,
        tested=kept["tested"] if sampled else None, failing=failing if sampled else None,
        spent=kept["spent"], stopped=kept["stopped"], notes=tuple(kept["notes"]),
    )  # fmt: skip
