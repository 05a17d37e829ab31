"""Data frames of any kind that narwhals knows (pandas, polars, arrow), and columns that take the place of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.extras import needed
from epsworth.series import series_values

if TYPE_CHECKING:
    import narwhals as nw


def as_frame(table: Any) -> nw.DataFrame[Any]:
    """Wrap a data frame of any kind that narwhals knows (pandas, polars, arrow)."""
    import narwhals as nw

    refuse_lazy(table)
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


def frame_of(columns: Mapping[str, Any], why: str) -> Any:
    """Return a polars data frame of columns; of pandas where that alone is installed.

    Parameters
    ----------
    why : str
        What needs it, where neither is there.

    Examples
    --------
    >>> frame_of({"epsilon": [1.0, 2.0]}, "a table").shape
    (2, 1)
    """
    if find_spec("polars") is None and find_spec("pandas") is not None:
        return import_module("pandas").DataFrame(columns)
    return needed("polars", "files", why).DataFrame(columns)


def refuse_lazy(table: Any) -> None:
    """Say how to get at the rows of tables that hold a plan instead, or no zeros."""
    kind, module = type(table).__name__, type(table).__module__.partition(".")[0]
    if module in ("dask", "dask_expr"):
        raise ValueError(f"the table is a lazy Dask {kind}; call .compute() on it first")
    if hasattr(table, "collect"):
        raise ValueError(f"the table is a lazy {kind}; call .collect() on it first")
    if module == "scipy":
        raise ValueError(f"the table is a sparse {kind}; call .toarray() on it first")


def _refuse_twins(columns: Any) -> None:
    """Refuse two columns of one name."""
    names = list(columns)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the table has two columns of the same name, {name!r}; give them different names")


def without_views(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
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
    return unindexed(frame).with_columns(*new) if new else frame


def unindexed(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a frame of pandas, which aligns on the index, with a plain one; any other as it is."""
    import narwhals as nw

    if not frame.implementation.is_pandas():
        return frame
    plain: nw.DataFrame[Any] = nw.from_native(nw.to_native(frame).reset_index(drop=True), eager_only=True)
    return plain


def coded_texts(series: nw.Series[Any]) -> tuple[NDArray[Any], list[str | None]] | None:
    """Return a number for each text of a column, and the texts, a gap as None; None for a column of anything else."""
    import narwhals as nw

    if not isinstance(series.dtype, (nw.String, nw.Categorical, nw.Enum)):
        return None
    texts: list[str | None] = sorted(series.drop_nulls().unique().to_list(), key=str)
    if not all(isinstance(text, str) for text in texts):  # categories of pandas can be anything
        return None
    gaps = np.asarray(series.is_null().to_numpy(), dtype=bool)
    if not texts:
        return np.zeros(len(gaps), dtype=np.int32), [None]
    if gaps.any() and series.implementation.is_pandas_like():
        series = series.fill_null(texts[0])  # casts of old versions make a text of a gap
    plain = series.cast(nw.String()).fill_null(texts[0])
    if series.implementation.is_polars():  # three times as fast
        codes = nw.to_native(plain.cast(nw.Enum([str(text) for text in texts])))
        numbers = codes.to_physical().to_numpy().astype(np.int32)
    else:
        numbers = np.array(plain.replace_strict(texts, list(range(len(texts))), return_dtype=nw.Int32()).to_numpy())
    numbers[gaps] = len(texts)
    return numbers, [*texts, *([None] if gaps.any() else [])]


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


def as_before(new: nw.Series[Any], old: nw.Series[Any]) -> nw.Series[Any]:
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
