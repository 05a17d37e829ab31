"""A table of records as the engines see it: some columns stay, the sensitive ones are replaced.

NumPy arrays and any data frame that narwhals knows (pandas, polars, arrow) are kept in their own kind,
because classifiers are particular about what they are fed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.extras import needed
from epsworth.frames import as_before, as_frame, categories_of, is_categorical, refuse_lazy, unindexed, without_views
from epsworth.headers import looks_like_header, shown_name, shown_names
from epsworth.numerals import short
from epsworth.series import series_array, series_values
from epsworth.values import NO_NUMBER, OR_INFINITE, is_missing, numbers, plain_array, spelt_number

if TYPE_CHECKING:
    import narwhals as nw

Indices = NDArray[np.intp]
Words = Mapping[str, "tuple[Any, ...] | None"]  # of the columns that a policy releases; None: of numbers


class Records(ABC):
    """n records of d columns in their native container.

    ``names`` are the classifier's features in its order; ``given`` the columns of the user's table, by which
    integer positions count.
    """

    names: tuple[str, ...]
    given: tuple[str, ...]
    words: Words

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def column(self, position: int) -> NDArray[Any]:
        """Return one column as an array."""

    @abstractmethod
    def exact(self, position: int) -> NDArray[Any]:
        """Return one column as an array, of objects where doubles would round numbers: labels are no measurements."""

    @abstractmethod
    def take(self, rows: Indices, replaced: Mapping[int, NDArray[Any]] | None = None) -> Any:
        """Return the rows in their native container, with some columns replaced (position -> values)."""

    @abstractmethod
    def part(self, rows: Indices) -> Records:
        """Return some of the records."""

    def releasing(self, words: Words) -> Records:
        """Return the records whose named columns are replaced by what a policy's clients release, in their kind."""
        return self

    def computed(self, names: Iterable[str]) -> Records:
        """Return the records with numbers, or truths alone, in columns that a model computes with.

        A number is what `values` has for one, in whatever kind of column it stands; all else is refused by its row.
        """
        new: dict[str, NDArray[Any]] = {}
        for name in names:
            values = self.column(self.names.index(name))
            if values.dtype.kind not in "fiubcmM":
                new[name] = numbers(values, _computed(values))
                if (odd := np.isnan(new[name]) & ~np.fromiter(map(is_missing, values), bool, len(values))).any():
                    shown = name if looks_like_header(self.given) else shown_name(name, self.given)
                    raise ValueError(f"row {odd.argmax()}, {shown}: {NO_NUMBER}")
            elif not self._plain(name):
                new[name] = values
        return self._with(new) if new else self

    @abstractmethod
    def _plain(self, name: str) -> bool:
        """Tell whether a column of numbers or truths is held as such."""

    @abstractmethod
    def _with(self, columns: Mapping[str, NDArray[Any]]) -> Records:
        """Return the records with some columns replaced, of whatever kind these were."""

    def positions(self, field: str, chosen: str | int | Sequence[str | int]) -> tuple[int, ...]:
        """Return the positions among ``names`` of columns that a field names; refuse others in its words."""
        one = isinstance(chosen, (str, int, np.integer))
        if not (one or isinstance(chosen, Iterable)) or getattr(chosen, "ndim", 1 - one) != 1 - one:
            raise TypeError(f"{field} must name columns, got {short(chosen)}")
        columns: list[Any] = [chosen] if one else list(chosen)  # type: ignore[arg-type]  # which is iterable
        if not columns:
            raise ValueError(f"{field} is empty; name at least one column")
        positions = tuple(self._position(field, column) for column in columns)
        if len(set(positions)) < len(positions):
            raise ValueError(f"{field} names a column twice: {', '.join(map(str, columns))}; list each once")
        return positions

    def _position(self, field: str, column: str | int) -> int:
        """Return the position of a column given by name, or by its index in the user's table."""
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
            if not -len(self.given) <= column < len(self.given):
                last = len(self.given) - 1
                raise ValueError(f"{field}: there is no column {short(column)}; the table has columns 0 to {last}")
            column = self.given[int(column)]
        if column not in self.names:
            asked = shown_name(column, self.given) if column in self.given else repr(column)
            features = shown_names(self.names, "the features are")
            raise ValueError(f"{field}: there is no feature {asked}; {features}")
        return self.names.index(column)

    def numbers(self) -> Floats | None:
        """Return all columns as one array of numbers, or None where some are not."""
        try:
            return np.column_stack([np.asarray(self.column(c), dtype=np.float64) for c in range(len(self.names))])
        except (TypeError, ValueError):
            return None


@dataclass(frozen=True, eq=False)
class ArrayRecords(Records):
    """Records in a two-dimensional NumPy array."""

    values: NDArray[Any]
    names: tuple[str, ...]

    @property
    def given(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns as given: an array is never reordered."""
        return self.names

    @property
    def words(self) -> Words:  # type: ignore[override]
        """None: an array has no kinds of its own for columns of words."""
        return {}

    def __len__(self) -> int:
        return len(self.values)

    def part(self, rows: Indices) -> ArrayRecords:
        """Return some of the records."""
        return replace(self, values=self.values[rows])

    def column(self, position: int) -> NDArray[Any]:
        """Return one column."""
        found = self.values[:, position]
        return plain_array(found.tolist()) if found.dtype == object else found

    def exact(self, position: int) -> NDArray[Any]:
        """Return one column, as it is."""
        return self.values[:, position]

    def take(self, rows: Indices, replaced: Mapping[int, NDArray[Any]] | None = None) -> NDArray[Any]:
        """Return rows as an array, of a kind wide enough for what is put in."""
        taken = self.values[rows]
        if replaced:
            wide = [taken.dtype, *[values.dtype for values in replaced.values()]]
            texts = not {kind.kind for kind in wide}.isdisjoint("USO")
            taken = taken.astype(object if texts else np.result_type(*wide), copy=False)
            for position, values in replaced.items():
                taken[:, position] = values
        return taken

    def _plain(self, name: str) -> bool:
        """Tell whether a column of numbers or truths is held as such."""
        return self.values.dtype != object

    def _with(self, columns: Mapping[str, NDArray[Any]]) -> ArrayRecords:
        """Return the records with some columns replaced: numbers all, if all are."""
        if set(columns) == set(self.names):
            return replace(self, values=np.column_stack([columns[name] for name in self.names]))
        taken = self.values.astype(object)
        for name, values in columns.items():
            taken[:, self.names.index(name)] = values
        return replace(self, values=taken)


@dataclass(frozen=True, eq=False)
class FrameRecords(Records):
    """Records in a data frame, reduced to the classifier's columns."""

    frame: nw.DataFrame[Any]
    given: tuple[str, ...]
    words: Words = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Column names."""
        return tuple(self.frame.columns)

    def __len__(self) -> int:
        return len(self.frame)

    def releasing(self, words: Words) -> FrameRecords:
        """Return the records whose named columns are replaced by what a policy's clients release, in their kind."""
        return replace(self, words=words)

    def part(self, rows: Indices) -> FrameRecords:
        """Return some of the records."""
        return replace(self, frame=self.frame[rows, :])

    def column(self, position: int) -> NDArray[Any]:
        """Return one column."""
        return series_array(self.frame.get_column(self.names[position]))

    def exact(self, position: int) -> NDArray[Any]:
        """Return one column, of objects where doubles would round numbers."""
        found, own = self.column(position), self.frame.get_column(self.names[position])
        if found.dtype.kind == "f" and not own.dtype.is_float():
            found = found.astype(object)
            found[:] = series_values(own)
        return found

    def take(self, rows: Indices, replaced: Mapping[int, NDArray[Any]] | None = None) -> Any:
        """Return rows as a frame of the same kind."""
        import narwhals as nw

        taken = self.frame[rows, :]
        if not replaced:
            return nw.to_native(taken)
        kind = nw.get_native_namespace(self.frame)
        taken = unindexed(taken)  # taken rows repeat theirs
        series = (nw.new_series(self.names[p], _plain(values), backend=kind) for p, values in replaced.items())
        return nw.to_native(taken.with_columns(*(self._in_kind(new, taken.get_column(new.name)) for new in series)))

    def _plain(self, name: str) -> bool:
        """Tell whether a column of numbers or truths is held as such: no decimals, none of 128 bits, no objects."""
        import narwhals as nw

        kind = self.frame.get_column(name).dtype
        wide = isinstance(kind, (nw.Decimal, nw.Int128, nw.UInt128))
        return not wide and (kind.is_numeric() or kind.is_temporal() or kind == nw.Boolean)

    def _with(self, columns: Mapping[str, NDArray[Any]]) -> FrameRecords:
        """Return the records with some columns replaced, of whatever kind these were."""
        import narwhals as nw

        kind = nw.get_native_namespace(self.frame)
        new = [nw.new_series(name, values, backend=kind) for name, values in columns.items()]
        return replace(self, frame=unindexed(self.frame).with_columns(*new))

    def order(self, name: str) -> list[Any]:
        """Return the categories of a column in the order of its codes; none where it has no such order of its own."""
        import narwhals as nw

        column = self.frame.get_column(name)
        own = column.implementation.is_pandas() or isinstance(column.dtype, nw.Enum)  # others: of a whole process
        return list(getattr(nw.to_native(column).dtype, "categories", ())) if own else []

    def _in_kind(self, new: nw.Series[Any], old: nw.Series[Any]) -> nw.Series[Any]:
        """Return new values in the column's kind: the table's, or that of a policy's releases."""
        if new.name not in self.words or not is_categorical(old):
            return as_before(new, old)
        words = self.words[new.name]
        if words is None:
            return new
        numbers = {word: i for i, word in enumerate(words)}
        codes = [numbers.get(value, -1) for value in new.to_list()]
        return categories_of(words, np.array(codes, dtype=np.intp), old)


def _computed(values: NDArray[Any]) -> Callable[[Any], float]:
    """Return how a column's entries are read as numbers; truths are 1 and 0 where they stand alone."""
    if {type(value) for value in values.tolist()} <= {bool, np.bool_, type(None)}:
        return lambda value: np.nan if value is None else float(value)
    return lambda value: spelt_number(value, OR_INFINITE)


def _plain(values: NDArray[Any]) -> Any:
    return values.tolist() if values.dtype.kind in "OUS" else values


def as_records(X: Any, *, features: Sequence[str] | None = None, count: int | None = None) -> Records:
    """Wrap a table; keep only the columns that the classifier was fitted on.

    Parameters
    ----------
    X : array_like of shape ``(n, d)``, data frame, or mapping from column names to columns
        The records.  A frame whose column names are not strings is taken as an array (columns x0, x1, ..).
    features : sequence of str, optional
        Names of the classifier's features, in order: selected from a frame, given to an array's columns.
    count : int, optional
        Number of features that the classifier expects, where it has no names.
    """
    refuse_lazy(X)
    X = _frame_of_columns(X) if isinstance(X, Mapping) else X
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    if columns is not None and all(isinstance(name, str) for name in columns):
        records = _frame_records(X, features)
    else:
        records = _array_records(X, features)
    if len(records) == 0:
        raise ValueError("the table has no rows; give at least one record")
    expected = len(features) if features is not None else count
    if expected is not None and len(records.names) != expected:
        raise ValueError(
            f"the table has {len(records.names)} columns, but the classifier was fitted on {expected}; "
            "drop the others first (an index; the target column, which --target names)"
        )
    return records


def one_record(x: Any) -> Any:
    """Return a record as a table of one row.

    Parameters
    ----------
    x : array_like of shape ``(d,)``, row of a pandas frame, mapping from names to values, or table
        The names of a row (``frame.iloc[0]``, ``frame.row(0, named=True)``) become those of columns; a table stays.
    """
    if isinstance(x, Mapping):
        single = all(isinstance(value, str) or np.ndim(value) == 0 for value in x.values())
        return {name: [value] for name, value in x.items()} if single else x
    if _rectangular(x).ndim != 1:
        return x
    names = getattr(x, "index", None)
    if hasattr(x, "to_frame") and names is not None and all(isinstance(name, str) for name in names):
        return x.to_frame().T.infer_objects()
    values = np.asarray(x)
    texts = values.dtype.kind in "US" and not all(isinstance(value, (str, bytes)) for value in x)
    return (np.asarray(x, dtype=object) if texts else values)[np.newaxis]


def _rectangular(X: Any) -> NDArray[Any]:
    """Return an array; rows of different lengths are refused."""
    try:
        return np.asarray(X)
    except ValueError:
        raise ValueError("X must hold rows of one length, one number or word per cell; its rows differ") from None


def _frame_of_columns(columns: Mapping[Any, Any]) -> Any:
    pl = needed("polars", "files", "a mapping of columns in place of a data frame")
    names = ", ".join(map(repr, columns))
    if not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(f"the table is a mapping, whose keys must be column names, got {names or 'none'}")
    lengths = {np.shape(column)[:1] if not isinstance(column, str) else () for column in columns.values()}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(f"the table is a mapping of columns ({names}), which must be lists or arrays of one length")
    plain = {name: c if isinstance(c, (list, np.ndarray)) else np.asarray(c) for name, c in columns.items()}
    try:
        return pl.DataFrame(plain)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise ValueError(f"the table is a mapping of columns ({names}), each of which must hold one kind") from None


def _array_records(X: Any, features: Sequence[str] | None) -> Records:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X is a masked array with masked (missing) entries; fill them first")
    values = _rectangular(X)
    if values.ndim != 2:
        raise ValueError(f"X must be a table of shape (records, features), got shape {values.shape}; reshape it")
    named = features is not None and len(features) == values.shape[1]
    names = tuple(features or ()) if named else tuple(f"x{i}" for i in range(values.shape[1]))
    return ArrayRecords(values, names)


def _frame_records(X: Any, features: Sequence[str] | None) -> Records:
    frame = without_views(as_frame(X))
    columns = frame.columns
    if features is not None:
        missing = [name for name in features if name not in columns]
        if missing:
            raise ValueError(
                f"the table lacks the column {missing[0]!r} on which the classifier was fitted; {shown_names(columns)}"
            )
        frame = frame.select(*(frame.get_column(name) for name in features))  # a name may read like a pattern
    return FrameRecords(frame, tuple(columns))
