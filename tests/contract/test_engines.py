"""What every engine of the table keeps: its word, its reasons, its bounds, its risk; and a toy engine that is added."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

import epsworth as ew
from epsworth.bounds import Risk
from epsworth.utility.engines import run
from epsworth.utility.engines.contraction import outward
from epsworth.utility.engines.engine import ByRecord, RecordResult, Settings, records_of
from epsworth.utility.engines.run import methods
from epsworth.utility.problem import Problem

pytestmark = pytest.mark.cases(20)  # nearly every entry of the table, in the default suite too

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
MISS = 1e-6  # all sampled bounds of a question hold, but for this probability
TOLERANCE = 0.05
DRAWS = 2_000
OFF = np.sqrt(np.log(2 / 1e-10) / (2 * DRAWS))  # of a simulated share, but for a probability of 1e-10 (Hoeffding)
EPSILONS = [0.5, 2.0, 6.0]
WORDS = ["pm", "laplace_clipped", "krr:k=7", "laplace", "gaussian:delta=0.1", "krr:k=2001", "pm:indicator=0.1"]


def named(rows):
    return np.asarray(rows)[:, 0] + np.asarray(rows)[:, 2] > 9


def above(rows):
    return rows[:, 2] > 3


above.cut = 3.0  # it names what it does: some engine may read that


@cache
def fitted(model, classes=3):
    keep = classes > SPECIES
    return model.fit(IRIS[keep], SPECIES[keep])


ZOO = {
    "function": (lambda: named, [0, 2]),
    "function of one": (lambda: above, [2]),
    "forest": (partial(fitted, RandomForestClassifier(5, max_depth=3, random_state=0)), [0, 2]),
    "forest of four": (partial(fitted, RandomForestClassifier(3, max_depth=3, random_state=0)), [0, 1, 2, 3]),
    "line": (partial(fitted, LogisticRegression(max_iter=5000), 2), [0, 1, 2, 3]),
    "lines": (partial(fitted, LogisticRegression(max_iter=5000)), [0, 2]),
    "lines of three": (partial(fitted, LogisticRegression(max_iter=5000)), [0, 2, 3]),
    "bayes": (partial(fitted, GaussianNB()), [0, 2]),
    "quadratic": (partial(fitted, QuadraticDiscriminantAnalysis()), [2]),
    "network": (partial(fitted, MLPClassifier((4,), solver="lbfgs", max_iter=500, random_state=0)), [0, 2]),
    "constant": (partial(fitted, DummyClassifier()), [0, 2]),
}
every_question = pytest.mark.parametrize("with_y", [False, True], ids=["", "y"])
every_engine = pytest.mark.parametrize("engine", run.ENGINES, ids=lambda engine: engine.name)


@cache
def problem(name, with_y=False, words=tuple(WORDS)):
    model, sensitive = ZOO[name]
    label_rr = () if name.startswith("function") else ("label_rr",)
    return Problem.of(
        model(), IRIS[[10, 57, 77]], sensitive=sensitive, mechanisms=[*words, *label_rr], epsilons=EPSILONS,
        domain=RANGES, y=None if not with_y else [True, False, False] if name.startswith("function") else [0, 2, 1],
    )  # fmt: skip


@cache
def categorical():
    rows = np.column_stack([IRIS[:, 2], SPECIES == 1])
    model = RandomForestClassifier(3, random_state=0).fit(rows, SPECIES)
    return Problem.of(
        model, rows[[0, 77]], sensitive=[0, 1], mechanisms=["pm", "krr:k=5"], epsilons=EPSILONS,
        domain={0: (1, 7), 1: [False, True]}, y=None,
    )  # fmt: skip


def everything():
    for name in ZOO:
        yield from (problem(name, with_y) for with_y in (False, True))
    yield categorical()


def settings(engine, seed=0, progress=lambda share: None, miss=MISS):
    return Settings(Risk(miss).take(int(engine.draws)), TOLERANCE, None, np.random.default_rng(seed), progress)


def supported(engine, asked, limit=3):
    """Return a part of a question that the engine answers in one run, or None."""
    able = [m for m in range(asked.shape[0]) if engine.supports(asked, m) is None]
    keys = [engine.group_key(asked, m) for m in able]
    chosen = [m for m, key in zip(able, keys, strict=True) if key == keys[0]][:limit]
    return asked.only(chosen) if chosen else None


@cache
def simulated(name):
    """Return how often each label came in a simulation that knows nothing of engines: ``{label: share}`` per point.

    Shape ``(mechanisms, epsilons, records)``; mechanisms that randomise the label are left out.
    """
    asked, rng = problem(name), np.random.default_rng(5)
    predict = asked.classifier.labels
    found = np.empty(asked.shape, dtype=object)
    for m, e, r in np.ndindex(asked.shape):
        release = asked.releases[m][e]
        values = [
            feature.from_unit(mechanism.law(x).sample(DRAWS, rng), points=mechanism.points)
            for feature, mechanism, x in zip(asked.features, release.mechanisms, asked.unit[r], strict=False)
        ]
        if values:
            rows = np.full(DRAWS, r)
            labels = predict(asked.records.take(rows, dict(zip(asked.positions, values, strict=True))))
            found[m, e, r] = dict(zip(*np.unique(labels, return_counts=True), strict=True))
    return found


def test_words_are_unique_and_what_method_takes():
    words = [engine.name for engine in run.ENGINES]
    assert len(set(words)) == len(words)
    assert all(word.isidentifier() and word == word.lower() for word in words)
    assert methods() == ("auto", *words)
    assert words[-1] == "sampled"  # which takes whatever is left
    assert all(f"``{word}``" in ew.RunOptions.__doc__ for word in methods())


@every_engine
def test_every_engine_has_a_reason_or_none(engine):
    for asked in everything():
        for m in range(asked.shape[0]):
            reason = engine.supports(asked, m)
            assert reason is None or (isinstance(reason, str) and reason and not reason.endswith("."))
            if reason is None:
                assert isinstance(engine.worthwhile(asked, m), bool)
                assert engine.explain(asked, m)
                hash(engine.group_key(asked, m))


def test_each_engine_answers_some_question_of_the_zoo():
    for engine in run.ENGINES:
        assert any(supported(engine, asked) for asked in everything()), engine.name


@every_question
@every_engine
@pytest.mark.parametrize("name", ZOO)
def test_what_an_engine_supports_it_bounds(name, engine, with_y):
    """Shapes, order, range, risk, progress; the bounds meet a simulation, false-alarm rate 1e-6 for all of them."""
    asked = problem(name, with_y)
    for m in [m for m in range(asked.shape[0]) if engine.supports(asked, m) is None][:3]:
        given = settings(engine, progress=(shares := []).append)
        answer = engine.bound(asked.only([m]), given)
        if answer is None:
            assert engine.can_fall_back
            continue
        assert given.risk.spent <= Fraction(MISS)
        assert engine.draws or given.risk.spent == 0
        assert shares[-1] == 1
        assert all(0 <= a <= b <= 1 for a, b in itertools.pairwise(shares))
        assert (answer.labels_possible >= 1).all()
        assert (answer.accuracy is None) == (not with_y)
        for bounds, labels in ((answer.stability, asked.labels), (answer.accuracy, asked.y)):
            if bounds is not None:
                assert bounds.lower.shape == bounds.upper.shape == (1, *asked.shape[1:])
                assert (bounds.lower >= 0).all()
                assert (bounds.lower <= bounds.upper).all()
                assert (bounds.upper <= 1).all()
                for e, r in np.ndindex(asked.shape[1:]):
                    if engine.perturbs_label:
                        continue
                    share = simulated(name)[m, e, r].get(labels[r], 0) / DRAWS
                    assert bounds.lower[0, e, r] - OFF <= share <= bounds.upper[0, e, r] + OFF


@every_question
@pytest.mark.parametrize("name", ZOO)
def test_certain_bounds_meet_each_other(name, with_y):
    """Of all engines that draw nothing; what they say of one probability must overlap."""
    asked = problem(name, with_y)
    for m in range(asked.shape[0]):
        able = [engine for engine in run.ENGINES if not engine.draws and engine.supports(asked, m) is None]
        answers = [engine.bound(asked.only([m]), settings(engine)) for engine in able if len(able) > 1]
        for of in ("stability", "accuracy")[: 1 + with_y]:
            sides = [getattr(answer, of) for answer in answers if answer is not None]
            for one, other in itertools.permutations(sides, 2):
                assert (one.lower <= other.upper).all()


@every_engine
def test_the_same_seed_gives_the_same_answer_and_its_mechanisms_need_not_be_asked_together(engine):
    asked = next(part for name in ZOO if (part := supported(engine, problem(name, True))))
    one, other = (engine.bound(asked, settings(engine, seed=3)) for _ in range(2))
    np.testing.assert_array_equal(one.stability.lower, other.stability.lower)
    np.testing.assert_array_equal(one.accuracy.upper, other.accuracy.upper)
    if not engine.draws:
        for m in range(asked.shape[0]):
            alone = engine.bound(asked.only([m]), settings(engine))
            np.testing.assert_allclose(alone.stability.lower[0], one.stability.lower[m], atol=1e-14)
            np.testing.assert_allclose(alone.accuracy.upper[0], one.accuracy.upper[m], atol=1e-14)


@every_engine
def test_every_engine_is_asked_for_by_its_word_or_refuses_in_a_sentence(engine):
    """A linear model: what shows is the word; what cannot answer says why, and what to do."""
    model, sensitive = ZOO["line"]
    given = {
        "sensitive": sensitive, "mechanisms": "krr:k=5", "epsilons": [1.0, 4.0], "domain": RANGES, "rng": 0,
        "tolerance": 0.2, "method": engine.name,
    }  # fmt: skip
    reason = engine.supports(ask_of(given, model()), 0)
    if reason is None:
        curves = ew.stability(model(), IRIS[[57]], **given)
        assert (curves.method == engine.name).all()
        assert (curves.confidence < 1) == (curves.spent > 0)
        assert Fraction(curves.spent) <= 1 - Fraction(curves.confidence)
    else:
        with pytest.raises(ValueError, match=f"method='{engine.name}' cannot answer krr:k=5: {re.escape(reason)}; "):
            ew.stability(model(), IRIS[[57]], **given)


def ask_of(given, model):
    kept = {key: given[key] for key in ("sensitive", "mechanisms", "epsilons", "domain")}
    return Problem.of(model, IRIS[[57]], y=None, **kept)


# ---- a toy engine: one class, and one line in the table


class HalfLine(ByRecord):
    """Labels of functions that say so themselves: their one feature is compared with ``cut``."""

    name, reason = "half_line", "the function names its cut"

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse functions that do not, and noise that comes from elsewhere."""
        return None if hasattr(asked_of(problem), "cut") else "the function does not name its cut"

    def record_results(self, problem: Problem, settings: Settings):
        """Yield closed forms."""
        cut = problem.features[0].to_unit(np.array([asked_of(problem).cut])).item()
        for record, labels in records_of(problem):
            law = [[release.mechanisms[0].law(problem.unit[record, 0]) for release in row] for row in problem.releases]
            below = np.array([[float(one.mass(-np.inf, cut)) for one in row] for row in law])
            yield RecordResult(record, [outward(1 - below if label else below, 1e-15) for label in labels], 2)


def asked_of(problem):
    return problem.classifier.answer


def test_a_toy_engine_keeps_the_contract(monkeypatch):
    monkeypatch.setattr(run, "ENGINES", (HalfLine(), *run.ENGINES))
    for with_y in (False, True):
        test_what_an_engine_supports_it_bounds("function of one", HalfLine(), with_y)
        test_certain_bounds_meet_each_other("function of one", with_y)
    given = {"sensitive": 2, "mechanisms": ["pm", "krr"], "epsilons": [1.0], "domain": RANGES}
    curves = ew.stability(above, IRIS[:2], **given)
    assert (curves.method == "half_line").all()
    assert curves.confidence == 1
    assert curves.notes == ("half_line for pm, krr: the function names its cut",)
    assert (ew.stability(above, IRIS[:2], method="half_line", **given).lower == curves.lower).all()
    with pytest.raises(ValueError, match="the function does not name its cut; use method='auto'"):
        ew.stability(named, IRIS[:2], method="half_line", **given)


def test_curves_that_spent_more_than_their_confidence_allows_are_refused():
    given = {"mechanisms": "pm", "epsilons": [1.0], "domain": RANGES, "rng": 0, "tolerance": 0.2}
    curves = ew.stability(named, IRIS[[57]], sensitive=[0, 2], **given)
    assert 0 < Fraction(curves.spent) <= 1 - Fraction(curves.confidence)
    assert ew.Curves.from_dict(curves.to_dict()).spent == curves.spent
    with pytest.raises(ValueError, match=r"which is no confidence of 0\.999"):
        replace(curves, spent=0.0011)
