"""A folder of what a long computation has done, step by step: what `in_order` found of each piece of each step.

A computation that follows from its question and a generator's state asks for the same steps in the same order, and for
the same pieces in each.  So a piece is told by its place; it holds digests of the question and of what it was asked
besides, and is read only where both are those of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epsworth.keeping import Arrays
from epsworth.utility.engines.checkpoint import (
    HEAD,
    UNREADABLE,
    Checkpoint,
    check_folder,
    digest,
    read_head,
    reading_piece,
    refusing_damaged,
    write_piece,
)
from epsworth.version import __version__

DRAWS = "randomness"  # where it begins: a word of the question


class KeptSteps:
    """What a run of a computation leaves in a folder, and finds there; see `epsworth.keeping.Keeping`."""

    def __init__(self, folder: Checkpoint) -> None:
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
        asked = {"task": task, "version of epsworth": __version__}
        asked |= {word: digest(*values) for word, values in data.items()}
        asked |= {word: f"{value}" for word, value in settings.items()}
        return cls(Checkpoint(path, asked | {DRAWS: state or "none"}, 1, 1, np.random.default_rng(0)))

    def step(self, function: Any) -> Step:
        """Return the place of the next step."""
        self.steps += 1
        return Step(self.folder, self.steps, function)


class Step:
    """The pieces of a step, in the order of its batches."""

    def __init__(self, folder: Checkpoint, number: int, function: Any) -> None:
        self.folder, self.number, self.function = folder, number, function

    def holds(self, number: int) -> bool:
        """Tell whether a piece is done."""
        return self._file(number).exists()

    def write(self, number: int, batch: Any, result: Any) -> None:
        """Keep a piece."""
        path, arrays = self._file(number), dict(self.function.arrays(result))
        words = {name: _coded(arrays, name) for name in arrays if arrays[name].dtype.hasobject}
        write_piece(path, self.folder.digest, arrays, asked=_digest_of(batch), words=words)

    def read(self, number: int, batch: Any) -> Any:
        """Return a piece that is done; refuse a file that cannot have been kept."""
        path = self._file(number)
        with reading_piece(path, self.folder.digest) as (head, arrays):
            if head.get("asked") != _digest_of(batch):
                raise ValueError(
                    "was asked something else, by other versions or on a machine of another kind; go on there, or "
                    "remove the folder"
                )
            with refusing_damaged():
                words = {str(name): list(known) for name, known in head["words"].items()}
                return self.function.read(batch, arrays | {name: _decoded(arrays[name], words[name]) for name in words})

    def _file(self, number: int) -> Path:
        return self.folder.path / f"{self.number:06d}-{number:06d}.npz"


def begun(path: str | Path, rng: np.random.Generator) -> str:
    """Put a generator where that of a folder's run began, if there is one; return where it stands, as a text.

    Raises
    ------
    ValueError
        Where the folder is damaged, or its generator of another kind.
    """
    if (check_folder(path) / HEAD).exists():
        kept = read_head(Path(path))["question"].get(DRAWS)
        try:
            if isinstance(kept, str) and kept != "none":
                rng.bit_generator.state = restored_state(json.loads(kept))
        except UNREADABLE:
            why = "is damaged, or its generator is of another kind; remove the folder"
            raise ValueError(f"checkpoint {Path(path) / HEAD}: {why}") from None
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
    result = np.empty(len(words), dtype=object)
    result[:] = words
    if places.dtype != np.int64 or places.ndim != 1 or not ((places >= 0) & (places < len(words))).all():
        raise ValueError
    if not {type(word) for word in words} <= {str, int, float, bool}:
        raise ValueError
    return np.asarray(result[places])


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
