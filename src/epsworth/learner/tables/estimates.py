"""From sums to tables of bins and labels: unbiased values, shrunk by what their own noise tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from epsworth.arrays import Floats, as_floats
from epsworth.learner.coins import Ints
from epsworth.learner.encoding import hadamard, odd_overlap, reverse, walsh
from epsworth.learner.tables.columns import BINS, BITS, CLASS_ONLY, FINE, Category, Column, Knots, Number, Rows
from epsworth.learner.tables.config import Plan

TINY = 1e-30
LEAST_PRIOR, LEAST_BIN = 1e-3, 0.02
MOST_SPLIT = 0.98  # of a node's mass in the tree of quantiles
EVEN_SHARE = 0.1  # of a shape's mass
LEAST_VARIED = 0.05  # of the variance of signs
ROUNDS = 3  # of estimating how far columns' signals spread, and the labels' shares
WIDE = 1 / 3  # variance of a uniform split share
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

    True values spread by the group's g = mean(v^2 - s^2) or the column's own: w = g^2/(g^2 + e^2), e = s^2 sqrt(2/k).
    """
    size = np.where(np.isfinite(variance), value**2 - variance, 0.0)
    g = max(0.0, float(size.mean())) if group is None else group
    own, own_noise = size.mean(axis=1), variance[:, 0] * np.sqrt(2 / value.shape[1])
    trust = g**2 / (g**2 + own_noise**2 + TINY)
    spread = np.maximum(0.0, np.where(trust > 0, trust * own, 0.0) + (1 - trust) * g)[:, None]
    with np.errstate(invalid="ignore"):
        return as_floats(np.where(np.isfinite(variance), value * spread / (spread + variance), 0.0))


def knots_of(values: Values, rows: Rows, columns: Sequence[Column]) -> tuple[Knots | None, ...]:
    """Return the knots of every number's map, from the trees of dyadic Walsh characters; None for categories."""
    of = [j for j, column in enumerate(columns) if isinstance(column, Number)]
    found: list[Knots | None] = [None] * len(columns)
    if of:
        value, variance = (np.stack([part[rows.column == j] for j in of]) for part in values)
        for j, mass in zip(of, tree(value, variance), strict=True):
            found[j] = knots(mass)
    return tuple(found)


def tree(value: Floats, variance: Floats) -> Floats:
    """Return 32 masses per column from 31 characters ``(columns, 31)``, by splitting nodes from the whole downwards.

    A node's split share is shrunk towards that of the shapes that the column resembles (`outline`), by how far those of
    its level are from these in all columns, as far as noise tells; a uniform share has variance 1/3.
    """
    shape, mass = outline(value, variance), np.ones((len(value), 1))
    bits = FINE.bit_length() - 1
    for level in range(1, bits + 1):
        nodes = 1 << (level - 1)
        of = np.arange(nodes, 2 * nodes)  # the level's characters
        split = value[:, of - 1] @ _characters()[of - 1][:, :: FINE // nodes] / nodes
        noise = variance[:, of - 1].sum(axis=1, keepdims=True) / nodes**2
        half = shape.reshape(len(value), nodes, 2, -1).sum(axis=3)
        expected = (half[:, :, 0] - half[:, :, 1]) / half.sum(axis=2)
        m = np.maximum(mass, 1e-6)
        rest, noise = np.clip(split / m, -1.2, 1.2) - expected, np.maximum(noise / m**2, TINY)
        weight = noise**-2.0
        told = np.where(np.isfinite(noise), rest**2 - noise, 0.0)
        spread = min(max(0.0, float((weight * told).sum() / max(weight.sum(), TINY))), WIDE)
        share = expected + np.where(np.isfinite(noise), rest * spread / (spread + noise), 0.0)
        share = np.clip(share, -MOST_SPLIT, MOST_SPLIT)
        mass = np.stack([mass * (1 + share) / 2, mass * (1 - share) / 2], axis=2).reshape(len(value), -1)
    return as_floats(mass)


def outline(value: Floats, variance: Floats) -> Floats:
    """Return the mean of the shapes of masses ``(columns, 32)``, each weighted by its likelihood."""
    shapes = _shapes()
    far = np.zeros((len(value), len(shapes)))
    for r, known in enumerate((shapes @ _characters().T).T):
        far += (value[:, r, None] - known) ** 2 / np.maximum(variance[:, r, None], TINY)
    weight = np.exp(-(far - far.min(axis=1, keepdims=True)) / 2)
    return as_floats(weight @ shapes / weight.sum(axis=1, keepdims=True))


@cache
def _shapes() -> Floats:
    """Return masses of 32 bins: even, bells and one-sided tails of any place and width, each a tenth even."""
    ends, found = np.arange(FINE + 1.0), [np.full(FINE, 1 / FINE)]
    for width in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
        found += [np.diff(ndtr((ends - at) / width)) for at in np.arange(0, FINE + 0.01, np.clip(width / 2, 0.25, 2))]
    for width in (1.0, 2.0, 4.0, 8.0):
        tails = [np.diff(-np.exp(-np.maximum(ends - at, 0) / width)) for at in range(FINE)]
        found += [*tails, *(tail[::-1] for tail in tails)]
    shapes = np.stack(found)
    return as_floats((1 - EVEN_SHARE) * shapes / shapes.sum(axis=1, keepdims=True) + EVEN_SHARE / FINE)


@cache
def _characters() -> Floats:
    """Return the signs of the dyadic characters r = 1..31 over 32 bins ``(31, 32)``."""
    masks = np.array([reverse(r, FINE.bit_length() - 1) for r in range(1, FINE)])
    return as_floats(1.0 - 2 * odd_overlap(masks[:, None], np.arange(FINE)[None, :]))


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
    whole = [own for own, column in zip(entries, columns, strict=True) if not column.missing]
    only = _of_labels(values, rows, labels, whole if plan.regime == "linear" else ())
    prior = np.clip(labels.T @ only / characters, LEAST_PRIOR, None)
    prior /= prior.sum()
    found, here = _shrunk(entries, columns, only), _present(entries, columns, only)
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


def _of_labels(values: Values, rows: Rows, labels: Floats, entries: Sequence[Values]) -> Floats:
    """Return the labels' own characters, shrunk towards those of labels that are all as common.

    Of uniform shares a character has variance 1 / (classes + 1); a prior that is noise would outvote all columns.
    """
    at = rows.column == CLASS_ONLY
    value, variance = values.value[at], values.variance[at]
    if entries:
        value, variance = _with_columns(value, variance, entries)
    even = labels[1:].mean(axis=1)
    wide = 1 / (labels.shape[1] + 1)
    with np.errstate(invalid="ignore"):
        kept = np.where(np.isfinite(variance), (value - even) * wide / (wide + variance), 0.0)
    return as_floats(np.concatenate([[1.0], even + kept]))


def _with_columns(value: Floats, variance: Floats, entries: Sequence[Values]) -> Values:
    """Return the labels' own characters, told by every column, too: v_ac is pi_c v_a0 and what it tells of the label.

    That is of either sign and spreads by g; else an error of pi_c would look like a weak signal of all columns.
    """
    alone, noise = (np.concatenate([one[part][1:, 0] for one in entries]) for part in (0, 1))
    told, spread = (np.concatenate([one[part][1:, 1:] for one in entries]) for part in (0, 1))
    kept = np.isfinite(noise) & np.isfinite(spread).all(axis=1)
    alone, noise, told, spread = alone[kept, None], noise[kept, None], told[kept], spread[kept]
    alone = alone * np.maximum(0.0, 1 - noise / np.maximum(alone**2, TINY))
    found, error = value, variance
    for _ in range(ROUNDS):
        with np.errstate(invalid="ignore"):
            rest = (told - found * alone) ** 2 - spread - np.where(np.isfinite(error), error, 0.0) * alone**2
        g = np.maximum(0.0, (alone**2 * rest).sum(axis=0) / max(float((alone**2).sum()), TINY))
        weight = 1 / variance + (alone**2 / (spread + g)).sum(axis=0)
        found = (value / variance + (alone * told / (spread + g)).sum(axis=0)) / np.maximum(weight, TINY)
        error = 1 / np.maximum(weight, TINY)
    return Values(as_floats(found), as_floats(np.where(weight > 0, error, np.inf)))


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


def _shrunk(entries: Sequence[Values], columns: Sequence[Column], only: Floats) -> list[Floats]:
    """Return the entries, shrunk: with a label towards what they are where the column tells nothing of it."""
    found = [np.zeros_like(value) for value, _ in entries]
    for own, order, labelled in _groups(entries, columns):
        value = np.stack([entries[j].value[order, labelled] for j in own])
        variance = np.stack([entries[j].variance[order, labelled] for j in own])
        if labelled.start:
            shrunk = _from_apart(value, variance, np.array([found[j][order, 0] for j in own])[:, None], only)
        else:
            shrunk = shrink(value, variance)
        for j, row in zip(own, shrunk, strict=True):
            found[j][order, labelled] = row
    return [as_floats(table) for table in found]


def _from_apart(value: Floats, variance: Floats, alone: Floats, only: Floats) -> Floats:
    """Return entries with a label, shrunk towards those of columns whose signs have these means and tell nothing."""
    apart, unit = alone * only[1:], np.sqrt(np.maximum(1 - alone**2, LEAST_VARIED))
    rest, noise = np.where(np.isfinite(variance), value - apart, 0.0) / unit, variance / unit**2
    sure = np.where(np.isfinite(noise), noise**-2.0, 0.0)
    size = np.where(np.isfinite(noise), rest**2 - noise, 0.0)
    g = max(0.0, float((sure * size).sum() / max(float(sure.sum()), TINY)))
    return as_floats(apart + unit * shrink(rest, noise, g))


def _present(entries: Sequence[Values], columns: Sequence[Column], only: Floats) -> dict[int, Floats]:
    """Return order 0 of the columns with missing values, by character of the label: what the labels explain stays."""
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
    return kappa(np.clip(walsh(BINS).T @ table[:, 0] / BINS, LEAST_BIN, None))


def _towards_lines(entries: Sequence[Values], shrunk: list[Floats], columns: Sequence[Column], plan: Plan) -> None:
    """Shrink labelled rows of orders 2.. towards what a line through order 1 would show of them, in place."""
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
