"""A folder of pieces: what an earlier run left of its question, a file for every range of records.

``head.json`` says what was asked; every piece holds a digest of it, and arrays, nothing of which is code.  Files are
written whole or not at all, readable for their owner only.  They hold no record, but what was computed from raw
records: they are not private.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.files import OutputError, file_named, reading, replacing
from epsworth.utility.engines.checkpoint import FACE, OWNER_ONLY, check_asked, drawn_seeds, seeds_of
from epsworth.utility.quantities import Bounds

if TYPE_CHECKING:
    from epsworth.utility.engines.engine import Answer
    from epsworth.utility.question import Question

FORMAT = "epsworth-pieces-1"
HEAD, RESULT, LABELS, RIGHT, UNCUT = "head.json", "curves.json", "labels.npy", "right.npy", "uncut.npz"
DAMAGED = "is damaged or no piece of this version; remove it, and it is done again"
UNREADABLE = (
    ValueError, KeyError, TypeError, AttributeError, OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error,
    NotImplementedError, RecursionError, OverflowError,
)  # fmt: skip


class PieceFolder:
    """The folder of a run.

    Parameters
    ----------
    path : path
        Made where it is not there; a folder with other files is refused, and one of another question.
    asked : mapping
        What must be the same, by the words of a refusal (`described`).
    records, size : int
        How many there are, and how many make a piece: where the folder has pieces, it is theirs.
    rng : numpy.random.Generator
        For the seeds of a new run.

    Attributes
    ----------
    digest : str
        Of everything that a piece follows from.
    seeds : tuple of int
    """

    def __init__(
        self, path: str | Path, asked: Mapping[str, str], records: int, size: int, rng: np.random.Generator
    ) -> None:
        self.path, self.records = check_folder(path), records
        head: dict[str, Any] = {"format": FORMAT, "note": FACE, "question": dict(asked), "records": records}
        head |= {"seeds": drawn_seeds(rng), "size": size}
        if (self.path / HEAD).exists():
            with reading(self.path / HEAD, "folder of pieces") as content:
                head = head_of(content)
                check_asked(head["question"], asked)
        else:
            self.path.mkdir(mode=0o700, exist_ok=True)
            with replacing(self.path / HEAD, OWNER_ONLY) as temporary:
                temporary.write_text(json.dumps(head), encoding="utf-8")
        self.size, self.seeds = int(head["size"]), tuple(head["seeds"])
        self.digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()

    def file(self, number: int, piece: range) -> Path:
        """Return where a piece of a part lies."""
        return part_file(self.path, number, piece)

    def holds(self, number: int, piece: range) -> bool:
        """Tell whether a piece is done."""
        return self.file(number, piece).exists()

    def write(self, number: int, piece: range, answer: Answer) -> None:
        """Keep a piece."""
        arrays = {"lower": answer.stability.lower, "upper": answer.stability.upper, "possible": answer.labels_possible}
        if answer.accuracy is not None:
            arrays |= {"accuracy_lower": answer.accuracy.lower, "accuracy_upper": answer.accuracy.upper}
        told = json.dumps(
            {"digest": self.digest, "file": self.file(number, piece).name, "queries": int(answer.queries),
             "spent": str(answer.spent)}
        )  # fmt: skip
        with replacing(self.file(number, piece), OWNER_ONLY) as temporary, temporary.open("wb") as file:
            np.savez(file, **{"told": np.array(told), **arrays})  # type: ignore[arg-type]

    def read(self, number: int, piece: range, question: Question) -> Answer:
        """Return a piece that is done; refuse a file that cannot have been kept."""
        m, e, _ = question.shape
        return read_piece(self.file(number, piece), self.digest, (m, e, len(piece)), question.y is not None)


def part_file(folder: Path, number: int, piece: range) -> Path:
    """Return where the answer of a part of the plan about some records lies."""
    return folder / f"{piece.start:012d}-{number:02d}.npz"


def read_piece(path: Path, digest: str, shape: tuple[int, int, int], with_accuracy: bool) -> Answer:
    """Return what a file holds of a piece; refuse a damaged one, or one of another question."""
    from epsworth.utility.engines.engine import Answer

    with reading(path, "piece") as content:
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            told = json.loads(str(arrays.pop("told")))
            queries, spent = int(told["queries"]), Fraction(told["spent"])
            sides = [_sides(arrays, "", shape)]
            if with_accuracy:
                sides.append(_sides(arrays, "accuracy_", shape))
            possible = arrays.pop("possible")
        except UNREADABLE:
            raise ValueError(DAMAGED) from None
        if told.get("digest") != digest:
            raise ValueError("belongs to another question; remove it, or give another folder")
        if told.get("file") != path.name:
            raise ValueError("holds other records, or mechanisms, than its name says; remove it, and it is done again")
    return Answer(sides[0], sides[1] if with_accuracy else None, possible, queries, spent)


def _sides(arrays: dict[str, NDArray[Any]], word: str, shape: tuple[int, ...]) -> Bounds:
    lower, upper = (arrays.pop(f"{word}{side}") for side in ("lower", "upper"))
    if not lower.shape == upper.shape == shape:
        raise ValueError
    return Bounds(lower, upper)


def check_folder(path: str | Path, field: str = "checkpoint") -> Path:
    """Return where a folder of pieces is, or can be made; refuse one that holds anything else."""
    path = file_named(path, field)
    if path.exists() and not path.is_dir():
        raise OutputError(f"cannot keep pieces in {path}: it is a file; give a folder")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"cannot make the folder {path}: {path.absolute().parent} does not exist; create it first")
    begun = f".{HEAD}."  # of a run that was killed while it wrote it
    if path.is_dir() and not (path / HEAD).exists() and not all(one.name.startswith(begun) for one in path.iterdir()):
        raise OutputError(f"cannot keep pieces in {path}: it holds other files; give a folder of its own")
    return path


def head_of(content: bytes) -> dict[str, Any]:
    """Return what was asked of a folder of pieces; refuse what no run can have written."""
    try:
        head = json.loads(content)
        seeds_of(head["seeds"])
        right = head["format"] == FORMAT and isinstance(head["question"], dict)
        if not right or not all(type(head[word]) is int and head[word] >= 1 for word in ("size", "records")):
            raise ValueError
    except UNREADABLE:
        raise ValueError("is damaged or of another version; remove the folder, or give another path") from None
    found: dict[str, Any] = head
    return found
