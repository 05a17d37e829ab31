"""Declared domains: natural units to [0, 1] and back, files, and refusals that name the field."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsworth.space import Domain, Feature, LeakWarning


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
        ([np.nan], r"row 0, age: the value is missing \(NaN\); the declared range is 0 to 100; impute it"),
        (["old"], "age is not a column of numbers"),
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
