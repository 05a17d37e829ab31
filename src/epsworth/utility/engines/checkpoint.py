"""A file from which a run goes on: what its engines have finished, and the question it belongs to.

It is an ``.npz`` file: arrays, and texts of JSON; nothing in it is code.  It is written whole or not at all, readable
for its owner only.  It holds no record, but what was computed from raw records: it is not private.

An engine keeps its state where it has just shown bounds, together with the generator's state.  What a run drew after
that is forgotten and drawn again, bit for bit, so a run that goes on ends where it would have ended without a break.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import pickletools
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.files import check_writable, reading, replacing
from epsworth.utility.question import Question

FORMAT = "epsworth-checkpoint-2"
FACE = "computed from raw data and not private: keep it as you keep the table"
EVERY = 30.0  # seconds between two writes
PROBES = 512  # answers over the ranges by which a classifier is known again
EDGES = np.linspace(-0.5, 1.5, 33)  # of released values, and
PLACES = np.linspace(0, 1, 5)  # true values, by whose masses a law is known again
DIGITS = 9
OWNER_ONLY = 0o600
NUMBERS = frozenset(
    ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "NEWTRUE", "NEWFALSE")
)  # as a pickle holds them
PART = 4_096  # rows of a column of objects that become a text at once
SEEDS = 8  # words of 32 bits: where the randomness of all records begins

Arrays = dict[str, NDArray[Any]]


class Checkpoint:
    """The file of a run.

    Parameters
    ----------
    path : path
        Read where it is there; written by `write`.
    asked : mapping
        What must be the same, by the words of a refusal (`described`).
    rng : numpy.random.Generator
        That of the run; put back into the state that was kept, with what was kept.
    even_if_empty : bool
        Whether there is a file even where no part was kept.
    """

    def __init__(
        self,
        path: str | Path,
        asked: Mapping[str, str],
        rng: np.random.Generator,
        clock: Callable[[], float] = time.monotonic,
        *,
        even_if_empty: bool = True,
    ) -> None:
        self.path, self.asked, self.rng, self.clock = check_writable(path), dict(asked), rng, clock
        self.even_if_empty = even_if_empty
        self.parts: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}  # arrays, and the generator's state
        self.written, self.seeds = clock(), drawn_seeds(rng)
        if self.path.exists():
            with reading(self.path, "checkpoint") as content:
                self._read(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.parts or self.even_if_empty:
            self.write()

    def keep(self, part: str, state: Mapping[str, Any]) -> None:
        """Note the state of a part, and write the file where it is time to."""
        self.parts[part] = state, self.rng.bit_generator.state
        if self.clock() - self.written >= EVERY:
            self.write()

    def write(self) -> None:
        """Write what was noted."""
        arrays = {
            f"{part}/{name}": np.asarray(value)
            for part, (state, _) in self.parts.items()
            for name, value in state.items()
        }
        head = {
            "format": FORMAT,
            "note": FACE,
            "question": self.asked,
            "seeds": self.seeds,
            "generators": {part: plain_state(state) for part, (_, state) in self.parts.items()},
        }
        with replacing(self.path, OWNER_ONLY) as temporary, temporary.open("wb") as file:
            np.savez(file, **{"head": np.array(json.dumps(head)), **arrays})  # type: ignore[arg-type]
        self.written = self.clock()

    def _read(self, content: bytes) -> None:
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            head = json.loads(str(arrays.pop("head")))
            if head["format"] != FORMAT:
                raise ValueError(head["format"])
            asked = {str(word): str(told) for word, told in head["question"].items()}
            self.seeds = seeds_of(head["seeds"])
            states = {str(part): restored_state(state) for part, state in head["generators"].items()}
            for name, value in arrays.items():
                part, _, word = name.rpartition("/")
                self.parts.setdefault(part, ({}, states[part]))[0][word] = value  # type: ignore[index]
        except (ValueError, KeyError, TypeError, AttributeError, OSError, EOFError, MemoryError, zipfile.BadZipFile,
                zlib.error, NotImplementedError, RecursionError):  # fmt: skip
            raise ValueError("is damaged or no checkpoint of this version; remove it, or give another path") from None
        check_asked(asked, self.asked)


def check_asked(there: Mapping[str, Any], here: Mapping[str, str]) -> None:
    """Refuse what belongs to another question, and say what differs."""

    def told(word: str) -> str:
        one, other = str(there.get(word, "none")), here.get(word, "none")
        return word if one.startswith("sha256:") or len(one + other) > 60 else f"{word} ({one}, not {other})"

    differ = [word for word in dict(here) | dict(there) if there.get(word) != here.get(word)]
    if differ:
        raise ValueError(
            f"belongs to another question: not the same {', '.join(map(told, differ))}; "
            "ask that question again, or give another path"
        )


class Kept:
    """What one run of an engine leaves in a checkpoint, and finds there; nothing, where there is none."""

    def __init__(self, checkpoint: Checkpoint | None = None, part: str = "") -> None:
        self.checkpoint, self.part = checkpoint, part

    @property
    def wanted(self) -> bool:
        """Whether there is a checkpoint."""
        return self.checkpoint is not None

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return self.checkpoint is not None and self.checkpoint.clock() - self.checkpoint.written >= EVERY

    def under(self, word: str) -> Kept:
        """Return the place of a part of the run."""
        return Kept(self.checkpoint, f"{self.part}/{word}")

    def keep(self, **state: Any) -> None:
        """Leave arrays and numbers; arrays that change later must be copied."""
        if self.checkpoint is not None:
            self.checkpoint.keep(self.part, state)

    def drop(self) -> None:
        """Leave nothing here any more."""
        if self.checkpoint is not None:
            self.checkpoint.parts.pop(self.part, None)

    def found(self, **like: Any) -> Arrays | None:
        """Return what an earlier run left, in the shapes and kinds of ``like``, and put the generator back; or None."""
        if self.checkpoint is None or self.part not in self.checkpoint.parts:
            return None
        arrays, state = self.checkpoint.parts[self.part]
        found = {name: np.asarray(value) for name, value in arrays.items()}
        expected = {name: np.asarray(value) for name, value in like.items()}
        same = found.keys() == expected.keys() and all(
            found[name].shape == value.shape and found[name].dtype.kind == value.dtype.kind
            for name, value in expected.items()
        )
        try:
            if not same:
                raise ValueError
            self.checkpoint.rng.bit_generator.state = state
        except (ValueError, TypeError, KeyError):
            raise self.damaged() from None
        return found

    def damaged(self) -> ValueError:
        """Return the refusal of a file that holds something else than was kept."""
        path = None if self.checkpoint is None else self.checkpoint.path
        return ValueError(f"checkpoint {path}: is damaged, or its generator is of another kind; remove it")


def drawn_seeds(rng: np.random.Generator) -> tuple[int, ...]:
    """Draw where the randomness of a run begins."""
    return tuple(rng.integers(2**32, size=SEEDS).tolist())


def seeds_of(document: Any) -> tuple[int, ...]:
    """Return seeds that a file holds; a ValueError where it holds none."""
    if len(document) != SEEDS or not all(type(word) is int and 0 <= word < 2**32 for word in document):
        raise ValueError("no seeds")
    return tuple(document)


def labels_text(seen: Iterable[set[Any]]) -> str:
    """Return sets of labels as JSON; refuse labels that it cannot hold."""
    plain = [[label.item() if isinstance(label, np.generic) else label for label in labels] for labels in seen]
    if not all(isinstance(label, (str, int, float)) for labels in plain for label in labels):
        raise ValueError("a checkpoint holds labels that are texts, numbers or booleans only; leave it out")
    return json.dumps(plain)


def labels_of(text: NDArray[Any]) -> list[set[Any]]:
    """Return what `labels_text` wrote."""
    return [set(labels) for labels in json.loads(str(text))]


def described(question: Question, **settings: object) -> dict[str, str]:
    """Say what a question is, by the words of a refusal: by digests where there is much to say, or data."""
    labels_text([set(question.labels.tolist())])  # refused now, or never
    columns = [question.records.column(p) for p in range(len(question.records.names))]
    rng = np.random.default_rng(0)
    rows = rng.integers(len(question.records), size=PROBES)
    values = [feature.from_unit(rng.uniform(size=PROBES)) for feature in question.features]
    return {
        "version of epsworth": version("epsworth"),
        "records": digest(question.records.names, *columns),
        "true values of the records": digest(question.unit),  # gaps and outliers as a policy reads them
        "labels of the records": digest(question.labels),
        "true labels": digest(question.y),
        "the model": digest_of_model(question.classifier.inside),
        "answers of the classifier": digest(question.ask(rows, values)),
        "sensitive features": ", ".join(feature.name for feature in question.features),
        "ranges": digest([[repr(f), f.from_unit(np.linspace(0, 1, len(PLACES))).tolist()] for f in question.features]),
        "mechanisms": ", ".join(question.names),
        "epsilons": ", ".join(f"{epsilon!r}" for epsilon in question.epsilons.tolist()),
        "laws of what is released": digest(_laws(question)),
    } | {name: f"{value}" for name, value in settings.items()}


def _laws(question: Question) -> list[Any]:
    """Return masses of every law at a few true values, and what else a release is."""
    told: list[Any] = []
    for release in (release for row in question.releases for release in row):
        laws = [mechanism.law(PLACES[:, np.newaxis]) for mechanism in release.mechanisms]
        told.append([np.round(law.mass(-np.inf, EDGES), DIGITS).tolist() for law in laws])
        told.append([repr(release.guarantee), float(release.reveal)])
    return told


def digest(*values: object) -> str:
    """Return a digest of arrays, texts and numbers, in their order."""
    found = hashlib.sha256()
    for value in values:
        _add(found, value)
    return f"sha256:{found.hexdigest()}"


def _add(found: hashlib._Hash, value: object) -> None:
    """Add a value to a digest: arrays by their bytes, field by field, since what lies between fields is anything."""
    if not isinstance(value, np.ndarray):
        found.update(repr(value).encode())
    elif value.dtype.names:
        for name in value.dtype.names:
            _add(found, value[name])
    elif value.dtype.hasobject:
        for start in range(0, len(value), PART):
            found.update(repr(value[start : start + PART].tolist()).encode())
    else:
        found.update(f"{value.dtype.str}{value.shape}".encode())
        found.update(np.ascontiguousarray(value).tobytes())


class _Arrays(pickle.Pickler):
    """Pickles a model with a digest in place of each of its arrays."""

    def reducer_override(self, held: Any) -> Any:
        if isinstance(held, np.ndarray) and not held.dtype.hasobject:
            return bytes, (digest(held).encode(),)
        if hasattr(held, "get_tree_stats"):  # scikit-learn's trees of neighbours: counts of calls come eighth
            return bytes, (digest(*held.__getstate__()[:7]).encode(),)
        return NotImplemented


def digest_of_model(model: Any) -> str:
    """Return a digest of the numbers, texts and arrays of a model; of those that come before what cannot be pickled.

    Numbers in their order; texts and arrays as a set, since what is held twice may be pickled once.
    """
    content, numbers, texts = io.BytesIO(), hashlib.sha256(), set()
    with suppress(Exception):
        _Arrays(content, protocol=5).dump(model)
    with suppress(ValueError):  # where pickling stopped
        for code, value, _ in pickletools.genops(content.getvalue()):
            if code.name in NUMBERS:
                numbers.update(f"{code.name} {value!r};".encode())
            elif isinstance(value, (str, bytes, bytearray)):
                texts.add(repr(value))
    return digest(numbers.hexdigest(), *sorted(texts))


def plain_state(state: Any) -> Any:
    """Return a generator's state as JSON has it: some hold arrays."""
    if isinstance(state, Mapping):
        return {name: plain_state(value) for name, value in state.items()}
    return {"array": state.tolist()} if isinstance(state, np.ndarray) else state


def restored_state(state: Any) -> Any:
    """Return what `plain_state` was given."""
    if not isinstance(state, dict):
        return state
    if state.keys() == {"array"}:
        return np.array(state["array"], dtype=np.uint64)
    return {name: restored_state(value) for name, value in state.items()}
