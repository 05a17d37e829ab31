"""Results written by others: they have a page, or are refused in a sentence."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json

import numpy as np
import pytest
from made_documents import advised, document
from made_pages import Read

from epsworth.learner import Classifier, LatticeConfig, simulate
from epsworth.learner.figures import told_of
from epsworth.report import report
from epsworth.report.text import noise_name
from strategies import sparing


def changed(name, value, *path):
    """Return a document with one entry changed."""
    made = copy.deepcopy(document(name))
    part = made
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return made


@pytest.mark.slow
def test_an_advice_changes_with_its_rows():
    made = changed("noise", 0.01, "rows", 3, "cost")
    made["rows"][3] |= {"sound": True, "epsilon": 0.01, "exact_epsilon": 0.01}
    made["floor"] = 0.005
    assert (
        Read(report(made).html).ids["sentence"].startswith(f"Take {noise_name(made['rows'][3]['name'])}: epsilon 0.01 ")
    )


ODD = (None, 0, 1.0, -1, 1e300, "maybe", [], [True] * 25, [0.5], {})


@pytest.mark.parametrize("name", ["learnt", "profile", "noise", "privatize", "plan"])
@pytest.mark.parametrize("every", sparing([7, 1], keep=[0]))
@pytest.mark.cases("all")
def test_an_odd_entry_costs_a_page_or_a_sentence(every, name):
    """Whatever an entry is replaced by: a page, or one sentence; never another error."""
    made = document(name)
    for entry, odd in list(itertools.product(made, ODD))[::every]:
        with contextlib.suppress(ValueError):
            report(made | {entry: odd})


@pytest.mark.parametrize("name", ["learnt", "plan"])
@pytest.mark.parametrize("odd", ["maybe", -1, 1.5, [], True])
def test_odd_fakes_are_refused_by_name(name, odd):
    with pytest.raises(ValueError, match=r"^(result: )?fakes must be a whole number of at least 0, got"):
        report(document(name) | {"fakes": odd})


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("noise", ("shape", "answer")), ("noise", ("shape", "edges", 0)), ("privatize", ("audit", "mi")),
        ("privatize", ("noise", "numbers", 0, "sd")), ("learnt", ("width",)), ("profile", ("window", 0)),
        ("learnt table", ("columns", 0, "edges", 1)),
    ],
)  # fmt: skip
def test_a_text_in_place_of_a_number_is_refused_in_our_words(name, path):
    with pytest.raises(
        ValueError, match=r"^result: damaged or incomplete \(an entry is of another kind than it should"
    ):
        report(changed(name, "maybe", *path))


def test_documents_that_are_no_result_are_refused():
    for given in ({}, {"a": 1}):
        with pytest.raises(ValueError, match=r"holds no result that has a page"):
            report(given)


@pytest.mark.parametrize("nats", [1e-5, 1e-4, 0.001])
@pytest.mark.slow
def test_small_budgets_keep_their_pages(nats):
    """Nats on a page are rounded up; the chances beside them are those of the nats as they are."""
    from epsworth.pac import MI, Ledger, PACPrivatizer

    rows, ledger = np.random.default_rng(3).uniform(size=(40, 2)), Ledger(MI(1))
    made = PACPrivatizer(lambda X: X.mean(axis=0), MI(nats), worlds=64, worlds_seed=5).fit(rows)
    for release in (made.release(), made.release(), made.release(ledger), made.release(ledger)):
        assert "nats" in report(json.loads(json.dumps(release.to_dict()))).html


@pytest.mark.parametrize(
    "asked", [{"delta": 0}, {"delta": 0.3}, {"delta": 1e-6, "lattice": 1}, {"delta": 1e-6, "region": "fixed"}]
)
@pytest.mark.slow
def test_every_ranking_has_its_page(asked):
    from epsworth.noise import cheapest

    if "region" in asked:
        asked = asked | {"answers": [0.0, 1.0, 2.0]}
    made = cheapest(2, confidence=0.9, **asked).to_dict()
    question = {"within": "2", "confidence": 0.9, "sensitivity": 1.0, "region": "absolute", "releases": 1}
    question |= {"delta": asked["delta"], "region": asked.get("region", "absolute")}
    for one in (made, made | {"question": question}):
        assert Read(report(one).html).ids["sentence"] == advised(made)


def test_a_promise_of_those_who_report_is_one():
    """With ``outside="refuse"`` who reports tells of the record, and the promise says so."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 2))
    asked = LatticeConfig(box=(0, 1), m=4, d=2, epsilon=2, outside="refuse")
    model = Classifier.from_aggregate(simulate(asked, X, (X[:, 0] > 0.5).astype(int), 0))
    made = json.loads(json.dumps(told_of(model, 0.95, fakes=0)))
    assert "of those who report" in report(made).html
