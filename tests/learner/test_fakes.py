"""Fakes: a declared bound on their number is allowed for, whatever they say; an undeclared one costs the promise."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import MISSING, fields
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy import stats

from epsworth.learner import (
    Aggregator,
    AuditedClassifier,
    Certificates,
    Classifier,
    Holder,
    LatticeConfig,
    LDPClassifier,
    Plan,
    plan,
    simulate,
)
from epsworth.learner.fakes import HONEST
from epsworth.learner.figures import plot_map, told_of
from epsworth.learner.mechanism import Tally, times
from epsworth.learner.planning import central_of
from epsworth.learner.tails import Ballot, critical, sign_power, sign_test
from epsworth.learner.wire import pack
from epsworth.mechanisms.words import ReplayableWords

UNIT = LatticeConfig(box=(0, 1), m=8, mechanism="hadamard", epsilon=1)


def p_values(kernel, tally, best, fakes=0):
    """Return, per cell, a p-value for "``best`` has more mass in it than every other label": any of them might."""
    return times(kernel.classes - 1, kernel.against(tally, best, fakes))


def learnt(config=UNIT, users=10_000, seed=0):
    x = (np.arange(400) + 0.5) / 400
    labels = np.array(config.classes)[(x * len(config.classes)).astype(int)]
    return Classifier.from_aggregate(simulate(config, x[:, None], labels, seed, users=users), None)


@pytest.mark.slow
def test_whatever_fakes_send_the_declared_p_value_is_not_below_the_honest_one():
    """Every outcome of up to 14 votes, and every way to replace, add or withhold up to F of them."""
    for n in range(1, 15):
        for wins in range(n + 1):
            honest = float(sign_test(wins, n - wins))
            for fakes in range(1, 5):
                for gone_for in range(min(fakes, wins) + 1):
                    for gone_against in range(min(fakes - gone_for, n - wins) + 1):
                        for more_for in range(fakes + 1):
                            for more_against in range(fakes - more_for + 1):
                                votes = wins - gone_for + more_for
                                against = n - wins - gone_against + more_against
                                assert float(sign_test(votes - fakes, against + fakes)) >= honest


@pytest.mark.parametrize("n", [20, 61, 200])
@pytest.mark.cases(1)
def test_false_certificates_are_as_rare_as_promised_by_enumeration(n):
    """A cell without a lead; the fakes see all reports and replace votes against it, where they help the most."""
    kernel = LatticeConfig(box=(0, 1), m=1, mechanism="hadamard", epsilon=1).kernel
    wins = np.arange(n + 1)
    mass = stats.binom.pmf(wins, n, 0.5)
    for fakes in (1, 2, n // 20 + 1, n // 4):
        seen = np.minimum(n, wins + fakes)
        tallies = [Tally(np.array([[n - k, k], [0, 0]]), np.array([n])) for k in seen.tolist()]
        one = np.array([1])
        for level in (0.05, 0.3):
            declared = np.array([p_values(kernel, tally, one, fakes)[0] <= level for tally in tallies])
            silent = np.array([p_values(kernel, tally, one)[0] <= level for tally in tallies])
            assert mass @ declared <= level
            assert mass @ silent > level
            assert mass @ declared > 0


def votes_of(kernel, messages):
    """Return how each message votes in cell 0: 1 for label 1 against 0, -1 for the opposite, 0 for neither."""
    kinds, index = np.unique(messages, axis=0, return_inverse=True)
    wins = [kernel.duels(kernel.tally(kinds[i : i + 1]))[0] for i in range(len(kinds))]
    votes = np.array([int(w[1, 0] - w[0, 1]) for w in wins])
    return kinds, votes, index.ravel()


@pytest.mark.parametrize(
    ("name", "classes"),
    [("hadamard", 2), ("ternary", 2), ("krr", 2), ("oue", 2), ("parity", 2), ("hadamard", 3), ("krr", 3), ("oue", 3)],
)
@pytest.mark.slow
def test_fakes_that_see_all_reports_gain_nothing_where_they_are_declared(name, classes):
    """400 runs: users of cell 0 hold 0 and 1 equally; 1 and 3 % fakes replace reports against 1 by the best for it."""
    config = LatticeConfig(box=(0, 1), m=2, classes=tuple(range(classes)), mechanism=name, epsilon=3)
    kernel, n, runs = config.kernel, 1000, 400
    x, y = np.repeat([[0.1], [0.9]], n // 2, axis=0), np.arange(n) % 2
    users, words, one = config.users(x, y), ReplayableWords(11), np.ones(kernel.cells, dtype=np.int64)
    false = {(fakes, declared): 0 for fakes in (10, 30) for declared in (False, True)}
    for _ in range(runs):
        messages = kernel.draw(users, words)
        kinds, votes, index = votes_of(kernel, messages)
        best = kinds[int(np.argmax(votes))]
        against = np.flatnonzero(votes[index] == -1)
        for fakes in (10, 30):
            sent = np.array(messages)
            sent[against[:fakes]] = best
            tally = kernel.tally(sent)
            wins = kernel.duels(tally)[0]
            for declared in (False, True):
                allowed = fakes * declared
                p = float(sign_test(wins[1, 0] - allowed, wins[0, 1] + allowed))
                assert p <= p_values(kernel, tally, one, allowed)[0]  # the largest over rivals, times their number
                false[fakes, declared] += p <= 0.05
    # binomial(400, 0.05) exceeds 43 with probability 1e-5, and 2 amounts of 8 cases are looked at
    assert max(false[10, True], false[30, True]) <= 43
    assert false[30, False] > 60


def test_rates_with_and_without_a_declared_bound():
    """The measured ones: cells without a lead, 20,000 users, 1 or 3 % fakes replacing votes against the label."""
    rng, n = np.random.default_rng(5), 20_000
    wins = rng.binomial(n, 0.5, 100_000)
    for share, undeclared in ((0.01, 0.88), (0.03, 1.0)):
        fakes = int(share * n)
        declared = np.mean(sign_test(wins + fakes - fakes, n - wins - fakes + fakes) <= 0.05)
        silent = np.mean(sign_test(wins + fakes, n - wins - fakes) <= 0.05)
        assert declared == pytest.approx(0.05, abs=0.003)
        assert silent == pytest.approx(undeclared, abs=0.01)


def test_fakes_on_one_row_certify_nothing_wrong_where_they_are_declared():
    """Two million reports, all labels 0: 1 % fakes turn every label; declared or seen, no turned label is certified."""
    c = LatticeConfig(box=(0, 1), m=11, d=2, mechanism="hadamard", epsilon=1)
    middle = (np.arange(11) + 0.5) / 11
    X = np.array([(a, b) for a in middle for b in middle])
    sums = simulate(c, X, np.zeros(121, dtype=int), np.random.default_rng(7), users=1_980_000)
    sums.add(pack(c, c.kernel.format.encode(np.ones(20_000, dtype=np.int64))))  # row 0 agrees with 1 in every cell
    with pytest.warns(UserWarning, match="^row 0 is named by"):
        model = Classifier.from_aggregate(sums, None)
    silent, declared = (model.certificate(X, confidence=0.95, fakes=fakes) for fakes in (0, 20_000))
    assert (silent.label == 1).all()
    assert not silent.certified.any()  # so many reports of one row are seen
    assert silent.reason is not None
    assert not declared.certified.any()
    assert declared.reason is None  # so many were declared


def test_the_result_says_how_many_fakes_are_allowed_for():
    model, x = learnt(), [[0.05], [0.95]]
    honest = model.certificate(x, fakes=0)
    assert honest.fakes == 0
    assert HONEST in str(honest)
    assert np.isfinite(honest.lower).all()
    some = model.certificate(x, fakes=50)
    assert some.fakes == 50 == some.to_dict()["fakes"]
    assert "At most 50 of the reports are taken to be fakes" in str(some)
    assert HONEST not in str(some)
    assert np.isnan(some.lower).all()
    assert np.isnan(some.upper).all()
    assert (some.p_value > honest.p_value).all()
    assert model.abstain(x, fakes=50).mask.tolist() == (~some.certified).tolist()
    assert (model.certificate(x, fakes=4999).p_value == 1).all()  # more than the votes for any label lead by
    by = model.certificate(x, fakes=50, adjust="by")
    assert (by.adjusted >= some.p_value).all()


def test_as_many_fakes_as_votes_leave_nothing():
    """F >= wins: p is 1, not the tail of a negative count."""
    kernel = LatticeConfig(box=(0, 1), m=1, mechanism="krr", epsilon=1).kernel
    tally = Tally(np.array([0, 9]), np.array([9]))
    p = [p_values(kernel, tally, np.array([1]), fakes)[0] for fakes in range(12)]
    assert p[0] == pytest.approx(2.0**-9)
    assert (np.diff(p) >= 0).all()
    assert p[9:] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("fakes", [-1, 1.0, True, "3", None, 5000, 10**30, np.float64(2), Fraction(1, 2)])
def test_bounds_that_are_none_are_refused(fakes):
    for ask in (learnt().certificate, learnt().abstain):
        with pytest.raises(
            ValueError, match=r"^fakes must be (a whole number of reports|fewer than half of the 10,000 reports)"
        ):
            ask([[0.1]], fakes=fakes)


def test_no_door_certifies_or_plans_without_a_declaration():
    """Nobody is assumed to be honest by default: whoever asks says so."""
    model, x = learnt(), np.random.default_rng(0).random((400, 1))
    estimator = LDPClassifier(4, mechanism="hadamard", m=4, random_state=0).fit(x, x[:, 0] > 0.5)
    for ask in (model, estimator):
        for name in ("certificate", "abstain"):
            with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'fakes'"):
                getattr(ask, name)([[0.1]])
    for kind in (AuditedClassifier, Classifier, LDPClassifier):
        for name in ("certificate", "abstain"):
            assert inspect.signature(getattr(kind, name)).parameters["fakes"].default is inspect.Parameter.empty
    for ask in (plan, central_of, told_of, plot_map):
        assert inspect.signature(ask).parameters["fakes"].default is inspect.Parameter.empty
    with pytest.raises(TypeError, match="'fakes'"):
        plan(epsilon=1, margin=0.02)
    for kind in (Certificates, Plan):
        assert next(one for one in fields(kind) if one.name == "fakes").default is MISSING


def test_a_share_of_the_reports_at_hand_is_rounded_up():
    model = learnt(users=10_001)
    for share in (0.01, Fraction(1, 100), np.float64(0.01)):
        assert model.certificate([[0.1]], fakes=share).fakes == 101
    assert model.certificate([[0.1]], fakes=0.0).fakes == 0


def test_whole_numbers_of_numpy_bound_fakes_too():
    assert learnt().certificate([[0.1]], fakes=np.int64(7)).fakes == 7


def test_what_no_bound_saves_is_refused():
    model = learnt()
    with pytest.raises(ValueError, match="holder needs fakes = 0"):
        model.certificate([[0.1]], fakes=1, holder=Holder(1.0))
    with pytest.raises(ValueError, match="'bh' needs cells that do not depend"):
        model.certificate([[0.1]], fakes=1, adjust="bh")
    slides = learnt(LatticeConfig(box=(0, 1), m=4, mechanism="slides", epsilon=4))
    assert slides.certificate([[0.1]], fakes=0).fakes == 0
    with pytest.raises(ValueError, match="fakes must be 0 for 'slides'"):
        slides.certificate([[0.1]], fakes=1)
    cosine = learnt(LatticeConfig(box=(0, 1), m=4, mechanism="cosine", epsilon=4))
    with pytest.raises(ValueError, match="'cosine' carry no exact certificate"):
        cosine.certificate([[0.1]], fakes=1)


def test_a_small_aggregate_allows_for_few_or_none():
    for users, most in ((1, 0), (2, 0), (3, 1), (10, 4)):
        sums = Aggregator(UNIT)
        sums.add(pack(UNIT, UNIT.kernel.format.encode(np.arange(users) % 16)))
        model = Classifier.from_aggregate(sums)
        assert model.certificate([[0.1]], fakes=most).fakes == most
        with pytest.raises(ValueError, match=f"fewer than half of the {users} reports"):
            model.certificate([[0.1]], fakes=most + 1)


@pytest.mark.slow
def test_the_estimator_and_the_command_line_take_the_bound(cli, tmp_path):
    x = np.random.default_rng(0).random((4000, 1))
    model = LDPClassifier(4, mechanism="hadamard", m=4, random_state=0).fit(x, x[:, 0] > 0.5)
    found = [model.certificate(x[:9], fakes=fakes) for fakes in (0, 100)]
    assert (found[1].p_value > found[0].p_value).all()
    assert model.abstain(x[:9], fakes=1999).mask.all()
    learnt().save(tmp_path / "m.learner")
    pl.DataFrame({"x0": [0.05, 0.95]}).write_csv(tmp_path / "new.csv")
    words = ["learn", "predict", str(tmp_path / "m.learner"), str(tmp_path / "new.csv"), str(tmp_path / "out.csv")]
    code, out, _ = cli(*words, "--confidence", "0.9", "--fakes", "40")
    assert code == 0
    assert "At most 40 of the reports are taken to be fakes" in out
    shown = pl.read_csv(tmp_path / "out.csv")["p_value"].to_numpy()
    assert shown == pytest.approx(learnt().certificate([[0.05], [0.95]], fakes=40).p_value, abs=1e-6)
    assert "labels certified with confidence 0.9, even if up to 40 reports are forged" in out
    code, out, _ = cli(*words, "--confidence", "0.9", "--fakes", "0.004")
    assert "even if up to 40 reports are forged" in out.splitlines()[0]
    code, out, _ = cli(*words, "--confidence", "0.9")
    assert out.splitlines()[0] == "2 of 2 labels certified with confidence 0.9, assuming nobody forges reports."
    assert "With --fakes 0.01, 2 of them stay certified." in out
    for more, message in (
        (["--fakes", "4"], "--fakes is about certificates; give --confidence, too"),
        (["--confidence", "0.9", "--fakes", "5000"], "fakes must be fewer than half of the 10,000 reports"),
    ):
        code, _, err = cli(*words, *more)
        assert code != 0
        assert message in err


PLANNED = {"hadamard": 1.0, "ternary": 3.0, "krr": 2.0, "oue": 2.0, "parity": 2.0}


@pytest.mark.parametrize("name", sorted(PLANNED))
@pytest.mark.parametrize("fakes", [40, 0.01])
@pytest.mark.cases(1)
def test_planned_users_reach_the_power_although_fakes_replace_the_votes_that_help(name, fakes):
    """Simulated sums, worst fakes: reached with the planned users; with half of them clearly not."""
    options = {"m": 2, "d": 1} if name in ("krr", "parity") else {}
    margin = 0.25
    epsilon = PLANNED[name] + (1 if name == "parity" else 0)
    made = plan(epsilon=epsilon, margin=margin, mechanism=name, fakes=fakes, power=0.8, mass=0.5, **options)
    assert made.fakes == (40 if fakes == 40 else math.ceil(made.users / 100))
    config = LatticeConfig(box=(0, 1), m=2, mechanism=name, epsilon=epsilon)
    x = np.repeat([0.1, 0.9], [8, 8])[:, None]
    y = np.array([1] * 6 + [0] * 2 + [0, 1] * 4)  # cell 0: mass 1/2, signed mean 1/4
    rng, kernel, reached = np.random.default_rng(1), config.kernel, {}
    for users in (made.users, made.users // 2):
        allowed = fakes if fakes == 40 else math.ceil(users / 100)
        hits = 0
        for _ in range(300):
            wins = kernel.duels(simulate(config, x, y, rng, users=users).tally)[0]
            votes, against = wins[1, 0] - allowed, wins[0, 1] + allowed
            hits += float(sign_test(votes - allowed, against + allowed)) <= 0.05
        reached[users] = hits
    assert reached[made.users] >= 240 - 4 * math.sqrt(300 * 0.8 * 0.2)
    assert reached[made.users // 2] < 240 - 4 * math.sqrt(300 * 0.8 * 0.2)


def test_power_with_fakes_is_never_overstated():
    """Against the exact sum over all numbers of voters; all voters, and some."""
    for users, share, lead, margin, fakes in (
        (300, 1.0, 0.5, 0.6, 9),
        (900, 0.4, 0.3, 0.4, 12),
        (60, 0.5, 0.25, 0.9, 1),
    ):
        voters = np.arange(users + 1) if share < 1 else np.array([users])
        weight = stats.binom.pmf(voters, users, share)
        agree = (1 + lead * margin / share) / 2
        exact = stats.binom.sf(critical(voters, 0.05) + 2 * fakes - 1, voters, agree) @ weight
        found = sign_power(users, Ballot(share, lead), margin, 0.05, fakes)
        assert exact - 0.1 <= found <= exact
        assert 0.1 < found < sign_power(users, Ballot(share, lead), margin, 0.05) - 0.05
    assert sign_power(10, Ballot(1.0, 1.0), 1.0, 0.05, 5) == 0.0


@pytest.mark.slow
def test_plans_with_fakes_need_more_of_everything():
    plain, some, more = (plan(epsilon=1, margin=0.02, fakes=fakes) for fakes in (0, 10, 100))
    assert plain.users < some.users < more.users
    assert (plain.fakes, some.fakes, more.fakes) == (0, 10, 100)
    assert plan(users=more.users, margin=0.02, fakes=100).epsilon == pytest.approx(1, rel=1e-4)
    assert plan(users=more.users, epsilon=1, fakes=100).margin == pytest.approx(0.02, rel=1e-4)
    share = plan(epsilon=1, margin=0.02, fakes=0.001)
    assert share.fakes == math.ceil(share.users / 1000)
    assert plan(epsilon=1, margin=0.02, fakes=share.fakes).users <= share.users * (1 + 1e-4)
    for same in (Fraction(1, 1000), np.float64(0.001)):
        assert plan(epsilon=1, margin=0.02, fakes=same) == share
    assert plan(epsilon=1, margin=0.02, fakes=0.0) == plain
    assert "even if up to 100 reports are forged" in str(more)
    assert "assuming nobody forges reports" in str(plain)
    assert not plan(users=1000, margin=0.02, fakes=100).feasible


def test_plans_that_fakes_make_impossible_say_so():
    with pytest.raises(
        ValueError, match=r"^fakes: no number of users outvotes a share of 0.01 .* only one below 0.0023"
    ):
        plan(epsilon=1, margin=0.02, fakes=0.01)
    with pytest.raises(ValueError, match="fewer than half of the 100 reports, got 50"):
        plan(epsilon=1, users=100, fakes=50)
    for odd in (-1, 0.5, 1.5, True, "1", None, math.nan, -0.1):
        with pytest.raises(
            ValueError, match=r"^fakes must be a whole number of reports, or a share of them below one half"
        ):
            plan(epsilon=1, margin=0.02, fakes=odd)


@pytest.mark.parametrize("fakes", ["100", "0.001"])
@pytest.mark.slow
def test_plans_with_fakes_from_the_shell(cli, tmp_path, fakes):
    asked = ["learn", "plan", "--margin", "0.02", "--fakes", fakes]
    code, out, _ = cli(
        *asked, "--epsilon", "1", "--report", str(tmp_path / "p.html"), "--json", str(tmp_path / "p.json")
    )
    assert code == 0
    told = json.loads((tmp_path / "p.json").read_text())
    found = plan(epsilon=1, margin=0.02, fakes=float(fakes) if "." in fakes else int(fakes))
    assert (told["users"], told["fakes"], told["question"]["fakes"]) == (found.users, found.fakes, float(fakes))
    assert f"At most {found.fakes} of the reports are taken to be fakes" in (tmp_path / "p.html").read_text()
    code, out, _ = cli(*asked, "--users", "77777", "--report", str(tmp_path / "q.html"))
    assert code == 0
    assert "reports are forged" in out
    code, _, err = cli("learn", "plan", "--margin", "0.02", "--epsilon", "1", "--fakes", "some")
    assert code == 2
    assert "--fakes must be a whole number of reports, or a share of them, as in 100 or 0.01, got 'some'" in err
