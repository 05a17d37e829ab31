"""A table of records as the engines see it: some columns stay, the sensitive ones are replaced.

NumPy arrays and any data frame that narwhals knows (pandas, polars, arrow) are kept in their own kind,
because classifiers are particular about what they are fed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import narwhals as nw

Indices = NDArray[np.intp]


class Records(ABC):
    """n records of d columns in their native container."""

    names: tuple[str, ...]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def column(self, position: int) -> NDArray[Any]:
        """Return one column as an array."""

    @abstractmethod
    def take(self, rows: Indices, replaced: Mapping[int, NDArray[Any]] | None = None) -> Any:
        """Return the rows in their native container, with some columns replaced (position -> values)."""

    def position(self, column: str | int) -> int:
        """Return the position of a column given by name or index."""
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
            if not -len(self.names) <= column < len(self.names):
                raise ValueError(
                    f"sensitive: there is no column {column}; the table has columns 0 to {len(self.names) - 1}"
                )
            return int(column) % len(self.names)
        if column not in self.names:
            raise ValueError(f"sensitive: there is no feature {column!r}; the features are {', '.join(self.names)}")
        return self.names.index(column)

    def all_rows(self) -> Any:
        """Return every row in the native container."""
        return self.take(np.arange(len(self)))


@dataclass(frozen=True, eq=False)
class ArrayRecords(Records):
    """Records in a two-dimensional NumPy array."""

    values: NDArray[Any]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    def column(self, position: int) -> NDArray[Any]:
        """Return one column."""
        return self.values[:, position]

    def take(self, rows: Indices, replaced: Mapping[int, NDArray[Any]] | None = None) -> NDArray[Any]:
        """Return rows as an array."""
        taken = self.values[rows]
        if replaced and taken.dtype.kind in "iub":
            taken = taken.astype(np.float64)
        for position, values in (replaced or {}).items():
            taken[:, position] = values
        return taken


@dataclass(frozen=True, eq=False)
class FrameRecords(Records):
    """Records in a data frame."""

    frame: nw.DataFrame[Any]

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Column names."""
        return tuple(self.frame.columns)

    def __len__(self) -> int:
        return len(self.frame)

    def column(self, position: int) -> NDArray[Any]:
        """Return one column."""
        return self.frame[self.names[position]].to_numpy()

    def take(self, rows: Indices, replaced: Mapping[int, NDArray[Any]] | None = None) -> Any:
        """Return rows as a frame of the same kind."""
        import narwhals as nw

        taken = self.frame[rows.tolist(), :]
        kind = nw.get_native_namespace(self.frame)
        series = [
            nw.new_series(self.names[position], values.tolist(), backend=kind)
            for position, values in (replaced or {}).items()
        ]
        if series and nw.Implementation.from_native_namespace(kind).is_pandas():
            # pandas aligns on the index; the taken rows repeat theirs
            taken = nw.from_native(nw.to_native(taken).reset_index(drop=True), eager_only=True)
        return nw.to_native(taken.with_columns(*series) if series else taken)


def as_records(X: Any, *, features: Sequence[str] | None = None, count: int | None = None) -> Records:
    """Wrap a table; keep only the columns that the classifier was fitted on.

    Parameters
    ----------
    X : array_like of shape ``(n, d)`` or data frame
        The records.
    features : sequence of str, optional
        Names of the classifier's features, in order: selected from a frame, given to an array's columns.
    count : int, optional
        Number of features that the classifier expects, where it has no names.
    """
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        records = _frame_records(X, features)
    else:
        values = np.asarray(X)
        if values.ndim != 2:
            raise ValueError(f"X must be a table of shape (records, features), got shape {values.shape}; reshape it")
        named = features is not None and len(features) == values.shape[1]
        names = tuple(features or ()) if named else tuple(f"x{i}" for i in range(values.shape[1]))
        records = ArrayRecords(values, names)
    if len(records) == 0:
        raise ValueError("the table has no rows; give at least one record")
    expected = len(features) if features is not None else count
    if expected is not None and len(records.names) != expected:
        raise ValueError(
            f"the table has {len(records.names)} columns, but the classifier was fitted on {expected}; "
            "drop the others (the target column, an index) first"
        )
    return records


def _frame_records(X: Any, features: Sequence[str] | None) -> Records:
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    if features is not None:
        missing = [name for name in features if name not in frame.columns]
        if missing:
            raise ValueError(
                f"the table lacks the column {missing[0]!r} on which the classifier was fitted; "
                f"it has {', '.join(map(str, frame.columns))}"
            )
        frame = frame.select(*features)
    return FrameRecords(frame)


MISSING = ["", "NA", "N/A", "NaN", "nan", "null"]


def read_table(path: str | Path) -> Any:
    """Read a CSV (also gzipped) or Parquet file into a polars data frame."""
    import polars as pl

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"cannot read the table {path}: there is no such file; check the path")
    name = path.name.lower()
    if not name.endswith((".csv", ".csv.gz", ".parquet")):
        raise ValueError(f"the table {path} has an unknown ending; give a .csv, .csv.gz or .parquet file")
    try:
        if name.endswith(".parquet"):
            return pl.read_parquet(path)
        return pl.read_csv(path, infer_schema_length=None, null_values=MISSING)
    except pl.exceptions.NoDataError:
        raise ValueError(f"the table {path} is empty; give a header and at least one row") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"cannot read the table {path}: {str(error).splitlines()[0]}") from None
