"""A margin shared out over the features: against brute force, and between its bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from epsworth.mechanisms import MECHANISMS
from epsworth.utility.boxes import NEARLY, Side, largest_part, priced_bound, share_out

NAMES = ["pm", "sw", "laplace_clipped", "bounded_laplace", "gaussian_clipped"]
WHOLE = np.array([[0.0, 1.0]])


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_shares_are_the_best_of_all_divisions(parts):
    rng = np.random.default_rng(parts)
    for units in (1, 2, 5, 9):
        values = np.cumsum(rng.exponential(size=(parts, units + parts)) ** 3, axis=1)
        values[rng.random(values.shape[0]) < 0.3, 0] = -np.inf
        shares, worth = share_out(values)
        every = list(itertools.product(range(units + parts), repeat=parts))
        for total in range(units + parts):
            most = max(values[np.arange(parts), d].sum() for d in every if sum(d) <= total)
            assert worth[total] == pytest.approx(most, abs=1e-12)
        assert shares.sum() <= units
        assert values[np.arange(parts), shares].sum() == pytest.approx(worth[units], abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 10.0])
@pytest.mark.cases(1)
def test_two_sides_are_cut_as_a_fine_scan_would(name, epsilon):
    """One share determines the other: 20 001 divisions, jumps at atoms and kinks of windows among them."""
    rng = np.random.default_rng(0)
    for case in range(12):
        x, slopes = rng.random(2), rng.normal(size=2)
        if case % 4 == 0:
            x[0] = case % 8 / 4  # an end of the range
        laws = [MECHANISMS[name](epsilon).law(v) for v in x]
        sides = [Side(law, v, 0.0, 1.0, w) for law, v, w in zip(laws, x, slopes, strict=True)]
        margin = rng.random() * sum(side.room for side in sides)
        part, bound = largest_part(laws, x, np.tile(WHOLE, (2, 1)), slopes, margin)
        first = np.concatenate([np.linspace(0, margin, 20_001), [min(side.room, margin) for side in sides]])
        first[-1] = margin - first[-1]
        scanned = (sides[0].log_mass(first) + sides[1].log_mass(margin - first)).max()
        mass = float(np.prod([law.mass(*side) for law, side in zip(laws, part, strict=True)]))
        assert scanned <= bound + 1e-12
        assert np.exp(scanned) <= NEARLY * mass
        assert np.log(mass) <= bound + 1e-12
        assert (slopes @ x - np.minimum(slopes * part[:, 0], slopes * part[:, 1]).sum()) <= margin * (1 + 1e-12)
        assert ((part[:, 0] <= x) & (x <= part[:, 1])).all()


@pytest.mark.parametrize("price", [0.0, 0.3, 2.0, 50.0])
@pytest.mark.cases(1)
def test_any_price_bounds_every_division(price):
    rng = np.random.default_rng(2)
    for name in MECHANISMS:
        x, slopes = rng.random(4), rng.normal(size=4)
        sides = [Side(MECHANISMS[name](2.0).law(v), v, 0.0, 1.0, w) for v, w in zip(x, slopes, strict=True)]
        bound = priced_bound(sides, 1.0, price)
        for shares in rng.dirichlet(np.full(4, 0.5), 20):
            assert sum(side.log_mass(share) for side, share in zip(sides, shares, strict=True)) <= bound
        best, _ = largest_part([side.law for side in sides], x, np.tile(WHOLE, (4, 1)), slopes, 0.3)
        reached = sum(np.log(side.law.mass(*part)) for side, part in zip(sides, best, strict=True))
        assert all(reached <= priced_bound(sides, 0.3, other) + 1e-12 for other in price + np.arange(12) / 4)


def test_features_that_no_score_looks_at_stay_whole():
    law = MECHANISMS["pm"](2.0).law(0.4)
    part, bound = largest_part([law, law], np.array([0.4, 0.4]), np.tile(WHOLE, (2, 1)), np.array([0.0, -2.0]), 0.5)
    np.testing.assert_allclose(part, [[0, 1], [0, 0.65]], atol=1e-12)
    assert np.log(law.mass(0, 0.65)) <= bound <= np.log(law.mass(0, 0.65) * NEARLY)
