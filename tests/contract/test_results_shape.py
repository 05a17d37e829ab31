"""Every public result has one shape: text with numbers, escaped HTML, strict JSON, and pictures on given axes."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
import skops.io
from sklearn.cluster import KMeans
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth import exposure, learner, noise, pac
from epsworth.noise.lattice import LatticeNoise
from epsworth.policy import audit_policy, audit_sampler
from epsworth.results import Result

sys.path.insert(0, str(Path(__file__).parents[1] / "exposure"))
from exposure_worlds import world

pytestmark = pytest.mark.cases(20)  # nearly every entry of the table, in the default suite too

ROWS = np.random.default_rng(0).uniform(size=(40, 2))
DOMAIN = ew.Domain.of({"<a>": (0, 1), "b & c": (0, 1)})
TABLE = pl.DataFrame(ROWS, schema=["<a>", "b & c"])
MODEL = DecisionTreeClassifier(max_depth=2, random_state=0).fit(TABLE, np.where(ROWS.sum(axis=1) > 1, "<yes>", "<no>"))
BOTH = ["<a>", "b & c"]


def utility():
    curves = ew.stability(
        MODEL, TABLE[:3], sensitive=BOTH, mechanisms=["pm"], epsilons=[2.0, 4.0], domain=DOMAIN,
        y=["<yes>"] * 3, rng=0,
    )  # fmt: skip
    yield "Curves", curves
    yield "Bounds", curves.stability
    yield "Recommendation", ew.recommend(curves, at_least=0.5)
    yield "refusal", ew.recommend(curves, at_least=1.0)
    yield "SafeBox", ew.safe_box(MODEL, TABLE[:1], sensitive=BOTH, mechanism="pm", epsilon=4.0, domain=DOMAIN)
    yield "Split", ew.split_budget(MODEL, TABLE[:2], sensitive=BOTH, total=4.0, mechanism="pm", domain=DOMAIN, rng=0)
    yield "Radius", ew.radius(MODEL, TABLE[:1])


def released():
    policy = ew.Policy.of("krr:k=3", 1.0, DOMAIN, per="feature")
    yield "Policy", policy
    yield "Audit", audit_policy(policy)
    sampler = np.random.default_rng(0).laplace
    yield "SamplerAudit", audit_sampler(sampler, [0.0, 1.0], 1.0, draws=1000)
    with TemporaryDirectory() as folder:
        TABLE.write_csv(Path(folder) / "rows.csv")
        yield "Receipt", ew.perturb_file(policy, Path(folder) / "rows.csv", Path(folder) / "noisy.csv")


def noises():
    ranked = noise.cheapest((0, 9), confidence=0.9, delta=1e-5, region="fixed", method="published")
    yield "Ranking", ranked
    yield "Choice", ranked[0]
    yield "Optimum", noise.optimal_noise(2.0, confidence=0.95, sensitivity=1.0, delta=1e-5, lattice=1)
    yield "Grouped", noise.Grouped(20, 5, 2.0, 1.0)
    yield "Channel", noise.channel(noise.windows(5, 1), 2.0, 1.0)
    yield (
        "LatticeRelease",
        noise.release_of(LatticeNoise(masses=np.array([0.1, 0.8, 0.1]), step=0.5, shift=1, inside=1)),
    )


def exposures():
    X, y = world(60, 3)
    found = exposure.window(X, y, 0.1, rng=0)
    rows = exposure.loo(X, y, exposure.fit_base(X, y, 0.1), 0.1)
    yield "Window", found
    yield "Usefulness", found.usefulness
    yield "Neighbours", rows
    yield "Profile", exposure.profile(rows, rows.base + 0.1, 2.0)
    yield "TypicalProfile", exposure.typical_profile(rows, 2.0, rng=0, draws=3)
    yield "BlackBox", exposure.black_box(np.arange(80.0)[:, None], np.arange(80.0)[:, None] + 9, [[0.0], [1e9]])
    yield "WorstCase", exposure.worst_case(1.0, 3)
    yield "exposure.Release", exposure.release(X, y, 0.1, 1.0, n=60)
    yield "ExPost", exposure.expost_objective(X, y, rows.base, reg=6.0, noise_scale=2.0)
    asked = {"steps": 2, "learning_rate": 0.1, "clip": 1.0, "noise": 1.0, "rng": 0}
    yield "Transcript", exposure.descend(exposure.linear_gradients(X, y), np.zeros(3), **asked)


def pool():
    fitted = pac.PACPrivatizer(KMeans(2, n_init=1), pac.MI(1.0), worlds=8, worlds_seed=0).fit(ROWS[:12])
    ledger = pac.Ledger(pac.MI(2.0))
    yield "pac.Release", fitted.release(ledger)
    yield "Ledger", ledger
    yield "Exposure", fitted.audit(draws=64)
    yield "Utility", fitted.simulate_utility(lambda model: 0.5, 4)[0]
    yield "Attack", pac.lira(fitted, ROWS[:12], trials=20)


def learnt():
    yield "Plan", learner.plan(epsilon=1.0, users=1000, fakes=0)
    yield "Central", ew.shuffled(1.0, users=1000, delta=1e-6)
    config = learner.LatticeConfig(box=(0, 1), m=4, classes=("<no>", "<yes>"), mechanism="krr", epsilon=3)
    names = np.where(ROWS[:, 0] > 0.5, "<yes>", "<no>")
    sums = learner.simulate(config, ROWS[:, :1], names, np.random.default_rng(0))
    yield "Certificates", learner.Classifier.from_aggregate(sums).certificate(ROWS[:3, :1], fakes=0)
    validation = learner.PrivateValidation([lambda x: np.zeros(len(x))], epsilon=2)
    yield "Accuracies", validation.accuracies(validation.vote(np.zeros((500, 1)), np.zeros(500)), fakes=0)


def studied():
    with TemporaryDirectory() as folder:
        TABLE[:20].write_csv(Path(folder) / "t.csv")
        skops.io.dump(MODEL, Path(folder) / "<m>.skops")
        asked = {"sensitive": BOTH, "domain": DOMAIN, "mechanisms": ["pm"], "epsilons": [2, 4], "at_least": 0.5}
        yield "StudyResult", ew.Study(model="<m>.skops", table="t.csv", folder=folder, seed=1, **asked).run()


@cache
def results_of(part):
    return list(part())


PARTS = (utility, released, noises, exposures, pool, learnt, studied)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_results_share_one_shape(part, tmp_path):
    for name, result in results_of(part):
        assert isinstance(result, Result), name
        told = str(result)
        assert any(letter.isdigit() for letter in told), name
        assert " object at 0x" not in told, name
        assert "array(" not in told, name
        page = result._repr_html_()
        assert page.startswith(("<pre", "<table")), name
        assert not any(tag in page for tag in ("<a>", "<yes>", "<no>", "b & c")), name
        text = json.dumps(result.to_dict(), allow_nan=False)
        if name != "Policy":  # whose file is TOML
            path = tmp_path / f"{name}.json"
            result.save(path)
            assert json.loads(path.read_text()) == json.loads(text), name
        if hasattr(result, "load") and name != "Policy":
            again = type(result).load(path)
            assert json.dumps(again.to_dict(), allow_nan=False) == text, name
            assert str(again) == told, name


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_pictures_are_drawn_on_the_axes_that_are_given(part):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for name, result in results_of(part):
        if hasattr(result, "plot"):
            axes = pyplot.figure().subplots()
            assert result.plot(axes) is axes, name
            assert axes.has_data(), name
            assert result.plot(ax=None) is not axes, name
    pyplot.close("all")
