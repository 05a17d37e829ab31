"""Curves of any number of records, in files: a part for every range of them, read one at a time.

For records so many that the bounds of all do not fit into memory.  Averages, worst cases and what follows for a
population go once through the parts, in the memory of one of them.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval
from epsworth.documents import in_words, read_as, read_json
from epsworth.files import file_named, file_sha256, reading, replacing
from epsworth.frames import frame_of
from epsworth.guarantees import Guarantee, promise_from_dict, promise_to_dict
from epsworth.numerals import short
from epsworth.parallel import batches_of
from epsworth.results import Result, Table, json_form
from epsworth.rounding import round_down, show_down, show_up
from epsworth.threads import one_openmp_thread
from epsworth.utility.curves import FEWEST_ROWS, MOST_SHOWN, WIDTH, Curves, Quantity, averages
from epsworth.utility.deadline import Deadline
from epsworth.utility.engines.checkpoint import OWNER_ONLY, Checkpoint, check_folder, piece_path, read_piece
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.pieces import Work, piece_size
from epsworth.utility.engines.run import READ, Answered, promised
from epsworth.utility.engines.run import run as solve
from epsworth.utility.figures import long_columns, promises, view_of
from epsworth.utility.population import Population, check_at, default_confidence, population_of_counts
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds, Histogram, Totals, with_coin
from epsworth.utility.run import Run, RunOptions
from epsworth.utility.tailored_policies import TailoredProblem

FORMAT = "epsworth-curve-parts-1"
RESULT, LABELS, RIGHT = "curves.json", "labels.npy", "right.npy"


@dataclass(frozen=True)
class Source:
    """Which mechanisms an engine has answered for, and the number under which its pieces are filed."""

    mechanisms: tuple[int, ...]
    engine: str
    number: int


@dataclass(frozen=True, repr=False, eq=False)
class CurveParts(Result):
    """The answer of `stability_in_parts`: `Curves` of many records, part by part.

    Claim: that of `Curves`: with probability at least ``confidence`` all bounds of all parts hold together, and those
    on the average and the worst case.

    Attributes
    ----------
    folder : Path
        Where the parts are.
    mechanisms, epsilons, features, passing, guarantees, tight_epsilons, confidence, tolerance, queries, seconds, \
notes, spent, stopped
        As in `Curves`.
    records, size : int
        How many there are, and how many a part holds.
    reveal : ndarray, shape ``(mechanisms, epsilons)``
        Probability with which a privacy indicator asks about the raw record.
    sources : tuple of Source
        Who answered for which mechanisms.
    digest : str
        Of the question; every file holds it.
    with_accuracy : bool
        Whether true labels were given.
    files : mapping
        The SHA-256 of what lies beside the parts.

    Examples
    --------
    >>> import tempfile
    >>> import epsworth as ew
    >>> problem = ew.Problem.of(
    ...     lambda X: X[:, 0] <= 0.5, [[0.2], [0.8]], sensitive=0, mechanisms="krr:k=11", epsilons=[1, 2]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = ew.stability_in_parts(problem, f"{folder}/curves")
    ...     again = ew.CurveParts.load(f"{folder}/curves")
    ...     [part.lower.shape for part in again], again.average().lower.round(3).tolist()
    ([(1, 2, 1), (1, 2, 1)], [[0.568, 0.684]])
    """

    folder: Path
    mechanisms: tuple[str, ...]
    epsilons: Floats
    features: tuple[str, ...]
    passing: tuple[str, ...]
    guarantees: tuple[tuple[Guarantee, ...], ...]
    tight_epsilons: Floats
    records: int
    size: int
    confidence: float
    tolerance: float
    queries: int
    seconds: float
    notes: tuple[str, ...]
    spent: float
    stopped: bool
    reveal: Floats
    sources: tuple[Source, ...]
    digest: str
    with_accuracy: bool
    files: Mapping[str, str]

    over: ClassVar[str] = "records"
    built_from: ClassVar[tuple[str, ...]] = ()

    @property
    def method(self) -> NDArray[np.str_]:
        """The engine of every mechanism, shape ``(mechanisms, 1)``."""
        return self._unknown(self.ranges[0][:1]).method

    @property
    def accuracy(self) -> bool | None:
        """None where there are no true labels, and so no bounds on the accuracy."""
        return True if self.with_accuracy else None

    @cached_property
    def ranges(self) -> list[range]:
        """The records of every part."""
        return batches_of(self.records, self.size)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The classifier's labels of the records, shape ``(records,)``, in a file."""
        return self._array(LABELS)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(mechanisms, epsilons, records)."""
        return len(self.mechanisms), len(self.epsilons), self.records

    @cached_property
    def labels_possible(self) -> NDArray[np.int64]:
        """How many labels were seen of every record, shape ``(records,)``: a number for each."""
        result = np.ones(self.records, dtype=np.int64)
        for piece, part in zip(self.ranges, self, strict=True):
            result[piece.start : piece.stop] = part.labels_possible
        return result

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.ranges)

    def __iter__(self) -> Iterator[Curves]:
        """Yield the curves of one part after the other."""
        return map(self.part, range(len(self)))

    def part(self, number: int) -> Curves:
        """Return the curves of one part; of what was not finished nothing is known: 0 to 1."""
        if not 0 <= number < len(self):
            raise ValueError(f"there is no part {number}; the folder holds parts 0 to {len(self) - 1}")
        return self._curves(self.ranges[number])

    def whole(self) -> Curves:
        """Return the curves of all records, in memory."""
        parts = list(self)

        def joined(found: list[Bounds]) -> Bounds:
            lower = np.concatenate([bounds.lower for bounds in found], axis=2)
            upper = np.concatenate([bounds.upper for bounds in found], axis=2)
            return Bounds(lower, upper)

        stability = joined([part.stability for part in parts])
        accuracy = [part.accuracy for part in parts if part.accuracy is not None]
        possible, labels = (np.concatenate([getattr(p, name) for p in parts]) for name in ("labels_possible", "labels"))
        method = np.concatenate([part.method for part in parts], axis=1)
        return self._of(stability, joined(accuracy) if accuracy else None, labels, possible, method)

    def average(self, of: Quantity = "stability") -> Interval:
        """Return ``(lower, upper)`` for the average over the records, each ``(mechanisms, epsilons)``."""
        return self._totals[self._held(of)].average(self.records)

    def worst(self, of: Quantity = "stability") -> Interval:
        """Return ``(lower, upper)`` for the worst of these records, each ``(mechanisms, epsilons)``."""
        return self._totals[self._held(of)].worst()

    def select(self, on: str | int, of: Quantity = "stability") -> Interval:
        """Return the bounds on the ``"average"``, the ``"worst"`` case, or a record by number."""
        if isinstance(on, (int, np.integer)) and not isinstance(on, bool):
            if not 0 <= on < self.records:
                raise ValueError(f"on: there is no record {short(on)}; the curves hold records 0 to {self.records - 1}")
            number, at = divmod(int(on), self.size)
            return self.part(number).select(at, self._held(of))
        if not isinstance(on, str) or on not in ("average", "worst"):
            raise ValueError(f"on must be 'average', 'worst' or a record number from 0, got {short(on)}")
        return self.average(of) if on == "average" else self.worst(of)

    def population(
        self, of: Quantity = "stability", *, confidence: float | None = None, at: Sequence[int] | slice = slice(None)
    ) -> Population:
        """Return bounds on the average over the population of which the records are independent draws.

        As `Curves.population`; the bounds of records are rounded to 2^14 steps, to the safe side, and counted.
        """
        at = check_at(at, self.shape[1])
        result, average = self._histograms[self._held(of)], self.average(of)
        return population_of_counts(
            result.values,
            (result.of(0)[:, at], result.of(1)[:, at]),
            Interval(*(side[:, at] for side in average)),
            confidence=default_confidence(self.confidence) if confidence is None else confidence,
            spent=self.spent,
            among=self.tight_epsilons.size * (1 + self.with_accuracy),
        )

    def __repr__(self) -> str:
        m, e, n = self.shape
        return (
            f"<CurveParts: {m} mechanisms x {e} epsilons x {n} records in {len(self)} parts of {self.folder}, "
            f"confidence {show_down(self.confidence)}, {self.queries} queries, {self.seconds:.1f} s>"
        )

    def __str__(self) -> str:
        """Return a small table of the guaranteed average and worst case, rounded down, and what one must know of it."""
        return "\n\n".join(map(str, self.shown()))

    def shown(self) -> list[str | Table]:
        """Return the tables that `print` and a notebook show, and what one must know of them."""
        at = np.unique(np.linspace(0, self.epsilons.size - 1, min(self.epsilons.size, MOST_SHOWN)).astype(int))
        heads = ["mechanism", *(show_up(self.epsilons[e]) for e in at)]
        result: list[str | Table] = [repr(self)]
        for on in ("average", "worst"):
            lower = self.select(on).lower[:, at].tolist()
            rows = [[m, *(f"{round_down(x):.3f}" for x in row)] for m, row in zip(self.mechanisms, lower, strict=True)]
            title = f"stability, {view_of(on, self.records)}: at least, by epsilon per record"
            result.append(Table(title, heads, rows))
        if self.records >= FEWEST_ROWS:
            within = self.population(at=at.tolist())
            rows = [[name, *row] for name, row in zip(self.mechanisms, within.rows(), strict=True)]
            result.append(Table(f"stability, {within.words}: from - to, by epsilon per record", heads, rows))
        lines = [textwrap.fill(promised, WIDTH, subsequent_indent="  ") for promised in self.promises()]
        return [*result, "\n".join([*lines, *(f"Note, {note}." for note in self.notes)])]

    def promises(self) -> list[str]:
        """Say which mechanisms keep which promise per record."""
        return promises(self.mechanisms, self.epsilons, self.guarantees)

    def to_frame(self) -> Any:
        """Return averages and worst cases as a data frame: mechanism, epsilon (per record), quantity, lower, upper."""
        return frame_of(long_columns(self.mechanisms, self.epsilons, averages(self)), "a table of bounds")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: average, worst case and population; no record."""
        quantities: tuple[Quantity, ...] = ("stability", "accuracy") if self.with_accuracy else ("stability",)
        summaries: dict[str, Any] = {
            of: {
                name: {"lower": side.lower.tolist(), "upper": side.upper.tolist()}
                for name, side in (("average", self.average(of)), ("worst", self.worst(of)))
            }
            | {"population": self.population(of).to_dict()}
            for of in quantities
        }
        return self._head() | {"folder": str(self.folder), **summaries}

    def _head(self) -> dict[str, Any]:
        kept = {name: value for name, value in super().to_dict().items() if name not in ("folder", "guarantees")}
        promised = [[promise_to_dict(promise) for promise in row] for row in self.guarantees]
        return {"format": FORMAT, **kept, "guarantees_per_record": promised}

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open a folder that `stability_in_parts` wrote; its parts are read, and checked, when they are asked for."""
        path = file_named(folder, "folder")
        if not (path / RESULT).is_file():
            raise ValueError(f"{path} holds no curves in parts, or their run has not ended; run it (again)")
        with reading(path / RESULT, "curves in parts") as content:
            document = read_json(content)
            if not isinstance(document, Mapping) or document.get("format") != FORMAT:
                raise ValueError(f"this is not an {FORMAT} document")
            kept = {name: value for name, value in document.items() if name != "sha256"}
            if document.get("sha256") != _digest(kept):
                raise ValueError("damaged or edited; run it again")
            try:
                result = cls._read(path, document)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
                raise ValueError(f"damaged or incomplete ({in_words(error)}); run it again") from None
        return result

    @classmethod
    def _read(cls, folder: Path, told: Mapping[str, Any]) -> Self:
        tight = np.array(told["tight_epsilons"], dtype=np.float64)
        result: Self = read_as(
            cls, told, folder=folder, tight_epsilons=np.where(np.isnan(tight), np.inf, tight),
            guarantees=tuple(tuple(map(promise_from_dict, row)) for row in told["guarantees_per_record"]),
        )  # fmt: skip
        if result.size < 1 or result.records < 1:
            raise ValueError("records and size must be positive")
        if result.labels.shape != (result.records,):  # a file, before anything is as long as a number says
            raise ValueError("labels must be as many as records")
        return result

    def _held(self, of: Quantity) -> Quantity:
        if of not in ("stability", "accuracy"):
            raise ValueError(f"of must be 'stability' or 'accuracy', got {short(of)}")
        if of == "accuracy" and not self.with_accuracy:
            raise ValueError("these curves hold no accuracy; pass the true labels as y")
        return of

    def _array(self, name: str) -> NDArray[Any]:
        path = self.folder / name
        try:
            if file_sha256(path) != self.files[name]:
                raise ValueError
            result: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            if result.shape != (self.records,):
                raise ValueError
        except (OSError, ValueError, EOFError, KeyError):
            raise ValueError(f"{path}: is damaged or not there; run it again") from None
        return result

    def _unknown(self, piece: range) -> Curves:
        """Return curves of which nothing is known."""
        m, e, _ = self.shape
        bounds = Bounds(np.zeros((m, e, len(piece))), np.ones((m, e, len(piece))))
        labels = self.labels[piece.start : piece.stop]
        method = np.empty((m, len(piece)), dtype="U40")
        for source in self.sources:
            method[list(source.mechanisms)] = source.engine
        accuracy = Bounds(bounds.lower.copy(), bounds.upper.copy()) if self.with_accuracy else None
        return self._of(bounds, accuracy, np.array(labels), np.ones(len(piece), dtype=np.int64), method)

    def _curves(self, piece: range) -> Curves:
        result = self._unknown(piece)
        for source in self.sources:
            path, at = piece_path(self.folder, source.number, piece), list(source.mechanisms)
            if self.stopped and not path.exists():
                continue
            shape = len(at), len(self.epsilons), len(piece)
            answer = read_piece(path, self.digest, shape, self.with_accuracy)
            raws = [np.ones(len(piece)), *([self._right[piece.start : piece.stop]] if self.with_accuracy else [])]
            for own, all_, raw in zip((answer.stability, answer.accuracy), (result.stability, result.accuracy), raws,
                                      strict=False):  # fmt: skip
                if own is not None and all_ is not None:
                    mixed = with_coin(own, self.reveal[at], raw.astype(np.float64))
                    all_.lower[at], all_.upper[at] = mixed.lower, mixed.upper
            np.maximum(result.labels_possible, answer.labels_possible, out=result.labels_possible)
        return result

    @cached_property
    def _right(self) -> NDArray[Any]:
        return self._array(RIGHT)

    @cached_property
    def _totals(self) -> dict[Quantity, Totals]:
        return self._through(Totals)

    @cached_property
    def _histograms(self) -> dict[Quantity, Histogram]:
        return self._through(Histogram)

    def _through(self, kind: Any) -> dict[Quantity, Any]:
        """Go once through the parts."""
        quantities: tuple[Quantity, ...] = ("stability", "accuracy") if self.with_accuracy else ("stability",)
        result: dict[Quantity, Any] = {of: kind(self.shape[:2]) for of in quantities}
        for part in self:
            for of, sums in result.items():
                bounds = part.bounds(of)
                sums.add(bounds.lower, bounds.upper)
        return result

    def _of(
        self, stability: Bounds, accuracy: Bounds | None, labels: NDArray[Any], possible: NDArray[np.int64],
        method: NDArray[np.str_],
    ) -> Curves:  # fmt: skip
        same = {n: getattr(self, n) for n in ("mechanisms", "epsilons", "features", "passing", "guarantees")}
        told = {
            n: getattr(self, n)
            for n in ("tight_epsilons", "confidence", "tolerance", "queries", "seconds", "notes", "spent")
        }
        return Curves(
            stability=stability, accuracy=accuracy, labels=labels, labels_possible=possible, method=method,
            over="records", stopped=self.stopped, **same, **told,
        )  # fmt: skip


def stability_in_parts(problem: Problem | TailoredProblem, folder: str | Path, **run: Unpack[RunOptions]) -> CurveParts:
    """Do what `stability` does for every record, and leave the bounds in a folder.

    Claim: that of `stability` with ``over="records"``, and to the last bit its bounds on every record.

    Parameters
    ----------
    problem : Problem
        What is asked: `Problem.of` takes what `stability` takes, `problem_of_policy` what `stability_of_policy`
        takes; no tailored mechanism, and no policy that samples features.
    folder : path
        Made where it is not there.  It is a checkpoint, too: the same call goes on from what it holds, with any number
        of workers.  It is computed from raw data: keep it as you keep the table.
    **run : RunOptions
        As for `stability`, but for ``over`` and ``checkpoint``.

    Returns
    -------
    CurveParts

    Raises
    ------
    ValueError
        Where the folder belongs to another question, or holds anything else; and whatever `stability` raises.

    Examples
    --------
    >>> import tempfile
    >>> import epsworth as ew
    >>> problem = ew.Problem.of(
    ...     lambda X: X[:, 0] <= 0.5, [[i / 999] for i in range(1000)], sensitive=0, mechanisms="krr:k=11", epsilons=[2]
    ... )
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = ew.stability_in_parts(problem, f"{place}/curves")
    ...     len(found), found.average().lower.round(3).item(), found.worst().lower.round(3).item()
    (16, 0.665, 0.288)
    """
    if not isinstance(problem, Problem):
        raise TypeError(
            f"problem must be what Problem.of or problem_of_policy returns, got {short(problem)}; "
            "a tailored policy is analysed for all records at once, by stability_of_policy"
        )
    if "over" in run or "checkpoint" in run:
        raise TypeError("parts hold every record, and their folder is the checkpoint; leave out over and checkpoint")
    if problem.words.tailored:
        raise ValueError("tailored mechanisms are built from all records at once; use stability")
    if problem.subsets:
        raise ValueError("a policy that samples features is analysed for all records at once; use stability_of_policy")
    run["over"] = "records"
    how = Run.of(**run)
    problem.check_unchanged()
    check_folder(folder, "folder")
    how.deadline.progress(READ / 2)
    n, n_jobs = len(problem.records), how.n_jobs
    pieces = Checkpoint(folder, how.asked_in_files(problem), n, piece_size(n, n_jobs), how.settings.rng)
    files = _write_labels(pieces, problem)
    work = Work(n_jobs, pieces, filed=True)
    with one_openmp_thread():
        answered, _ = solve(problem, how.method, how.settings, "records", how.deadline, work=work)
    parts = _parts_of(pieces, problem, answered, how.settings, how.deadline, files)
    head = json_form(parts._head())
    text = json.dumps(head | {"sha256": _digest(head)}, allow_nan=False)
    with replacing(pieces.path / RESULT, OWNER_ONLY) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return parts


def _digest(head: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()


def _write_labels(pieces: Checkpoint, problem: Problem) -> dict[str, str]:
    """Keep what parts need of the records beside the bounds: labels, and whether these are the true ones."""
    held, digests = {LABELS: _plain(problem.labels)}, dict[str, str]()
    if problem.y is not None:
        held[RIGHT] = np.asarray(problem.labels == problem.y)
    for name, array in held.items():
        with replacing(pieces.path / name, OWNER_ONLY) as temporary:
            np.save(temporary, array, allow_pickle=False)
            digests[name] = file_sha256(temporary)
    return digests


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    plain = np.array(labels.tolist())
    if plain.dtype.hasobject or plain.tolist() != labels.tolist():
        raise ValueError("the labels are of several kinds, which a file does not hold; let the classifier answer texts")
    return plain


def _parts_of(
    pieces: Checkpoint, problem: Problem, answered: Answered, settings: Settings, deadline: Deadline,
    files: Mapping[str, str],
) -> CurveParts:  # fmt: skip
    parts = CurveParts(
        folder=pieces.path,
        records=len(problem.records),
        size=pieces.size,
        tolerance=float(settings.tolerance),
        reveal=problem.reveal,
        sources=tuple(Source(part.mechanisms, part.engine.name, part.number) for part, _ in answered),
        digest=pieces.digest,
        with_accuracy=problem.y is not None,
        files=files,
        **promised(problem, answered, settings, deadline),
    )
    return replace(parts, notes=(*parts.notes, *_ending(parts, deadline)))


def _ending(parts: CurveParts, deadline: Deadline) -> list[str]:
    if parts.stopped:
        return [
            f"the run was stopped {deadline.stopped}: all bounds hold, those of records that were not finished are 0 "
            "to 1; the same call goes on where this one ended"
        ]
    wide = parts._totals["stability"].width
    return [
        f"{name}: bounds are up to {float(row.max()):.3g} wide, more than the tolerance allows"
        for name, row in zip(parts.mechanisms, wide, strict=True)
        if row.max() > 2 * parts.tolerance * (1 + 1e-9)
    ]


__all__ = ["CurveParts", "stability_in_parts"]
