"""Kernels, policies, what they release, and policies that are tailored to a classifier."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
from golden_results import ALGEBRA, EXACT, chosen, command, digest, golden, known_entropy, scaled
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth import mechanisms
from epsworth.client import Client
from epsworth.mechanisms.words import ReplayableWords
from epsworth.policy import Ledger, Pass, Policy, Rule, audit_policy, audit_sampler

DOMAIN = ew.Domain.of({"age": (0, 100), "bmi": (10, 60), "t": (-0.1, 0.3), "job": ["clerk", "nurse", "other"]})
POLICY = Policy(
    (
        Rule(DOMAIN["age"], "pm", Decimal(1)),
        Rule(replace(DOMAIN["bmi"], missing=20), "sw", Decimal("0.3"), 13),
        Rule(DOMAIN["t"], "pm_affine:quantise=9", Decimal("2.5"), 8),
        Rule(replace(DOMAIN["job"], missing="other"), "krr", Decimal("0.1"), outside="other"),
    ),
    passing=Pass(("id",), ("name",)),
)
SAMPLED = Policy.of("sw_affine", "0.7", ew.Domain.of({"u": (0, 1), "v": (-3, 5), "w": (0, 9)}), per="feature", sample=2)
SPLIT = Policy.of("laplace_clipped", "2", ew.Domain.of({"u": (0, 1), "v": (-3, 5), "w": (0, 9)}))
PEOPLE = {
    "id": ["a", "b", "a", "c"],
    "name": ["Ann", "Bob", "Ann", "Cyd"],
    "age": [31.0, 0.0, 99.5, 50.0],
    "bmi": [22.5, 60.0, 10.0, 33.25],
    "t": [0.1, -0.1, 0.3, 0.05],
    "job": ["nurse", "clerk", "other", "nurse"],
}


def more_epsilon(kernel):
    """Return a maker of kernels that gives those of a tenth more epsilon."""
    return lambda name, epsilon, *args, **options: kernel(name, Fraction(str(epsilon)) * 11 / 10, *args, **options)


def another_row(weights):
    """Return weights of the row before."""
    return lambda self, i: weights(self, (i - 1) % self.points)


def next_output(outcomes):
    """Return draws that are one place off."""
    return lambda self, *given: (outcomes(self, *given) + 1) % self.points


def described(kernel):
    """Return the exact weights of three rows, and what is proven of them."""
    rows = sorted({0, kernel.points // 3, kernel.points - 1})
    kernel.prove()
    return {
        "points": kernel.points,
        "weights": [digest(json.dumps(kernel.weights(i))) for i in rows],
        "first weights": [kernel.weights(i)[:6] for i in rows],
        "total": [kernel.total(i) for i in rows],
        "ratio": kernel.ratio(),
        "loss": kernel.loss(),
        "delta": kernel.delta("0.5"),
        "guarantee": [type(kernel.guarantee).__name__, kernel.guarantee.epsilon, getattr(kernel.guarantee, "delta", 0)],
        "drawn": np.asarray(
            kernel.draw(np.arange(kernel.points)[:: max(1, kernel.points // 9)], words=ReplayableWords(5))
        ),
    }


@golden("kernels of every name", subject="epsworth.mechanisms.kernel", mutate=more_epsilon, tolerance=EXACT)
def _():
    options = {"krr": {"k": 5}, "pb_grr": {"k": 5}, "gaussian_clipped": {"delta": "0.01"}}
    found = {}
    for name in sorted(mechanisms.KERNELS):
        bits = {} if name == "krr" else {"bits": 6}
        found[name] = described(mechanisms.kernel(name, "0.7", **bits, **options.get(name, {})))
    return found


@golden(
    "kernels between regions",
    subject="epsworth.mechanisms.RegionKernel.outcomes",
    mutate=next_output,
    tolerance=ALGEBRA,
)
def _():
    same = mechanisms.region_kernel(np.eye(3), "1.5")
    gain = np.array([[1.0, 0.5, 0, 0], [0.4, 2.0, 0, 0.1], [0, 0, 1.0, 0.3], [0, 0.2, 0.6, 1.0]])
    found = mechanisms.region_kernel(gain, 1)
    return {
        "same": {"rows": [[float(w) for w in row] for row in same.rows], "gained": same.gained, "bound": same.bound},
        "gain": {"rows": [[float(w) for w in row] for row in found.rows], "gained": found.gained, "bound": found.bound},
        "totals": [found.total(i) for i in range(4)],
        "loss": found.loss(),
        "drawn": np.asarray(same.draw([0, 1, 2, 0, 1, 2], words=ReplayableWords(5))),
    }


@golden(
    "policies as files",
    subject="epsworth.policy.Policy.to_toml",
    mutate=lambda f: lambda self: f(self) + "#",
    tolerance=EXACT,
)
def _(folder):
    found = {}
    for name, policy in {"plain": POLICY, "sampled": SAMPLED, "split": SPLIT}.items():
        policy.save(folder / "policy.toml")
        again = ew.Policy.load(folder / "policy.toml")
        assert again == policy
        found[name] = {
            "text": (folder / "policy.toml").read_text().splitlines(),
            "fingerprint": again.fingerprint,
            "guarantee": [again.guarantee.epsilon, getattr(again.guarantee, "delta", 0), again.guarantee.unit],
            "total": again.total,
        }
    return found


@golden("outcomes of a record", subject="epsworth.mechanisms.kernel", mutate=more_epsilon)
def _():
    small = Policy.of("pm", "0.9", ew.Domain.of({"x": (0, 1), "job": ["a", "b"]}), per="feature", bits=2)
    some = small.outcomes({"x": 0.3, "job": "b"})
    return [[value, float(share)] for value, share in some]


@golden(
    "released frames and arrays",
    subject="epsworth.mechanisms.two_level.TwoLevelKernel.outcomes",
    mutate=next_output,
    tolerance=EXACT,
)
def _():
    with known_entropy():
        frame = ew.perturb(POLICY, pd.DataFrame(PEOPLE))
        polars = ew.perturb(POLICY, pl.DataFrame(PEOPLE))
        array = ew.perturb(SAMPLED, pd.DataFrame({"u": [0.2, 0.9], "v": [-3.0, 1.0], "w": [9.0, 4.5]}))
        whole = ew.Policy.of("pm", 1, ew.Domain.of({"x0": (0, 1), "x1": (0, 1)}), per="feature")
        numbers = ew.perturb(whole, np.linspace(0, 1, 12).reshape(6, 2))
        many = ew.perturb(whole, np.random.default_rng(0).random((400, 2)))
    return {
        "pandas": {str(name): frame[name].tolist() for name in frame},
        "polars": polars.to_dict(as_series=False),
        "sampled": {str(name): array[name].tolist() for name in array},
        "array": np.asarray(numbers),
        "many": [float(many.sum()), float((many**2).sum())],
    }


def receipt(found):
    names = ("policy", "rows", "columns", "epsilon", "delta", "notion", "private", "stated", "person", "people", "most")
    return chosen(found, *names, "times_before", "epsilon_so_far", "delta_so_far")


@golden(
    "released files and their receipts",
    subject="epsworth.mechanisms.two_level.TwoLevelKernel.outcomes",
    mutate=next_output,
    tolerance=EXACT,
)
def _(folder):
    table = pl.DataFrame(PEOPLE)
    table.write_csv(folder / "in.csv")
    table.write_ndjson(folder / "in.jsonl")
    table.write_parquet(folder / "in.parquet")
    found = {}
    for kind in ("csv", "jsonl", "parquet"):
        words = {"words": ReplayableWords(3), "person": "id", "again": True}
        told = ew.perturb_file(POLICY, folder / f"in.{kind}", folder / f"out.{kind}", **words)
        released = folder / f"out.{kind}"
        text = released.read_bytes() if kind != "parquet" else pl.read_parquet(released).write_csv().encode()
        found[kind] = {"lines": text.decode().splitlines(), "receipt": receipt(told)}
    return found


@golden(
    "what people lost by the ledger",
    subject="epsworth.policy.Ledger.spent",
    mutate=lambda f: lambda self, ids: f(self, ids[::-1]),
    tolerance=EXACT,
)
def _(folder):
    pl.DataFrame(PEOPLE).write_csv(folder / "in.csv")
    ledger = folder / "ledger"
    given = {"person": "id", "ledger": ledger, "cap": 30}
    receipts = [
        receipt(ew.perturb_file(POLICY, folder / "in.csv", folder / f"out{i}.csv", again=True, **given)) for i in (1, 2)
    ]
    return {"receipts": receipts, "spent": Ledger(ledger).spent(["a", "b", "c", "z"])}


@golden(
    "records that clients send",
    subject="epsworth.client.kernels.TwoLevel.outcome",
    mutate=lambda f: lambda self, i, word: f(self, i, (word + 2**62) % 2**64),
    tolerance=EXACT,
)
def _():
    record = {"age": 31, "bmi": 22.5, "t": 0.1, "job": "nurse"}
    plain, sampled = Client(POLICY.for_clients()), Client(SAMPLED.for_clients())
    rng = np.random.default_rng(11)
    return {
        "words": [plain.words, sampled.words],
        "plain": [plain.replay(record, draw(rng, plain.words)) for _ in range(6)],
        "sampled": [sampled.replay({"u": 0.2, "v": 1, "w": 9}, draw(rng, sampled.words)) for _ in range(6)],
    }


def draw(rng, count):
    return [int(word) for word in rng.integers(0, 2**64, count, dtype=np.uint64)]


@golden(
    "files of a client",
    subject="epsworth.policy.Policy.for_clients",
    mutate=lambda f: lambda self: f(Policy(self.rules[::-1], passing=self.passing)),
    tolerance=EXACT,
)
def _(folder):
    POLICY.save(folder / "policy.toml")
    command(folder, "client", "policy.toml", "--output", "device", "--vectors", "20")
    document = json.loads((folder / "device" / "policy.json").read_text())
    vectors = json.loads((folder / "device" / "vectors.json").read_text())
    return {
        "policy": digest((folder / "device" / "policy.json").read_bytes()),
        "features": document["features"],
        "vectors": digest((folder / "device" / "vectors.json").read_bytes()),
        "first vectors": [json.dumps(vector) for vector in vectors["vectors"][:3]],
        "names": sorted(path.name for path in (folder / "device").iterdir()),
    }


@golden("proofs of an audit", subject="epsworth.mechanisms.kernel", mutate=more_epsilon)
def _():
    small = Policy.of("pm", "0.9", ew.Domain.of({"x": (0, 1), "job": ["a", "b"]}), per="feature", bits=6)
    found = audit_policy(small)  # its draws are fresh: it would refuse others; chance fails one in a million
    names = ("feature", "mechanism", "epsilon", "points", "quoted", "found", "inputs")
    return {
        "passed": found.passed,
        "false alarm": found.false_alarm,
        "features": [chosen(one, *names) for one in found.features],
        "checks": [[check.name, check.passed] for one in found.features for check in one.checks],
        "record": [[check.name, check.passed] for check in found.record],
    }


@golden(
    "a sampler that is refuted",
    subject="epsworth.bounds.clopper_pearson",
    mutate=lambda f: lambda hits, draws, miss: f(hits, draws, miss / 2),
    tolerance=ALGEBRA,
)
def _():
    rng = np.random.default_rng(0)
    found = audit_sampler(lambda x: rng.random(x.size) < np.where(x > 0, 0.9, 0.1), [0, 1], epsilon=1, draws=2000)
    return {
        **chosen(found, "epsilon_lower", "epsilon", "delta", "confidence", "draws", "spent"),
        "violates": found.violates,
        "kinds": [one.kind for one in found.evidence],
    }


def tailored(found):
    """Return what is compared of a tailored policy."""
    names = ("copied", "size", "agreement", "kept", "balanced", "ceiling", "constant", "certified", "records")
    form = {name: entry for name, entry in found.policy.to_dict()["tailored"].items() if name != "classifiers"}
    return {
        **chosen(found, *names),
        "held_out": found.held_out._asdict(),
        "epsilon": found.policy.total,
        "policy": form | {"copy": digest(json.dumps(form["copy"]))},
    }


def squares():
    """Return records on the unit square with labels by steps."""
    X = np.random.default_rng(8).random((240, 2)).round(3)
    y = (X[:, 0] > 0.6).astype(int) + (X[:, 1] > 0.5)
    return X, y


@golden(
    "a policy tailored to a tree",
    subject="epsworth.tailored.randomisers.Randomiser.stated",
    mutate=scaled(Fraction(9, 10)),
    tolerance=ALGEBRA,
)
def _():
    X, y = squares()
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    found = ew.tailor(model, X, sensitive=[0, 1], epsilon=2, domain={0: (0, 1), 1: (0, 1)}, rng=0, public=True)
    curves = found.stability([1, 2, 4], X[:5])
    return tailored(found) | {"curves": [curves.lower, curves.upper]}


@golden(
    "a policy tailored for the average",
    subject="epsworth.bounds.mean_interval",
    mutate=lambda f: lambda mean, n, miss, *ends: f(mean, n, miss / 2, *ends),
    tolerance=ALGEBRA,
)
def _():
    X, _ = squares()
    model = LogisticRegression(max_iter=1)
    model.coef_, model.intercept_ = np.array([[3.0, 2.0]]), np.array([-2.6])
    model.classes_, model.n_features_in_, model.n_iter_ = np.array([0, 1]), 2, np.array([1])
    found = ew.tailor(model, X, sensitive=[0], epsilon="1.5", domain={0: (0, 1)}, wish="average", rng=0, public=True)
    return tailored(found)
