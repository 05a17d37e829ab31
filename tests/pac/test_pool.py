"""What a pool may hold, and the sentences for what it may not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from epsworth.pac import MI, DPEquivalent, PACPrivatizer, Posterior, RecordPosterior

X = np.random.default_rng(0).normal(size=(12, 2))


def mean(rows, labels=None):
    return rows.mean(axis=0)


def fit(y=None, groups=None, function=mean):
    return PACPrivatizer(function, MI(1.0), worlds=8).fit(X, y, groups=groups)


@pytest.mark.parametrize("hole", [None, float("nan"), pd.NA, pd.NaT])
def test_a_missing_label_or_group_is_named_by_its_row(hole):
    values = ["a", "b"] * 5 + ["a", hole]
    with pytest.raises(ValueError, match="row 11, y: the value is missing"):
        fit(y=np.array(values, dtype=object))
    with pytest.raises(ValueError, match="row 11, groups: the value is missing"):
        fit(groups=np.array(values, dtype=object))
    with pytest.raises(ValueError, match="row 2, y: the value is missing or infinite"):
        fit(y=np.where(np.arange(12) == 2, np.inf, 0.5))
    assert fit(y=np.array([1, 2.0] * 6, dtype=object)).units_ == 12
    with pytest.raises(ValueError, match="y mixes values of the types int, str"):
        fit(y=np.array(["a", 1] * 6, dtype=object))


def test_groups_that_span_classes_are_the_cause_that_is_named():
    with pytest.raises(ValueError, match=r"class 1 has 0 distinct .* a group counts for the class of its first row"):
        fit(y=np.tile([0, 1], 6), groups=np.arange(12) // 2)


def test_whole_numbers_are_classes_for_a_function_and_the_sentence_says_so():
    with pytest.raises(ValueError, match="whole numbers are taken as classes: for a regression"):
        fit(y=np.arange(12))
    assert fit(y=np.arange(12) + 0.5).release().vector.shape == (2,)  # as the sentence advises
    with pytest.raises(ValueError, match=r"drop the class$"):
        fit(y=list("aaaaaaaaaaab"))


def test_a_function_that_works_in_place_leaves_the_table_alone():
    def in_place(rows, labels):
        rows *= 2
        labels[:] = 0
        return rows.mean(axis=0)

    before, y = X.copy(), np.tile([0, 1], 6)
    fitted = fit(y=y, function=in_place)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(y, np.tile([0, 1], 6))
    np.testing.assert_array_equal(fitted.mechanism_.reference, 2 * before.mean(axis=0))


@pytest.mark.parametrize("kind", [MI, Posterior, RecordPosterior, DPEquivalent])
@pytest.mark.parametrize("value", ["1/16", None, True])
def test_a_budget_that_is_no_number_is_refused_in_one_sentence(kind, value):
    with pytest.raises(TypeError, match=f"^{kind.__name__}: .* must be a number, such as 1 / 16 without quotes"):
        kind(value)
