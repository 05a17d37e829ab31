"""Which tensors a service takes: one of all numbers, or one per named column; and records written as such.

Metadata decide where they declare inputs.  Where they declare none, arrays are sent as one tensor and data frames
column by column, numbers as FP64 and texts as BYTES, which is what mlserver's codecs read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.reading import ClassifierError
from epsworth.classifiers.service.protocol import KINDS, Tensor
from epsworth.frames import as_frame

Inputs = Literal["tensor", "columns"]
EXACT = 2**53  # whole numbers up to here are doubles
UNNAMED = "input-0"  # of a service that declares no inputs


@dataclass(frozen=True)
class Layout:
    """How records are written.

    Attributes
    ----------
    inputs : {"tensor", "columns"} or None
        None: by the container of the records, as nothing was declared.
    declared : tuple of (name, kind)
        The inputs that the service declares; empty for none.
    count : int, optional
        How many features the one tensor has.
    """

    inputs: Inputs | None
    declared: tuple[tuple[str, str], ...] = ()
    count: int | None = None

    @property
    def features(self) -> tuple[str, ...] | None:
        """The columns that the service takes, in order, where it names them."""
        return tuple(name for name, _ in self.declared) if self.inputs == "columns" and self.declared else None

    def tensors(self, records: Any) -> list[Tensor]:
        """Return records as the service takes them; refuse values that its kinds do not hold."""
        columns = _columns(records)
        named = all(name is not None for name, _ in columns)
        if (self.inputs or ("columns" if named else "tensor")) == "tensor":
            name, kind = self.declared[0] if self.declared else (UNNAMED, "FP64")
            parts = [_written(shown or name, values, kind) for shown, values in columns]
            return [Tensor(name, kind, np.ascontiguousarray(np.column_stack(parts)))]
        if not self.declared and not named:
            raise ClassifierError(
                'the columns of an array have no names for the service; give a data frame, or inputs="tensor"'
            )
        wanted: Any = self.declared or [(name, _kind_of(str(name), values)) for name, values in columns]
        return [Tensor(n, kind, _written(n, v, kind)) for (n, kind), (_, v) in zip(wanted, columns, strict=True)]


def layout_of(metadata: dict[str, Any], inputs: Inputs | None, name: str) -> Layout:
    """Return how a service wants to be asked: as it declares, unless ``inputs`` says otherwise."""
    if inputs not in (None, "tensor", "columns"):
        raise ValueError(f'inputs must be "tensor", "columns" or None, got {inputs!r}')
    declared: list[tuple[str, str]] = []
    shapes: list[list[int]] = []
    for one in metadata.get("inputs") or ():
        own, kind, shape = map(one.get, ("name", "datatype", "shape")) if isinstance(one, dict) else (None,) * 3
        known = isinstance(own, str) and isinstance(kind, str) and kind in KINDS and isinstance(shape, list)
        if not (known and shape) or not all(type(size) is int and size >= -1 for size in shape):
            raise ClassifierError(f"{name} declares an input that is none of the protocol's; check its metadata")
        declared.append((str(own), str(kind)))
        shapes.append(shape)
    if len(dict(declared)) < len(declared):
        raise ClassifierError(f"{name} declares two inputs of the same name; check its metadata")
    if not declared:
        return Layout(inputs)
    if len(declared) > 1 and inputs == "tensor":
        raise ValueError(f'{name} declares {len(declared)} inputs, so that inputs="tensor" cannot be; leave it out')
    rank = 2 if len(declared) == 1 and inputs != "columns" else 1
    if any(len(shape) > rank and any(size not in (1, -1) for size in shape[rank:]) for shape in shapes):
        raise ClassifierError(
            f"{name} declares an input of more dimensions than records and features; it takes no table"
        )
    if rank == 1:
        return Layout("columns", tuple(declared))
    width = shapes[0][1] if len(shapes[0]) > 1 else 1
    return Layout("tensor", tuple(declared), width if width > 0 else None)


def _columns(records: Any) -> list[tuple[str | None, NDArray[Any]]]:
    if isinstance(records, np.ndarray):
        return [(None, records[:, column]) for column in range(records.shape[1])]
    frame = as_frame(records)
    return [(name, frame.get_column(name).to_numpy()) for name in frame.columns]


def _kind_of(name: str, values: NDArray[Any]) -> str:
    """Return the kind of a column of which none is declared: texts, truth values, or doubles."""
    if values.dtype.kind == "b":
        return "BOOL"
    if values.dtype.kind in "iuf":
        return "FP64"
    kinds = {type(value) for value in values.tolist() if value is not None and value == value}
    for kind, types in (("BYTES", {str}), ("FP64", {int, float}), ("BOOL", {bool})):
        if kinds <= types:
            return kind
    raise ClassifierError(
        f"the column {name!r} holds neither numbers nor texts alone, which no tensor does; convert it"
    )


def _written(name: str, values: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return a column as values of the kind that the service takes; none is changed but by rounding to FP16 or FP32."""
    if kind == "BYTES":
        texts = [None if value is None or value != value else value for value in values.tolist()]
        if not all(value is None or isinstance(value, str) for value in texts):
            raise ClassifierError(f"the column {name!r} holds other things than texts, which is what the service takes")
        return np.array([*texts, None], dtype=object)[:-1]  # never an array of fixed-width texts
    try:
        if any(isinstance(one, (str, bytes)) for one in (values.tolist() if values.dtype.kind in "OUS" else ())):
            raise ValueError  # NumPy would read some as numbers
        numbers = values if values.dtype.kind in "biuf" else np.array(values.tolist(), dtype=np.float64)
    except (TypeError, ValueError):
        raise ClassifierError(
            f"the column {name!r} holds texts, and the service takes numbers ({kind}) there; "
            'ask by columns: inputs="columns"'
        ) from None
    if KINDS[kind].kind == "f":
        if numbers.dtype.kind in "iu" and (np.abs(numbers.astype(np.float64)) > EXACT).any():
            raise ClassifierError(
                f"the column {name!r} holds whole numbers beyond 2^53, which no double holds; rescale it"
            )
        with np.errstate(over="ignore"):
            return numbers.astype(KINDS[kind])
    if not _holds(KINDS[kind], numbers):
        raise ClassifierError(
            f"the column {name!r} holds numbers that are not the service's {kind} there, as perturbed values are; "
            "declare that input FP64, or round what is released (quantise)"
        )
    return numbers.astype(KINDS[kind])


def _holds(kind: np.dtype[Any], numbers: NDArray[Any]) -> bool:
    """Tell whether numbers are among those of a kind of whole ones, or truth values."""
    least, most = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    exact = numbers.dtype.kind != "f" or bool((np.abs(numbers) <= EXACT).all())
    return exact and bool(((numbers == np.rint(numbers)) & (numbers >= least) & (numbers <= most)).all())
