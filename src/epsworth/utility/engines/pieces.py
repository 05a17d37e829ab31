"""A part of a plan in pieces: ranges of records, done by workers or one after the other, and kept in files.

A piece is a pure function of the question, the settings and its range.  Engines bound record by record; randomness
begins anew for every record, whoever asks (`Settings.stream`); what is read of the classifier is read before, for all
records, and travels; and the risk is divided over all records before some of them take their shares.  So the bits do
not depend on who did which piece, on their sizes, or on what an earlier run left.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from epsworth.arrays import Bools
from epsworth.bounds import Risk
from epsworth.parallel import alone, batches_of, in_order, workers
from epsworth.threads import one_thread
from epsworth.utility.deadline import Stopped
from epsworth.utility.engines.checkpoint import Checkpoint, CheckpointState, piece_path, read_piece
from epsworth.utility.engines.engine import Counts, Engine, EngineResult, Settings, ignore, quantities
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds, Totals, with_coin

PIECE = 64  # records
EACH = 8  # pieces per worker, at least, where there are records enough
MOST = 1_024  # pieces beyond which they rather grow
GRACE = 1.0  # seconds after its deadline in which workers hand in what they have proven


@dataclass(frozen=True)
class Work:
    """Who does the work, and where its pieces are kept.

    Attributes
    ----------
    n_jobs : int, optional
    checkpoint : Checkpoint, optional
    filed : bool
        Whether bounds stay in the files of the checkpoint; else they are gathered in arrays.
    """

    n_jobs: int | None = None
    checkpoint: Checkpoint | None = None
    filed: bool = False

    def state(self, part: str) -> CheckpointState:
        """Return the place of the state of a part of the run."""
        return CheckpointState(self.checkpoint, part)


WHOLE = Work()


def piece_size(records: int, n_jobs: int | None) -> int:
    """Return how many records make a piece: enough pieces for all workers, and not too many files."""
    return max(1, min(-(-records // (EACH * workers(n_jobs))), max(PIECE, -(-records // MOST))))


@dataclass(frozen=True)
class Piece:
    """What workers do: an engine answers about a range of the records.

    ``miss`` is the engine's share of the risk, which pays for the bounds of all records together; ``options`` are
    those of `Settings` that travel.
    """

    engine: Engine
    problem: Problem
    miss: Fraction
    options: dict[str, Any]

    def settings(self, piece: range) -> Settings:
        """Return the settings for some records; nobody sees how far a worker is within a piece."""
        return Settings(Risk(self.miss), rng=np.random.default_rng(0), progress=ignore, **self.options)

    def __call__(self, piece: range) -> EngineResult | None:
        """Return the answer about some records; what it spent is told with it."""
        settings = self.settings(piece)
        result = self.engine.bound(replace(self.problem, start=piece.start, stop=piece.stop), settings)
        return None if result is None else replace(result, spent=result.spent + settings.risk.spent)


@dataclass(frozen=True)
class LocalPiece(Piece):
    """What this process does: it shows how far it is, and leaves the state of a piece in a checkpoint."""

    run: Settings
    sink: Gathered | Filed

    def settings(self, piece: range) -> Settings:
        """Return the settings for some records, whose bounds are shown among those of all."""
        n, run = len(self.problem.records), self.run

        def progress(share: float) -> None:
            run.progress((piece.start + share * len(piece)) / n)

        def follow(current: Callable[[], Bounds]) -> None:
            run.follow(lambda: self.sink.bounds(piece, current()))

        state = run.state.under(f"{piece.start}")
        return replace(run, risk=Risk(self.miss), progress=progress, follow=follow, state=state)


def bounded(engine: Engine, problem: Problem, settings: Settings, work: Work, number: int) -> EngineResult | None:
    """Let an engine bound a question, in pieces where the work is cut; ``number`` is that of the part."""
    cut = work.checkpoint is not None or not alone(work.n_jobs)
    if not (cut and engine.by_record(problem, settings)):
        with one_thread() if engine.multiplies else nullcontext():
            return engine.bound(problem, settings)
    settings, n, checkpoint = settings.seeded(), len(problem.records), work.checkpoint
    sink = Filed(problem) if work.filed else Gathered(problem)
    settings.follow(sink.bounds)
    size = piece_size(n, work.n_jobs) if checkpoint is None else checkpoint.size
    with closing(_results(engine, problem, settings, work, number, sink, batches_of(n, size))) as results:
        for piece, result in results:
            if result is None:
                return None
            sink.put(piece, result)
            settings.progress(piece.stop / n)
    return sink.result()


def _results(
    engine: Engine, problem: Problem, settings: Settings, work: Work, number: int, sink: Gathered | Filed,
    pieces: list[range],
) -> Generator[tuple[range, EngineResult | None], None, None]:  # fmt: skip
    """Yield pieces in order, those that an earlier run has done among them, until the run must end."""
    deadline, checkpoint, here = problem.deadline, work.checkpoint, alone(work.n_jobs)
    (m, e, _), with_accuracy = problem.shape, problem.y is not None

    def check() -> None:
        try:
            deadline.check()
        except Stopped:
            if here or deadline.late(GRACE):
                raise

    done = set[range]() if checkpoint is None else {piece for piece in pieces if checkpoint.has(number, piece)}
    options = {name: getattr(settings, name) for name in ("tolerance", "at_least", "batch", "seeds")}
    doing = Piece(engine, problem, settings.risk.each, options)
    if here:
        doing = LocalPiece(engine, problem, settings.risk.each, options, settings, sink)
    ready = in_order(doing, [piece for piece in pieces if piece not in done], n_jobs=work.n_jobs, idle=check)
    try:
        for piece in pieces:
            if piece in done and checkpoint is not None:
                path = piece_path(checkpoint.path, number, piece)
                yield piece, read_piece(path, checkpoint.digest, (m, e, len(piece)), with_accuracy)
                continue
            check()
            result = next(ready)
            if checkpoint is not None and result is not None and result.open is None:
                checkpoint.write(number, piece, result)
                settings.state.under(f"{piece.start}").drop()
            settings.follow(sink.bounds)
            yield piece, result
    except Stopped:
        pass
    finally:
        ready.close()


class Gathered:
    """Where pieces are put together: all records' bounds in arrays."""

    def __init__(self, problem: Problem) -> None:
        m, e, n = problem.shape
        self.sides = np.zeros((quantities(problem), 2, m, e, n))
        self.sides[:, 1] = 1.0
        self.possible: Counts = np.ones(n, dtype=np.int64)
        self.open: Bools = np.ones((m, n), dtype=bool)
        self.queries, self.spent = 0, Fraction(0)

    def put(self, piece: range, result: EngineResult) -> None:
        """Take in a piece."""
        at = slice(piece.start, piece.stop)
        for side, bounds in zip(self.sides, (result.stability, result.accuracy), strict=False):
            if bounds is not None:
                side[0, ..., at], side[1, ..., at] = bounds.lower, bounds.upper
        self.possible[at] = result.labels_possible
        self.open[:, at] = False if result.open is None else result.open
        self.queries, self.spent = self.queries + result.queries, self.spent + result.spent

    def bounds(self, piece: range = range(0), current: Bounds | None = None) -> Bounds:
        """Return what is known by now, of a piece that is being done too; it grows tighter with every piece."""
        lower, upper = self.sides[0]
        if current is not None:
            lower[..., piece.start : piece.stop], upper[..., piece.start : piece.stop] = current.lower, current.upper
        return Bounds(lower, upper)

    def result(self) -> EngineResult:
        """Return all that is known."""
        accuracy = Bounds(*self.sides[1]) if len(self.sides) > 1 else None
        open_ = self.open if self.open.any() else None
        return EngineResult(Bounds(*self.sides[0]), accuracy, self.possible, self.queries, self.spent, open_)


class Filed:
    """Where pieces are put together: nothing but the average, as the bounds of the records stay in their files."""

    def __init__(self, problem: Problem) -> None:
        m, e, n = problem.shape
        self.reveal, self.raw = problem.reveal, np.ones(n)
        self.shape, self.records, self.totals = (m, e, 0), n, Totals((m, e))
        self.queries, self.spent = 0, Fraction(0)

    def put(self, piece: range, result: EngineResult) -> None:
        """Take in a piece; what is not finished is not in a file, and is not known."""
        if result.open is None:
            bounds = with_coin(result.stability, self.reveal, self.raw[: len(piece)])
            self.totals.add(bounds.lower, bounds.upper)
        self.queries, self.spent = self.queries + result.queries, self.spent + result.spent

    def bounds(self, piece: range = range(0), current: Bounds | None = None) -> Bounds:
        """Return the average, and no record."""
        return Bounds(np.zeros(self.shape), np.zeros(self.shape), self.totals.average(self.records))

    def result(self) -> EngineResult:
        """Return what there is beside the files."""
        open_ = None if self.totals.records == self.records else np.ones((self.shape[0], 1), dtype=bool)
        return EngineResult(self.bounds(), None, np.zeros(0, dtype=np.int64), self.queries, self.spent, open_)
