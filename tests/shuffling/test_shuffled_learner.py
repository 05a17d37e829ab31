"""Shuffled reports of the learner, from Python and from the shell."""

from __future__ import annotations

import json

import pytest

from epsworth.guarantees import local_epsilon, shuffled
from epsworth.learner import Category, LatticeConfig, Number, TableConfig, plan
from epsworth.learner.config import law_of
from epsworth.learner.planning import central_of
from reproduction import published_lattice  # noqa: F401  "slides", of which no smaller bound is known

ASKED = {"users": 10_000, "delta": 1e-6}


def cells(**given):
    return LatticeConfig(**{"box": (0, 1), "m": 4, "epsilon": 2, "classes": (0, 1)} | given)


@pytest.mark.parametrize(
    ("given", "law"),
    [
        ({"mechanism": "krr"}, ("krr", 8)),
        ({"mechanism": "krr", "classes": (0, 1, 2)}, ("krr", 12)),
        ({"mechanism": "krr", "m": 1}, ("krr", 2)),
        ({"mechanism": "oue"}, ("oue", None)),
        ({"mechanism": "ternary"}, ("ternary", None)),
        ({"mechanism": "hadamard"}, ("any", None)),
        ({"mechanism": "hadamard", "classes": (0, 1, 2)}, ("hadamard", 3)),
        ({"mechanism": "parity"}, ("any", None)),
        ({"mechanism": "slides"}, ("any", None)),
        ({"mechanism": "cosine", "m": 2}, ("any", None)),
    ],
)
@pytest.mark.cases(4)
def test_every_mechanism_has_the_bound_that_is_proven_for_it(given, law):
    config = cells(**given)
    assert law_of(config.kernel) == law
    found = config.shuffled(**ASKED)
    assert found.epsilon == shuffled(2.0, **ASKED, mechanism=law[0], symbols=law[1]).epsilon
    assert found.local_epsilon == 2.0


def test_rows_that_clients_draw_hide_among_all_and_rows_of_ids_among_their_own():
    """The values are those of n = 100,000 and of n divided by the number of rows."""
    drawn = cells(mechanism="hadamard", epsilon=1).shuffled(users=100_000, delta=1e-6)
    assert drawn.epsilon == pytest.approx(0.0124, abs=6e-5)
    hashed = cells(mechanism="hadamard", epsilon=1, rows="hash")
    for rows, epsilon in ((16, 0.0556), (64, 0.117), (256, 0.247)):
        found = hashed.shuffled(users=100_000, delta=1e-6, smallest_row=100_000 // rows)
        assert found.epsilon == pytest.approx(epsilon, rel=5e-3)
        assert found.users == 100_000 // rows
    fewer = hashed.shuffled(users=100_000, delta=1e-6, smallest_row=1000, fakes=400)
    assert fewer.epsilon == shuffled(1.0, users=600, delta=1e-6).epsilon  # all fakes may sit in one row


def test_rows_of_ids_are_refused_without_their_smallest():
    with pytest.raises(ValueError, match="smallest_row is missing: with rows='hash' ids tell rows"):
        cells(mechanism="hadamard", rows="hash").shuffled(**ASKED)
    with pytest.raises(ValueError, match="smallest_row is for rows='hash'"):
        cells(mechanism="hadamard").shuffled(**ASKED, smallest_row=10)
    with pytest.raises(ValueError, match="smallest_row must be a whole number from 0 to 10000, got 20000"):
        cells(mechanism="hadamard", rows="hash").shuffled(**ASKED, smallest_row=20_000)
    with pytest.raises(ValueError, match="users must be at least 2, got 1"):
        cells(mechanism="hadamard", rows="hash").shuffled(**ASKED, smallest_row=1)


def test_whoever_reports_must_not_depend_on_the_record():
    with pytest.raises(ValueError, match="outside='refuse' lets the record decide whether it is reported"):
        cells(outside="refuse").shuffled(**ASKED)
    assert cells(outside="zero").shuffled(**ASKED).epsilon < 2


def test_rounds_of_a_table_keep_the_promise_of_the_smallest():
    columns = [Number("age", 0, 100), Category("job", ("none", "clerk"))]
    config = TableConfig(columns, (0, 1), epsilon=1, users=100_000)
    shares = [float(share) for _, share in config.shares]
    assert min(shares) < max(shares)
    found = config.shuffled(delta=1e-6)
    assert found.users == round(min(shares) * 100_000)
    assert found.epsilon == shuffled(1.0, users=found.users, delta=1e-6).epsilon
    assert config.shuffled(delta=1e-6, users=5000).users == 5000
    hashed = TableConfig(columns, (0, 1), epsilon=1, users=100_000, rows="hash")
    with pytest.raises(ValueError, match="smallest_row is missing"):
        hashed.shuffled(delta=1e-6)
    assert hashed.shuffled(delta=1e-6, smallest_row=40).users == 40


@pytest.mark.parametrize(("mechanism", "sizes"), [("hadamard", {}), ("krr", {"m": 8, "d": 1}), ("oue", {})])
@pytest.mark.cases(1)
def test_a_plan_behind_a_shuffler_keeps_what_was_asked_for_as_printed(mechanism, sizes):
    central = central_of(0.25, users=50_000, delta=1e-6, mechanism=mechanism, fakes=0.001, **sizes)
    assert central.epsilon <= 0.25
    assert len(f"{central.local_epsilon!r}") <= 7  # six digits: what is printed is what is planned with
    assert central.fakes == 50
    assert central.local_epsilon >= local_epsilon(0.25, delta=1e-6, users=50_000, fakes=50) * (1 - 1e-5)
    found = plan(epsilon=central_of(0.25, users=50_000, delta=1e-6, fakes=0).local_epsilon, users=50_000, fakes=0)
    assert found.margin < plan(epsilon=1, users=50_000, fakes=0).margin


# from the shell


def test_convert_tells_what_a_local_epsilon_is_worth(cli):
    code, out, _ = cli("convert", "--shuffle", 10_000, "--epsilon", 1, "--delta", "1e-6")
    assert code == 0
    assert out.splitlines() == [
        "Central, behind a trusted shuffler: epsilon 0.0432062, delta 0.000001, for whoever sees only a shuffled batch "
        "of 10,000 honest reports of epsilon 1 each; against the shuffler, or without one: epsilon 1.",
        "No analysis of all such mechanisms gets below 0.0379979.",
    ]
    words = "convert --shuffle 10000 --epsilon 1 --delta 1e-6 --mechanism krr --symbols 64 --json -"
    code, out, _ = cli(*words.split())
    told = json.loads(out)
    names = "epsilon delta users local_epsilon mechanism bound lower_bound adjacency fakes trust"
    assert set(names.split()) <= set(told)
    assert (told["bound"], told["mechanism"], told["symbols"]) == ("law", "krr", 64)
    words = words.replace("krr --symbols 64 --json -", "any --rounds 4 --fakes 10")
    code, out, _ = cli(*words.split())
    assert "only 4 shuffled batches of 9,990 honest reports" in out


def test_convert_goes_the_way_back(cli):
    code, out, _ = cli(*["convert", "--shuffle", "100000", "--central-epsilon", ".25", "--delta", "1e-6"])
    assert code == 0
    assert out.startswith("A local epsilon of 5.35208 suffices for 0.25.\nCentral, behind a trusted shuffler: ")


def test_a_plan_finds_the_local_epsilon_first(cli):
    words = "learn plan --users 100000 --shuffled --central-epsilon .25 --delta 1e-6 --fakes 100"
    code, out, _ = cli(*words.split())
    assert code == 0
    first, powers, central, *_ = out.splitlines()
    assert first.startswith("With 100,000 users at epsilon 5.35109 per record, a cell of margin 0.011996")
    assert powers.startswith("By power: margin ")
    assert "batch of 99,900 honest reports of epsilon 5.35109 each" in central
    code, out, _ = cli(*words.split(), "--json", "-")
    told = json.loads(out)
    assert told["epsilon"] == told["central"]["local_epsilon"] == 5.35109
    assert told["central"]["epsilon"] <= 0.25


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("convert --epsilon 1", "--shuffle is missing"),
        ("convert --shuffle 10 --epsilon 1", "--delta is missing: shuffling amplifies no pure guarantee"),
        ("convert --shuffle 10 --delta .01", "give one of --epsilon and --central-epsilon"),
        ("convert --shuffle 10 --mi 1 --delta .01", "--shuffle stands alone"),
        ("convert --shuffle 10 --central-epsilon 60 --delta .01", "epsilon must be below 60"),
        ("convert --shuffle 10 --central-epsilon .1 --delta .01 --rounds 2", "--rounds is for --epsilon"),
        ("convert --shuffle 1 --epsilon 1 --delta .01", "one report hides among none"),
        ("convert --shuffle 9 --epsilon nan --delta .01", "local must be positive and finite"),
        ("convert --shuffle 9 --epsilon 1 --delta .01 --mechanism krr", "symbols is missing"),
        ("convert --shuffle 9 --epsilon 1 --delta .01 --mechanism pm", "mechanism must be one of any, krr"),
        ("convert", "give exactly one of --mi, --posterior, --dp-epsilon and --shuffle"),
        ("learn plan --users 99 --shuffled --central-epsilon 1", "--delta is missing"),
        ("learn plan --users 99 --shuffled --delta .001", "--shuffled needs --users and --central-epsilon"),
        ("learn plan --users 99 --central-epsilon 1 --margin .1", "add --shuffled"),
        ("learn plan --users 99 --shuffled --central-epsilon 1 --delta .001 --epsilon 1", "not --epsilon"),
        ("learn plan --users 99 --shuffled --central-epsilon 1 --delta .001 --margin .1", "the margin is found"),
        ("learn plan --users 99 --shuffled --central-epsilon 1 --delta .001 --mechanism krr", "m is missing"),
        ("learn plan --users 99 --shuffled --central-epsilon 1 --delta 2", "delta must lie strictly between"),
    ],
)
@pytest.mark.cases(9)
def test_wrong_questions_end_in_one_sentence(cli, line, words):
    code, out, err = cli(*line.split())
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
