"""The folder that a run is kept in: a file for every piece that is done, and the state of those that are not.

``head.json`` says what was asked, by digests of records, model, laws and settings, and where all randomness begins;
every other file holds a digest of it, and arrays, nothing of which is code.  Files are written whole or not at all,
readable for their owner only.  They hold no record, but what was computed from raw records: they are not private.

An engine leaves its state where it has just shown bounds, and what else it needs to draw on from there; what a run drew
after that is forgotten and drawn again, bit for bit.  Any number of workers goes on from a folder: they begin pieces
anew that are not done, which changes no bit, since the randomness of a record begins in the head.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import pickletools
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.files import OutputError, file_named, reading, replacing, writing
from epsworth.numerals import short
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds
from epsworth.version import __version__

PROBES = 512  # answers over the ranges by which a classifier is known again
EDGES = np.linspace(-0.5, 1.5, 33)  # of released values, and
PLACES = np.linspace(0, 1, 5)  # true values, by whose masses a law is known again
DIGITS = 9
ROWS = 4_096  # of a column of objects that become a text at once


def described(problem: Problem, **settings: object) -> dict[str, str]:
    """Say what a question is, by the words of a refusal: by digests where there is much to say, or data."""
    labels_text([set(problem.labels.tolist())])  # refused now, or never
    columns = [problem.records.column(p) for p in range(len(problem.records.names))]
    return {
        "version of epsworth": __version__,
        "records": digest(problem.records.names, *columns),
        "true values of the records": digest(problem.unit),  # gaps and outliers as a policy reads them
        "labels of the records": digest(problem.labels),
        "true labels": digest(problem.y),
        "the model": digest_of_classifier(problem.classifier),
        "answers of the classifier": digest(problem.ask(*problem.over_the_ranges(PROBES))),
        "sensitive features": ", ".join(feature.name for feature in problem.features),
        "ranges": digest([[repr(f), f.from_unit(np.linspace(0, 1, len(PLACES))).tolist()] for f in problem.features]),
        "mechanisms": ", ".join(problem.names),
        "epsilons": ", ".join(f"{epsilon!r}" for epsilon in problem.epsilons.tolist()),
        "laws of what is released": digest(_laws(problem)),
    } | {name: f"{value}" for name, value in settings.items()}


def _laws(problem: Problem) -> list[Any]:
    """Return masses of every law at a few true values, and what else a release is."""
    masses: list[Any] = []
    for release in (release for row in problem.releases for release in row):
        laws = [mechanism.law(PLACES[:, np.newaxis]) for mechanism in release.mechanisms]
        masses.append([np.round(law.mass(-np.inf, EDGES), DIGITS).tolist() for law in laws])
        masses.append([repr(release.guarantee), float(release.reveal)])
    return masses


def digest(*values: object) -> str:
    """Return a digest of arrays, texts and numbers, in their order."""
    state = hashlib.sha256()
    for value in values:
        _add(state, value)
    return f"sha256:{state.hexdigest()}"


def _add(state: hashlib._Hash, value: object) -> None:
    """Add a value to a digest: arrays by their bytes, field by field, since what lies between fields is anything."""
    if not isinstance(value, np.ndarray):
        state.update(repr(value).encode())
    elif value.dtype.names:
        for name in value.dtype.names:
            _add(state, value[name])
    elif value.dtype.hasobject:
        for start in range(0, len(value), ROWS):
            state.update(repr(value[start : start + ROWS].tolist()).encode())
    else:
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes())


class _Contents(pickle.Pickler):
    """Pickles a model to be digested, not to be read: arrays and code by digests, and what has no content by its type.

    Nothing that a model holds is left out but handles (locks, sockets, sessions), which tell no two models apart.
    """

    def reducer_override(self, held: Any) -> Any:
        if isinstance(held, np.ndarray) and not held.dtype.hasobject:
            return bytes, (digest(held).encode(),)
        if hasattr(held, "get_tree_stats"):  # scikit-learn's trees of neighbours: counts of calls come eighth
            return bytes, (digest(*held.__getstate__()[:7]).encode(),)
        if isinstance(held, FunctionType):
            inside = [cell.cell_contents for cell in held.__closure__ or () if cell != CellType()]
            inside = [type(one) if isinstance(one, (list, dict, set)) else one for one in inside]  # such as caches
            said = (held.__module__, held.__qualname__, digest(*_code(held.__code__)))
            return tuple, ([*said, held.__defaults__, held.__kwdefaults__, inside],)
        if isinstance(held, ModuleType):
            return str, (held.__name__,)
        if isinstance(held, type):
            known = getattr(sys.modules.get(held.__module__), held.__qualname__, None) is held
            return NotImplemented if known else (str, (f"{held.__module__}.{held.__qualname__}",))
        try:
            held.__reduce_ex__(5)
        except Exception:
            return tuple, ([type(held), getattr(held, "__dict__", None)],)
        return NotImplemented


def _code(code: CodeType) -> list[str]:
    """Return what a function does, wherever it is defined."""
    inner = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return [code.co_code.hex(), repr(inner), repr(code.co_names), repr(code.co_varnames), repr(code.co_freevars)]


def digest_of_classifier(classifier: Classifier) -> str:
    """Return a digest of the model, or of the function that answers; of what is elsewhere only its answers tell."""
    if classifier.inside is None and isinstance(classifier.answer, FunctionType):
        return digest_of_model(classifier.answer)
    return digest_of_model(classifier.inside)


def digest_of_model(model: Any) -> str:
    """Return a digest of all that a model holds, in its order; of equal parts it does not matter which are one object.

    Raises
    ------
    ValueError
        For a model that cannot be gone through to its end.
    """
    told: Exception | None = None
    for by_value in (True, False):  # what holds itself needs a memory of what was said
        content = io.BytesIO()
        pickler = _Contents(content, protocol=5)
        pickler.fast = by_value
        try:
            pickler.dump(model)
            return digest(*_tokens(content.getvalue()))
        except Exception as error:
            told = error
    raise ValueError(
        f"a checkpoint must know its model again, and this one cannot be pickled ({type(told).__name__}); leave "
        "checkpoint= out"
    )


def _tokens(pickled: bytes) -> list[str]:
    """Return the words of a pickle; those of a set sorted, since its order is that of a process."""
    found: list[str] = []
    marks: list[int] = []
    for code, value, _ in pickletools.genops(pickled):
        if code.name in ("PROTO", "FRAME", "MEMOIZE"):
            continue
        if code.name == "MARK":
            marks.append(len(found))
        elif code.stack_before and pickletools.markobject in code.stack_before:
            start = marks.pop()
            if code.name in ("ADDITEMS", "FROZENSET"):
                found[start:] = sorted(found[start:])
        found.append(f"{code.name} {value!r}")
    return found


def check_same_question(kept: Mapping[str, Any], asked: Mapping[str, str]) -> None:
    """Refuse what belongs to another question, and say what differs."""

    def describe(word: str) -> str:
        one, other = str(kept.get(word, "none")), asked.get(word, "none")
        return word if one.startswith("sha256:") or len(one + other) > 60 else f"{word} ({one}, not {other})"

    differ = [word for word in dict(asked) | dict(kept) if kept.get(word) != asked.get(word)]
    if differ:
        raise ValueError(
            f"belongs to another question: not the same {', '.join(map(describe, differ))}; "
            "ask that question again, or give another path"
        )


def labels_text(seen: Iterable[set[Any]]) -> str:
    """Return sets of labels as JSON; refuse labels that it cannot hold."""
    plain = [[label.item() if isinstance(label, np.generic) else label for label in labels] for labels in seen]
    if not all(isinstance(label, (str, int, float)) for labels in plain for label in labels):
        raise ValueError("a checkpoint holds labels that are texts, numbers or booleans only; leave it out")
    return json.dumps(plain)


def labels_of(text: NDArray[Any]) -> list[set[Any]]:
    """Return what `labels_text` wrote."""
    return [set(labels) for labels in json.loads(str(text))]


if TYPE_CHECKING:
    from epsworth.classifiers import Classifier
    from epsworth.utility.engines.engine import EngineResult

FORMAT = "epsworth-checkpoint-3"
FACE = "computed from raw data and not private: keep it as you keep the table"
HEAD, STATE = "head.json", "state.npz"
EVERY = 30.0  # seconds between two writes of the state
SEEDS = 8  # words of 32 bits: where the randomness of all records begins
OWNER_ONLY = 0o600
DAMAGED = "is damaged or no piece of this version; remove it, and it is done again"
UNREADABLE = (
    ValueError, KeyError, TypeError, AttributeError, OSError, EOFError, MemoryError, RuntimeError, OverflowError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip

Arrays = dict[str, NDArray[Any]]


class Checkpoint:
    """The folder of a run.

    Parameters
    ----------
    path : path
        Made where it is not there; a folder with other files is refused, and one of another question.
    problem : mapping
        What must be the same, by the words of a refusal (`digests.described`).
    records, size : int
        How many there are, and how many make a piece: where the folder is there, it is what it says.
    rng : numpy.random.Generator
        For the seeds of a new run.
    average_first : bool
        Whether the average comes before the records, in a new run.

    Attributes
    ----------
    digest : str
        Of everything that a piece follows from.
    seeds : tuple of int
    """

    def __init__(
        self,
        path: str | Path,
        problem: Mapping[str, str],
        records: int,
        size: int,
        rng: np.random.Generator,
        *,
        average_first: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path, self.clock, self.written = check_folder(path), clock, clock()
        head: dict[str, Any] = {"format": FORMAT, "note": FACE, "question": dict(problem), "records": records}
        head |= {"seeds": drawn_seeds(rng), "size": size, "average_first": average_first}
        if not (self.path / HEAD).exists():
            try:
                self.path.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise OutputError(f"cannot make the folder {path}: {error.strerror}; give another path") from None
            _write_head(self.path, head)
        head = read_head(self.path, problem)  # of runs that begin at once, the first one's
        self.size, self.seeds, self.average_first = int(head["size"]), tuple(head["seeds"]), bool(head["average_first"])
        self.digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()
        self.states: dict[str, Arrays] = {}
        if (self.path / STATE).exists():
            with reading_piece(self.path / STATE, self.digest) as (_, arrays):
                for name, array in arrays.items():
                    part, _, word = name.rpartition("/")
                    self.states.setdefault(part, {})[word] = array

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.write_state()

    def state(self, part: str) -> CheckpointState:
        """Return the place of the state of a part of the run."""
        return CheckpointState(self, part)

    def write_state(self) -> None:
        """Write the states of all parts that are not done."""
        arrays = {f"{part}/{name}": array for part, state in self.states.items() for name, array in state.items()}
        if arrays or (self.path / STATE).exists():
            write_piece(self.path / STATE, self.digest, arrays)
        self.written = self.clock()

    def has(self, number: int, piece: range) -> bool:
        """Tell whether a piece of a part of the plan is done."""
        return piece_path(self.path, number, piece).exists()

    def write(self, number: int, piece: range, result: EngineResult) -> None:
        """Keep a piece."""
        arrays = {"lower": result.stability.lower, "upper": result.stability.upper, "possible": result.labels_possible}
        if result.accuracy is not None:
            arrays |= {"accuracy_lower": result.accuracy.lower, "accuracy_upper": result.accuracy.upper}
        path, spent = piece_path(self.path, number, piece), str(result.spent)
        write_piece(path, self.digest, arrays, queries=int(result.queries), spent=spent)


class CheckpointState:
    """What a part of a run leaves in a checkpoint, and finds there; nothing, where there is none."""

    def __init__(self, checkpoint: Checkpoint | None = None, part: str = "") -> None:
        self.checkpoint, self.part = checkpoint, part

    @property
    def active(self) -> bool:
        """Whether there is a checkpoint."""
        return self.checkpoint is not None

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return self.checkpoint is not None and self.checkpoint.clock() - self.checkpoint.written >= EVERY

    def under(self, word: str) -> CheckpointState:
        """Return the place of a part of this part."""
        return CheckpointState(self.checkpoint, f"{self.part}/{word}")

    def save(self, **values: Any) -> None:
        """Leave copies of arrays and numbers, and write all states where it is time to."""
        if self.checkpoint is not None:
            self.checkpoint.states[self.part] = {name: np.array(value) for name, value in values.items()}
            if self.due:
                self.checkpoint.write_state()

    def drop(self) -> None:
        """Leave nothing here any more, nor under it."""
        if self.checkpoint is not None:
            inner = [part for part in self.checkpoint.states if f"{part}/".startswith(f"{self.part}/")]
            for part in inner:
                del self.checkpoint.states[part]

    def load(self, **like: Any) -> Arrays | None:
        """Return what an earlier run left, in the shapes and kinds of ``like``; or None."""
        if self.checkpoint is None or self.part not in self.checkpoint.states:
            return None
        state = self.checkpoint.states[self.part]
        expected = {name: np.asarray(value) for name, value in like.items()}
        if state.keys() != expected.keys() or any(
            state[name].shape != value.shape or state[name].dtype.kind != value.dtype.kind
            for name, value in expected.items()
        ):
            raise ValueError(f"piece {self.checkpoint.path / STATE}: {DAMAGED}")
        return state


def drawn_seeds(rng: np.random.Generator) -> tuple[int, ...]:
    """Draw where the randomness of a run begins."""
    return tuple(rng.integers(2**32, size=SEEDS).tolist())


def piece_path(folder: Path, number: int, piece: range) -> Path:
    """Return where the answer of a part of the plan about some records lies."""
    return folder / f"{piece.start:012d}-{number:02d}.npz"


def write_piece(path: Path, digest: str, arrays: Mapping[str, NDArray[Any]], **words: object) -> None:
    """Write a file of a checkpoint: arrays, a digest of the question, its own name, and what JSON holds besides."""
    head = json.dumps({"digest": digest, "file": path.name, **words})
    with replacing(path, OWNER_ONLY) as temporary, temporary.open("wb") as file:
        np.savez(file, head=np.array(head), **{f"of {name}": array for name, array in arrays.items()})  # type: ignore[arg-type]


@contextmanager
def reading_piece(path: Path, digest: str) -> Iterator[tuple[dict[str, Any], Arrays]]:
    """Yield words and arrays of a file of a checkpoint; refuse a damaged one, or one of another question."""
    with reading(path, "piece") as content:
        with refusing_damaged(), np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name.removeprefix("of "): file[name] for name in file.files}
            words = dict(json.loads(str(arrays.pop("head"))))
        if words.get("digest") != digest:
            raise ValueError("belongs to another question; remove it, or give another folder")
        if words.get("file") != path.name:
            raise ValueError("holds another piece than its name says; remove it, and it is done again")
        yield words, arrays


@contextmanager
def refusing_damaged() -> Iterator[None]:
    """Say that a file is damaged, whatever goes wrong with what it holds."""
    try:
        yield
    except UNREADABLE:
        raise ValueError(DAMAGED) from None


def read_piece(path: Path, digest: str, shape: tuple[int, int, int], with_accuracy: bool) -> EngineResult:
    """Return what a file holds of a piece; refuse a file that cannot have been kept."""
    from epsworth.utility.engines.engine import EngineResult

    with reading_piece(path, digest) as (words, arrays), refusing_damaged():
        kinds = ("", "accuracy_")[: 1 + with_accuracy]
        sides = [Bounds(arrays[f"{kind}lower"], arrays[f"{kind}upper"]) for kind in kinds]
        if any(side.lower.shape != shape or side.upper.shape != shape for side in sides):
            raise ValueError
        accuracy = sides[1] if with_accuracy else None
        return EngineResult(sides[0], accuracy, arrays["possible"], int(words["queries"]), Fraction(words["spent"]))


def check_folder(path: str | Path, field: str = "checkpoint") -> Path:
    """Return where a checkpoint is, or can be made; refuse a folder that holds anything else."""
    path = file_named(path, field)
    if "\0" in str(path):
        raise OutputError(f"{field}: a folder's name holds no NUL; choose another")
    try:
        exists = path.exists()
    except OSError as error:
        why = f"{field}: cannot use the folder {short(str(path))}: {error.strerror}; choose another"
        raise OutputError(why) from None
    if exists and not path.is_dir():
        raise OutputError(f"cannot keep pieces in {path}: it is a file; give a folder")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"cannot make the folder {path}: {path.absolute().parent} does not exist; create it first")
    begun = f".{HEAD}."  # of a run that was killed while it wrote it
    if (
        path.is_dir()
        and not (path / HEAD).exists()
        and not all(one.name == HEAD or one.name.startswith(begun) for one in path.iterdir())
    ):
        raise OutputError(f"cannot keep pieces in {path}: it holds other files; give a folder of its own")
    return path


def _write_head(folder: Path, head: dict[str, Any]) -> None:
    """Write a head, unless another run wrote one meanwhile."""
    with writing(folder / HEAD):
        handle, name = tempfile.mkstemp(prefix=f".{HEAD}.", dir=folder)  # for its owner alone
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(head, file)
            try:
                os.link(name, folder / HEAD)
            except FileExistsError:
                pass
            except OSError:  # a file system without links
                os.replace(name, folder / HEAD)
        finally:
            Path(name).unlink(missing_ok=True)


def read_head(folder: Path, problem: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what was asked of a checkpoint; refuse what no run can have written, and another problem than is given."""
    with reading(folder / HEAD, "checkpoint") as content:
        try:
            head: dict[str, Any] = json.loads(content)
            seeds = head["seeds"]
            right = head["format"] == FORMAT and isinstance(head["question"], dict)
            right = right and type(head["average_first"]) is bool and len(seeds) == SEEDS
            right = right and all(type(word) is int and 0 <= word < 2**32 for word in seeds)
            if not right or not all(type(head[word]) is int and head[word] >= 1 for word in ("size", "records")):
                raise ValueError
        except UNREADABLE:
            raise ValueError("is damaged or of another version; remove the folder, or give another path") from None
        if problem is not None:
            check_same_question(head["question"], problem)
    return head
