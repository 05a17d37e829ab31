"""What the learner refuses, each in one sentence, and the edges of what it takes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import get_scorer

from epsworth.learner import Client, LatticeConfig, LDPClassifier

UNIT = LatticeConfig(box=(0, 1), m=8, alpha=1)


def step(n=4000):
    """Return points in [0, 1] and whether they exceed one half."""
    x = np.random.default_rng(0).random((n, 1))
    return x, x[:, 0] > 0.5


@pytest.mark.parametrize("classes", [("yes", "no"), np.array(["no", "yes"]), None])
def test_scorers_read_declared_classes_in_any_order(classes):
    """Scikit-learn takes the scores for those of the second of the sorted labels."""
    x, above = step()
    y = np.where(above, "yes", "no")
    model = LDPClassifier(4.0, classes=classes, random_state=0).fit(x, y)
    assert model.classes_.tolist() == list(model.config_.classes) == ["no", "yes"]
    assert get_scorer("roc_auc")(model, x, y) > 0.95
    assert model.score(x, y) > 0.9


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("no", "classes must be a list of labels"),
        (np.array("no"), "classes must be a list of labels"),
        (5, "classes must be a list of labels"),
        ([], "at least two different labels"),
        (["no", "no"], "at least two different labels"),
        ([[0], [1]], "must be texts or numbers"),
        ([1, "two"], "all texts or all numbers"),
    ],
)
def test_bad_classes_are_refused_everywhere(classes, message):
    for ask in (
        lambda: LDPClassifier(1, classes=classes).fit([[0.1], [0.2]], [0, 1]),
        lambda: LatticeConfig(box=(0, 1), m=4, alpha=1, classes=classes),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
