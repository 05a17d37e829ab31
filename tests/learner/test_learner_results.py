"""Results of the learner: what they spend, print, and write."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from epsworth.bounds import Overspent, Risk
from epsworth.learner import Classifier, Holder, LatticeConfig, PrivateValidation, plan, simulate
from epsworth.learner.certificates import Certificates
from epsworth.learner.planning import Plan
from epsworth.results import Result


def learnt(classes=(0, 1), m=8, users=3000, name="krr"):
    rng = np.random.default_rng(0)
    config = LatticeConfig(box=(0, 1), m=m, classes=classes, mechanism=name, epsilon=3)
    x = rng.random((500, 1))
    y = np.array(classes)[(x[:, 0] * len(classes)).astype(int)]
    return Classifier.from_aggregate(simulate(config, x, y, rng, users=users), None)


@pytest.mark.parametrize("classes", [(0, 1), ("a", "b", "c", "d")])
@pytest.mark.parametrize("confidence", [0.9, 0.999, 1 - Fraction(1, 3)])
def test_certificates_spend_what_was_asked_for_and_no_more(classes, confidence):
    """Every cell and every wrong label pays; the threshold of each is its part of the whole."""
    asked, rivals, seen = 1 - Fraction(confidence), len(classes) - 1, []
    for users in range(100, 3100, 100):
        model = learnt(classes, users=users)
        found = model.certificate((np.arange(8)[:, None] + 0.5) / 8, confidence=confidence, fakes=0)
        assert found.spent == asked
        best = model.estimates.argmax(axis=1) if rivals > 1 else (model.estimates[:, 0] >= 0).astype(int)
        hardest = model.config.kernel.against(model.aggregate.tally, best)
        assert (found.certified == [Fraction(p) <= asked / (8 * rivals) for p in hardest.tolist()]).all()
        assert (found.adjusted >= np.minimum(1, 8 * rivals * hardest)).all()
        seen += hardest.tolist()
    between = [asked / (8 * rivals) < Fraction(p) <= asked / max(8, rivals) for p in seen]
    assert rivals == 1 or any(between)  # whoever forgets either division certifies more
    for adjust in ("bh", "by"):
        assert model.certificate([[0.5]], confidence=confidence, adjust=adjust, fakes=0).spent == asked


def test_certificates_that_spend_too_much_are_a_fault():
    found = learnt().certificate([[0.5]], confidence=0.9, fakes=0)
    fields = vars(found) | {"confidence": 0.95}
    with pytest.raises(Overspent, match="cannot hold with confidence"):
        Certificates(**fields)


def test_intervals_are_apart_and_points_together():
    """A cell's interval pays with a risk of its own; the points' share one."""
    model = learnt()
    kernel, tally = model.config.kernel, model.aggregate.tally
    found = model.certificate((np.arange(8)[:, None] + 0.5) / 8, confidence=0.9, fakes=0)
    alone = kernel.interval(tally, Risk.apart(0.9, 8))
    together = kernel.interval(tally, Risk.of(0.9).split(8))
    assert (found.lower == alone.lower).all()
    assert (together.lower < alone.lower).all()
    least = np.maximum(together.lower, -together.upper)
    edge = float(np.sort(least)[4])  # of the cells, some lie on either side
    point = model.certificate(
        (np.arange(8)[:, None] + 0.5) / 8, confidence=0.9, holder=Holder(edge / 2 * 8, 1.0, 1.0), fakes=0
    ).point
    inner = np.arange(8) % 7 > 0
    assert (point == (inner & (least > edge))).all()


def test_accuracies_spend_what_was_asked_for():
    validation = PrivateValidation([len, abs], epsilon=2)
    found = validation.accuracies(np.array([[0, 1], [0, 0], [1, 0], [1, 1]] * 30), fakes=0, confidence=0.9)
    assert found.spent == 1 - Fraction(0.9)
    assert ((found.lower <= found.estimate) & (found.estimate <= found.upper)).all()
    assert "candidate 1" in str(found)
    assert "confidence 0.9" in str(found)


def test_results_print_and_write_their_numbers(tmp_path):
    model = learnt(name="slides")
    results = [
        model.certificate([[0.1], [0.9]], confidence=0.9, holder=Holder(1.0), fakes=0),
        plan(epsilon=1, margin=0.02, fakes=0),
        plan(users=100, margin=0.01, fakes=0),
        PrivateValidation([len], epsilon=2).accuracies(np.array([[0, 1], [0, 0]] * 30), fakes=0),
    ]
    for number, result in enumerate(results):
        assert isinstance(result, Result)
        result.save(tmp_path / f"{number}.json")
        assert json.loads((tmp_path / f"{number}.json").read_text()) == json.loads(json.dumps(result.to_dict()))
        assert result._repr_html_().startswith(("<pre", "<table"))
    assert results[0].to_dict()["lower"] == [None, None]
    assert Plan.load(tmp_path / "1.json") == results[1]
    assert Plan.load(tmp_path / "2.json").epsilon == math.inf
    assert "3,000 reports of krr, pure LDP, epsilon 3 per record each: 8 cells" in str(learnt())
    assert "3,000 reports" in str(model.aggregate)
