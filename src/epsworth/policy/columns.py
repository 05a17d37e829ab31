"""One column under a policy's rule: natural values -> public grid -> exact draw -> natural values; others pass.

What leaves is looked up in a table of the public grid's values, so nothing of the input's digits survives.  Of a column
that passes, what no row holds is dropped: categories, values under a gap, rows beside a slice.  What other libraries
say of a table may quote its values: it is told by its kind alone.

Whether somebody's age is a gap, a fraction or a text decides which type NumPy gives a whole table.  So the numbers of
an array that pass leave as doubles, where doubles hold them, whatever they came as.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Floats, Indices
from epsworth.grids import values_at
from epsworth.policy.policy import Policy
from epsworth.policy.rules import Rule
from epsworth.refusals import alone, raised_in
from epsworth.space import Feature
from epsworth.values import NUMBERS, PLAIN, WORDS, is_missing, items, numbers, spelt_number

FOREIGN = "could not convert"  # NumPy's words, raised under a frame of ours, which go on with the value


@contextmanager
def values_withheld(what: str) -> Iterator[None]:
    """Let our own sentences and the system's errors pass; say of any other accident what kind it was.

    Parameters
    ----------
    what : str
        The sentence's subject, such as "the column age".

    Examples
    --------
    >>> with values_withheld("the column age"):
    ...     {}["77.4242"]
    Traceback (most recent call last):
    ValueError: the column age cannot be read by the libraries at hand (KeyError); give plain numbers or texts
    """
    with alone():
        try:
            yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit, OSError):
            raise
        except BaseException as error:  # a panic of compiled code is no Exception
            if is_ours(error):
                raise
            kind = type(error).__name__
        else:
            return
        raise ValueError(f"{what} cannot be read by the libraries at hand ({kind}); give plain numbers or texts")


def is_ours(error: BaseException) -> bool:
    """Tell a sentence of ours, which holds no value, from another library's words."""
    if not isinstance(error, (ValueError, TypeError)) or str(error).startswith(FOREIGN):
        return False
    return raised_in(error).startswith("epsworth.")


if TYPE_CHECKING:
    from epsworth.mechanisms.words import WordSource

MISSING, OUTSIDE = -1, -2


def centre(feature: Feature) -> float:
    """Return what stands for a number that a record does not release, where the others are scaled."""
    return (feature.lower + feature.upper) / 2


def spread(feature: Feature, values: Floats, factor: float) -> Floats:
    """Return numbers of a feature, scaled about its centre."""
    middle = centre(feature)
    return np.asarray(middle + factor * (values - middle))


class Column:
    """Encodes, draws and decodes one feature.

    Parameters
    ----------
    rule : Rule
    """

    def __init__(self, rule: Rule) -> None:
        self.rule, self.feature = rule, rule.feature

    @cached_property
    def values(self) -> NDArray[Any]:
        """The released values by output index, in natural units (rounded to the rule's grid where it has one)."""
        points = self.rule.kernel.points
        unit, grid = np.arange(points) / (points - 1), points
        if self.rule.points is not None:  # post-processing: the nearest point of the coarser grid
            grid = self.rule.points
            unit = np.rint(unit * (grid - 1)) / (grid - 1)
        return values_at(self.feature, unit, grid)

    def encode(self, values: Any, first: int = 0, read: Callable[[Any], float] = spelt_number) -> Indices:
        """Return the kernel's inputs for natural values, whatever they are.

        Claim: whether a value is refused depends on the policy alone, where it says what stands for missing values and
        for undeclared categories: nothing is refused, and nothing warned of, then.

        Parameters
        ----------
        values : array of shape ``(n,)``, or iterable of any values
        first : int
            Number of the first row, for messages.
        read : callable
            How a single value is read as a number (`spelt_number` in tables, `number` where values have types).
        """
        if self.feature.categories is None:
            return self.encode_numbers(numbers(values, read), first)
        return self.resolve(self.kinds(values), first)

    def encode_numbers(self, natural: Floats, first: int = 0) -> Indices:
        """Return the kernel's inputs for numbers; NaN is missing, and what lies outside the range is clamped."""
        if natural.ndim != 1:  # a record with two values would be drawn for twice
            raise ValueError(
                f"{self.feature.name}: the column holds more than one value per record; give each a column of its own"
            )
        missing = np.isnan(natural)
        if missing.any():
            natural = np.where(missing, self._instead("missing", missing, first), natural)
        low, high = self.feature.lower, self.feature.upper
        with np.errstate(all="ignore"):  # whatever is tiny
            return self.rule.kernel.index((np.clip(natural, low, high) - low) / (high - low))

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {category: i for i, category in enumerate(self.feature.categories or ())}

    def kinds(self, values: Any) -> Indices:
        """Return the index of every category, `MISSING` for gaps, `OUTSIDE` for all that is not declared."""
        codes = self._codes
        found = [
            MISSING if is_missing(v) else codes.get(v, OUTSIDE) if type(v) in WORDS else OUTSIDE for v in items(values)
        ]
        return np.array(found, dtype=np.int64)

    def resolve(self, kinds: Indices, first: int = 0) -> Indices:
        """Return the kernel's inputs for categories (see `kinds`), by the rule for missing and undeclared ones."""
        for kind, code in (("missing", MISSING), ("outside", OUTSIDE)):
            where = kinds == code
            if where.any():
                (instead,) = self.kinds([self._instead(kind, where, first)])
                kinds = np.where(where, instead, kinds)
        return kinds

    def _instead(self, kind: str, where: Bools, first: int) -> Any:
        """Return what stands for such a value, or refuse it; the message names the row, never the value."""
        value = getattr(self.rule, kind)
        if value is None:
            row = first + int(np.argmax(where))
            gap = "is missing" if self.feature.categories is not None else "is missing, or not a number"
            what = gap if kind == "missing" else "is not a declared category"
            raise ValueError(
                f"row {row}, {self.feature.name}: the value {what}, and the policy refuses that; repair the row, "
                f"or let the policy say what stands for it (features.{self.feature.name}.{kind} = ...)"
            )
        return value

    def draw(self, inputs: Indices, words: WordSource | None = None) -> Indices:
        """Return indices into `values`, one per input; fresh on every call."""
        return self.rule.kernel.draw(inputs, words=words)

    def released(self, drawn: Indices, keep: Bools | None, policy: Policy) -> NDArray[Any]:
        """Return natural values; where ``keep`` is false the record does not release this feature."""
        values: NDArray[Any] = self.values[np.asarray(drawn)]
        if keep is None or policy.sampling is None:
            return values
        if policy.sampling.unsampled == "scaled":
            factor = len(policy.rules) / policy.sampling.features
            return np.where(keep, spread(self.feature, values, factor), centre(self.feature))
        if self.feature.categories is None:
            return np.where(keep, values, np.nan)
        values = values.astype(object)
        values[~keep] = None
        return values


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


EXACT = 1 << 53  # doubles hold every whole number up to it
SPELT = {"True": 1.0, "False": 0.0}


def passing(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column that passes: doubles if they hold all its numbers and truths, else objects.

    NumPy makes an array of texts of numbers beside a text.  So a text that is a number as NumPy spells it is that
    number, whatever the array's type.

    Examples
    --------
    >>> passing(np.array([5, 2**53 + 1])).tolist(), passing(np.array([5, None, True], dtype=object)).tolist()
    ([5.0, 9007199254740993], [5.0, None, 1.0])
    >>> passing(np.array(["5", "7.5"])).tolist(), passing(np.array(["5", "07"])).tolist()
    ([5.0, 7.5], [5.0, '07'])
    """
    if column.dtype.kind in PLAIN and column.dtype.itemsize <= 8:
        with np.errstate(all="ignore"):  # of signalling NaNs
            found: NDArray[Any] = column.astype(np.float64)
        if column.dtype.kind == "f" or (np.abs(found) < EXACT).all():
            return found
    values = [_double(value) for value in items(column)]
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found.astype(np.float64) if all(type(value) is float for value in values) else found


def stacked(columns: Sequence[NDArray[Any]], rows: int) -> NDArray[Any]:
    """Return columns side by side: doubles if all of them are numbers, else objects."""
    plain = all(column.dtype in (np.float64, np.int64) for column in columns)
    table = np.empty((rows, len(columns)), dtype=np.float64 if plain else object)
    for at, column in enumerate(columns):
        table[:, at] = column
    return table


def _double(value: Any) -> Any:
    """Return a number or truth as a double, if that holds it; any other value as it is."""
    if type(value) in (bool, np.bool_):
        return float(value)
    if type(value) in (str, bytes, np.str_, np.bytes_):
        spelt = _spelt(value)
        return (value if type(value) in (str, bytes) else value.item()) if spelt is None else _double(spelt)
    try:
        if type(value) in NUMBERS and (value != value or float(value) == value):
            return float(value)
    except (ValueError, ArithmeticError):  # a signalling NaN, or what is too large
        pass
    return value


def _spelt(value: str | bytes) -> int | float | None:
    """Return the number that NumPy spells so; None for any other text."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if text in SPELT:
        return SPELT[text]
    for kind in (int, float):
        try:
            if str(found := kind(text)) == text:
                return found
        except ValueError:
            pass
    return None
