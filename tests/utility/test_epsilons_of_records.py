"""Epsilon is that of the whole record, at every door; with ``per="feature"`` it is that of each feature."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.cli import options
from epsworth.mechanisms.record import budgets
from epsworth.study import EPSILONS
from epsworth.utility.problem import DEFAULT_EPSILONS

X = np.random.default_rng(0).random((40, 3))
TREE = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, X.sum(axis=1) > 1.5)
MANY = ["pm", "krr:k=5", "gaussian:delta=0.01", "label_rr"]


def asked(**given):
    return ew.stability(TREE, X[:3], **{"sensitive": [0, 1, 2], "mechanisms": MANY, "rng": 0} | given)


@given(st.floats(1e-6, 1e3), st.integers(1, 40))
def test_shares_of_a_total_never_add_up_to_more(total, features):
    (whole,), (share,) = budgets([total], features, "record")
    assert whole == total
    assert features * Fraction(share) <= Fraction(total)
    assert features * Fraction(np.nextafter(share, np.inf)) > Fraction(total)


@given(st.floats(1e-6, 20), st.integers(1, 40))
def test_sums_of_features_are_never_understated(share, features):
    (whole,), (own,) = budgets([share], features, "feature")
    assert own == share
    assert Fraction(whole) >= features * Fraction(share)
    assert whole <= features * share * (1 + 1e-15)


def test_a_record_keeps_the_epsilon_that_was_asked_for_and_its_features_share_it():
    curves = asked(epsilons=[1.0, 3.0])  # thirds of 1 are no doubles
    assert curves.epsilons.tolist() == [1.0, 3.0]
    for name, row in zip(curves.mechanisms, curves.guarantees, strict=True):
        assert [promise.epsilon for promise in row] == [1.0, 3.0], name
    assert (curves.tight_epsilons[:2] <= [1.0, 3.0]).all()
    by_feature = asked(epsilons=[1.0], per="feature", mechanisms=["pm", "krr:k=5"])
    assert by_feature.epsilons.tolist() == [3.0]
    assert np.array_equal(by_feature.lower[:, 0], curves.lower[:2, 1])
    assert ew.stability(TREE, X[:3], sensitive=[0], epsilons=[2.0], per="feature").epsilons.tolist() == [2.0]


def test_files_and_choices_name_it():
    curves = asked(epsilons=[2.0, 8.0], mechanisms=["pm"])
    document = curves.to_dict()
    assert document["epsilons_per_record"] == [2.0, 8.0]
    assert ew.Curves.from_dict(document).epsilons.tolist() == [2.0, 8.0]
    found = ew.recommend(curves, at_least=0.5)
    assert found.choice.epsilon in (2.0, 8.0)
    assert found.choice.epsilon - 1e-11 < found.policy().total <= found.choice.epsilon
    assert {rule.epsilon for rule in found.policy().rules} == {ew.Policy.of("pm", found.choice.epsilon,
        ew.Domain.of({"x0": (0, 1), "x1": (0, 1), "x2": (0, 1)})).rules[0].epsilon}  # fmt: skip
    assert "per feature" not in str(curves)
    assert "per feature" not in str(found)


def test_without_epsilons_the_same_are_asked_about_at_every_door():
    assert asked(mechanisms="krr:k=3").epsilons.tolist() == list(DEFAULT_EPSILONS)
    assert options.EPSILONS == EPSILONS == "0.5,1,2,3,4,6,8"


def test_what_is_neither_is_refused():
    with pytest.raises(ValueError, match="per must be 'record' or 'feature', got 'person'"):
        asked(epsilons=[1.0], per="person")


def test_a_box_is_weighed_by_what_the_record_pays():
    asked_for = {"sensitive": [0, 1], "domain": {0: (0, 1), 1: (0, 1)}}
    box, part = (ew.safe_box(TREE, X[0], **asked_for, epsilon=epsilon) for epsilon in (6.0, 3.0))
    assert box.epsilon == 6.0
    assert box.mass > part.mass
    law = ew.MECHANISMS["pm"](3.0)
    mass = np.prod([float(law.law(x).mass(a, b)) for x, a, b in zip(X[0], box.lower, box.upper, strict=False)])
    assert box.mass == pytest.approx(mass, abs=1e-9)
