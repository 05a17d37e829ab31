"""Tailored policies made by hand, and values that no record should hold, for the tests of this folder."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np

from epsworth import Domain, Feature, Policy
from epsworth.client.kernels import exp_below
from epsworth.grids import Grid
from epsworth.mechanisms.regions import region_kernel
from epsworth.policy import Pass, Rule
from epsworth.tailored.mechanism import Tailoring
from epsworth.tailored.randomisers import Average, Gain, Worst
from epsworth.tailored.surrogates import IntegerReLU, Layer, Trees

AGE = Grid(Feature("age", 0, 100), 4, missing=40)
JOB = Grid(Feature("job", categories=("a", "b", "c")), missing="a", outside="c")
HOURS = Grid(Feature("hours", 0, 7, points=8), missing=3)
GRIDS = (AGE, JOB, HOURS)
INPUTS = tuple(grid.input for grid in GRIDS)
LABELS = ("low", "middle", "high")
PRIOR = Trees(
    INPUTS, np.array([2, -1, -1]), np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([3, 0, 0]), {},
    np.array([0]), np.array([[0], [0], [1]]), 2, True,
)  # fmt: skip
"""Which of two orders of regions applies, by the hours alone."""
STANDING = (
    np.array([[2, 0], [1, 2], [9, 0]]),
    np.array([[15, 1], [7, 1], [8, 0], [7, 1]]),
    np.array([[12, 1], [13, 0], [12, 2]]),
)
"""Candidates of each region; some are wrong, one stands twice."""


def steps() -> Trees:
    """Return a copy that sees no, one, two and three of its regions within reach at hours of 0, 1, 2 and more."""
    nodes = [
        (2, 0, 1, 2), (0, 5, 3, 4), (2, 1, 7, 8), 1, (0, 10, 5, 6), 2, 0, 1, (2, 2, 9, 10), (0, 5, 11, 12),
        (0, 5, 13, 14), 0, 2, 0, (0, 10, 15, 16), 1, (1, 0, 17, 18), 2, 1,
    ]  # fmt: skip
    rows = [(-1, 0, -1, -1, node) if isinstance(node, int) else (*node, 0) for node in nodes]
    feature, threshold, left, right, values = np.array(rows).T
    return Trees(INPUTS, feature, left, right, threshold, {16: (0, 1)}, np.array([0]), values[:, np.newaxis], 3, True)


class Hostile:
    """Raises whatever is asked of it."""

    def _refuse(self, *args: object) -> bool:
        raise SystemExit("what it is like")

    __eq__ = __ne__ = __lt__ = __hash__ = __bool__ = __float__ = __int__ = __index__ = __len__ = __iter__ = _refuse
    __str__ = __repr__ = __array__ = __getattr__ = _refuse
    __class__ = property(_refuse)


class Shy:
    """Refuses to be compared, and nothing else: libraries of data frames can hold it."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("what it is like")

    def __hash__(self) -> int:
        raise ValueError("what it is like")


class Number(float):
    """A number with a mind of its own."""

    def __float__(self) -> float:
        raise SystemExit("what it is like")


ABSURD = [
    None, "abc", "", "40", True, False, np.True_, float("nan"), float("inf"), -float("inf"), 10**400, -(10**5000),
    [1], {"a": 1}, (1, 2), {3}, np.array([1, 2]), b"a", 1j, 1e308, -5, Decimal("sNaN"), Decimal("1e999"),
    Fraction(10**400), np.datetime64("NaT"), np.timedelta64(5), np.float32("nan"), Number(40), Hostile(), object(), int,
    "\ud800",
]  # fmt: skip


def linear(seed: int, sizes: tuple[int, ...] = ()) -> IntegerReLU:
    """Return random layers between the inputs and the regions."""
    draw, layers = np.random.default_rng(seed), []
    widths = [5, *sizes, 3]
    for i, (before, after) in enumerate(pairwise(widths)):
        last = i == len(widths) - 2
        layers.append(Layer(draw.integers(-50, 51, (after, before)), draw.integers(-200, 201, after), 0 if last else 3))
    return IntegerReLU(INPUTS, tuple(layers))


def randomiser(kind: str, epsilon: str = "1"):
    """Return a randomiser between three regions."""
    stated = Decimal(epsilon)
    if kind == "worst":
        return Worst(stated, 3)
    if kind == "average":
        return Average(stated, 3, PRIOR, ((2, 0, 1), (1, 2, 0)), (2, 3))
    gain = np.array([[0.5, 0.1, 0.0], [0.0, 0.3, 0.1], [0.0, 0.0, 0.2]])
    return Gain(stated, 3, region_kernel(gain, stated), ((0, 1, 2), (1, 2, 0), (2, 1, 0)))


def tailoring(kind="worst", sensitive=(True, True, False), copy=None, standing=STANDING, draw=False, epsilon="1"):
    """Return tables; g is `steps`, unless it is given."""
    width = sum(sensitive)
    return Tailoring(
        LABELS, GRIDS, sensitive, steps() if copy is None else copy, standing, (7, 1, 2)[:width],
        randomiser(kind, epsilon), draw, ("abc",),
    )  # fmt: skip


def policy(*args, rules=(), **kwargs) -> Policy:
    """Return a policy of such tables; rules are of hours."""
    tables = tailoring(*args, **kwargs)
    replaced = (*tables.names, *(rule.feature.name for rule in rules))
    passing = ("id", "note", *(grid.name for grid in GRIDS if grid.name not in replaced))
    return Policy(tuple(rules), None, tables, Pass(passing))


RULE = Rule(Feature("hours", 0, 7, missing=3), "krr:k=3", Decimal("0.5"))
"""On a public column that g sees."""


def loss_is_kept(policy: Policy, records, epsilon: str) -> dict[tuple, list[Fraction]]:
    """Assert the claim in whole numbers: one support, sums of 1, and for every pair ratios of at most e^epsilon."""
    told = [
        {tuple(sorted((k, repr(v)) for k, v in sent.items())): share for sent, share in policy.outcomes(record)}
        for record in records
    ]
    bound = exp_below(Fraction(epsilon))
    for found in told:
        assert sum(found.values()) == 1
        assert min(found.values()) > 0
        assert found.keys() == told[0].keys()
    shares = {key: [found[key] for found in told] for key in told[0]}
    assert all(max(each) <= bound * min(each) for each in shares.values())
    return shares


def domain(policy: Policy) -> Domain:
    """Return the domain of a policy's inputs."""
    assert policy.tailoring is not None
    return Domain(tuple(grid.feature for grid in policy.tailoring.grids))
