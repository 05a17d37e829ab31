"""A label must not depend on the rows that are asked about together with it, and chance is told from rounding."""

from __future__ import annotations

import numpy as np
import pytest

import epsworth as ew

TABLE = np.random.default_rng(0).uniform(size=(40, 2))
SETTINGS = {"sensitive": [0], "mechanisms": ["pm"], "epsilons": [2.0], "rng": 0, "tolerance": 0.2}
OF_THE_BATCH = "alone and among others: its answer depends on the other rows of the batch, or on rounding next to a tie"


def ranked(Z):
    return np.argsort(np.argsort(Z[:, 0])) > len(Z) / 2


def scaled(Z):
    with np.errstate(invalid="ignore"):
        return (Z[:, 0] - Z[:, 0].min()) / np.ptp(Z[:, 0]) > 0.5


BATCHES = {
    "above the mean": lambda Z: Z[:, 0] > Z[:, 0].mean(),
    "in the upper half": ranked,
    "scaled by the batch": scaled,
    "as the first row": lambda Z: np.repeat(Z[:1, 0] > 0.5, len(Z)),
    "by the size of the batch": lambda Z: np.full(len(Z), len(Z) > 1),
}


@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("name", BATCHES)
def test_labels_that_depend_on_the_rest_of_the_batch_are_refused(name, rows):
    with pytest.raises(ew.ClassifierError, match=OF_THE_BATCH) as caught:
        ew.stability(BATCHES[name], TABLE[:rows], **SETTINGS)
    assert "seed" not in str(caught.value)
    with pytest.raises(ew.ClassifierError, match=OF_THE_BATCH) as caught:
        ew.radius(BATCHES[name], TABLE[rows - 1], rng=0)
    assert "seed" not in str(caught.value)


def test_rounding_that_varies_with_the_batch_is_not_called_random():
    """A tie that is broken one way alone and another way among others, as products of matrices do."""
    tie = lambda Z: np.asarray(Z)[:, 0] + (1e-17 if len(Z) == 1 else -1e-17) * (Z[:, 0] == 0) > 0  # noqa: E731
    for ask in (lambda: ew.stability(tie, [[0.0, 1.0]], **SETTINGS), lambda: ew.radius(tie, [0.0, 1.0], rng=0)):
        with pytest.raises(ew.ClassifierError, match="or on rounding next to a tie"):
            ask()


def test_chance_is_called_chance():
    draws = np.random.default_rng(0)
    for ask in (
        lambda model: ew.stability(model, TABLE, **SETTINGS),
        lambda model: ew.radius(model, TABLE[0], rng=0),
    ):
        with pytest.raises(ew.ClassifierError, match="needs a deterministic classifier: fix its seed"):
            ask(lambda Z: draws.random(len(Z)) > 0.3)


def test_the_checks_are_counted_among_the_queries():
    asked = []

    def classifier(Z):
        asked.append(len(Z))
        return Z[:, 0] > 0.5

    curves = ew.stability(classifier, TABLE[:5], **SETTINGS)
    assert sum(asked) == curves.queries
    assert asked.count(1) == 3  # with values over the ranges
