"""Wrong calls from Python: one sentence that names the argument, in words of our own, and nothing is written."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.client import Client

FOREIGN = re.compile(
    r"object (is not|has no)|not iterable|out of bounds|can't decode|could not convert|truth value|broadcast"
    r"|positional argument|must be real number|not supported between|os\.PathLike|Expected 2D|\w+Error\b|<class"
)
D = {"a": (0, 1), "b": (0, 1)}
CALLS = {  # what is called, and what its sentence says
    "a model and a table exchanged": (lambda t: ask(t, t.frame, t.model), "looks like a table; give the classifier"),
    "no table": (lambda t: ask(t, t.model, None), "X must be a table of shape (records, features)"),
    "a table of one dimension": (lambda t: ask(t, t.model, [0.2, 0.7]), "X must be a table of shape"),
    "a class in place of a model": (lambda t: ask(t, LogisticRegression), "not an instance; fit one first"),
    "a model that is not fitted": (lambda t: ask(t, LogisticRegression()), "is not fitted; call fit first"),
    "a model that answers with nothing": (lambda t: ask(t, lambda X: None), "must return one label per record"),
    "an infinite value": (lambda t: ask(t, t.model, t.frame.assign(a=np.inf)), "row 0, a: the value lies outside"),
    "dates": (lambda t: ask(t, t.model, t.frame.assign(a=pd.Timestamp(0))), "a is not a column of numbers"),
    "a gap without a range": (
        lambda t: ask(t, t.model, t.frame.assign(a=np.nan), domain=None), "Declare the public ranges by domain"
    ),
    "epsilons of truths": (lambda t: ask(t, epsilons=[True]), "epsilons must be numbers, got [True]"),
    "epsilons of texts": (lambda t: ask(t, epsilons=["1"]), "epsilons must be numbers, got ['1']"),
    "a range in the wrong order": (lambda t: ask(t, domain={"a": (0, 1), "b": (1, 0)}), "upper (0) is not above lower"),
    "a domain that is a policy": (lambda t: ask(t, domain=t.policy), "domain must be a Domain, a mapping or the path"),
    "a mechanism without an option": (lambda t: ask(t, mechanisms=["pm:"]), "no option follows the colon"),
    "a mechanism under a number": (lambda t: ask(t, mechanisms={1: t.nothing}), "function of epsilon needs a name"),
    "labels that are texts of their own": (lambda t: ask(t, y="b"), "y must hold one label per record"),
    "a checkpoint among other files": (lambda t: ask(t, checkpoint=t.folder), "it holds other files"),
    "a folder of a long name": (lambda t: ask(t, checkpoint="c" * 300), "checkpoint: cannot use the folder"),
    "a folder where none can be": (lambda t: ask(t, checkpoint="/proc/none"), "cannot make the folder /proc/none"),
    "no epsilons": (lambda t: ask(t, epsilons=None), "epsilons must be numbers, got None"),
    "a table in place of mechanisms": (lambda t: ask(t, mechanisms=t.frame.to_numpy()), "mechanisms must be names, or"),
    "a table in place of a unit": (lambda t: ask(t, per=t.frame.to_numpy()), "per must be 'record' or 'feature', got"),
    "an epsilon that is not there": (
        lambda t: t.curves.population(at=[99]), "at: there is no epsilon number 99; the curves hold 0 to 1"
    ),
    "an epsilon by a text": (lambda t: t.curves.population(at="12"), "at: there is no epsilon number '1'"),
    "a record that is not there": (lambda t: t.curves.sentence("krr:k=3", 1, record=99), "there is no record 99"),
    "a delta that promises nothing": (
        lambda t: ew.recommend(t.curves, at_least=0.5, delta=1), "delta must lie in [0, 1), got 1"
    ),
    "no curves": (lambda t: ew.recommend(t.model, at_least=0.9), "curves must be what stability returns"),
    "rules of None": (lambda t: ew.Policy(None), "rules must be a sequence of Rule, got None"),
    "rules that are none": (lambda t: ew.Policy([1]), "rules must be a sequence of Rule, got [1]"),
    "a number that passes": (lambda t: ew.Policy.of("pm", 1, D, passing=3), "pass.columns: must be a list"),
    "a text that passes": (lambda t: ew.Policy.of("pm", 1, D, passing="zone"), "pass.columns: must be a list"),
    "a column without a name that passes": (lambda t: ew.Policy.of("pm", 1, D, passing=[""]), "pass.columns: must be"),
    "a feature without a name": (lambda t: ew.Policy.of("pm", 1, {"": (0, 1)}), "a name must not be empty"),
    "arguments of a policy exchanged": (lambda t: ew.Policy.of(D, 1, "pm"), "change the order"),
    "a policy saved nowhere": (lambda t: t.policy.save(None), "path must name a file, as a text or a Path, got None"),
    "a policy that is a zip archive": (lambda t: ew.Policy.load(t.folder / "zip.toml"), "is not UTF-8 text"),
    "a policy that is no TOML": (lambda t: ew.Policy.load(t.folder / "text.toml"), "holds no TOML"),
    "a table of None": (lambda t: ew.perturb(t.policy, None), "is not a data frame in memory"),
    "a source of None": (lambda t: ew.perturb_file(t.policy, None, "o.csv"), "source must name a file"),
    "a destination of a number": (lambda t: ew.perturb_file(t.policy, "i.csv", 3), "destination must name a file"),
    "a cap of a text": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", cap="x", ledger=t.folder / "l"),
        "cap: must be a finite number, got 'x'",
    ),
    "again by a text": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", ledger=t.folder / "l", again="no"),
        "again must be True or False, got 'no'",
    ),
    "words of a number": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", ledger=t.folder / "l", words=3),
        "words must be a source of words, for tests alone, got 3",
    ),
    "a kind of a list": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", kind=[None]), "the format must be"
    ),
    "a separator of a list": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", sep=[]), "sep must be a comma, a"
    ),
    "a person of an array": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", person=PAIR, ledger=t.folder / "l"),
        "person must be the name of a column",
    ),
    "huge numbers of jobs": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", jobs=1e308, ledger=t.folder / "l"),
        "jobs must be a whole number up to 65,536, -1 for all cores",
    ),
    "progress that is none": (
        lambda t: ew.perturb_files(t.policy, [t.folder / "t.csv"], t.folder / "o", progress=[], ledger=t.folder / "l"),
        "progress must be a function",
    ),
    "a map that is none": (
        lambda t: ew.perturb_files(t.policy, [t.folder / "t.csv"], t.folder / "o", map=(1,), ledger=t.folder / "l"),
        "map must be a function",
    ),
    "a kind of a table": (
        lambda t: ew.perturb_files(t.policy, [t.folder / "t.csv"], t.folder / "o", kind=t.frame, ledger=t.folder / "l"),
        "must be DataFrame of shape",
    ),
    "a cap of a table": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", cap=t.frame, ledger=t.folder / "l"),
        "cap: must be a finite number, got DataFrame of shape",
    ),
    "a ledger's name that is too long": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", ledger="l" * 5000),
        "cannot be kept (File name too long)",
    ),
    "more reports than doubles count": (
        lambda t: ew.shuffled(1.0, users=10**400, delta=1e-6), "users must be a whole number from 0 to"
    ),
    "a ledger of an array": (
        lambda t: ew.perturb_file(t.policy, t.folder / "t.csv", t.folder / "o.csv", ledger=PAIR), "must name a file"
    ),
    "a confidence of nothing": (
        lambda t: ew.safe_box(t.model, t.frame[:1], sensitive=["a"], domain=D, confidence=None), "confidence must lie"
    ),
    "a wish of an array": (lambda t: tailor(t, wish=PAIR), "wish must be one of"),
    "a surrogate of an array": (lambda t: tailor(t, surrogate=PAIR), "surrogate must be one of"),
    "cells of an array": (lambda t: tailor(t, cells=PAIR), "cells must be a whole number"),
    "classifiers of an array": (lambda t: tailor(t, classifiers=PAIR), "classifiers must be a list, or a mapping"),
    "an array per what": (lambda t: ew.Policy.of("pm", 1, D, per=PAIR), "per must be 'record' or 'feature', got"),
    "an array of what": (lambda t: ew.recommend(t.curves, at_least=0.9, of=PAIR), "of must be 'stability' or"),
    "guarantees of an array": (lambda t: ew.compose(PAIR), "parts must be a list of Pure, Probabilistic or"),
    "an epsilon beyond the doubles": (lambda t: ew.MECHANISMS["pm"](10**400), "epsilon must be a number or an array"),
    "a ceiling of a text": (lambda t: ew.ceiling("x", 2), "epsilon_total must be finite and not negative, got 'x'"),
    "a ceiling under a text": (lambda t: ew.ceiling(1, 2, delta="x"), "delta must lie in [0, 1], got 'x'"),
    "an epsilon for a text": (lambda t: ew.epsilon_needed("x", 2), "at_least must be a number, got 'x'"),
    "an epsilon for no labels": (lambda t: ew.epsilon_needed(0.9, "x"), "labels must be a whole number"),
    "guarantees that are none": (lambda t: ew.compose([1]), "parts must be a list of Pure, Probabilistic or"),
    "one guarantee that is none": (lambda t: ew.compose(5), "parts must be a list of Pure, Probabilistic or"),
    "a mechanism of a text": (lambda t: ew.MECHANISMS["pm"]("x"), "epsilon must be a number or an array of numbers"),
    "a law at a text": (lambda t: ew.MECHANISMS["pm"](1).law("secret"), "x must be a number or an array of numbers"),
    "a density that is none": (lambda t: ew.density_mechanism(3), "density must be a function of y, x and epsilon"),
    "an output of one number": (lambda t: ew.density_mechanism(t.flat, output=3), "output must be the lowest and"),
    "an output of texts": (
        lambda t: ew.density_mechanism(t.flat, output=("a", "b")),
        "output: lower must be a finite number, got 'a'; give the lowest and the highest output",
    ),
    "a density of two arguments": (lambda t: ew.density_mechanism(lambda y, x: 1)(1.0), "density: it fails where"),
    "a density that asks for one number": (
        lambda t: ew.density_mechanism(lambda y, x, e: 1 if y < x else 0)(1.0), "density: it fails where"
    ),
    "a density of another shape": (
        lambda t: ew.density_mechanism(lambda y, x, e: np.ones(3))(1.0), "it returns shape (3,), not (256, 4096)"
    ),
    "a density that divides by zero": (lambda t: ew.density_mechanism(lambda y, x, e: 1 / 0)(1.0), "density: it fails"),
    "a container that is none": (
        lambda t: ew.Perturb(t.policy).set_output(transform="zzz"), "transform must be one of 'default', 'pandas'"
    ),
    "a transformer of None": (lambda t: ew.Perturb(t.policy).transform(None), "X must be a table of shape"),
    "words of None": (lambda t: t.client.replay({"a": 1, "b": 0.5}, None), "words: must be 2 whole numbers"),
    "a record of a text": (lambda t: t.client.perturb("x"), "the record must be a mapping from name to value"),
}  # fmt: skip


RIGHT, PAIR = object(), np.array([1, 2])


def tailor(t, **other):
    """Ask for a tailored policy, otherwise than is right."""
    return ew.tailor(t.model, t.frame, sensitive=["a"], domain=D, epsilon=1, public=True, **other)


def ask(t, model=RIGHT, X=RIGHT, **other):
    """Ask about two features, otherwise than is right."""
    given = {"sensitive": ["a", "b"], "domain": D, "epsilons": [1, 2], "mechanisms": ["krr:k=3"], "rng": 0}
    return ew.stability(t.model if model is RIGHT else model, t.frame if X is RIGHT else X, **(given | other))


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """Return what is right: a model, its table, curves, a policy and its client, and a folder with files."""
    folder = tmp_path_factory.mktemp("calls")
    frame = pd.DataFrame(np.random.default_rng(0).random((20, 2)), columns=["a", "b"])
    model = LogisticRegression().fit(frame, frame["a"] + frame["b"] > 1)
    (folder / "zip.toml").write_bytes(b"PK\x03\x04\xbd")
    (folder / "text.toml").write_text("age,bmi\n1,2\n")
    frame.to_csv(folder / "t.csv", index=False)
    policy = ew.Policy.of("pm", 1, D)
    found = SimpleNamespace(
        frame=frame, model=model, folder=folder, policy=policy, client=Client(policy.for_clients()),
        flat=lambda y, x, epsilon: 1.0, nothing=lambda epsilon: None,
    )  # fmt: skip
    found.curves = ask(found)
    return found


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.cases("all")
def test_a_wrong_call_is_one_sentence(right, name, monkeypatch, tmp_path):
    call, says = CALLS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / "state"))
    before = sorted(path.name for path in right.folder.iterdir())
    with pytest.raises((TypeError, ValueError)) as caught:
        call(right)
    told = str(caught.value)
    assert says in told
    assert told.isprintable()
    assert not FOREIGN.search(told), told
    assert "secret" not in told
    assert sorted(path.name for path in right.folder.iterdir()) == before
    assert list(tmp_path.iterdir()) == []
