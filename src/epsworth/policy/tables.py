"""`perturb`: a policy applied to a table in memory; other columns pass through, or leave, as it says.

A tailored policy sees a column as places, and natural values leave for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools, Indices
from epsworth.frames import as_frame, categories_of, is_categorical
from epsworth.grids import Grid
from epsworth.headers import NO_COLUMN, shown_names
from epsworth.mechanisms.words import NotPrivate, SystemWords, WordSource
from epsworth.numerals import short
from epsworth.policy.beside import check_beside, check_index, without_notes
from epsworth.policy.columns import (
    Column,
    check_categories,
    passing,
    stacked,
    values_withheld,
    without_unused,
)
from epsworth.policy.files.outputs import check_plain, check_released
from epsworth.policy.policy import Given, Policy, as_policy
from epsworth.refusals import alone
from epsworth.series import numbers_series, series_codes, series_numbers, words_series
from epsworth.space import Feature
from epsworth.values import GAPS, number, spelt_number

if TYPE_CHECKING:
    from epsworth.policy.policy import Policy


class GridColumn:
    """A column on its grid, as `Column` is one under a rule; nothing that it holds is ever refused."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    @property
    def feature(self) -> Feature:
        """Its public range or categories."""
        return self.grid.feature

    @property
    def values(self) -> NDArray[Any]:
        """The natural values by place."""
        return self.grid.values

    def places(self, column: Any) -> Indices:
        """Return the places of natural values, whatever they are."""
        return self.grid.places(column)

    def released(self, drawn: Indices, keep: Bools | None, policy: Policy) -> NDArray[Any]:
        """Return natural values; every record releases them."""
        values: NDArray[Any] = self.values[np.asarray(drawn)]
        return values


if TYPE_CHECKING:
    import narwhals as nw

    from epsworth.tailored.mechanism import Tailoring

Replaced = Column | GridColumn
PLAIN = "values"  # some functions of engines take a name such as ^a.*$ for a pattern
CHUNK = 1 << 16  # rows whose subsets are chosen together


@alone()
def perturb(policy: Given, table: Any) -> Any:
    """Perturb a table as the policy says, with draws fit for release.

    Claim: each record of the result keeps ``policy.guarantee`` against whoever sees it, once.  Perturbing the same
    record again adds the same epsilon again; no ledger counts it, as `perturb_file` does.

    Parameters
    ----------
    policy : Policy or path
    table : data frame (pandas, polars, arrow), array of shape ``(n, d)``, or mapping
        A mapping is one record, from name to value: `epsworth.client.Client` perturbs it.  A table must hold every
        feature of the policy; columns of an array are called x0, x1, ..

    Returns
    -------
    The same kind of table
        Rows, order and other columns as they were, but for those that the policy drops.  Perturbed numbers are floats
        on the policy's public grid, or integers where that is all whole numbers of the range; perturbed columns of
        categories (pandas, polars, arrow) hold the policy's, all of them and in its order, because the table's own may
        tell its values.

    Raises
    ------
    ValueError
        For a table that lacks a feature of the policy, or has a column that the policy does not name, and values that
        the policy refuses, by row.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth import Domain, Policy, perturb
    >>> policy = Policy.of("pm", 1, Domain.of({0: (0, 100)}), passing=["x1"])
    >>> released = perturb(policy, np.array([[20.0, 7.0], [30.0, 8.0]]))
    >>> released[:, 1].tolist(), bool((released[:, 0] <= 100).all())
    ([7.0, 8.0], True)
    """
    policy = as_policy(policy, table)
    if isinstance(table, np.ndarray):
        return Perturbation(policy).array(table)
    if isinstance(table, Mapping):
        policy.passing.kept([name for name in table if isinstance(name, str)], policy.names)
        return policy.client.perturb({name: _plain(value) for name, value in table.items()})
    import narwhals as nw

    return nw.to_native(Perturbation(policy).frame(as_frame(table)))


def _plain(value: Any) -> Any:
    """Return NumPy's numbers, truths and texts as Python's own, and gaps as None; no value is asked what it is."""
    kind = type(value)
    if kind in (np.longdouble, Decimal, Fraction):
        return number(value)
    if kind in (np.datetime64, np.timedelta64):
        return None if np.isnat(value) else value
    plain = issubclass(kind, (np.number, np.bool_, np.str_)) and not issubclass(kind, np.timedelta64)
    return value.item() if plain else None if kind.__name__ in GAPS else value


def check_words(words: object) -> WordSource | None:
    """Refuse what no words can be taken of, before anything is charged."""
    if words is not None and not isinstance(words, WordSource):
        raise TypeError(f"words must be a source of words, for tests alone, got {short(words)}")
    return words


class Perturbation:
    """A policy made ready to run on tables, batch by batch.

    Parameters
    ----------
    words : WordSource, optional
        For tests alone: whatever it touches is NOT PRIVATE.
    """

    def __init__(self, policy: Policy, words: WordSource | None = None) -> None:
        self.policy, self.words = policy, check_words(words)
        self.ruled = {rule.feature.name: Column(rule) for rule in policy.rules}
        tailoring = policy.tailoring
        self.seen = {} if tailoring is None else {grid.name: GridColumn(grid) for grid in tailoring.grids}
        replaced = () if tailoring is None else tailoring.names
        self.columns: dict[str, Replaced] = {**self.ruled, **{name: self.seen[name] for name in replaced}}

    @property
    def private(self) -> bool:
        """Whether its draws may leave a device."""
        return self.words is None or self.words.private

    def drawing(self, words: WordSource | None) -> Perturbation:
        """Return the same, ready to draw with other words; all tables are shared."""
        other = copy(self)
        other.words = words
        return other

    def draw(
        self, inputs: Mapping[str, Indices], places: Mapping[str, Indices] | None = None
    ) -> Iterator[tuple[Replaced, Indices, Bools | None]]:
        """Yield every perturbed column with its draws and the rows that release it (None: all).

        Parameters
        ----------
        inputs : mapping
            The kernels' inputs of what rules perturb, by feature name.
        places : mapping, optional
            Where records lie in the columns that a tailored policy sees (`seen`).
        """
        given = [*inputs.values(), *(places or {}).values()]
        rows = len(given[0])
        if any(indices.shape != (rows,) for indices in given):
            raise ValueError("the perturbed columns must hold one value per record each; give columns of one length")
        keep = self._released(rows)
        drawn = {name: column.draw(inputs[name], self.words) for name, column in self.ruled.items()}
        if any(indices.shape != (rows,) for indices in drawn.values()):
            raise RuntimeError("a kernel did not draw once for every record; nothing was released")
        for name, column in self.ruled.items():
            yield column, drawn[name], keep.get(name)
        if self.policy.tailoring is not None:
            sent = self._tailored(self.policy.tailoring, places or {}, drawn)
            for position, name in enumerate(self.policy.tailoring.names):
                yield self.columns[name], sent[:, position], None

    def _tailored(self, tailoring: Tailoring, places: Mapping[str, Indices], drawn: Mapping[str, Indices]) -> Indices:
        """Return what is sent in place of the sensitive columns; of a column with a rule only the region sees more.

        What rules release is drawn before, and is all that the choice of regions within reach may see of it.
        """
        true = np.stack([places[name] for name in self.seen], axis=1)
        seen = true.copy()
        for position, (name, column) in enumerate(self.seen.items()):
            if name in self.ruled:
                released: Any = self.ruled[name].values[np.asarray(drawn[name])]
                seen[:, position] = column.places(released)
        sent = tailoring.released(true, seen, self.words)
        return sent if self.private else sent.view(NotPrivate)

    @alone()
    def frame(self, frame: nw.DataFrame[Any], first: int = 0) -> nw.DataFrame[Any]:
        """Return the frame with its perturbed columns replaced; ``first`` numbers its first row in messages."""
        import narwhals as nw

        inputs, places = self.read(frame, first)
        released = frame.with_columns(*(self._verified(*drawn, frame) for drawn in self.draw(inputs, places)))
        kept = self.kept(frame.columns)
        if len(kept) < len(frame.columns):  # columns themselves: a name that reads like a pattern would select others
            released = released.select(*(released.get_column(name) for name in kept))
        with values_withheld("the table"):
            released = without_unused([name for name in kept if name not in self.columns], released)
        return nw.from_native(without_notes(nw.to_native(released)), eager_only=True)

    @alone()
    def read(self, frame: nw.DataFrame[Any], first: int = 0) -> tuple[dict[str, Indices], dict[str, Indices]]:
        """Return the kernels' inputs and the places of a frame's records (see `draw`), or refuse a record; no draws."""
        import narwhals as nw

        passed = [name for name in self.check_names(frame.columns) if name not in self.columns]
        native = nw.to_native(frame)
        check_beside(self.columns, native)
        check_categories(passed, frame)
        check_index(self.policy.passing.columns, native, numbered=True)
        for name in passed:
            _check_single(name, frame.get_column(name).alias(PLAIN))

        def values(name: str) -> nw.Series[Any]:
            return frame.get_column(name).alias(PLAIN)

        for column in self.columns.values():  # nothing is drawn that could not be written
            if column.feature.categories is not None:
                words_series(column.feature, nw.get_native_namespace(frame), gaps=self.policy.sampling is not None)
        with values_withheld("a column that the policy perturbs"):
            inputs = {name: _encoded(column, values(name), first) for name, column in self.ruled.items()}
            return inputs, {name: _places(column, values(name)) for name, column in self.seen.items()}

    @alone()
    def array(self, table: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of an array with its perturbed columns replaced."""
        table = self.unmasked(table)
        if table.ndim != 2:
            raise ValueError(f"the table must have shape (records, features), got shape {table.shape}; reshape it")
        names = [f"x{i}" for i in range(table.shape[1])]
        kept = self.check_names(names)
        if table.dtype.kind == "O":
            for name in (name for name in kept if name not in self.columns):
                check_plain(name, table[:, names.index(name)])
        with values_withheld("the array"):
            columns = {name: table[:, at] for at, name in enumerate(names)}
            inputs = {name: column.encode(columns[name]) for name, column in self.ruled.items()}
            places = {name: column.places(columns[name]) for name, column in self.seen.items()}
        for column, drawn, keep in self.draw(inputs, places):
            columns[column.feature.name] = column.released(drawn, keep, self.policy)
            check_released(column, drawn, keep, self.policy, columns[column.feature.name])
        return stacked([columns[name] if name in self.columns else passing(columns[name]) for name in kept], len(table))

    @alone()
    def unmasked(self, table: NDArray[Any]) -> NDArray[Any]:
        """Return a plain array: subclasses may index and assign in ways of their own.

        What is masked in a perturbed column is a gap, as any other; where it would pass, a mask is refused.
        """
        if table.dtype.kind in "cmMV":  # a matter of the whole table's type, not of a value or a mask
            raise ValueError(f"the table holds {table.dtype.name}, neither numbers nor words; recode it")
        if not np.ma.is_masked(table) or table.ndim != 2:
            check_unmasked(table)
            return np.asarray(table)
        check_unmasked(table[:, [i for i in range(table.shape[1]) if f"x{i}" not in self.columns]])
        plain = np.array(table, dtype=object)
        for at in range(table.shape[1]):
            if f"x{at}" not in self.columns:
                plain[:, at] = passing(np.asarray(table[:, at]))
        plain[np.ma.getmaskarray(table)] = None
        return plain

    def check_names(self, names: list[str], *, named: bool = False) -> list[str]:
        """Return the columns that stay; refuse a table that lacks a feature, or has a column nobody declared.

        Leaving a feature out silently would release something else.  ``named``: see `Pass.kept`.
        """
        for name in {**self.columns, **self.seen}:
            if name not in names:
                given = shown_names(names) if self.policy.knows(names) else NO_COLUMN
                given = f"it has {', '.join(map(repr, names))}" if named else given
                does = "perturbs" if name in self.columns else "looks at"
                raise ValueError(f"the table lacks the column {name!r}, which the policy {does}; {given}")
        return self.policy.passing.kept(names, self.columns, named=named)

    def kept(self, names: list[str]) -> list[str]:
        """Return the columns that stay, in their order; those that the policy does not know are refused."""
        return self.policy.passing.kept(names, self.columns)

    def plain(self, kept: list[str]) -> list[str]:
        """Return the columns that pass through and may hold neither commas nor quotes in CSV."""
        return [name for name in kept if name not in self.columns and name not in self.policy.passing.text]

    def _released(self, rows: int) -> dict[str, Bools]:
        """Return which rows release each feature; empty where all do.  The choice does not look at the data."""
        if self.policy.sampling is None:
            return {}
        d, k, source = len(self.columns), self.policy.sampling.features, self.words or SystemWords()
        keep = np.zeros((rows, d), dtype=bool)
        step = max(1, CHUNK // d)
        for start in range(0, rows, step):
            size = min(step, rows - start)
            order = np.argsort(source.take(size * d).reshape(size, d), axis=1)  # ranks of words: a random subset
            np.put_along_axis(keep[start : start + size], order[:, :k], True, axis=1)
        return dict(zip(self.columns, keep.T, strict=True))

    def _verified(
        self, column: Replaced, drawn: Indices, keep: Bools | None, frame: nw.DataFrame[Any]
    ) -> nw.Series[Any]:
        """Return what leaves, once it is known to be public."""
        released = self._series(column, drawn, keep, frame)
        check_released(column, drawn, keep, self.policy, released)
        return released.alias(column.feature.name)

    def _series(self, column: Replaced, drawn: Indices, keep: Bools | None, frame: nw.DataFrame[Any]) -> nw.Series[Any]:
        """Return released values as a series of the frame's own kind, under a plain name."""
        import narwhals as nw

        backend = nw.get_native_namespace(frame)
        if column.feature.categories is None:
            return numbers_series(column.released(drawn, keep, self.policy), backend)
        before = frame.get_column(column.feature.name).alias(PLAIN)
        codes = np.asarray(drawn) if keep is None else np.where(keep, drawn, len(column.feature.categories))
        if isinstance(column, Column) and is_categorical(before):
            return categories_of(
                column.feature.categories, drawn if keep is None else np.where(keep, drawn, -1), before
            )
        return words_series(column.feature, backend, gaps=keep is not None)[codes]


def check_unmasked(table: Any) -> None:
    """Refuse a masked array with masked entries: what they hide would be perturbed, or pass through, in the open."""
    if isinstance(table, np.ma.MaskedArray) and np.ma.is_masked(table):
        raise ValueError("the table is a masked array with masked entries, which hide values; fill them first")


def _encoded(column: Column, series: nw.Series[Any], first: int) -> Indices:
    """Return a series' kernel inputs, or refuse a record of it."""
    if column.feature.categories is None:
        return column.encode_numbers(series_numbers(series, spelt_number), first)
    return column.resolve(series_codes(series, column.kinds), first)


def _places(column: GridColumn, series: nw.Series[Any]) -> Indices:
    """Return a series' places on a tailored policy's grid."""
    if column.feature.categories is None:
        return column.places(series_numbers(series, number))
    return series_codes(series, column.places)


def _check_single(name: str, series: nw.Series[Any]) -> None:
    """Refuse a column that passes by its name and holds more than one value per record, or what nobody knows."""
    import narwhals as nw

    kind = series.dtype
    if series.implementation.is_pandas_like() and kind == nw.Object:
        return check_plain(name, series.to_list())
    if isinstance(kind, (nw.Categorical, nw.Enum)) and not series.implementation.is_polars():  # which has texts alone
        return check_plain(name, series.unique().to_list())
    unknown = kind == nw.Unknown and series.null_count() < len(series)  # polars' and arrow's type of nothing
    if unknown and "binary" in str(getattr(series.to_native(), "type", "")):  # arrow's large ones
        unknown = False
    if unknown or isinstance(kind, (nw.Struct, nw.List, nw.Array, nw.Object)):
        raise ValueError(
            f"{name}: the column passes, but holds no single values but {type(kind).__name__.lower()}; "
            "give one number, word or truth per record"
        )
