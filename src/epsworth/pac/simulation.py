"""The algorithm's outputs in many worlds: in parallel, resumable, failures mapped to a default.

Where sums over rows decide an output, all worlds are done in one pass over the pool.  Sums are exact.  Moments, less
the pool's mean, become whole multiples of 2**-35 of their largest; three digits of twelve bits each are summed in
single precision, at most `ROWS` rows at a time, so that no sum leaves the whole numbers below 2**24.  So an output is
the same to the last bit however many worlds are done together, on any number of threads, and a fresh sub-sample's is
that of the function that was certified: only the function differs from a fit, by at most 2**-36 of the largest moment
in every mean.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, slices
from epsworth.files import check_writable, replacing
from epsworth.pac.allocation import allocate
from epsworth.pac.fingerprints import mark
from epsworth.pac.mechanism import Labels, Mechanism, as_numbers
from epsworth.pac.pool import frame_text, rows_of
from epsworth.pac.worlds import OF_THIS_PROCESS, Bytes, Sampler, SecretSeed, Seed
from epsworth.parallel import Idle, batches_of, in_order
from epsworth.records import Indices
from epsworth.refusals import raised_in

Whole = NDArray[np.int64]
DIGIT, DIGITS = 12, 3
ROWS = 1 << 13  # summed together: 2**13 digits of at most 2**11 stay below 2**24
CELLS = 1 << 21  # of a chunk's digits
MOST_MOMENTS = 4096
MOST_ROWS = 1 << 27  # 2**27 rows of 2**35 stay within 64 bits
TOGETHER = 1 << 27  # bytes of packed worlds that are done together
WORK = 2.0**36  # additions that are done together


@dataclass(frozen=True, eq=False)
class Moments:
    """The pool's moments as whole numbers.

    Attributes
    ----------
    centre, unit : ndarray, shape ``(k,)``
        A moment is the centre plus a whole number of units.
    total : ndarray of int64, shape ``(k + 1,)``
        Sums over the pool, of ones last.
    """

    centre: Floats
    unit: Floats
    total: Whole

    @classmethod
    def of(cls, mechanism: Mechanism, X: Floats, y: Labels | None) -> Moments | None:
        """Return the pool's moments, or None where the mechanism declares none that can be summed exactly."""
        first = _moments(mechanism, X[:1], y, slice(0, 1))
        if first is None or not 1 <= first.shape[1] <= MOST_MOMENTS or len(X) > MOST_ROWS:
            return None
        found = [(part.sum(axis=0), part.min(axis=0), part.max(axis=0)) for part in _parts(mechanism, X, y)]
        sums, least, most = (np.array(column) for column in zip(*found, strict=True))
        if not (np.isfinite(sums).all() and np.abs(sums).max() < LARGEST):
            return None
        centre = sums.sum(axis=0) / len(X)
        away = np.maximum(most.max(axis=0) - centre, centre - least.min(axis=0))
        unit = np.ldexp(1.0, np.maximum(np.frexp(away)[1] - (DIGIT * DIGITS - 1), -1000))
        empty = cls(centre, unit, np.zeros(len(centre) + 1, dtype=np.int64))
        total = empty.sums(mechanism, X, y, np.full((1, -(-len(X) // 8)), 255, dtype=np.uint8))
        whole = None
        with suppress(Exception):  # as of a world
            whole = mechanism.from_moments(centre.copy(), len(X))
        if whole is not None:
            as_numbers(whole)
        return cls(centre, unit, total[0])

    def means(self, sums: Whole) -> Floats:
        """Return the means of moments, from sums whose last column counts the rows."""
        return np.asarray(self.centre + self.unit * (sums[:, :-1] / sums[:, -1:]))

    def sums(
        self, mechanism: Mechanism, X: Floats, y: Labels | None, bits: Bytes, of_row: Indices | None = None
    ) -> Whole:  # fmt: skip
        """Return the sums over worlds, shape ``(len(bits), k + 1)``.

        Parameters
        ----------
        bits : ndarray of uint8, shape ``(w, ceil(units / 8))``
            Which units each world holds, eight to a byte.
        of_row : ndarray of int, optional
            Unit of every row; by default rows are units.
        """
        order = None if of_row is None else np.argsort(of_row, kind="stable")
        found = np.zeros((len(bits), DIGITS * len(self.unit) + 1))
        for at in _chunks(len(X), found.shape[1]):
            rows: Indices | slice = at if order is None else order[at]
            held = _bits(bits, at.start, at.stop) if of_row is None else _gathered(bits, of_row[rows])
            moments = _moments(mechanism, X[rows], y, rows)
            if moments is None:
                raise ValueError("moments must be declared for all rows or for none")
            found += held.astype(np.float32) @ self._digits(moments)
        digits = found[:, :-1].reshape(len(bits), DIGITS, -1).astype(np.int64)
        places = np.int64(1) << (DIGIT * np.arange(DIGITS, dtype=np.int64))
        return np.column_stack([(digits * places[:, np.newaxis]).sum(axis=1), found[:, -1].astype(np.int64)])

    def _digits(self, moments: Floats) -> NDArray[np.float32]:
        """Return balanced digits of the rows' whole numbers, lowest first, and a column of ones."""
        left, found = np.rint((moments - self.centre) / self.unit), []
        for _ in range(DIGITS - 1):
            carried = np.rint(left / (1 << DIGIT))
            found.append(left - carried * (1 << DIGIT))
            left = carried
        return np.column_stack([*found, left, np.ones(len(left))]).astype(np.float32)


LARGEST = 1e150  # beyond, the plain fit has to say what it makes of such numbers


def together(rows: int, moments: int) -> int:
    """Return how many worlds are done in one pass: within memory, and not for long without a sign of life."""
    by_work = WORK / (rows * (DIGITS * moments + 1))
    return int(min(1024, max(64, by_work), max(32, 8 * TOGETHER / rows))) // 32 * 32


def listed_sums(
    moments: Moments, mechanism: Mechanism, X: Floats, y: Labels | None, sampler: Sampler, worlds: range
) -> Whole:  # fmt: skip
    """Return the sums over listed worlds; that of a complement is the pool's less the other one's."""
    of_row = sampler.units.of_row
    alike = len(sampler.units) == len(of_row) and bool((np.diff(of_row) > 0).all())  # every row is a unit, in order
    step = 2 if sampler.paired else 1
    drawn = range(worlds.start // step * step, worlds.stop, step)
    sums = moments.sums(mechanism, X, y, sampler.packed(drawn), None if alike else of_row)
    if not sampler.paired:
        return sums
    both = np.stack([sums, moments.total - sums], axis=1).reshape(-1, sums.shape[1])
    return both[worlds.start - drawn.start :][: len(worlds)]


def _moments(mechanism: Mechanism, X: Floats, y: Labels | None, rows: Indices | slice) -> Floats | None:
    found = mechanism.moments(X, None if y is None else y[rows])
    return None if found is None else as_numbers(found, "the moments")


def _parts(mechanism: Mechanism, X: Floats, y: Labels | None) -> Iterator[Floats]:
    for at in _chunks(len(X), MOST_MOMENTS):
        part = _moments(mechanism, X[at], y, at)
        if part is not None:
            yield part


def _chunks(count: int, columns: int) -> list[slice]:
    """Cut rows at multiples of eight."""
    step = min(ROWS, max(64, CELLS // columns // 8 * 8))
    return list(slices(count, step))


def _bits(bits: Bytes, start: int, stop: int) -> Bytes:
    """Unpack places from a multiple of eight on."""
    return np.unpackbits(bits[:, start // 8 : -(-stop // 8)], axis=1, count=stop - start)


def _gathered(bits: Bytes, units: Indices) -> Bytes:
    """Unpack those of ascending units, which may repeat."""
    first = int(units[0]) // 8 * 8
    return _bits(bits, first, int(units[-1]) + 1)[:, units - first]


def outputs_of(
    mechanism: Mechanism, means: Floats, counts: Whole, plain: Callable[[int], Floats | None]
) -> Iterator[Floats | None]:  # fmt: skip
    """Yield a world's output by its means; a plain fit where they do not settle it, None where the fit fails."""
    for i in range(len(means)):
        try:
            found = mechanism.from_moments(means[i].copy(), int(counts[i]))
            found = None if found is None else as_numbers(found)
        except Exception:  # as of a plain fit
            yield None
            continue
        yield plain(i) if found is None else found


Stop = Literal["relative", "paper"]
RESAMPLES = 200
PRECISION = 0.05
PAPER_EVERY, PAPER_CHANGE = 10, 1e-6


def stop_rule(name: Stop, mi: float) -> Callable[[Floats], bool]:
    """Return a function that looks at all outputs so far and tells whether they are enough."""
    if name == "relative":
        return lambda outputs: relative_error(outputs, mi) <= PRECISION
    if name == "paper":
        return variances_settled
    raise ValueError(f"stop must be 'relative', 'paper' or None, got {name!r}")


def relative_error(outputs: Floats, mi: float) -> float:
    """Return the half-width of the bootstrap 95 % interval of 1/2 sum ln(1 + s_i / e_i), relative to ``mi``.

    Trials are resampled by multinomial counts, so that no copy of the outputs is made.
    """
    away = outputs - outputs.mean(axis=0)
    noise = allocate((away**2).mean(axis=0), mi)
    live = noise > 0
    counts = np.random.default_rng(0).multinomial(len(outputs), np.full(len(outputs), 1 / len(outputs)), RESAMPLES)
    weights = counts / len(outputs)
    variances = weights @ away[:, live] ** 2 - (weights @ away[:, live]) ** 2
    bounds = 0.5 * np.log1p(np.maximum(variances, 0) / noise[live]).sum(axis=1)
    low, high = np.quantile(bounds, [0.025, 0.975])
    return float((high - low) / 2 / mi)


def variances_settled(outputs: Floats) -> bool:
    """Tell whether no variance moved by 1e-6 over the last ten trials: the paper's rule, for replication.

    It depends on the scale of the outputs: small ones stop at the first look, large ones never.
    """
    if len(outputs) < 2 * PAPER_EVERY:
        return False
    change = outputs.var(axis=0) - outputs[:-PAPER_EVERY].var(axis=0)
    return bool(np.abs(change).max() < PAPER_CHANGE)


LIBRARIES = ("sklearn", "numpy", "scipy")  # whose errors may be quoted
VALUES = re.compile(r"""'[^']*'|"[^"]*"|\[.*?\]|(?<![\w.])[-+]?\d[\w.+-]*|\b(?:nan|inf)\b""")
BATCH = 32
SAVE_SECONDS = 30.0
ROUND = 8  # batches


@dataclass(frozen=True, eq=False)
class Trials:
    """Outputs of the worlds, one per row, and what went wrong on the way.

    Attributes
    ----------
    outputs : ndarray, shape ``(m, d)``
        Canonical vectors; the default vector where a fit failed.  As private as the pool.
    failed : ndarray of bool, shape ``(m,)``
        Worlds whose fit raised an error or returned numbers that are not finite.
    warned : int
        Warnings raised by the fits (an estimator that stopped early is still a fixed function: it is kept).
    """

    outputs: Floats
    failed: Bools
    warned: int


@dataclass(frozen=True, eq=False)
class Experiment:
    """One algorithm on one pool: what every worker needs to know.

    ``frame``: the pool as a data frame, where the algorithm is a function that was given one; ``X`` its numbers.
    """

    mechanism: Mechanism
    X: Floats
    y: Labels | None
    sampler: Sampler
    frame: Any = None

    @cached_property
    def moments(self) -> Moments | None:
        """The pool's moments, where sums over rows decide the output."""
        return Moments.of(self.mechanism, self.X, self.y)

    @property
    def together(self) -> int:
        """How many worlds are run together: one pass over the pool."""
        return BATCH if self.moments is None else together(len(self.X), len(self.moments.unit))

    def output(self, rows: Bools) -> Floats | None:
        """Return the output on these rows, or None where the fit fails.  Rows keep the pool's order."""
        if self.moments is None:
            return self._fitted(rows)
        sums = self.moments.sums(self.mechanism, self.X, self.y, np.packbits(rows)[np.newaxis])
        return self._checked(next(self._solved(sums, lambda i: rows)))

    def _answer(self, rows: Bools) -> Floats:
        table = self.X[rows] if self.frame is None else rows_of(self.frame, rows)
        return as_numbers(self.mechanism.output(table, None if self.y is None else self.y[rows]))

    def _fitted(self, rows: Bools) -> Floats | None:
        """Run the algorithm itself."""
        try:
            found = self._answer(rows)
        except Exception:  # whatever the algorithm raises: "no answer" would itself be an answer
            return None
        return self._checked(found)

    def why(self) -> str:
        """Return why a world fails: words of the libraries that it runs in, without what may be a value."""
        try:
            self._answer(next(iter(self.sampler.draw(range(1)))))
        except Exception as error:
            return _without_values(error)
        return "its output holds numbers that are not finite"

    def _checked(self, found: Floats | None) -> Floats | None:
        if found is None:
            return None
        return found if found.shape != self.mechanism.reference.shape or np.isfinite(found).all() else None

    def _solved(self, sums: Whole, rows: Callable[[int], Bools]) -> Iterator[Floats | None]:
        """Yield outputs from sums of moments; ``rows`` of a world are asked for where these do not settle it."""
        if self.moments is not None:
            means = self.moments.means(sums)
            yield from outputs_of(self.mechanism, means, sums[:, -1], lambda i: self._fitted(rows(i)))

    def _outputs(self, worlds: range) -> Iterator[Floats | None]:
        """Yield the outputs of these worlds, None where a fit fails."""
        if self.moments is None:
            yield from map(self._fitted, self.sampler.draw(worlds))
            return
        sums = listed_sums(self.moments, self.mechanism, self.X, self.y, self.sampler, worlds)
        yield from map(self._checked, self._solved(sums, lambda i: self.sampler.draw(worlds[i : i + 1])[0]))

    def run(self, worlds: range) -> Trials:
        """Return the trials of these worlds."""
        outputs = np.tile(self.mechanism.reference, (len(worlds), 1))
        failed = np.zeros(len(worlds), dtype=bool)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for i, found in enumerate(self._outputs(worlds)):
                if found is None:
                    failed[i] = True
                elif found.shape != outputs[i].shape:
                    raise ValueError(
                        f"the output has {found.size} numbers in one world and {outputs.shape[1]} on the pool; "
                        "its length must not depend on the rows: pad it, or fix the structure"
                    )
                else:
                    outputs[i] = found
        return Trials(outputs, failed, len(seen))

    def run_all(self, batches: Sequence[range]) -> list[Trials]:
        """Return the trials of neighbouring batches, done together; what one of them warned of is the first one's."""
        whole = self.run(range(batches[0].start, batches[-1].stop))
        starts = [batch.start - batches[0].start for batch in batches]
        return [
            Trials(whole.outputs[at : at + len(batch)], whole.failed[at : at + len(batch)], 0 if at else whole.warned)
            for at, batch in zip(starts, batches, strict=True)
        ]

    def fingerprint(self) -> str:
        """Return a hash of all that decides the trials: data, algorithm, sampler, versions."""
        import scipy
        import sklearn

        digest = hashlib.sha256()
        for array in (self.X, self.sampler.units.of_row, self.sampler.units.stratum, self.mechanism.reference):
            digest.update(np.ascontiguousarray(array).tobytes())
        if self.y is not None:
            digest.update(repr(self.y.tolist()).encode())
        if self.frame is not None:
            digest.update(frame_text(self.frame).encode())
        sampler = self.sampler
        digest.update(repr((type(sampler).__name__, sampler.rate, mark(sampler.seed), sampler.paired)).encode())
        digest.update(mark(self.mechanism).encode())
        digest.update(repr((np.__version__, scipy.__version__, sklearn.__version__)).encode())
        return digest.hexdigest()


def _without_values(error: Exception) -> str:
    """Return what an algorithm raised: of libraries the words, without numbers and quotes; of others the kind."""
    lines = str(error).strip().splitlines()
    if raised_in(error).partition(".")[0] not in LIBRARIES or not lines:
        return f"it raises {type(error).__name__}"
    return f"it raises {type(error).__name__}, {VALUES.sub('...', lines[0].removesuffix('.'))}"


def simulate(
    experiment: Experiment,
    worlds: int,
    *,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    checkpoint: str | Path | None = None,
    stop: Callable[[Floats], bool] | None = None,
) -> Trials:  # fmt: skip
    """Run all worlds; the result does not depend on the number of workers nor on interruptions.

    Parameters
    ----------
    checkpoint : path, optional
        A file (.npz) to which trials are saved on the way and from which they are taken up again.  It holds
        un-noised outputs and is as private as the pool: only its owner may read it.
    stop : callable, optional
        Looks at all outputs so far after each batch, whether just run or taken up again; true ends the run.
    """
    batches, saved, done = batches_of(worlds, BATCH), time.monotonic(), list[Trials]()
    stored = _load(checkpoint, experiment)
    known = [part for part, batch in zip(stored, batches, strict=False) if len(part.failed) == len(batch)]

    def idle() -> None:
        """Let a bar show that time passes: workers are waited for."""
        if progress is not None:
            progress(max(len(done), len(known)) / len(batches))

    running = _stream(experiment, batches[len(known) :], n_jobs, idle, in_rounds=stop is not None)
    try:
        for trials in chain(known, running):
            done.append(trials)
            if progress is not None and len(done) > len(known):
                progress(len(done) / len(batches))
            if checkpoint is not None and len(done) > len(stored) and time.monotonic() - saved > SAVE_SECONDS:
                _save(checkpoint, experiment, done)
                saved = time.monotonic()
            if stop is not None and stop(np.concatenate([part.outputs for part in done])):
                break
    finally:  # also on Ctrl-C
        if checkpoint is not None and len(done) > len(stored):  # never fewer trials than are saved already
            _save(checkpoint, experiment, done)
    return _joined(done)


def _stream(
    experiment: Experiment, batches: list[range], n_jobs: int | None, idle: Idle, *, in_rounds: bool
) -> Iterator[Trials]:  # fmt: skip
    """Yield trials batch by batch; in rounds where the run may be stopped, because running workers cannot be."""
    piece = experiment.together // BATCH
    for round_ in batches_of(len(batches), ROUND if in_rounds else max(1, len(batches))):
        here = batches[round_.start : round_.stop]
        pieces = [here[part.start : part.stop] for part in batches_of(len(here), piece)]
        ready = in_order(experiment.run_all, pieces, n_jobs=n_jobs, idle=idle)
        yield from chain.from_iterable(list(ready) if in_rounds else ready)


def _joined(parts: list[Trials]) -> Trials:
    outputs = np.concatenate([part.outputs for part in parts])
    return Trials(outputs, np.concatenate([part.failed for part in parts]), sum(part.warned for part in parts))


def _save(path: str | Path, experiment: Experiment, done: list[Trials]) -> None:
    whole = [part for part in done if len(part.failed) == BATCH]
    if not whole:
        return
    joined = _joined(whole)
    seed = experiment.sampler.seed
    head = json.dumps({
        "about": "un-noised outputs: as private as the pool",
        "of": experiment.fingerprint(),
        "list": seed.key.hex() if isinstance(seed, SecretSeed) else None,  # without it nobody could resume
    })  # fmt: skip
    warned = np.array([part.warned for part in whole])
    with replacing(path, mode=0o600) as temporary, open(temporary, "wb") as file:
        np.savez(file, head=np.array(head), outputs=joined.outputs, failed=joined.failed, warned=warned)


def list_of(checkpoint: str | Path | None) -> Seed:
    """Return the secret list of worlds whose trials a checkpoint holds, or that of this process."""
    if checkpoint is None or not check_writable(checkpoint).exists():
        return OF_THIS_PROCESS
    with _opened(checkpoint) as (head, _):
        key = bytes.fromhex(head["list"] or "")
    return SecretSeed(key) if key else OF_THIS_PROCESS  # trials of a public list are refused when they are loaded


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[dict[str, Any], Any]]:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as saved:
            yield json.loads(str(saved["head"])), saved
    except Exception as error:  # damage shows anywhere: in the archive, its decompression, an array's head, the JSON
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no whole file of trials"
        raise ValueError(f"cannot resume from {path}: {reason}; remove it to start afresh, or name another") from None


def _load(path: str | Path | None, experiment: Experiment) -> list[Trials]:
    """Return the batches saved earlier; a file of another experiment is refused, not overwritten."""
    if path is None:
        return []
    if not check_writable(path).exists():
        return []
    with _opened(path) as (head, saved):
        outputs, failed, warned = (saved[key] for key in ("outputs", "failed", "warned"))
        of = head["of"]
    if of != experiment.fingerprint():
        raise ValueError(
            f"cannot resume from {path}: it belongs to other data, another algorithm, seed or library version; "
            "remove it to start afresh"
        )
    return [
        Trials(outputs[rows.start : rows.stop], failed[rows.start : rows.stop], int(warned[i]))
        for i, rows in enumerate(batches_of(len(failed), BATCH))
    ]
