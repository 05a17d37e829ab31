"""Sessions of a table: what may be closed with what, changed files, fakes that are seen, slips of newcomers."""

from __future__ import annotations

import copy
import json
import warnings

import numpy as np
import pytest
from table_worlds import config, rows

from epsworth.learner import (
    Aggregator,
    Category,
    Client,
    LDPClassifier,
    Number,
    Round,
    TableConfig,
    TableLearner,
    assigned_rounds,
    assigned_rows,
    learn_table,
    simulate,
)
from epsworth.learner.config import load_config
from epsworth.learner.mechanism import Tally


def opened(**given):
    """Return a session whose first round is closed, from simulated reports."""
    X, y = rows(2000)
    learner = TableLearner(config(**given))
    learner.close(simulate(learner.open(), X, y, 0, users=20_000))
    return learner, X, y


def test_two_seeds_do_not_enter_one_session():
    table = config(2000, rows="hash", rounds="ramp")
    learner, ids = TableLearner(table), [str(number) for number in range(300)]
    X, y = rows(300)

    def answered(seed):
        asked = learner.open()
        who = [i for i, purpose in enumerate(assigned_rounds(table, ids, seed)) if purpose == asked.purpose]
        names = [ids[i] for i in who]
        sums = Aggregator(asked)
        sums.add(Client(asked).reports(X[who], y[who], rows=assigned_rows(asked, names, seed)), users=names, seed=seed)
        return sums

    learner.close(answered("one"))
    other = answered("another")
    with pytest.raises(ValueError, match="another public seed"):
        learner.close(other)
    again = TableLearner.from_dict(json.loads(json.dumps(learner.to_dict())))
    with pytest.raises(ValueError, match="another public seed"):
        again.close(other)
    learner.close(answered("one"))
    assert learner.open() is None


@pytest.mark.parametrize("share", [0.01, 0.03])
def test_fakes_that_name_one_row_are_seen(share):
    """False-alarm rate 1e-6 per round."""
    learner, X, y = opened()
    asked = learner.open()
    sums = simulate(asked, X, y, 1, users=60_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.deepcopy(learner).close(sums)
    counts = sums.tally.counts.copy()
    counts[3, 1] += int(share * 60_000)
    with pytest.warns(UserWarning, match=r"row 3 \(age, order 2, character 0 of the label\) is named by"):
        learner.close(Aggregator(asked, Tally(counts, np.array([counts.sum()]))))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d["closed"][0]["counts"][0].__setitem__(0, -5), "contradict each other"),
        (lambda d: d.update(closed={}), "closed must be a list of rounds"),
        (lambda d: d["config"].update(users=7), "one of another configuration"),
    ],
)
def test_a_changed_session_is_refused(tmp_path, change, told):
    learner, *_ = opened()
    path = tmp_path / "session.json"
    learner.save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=told) as refused:
        TableLearner.load(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.update(scores={}), "scores must be tables of two columns or more"),
        (lambda d: d.update(scores={"0": [0] * 8, "99": [0] * 8}), "scores must be tables"),
        (lambda d: d.update(scores={"0": [0] * 8, "1": ["a"] * 8}), "scores must be whole numbers"),
        (lambda d: d.update(knots=[None]), "knots must be a list of 5"),
        (lambda d: d.update(knots=7), "knots must be a list of 5"),
        (lambda d: d.update(purpose="validation"), "purpose must be one of"),
        (lambda d: d.update(candidates=[1]), "candidates must be two"),
        (lambda d: d.update(more=1), "'more': unknown entry"),
        (lambda d: d.pop("purpose"), "purpose: is missing"),
        (lambda d: d.pop("fingerprint"), "fingerprint is missing"),
        (lambda d: d["knots"][0].__setitem__(3, d["knots"][0][3] + 1), "not the content's"),
    ],
)
def test_a_changed_round_is_refused(tmp_path, change, told):
    X, y = rows(2000)
    learner = TableLearner(config(10_000, epsilon=4, rounds="weighted"))
    while (asked := learner.open()).purpose != "weights":
        learner.close(simulate(asked, X, y, 0, users=5000))
    asked.save(tmp_path / "round.json")
    document = json.loads((tmp_path / "round.json").read_text())
    change(document)
    (tmp_path / "round.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=told) as refused:
        Round.load(tmp_path / "round.json")
    assert "\n" not in str(refused.value)


def test_slips_of_newcomers_are_told_what_to_do(tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = config(1000)
    table.save("c.json")
    TableLearner(table).open().save("r.json")
    with pytest.raises(ValueError, match="epsworth learn open"):
        load_config("c.json")
    for wrong in (Client, Aggregator):
        with pytest.raises(ValueError, match="epsworth learn open"):
            wrong(table)
        with pytest.raises(ValueError, match="must be a LatticeConfig, a Round or a ScoreAudit"):
            wrong(7)
    with pytest.raises(ValueError, match="must be a TableConfig"):
        TableLearner(TableLearner(table).open())
    with pytest.raises(ValueError, match="must be an Aggregator"):
        TableLearner(table).close(None)
    for words, told in (
        ("learn report c.json t.csv r.ldp --target y", "epsworth learn open"),
        ("learn open r.json x.json", "this is a round, which clients get"),
    ):
        status, _, err = cli(*words.split())
        assert (status, err.count("\n")) == (2, 1)
        assert told in err


def test_tables_beyond_all_rows_are_refused():
    many = tuple(str(number) for number in range(200))
    with pytest.raises(ValueError, match="more than 1,000,000 rows"):
        TableConfig([Category(f"c{j}", many) for j in range(20)], range(400), 1, 1000)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mechanism": "bogus"}, "mechanism='bogus' is for cells"),
        ({"mechanism": "hadamard", "m": 3}, "mechanism='hadamard' is for cells"),
        ({"outside": "refuse"}, "outside='refuse' is for cells"),
        ({"m": 3}, "m=3 is for cells"),
    ],
)
def test_the_estimator_ignores_nothing(given, told):
    X, y = rows(200)
    numbers = np.random.default_rng(0).random((200, 5))
    with pytest.raises(ValueError, match=told):
        LDPClassifier(1, config().columns, **given).fit(X, y)
    if given == {"outside": "refuse"}:
        with pytest.raises(ValueError, match="is for cells; a table moves"):
            LDPClassifier(1, (0, 1), **given).fit(numbers, y)
    import pandas as pd

    frame = pd.DataFrame(X, columns=[column.name for column in config().columns][::-1])
    with pytest.raises(ValueError, match="but bounds declare"):
        LDPClassifier(1, config().columns).fit(frame, y)


def missing_world(n, seed=0):
    """Six columns; that the first one is missing says most of the label, its values nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 6))
    X[:, 1:3] += 0.4 * (2 * y[:, None] - 1)
    X[rng.random(n) < np.where(y == 1, 0.8, 0.2), 0] = np.nan
    return X, y


@pytest.mark.parametrize("rounds", ["ramp", "weighted"])
def test_what_being_missing_says_is_kept_by_every_plan(rounds):
    """Means of six runs: .79 and more; without what is missing .73, at best."""
    X, y = missing_world(20_000)
    columns = [Number(f"x{j}", -4, 4, missing=j == 0) for j in range(6)]
    table = TableConfig(columns, (0, 1), 1, 100_000, rounds=rounds)
    found = [np.mean(learn_table(table, X, y, seed, users=100_000).predict(X) == y) for seed in range(6)]
    assert np.mean(found) > 0.78
    assert min(found) > 0.75


@pytest.mark.slow
def test_more_users_cost_little_where_the_plan_changes():
    """A sparse world of 20 columns, eight runs each, standard errors .003: a ramp, and weights from 546,000 on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 20))
    y = (rng.random(40_000) < 1 / (1 + np.exp(-X[:, :4] @ np.array([1.5, -1.5, 1, 1])))).astype(int)
    scores = []
    for users, rounds in ((545_000, "ramp"), (560_000, "weighted")):
        table = TableConfig([Number(f"x{j}", -4, 4) for j in range(20)], (0, 1), 1, users)
        assert table.rounds == rounds
        runs = [learn_table(table, X[:20_000], y[:20_000], seed, users=users) for seed in range(8)]
        scores.append(np.mean([(run.predict(X[20_000:]) == y[20_000:]).mean() for run in runs]))
    assert scores[1] > scores[0] - 0.015


def test_few_answers_about_labels_do_not_outvote_the_columns():
    """Thirty columns and 3,000 users: two dozen of them say which label is commoner."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=5000)
    X = rng.normal(size=(5000, 30)) + (2 * y[:, None] - 1) * 0.6
    table = TableConfig([Number(f"x{j}", -4, 4) for j in range(30)], (0, 1), 1, 3000)
    assert np.mean([np.mean(learn_table(table, X, y, seed, users=3000).predict(X) == y) for seed in range(12)]) > 0.75


def test_a_copy_of_sums_has_ids_of_its_own():
    table = config(2000, rows="hash", rounds="linear")
    asked, ids = TableLearner(table).open(), ["a", "b"]
    X, y = rows(2)

    def add(sums, name):
        own = assigned_rows(asked, [name], "a seed")
        return sums.add(Client(asked).reports(X[:1], y[:1], rows=own), users=[name], seed="a seed")

    sums = Aggregator(asked)
    add(sums, ids[0])
    other = copy.copy(sums)
    add(other, ids[1])
    assert (sums.users, other.users) == (1, 2)
    assert Aggregator.from_state(sums.state()) == sums
