"""What no row of a column that passes holds: categories, values under a gap, rows beside a slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import narwhals as nw


MASKED = ("IntegerArray", "FloatingArray", "BooleanArray")  # of pandas


def check_categories(names: Iterable[str], frame: nw.DataFrame[Any]) -> None:
    """Refuse categories inside of lists or structs, a matter of a column's type alone: `without_unused` keeps them all.

    Parameters
    ----------
    names : iterable of str
        The columns that pass.
    frame : narwhals data frame
    """
    for name in names:
        native = frame.get_column(name).to_native()
        kind = native.type if frame.implementation.is_pyarrow() else native.dtype
        kind = getattr(kind, "pyarrow_dtype", kind)  # pandas holds columns of arrow, too
        if any(_is_categorical(inner) for part in _parts(kind) for inner in (part, *_parts(part, deep=True))):
            raise ValueError(
                f"{name}: the column passes, and has categories inside of lists or structs, where unused ones would "
                "leave, too; give texts instead"
            )


def without_unused(names: Sequence[str], frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a frame whose columns of categories have those that their rows hold, in their order; pandas' labels, too.

    Parameters
    ----------
    names : sequence of str
        The columns that pass.
    frame : narwhals data frame
    """
    import narwhals as nw

    native: Any = nw.to_native(frame)
    if frame.implementation.is_polars():
        kinds = frame.schema  # made anew each time
        return frame.with_columns(*(_of_enum(frame.get_column(n)) for n in names if kinds[n] == nw.Enum))
    if frame.implementation.is_pandas_like():
        native = _of_pandas(names, native, nw.get_native_namespace(frame))
    elif frame.implementation.is_pyarrow():
        places = {name: at for at, name in enumerate(native.column_names)}
        for at in map(places.__getitem__, names):
            native = native.set_column(at, native.schema.field(at), _of_arrow(native.column(at)))
    return nw.from_native(native, eager_only=True)


def _parts(kind: Any, deep: bool = False) -> Iterator[Any]:
    """Yield the types inside of a type of polars or arrow; not those of a type of categories itself."""
    if _is_categorical(kind):
        return
    found = [getattr(kind, key, None) for key in ("inner", "value_type", "storage_type")]
    found += [getattr(field, "dtype", None) for field in getattr(kind, "fields", None) or ()]
    found += [kind.field(i).type for i in range(getattr(kind, "num_fields", 0))]
    for part in found:
        if part is not None and part is not kind and not isinstance(part, np.dtype):
            yield part
            if deep:
                yield from _parts(part, deep)


def _is_categorical(kind: Any) -> bool:
    return type(kind).__name__ in ("Categorical", "Enum", "DictionaryType")  # polars' two, and arrow's


def _is_dictionary(kind: Any) -> bool:
    return type(kind).__name__ == "DictionaryType"


def _of_enum(series: nw.Series[Any]) -> nw.Series[Any]:
    import narwhals as nw

    held = set(series.unique().to_list())
    return series.cast(nw.String()).cast(nw.Enum([word for word in series.dtype.categories if word in held]))  # type: ignore[attr-defined]


def _of_pandas(names: Sequence[str], table: Any, pandas: Any) -> Any:
    """Return a table of pandas; its index and the names of its columns are columns, too."""
    table = table.copy(deep=False)
    for name in names:
        if (held := _held(table[name].array)) is not None:
            table[name] = pandas.Series(held, index=table.index, name=name)
    table.index = _of_index(table.index, pandas)
    table.columns = _of_index(table.columns, pandas)
    return table


def _of_index(index: Any, pandas: Any) -> Any:
    if not isinstance(index, pandas.MultiIndex):
        held = _held(index.array)
        return index if held is None else pandas.Index(held, name=index.name)
    index = index.remove_unused_levels()
    for at, level in enumerate(index.levels):
        if (held := _held(level.array)) is not None:
            index = index.set_levels(pandas.Index(held, name=level.name), level=at)
    return index


def _held(array: Any) -> Any:
    """Return an array of categories with those that it holds; None of one that has none."""
    if hasattr(array, "remove_unused_categories"):
        return array.remove_unused_categories()
    if type(array).__name__ in MASKED:
        own = array.dtype.numpy_dtype
        return type(array)(array.to_numpy(dtype=own, na_value=own.type(0)), np.asarray(array.isna()))
    if not hasattr(array.dtype, "pyarrow_dtype"):
        return None
    import pyarrow as pa

    column = array.__arrow_array__()
    return type(array)(_of_arrow(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])))


def _of_arrow(column: Any) -> Any:
    """Return a chunked array of what its rows hold; of categories one dictionary, of those that they point to."""
    import pyarrow as pa

    if not _is_dictionary(column.type):
        return column.take(pa.array(np.arange(len(column))))  # writes new buffers, with nothing under a gap
    chunks = column.unify_dictionaries().chunks
    if not chunks:
        return column
    places = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]  # NaN where a row holds none
    held = np.unique(np.concatenate([np.asarray(at[at == at], dtype=np.int64) for at in places]))
    words = chunks[0].dictionary.take(pa.array(held))
    told = [
        pa.array(np.searchsorted(held, np.where(at == at, at, -1)), type=column.type.index_type, mask=at != at)
        for at in places
    ]
    made = [pa.DictionaryArray.from_arrays(at, words, ordered=column.type.ordered) for at in told]
    return pa.chunked_array(made, type=column.type)
