"""The learner of real tables: exact laws of reports, sums, rounds; what its formulas are compared with."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_worlds import best, columns, config, rows

from epsworth.client.kernels import exp_below
from epsworth.learner import (
    Aggregator,
    AuditedClassifier,
    Category,
    Client,
    Number,
    Round,
    ScoreAudit,
    TableConfig,
    TableLearner,
    assigned_rounds,
    assigned_rows,
    simulate,
)
from epsworth.learner.coins import WORD
from epsworth.learner.config import load_config
from epsworth.learner.encoding import sequency, signs, walsh
from epsworth.learner.tables.columns import EVEN, FINE, Records, bins_of, table_rows
from epsworth.learner.tables.config import planned
from epsworth.learner.tables.estimates import evened, kappa, knots, shrink, tree
from epsworth.learner.tables.learner import learn_table
from epsworth.mechanisms.words import ReplayableWords

GIVEN = json.loads((Path(__file__).parents[1] / "reference/learner_tables.json").read_text())


def closed(asked_config, X, y, *, source=0):
    """Return the learner of rounds that are all closed, from simulated reports, and its rounds."""
    learner, found = TableLearner(asked_config), []
    while (asked := learner.open()) is not None:
        found.append(asked)
        learner.close(simulate(asked, X, y, source + len(found), users=asked.users))
    return learner, found


@pytest.mark.parametrize("row", GIVEN["regimes"], ids=lambda row: f"{row['users']}-{row['features']}")
def test_regimes_are_those_of_the_reference(row):
    found = planned(row["users"], row["features"], row["classes"], math.tanh(row["alpha"] / 2))
    shares = [float(getattr(found, name)) for name in ("quantiles", "weights", "validation")]
    assert (found.regime, found.orders, shares) == (
        row["regime"], row["orders"], [row["quantiles"], row["weights"], row["validation"]],
    )  # fmt: skip
    assert found.tables + found.quantiles + found.weights + found.validation == 1


def test_formulas_meet_the_reference():
    assert walsh(8).tolist() == GIVEN["walsh8_sequency"]
    told = GIVEN["shrink"]
    assert np.abs(shrink(np.array(told["v"]), np.array(told["variance"])) - told["result"]).max() <= told["tolerance"]
    told = GIVEN["knots"]
    assert np.abs(evened(np.array(told["masses"])) - told["result"]).max() <= told["tolerance"]
    told = GIVEN["ramp"]
    assert np.abs(kappa(np.array(told["masses"])) - told["kappa"]).max() <= told["tolerance"]
    weights = table_rows([Number("x", 0, 1)], 4, 7, steep=False)
    assert weights.weight[weights.column == 0][::4].tolist() == GIVEN["order_weights"]


def test_signs_are_those_of_the_reference():
    told = GIVEN["signs"]
    for bins, label, values in zip(told["bins"], told["labels"], told["values"], strict=True):
        for (column, order, character), value in zip(told["rows"], values, strict=True):
            mask, own = (sequency(order, 3), bins[column]) if column >= 0 else (0, 0)
            assert signs(*map(np.array, ([mask], [character], [own], [label]))).tolist() == [value]


@pytest.mark.parametrize("epsilon", [0.3, 1, 4, 50])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.cases(1)
def test_no_message_tells_more_than_epsilon(epsilon, classes):
    """All messages of all records, missing values and undeclared labels included, as integer weights."""
    own = [Number("x", 0, 1, missing=True), Category("job", ("a", "b", "c"))]
    for regime in ("additive",) if classes == 3 else ("additive", "linear", "ramp", "weighted"):
        asked_config = TableConfig(own, range(classes), epsilon, 10**6, rounds=regime)
        for asked in closed(asked_config, *small(classes))[1]:
            places = [(p << 29, k) for p, k in itertools.product(range(8), (True, False))]
            records = [(p, j) for p in places for j in [(0, True), (1, True), (2, True), (0, False)]]
            users = Records(
                np.array([[p[0], j[0]] for p, j in records for _ in range(-1, classes)]),
                np.array([[p[1], j[1]] for p, j in records for _ in range(-1, classes)]),
                np.array([y for _ in records for y in range(-1, classes)]),
            )
            kernel, bound, flip = asked.kernel, exp_below(Fraction(str(epsilon))), asked.kernel.flip
            assert Fraction(WORD - flip, flip) <= bound
            worst = Fraction(0)
            for row in range(len(kernel.weights)):
                told = kernel.bit_weights(kernel.values(users, np.full(len(users.label), row)))
                low, high = int(told.min()), int(told.max())
                worst = max(worst, Fraction(high, low), Fraction(WORD - low, WORD - high))
            assert worst <= Fraction(WORD - flip, flip)
            if asked.purpose in ("quantiles", "tables"):
                assert worst == Fraction(WORD - flip, flip)


def small(classes):
    rng = np.random.default_rng(1)
    y = rng.integers(classes, size=400)
    table = np.empty((400, 2), dtype=object)
    table[:, 0], table[:, 1] = (0.8 * rng.random(400) + 0.2 * (y > 0)), np.array(["a", "b", "c"])[y % 3]
    return table, y


@pytest.mark.parametrize(("regime", "missing"), [("weighted", 0.1), ("ramp", 0.0), ("additive", 0.2)])
@pytest.mark.slow
def test_reports_have_the_law_of_the_simulation(regime, missing):
    """Row counts and leads of 40,000 reports within five standard errors; false-alarm rate 1e-4 per round."""
    X, y = rows(40_000, missing=missing)
    asked_config = config(rounds=regime, missing=missing > 0, epsilon=2)
    for number, asked in enumerate(closed(asked_config, X, y)[1]):
        kernel, records, n = asked.kernel, asked.admitted(X, y), len(y)
        found = kernel.tally(kernel.draw(records, ReplayableWords(number))).counts
        sent, lead = found.sum(axis=1), found[:, 1] - found[:, 0]
        expected, mean = n * kernel.shares, kernel.contrast * kernel.means(records)
        assert (np.abs(sent - expected) <= 5 * np.sqrt(expected)).all()
        assert (np.abs(lead - sent * mean) <= 5 * np.sqrt(np.maximum(sent, 1))).all()
        per_user = kernel.simulate(records, np.random.default_rng(number)).counts  # one draw per user
        assert (np.abs(per_user.sum(axis=1) - expected) <= 5 * np.sqrt(expected)).all()
        assert np.abs((per_user[:, 1] - per_user[:, 0]) - expected * mean).max() <= 6 * np.sqrt(expected.max())


@given(st.data())
def test_means_are_those_of_every_user(data):
    """The means by tables of bins and labels are the averages of what each user's rows say."""
    classes = data.draw(st.integers(2, 5))
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    own = [Number("x", 0, 1, missing=True), Category("job", tuple("abcde")), Number("z", -1, 1)]
    asked = Round(TableConfig(own, range(classes), 1, 10**6, rounds="additive"), "tables")
    n = 37
    records = Records(
        np.column_stack([rng.integers(2**32, size=n), rng.integers(5, size=n), rng.integers(2**32, size=n)]),
        rng.random((n, 3)) < 0.8, rng.integers(-1, classes, size=n),
    )  # fmt: skip
    kernel = asked.kernel
    each = [kernel.values(records, np.full(n, row)).mean() for row in range(len(kernel.weights))]
    assert np.allclose(kernel.means(records), each, atol=1e-12)


def test_a_client_never_refuses_a_record():
    asked = Round(config(), "tables")
    client = Client(asked)

    class Odd:
        def __float__(self):
            raise RuntimeError("private")

        def __eq__(self, other):
            raise RuntimeError("private")

        __hash__ = None

    for value in (None, float("nan"), float("inf"), -1e308, "text", Odd(), [], b"\0", 10**400, np.nan):
        for place in range(5):
            record = [50.0, 1.0, 170.0, "nurse", 1]
            record[place] = value
            assert len(client.report(record, "yes")) == asked.report_size
            assert len(client.report(record, value)) == asked.report_size
    with pytest.raises(ValueError, match="X must have 5 values in every row"):
        client.report([1.0, 2.0], "yes")


def test_a_frame_is_read_as_its_rows_are():
    X, y = rows(500, missing=0.2)
    frame = pl.DataFrame({column.name: [row[j] for row in X] for j, column in enumerate(columns())}, strict=False)
    asked = Round(config(missing=True), "tables")
    for one, other in zip(asked.admitted(X, y), asked.admitted(frame, pl.Series(y)), strict=True):
        assert (one == other).all()
    for one, other in zip(asked.admitted(X, y), asked.admitted(frame.to_pandas(), y), strict=True):
        assert (one == other).all()
    with pytest.raises(ValueError, match="X has the columns dose, age, "):
        asked.admitted(frame.select("dose", "age", "height", "job", "sex"), y)


def test_experiments_name_rows_that_are_not_declared():
    X, y = rows(20, missing=0.9)
    with pytest.raises(ValueError, match=r"^row \d+, dose: the value is missing or not declared"):
        simulate(Round(config(), "tables"), X, y, 0)
    with pytest.raises(ValueError, match=r"^row 3: its label is not one of the declared classes \('no', 'yes'\)"):
        simulate(Round(config(missing=True), "tables"), X, [*y[:3], "king", *y[4:]], 0)


def test_sums_merge_bit_by_bit_and_belong_to_their_round(tmp_path):
    X, y = rows(3000)
    asked = Round(config(), "tables", tuple(EVEN if isinstance(c, Number) else None for c in columns()))
    client, here, there, whole = Client(asked), Aggregator(asked), Aggregator(asked), Aggregator(asked)
    first, second = client.reports(X[:1000], y[:1000]), client.reports(X[1000:], y[1000:])
    here.add(first), there.add(second), whole.add(second + first)
    assert here.merge(there) == whole == Aggregator.from_state(whole.state())
    asked.save(tmp_path / "round.json")
    again = load_config(tmp_path / "round.json")
    assert isinstance(again, Round)
    assert again.fingerprint() == asked.fingerprint()
    other = Round(config(), "tables")  # other knots: another question
    with pytest.raises(ValueError, match="its fingerprint is not"):
        Aggregator(other).add(first)
    with pytest.raises(ValueError, match="sums of another round"):
        TableLearner(config()).close(whole)


def test_rounds_read_themselves_again(tmp_path):
    X, y = rows(3000)
    for number, asked in enumerate(closed(config(10**6), X, y)[1]):
        asked.save(tmp_path / f"{number}.json")
        again = Round.load(tmp_path / f"{number}.json")
        assert (again.to_dict(), again.fingerprint()) == (asked.to_dict(), asked.fingerprint())
        assert again.purpose == ("quantiles", "tables", "weights", "validation")[number]
        document = json.loads((tmp_path / f"{number}.json").read_text())
        for name in set(document) - {"fingerprint", "format"}:
            for junk in (None, 3, "x", [], {}, [[None]]):
                (tmp_path / "junk.json").write_text(json.dumps(document | {name: junk}))
                with pytest.raises(ValueError) as refused:  # noqa: PT011  # any sentence
                    Round.load(tmp_path / "junk.json")
                assert "\n" not in str(refused.value)


def test_bins_follow_knots_in_integers():
    rng = np.random.default_rng(0)
    for mass in (np.ones(FINE), rng.dirichlet(np.ones(FINE)), rng.dirichlet(np.full(FINE, 0.05))):
        own = knots(mass)
        assert own[0] == 0
        assert own[-1] == 1 << 32
        place = rng.integers(1 << 32, size=2000)
        image = np.interp(place / 2.0**32, np.arange(FINE + 1) / FINE, np.array(own) / 2.0**32)
        exact = [
            min(
                int(
                    8
                    * (Fraction(own[p >> 27]) + Fraction(p & (2**27 - 1), 2**27) * (own[(p >> 27) + 1] - own[p >> 27]))
                    / 2**32
                ),
                7,
            )
            for p in place.tolist()
        ]
        assert bins_of(place, own).tolist() == exact
        assert np.abs(np.floor(8 * image) - exact).max() <= 1
    assert (np.diff(bins_of(np.arange(0, 1 << 32, 1 << 20), knots(rng.dirichlet(np.ones(FINE))))) >= 0).all()


def test_the_tree_finds_masses_without_noise():
    mass = np.random.default_rng(3).dirichlet(np.full(FINE, 5.0))
    asked = Round(TableConfig([Number("x", 0, 1)], (0, 1), 1, 10**6, rounds="additive"), "quantiles")
    place = (np.arange(FINE) << 27)[:, None]
    records = Records(np.repeat(place, 1, axis=1), np.ones((FINE, 1), dtype=bool), np.zeros(FINE, dtype=np.int64))
    sent = np.stack([asked.kernel.values(records, np.full(FINE, row)) for row in range(31)])
    assert np.allclose(tree((sent @ mass)[None], np.zeros((1, 31)))[0], mass, atol=1e-12)


def test_what_is_learnt_is_true_without_noise():
    """A huge number of users at a huge epsilon: naive Bayes with weights is close to the best."""
    X, y = rows(20_000, seed=1)
    model = learn_table(config(10**9, epsilon=20), X, y, 0, users=10**9)
    fresh, truth = rows(20_000, seed=2)
    assert np.mean(model.predict(fresh) == truth) > np.mean(best(fresh) == truth) - 0.025  # eight bins, floored


@pytest.mark.slow
def test_missing_values_do_not_bias_and_tell_what_they_tell():
    X, y = rows(40_000, seed=1, missing=0.25)
    model = learn_table(config(10**8, epsilon=5, missing=True), X, y, 0, users=10**8)
    fresh, truth = rows(20_000, seed=2, missing=0.25)
    whole, _ = rows(20_000, seed=2)
    assert np.mean(model.predict(fresh) == truth) > np.mean(best(whole) == truth) - 0.035  # a fourth lacks the dose
    gone = np.array([value is None for value in fresh[:, 1]])
    score = model.decision_function(fresh[gone]) - model.decision_function(whole[gone])
    assert score.mean() > 0.2  # yes is likelier where it is missing, and a dose speaks against it on average less


@pytest.mark.slow
def test_more_users_never_make_it_worse():
    """Means of 12 seeds; differences of .01 and less are noise of so few."""
    X, y = rows(30_000, seed=1)
    fresh, truth = rows(20_000, seed=2)
    found = [
        np.mean(
            [np.mean(learn_table(config(users), X, y, seed, users=users).predict(fresh) == truth) for seed in range(12)]
        )
        for users in (3000, 10_000, 30_000, 100_000, 1_000_000)
    ]
    assert (np.diff(found) > -0.01).all()
    assert found[-1] > np.mean(best(fresh) == truth) - 0.025  # eight bins, floored


@pytest.mark.parametrize("regime", ["linear", "ramp", "weighted", "additive"])
@pytest.mark.slow
def test_real_reports_learn_what_simulated_sums_do(regime):
    X, y = rows(24_000, seed=3)
    fresh, truth = rows(5000, seed=4)
    learner, start = TableLearner(config(24_000, epsilon=4, rounds=regime)), 0
    while (asked := learner.open()) is not None:
        sums, stop = Aggregator(asked), start + asked.users
        sums.add(Client(asked).reports(X[start:stop], y[start:stop]))
        learner.close(sums)
        start = stop
    assert start <= 24_000
    sent = np.mean(learner.classifier().predict(fresh) == truth)
    drawn = [
        np.mean(learn_table(config(24_000, epsilon=4, rounds=regime), X, y, s, users=24_000).predict(fresh) == truth)
        for s in range(8)
    ]
    assert abs(sent - np.mean(drawn)) < 0.02 + 4 * np.std(drawn)
    assert sent > 0.78


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"columns": []}, "columns must be a list of Number and Category, got []"),
        ({"columns": [Number("a", 0, 1), Number("a", 0, 2)]}, "columns: the name 'a' stands twice"),
        ({"columns": [3]}, "columns must be Number and Category, got 3"),
        ({"classes": [1]}, "classes must be at least two different labels"),
        ({"epsilon": 0}, "epsilon"),
        ({"users": 0}, "users must be a whole number of at least 1, got 0"),
        ({"users": 1.5}, "users must be a whole number of at least 1, got 1.5"),
        ({"rounds": "some"}, "rounds must be auto or one of additive, linear, ramp, weighted, got 'some'"),
        ({"rounds": "ramp", "classes": (0, 1, 2)}, "rounds='ramp' knows two classes, got 3; use additive"),
        ({"prior": "some"}, "prior must be one of estimated, balanced, got 'some'"),
    ],
)
def test_what_a_configuration_cannot_mean_is_refused(asked, told):
    good = {"columns": columns(), "classes": (0, 1), "epsilon": 1, "users": 1000}
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # looked at below
        TableConfig(**(good | asked))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Number("", 0, 1), lambda: Number("a", 1, 1), lambda: Number("a", 0, math.inf), lambda: Number(3, 0, 1),
        lambda: Number("a", "0", 1), lambda: Category("a", ("x",)), lambda: Category("a", ("x", "x")),
        lambda: Category("a", range(1000)), lambda: Number("a", 0, 1, missing=1), lambda: Category("a", "xy"),
    ],
)  # fmt: skip
def test_what_is_no_column_is_refused(make):
    with pytest.raises(ValueError, match=r"^(a column's name|column '?)"):
        make()


def test_a_configuration_reads_itself_again(tmp_path):
    made = config(missing=True)
    made.save(tmp_path / "c.json")
    assert TableConfig.load(tmp_path / "c.json") == made
    document = json.loads((tmp_path / "c.json").read_text())
    for damage in ({"users": 5}, {"format": "x"}, {"more": 1}, {"columns": [{"name": "a"}]}, {"columns": 3}):
        (tmp_path / "c.json").write_text(json.dumps(document | damage))
        with pytest.raises(ValueError, match=r"c\.json: "):
            TableConfig.load(tmp_path / "c.json")


def test_the_balanced_prior_raises_the_rarer_label():
    X, y = rows(30_000, seed=1)
    keep = (y == "no") | (np.random.default_rng(0).random(len(y)) < 0.1)
    X, y = X[keep], y[keep]
    plain = learn_table(config(10**7, epsilon=4), X, y, 0, users=10**7).predict(X)
    even = learn_table(config(10**7, epsilon=4, prior="balanced"), X, y, 0, users=10**7).predict(X)

    def balanced(found):
        return np.mean([np.mean(found[y == label] == label) for label in ("no", "yes")])

    assert balanced(even) > balanced(plain) + 0.03
    assert np.mean(plain == y) > np.mean(even == y)


@pytest.fixture(scope="module")
def published():
    X, y = rows(30_000, seed=1)
    return learn_table(config(100_000, epsilon=2), X, y, 0, users=100_000)


@pytest.mark.slow
def test_an_audit_is_wrong_no_more_often_than_it_may_be(published):
    """300 audits of a world without any signal at 90 %: at most 30 wrong, plus four standard errors; rate 3e-5.

    Labels are coins, except for one more of the other label in a hundred, so that every certificate of the commoner
    label in the whole is right, and every one of the other label is wrong.
    """
    X, _ = rows(2000, seed=5)
    y = np.where(np.arange(2000) % 100 < 51, "no", "yes")
    audit, wrong = ScoreAudit.of(published), 0
    truth = {}
    band = AuditedClassifier(simulate(audit, X, y, 0)).certificate(X, fakes=0).cell
    for one in np.unique(band):
        truth[one] = "no" if (y[band == one] == "no").mean() > 0.5 else "yes"
    own = np.array([truth[one] for one in band])
    even = {one for one in truth if (y[band == one] == "no").mean() == 0.5}
    for seed in range(300):
        sure = AuditedClassifier(simulate(audit, X, y, seed, users=4000)).certificate(X, confidence=0.9, fakes=0)
        wrong += bool((sure.certified & (sure.label != own) & ~np.isin(band, list(even))).any())
    assert wrong <= 30 + 4 * np.sqrt(300 * 0.1 * 0.9)


def test_an_audit_certifies_clear_scores_and_orders_probabilities(published):
    X, y = rows(20_000, seed=6)
    audit = ScoreAudit.of(published)
    sums = Aggregator(audit)
    sums.add(Client(audit).reports(X, y))
    found = AuditedClassifier(sums)
    sure = found.certificate(X, fakes=0)
    assert sure.certified.mean() > 0.5
    assert (sure.label[sure.certified] == published.predict(X)[sure.certified]).mean() > 0.9
    told = AuditedClassifier(simulate(ScoreAudit.of(published, "probabilities"), X, y, 1, users=10**6))
    chance = told.predict_proba(X)
    assert np.allclose(chance.sum(axis=1), 1)
    order = np.argsort(published.decision_function(X))
    assert (np.diff(chance[order, 1]) >= 0).all()
    assert abs(chance[:, 1].mean() - np.mean(y == "yes")) < 0.02
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        inside = (chance[:, 1] >= low) & (chance[:, 1] < high + 1e-9)
        assert abs(np.mean(y[inside] == "yes") - chance[inside, 1].mean()) < 0.06
    with pytest.raises(ValueError, match="audit with about='probabilities'"):
        found.predict_proba(X)
    with pytest.raises(ValueError, match="no sums of an audit"):
        AuditedClassifier(Aggregator(audit.bands, sums.tally))
    assert (np.ma.getmaskarray(found.abstain(X, fakes=0)) == ~sure.certified).all()


def test_scores_of_a_table_have_no_certificate(published):
    with pytest.raises(ValueError, match="no certificate covers them"):
        published.certificate([[50.0, 1.0, 170.0, "nurse", 1]], fakes=0)


def test_a_session_goes_on_from_its_file(tmp_path):
    X, y = rows(20_000)
    learner = TableLearner(config(10**6))
    (tmp_path / "0.json").write_text("")
    learner.config.save(tmp_path / "0.json")
    for number in range(4):
        again = TableLearner.load(tmp_path / f"{number}.json")
        asked = learner.open()
        assert again.open().to_dict() == asked.to_dict()
        sums = simulate(asked, X, y, number, users=asked.users)
        learner.close(sums), again.close(sums)
        again.save(tmp_path / f"{number + 1}.json")
    assert learner.open() is None
    found = TableLearner.load(tmp_path / "4.json").classifier()
    assert (found.predict(X) == learner.classifier().predict(X)).all()
    with pytest.raises(ValueError, match="all rounds are closed"):
        learner.close(sums)
    document = json.loads((tmp_path / "4.json").read_text())
    for damage in (
        {"closed": document["closed"][1:]}, {"closed": document["closed"][::-1]}, {"closed": 3}, {"config": {}},
        {"closed": [document["closed"][0] | {"counts": [[1, 2]]}]},
        {"closed": [document["closed"][0] | {"counts": [[-1, 2]] * 93}]},
    ):  # fmt: skip
        (tmp_path / "bad.json").write_text(json.dumps(document | damage))
        with pytest.raises(ValueError, match=r"bad\.json: "):
            TableLearner.load(tmp_path / "bad.json")


@pytest.mark.slow
def test_rows_by_hash_are_what_users_answer():
    """Rounds and rows of 20,000 ids in their proportions within five standard errors, and no other is taken."""
    X, y = rows(20_000, seed=7)
    asked_config = config(20_000, epsilon=4, rounds="weighted", rows="hash")
    ids = [f"user {number}" for number in range(len(y))]
    answers = np.array(assigned_rounds(asked_config, ids, "seed"))
    learner = TableLearner(asked_config)
    while (asked := learner.open()) is not None:
        mine = np.flatnonzero(answers == asked.purpose)
        share = next(float(one.share) for one in asked_config.shares if one.purpose == asked.purpose)
        assert abs(mine.size - share * len(y)) < 5 * np.sqrt(len(y) * share)
        own = [ids[one] for one in mine]
        assigned, sums = assigned_rows(asked, own, "seed"), Aggregator(asked)
        reports = Client(asked).reports(X[mine], y[mine], rows=assigned)
        with pytest.raises(ValueError, match="report 0: it is about row"):
            sums.add(Client(asked).reports(X[mine], y[mine], rows=np.roll(assigned, 1) + 0), users=own, seed="seed")
        assert sums.add(reports, users=own, seed="seed") == mine.size
        with pytest.raises(ValueError, match="number 0 reported before"):
            sums.add(reports, users=own, seed="seed")
        other = [ids[one] for one in np.flatnonzero(answers != asked.purpose)[:1]]
        with pytest.raises(ValueError, match="users: number 0 answers the round of"):
            assigned_rows(asked, other, "seed")
        sent, expected = sums.tally.counts.sum(axis=1), mine.size * asked.kernel.shares
        assert (np.abs(sent - expected) < 5 * np.sqrt(expected) + 1).all()
        learner.close(sums)
    assert np.mean(learner.classifier().predict(X) == y) > 0.77
    with pytest.raises(ValueError, match="rows are missing: with rows='hash'"):
        Client(asked_round := TableLearner(asked_config).open()).report(X[0], y[0])
    assert asked_round.rows == "hash"
