"""From the rows to their population: exact coverage where it can be counted, simulated where it cannot."""

from __future__ import annotations

import math
import re

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

import epsworth as ew
from epsworth.bounds import Interval, clopper_pearson
from epsworth.utility.curves import Curves
from epsworth.utility.population import _stakes, default_confidence, mean_above, population_bounds

GIVEN = {"sensitive": 0, "mechanisms": "krr:k=5", "epsilons": [1, 2]}


def below_half(records):
    return records[:, 0] <= 0.5


@pytest.mark.parametrize("n", [1, 7, 60])
@pytest.mark.parametrize("miss", [0.3, 0.01])
def test_bounds_of_yes_and_no_miss_as_rarely_as_promised_exactly(n, miss):
    rows = (np.arange(n) < np.arange(n + 1)[:, np.newaxis]).astype(float)  # k ones, for every k
    for average in (rows.mean(axis=1), np.zeros(n + 1)):
        found = mean_above(rows, average, miss)
        for mean in np.concatenate([[1e-9, 1 - 1e-9], np.linspace(0.01, 0.99, 49), found + 1e-12]):
            missed = binom.pmf(np.arange(n + 1), n, mean)[found > mean].sum()
            assert missed <= miss * (1 + 1e-9)
    assert (found <= clopper_pearson(np.arange(n + 1), n, 2 * miss).lower + 1e-9).all()  # which is the best there is


def test_bounds_of_spread_out_rows_miss_as_rarely_as_promised():
    rng, miss, trials = np.random.default_rng(0), 0.1, 2_000
    for draw, mean in ((lambda size: rng.beta(9, 1, size), 0.9), (lambda size: rng.beta(0.1, 0.3, size), 0.25)):
        rows = draw((trials, 40))
        missed = int((mean_above(rows, rows.mean(axis=1), miss) > mean).sum())
        assert binom.sf(missed - 1, trials, miss) > 1e-6  # false alarm: 1e-6


def test_little_spread_is_worth_something():
    rows = np.random.default_rng(1).beta(90, 10, (1, 1_000))
    found, chord = (mean_above(one, rows.mean(axis=1), 0.001).item() for one in (rows, 0 * rows))
    assert rows.mean() - 0.01 < found < rows.mean() < found + 0.01
    assert chord < rows.mean() - 0.02  # what the average alone says


@pytest.mark.parametrize("n", [3, 50])
def test_the_capital_reaches_what_is_wanted_in_sixty_digits(n):
    rng, miss = np.random.default_rng(n), 0.01
    rows = np.vstack([rng.beta(9, 1, n), rng.beta(0.2, 0.2, n), np.ones(n), np.full(n, 0.5), np.linspace(0, 1, n)])
    with mpmath.workdps(60):
        for row, mean in zip(rows, mean_above(rows, np.zeros(len(rows)), miss), strict=True):
            stakes = [mpmath.mpf(c) for c in _stakes(n, miss)]
            each = [mpmath.fprod(1 - c + c * mpmath.mpf(x) / mpmath.mpf(mean) for x in row) for c in stakes if mean]
            assert not mean or mpmath.fsum(each) / len(stakes) >= 1 / mpmath.mpf(miss)


def test_raising_a_row_never_lowers_the_bound():
    rng = np.random.default_rng(2)
    rows = rng.uniform(size=(200, 12))
    higher = np.minimum(rows + rng.uniform(size=rows.shape) * (rng.uniform(size=rows.shape) < 0.3), 1)
    low, high = (mean_above(one, np.zeros(200), 0.05) for one in (rows, higher))
    assert (low <= high).all()
    assert (low == mean_above(rows[:, ::-1], np.zeros(200), 0.05)).mean() > 0.95  # whatever their order


def test_what_the_records_bounds_spent_is_no_longer_there():
    rows = np.full((1, 1, 30), 0.5)
    given = Interval(rows, rows), Interval(rows[..., 0], rows[..., 0])
    sure = population_bounds(*given, confidence=0.99, spent=0.0, among=1)
    less = population_bounds(*given, confidence=0.99, spent=0.009, among=1)
    more = population_bounds(*given, confidence=0.99, spent=0.0, among=100)
    assert less.lower < sure.lower < sure.upper < less.upper
    assert more.lower < sure.lower
    assert sure.spent <= less.spent <= 1 - 0.99
    with pytest.raises(ValueError, match="leaves nothing for the draw of the records"):
        population_bounds(*given, confidence=0.99, spent=0.0100001, among=1)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        population_bounds(*given, confidence=1, spent=0.0, among=1)
    assert [default_confidence(c) for c in (1.0, 0.5)] == [0.999, 0.25]


def test_each_side_rests_on_its_own_ends_of_the_rows():
    """Of rows of which nothing is known nothing follows, and bounds on what changes are those on what stays, turned."""
    low, high = np.zeros((1, 1, 50)), np.ones((1, 1, 50))
    unknown = population_bounds(
        Interval(low, high), Interval(low[..., 0], high[..., 0]), confidence=0.99, spent=0.0, among=1
    )
    assert (unknown.lower.item(), unknown.upper.item()) == (0, 1)
    low, high = low + 0.25, high - 0.125
    for average in (Interval(low[..., 0], high[..., 0]), Interval(low[..., 0] + 0.25, high[..., 0] - 0.125)):
        stays, changes = (
            population_bounds(*sides, confidence=0.99, spent=0.0, among=1)
            for sides in ((Interval(low, high), average), (turned(low, high), turned(*average)))
        )
        assert stays.lower < average.lower < average.upper < stays.upper < 1
        assert stays.upper.item() == pytest.approx(1 - changes.lower.item(), abs=1e-12)
        assert stays.lower.item() == pytest.approx(1 - changes.upper.item(), abs=1e-12)


def turned(lower, upper):
    return Interval(1 - upper, 1 - lower)


def test_curves_say_it_of_every_point_together():
    X = np.random.default_rng(0).uniform(size=(40, 2))
    curves = ew.stability(below_half, X, **GIVEN, y=X[:, 0] <= 0.4)
    found = curves.population()
    average = curves.average()
    assert (found.lower < average.lower).all()
    assert (found.upper > average.upper).all()
    assert found.confidence == 0.999
    assert found.records == 40
    one = curves.population(at=[1])
    assert one.lower.tolist() == found.lower[:, [1]].tolist()
    assert "if these 40 records are independent draws of it, with 99.9 % confidence" in str(curves)
    document = curves.to_dict()
    assert list(document["population"]) == ["stability", "accuracy"]
    assert document["population"]["stability"]["lower"] == found.lower.tolist()
    assert str(Curves.from_dict(document)) == str(curves)
    assert "independent draws" not in str(ew.stability(below_half, X[:5], **GIVEN))  # of five rows nothing is told


def test_drawn_bounds_leave_less():
    X = np.random.default_rng(0).uniform(size=(25, 2))
    given = GIVEN | {"method": "sampled", "tolerance": 0.2, "confidence": 0.99, "rng": 0}
    curves = ew.stability(below_half, X, **given)
    assert curves.spent > 0
    assert math.isclose(curves.population().confidence, 0.98)
    assert curves.spent < curves.population().spent <= 1 - curves.population().confidence
    pooled = ew.stability(below_half, X, **given, over="dataset")
    assert (pooled.population().lower <= pooled.average().lower).all()


def test_a_recommendation_speaks_of_people_like_those_in_the_table():
    X = np.random.default_rng(0).uniform(size=(40, 2))
    curves = ew.stability(below_half, X, **GIVEN)
    found = ew.recommend(curves, at_least=0.5)
    people = curves.population()
    at = curves.mechanisms.index(found.choice.mechanism), curves.epsilons.tolist().index(found.choice.epsilon)
    low, high = (
        float(word) / 100 for word in re.search(r"like them: ([\d.]+) to ([\d.]+) %", found.certainty).groups()
    )
    assert 0 <= people.lower[at] - low < 1e-3
    assert 0 <= high - people.upper[at] < 1e-3
    assert "drawn independently of one another and of the classifier" in " ".join(found.notes)
    assert "people" not in ew.recommend(curves, at_least=0.1, on="worst").certainty
