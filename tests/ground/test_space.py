"""Declared domains: natural units to [0, 1] and back, files, and refusals that name the field."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsworth.space import Domain, Feature, LeakWarning


@pytest.mark.parametrize("points", [4, 16, 256])
def test_no_value_of_a_range_is_an_ulp_outside_it(points):
    """Seven in a hundred of such ranges had one; and products of wide ranges overflowed."""
    rng = np.random.default_rng(points)
    lower = rng.uniform(-1000, 1000, 300).round(2)
    ranges = [*zip(lower, lower + rng.uniform(0.1, 1000, 300).round(1), strict=True)]
    unit = np.arange(points) / (points - 1)
    for low, high in [*ranges, (-1e308, 0.5e308), (0, 1.7e308), (-1e305, 1e305), (0, 5e-324), (1e-310, 2e-310)]:
        feature = Feature("x", low, high)
        for natural in (feature.from_unit(unit, points=points), feature.from_unit(unit)):
            assert natural[0] == low
            assert natural[-1] == high
            assert (np.diff(natural) >= 0).all()
            assert natural.min() >= low
            assert natural.max() <= high
    for low in lower:  # inner values of ranges that hold few doubles
        narrow = Feature("x", low, np.nextafter(low, np.inf))
        for natural in (narrow.from_unit(unit, points=points), narrow.from_unit(unit)):
            assert set(natural) <= {narrow.lower, narrow.upper}
    assert Feature("x", 0, 10).from_unit([-0.5, 1.5]).tolist() == [-5, 15]


@given(lower=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), u=st.floats(0, 1))
def test_units_round_trip(lower, width, u):
    feature = Feature("f", lower, lower + width)
    natural = np.clip(feature.from_unit(np.array([u])), feature.lower, feature.upper)
    scale = 1e-12 * (1 + abs(lower) / width)
    assert feature.to_unit(natural)[0] == pytest.approx(u, abs=max(scale, 1e-9))
    assert feature.from_unit(np.array([0.0, 1.0])).tolist() == [feature.lower, feature.upper]


def test_categories_round_trip():
    feature = Feature("status", categories=("single", "married", "widowed"))
    unit = feature.to_unit(["widowed", "single"])
    assert unit.tolist() == [1.0, 0.0]
    assert feature.from_unit(unit).tolist() == ["widowed", "single"]
    assert feature.levels == 3


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_files_round_trip(tmp_path, suffix):
    domain = Domain.of({"age": (0, 100), "sex": ["f", "m"], "rank": {"lower": 0, "upper": 10, "points": 11}})
    domain.save(tmp_path / f"domain{suffix}")
    assert Domain.load(tmp_path / f"domain{suffix}") == domain


def test_the_toml_form_is_what_the_documentation_shows(tmp_path):
    (tmp_path / "d.toml").write_text(
        '[features.age]\nlower = 0\nupper = 100\n\n[features.smoker]\ncategories = ["no", "yes"]\n'
    )
    domain = Domain.load(tmp_path / "d.toml")
    assert domain["age"] == Feature("age", 0, 100)
    assert "smoker" in domain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"features": {"age": {"lower": 18, "upper": 0}}}', "features.age: upper (0) is not above lower (18)"),
        ('{"features": {"age": {"lower": 0}}}', "features.age: upper must be a finite number, got nan"),
        ('{"features": {"age": {"lower": "0", "upper": 1}}}', "features.age: lower must be a finite number, got '0'"),
        ('{"features": {"age": {"low": 0, "upper": 1}}}', "features.age.low: unknown entry"),
        ('{"features": {"age": [0, 100]}}', "features.age: expected a table"),
        ('{"features": {"s": {"categories": ["a"]}}}', "features.s: categories must be at least two"),
        ('{"features": {"s": {"categories": ["a", "b"], "lower": 1}}}', "features.s: categories exclude"),
        ('{"features": {"r": {"lower": 0, "upper": 1, "points": 1}}}', "features.r: points must be a whole number"),
        ('{"features": {}}', 'no "features" table'),
        ('{"features": {"a": {"lower": 0, "upper": 1}}, "x": 1}', "unknown entry 'x'"),
        ("{", "domain file"),
    ],
)
def test_bad_files_are_refused_with_the_path_of_the_field(tmp_path, text, message):
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="domain file") as caught:
        Domain.load(path)
    assert message in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot read the domain file"):
        Domain.load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([50, 131], "row 1, age: the value lies outside; the declared range is 0 to 100; clip it"),
        ([np.nan], r"row 0, age: the value is missing \(NaN\); the declared range is 0 to 100; declare what stands"),
        (["old"], "row 0, age: the value is not a number"),
    ],
)
def test_values_outside_the_declaration_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Feature("age", 0, 100).to_unit(values)


def test_undeclared_categories_are_refused():
    with pytest.raises(ValueError, match="row 1, sex: the value is not a declared category"):
        Feature("sex", categories=("f", "m")).to_unit(["f", "x"])


def test_bounds_from_data_come_with_a_warning():
    with pytest.warns(LeakWarning, match="reveal its extreme values"):
        domain = Domain.from_data({"age": [20, 60], "sex": ["m", "f"]})
    assert domain["age"] == Feature("age", 20, 60)
    assert domain["sex"].categories == ("f", "m")


def test_undeclared_and_repeated_names_are_refused():
    domain = Domain.of({"age": (0, 100)})
    with pytest.raises(ValueError, match="does not declare 'bmi'"):
        domain["bmi"]
    with pytest.raises(ValueError, match="declares 'age' twice"):
        Domain((Feature("age", 0, 1), Feature("age", 0, 2)))
    with pytest.raises(ValueError, match="neither a range"):
        Domain.of({"age": 3})
    assert Domain.of({2: (0, 1)}).features[0].name == "x2"
    assert json.loads(json.dumps(domain.to_dict())) == domain.to_dict()


def test_a_list_of_two_numbers_is_neither_taken_for_a_range_nor_for_categories():
    for pair in ([0, 1], [0.5, 2], [np.float64(0), np.int64(3)]):
        with pytest.raises(ValueError, match=r'x0: .* may be a range or two categories; write \(.*"categories"'):
            Domain.of({0: pair})
    assert Domain.of({0: {"categories": [0, 1]}})["x0"].levels == 2
    assert Domain.of({0: [False, True]})["x0"].levels == 2
    assert Domain.of({0: [0, 1, 2]})["x0"].levels == 3


@pytest.mark.parametrize("values", [np.array([True, False]), np.array([0.5, True], dtype=object), [0.5, True]])
def test_booleans_are_no_numbers(values):
    with pytest.raises(ValueError, match="age holds booleans, which are no numbers; declare its categories"):
        Feature("age", 0, 100).to_unit(values)


@pytest.mark.parametrize("feature", [Feature("age", 0, 80), Feature("age", categories=(1, 2))])
def test_refusals_of_records_show_no_private_value(feature):
    for value in (87.2601, "87.2601", "secret87", None):
        with pytest.raises(ValueError, match="age") as caught:
            feature.to_unit([value])
        assert "87" not in str(caught.value)


@pytest.mark.parametrize("key", [0.0, True, None, ("a",), b"a"])
def test_a_key_of_a_domain_is_a_name_or_a_whole_number(key):
    with pytest.raises(ValueError, match=r"^domain: the key .* is a \w+; give a feature's name"):
        Domain.of({key: (0, 1)})
    assert Domain.of({np.int64(3): (0, 1)}).features[0].name == "x3"


def test_a_domain_that_declares_nothing_says_so():
    with pytest.raises(ValueError, match="it declares no feature"):
        Domain.of({})["age"]
    with pytest.raises(ValueError, match="a name must be a text, got a float"):
        Feature(0.5, 0, 1)


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([3], dtype="timedelta64[s]"),
        np.array([np.datetime64("2020-01-01", "s")], dtype=object),
        np.array([0.5 + 0j]),
        [0.5 + 0j],
    ],
)
def test_dates_durations_and_complex_numbers_are_no_numbers(values):
    """Within a range as wide as they are NumPy makes floats of them."""
    with pytest.raises(ValueError, match="age is not a column of numbers but holds dates, durations"):
        Feature("age", -1e300, 1e300).to_unit(values)


def test_features_of_the_same_categories_are_equal_wherever_they_come_from():
    """NaN stands for their bounds; Python 3.13 compares fields, not tuples, and a pickle's NaN is another object."""
    kind = Feature("kind", categories=("a", "b"))
    again = pickle.loads(pickle.dumps(kind))
    assert kind == again == Feature("kind", categories=["a", "b"], lower=float("nan"))
    assert len({kind, again}) == 1
    assert kind != Feature("kind", categories=("b", "a"))
    assert Feature("age", 0, 1) != Feature("age", 0, 2) != kind
    assert kind != "kind"
