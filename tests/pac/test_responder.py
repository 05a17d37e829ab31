"""A server's transcripts: all of them enumerated, the best attack on them, and who may ask how."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from epsworth.pac import MI, Posterior, RecordPosterior, ResponseServer, WorldModels, posterior
from epsworth.pac.responses import ONE, Channel

PAIRED = np.array([[1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0]], dtype=bool)
VOTES = np.array(  # of six models on six queries
    [
        [0, 1, 0, 1, 1, 1],
        [1, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1],
        [1, 1, 0, 0, 1, 0],
        [2, 0, 1, 2, 0, 1],
        [1, 1, 1, 1, 1, 1],
    ]
)


def voters(votes):
    """Return models that give a listed label to the query of a number."""
    return [lambda X, given=given: given[np.asarray(X)[:, 0].astype(int)] for given in np.asarray(votes).T]


def server(folder, votes=VOTES, members=PAIRED, budget=None, **settings):
    budget = MI(1.0) if budget is None else budget
    asked = {"classes": [0, 1, 2], "fallback": "votes", "per_query": 0.05, "ledger": folder / "answers"} | settings
    return ResponseServer(voters(votes), members, budget, **asked)


@pytest.fixture
def fast(monkeypatch):
    """Do not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def transcripts(monkeypatch, folder, depth, settings):
    """Yield every path of answers to adaptive queries: its channels and votes, and the server after it.

    The next query depends on the label before; what can be drawn is what some model that is left could have said.
    """
    plan, used = ResponseServer._planned, []

    def planned(self, votes, keep):
        by = plan(self, votes, keep)
        used.append((self._beliefs.probabilities, votes, by))
        return by

    monkeypatch.setattr(ResponseServer, "_planned", planned)
    for number, path in enumerate(product(range(3), repeat=depth)):
        labels = iter(path)

        def drawn(self, vote, word, labels=labels):
            return next(labels)

        monkeypatch.setattr(Channel, "answer", drawn)
        used.clear()
        with server(folder, ledger=folder / f"{number}", **settings) as asked:
            said, query = [], 0
            try:
                while len(used) < depth and len(said) < 3 * depth:
                    said += asked.answer([[query]]).tolist()
                    query = (2 * query + said[-1] + 1) % len(settings.get("votes", VOTES))
            except ValueError:  # a label that nobody could have drawn
                continue
            finally:
                chances = [likelihood(model, used, path) for model in range(6)]
            if len(used) < depth and any(path[len(used) :]):  # the rest was free: one path stands for all
                continue
            yield SimpleNamespace(chances=chances, used=list(used), path=path, server=asked)


def likelihood(model, used, path):
    """Return the chance of a path under a model."""
    return math.prod(Fraction(by.row(int(v[model]))[label], ONE) for (_, v, by), label in zip(used, path, strict=False))


def log(fraction):
    return mpmath.log(mpmath.mpf(fraction.numerator) / fraction.denominator)


@pytest.mark.parametrize("fallback", ["uniform", "votes", "plurality"])
@pytest.mark.parametrize("q", [None, 0.6, 0.8])
@pytest.mark.parametrize("per_query", [0.01, 0.4])
def test_all_transcripts_together_keep_every_promise(monkeypatch, tmp_path, fast, fallback, q, per_query):
    """By exact fractions: chances sum to one, information <= mean of what was charged <= total, memberships within q.

    Against the best attack, too: any set of transcripts is likelier with a record in by q / (1 - q) at most.
    """
    settings = {"fallback": fallback, "per_query": per_query, "budget": MI(0.5), "record_posterior": q}
    members = PAIRED if q is None else PAIRED[:, :2]
    found = list(transcripts(monkeypatch, tmp_path, 3, settings | {"members": members}))
    assert [sum(one.chances[j] for one in found) for j in range(6)] == [1] * 6
    with mpmath.workdps(30):
        told = charged = mpmath.mpf(0)
        for one in found:
            together = sum(one.chances) / 6
            if together:
                told += mpmath.fsum(
                    mpmath.mpf(p.numerator) / p.denominator / 6 * log(p / together) for p in one.chances if p
                )
                charged += mpmath.mpf(together.numerator) / together.denominator * one.server.spent
                exact = [p / (6 * together) for p in one.chances]
                np.testing.assert_allclose(one.server.probabilities, np.array(exact, dtype=float), rtol=1e-13, atol=0)
            assert one.server.spent <= 0.5
            assert Fraction(one.server.spent) >= sum(Fraction(by.cost) for _, _, by in one.used)
        assert told <= charged
    if fallback == "plurality" and q is None:
        assert told == charged == 0
    else:
        assert told > 0.001 or fallback == "plurality"
    if q is not None:
        check_records(found, members, Fraction(q))


def check_records(found, members, q):
    for held in members.T:
        share = Fraction(int(held.sum()), 6)
        inside = [sum(p for p, one in zip(path.chances, held, strict=True) if one) / (6 * share) for path in found]
        out = [
            sum(p for p, one in zip(path.chances, held, strict=True) if not one) / (6 * (1 - share)) for path in found
        ]
        for a, b in zip(inside, out, strict=True):
            if a or b:
                chance = share * a / (share * a + (1 - share) * b)
                assert 1 - q <= chance <= q
        tpr = fpr = Fraction(0)  # Neyman and Pearson: the likeliest transcripts first
        for a, b in sorted(zip(inside, out, strict=True), key=lambda both: -both[0] / (both[0] + both[1] or 1)):
            tpr, fpr = tpr + a, fpr + b
            assert tpr <= q / (1 - q) * (1 - share) / share * fpr
        best = sum(max(share * a, (1 - share) * b) for a, b in zip(inside, out, strict=True))
        assert best <= q


def test_each_charge_covers_the_exact_information_given_the_past(monkeypatch, tmp_path, fast):
    """By the exact belief, of which the server has doubles."""
    for one in transcripts(monkeypatch, tmp_path, 3, {"per_query": 0.3, "budget": MI(5.0)}):
        exact = [Fraction(1, 6)] * 6
        for (_, votes, by), label in zip(one.used, one.path, strict=False):
            masses = [sum(p for p, v in zip(exact, votes, strict=True) if v == place) for place in range(3)]
            if not sum(masses):
                break
            answered = [sum(mass * by.row(v)[place] for v, mass in enumerate(masses)) for place in range(3)]
            with mpmath.workdps(30):
                told = mpmath.mpf(0)
                for (v, mass), place in product(enumerate(masses), range(3)):
                    if mass and (w := by.row(v)[place]):
                        share = mass / sum(masses)
                        ratio = log(Fraction(w * sum(masses)) / answered[place])
                        told += mpmath.mpf(share.numerator) / share.denominator * w / ONE * ratio
            assert told <= by.cost
            exact = [p * by.row(int(v))[label] / ONE for p, v in zip(exact, votes, strict=True)]


@pytest.mark.slow
def test_the_best_attack_on_real_transcripts(tmp_path, fast):
    """Mean posterior log-odds of the secret over 300 servers; 4.5 standard errors: false alarm 4e-6."""
    rng = np.random.default_rng(0)
    votes = rng.integers(2, size=(12, 8))
    members = rng.permuted(np.tile([True, False], (5, 4)), axis=1).T
    gains, spent = [], []
    for number in range(300):
        with server(tmp_path, votes, members, MI(0.5), classes=[0, 1], ledger=tmp_path / str(number)) as asked:
            query = 0
            for _ in range(20):
                query = (5 * query + int(asked.answer([[query]])[0]) + 1) % 12
            gains.append(math.log(8 * asked.probabilities[asked._secret]))
            spent.append(asked.spent)
    assert max(spent) <= 0.5
    assert np.mean(spent) > 0.1
    assert np.mean(gains) <= np.mean(spent) + 4.5 * np.std(gains) / math.sqrt(len(gains))


@pytest.mark.slow
@pytest.mark.parametrize(("q", "bound"), [(None, posterior(1 / 16, 0.5)), (0.6, 0.6)])
def test_a_targeted_attack_on_real_transcripts(tmp_path, fast, q, bound):
    """Ask what splits a record's models best, then guess by Bayes: 4 standard errors over 200 servers, alarm 4e-5.

    The total is 1/16 nat without a promise for records, and 1 nat with it.
    """
    rng, right = np.random.default_rng(1), 0
    members = rng.permuted(np.tile([True, False], (5, 8)), axis=1).T
    votes = rng.random((60, 16)) < np.where(members[:, 0], *rng.choice([0.1, 0.5, 0.9], size=(2, 60, 1)))
    settings = {"budget": MI(1 / 16) if q is None else MI(1.0), "per_query": 1 / 160, "record_posterior": q}
    for number in range(200):
        with server(
            tmp_path, votes.astype(int), members, **settings, classes=[0, 1],
            ledger=tmp_path / str(number),
        ) as asked:  # fmt: skip
            unasked = np.ones(60, dtype=bool)
            for _ in range(12):
                belief = asked.probabilities
                split = np.abs(votes @ (belief * (members[:, 0] - belief @ members[:, 0]))) * unasked
                query = int(split.argmax())
                unasked[query] = False
                asked.answer([[query]])
                if q is not None:
                    chances = asked.probabilities @ members
                    assert 1 - q <= chances.min() <= chances.max() <= q
            right += (asked.probabilities @ members[:, 0] >= 0.5) == members[asked._secret, 0]
            assert asked.charged >= (9 if q is None else 1)
    assert right / 200 <= bound + 4 * math.sqrt(bound * (1 - bound) / 200)


def test_free_answers_cost_nothing_and_repeat(tmp_path):
    with server(tmp_path) as asked:
        assert asked.answer([[5]]).tolist() == [1]  # unanimous
        assert asked.spent == asked.charged == 0
        first = asked.answer([[0]])
        assert 0 < asked.spent <= 0.05
        assert asked.charged == 1
        again = asked.answer([[0]] * 50)
        assert set(again.tolist()) == set(first.tolist())
        assert asked.charged == 1


def test_whole_votes_cost_what_the_secret_is_worth_and_free_the_rest(tmp_path, monkeypatch):
    """On average over the secrets their entropy, by the chain rule (two of six models are alike, ln 6 - ln 2 / 3).

    What is left agrees with itself, after a restart, too.
    """
    spent = []
    for secret in range(6):
        settings = {"per_query": 5.0, "budget": MI(50.0), "ledger": tmp_path / str(secret)}
        monkeypatch.setattr("secrets.randbelow", lambda models, secret=secret: secret)
        with server(tmp_path, **settings) as asked:
            assert asked.answer([[i] for i in range(6)]).tolist() == VOTES[:, secret].tolist()
            spent.append(asked.spent)
            np.testing.assert_array_equal(asked.probabilities > 0, (VOTES[:, [secret]] == VOTES).all(axis=0))
        with server(tmp_path, **settings) as asked:
            assert asked.answer([[i] for i in range(6)]).tolist() == VOTES[:, secret].tolist()
            assert asked.spent == spent[-1]
            assert asked._secret == secret
    worth = math.log(6) - math.log(2) / 3
    assert worth <= np.mean(spent) <= worth * (1 + 2**-19)


def test_a_total_that_is_spent_leaves_free_answers_for_ever(tmp_path):
    rng = np.random.default_rng(2)
    votes = rng.integers(3, size=(200, 6))
    settings = {"votes": votes, "budget": MI(0.12), "per_query": 0.05}
    with server(tmp_path, **settings) as asked:
        asked.answer([[i] for i in range(100)])
        spent, belief = asked.spent, asked.probabilities
        assert 0.09 < spent <= 0.12
        assert asked.charged == 2
        assert set(asked.answer([[i] for i in range(200)]).tolist()) == {0, 1, 2}
        assert asked.spent == spent
        np.testing.assert_array_equal(asked.probabilities, belief)
    with server(tmp_path, **settings | {"per_query": 0.001}) as asked:  # would still fit
        asked.answer([[i] for i in range(100)])
        assert asked.spent == spent


def test_a_total_of_whole_queries_is_spent_to_the_last(tmp_path):
    with server(tmp_path, budget=MI(0.125), per_query=0.0625) as asked:
        asked.answer([[0], [1], [2], [3]])
        assert asked.charged == 2


def test_plurality_without_a_promise_for_records_never_asks_the_secret(tmp_path):
    with server(tmp_path, fallback="plurality", per_query=0.5) as asked:
        assert asked.answer([[0], [1], [2]] * 20).tolist() == [1, 0, 0] * 20
        assert asked.spent == asked.charged == 0


def test_plurality_with_one_asks_it_where_no_answer_singles_out_a_record(tmp_path):
    members = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool)
    votes = [[0, 0, 1, 1], [0, 0, 0, 1]]  # the second answer 1 would name the last model, without record 0
    settings = {"fallback": "plurality", "record_posterior": 0.7, "classes": [0, 1], "per_query": 0.1}
    with server(tmp_path, votes, members, **settings) as asked:
        asked.answer([[1]])
        assert asked.charged == 0
        asked.answer([[0]])
        assert asked.charged == 1


def test_a_server_goes_on_where_it_was(tmp_path):
    with server(tmp_path) as asked:
        given = asked.answer([[0], [1], [2]]).tolist()
        kept = asked.spent, asked.probabilities, asked._secret, asked.head, asked.charged
    with server(tmp_path, head=kept[3]) as asked:
        assert (asked.spent, asked._secret, asked.head, asked.charged) == (kept[0], *kept[2:])
        np.testing.assert_array_equal(asked.probabilities, kept[1])
        assert asked.answer([[0], [1], [2]]).tolist() == given
        assert asked.spent == kept[0]


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"budget": MI(2.0)}, "budget"),
        ({"members": ~PAIRED}, "members"),
        ({"votes": VOTES[:, ::-1]}, "models"),
        ({"classes": [1, 0, 2]}, "classes"),
        ({"members": PAIRED[:, :2], "record_posterior": 0.7}, "members"),
    ],
)
def test_a_ledger_of_other_promises_is_refused(tmp_path, changed, word):
    with server(tmp_path) as asked:
        asked.answer([[0]])
    with pytest.raises(ValueError, match=f"was begun with other {word}"):
        server(tmp_path, **changed)
    server(tmp_path, fallback="uniform", per_query=0.01).close()  # what every line says itself may change


def test_threads_share_one_total_and_one_answer_per_vote_vector(tmp_path, fast):
    rng = np.random.default_rng(3)
    votes, given = rng.integers(3, size=(40, 6)), []
    with server(tmp_path, votes, budget=MI(0.6), per_query=0.02) as asked:

        def ask(seed):
            queries = np.random.default_rng(seed).integers(40, size=60).tolist()
            given.extend((query, int(asked.answer([[query]])[0])) for query in queries)

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert asked._spent <= Fraction(0.6)
        assert asked.charged == 30
        kept = dict(asked._answers)
        for query, label in given:
            assert kept.get(votes[query].astype(np.uint8).tobytes(), label) == label  # else it was free
    assert len(given) == 360


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_process_cannot_answer_nor_take_the_lock_away(tmp_path):
    with server(tmp_path) as asked:
        asked.answer([[0]])
        child = os.fork()
        if child == 0:
            status = 1
            try:
                asked.answer([[1]])
            except ValueError as error:
                status = 0 if "belongs to the process that made it" in str(error) else 2
            finally:
                asked.close()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(ValueError, match="is in use by another server"):
            server(tmp_path)
        asked.answer([[1]])
        assert asked.charged == 2


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_server_cannot_be_copied(tmp_path, copied):
    with server(tmp_path) as asked, pytest.raises(TypeError, match="cannot be copied or pickled"):
        copied(asked)


def test_a_closed_server_answers_no_more(tmp_path):
    asked = server(tmp_path)
    asked.close()
    asked.close()
    with pytest.raises(ValueError, match="this server is closed"):
        asked.answer([[5]])


def test_nothing_secret_is_shown(tmp_path):
    with server(tmp_path) as asked:
        asked.answer([[0]])
        assert repr(asked).startswith("ResponseServer(spent 0.0")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"fallback": "majority"}, "fallback must be one of"),
        ({"per_query": -1}, "per_query must be nats"),
        ({"per_query": "1/2"}, "per_query must be nats"),
        ({"record_posterior": 0.5}, "record_posterior must lie strictly between"),
        ({"record_posterior": 1}, "record_posterior must lie strictly between"),
        ({"members": PAIRED[:4], "record_posterior": 0.9}, "members must have a row per model"),
        ({"members": PAIRED.astype(int)}, "members must be an array of truth values"),
        ({"classes": [0]}, "classes must name at least two labels"),
        ({"classes": [0, 0, 1]}, "classes must name at least two labels"),
        ({"classes": [0, 1, np.nan]}, "classes must name at least two labels"),
        ({"classes": np.array([0, "a"], dtype=object)}, "classes must name at least two labels"),
        ({"classes": [[0], [1, 2]]}, "classes must be single values"),
        ({"classes": (1, "1")}, "classes must name at least two labels of one kind"),
        ({"classes": (True, 1, 0)}, "classes must name at least two labels of one kind, each once"),
        ({"budget": RecordPosterior(0.6)}, "budgets here are in nats"),
        ({"head": "abc"}, "head must be the 64 letters"),
        ({"members": np.ones((6, 2), dtype=bool), "record_posterior": 0.9}, "2 of 2 records are in more"),
    ],
)
def test_what_no_server_can_promise_is_refused(tmp_path, settings, told):
    with pytest.raises(ValueError, match=told):
        server(tmp_path, **settings)
    assert not (tmp_path / "answers").exists()


def test_budgets_are_no_bare_numbers(tmp_path):
    with pytest.raises(TypeError, match="budget must be MI"):
        server(tmp_path, budget=1.0)
    with server(tmp_path, budget=Posterior(0.675)) as asked:
        assert asked.total == Posterior(0.675).mi


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda X: np.zeros((len(X), 2)), r"gave shape \(2, 2\) for 2 queries"),
        (lambda X: np.full(len(X), 3), "gave a label that is none of 3 classes"),
        (lambda X: np.full(len(X), np.nan), "gave a label that is none of 3 classes"),
        (lambda X: np.array([0, "a"], dtype=object), "gave a label that is none of 3 classes"),
        (lambda X: [10**400] * len(X), "gave a label that is none of 3 classes"),
        (lambda X: [[0], [1, 2]], "what model 5 gives must be single values"),
        (lambda X: [0, "1"], "model 5 gave a label that is none of 3 classes"),
        (lambda X: None, r"gave shape \(\) for 2 queries"),
    ],
)
def test_models_that_give_no_labels_are_refused_whichever_is_the_secret(tmp_path, broken, told):
    models = [*voters(VOTES)[:5], broken]
    with ResponseServer(
        models, PAIRED, MI(1.0), classes=[0, 1, 2], fallback="votes", per_query=0.1, ledger=tmp_path / "a"
    ) as asked:
        with pytest.raises(ValueError, match=told):
            asked.answer([[0], [1]])
        assert asked.spent == 0
        with pytest.raises(ValueError, match="X must be a table"):
            asked.answer([0, 1])
        assert asked.answer(np.empty((0, 1))).tolist() == []


@pytest.mark.parametrize("models", [None, 3, "ab", [], [len], [len, 3], {"a": len, "b": len}])
def test_what_are_no_models_is_refused(tmp_path, models):
    with pytest.raises(ValueError, match="models must be a list of at least two"):
        ResponseServer(models, PAIRED, MI(1.0), classes=[0, 1], fallback="votes", per_query=0.1, ledger=tmp_path / "a")


def test_labels_of_any_kind_come_back_as_they_are(tmp_path):
    names = np.array(["no", "yes", "perhaps"])
    with ResponseServer(
        voters(names[VOTES]),
        PAIRED,
        MI(1.0),
        classes=list(names),
        fallback="votes",
        per_query=0.1,
        ledger=tmp_path / "a",
    ) as asked:
        assert asked.answer([[5]]).tolist() == ["yes"]
        assert set(asked.answer([[0], [4]]).tolist()) <= set(names)


def pool(seed=0, rows=80):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    return X, np.where(X[:, 0] + rng.normal(scale=0.5, size=rows) > 0, "ill", "well")


@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier()])
@pytest.mark.cases(1)
def test_from_a_table_to_a_server_and_back_from_its_folder(tmp_path, estimator):
    X, y = pool()
    kept = WorldModels.fit(estimator, X, y, worlds=16, worlds_seed=1)
    assert kept.members.shape == (16, 80)
    assert (kept.members.sum(axis=0) == 8).all()
    kept.save(tmp_path / "models")
    read = WorldModels.load(tmp_path / "models")
    np.testing.assert_array_equal(read.members, kept.members)
    assert read.classes.tolist() == ["ill", "well"]
    assert read.on_pool == kept.on_pool == kept.accuracy(X, y) == read.accuracy(X, y)
    settings = {"fallback": "votes", "per_query": 0.01, "ledger": tmp_path / "answers", "record_posterior": 0.6}
    with ResponseServer(kept.models, kept.members, MI(0.1), classes=kept.classes, **settings) as asked:
        first = asked.answer(X[:20])
    with ResponseServer(read.models, read.members, MI(0.1), classes=read.classes, **settings) as asked:
        again = asked.answer(X[:20])
        believed = asked.probabilities @ kept.members
    assert set(first) <= {"ill", "well"}
    assert len(again) == 20
    assert believed.max() <= 0.6
    assert believed.min() >= 0.4
    assert (tmp_path / "models").stat().st_mode & 0o077 == 0


def test_a_model_of_a_half_is_made_from_that_half_alone():
    X, y = pool()
    kept = WorldModels.fit(LogisticRegression(), X, y, worlds=4, groups=np.arange(80) // 2)
    for model, chosen in zip(kept.models, kept.members, strict=True):
        assert (chosen[::2] == chosen[1::2]).all()
        np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(X[chosen], y[chosen]).coef_)


def test_frames_reach_models_as_frames():
    pd = pytest.importorskip("pandas")
    X, y = pool()
    kept = WorldModels.fit(LogisticRegression(), pd.DataFrame(X, columns=["a", "b"]), y, worlds=4)
    assert kept.models[0].feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "kind", "told"),
    [
        ({"worlds": 5}, ValueError, "worlds must be even"),
        ({"worlds": 0}, ValueError, "worlds must be a whole number"),
        ({"y": None}, ValueError, "y must hold the label of every row"),
        ({"estimator": "mean"}, TypeError, "estimator must be a classifier"),
        ({"X": [[np.nan]] * 80}, ValueError, "row 0, column 0: the value is missing"),
        ({"X": np.arange(80.0)}, ValueError, "X must be a table"),
    ],
)
def test_pools_that_cannot_be_halved_are_refused(arguments, kind, told):
    X, y = pool()
    given = {"estimator": LogisticRegression(), "X": X, "y": y} | arguments
    with pytest.raises(kind, match=told):
        WorldModels.fit(given.pop("estimator"), given.pop("X"), given.pop("y"), **given)


def test_folders_that_are_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot read the list of members"):
        WorldModels.load(tmp_path)
    (tmp_path / "members.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is none; give a folder"):
        WorldModels.load(tmp_path)
    X, y = pool()
    with pytest.raises(ValueError, match="cannot make the folder"):
        WorldModels.fit(LogisticRegression(), X, y, worlds=2).save(tmp_path)
