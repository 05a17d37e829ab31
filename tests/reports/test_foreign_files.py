"""Results written by others: what follows from their numbers is made again, or the file is refused."""

from __future__ import annotations

import copy
import json
import re
from functools import cache

import numpy as np
import pytest
from made_documents import document
from made_pages import Read

from epsworth.learner import Classifier, LatticeConfig, simulate
from epsworth.learner.telling import told_of
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
    made["rows"][3] |= {"sound": True, "exact_epsilon": 0.01}
    made["floor"] = 0.005
    assert Read(report_document(made).html).ids["sentence"].startswith(f"Take {made['rows'][3]['name']}: epsilon 0.01 ")


def _kept_from(at, **entries):
    """Return a window whose models keep the accuracy from one point of the grid on."""
    made = document("profile")
    for one in made["utility"][at:]:
        one |= {"kept": 1.0, "kept_lower": 0.99}
    return made | {"eps_util": made["utility"][at]["epsilon"]} | entries


def test_a_trade_off_names_what_it_costs():
    made = _kept_from(30, adv_util=0.4321)
    page = Read(report_document(made).html)
    assert "from epsilon 5.63 on, where the most exposed row's advantage is 0.433, but" in page.ids["sentence"]
    before = {key: value for key, value in made.items() if key != "adv_util"}  # written before there was an entry
    assert "from epsilon 5.63 on, but every row's" in Read(report_document(before).html).ids["sentence"]


def test_where_utility_costs_nothing_there_is_a_window():
    made = _kept_from(24, window=[1.0, document("profile")["eps_low"]])
    assert "utility costs nothing there" in Read(report_document(made).html).ids["sentence"]
    with pytest.raises(ValueError, match="window: damaged"):
        report_document(made | {"window": None})


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


def _each(name, key, value):
    return [one | {key: value} for one in document("profile")[name]]


WINDOWS = [
    (300.0, ("eps_low",), "adv_low: it says less than these rows' epsilons admit"),
    (1e300, ("eps_low",), "adv_low: it says less than these rows' epsilons admit"),
    (0.05, ("adv_low",), "adv_low: it says less than these rows' epsilons admit"),
    (0.02, ("wishes", "adv_safe"), "window: damaged"),
    (1.0, ("eps_util",), "eps_util: it is not what utility says"),
    (None, ("utility",), "utility: incomplete"),
    (None, ("base_accuracy",), "utility: incomplete"),
    (0.99, ("utility", 9, "epsilon"), "utility: damaged"),
    (0.5, ("utility", 9, "kept_lower"), "utility: damaged"),
    (0.0, ("utility", 40, "accuracy"), "accuracy: trade says more than utility"),
    ([0.001, 30.0], ("window",), "window: damaged"),
    ([3.7, 0.4], ("window",), "window: damaged"),
    ([0.01, document("profile")["eps_low"]], ("window",), "window: damaged"),
    ([1.0], ("window",), "window: damaged"),
    (0.1, ("most_exposed", 0, "epsilon"), "most_exposed: they are not those of the profile"),
    (0.1, ("most_exposed", 0, "advantage"), "advantage: most_exposed says less"),
    (0.1, ("profile", "advantage", -1), "advantage: profile says less"),
    (0.99, ("profile", "share_of_rows", -1), "share_of_rows: damaged, it must rise to 1"),
    (9.0, ("profile", "epsilon_of_row", -1), "epsilon_of_row is no number in [0, 4]"),
    (0.1, ("profile", "epsilon_of_row", -1), "share_of_rows: damaged"),
    (_each("trade", "advantage_worst", 0.0), ("trade",), "advantage_worst: trade says less"),
    (_each("trade", "advantage_95", 0.0), ("trade",), "advantage_95: trade says less"),
    (_each("trade", "advantage_median", 0.0), ("trade",), "advantage_median: trade says less"),
    (_each("trade", "rows_above_safe", 0.0), ("trade",), "rows_above_safe: fewer than the profile says"),
    (_each("trade", "accuracy", 1.0), ("trade",), "accuracy: trade says more than utility"),
    (_each("trade", "kept_lower", 0.9), ("trade",), "kept_lower: trade says more than utility"),
    (["a"], ("columns",), "says less than these rows' epsilons admit"),
    ([], ("columns",), "epsilon or columns: damaged"),
    (0, ("epsilon",), "epsilon or columns: damaged"),
]


@pytest.mark.parametrize(("value", "path", "told"), WINDOWS)
def test_a_window_agrees_with_its_law(value, path, told):
    _refused("profile", value, path, told)


def test_an_advantage_where_utility_is_kept_is_the_laws():
    report_document(_kept_from(30, adv_util=0.2))
    with pytest.raises(ValueError, match="adv_util: it says less"):
        report_document(_kept_from(30, adv_util=0.1))


def test_what_runs_out_of_entries_is_refused_in_a_sentence(monkeypatch):
    from epsworth.reports import others

    kind = "epsworth profile --json"
    monkeypatch.setitem(others.PAGES, kind, (others.PAGES[kind][0], lambda *_: next(iter(()))))
    with pytest.raises(ValueError, match="result: damaged or incomplete"):
        report_document(document("profile"))


@cache
def _of_record_budgets(mode):
    from epsworth.pac import MI, PACPrivatizer, RecordPosterior

    rows = np.random.default_rng(3).uniform(size=(40, 2))
    asked = {"worlds": 64 if mode == "exact" else 640, "worlds_seed": 5, "mode": mode}
    made = PACPrivatizer(lambda X: X.mean(axis=0), RecordPosterior(0.6, joint=MI(1)), **asked).fit(rows)
    return json.loads(json.dumps(made.release().to_dict()))


RECORDS = [
    ("exact", {"posterior_of_membership": 0.5}, "posterior_of_membership: 0.5 is less"),
    ("exact", {"posterior_of_membership": 0.0, "worst_record_upper_limit": 0.0}, "posterior_of_membership: 0 is less"),
    ("exact", {"tpr_at_fpr_0.001": 0.002}, "tpr_at_fpr_0.001: 0.002 is less"),
    ("exact", {"worst_record_upper_limit": None}, "most_nats_in_all: incomplete"),
    ("exact", {"most_nats_in_all": None}, "most_nats_in_all: incomplete"),
    ("exact", {"most_nats_in_all": 1e-5}, "most_nats_in_all: it is less than was told"),
    ("exact", {"mi_nats_of_all_releases_so_far": 1e-6}, "mi_nats_of_all_releases_so_far: it is less"),
    ("exact", {"ledger_spent": 0.9}, "posterior_at_prior_0.5: "),
    ("exact", {"soundness": "estimate, no proof"}, "soundness: it is not what its mode is"),
    ("exact", {"mode": "certified"}, "soundness: it is not what its mode is"),
    ("estimated", {"mode": "exact"}, "soundness: it is not what its mode is"),
    ("estimated", {"posterior_of_membership": 0.5}, "posterior_of_membership: 0.5 is less"),
    ("estimated", {"tpr_at_fpr_0.001": 0.002}, "tpr_at_fpr_0.001: 0.002 is less"),
]


@pytest.mark.parametrize(("mode", "entries", "told"), RECORDS)
def test_budgets_of_records_are_no_way_round_the_nats(mode, entries, told):
    made = copy.deepcopy(_of_record_budgets(mode))
    report_document(made)
    made["report"] |= entries
    with pytest.raises(ValueError, match=re.escape(told)):
        report_document(made)


@pytest.mark.parametrize("nats", [1e-5, 1e-4, 0.001])
def test_small_budgets_keep_their_pages(nats):
    """Nats on a page are rounded up; the chances beside them are those of the nats as they are."""
    from epsworth.pac import MI, Ledger, PACPrivatizer

    rows, ledger = np.random.default_rng(3).uniform(size=(40, 2)), Ledger(MI(1))
    made = PACPrivatizer(lambda X: X.mean(axis=0), MI(nats), worlds=64, worlds_seed=5).fit(rows)
    for release in (made.release(), made.release(), made.release(ledger), made.release(ledger)):
        assert "nats" in report_document(json.loads(json.dumps(release.to_dict()))).html


NOISES = [
    (0.9, ("floor",), "floor: a sound row costs less"),
    (2, ("question", "releases"), "floor: none is known for this question"),
    ("relative", ("question", "region"), "floor: none is known for this question"),
    (1e-7, ("question", "delta"), "delta: a row has more"),
    (0.97, ("question", "confidence"), "confidence: a row has less"),
    (0.5, ("rows", 2, "confidence"), "confidence: a row has less"),
    (0.5, ("rows", 2, "delta"), "delta: a row has more"),
    (9, ("rows", 2, "releases"), "releases: a row has others"),
    (0.0, ("rows", 2, "epsilon"), "epsilon: a sound row's is less"),
    (9.0, ("rows", 2, "exact_epsilon"), "epsilon: a sound row's is less"),
    (None, ("rows", 2, "epsilon"), "epsilon: damaged"),
]


@pytest.mark.parametrize(("value", "path", "told"), NOISES)
def test_rows_answer_their_question(value, path, told):
    assert document("noise")["rows"][2]["sound"]
    _refused("noise", value, path, told)


def test_without_a_question_rows_are_of_one_kind():
    made = {key: value for key, value in document("noise").items() if key != "question"}
    report_document(made)
    for entries, told in (
        ({"releases": 2}, "releases: a row has others"),
        ({"epsilon": 0, "delta": 0}, "epsilon: dam"),
    ):
        spoilt = copy.deepcopy(made)
        spoilt["rows"][1] |= entries
        with pytest.raises(ValueError, match=told):
            report_document(spoilt)


@pytest.mark.parametrize(
    "asked", [{"delta": 0}, {"delta": 0.3}, {"delta": 1e-6, "lattice": 1}, {"delta": 1e-6, "region": "fixed"}]
)
def test_every_ranking_has_its_page(asked):
    from epsworth.noise import cheapest

    if "region" in asked:
        asked = asked | {"answers": [0.0, 1.0, 2.0]}
    made = cheapest(2, confidence=0.9, **asked).to_dict()
    question = {"within": "2", "confidence": 0.9, "sensitivity": 1.0, "region": "absolute", "releases": 1}
    question |= {"delta": asked["delta"], "region": asked.get("region", "absolute")}
    for one in (made, made | {"question": question}):
        assert Read(report_document(one).html).ids["sentence"] == made["advice"]


def test_a_promise_of_those_who_report_is_one():
    """With ``outside="refuse"`` who reports tells of the record, and the promise says so."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 2))
    asked = LatticeConfig(box=(0, 1), m=4, d=2, epsilon=2, outside="refuse")
    model = Classifier.from_aggregate(simulate(asked, X, (X[:, 0] > 0.5).astype(int), 0))
    made = json.loads(json.dumps(told_of(model, 0.95)))
    assert "of those who report" in report_document(made).html
    with pytest.raises(ValueError, match="guarantee: it is not what epsilon says"):
        report_document(made | {"guarantee": "pure LDP, epsilon 1 per record of those who report"})
