"""Radius of small ReLU networks in norm inf, by mixed-integer programming.

One program per rival class: least r such that |t_i| <= r and the rival's score reaches the own one.  A unit
with pre-activation z in [l, u] (interval arithmetic over the ball), l < 0 < u, becomes a >= z, a >= 0,
a <= z - l (1 - d), a <= u d with d in {0, 1} (Tjeng, Xiao, Tedrake 2019).  All variables are scaled to
[-1, 1], so that the solver's dual tolerance moves its bound by at most that tolerance per variable.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog, milp

from epsworth.arrays import Floats
from epsworth.classifiers.networks import Affine, Network, Rectifier
from epsworth.classifiers.reading import Unsupported
from epsworth.classifiers.structure import read_network
from epsworth.utility.deadline import Stopped
from epsworth.utility.radius.question import Inside, RadiusQuestion, RadiusResult
from epsworth.utility.radius.sampled import SHELLS, first_flip, scale, walk

MOST_UNITS = 256
SECONDS = 10.0  # per rival class, without a deadline
FIRST = SECONDS / 32  # of a run that may be stopped
QUICK = 40  # halvings of the radius that intervals prove
DUAL = 1e-7  # HiGHS' dual feasibility tolerance
PRUNED = 1e-6  # HiGHS' mip_feasibility_tolerance: nodes whose bound is that near to the best point found are not opened
SLACK = 1e-9  # relative widening of the interval bounds: sums of n products are off by n + 3 units, for n < 4e6


def network_of_relus(estimator: Any) -> Network | None:
    """Read a perceptron whose hidden units, at most ``MOST_UNITS``, are all relus; None for other models."""
    try:
        result, steps = read_network(estimator)
    except Unsupported:
        return None
    if steps or not result.activations or any(a != Rectifier() for a in result.activations):
        return None
    return result if sum(len(layer.biases) for layer in result.affine[:-1]) <= MOST_UNITS else None


def around(network: Network, inside: Inside) -> Network:
    """Return the network as a function of natural offsets of the moved features."""
    first, *others = network.affine
    local = Affine.of(first.weights @ inside.slopes, first.weights @ inside.seen + first.biases)
    return replace(network, affine=(local, *others))


def rounding(network: Network, sizes: Floats, before: int) -> float:
    """Bound the rounding errors of the two scores of a lead, for inputs of these sizes, after so many operations.

    Each layer errs by its ``additions``, in units of its absolute terms (Higham 2002, section 3.1), and passes on what
    its inputs err by through the same terms: a score is off by the sum of all additions.  Two scores, theirs and ours
    are four such errors; as many again pay for what grows from layer to layer, and for the numbers of the program.
    """
    for layer in network.affine:
        sizes = layer.terms @ sizes + layer.constants
    additions = before + sum(layer.additions for layer in network.affine)
    return (
        8 * additions * network.unit * (1 + float(sizes.max()))
    )  # 1: logistic and softmax cannot tell scores 1e-16 apart


def network_radius(question: RadiusQuestion, inside: Inside, rng: np.random.Generator) -> RadiusResult | None:
    """Return two-sided bounds: the solver's below, a flip of the classifier itself above."""
    result = network_of_relus(inside.estimator)
    if result is None or not math.isinf(question.norm):
        return None
    local = around(result, inside)
    own = inside.own
    rivals = [k for k in range(len(result.classes)) if k != own]
    flip = first_flip(question, rng)
    if flip is not None:  # a nearer flip makes a smaller ball and a tighter program
        offset = flip.point - question.point
        with suppress(Stopped):
            question.run.found(walk(question, np.array([offset, *_polished(local, offset, own, rivals)])))
        flip = question.run.witness
    reach = scale(question) * SHELLS[-1] if flip is None else flip.distance * (1 + 1e-6)
    if not question.agrees(inside, result.scores, reach):
        return None
    slack = rounding(result, inside.sizes(reach), inside.additions)
    bounds = {k: _quick(local, k, own, reach, slack) for k in rivals}  # at once
    question.run.proves("network", min(bounds.values(), default=reach))
    paced = not question.run.deadline.free
    most = SECONDS if question.run.deadline.seconds is None else math.inf
    open_, seconds = rivals, FIRST if paced else SECONDS
    while open_ and seconds <= most:  # a solver that is cut short begins anew, with twice the time
        for k in sorted(open_, key=bounds.__getitem__):
            if paced:
                question.run.deadline.check()
            nearest = _nearest(local, k, own, reach, slack, min(seconds, question.run.left))
            bounds[k] = max(bounds[k], nearest.lower)
            open_ = [other for other in open_ if other != k or not nearest.finished]
            if nearest.offset is not None:
                offsets = [nearest.offset, *_polished(local, nearest.offset, own, rivals)]
                question.run.found(walk(question, np.array(offsets) * (1 + 1e-6)))
            question.run.proven(min(bounds.values()))
        seconds *= 2
    notes = (f"the solver was ended after {SECONDS:g} seconds for a label; seconds=.. gives it more",) if open_ else ()
    return RadiusResult(min(bounds.values(), default=reach), question.run.witness, "network", notes)


def _quick(local: Network, rival: int, own: int, reach: float, slack: float) -> float:
    """Return a radius of a ball in which intervals prove that a rival stays behind."""
    *hidden, last = local.affine
    lead = Affine.of(last.weights[[rival]] - last.weights[[own]], last.biases[[rival]] - last.biases[[own]])
    low, high = 0.0, reach
    for _ in range(QUICK):
        middle = 0.5 * (low + high)
        ends = np.full(hidden[0].weights.shape[1], -middle), np.full(hidden[0].weights.shape[1], middle)
        for layer in hidden:
            ends = _interval(layer, *ends)
            ends = np.maximum(ends[0], 0), np.maximum(ends[1], 0)
        low, high = (middle, high) if _interval(lead, *ends)[1].max() + slack < 0 else (low, middle)
    return low


def _interval(layer: Affine, bottom: Floats, top: Floats) -> tuple[Floats, Floats]:
    """Bound what a layer makes of a box of inputs, rounding included."""
    weights, biases = layer.weights, layer.biases
    centre, half = weights @ (0.5 * (bottom + top)) + biases, np.abs(weights) @ (0.5 * (top - bottom))
    room = SLACK * (np.abs(weights) @ np.maximum(np.abs(bottom), np.abs(top)) + np.abs(biases))
    return centre - half - room, centre + half + room


def _polished(local: Network, offset: Floats, own: int, rivals: list[int]) -> list[Floats]:
    """Return the nearest flips in the linear region of an offset: one linear program per rival."""
    s = len(offset)
    slope, value, rows, limits = np.eye(s), np.zeros(s), [], []
    *hidden, last = local.affine
    for layer in hidden:
        slope, value = layer.weights @ slope, layer.weights @ value + layer.biases
        sign = np.where(slope @ offset + value > 0, 1.0, -1.0)
        rows.append(-sign[:, np.newaxis] * slope)
        limits.append(sign * value)
        slope, value = slope * (sign > 0)[:, np.newaxis], value * (sign > 0)
    slope, value = last.weights @ slope, last.weights @ value + last.biases
    cube = np.vstack([np.c_[np.eye(s), -np.ones(s)], np.c_[-np.eye(s), -np.ones(s)]])
    region = np.c_[np.vstack(rows), np.zeros(sum(map(len, rows)))]
    result = []
    for k in rivals:
        beaten = np.append(slope[own] - slope[k], 0.0)
        a = np.vstack([cube, region, beaten])
        b = np.concatenate([np.zeros(2 * s), *limits, [value[k] - value[own]]])
        size = np.maximum(np.abs(a).max(axis=1), np.finfo(float).tiny)
        cost = np.append(np.zeros(s), 1.0)
        answer = linprog(cost, a / size[:, np.newaxis], b / size, bounds=[(None, None)] * s + [(0, None)])
        if answer.x is not None:
            result.append(answer.x[:-1] * (1 + 1e-6))  # `walk` comes back to the boundary
    return result


class _Nearest(NamedTuple):
    """A bound on the distance to a rival, whether its solver came to an end, and its best offset."""

    lower: float
    finished: bool
    offset: Floats | None


def _nearest(local: Network, rival: int, own: int, reach: float, slack: float, seconds: float) -> _Nearest:
    """Bound the distance to a rival from below within a ball; return the solver's best offset too."""
    program, last = _Program.of(local, reach), local.affine[-1]
    gap = float(last.biases[rival] - last.biases[own])
    answer = program.solve(last.weights[rival] - last.weights[own], gap + slack, seconds)
    if answer.status == 2:
        return _Nearest(reach, True, None)  # no point of the ball reaches the rival
    bound = getattr(answer, "mip_dual_bound", None)
    bound = float(bound) if bound is not None and math.isfinite(bound) else 0.0
    lower = reach * max(bound - DUAL * program.columns - PRUNED, 0.0)
    offset = None if answer.x is None else reach * answer.x[1 : 1 + program.moved]
    return _Nearest(min(lower, reach), answer.status != 1, offset)


@dataclass(frozen=True, eq=False)
class _Program:
    """Variables: r, the offsets, then per unit its output and its switch; each layer's outputs have ``sizes``."""

    rows: Floats
    low: Floats
    high: Floats
    bounds: tuple[Floats, Floats]
    whole: Floats
    last: slice
    sizes: Floats
    moved: int

    @property
    def columns(self) -> int:
        return len(self.whole)

    @classmethod
    def of(cls, local: Network, reach: float) -> _Program:
        """Encode all hidden layers over a ball."""
        hidden = local.affine[:-1]
        moved, units = hidden[0].weights.shape[1], [len(layer.biases) for layer in hidden]
        columns = 1 + moved + 2 * sum(units)
        least, most, whole = np.zeros(columns), np.ones(columns), np.zeros(columns)
        least[1 : 1 + moved] = -1
        cube = np.zeros((2 * moved, columns))
        cube[:, 0] = -1
        cube[:, 1 : 1 + moved] = np.vstack([np.eye(moved), -np.eye(moved)])
        rows, low, high = [cube], [np.full(2 * moved, -np.inf)], [np.zeros(2 * moved)]
        last, sizes = slice(1, 1 + moved), np.full(moved, reach)
        bottom, top = -sizes, sizes
        at = 1 + moved
        for layer, n in zip(hidden, units, strict=True):
            weights, biases = layer.weights, layer.biases
            least_z, most_z = _interval(layer, bottom, top)
            size = np.maximum(np.maximum(np.abs(least_z), np.abs(most_z)), np.finfo(float).tiny)
            outputs, switches = slice(at, at + n), slice(at + n, at + 2 * n)
            z = np.zeros((n, columns))
            z[:, last] = weights * sizes / size[:, np.newaxis]
            a, d = np.zeros((n, columns)), np.zeros((n, columns))
            a[:, outputs], d[:, switches] = np.eye(n), np.eye(n)
            c, bot, up = biases / size, least_z / size, most_z / size
            rows += [a - z, a - z - bot[:, np.newaxis] * d, a - np.maximum(up, 0)[:, np.newaxis] * d]
            low += [c, np.full(2 * n, -np.inf)]
            high += [np.full(n, np.inf), c - bot, np.zeros(n)]
            most[outputs] = np.maximum(up, 0)
            least[switches], most[switches], whole[switches] = least_z >= 0, most_z > 0, 1
            last, sizes, at = outputs, size, at + 2 * n
            bottom, top = np.maximum(least_z, 0), np.maximum(most_z, 0)
        return cls(np.vstack(rows), np.concatenate(low), np.concatenate(high), (least, most), whole, last, sizes, moved)

    def solve(self, lead: Floats, gap: float, seconds: float) -> OptimizeResult:
        """Minimise r where the rival's lead is at least zero."""
        flip = np.zeros(self.columns)
        flip[self.last] = lead * self.sizes
        unit = max(float(np.abs(flip).max()), abs(gap), np.finfo(float).tiny)
        constraints = [
            LinearConstraint(self.rows, self.low, self.high),
            LinearConstraint(flip[np.newaxis] / unit, -gap / unit, np.inf),
        ]
        cost = np.zeros(self.columns)
        cost[0] = 1
        return milp(
            cost,
            integrality=self.whole.astype(np.intp),
            bounds=Bounds(*self.bounds),
            constraints=constraints,
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
