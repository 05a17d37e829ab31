"""Any model by retraining: bounds that hold, halves that are balanced, what exposed rows share, the command."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from epsworth.exposure import ExposureError, exposed_groups, memorisation, retraining


def noisy(n=120, seed=0):
    """Return rows whose labels are wrong for a tenth: only the row itself tells those."""
    rng = np.random.default_rng(seed)
    X, wrong = rng.uniform(size=(n, 2)), np.arange(n) % 10 == 0
    return X, np.where((X[:, 0] > 0.5) ^ wrong, "yes", "no"), wrong


class Coin:
    """Right about a row with probability .9 where it was trained with it, .3 where not, for even rows; else .5."""

    def fit(self, X, y):
        self.seen, self.labels = set(X[:, 0].tolist()), dict(zip(X[:, 0].tolist(), y.tolist(), strict=True))
        self.rng = np.random.default_rng(hash(tuple(sorted(self.seen))) % 2**63)

    def predict(self, X):
        rows = X[:, 0].astype(int)
        chance = np.where(rows % 2, 0.5, np.where([row in self.seen for row in rows], 0.9, 0.3))
        return np.where(self.rng.random(len(rows)) < chance, rows % 3 == 0, rows % 3 != 0)


class Says:
    """Answers the same for every row, or for all of them."""

    def __init__(self, answer, whole=False):
        self.answer, self.whole = answer, whole

    def fit(self, X, y):
        pass

    def predict(self, X):
        return self.answer if self.whole else np.array([self.answer] * len(X))


class Forgets(Says):
    """Wrong about what it was trained with, and about nothing else; answers are the truth."""

    def fit(self, X, y):
        self.seen = set(X[:, 0].tolist())

    def predict(self, X):
        return np.where([x in self.seen for x in X[:, 0]], 1 - self.answer, self.answer)


def test_bounds_are_differences_of_probabilities():
    y = np.arange(20) % 2
    found = memorisation(Forgets(y), np.arange(20.0)[:, None], y, trainings=8, rng=0)
    assert found.estimates.tolist() == [-1] * 20
    assert found.lower.min() == -1


@pytest.mark.cases(40)
def test_bounds_hold_for_all_rows_together():
    """False alarms: with 80 % confidence in each of 40 runs, 19 misses or more have a probability below 1e-4."""
    X = np.arange(20.0)[:, None]
    truth = np.where(np.arange(20) % 2, 0.0, 0.6)
    missed = 0
    for seed in range(40):
        found = memorisation(Coin(), X, np.arange(20) % 3 == 0, trainings=40, confidence=0.8, rng=seed)
        missed += not ((found.lower <= truth) & (truth <= found.upper)).all()
        assert ((found.lower <= found.estimates) & (found.estimates <= found.upper)).all()
    assert missed <= 18
    many = memorisation(Coin(), X, np.arange(20) % 3 == 0, trainings=1000, rng=0)
    np.testing.assert_allclose(many.estimates, truth, atol=0.15)
    assert (many.lower[::2] > 0.3).all()


def test_rows_that_only_themselves_tell_are_found():
    X, y, wrong = noisy()
    for model in (KNeighborsClassifier(1), make_pipeline(StandardScaler(), DecisionTreeClassifier())):
        found = memorisation(model, X, y, trainings=64, rng=1)
        assert found.estimates[wrong].mean() > 0.7
        assert wrong[found.ranked[: wrong.sum()]].mean() > 0.6  # the others are their neighbours
        assert (found.with_row == 1).all()  # both models recall what they were trained on
        assert "not private" in str(found)
        assert found.to_dict()["notice"] == "computed from raw data: not private"


def test_every_row_is_in_one_half_of_each_pair_and_each_label_in_both():
    _, y, _ = noisy(31)
    sizes = set()
    for seed in range(200):
        half = retraining._Halves(None, None, y)._half(np.random.default_rng(seed))
        sizes.add(int(half.sum()))
        assert all(set(y[some]) == {"yes", "no"} for some in (half, ~half))
    assert sizes == {15, 16}


@pytest.mark.slow
def test_workers_and_seeds():
    X, y, _ = noisy(60)
    forest = RandomForestClassifier(5)

    def answer(**settings):
        return memorisation(forest, X, y, trainings=8, **settings).estimates.tolist()

    told = []
    assert answer(rng=3) == answer(rng=3, n_jobs=2, progress=told.append) != answer(rng=4)
    assert told[-1] == 1.0
    assert not hasattr(forest, "classes_")  # the model given is left as it is


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda X, y: memorisation(object(), X, y), "model must have fit and predict"),
        (lambda X, y: memorisation(KNeighborsClassifier, X, y), "got the class KNeighborsClassifier; call it"),
        (lambda X, y: memorisation(KNeighborsClassifier(1), X, [1, "1"] * 60), "y must hold texts alone, or numbers"),
        (lambda X, y: memorisation(LinearRegression(), X, y == "no"), "mostly no label of y; give a classifier"),
        (lambda X, y: memorisation(Says("1"), X, [0, 1] * 60), "mostly no label of y; give a classifier"),
        (lambda X, y: memorisation(Says(None, whole=True), X, y), r"one label per row, shape \(120,\), got \(\)"),
        (lambda X, y: memorisation(Says(["no", "no"]), X, y), r"one label per row, shape \(120,\), got \(120, 2\)"),
        (lambda X, y: memorisation(Says(["no"] * 3, whole=True), X, y), r"shape \(120,\), got \(3,\)"),
        (lambda X, y: memorisation(KNeighborsClassifier(1), X, y, trainings=7), "trainings must be a whole number"),
        (lambda X, y: memorisation(KNeighborsClassifier(1), X, y[:5]), "y must hold one label per row"),
        (lambda X, y: memorisation(KNeighborsClassifier(1), X, [None, *y[1:]]), "y, row 0 has no label"),
        (lambda X, y: memorisation(KNeighborsClassifier(1), X, np.zeros(120)), "two different labels at least"),
        (lambda X, y: memorisation(KNeighborsClassifier(1), X, ["odd", *y[1:]]), "a label of so few rows"),
        (lambda X, y: exposed_groups(X, [1.0, 2.0]), "one number for each of 120 rows"),
        (
            lambda X, y: exposed_groups(pl.DataFrame({"a": y}), np.zeros(120), without="z"),
            "has no column 'z'; it has a",
        ),
        (lambda X, y: exposed_groups(X, np.full(120, np.nan)), "exposure holds a missing"),
    ],
)
def test_bad_input_is_told_in_a_sentence(call, sentence):
    X, y, _ = noisy()
    with pytest.raises(ExposureError, match=sentence):
        call(X, y)


def test_groups_name_what_exposed_rows_share():
    rng = np.random.default_rng(0)
    town = np.where(np.arange(1000) < 30, "far", rng.choice(["a", "b", "c"], 1000)).astype(object)
    town[500] = None
    age = np.r_[rng.uniform(80, 90, 30), rng.uniform(20, 70, 970)]
    table = pl.DataFrame({"town": town.tolist(), "age": age, "noise": rng.random(1000), "y": [0, 1] * 500})
    groups = exposed_groups(table, np.r_[np.ones(30), rng.random(970) / 2], without="y")
    assert [group.column for group in groups[:2]] == ["town", "age"]
    assert (groups[0].value, groups[0].of_exposed, groups[0].of_all) == ("far", 0.6, 0.03)
    assert all(group.of_exposed >= 1.5 * group.of_all for group in groups)
    assert not any(group.column == "y" for group in groups)


@pytest.mark.parametrize(("high", "shown"), [(0, False), (1, True), (10, True), (11, False)])
@pytest.mark.cases("all")
def test_equally_exposed_rows_count_together_whatever_their_order(high, shown):
    table = pl.DataFrame({"job": ["clerk"] * (100 - high) + ["smith"] * high, "age": range(100)}).to_pandas()
    table["id"] = [(i, "a")[i == 0] for i in range(100)]
    exposure = np.r_[np.zeros(100 - high), np.ones(high)]
    groups = [str(group) for group in exposed_groups(table, exposure)]
    assert groups == [str(group) for group in exposed_groups(table[::-1], exposure[::-1])]
    assert any(group.startswith("job = smith: 100 %") for group in groups) == shown == bool(groups)


def test_the_command_estimates_for_a_model(cli, tmp_path, monkeypatch):
    from skops.io import dump

    X, y, wrong = noisy()
    monkeypatch.chdir(tmp_path)
    table = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "more": ["x"] * len(y), "y": y})
    table.write_csv("table.csv")
    dump(DecisionTreeClassifier().fit(table.select("a", "b").to_pandas(), y), "model.skops")
    cli = partial(cli, "profile")
    words = ("model.skops", "table.csv", "--target", "y", "--seed", "1", "--trainings", "40", "--top", "3")
    code, out, err = cli(*words)
    assert (code, err) == (0, "")
    assert "rows are memorised for certain" in out
    assert "An estimate" in out
    assert "not private" in out
    code, out, _ = cli(*words, "--json", "-")
    document = json.loads(out)
    assert (document["estimate"], document["trainings"], document["rows"]) == (True, 40, 120)
    assert sum(wrong[row["row"]] for row in document["most_exposed"]) >= 2
    for more, sentence in (
        (("--l2", "1"), "--l2 is for a private linear model"),
        (("--trainings", "3"), "trainings must be a whole number of at least 8"),
    ):
        code, _, err = cli(*words[:4], *more)
        assert code == 2
        assert sentence in err
    code, _, err = cli("table.csv", "--target", "y", "--trainings", "9")
    assert "--trainings is for a model that is trained anew" in err
