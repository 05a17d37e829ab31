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

    def position(self, column: str | int) -> int:
        """Return the position among ``names`` of a column given by name, or by its index in the user's table."""
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
            if not -len(self.given) <= column < len(self.given):
                last = len(self.given) - 1
                raise ValueError(f"sensitive: there is no column {short(column)}; the table has columns 0 to {last}")
            column = self.given[int(column)]
        if column not in self.names:
            asked = shown_name(column, self.given) if column in self.given else repr(column)
            features = shown_names(self.names, "the features are")
            raise ValueError(f"sensitive: there is no feature {asked}; {features}")
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
            wide = [taken.dtype, *(values.dtype for values in replaced.values())]
            taken = taken.astype(object if any(k.kind in "USO" for k in wide) else np.result_type(*wide), copy=False)
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
        taken = _unindexed(taken)  # taken rows repeat theirs
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
        return replace(self, frame=_unindexed(self.frame).with_columns(*new))

    def order(self, name: str) -> list[Any]:
        """Return the categories of a column in the order of its codes; none where it has no such order of its own."""
        import narwhals as nw

        column = self.frame.get_column(name)
        own = column.implementation.is_pandas() or isinstance(column.dtype, nw.Enum)  # others: of a whole process
        return list(getattr(nw.to_native(column).dtype, "categories", ())) if own else []

    def _in_kind(self, new: nw.Series[Any], old: nw.Series[Any]) -> nw.Series[Any]:
        """Return new values in the column's kind: the table's, or that of a policy's releases."""
        if new.name not in self.words or not is_categorical(old):
            return _as_before(new, old)
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


def is_categorical(series: nw.Series[Any]) -> bool:
    """Tell whether a column is of a kind for categories, which has codes."""
    import narwhals as nw

    return isinstance(series.dtype, (nw.Categorical, nw.Enum))


def categories_of(words: Sequence[Any], codes: NDArray[Any], like: nw.Series[Any]) -> nw.Series[Any]:
    """Return a policy's words by their numbers (-1: missing), as categories of the same library as those given.

    The categories are all words in the policy's order, never the table's: which words a table knows, and in which
    order, may tell its values, and one record alone has to get the codes that it gets among many.
    """
    import narwhals as nw

    native = nw.to_native(like)
    if like.implementation.is_pandas() and hasattr(native.dtype, "categories"):
        kind = type(native.dtype)(list(words), ordered=native.dtype.ordered)
        coded = type(native.array).from_codes(codes, dtype=kind)
        return nw.from_native(type(native)(coded, index=native.index, name=like.name), series_only=True)
    kinds = nw.new_series(like.name, [*words, None], backend=like.implementation)
    if all(isinstance(word, str) for word in words):
        kinds = kinds.cast(nw.Enum(list(words)) if isinstance(like.dtype, nw.Enum) else nw.Categorical())
    return kinds[np.where(codes < 0, len(words), codes)]


def _as_before(new: nw.Series[Any], old: nw.Series[Any]) -> nw.Series[Any]:
    """Return a column of categories where the table holds categories, in the table's order: models go by their codes.

    In pandas and enumerations of polars, values that the table does not know become further categories.
    """
    import narwhals as nw

    if isinstance(old.dtype, nw.Object) and old.implementation.is_pandas():
        return nw.from_native(nw.to_native(new).astype(object), series_only=True)  # encoders go by the kind of a column
    if not isinstance(old.dtype, (nw.Categorical, nw.Enum)):
        return new
    if old.implementation.is_pyarrow():
        coded: nw.Series[Any] = nw.from_native(nw.to_native(new).dictionary_encode(), series_only=True)
        return coded.alias(new.name)
    if not old.implementation.is_pandas():
        own = list(old.dtype.categories) if isinstance(old.dtype, nw.Enum) else []
        return new.cast(nw.Enum(list(dict.fromkeys([*own, *new.drop_nulls().sort()]))) if own else old.dtype)
    kind, native = nw.to_native(old).dtype, nw.to_native(new)
    further = [value for value in native.dropna().unique() if value not in kind.categories]
    wider = type(kind)([*kind.categories, *further], ordered=kind.ordered) if further else kind
    return nw.from_native(native.astype(wider), series_only=True)


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
    _refuse_lazy(X)
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
    if np.ndim(x) != 1:
        return x
    names = getattr(x, "index", None)
    if hasattr(x, "to_frame") and names is not None and all(isinstance(name, str) for name in names):
        return x.to_frame().T.infer_objects()
    values = np.asarray(x)
    texts = values.dtype.kind in "US" and not all(isinstance(value, (str, bytes)) for value in x)
    return (np.asarray(x, dtype=object) if texts else values)[np.newaxis]


def _refuse_lazy(table: Any) -> None:
    """Say how to get at the rows of tables that hold a plan instead, or no zeros."""
    kind, module = type(table).__name__, type(table).__module__.partition(".")[0]
    if module in ("dask", "dask_expr"):
        raise ValueError(f"the table is a lazy Dask {kind}; call .compute() on it first")
    if hasattr(table, "collect"):
        raise ValueError(f"the table is a lazy {kind}; call .collect() on it first")
    if module == "scipy":
        raise ValueError(f"the table is a sparse {kind}; call .toarray() on it first")


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
    values = np.asarray(X)
    if values.ndim != 2:
        raise ValueError(f"X must be a table of shape (records, features), got shape {values.shape}; reshape it")
    named = features is not None and len(features) == values.shape[1]
    names = tuple(features or ()) if named else tuple(f"x{i}" for i in range(values.shape[1]))
    return ArrayRecords(values, names)


def as_frame(table: Any) -> nw.DataFrame[Any]:
    """Wrap a data frame of any kind that narwhals knows (pandas, polars, arrow)."""
    import narwhals as nw

    _refuse_lazy(table)
    try:
        frame: nw.DataFrame[Any] = nw.from_native(table, eager_only=True)
        columns = frame.columns
    except TypeError:
        raise ValueError(
            f"the table, a {type(table).__name__}, is not a data frame in memory; give a pandas, polars or Arrow table"
        ) from None
    except (ValueError, nw.exceptions.NarwhalsError):
        _refuse_twins(getattr(table, "column_names", getattr(table, "columns", ())))
        raise ValueError(
            f"the table, a {type(table).__name__}, cannot be read; give a data frame whose columns have different names"
        ) from None
    _refuse_twins(columns)
    return frame


def _refuse_twins(columns: Any) -> None:
    """Refuse two columns of one name."""
    names = list(columns)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the table has two columns of the same name, {name!r}; give them different names")


def _without_views(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a frame without Arrow's columns of which libraries take no rows: views, and dictionaries in pandas."""
    import narwhals as nw

    native, own = nw.to_native(frame), frame.implementation.is_pyarrow()
    kinds = native.schema.types if own else getattr(native, "dtypes", ())
    told = {name: str(getattr(kind, "pyarrow_dtype", kind)) for name, kind in zip(frame.columns, kinds, strict=True)}
    new = []
    for name, kind in told.items():
        if "_view" in kind or (kind.startswith("dictionary<") and not own):
            held = nw.new_series(name, series_values(frame.get_column(name)), backend=frame.implementation)
            new.append(held.cast(nw.Categorical()) if kind.startswith("dictionary<") else held)
    return _unindexed(frame).with_columns(*new) if new else frame


def _unindexed(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a frame of pandas, which aligns on the index, with a plain one; any other as it is."""
    import narwhals as nw

    if not frame.implementation.is_pandas():
        return frame
    plain: nw.DataFrame[Any] = nw.from_native(nw.to_native(frame).reset_index(drop=True), eager_only=True)
    return plain


def _frame_records(X: Any, features: Sequence[str] | None) -> Records:
    frame = _without_views(as_frame(X))
    columns = frame.columns
    if features is not None:
        missing = [name for name in features if name not in columns]
        if missing:
            raise ValueError(
                f"the table lacks the column {missing[0]!r} on which the classifier was fitted; {shown_names(columns)}"
            )
        frame = frame.select(*(frame.get_column(name) for name in features))  # a name may read like a pattern
    return FrameRecords(frame, tuple(columns))
