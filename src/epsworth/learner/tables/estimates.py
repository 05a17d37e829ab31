"""From sums to tables of bins and labels: unbiased values, shrunk by what their own noise tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.encoding import hadamard, odd_overlap, reverse, walsh
from epsworth.learner.tables.columns import BINS, BITS, CLASS_ONLY, FINE, Category, Column, Knots, Number, Rows
from epsworth.learner.tables.regimes import Plan

TINY = 1e-30
LEAST_PRIOR, LEAST_BIN = 1e-3, 0.02
MOST_SPLIT = 0.98  # of a node's mass in the tree of quantiles
EVENLY = 0.03  # of the knots' steps that are even, whatever was estimated
MIDDLE = (BINS - 1) / 2


class Values(NamedTuple):
    """Unbiased values of rows, and their variances; 0 and infinite where nobody answered a row."""

    value: Floats
    variance: Floats


def values_of(counts: Ints, shares: Floats, contrast: float) -> Values:
    """Return the values of rows from counts of -1 and +1 ``(rows, 2)``; variances are those that were planned."""
    answered, lead = counts.sum(axis=1), counts[:, 1] - counts[:, 0]
    value = np.where(answered > 0, lead / (np.maximum(answered, 1) * contrast), 0.0)
    with np.errstate(divide="ignore"):
        planned = 1 / (contrast**2 * answered.sum() * shares)
    return Values(as_floats(value), np.where(answered > 0, planned, np.inf))


def shrink(value: Floats, variance: Floats, group: float | None = None) -> Floats:
    """Return the values of one group of rows, a column's in each row ``(columns, entries)``, shrunk towards zero.

    How far true values spread is the group's g = mean(v^2 - s^2), or the column's own where that is better known
    than by its noise e = s^2 sqrt(2 / k): w = g^2 / (g^2 + e^2).
    """
    size = np.where(np.isfinite(variance), value**2 - variance, 0.0)
    g = max(0.0, float(size.mean())) if group is None else group
    own, own_noise = size.mean(axis=1), variance[:, 0] * np.sqrt(2 / value.shape[1])
    trust = g**2 / (g**2 + own_noise**2 + TINY)
    spread = np.maximum(0.0, np.where(trust > 0, trust * own, 0.0) + (1 - trust) * g)[:, None]
    with np.errstate(invalid="ignore"):
        return as_floats(np.where(np.isfinite(variance), value * spread / (spread + variance), 0.0))


def knots_of(values: Values, rows: Rows, columns: Sequence[Column]) -> tuple[Knots | None, ...]:
    """Return the knots of every number's map, from the tree of its dyadic Walsh characters; None for categories."""
    found: list[Knots | None] = []
    for j, column in enumerate(columns):
        if isinstance(column, Category):
            found.append(None)
            continue
        at = np.flatnonzero(rows.column == j)
        found.append(knots(tree(values.value[at], values.variance[at])))
    return tuple(found)


def tree(value: Floats, variance: Floats) -> Floats:
    """Return 32 masses from 31 characters, r = 1..31, by splitting nodes from the whole downwards.

    A node's split share s = D / m is shrunk by (1/3) / (1/3 + sd^2 / m^2): a uniform share has variance 1/3.
    """
    mass = np.ones(1)
    bits = FINE.bit_length() - 1
    for level in range(1, bits + 1):
        nodes = 1 << (level - 1)
        of = np.arange(nodes, 2 * nodes)  # the level's characters
        first = np.arange(nodes) * (FINE // nodes)  # each node's first bin
        sign = 1 - 2 * odd_overlap(np.array([reverse(int(r), bits) for r in of])[None, :], first[:, None])
        split = sign @ value[of - 1] / nodes
        noise = (variance[of - 1].sum()) / nodes**2
        m = np.maximum(mass, 1e-6)
        with np.errstate(invalid="ignore"):
            share = np.clip(split / m, -1.2, 1.2) * (1 / 3) / (1 / 3 + noise / m**2)
        share = np.clip(share, -MOST_SPLIT, MOST_SPLIT)
        mass = np.column_stack([mass * (1 + share) / 2, mass * (1 - share) / 2]).ravel()
    return as_floats(mass)


def knots(mass: Floats) -> Knots:
    """Return 33 whole numbers / 2^32: square roots of the masses, a little evened out, added up."""
    return tuple(np.round(evened(mass) * 2.0**BITS).astype(np.int64).tolist())


def evened(mass: Floats) -> Floats:
    """Return the ends of 32 steps from 0 to 1: roots of the masses, and a little of the even step."""
    root = np.sqrt(np.maximum(mass, 1e-9))
    image = np.concatenate([[0.0], np.cumsum((1 - EVENLY) * root / root.sum() + EVENLY / FINE)])
    return as_floats(image / image[-1])


@dataclass(frozen=True, eq=False)
class Joint:
    """Estimates: the labels' prior ``(classes,)``, P(bin, label) per column, P(present, label) per column."""

    prior: Floats
    tables: tuple[Floats, ...]
    present: tuple[Floats | None, ...]


def joint(values: Values, rows: Rows, columns: Sequence[Column], classes: int, plan: Plan) -> Joint:
    """Return the tables that the sums of the rows tell, shrunk as the regime says, and inverted."""
    characters = 1 << (classes - 1).bit_length()
    labels = hadamard(characters)[:, :classes]
    entries = [_by_order(values, rows, j, column, characters) for j, column in enumerate(columns)]
    only = _of_labels(values, rows, labels)
    prior = np.clip(labels.T @ only / characters, LEAST_PRIOR, None)
    prior /= prior.sum()
    found, here = _shrunk(entries, columns), _present(entries, columns, only)
    for j, table in enumerate(found):
        table[0] = here.get(j, only)
    lines = plan.regime in ("ramp", "weighted")
    if lines:
        _towards_lines(entries, found, columns, plan)
    tables = []
    for j, (table, column) in enumerate(zip(found, columns, strict=True)):
        if j not in here:
            table[0] = labels @ prior
        lost = plan.steep or lines
        for order in range(plan.orders + 1, column.side) if lost and isinstance(column, Number) else ():
            table[order, 1:] = _expected(table, order)
        tables.append(as_floats((_signs(column).T @ table @ labels)[: column.bins] / (column.side * characters)))
    present = [np.clip(labels.T @ here[j] / characters, 0, None) if j in here else None for j in range(len(columns))]
    return Joint(as_floats(prior), tuple(tables), tuple(present))


def _of_labels(values: Values, rows: Rows, labels: Floats) -> Floats:
    """Return the labels' own characters, shrunk towards those of labels that are all as common.

    Of shares that are uniform a character has variance 1 / (classes + 1), as a split share of two has 1/3: few users
    answer these rows, and a prior that is noise would outvote all columns.
    """
    at = rows.column == CLASS_ONLY
    value, variance, even = values.value[at], values.variance[at], labels[1:].mean(axis=1)
    wide = 1 / (labels.shape[1] + 1)
    with np.errstate(invalid="ignore"):
        kept = np.where(np.isfinite(variance), (value - even) * wide / (wide + variance), 0.0)
    return as_floats(np.concatenate([[1.0], even + kept]))


def _signs(column: Column) -> Floats:
    """Return the signs of every order over a column's bins ``(side, side)``."""
    return walsh(column.side) if isinstance(column, Number) else hadamard(column.side)


def _by_order(values: Values, rows: Rows, j: int, column: Column, characters: int) -> Values:
    """Return a column's values and variances as tables ``(side, characters)``; 0 and infinite where not asked."""
    at = np.flatnonzero(rows.column == j)
    value, variance = np.zeros((column.side, characters)), np.full((column.side, characters), np.inf)
    value[rows.order[at], rows.character[at]] = values.value[at]
    variance[rows.order[at], rows.character[at]] = values.variance[at]
    return Values(value, variance)


def _groups(entries: Sequence[Values], columns: Sequence[Column]) -> Iterator[tuple[list[int], int, slice]]:
    """Yield the groups of rows that are shrunk together: numbers or categories, an order, with a label or without."""
    for kind in (Number, Category):
        of = [j for j, column in enumerate(columns) if isinstance(column, kind)]
        for order in range(1, max((columns[j].side for j in of), default=0)):
            own = [j for j in of if order < columns[j].side and np.isfinite(entries[j].variance[order]).any()]
            if own:
                yield own, order, slice(0, 1)
                yield own, order, slice(1, None)


def _shrunk(entries: Sequence[Values], columns: Sequence[Column]) -> list[Floats]:
    found = [np.zeros_like(value) for value, _ in entries]
    for own, order, labelled in _groups(entries, columns):
        value = np.stack([entries[j].value[order, labelled] for j in own])
        variance = np.stack([entries[j].variance[order, labelled] for j in own])
        for j, row in zip(own, shrink(value, variance), strict=True):
            found[j][order, labelled] = row
    return [as_floats(table) for table in found]


def _present(entries: Sequence[Values], columns: Sequence[Column], only: Floats) -> dict[int, Floats]:
    """Return order 0 of the columns with missing values: who is present, by character of the label.

    What the labels' own characters explain stays; what is left is shrunk.
    """
    of = [j for j, column in enumerate(columns) if column.missing]
    if not of:
        return {}
    value, variance = (np.stack([entries[j][part][0] for j in of]) for part in (0, 1))
    expected = value[:, :1].clip(0, 1) * only[1:]
    rest = shrink(value[:, 1:] - expected, variance[:, 1:])
    return dict(zip(of, np.column_stack([value[:, :1].clip(0, 1), expected + rest]), strict=True))


def kappa(masses: Floats) -> Floats:
    """Return how much of every order a line over bins of these masses shows, over what it shows of the first."""
    p = np.asarray(masses)
    p = p / p.sum()
    line = (np.arange(BINS) - MIDDLE) / MIDDLE
    found = walsh(BINS) @ (p * (line - p @ line))
    return as_floats(found / found[1])


def _line(table: Floats) -> Floats:
    """Return the kappas of a column, by the masses that its rows without a label tell."""
    return kappa(np.clip(walsh(BINS).T @ table[:, 0] / BINS, LEAST_BIN, None))


def _towards_lines(entries: Sequence[Values], shrunk: list[Floats], columns: Sequence[Column], plan: Plan) -> None:
    """Shrink labelled rows of orders 2.. towards what a line through order 1 would show of them, in place.

    What is left over counts as nothing unless it is clearly more than noise, in the group and in the column.
    """
    of = [j for j, column in enumerate(columns) if isinstance(column, Number)]
    for order in range(2, plan.orders + 1) if of else ():
        expected = np.stack([_expected(shrunk[j], order) for j in of])
        value, variance = (np.stack([entries[j][part][order, 1:] for j in of]) for part in (0, 1))
        rest = np.where(np.isfinite(variance), value - expected, 0.0)
        clear, k = rest**2 / variance, rest.shape[1]
        enough = clear.mean() > 1 + 2 * np.sqrt(2 / rest.size)
        g = max(0.0, float((rest**2 - np.where(np.isfinite(variance), variance, 0)).mean())) if enough else 0.0
        kept = shrink(rest, variance, g)
        kept[clear.mean(axis=1) < 1 + 1.5 * np.sqrt(2 / k)] = 0
        for j, row in zip(of, expected + kept, strict=True):
            shrunk[j][order, 1:] = row


def _expected(table: Floats, order: int) -> Floats:
    """Return the labelled entries of an order that a line would show: kappa_a (v_1c - pi_c v_10) + pi_c v_a0."""
    pi = table[0, 1:] / max(table[0, 0], TINY)
    return as_floats(_line(table)[order] * (table[1, 1:] - pi * table[1, 0]) + pi * table[order, 0])
