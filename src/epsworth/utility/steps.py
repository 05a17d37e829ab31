"""A folder of what a long computation has done, step by step: what `in_order` found of each piece of each step.

A computation that follows from its question and a generator's state asks for the same steps in the same order, and for
the same pieces in each.  So a piece is told by its place; it holds digests of the question and of what it was asked
besides, and is read only where both are those of the run.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.files import reading, replacing
from epsworth.keeping import Arrays
from epsworth.utility.engines.checkpoint import OWNER_ONLY, digest, plain_state, restored_state
from epsworth.utility.engines.piece_files import DAMAGED, HEAD, UNREADABLE, PieceFolder, check_folder, head_of

DRAWS = "randomness"  # where it begins: a word of the question


class KeptSteps:
    """What a run of a computation leaves in a folder, and finds there; see `epsworth.keeping.Keeping`."""

    def __init__(self, folder: PieceFolder) -> None:
        self.folder, self.steps = folder, 0

    @classmethod
    def of(
        cls,
        path: str | Path,
        task: str,
        data: Mapping[str, tuple[object, ...]],
        settings: Mapping[str, object],
        rng: np.random.Generator | None = None,
        state: str | None = None,
    ) -> Self:
        """Open a folder, or make it; refuse one of another question.

        Parameters
        ----------
        task : str
            What is computed.
        data : mapping from str to tuple
            What digests are taken of, by the words of a refusal.
        settings : mapping from str to object
            What else must be the same.
        rng : numpy.random.Generator, optional
            Put where that of the folder's run began, where ``state`` does not say where that is.
        state : str, optional
            What `begun` returned, before anything was drawn.
        """
        if rng is not None and state is None:
            state = begun(path, rng)
        asked = {"task": task, "version of epsworth": version("epsworth")}
        asked |= {word: digest(*values) for word, values in data.items()}
        asked |= {word: f"{value}" for word, value in settings.items()}
        return cls(PieceFolder(path, asked | {DRAWS: state or "none"}, 1, 1, np.random.default_rng(0)))

    def step(self, function: Any) -> Step:
        """Return the place of the next step."""
        self.steps += 1
        return Step(self.folder, self.steps, function)


class Step:
    """The pieces of a step, in the order of its batches."""

    def __init__(self, folder: PieceFolder, number: int, function: Any) -> None:
        self.folder, self.number, self.function = folder, number, function

    def holds(self, number: int) -> bool:
        """Tell whether a piece is done."""
        return self._file(number).exists()

    def write(self, number: int, batch: Any, result: Any) -> None:
        """Keep a piece."""
        path, arrays = self._file(number), dict(self.function.arrays(result))
        told: dict[str, Any] = {"digest": self.folder.digest, "file": path.name, "asked": _digest_of(batch)}
        told["words"] = {name: _coded(arrays, name) for name in arrays if arrays[name].dtype.hasobject}
        with replacing(path, OWNER_ONLY) as temporary, temporary.open("wb") as file:
            np.savez(file, told=np.array(json.dumps(told)), **{f"of {name}": array for name, array in arrays.items()})

    def read(self, number: int, batch: Any) -> Any:
        """Return a piece that is done; refuse a file that cannot have been kept."""
        path = self._file(number)
        with reading(path, "piece") as content:
            try:
                with np.load(io.BytesIO(content), allow_pickle=False) as file:
                    arrays = {name: file[name] for name in file.files}
                told = json.loads(str(arrays.pop("told")))
                arrays = {name.removeprefix("of "): array for name, array in arrays.items()}
                ours = [told[word] for word in ("digest", "file", "asked")]
                words = {str(name): list(known) for name, known in told["words"].items()}
            except UNREADABLE:
                raise ValueError(DAMAGED) from None
            if ours[0] != self.folder.digest:
                raise ValueError("belongs to another question; remove it, or give another folder")
            if ours[1] != path.name:
                raise ValueError("holds another piece than its name says; remove it, and it is done again")
            if ours[2] != _digest_of(batch):
                raise ValueError(
                    "was asked something else, by other versions or on a machine of another kind; go on there, or "
                    "remove the folder"
                )
            try:
                return self.function.read(batch, arrays | {name: _decoded(arrays[name], words[name]) for name in words})
            except UNREADABLE:
                raise ValueError(DAMAGED) from None

    def _file(self, number: int) -> Path:
        return self.folder.path / f"{self.number:06d}-{number:06d}.npz"


def begun(path: str | Path, rng: np.random.Generator) -> str:
    """Put a generator where that of a folder's run began, if there is one; return where it stands, as a text.

    Raises
    ------
    ValueError
        Where the folder is damaged, or its generator of another kind.
    """
    head = check_folder(path) / HEAD
    if head.exists():
        with reading(head, "folder of pieces") as content:
            kept = head_of(content)["question"].get(DRAWS)
            try:
                if isinstance(kept, str) and kept != "none":
                    rng.bit_generator.state = restored_state(json.loads(kept))
            except UNREADABLE:
                raise ValueError("is damaged, or its generator is of another kind; remove the folder") from None
    return json.dumps(plain_state(rng.bit_generator.state))


def _digest_of(batch: Any) -> str:
    return digest(*batch) if isinstance(batch, tuple) else digest(batch)


def _coded(arrays: Arrays, name: str) -> list[str | int | float | bool]:
    """Put places in a list in an array's stead, and return the list: texts, numbers and booleans, no two alike."""
    known: dict[tuple[type, Any], int] = {}
    values = [value.item() if isinstance(value, np.generic) else value for value in arrays[name].tolist()]
    places = [known.setdefault((type(value), value), len(known)) for value in values]
    if not {kind for kind, _ in known} <= {str, int, float, bool}:
        raise ValueError("a checkpoint holds labels that are texts, numbers or booleans only; leave it out")
    arrays[name] = np.array(places, dtype=np.int64)
    return [value for _, value in known]


def _decoded(places: NDArray[Any], words: list[Any]) -> NDArray[Any]:
    found = np.empty(len(words), dtype=object)
    found[:] = words
    if places.dtype != np.int64 or places.ndim != 1 or not ((places >= 0) & (places < len(words))).all():
        raise ValueError
    if not {type(word) for word in words} <= {str, int, float, bool}:
        raise ValueError
    return np.asarray(found[places])
