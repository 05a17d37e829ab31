"""Results written by others: what follows from their numbers is made again, or the file is refused."""

from __future__ import annotations

import copy
import re

import pytest
from made_documents import document
from made_pages import Read

from epsworth.reports import report_document


def changed(name, value, *path):
    """Return a document with one entry changed."""
    made = copy.deepcopy(document(name))
    part = made
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return made


@pytest.mark.parametrize(("name", "entry"), [("noise", "advice"), ("profile", "verdict")])
def test_the_decision_follows_from_the_numbers(name, entry):
    made = document(name)
    page = report_document(changed(name, "Take anything: it costs nothing.", entry))
    assert Read(page.html).ids["sentence"] == made[entry]
    assert "Take anything" not in page.html


def test_an_advice_changes_with_its_rows():
    made = changed("noise", 0.01, "rows", 3, "epsilon")
    made["rows"][3] |= {"sound": True}
    assert Read(report_document(made).html).ids["sentence"].startswith(f"Take {made['rows'][3]['name']}: epsilon 0.01 ")


def test_a_trade_off_names_what_it_costs():
    made = document("profile") | {"eps_util": 5.0, "adv_util": 0.4321, "window": None}
    page = Read(report_document(made).html)
    assert "from epsilon 5 on, where the most exposed row's advantage is 0.433, but" in page.ids["sentence"]
    before = {key: value for key, value in made.items() if key != "adv_util"}  # written before there was an entry
    assert "from epsilon 5 on, but every row's" in Read(report_document(before).html).ids["sentence"]


def test_where_utility_costs_nothing_there_is_a_window():
    made = document("profile") | {"eps_util": 1.0, "window": None}
    with pytest.raises(ValueError, match="window: damaged"):
        report_document(made)


@pytest.mark.parametrize(
    ("name", "value", "path", "told"),
    [
        ("plan", 3, ("users",), "users: 3 are too few for this epsilon and margin, "),
        ("privatize", 0.5, ("report", "posterior_of_membership"), "posterior_of_membership: 0.5 is less than the nats"),
        ("privatize", 0.5, ("report", "posterior_at_prior_0.5"), "posterior_at_prior_0.5: 0.5 is less than the nats"),
        ("privatize", 0.001, ("report", "tpr_at_fpr_0.001"), "tpr_at_fpr_0.001: 0.001 is less than the nats admit"),
        ("privatize", 0.0, ("report", "posterior_of_naming_the_world"), "posterior_of_naming_the_world: 0 is less"),
        ("privatize", 0.5, ("noise", "by_budget", -1, "posterior_of_membership"), "posterior_of_membership: 0.5 is"),
        ("profile", [0.1, 50.0], ("window",), "window: damaged, it is not what the advantages say"),
        ("profile", 0.3, ("adv_low",), "window: damaged"),
    ],
)
def test_promises_below_what_their_numbers_admit_are_refused(name, value, path, told):
    report_document(document(name))
    with pytest.raises(ValueError, match=re.escape(told)):
        report_document(changed(name, value, *path))


def _refused(name, value, path, told):
    report_document(document(name))
    with pytest.raises(ValueError, match=re.escape(told)):
        report_document(changed(name, value, *path))


def _with(name, keys, value):
    return [one | dict.fromkeys(keys, value) for one in document("learnt")[name]]


LEARNT = [
    (25, ("certified",), "labels: they do not add up"),
    (26, ("certified",), "certified: 26 are more than the 25 cells"),
    (24, ("cells",), "labels: they do not add up"),
    (None, ("certified",), "certified: it is missing"),
    (1.0, ("confidence",), "confidence: damaged"),
    (0, ("users",), "users: nobody"),
    (0.1, ("epsilon",), "guarantee: it is not what epsilon says"),
    ("pure LDP, epsilon 0.1 per record", ("guarantee",), "guarantee: it is not what epsilon says"),
    ("maybe", ("labels", 0, "label"), "labels: damaged"),
    (13, ("labels", 0, "cells"), "labels: their cells are not those of the map"),
    (11, ("labels", 0, "certified"), "labels: they do not add up"),
    (24, ("by_confidence", 3, "certified"), "by_confidence: it does not agree with certified"),
    (24, ("by_confidence", 0, "certified"), "by_confidence: it is not what the map says"),
    (0, ("by_confidence", 6, "certified"), "by_confidence: more certainty"),
    (0, ("by_confidence", 8, "certified"), "by_confidence: it is not what the map says"),
    ([True] * 25, ("map", "certified"), "map: damaged, a certificate does not agree"),
    ([0.0] * 25, ("map", "adjusted"), "map: damaged, a certificate does not agree"),
    ([0] * 25, ("map", "label"), "labels: their cells are not those of the map"),
    ([0] * 25, ("map", "cell_label"), "labels: their certificates are not those of the map"),
    (12, ("differing",), "differing: it is not what the map says"),
    (0.9, ("clearest", 0, "adjusted"), "clearest: damaged"),
    (False, ("clearest", 0, "certified"), "clearest: damaged"),
    (1e-40, ("clearest", 0, "adjusted"), "clearest: they are not those of the map"),
    (_with("by_confidence", ["certified"], 24), ("by_confidence",), "by_confidence: it does not agree with certified"),
]


@pytest.mark.parametrize(("value", "path", "told"), LEARNT)
def test_what_was_learnt_agrees_with_itself(value, path, told):
    _refused("learnt", value, path, told)


def test_a_larger_count_of_certificates_is_refused_however_it_is_told():
    """The map alone gives it away."""
    made = document("learnt") | {"certified": 24, "by_confidence": _with("by_confidence", ["certified"], 24)}
    made["labels"][0]["certified"] = 14
    with pytest.raises(ValueError, match="certified: it is not what the map says"):
        report_document(made)
