"""Classifiers from private reports: certificates, plans, tables."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from golden_results import ALGEBRA, chosen, digest, golden, json_of, known_entropy, scaled

import epsworth as ew
from epsworth import learner
from reproduction import published_lattice


def squares(n=400):
    """Return points of the unit square, and labels that depend on both coordinates."""
    rng = np.random.default_rng(6)
    X = rng.random((n, 2))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > X[:, 1]).astype(int)


def certificates(found):
    names = ("label", "p_value", "adjusted", "certified", "lower", "upper", "point", "cell")
    return chosen(found, *names) | {"spent": float(found.spent)}


ASKED = [[0.1, 0.9], [0.9, 0.1], [0.5, 0.5], [0.3, 0.2]]


def off_by_one(simulate):
    """Return a simulation with another seed."""
    return lambda config, X, y, rng=None, **given: simulate(config, X, y, rng + 1, **given)


def without_half(simulate):
    """Return a simulation that leaves out every other row."""
    return lambda config, X, y, *given, **options: simulate(config, X[::2], y[::2], *given, **options)


@golden("certificates of every mechanism", subject="epsworth.learner.simulate", mutate=off_by_one, tolerance=ALGEBRA)
def _():
    X, y = squares()
    found = {}
    for name in sorted(learner.MECHANISMS):
        config = learner.LatticeConfig(box=[(0, 1), (0, 1)], m=3, mechanism=name, epsilon="1.5")
        learnt = learner.Classifier.from_aggregate(learner.simulate(config, X, y, 3, users=60_000))
        found[name] = {
            "fingerprint": config.fingerprint(),
            "labels": learnt.predict(ASKED),
            "decision": learnt.decision_function(ASKED),
            "certificates": certificates_or_none(learnt),
        }
    return found


def certificates_or_none(learnt):
    """Return certificates, or the kind of error where a mechanism has none."""
    try:
        return certificates(learnt.certificate(ASKED, fakes=0))
    except ValueError as error:
        return type(error).__name__


@golden(
    "certificates that allow for fakes and for smoothness",
    subject="epsworth.learner.simulate",
    mutate=off_by_one,
    tolerance=ALGEBRA,
)
def _():
    X, y = squares()
    config = learner.LatticeConfig(box=[(0, 1), (0, 1)], m=3, mechanism="hadamard", epsilon=2)
    learnt = learner.Classifier.from_aggregate(learner.simulate(config, X, y, 3, users=200_000))
    smooth = learner.Holder(constant=0.2, mass=0.2)
    return {
        "fakes": certificates(learnt.certificate(ASKED, confidence=Fraction(9, 10), fakes=1000)),
        "holder": certificates(learnt.certificate(ASKED, holder=smooth, fakes=0)),
        "by": certificates(learnt.certificate(ASKED, adjust="by", fakes=0)),
        "abstain": learnt.abstain(ASKED, fakes=0),
    }


@golden(
    "plans",
    subject="epsworth.learner.plan",
    mutate=lambda f: lambda **given: f(**(given | {"confidence": 0.9})),
    tolerance=ALGEBRA,
)
def _():
    names = ("epsilon", "users", "margin", "feasible", "power", "mechanism", "fakes")
    asked = {
        "users": {"epsilon": 1, "margin": 0.02},
        "epsilon": {"users": 100_000, "margin": 0.02},
        "margin": {"users": 100_000, "epsilon": 1, "power": 0.8},
        "krr": {"epsilon": 2, "margin": 0.05, "mechanism": "krr", "m": 4, "d": 2, "mass": 0.25},
        "fakes": {"epsilon": 1, "users": 200_000, "fakes": 500},
    }
    return {name: chosen(learner.plan(**{"fakes": 0} | given), *names) for name, given in asked.items()}


@golden("shuffled reports", subject="epsworth.shuffling.clones.clone_rate", mutate=scaled(0.9), tolerance=1e-6)
def _():
    asked = {
        "any": {},
        "fakes": {"fakes": 500},
        "krr": {"mechanism": "krr", "symbols": 64},
        "oue": {"mechanism": "oue"},
        "hadamard": {"mechanism": "hadamard", "symbols": 3},
    }
    found = {name: ew.shuffled(2.0, users=5000, delta=1e-6, **given).to_dict() for name, given in asked.items()}
    found["rounds"] = ew.shuffled(1.0, users=5000, delta=1e-6).rounds(4).to_dict()
    found["back"] = ew.local_epsilon(0.25, delta=1e-6, users=5000)
    return found


@golden("rates and tails", subject="epsworth.learner.rate", mutate=scaled(0.9))
def _():
    return {
        "rate": [learner.rate(d, private=private) for d in (1, 2, 5) for private in (True, False)],
        "smooth": learner.rate(2, exponent=0.5, margin_exponent=2.0),
        "chernoff": published_lattice.chernoff([0.5, 1.0], 100, 2.0),
        "published": published_lattice.published_bound(1.0, 100, 2.0),
    }


@golden(
    "accuracy that is expected of a plan",
    subject="epsworth.learner.expected_accuracy",
    mutate=scaled(0.99),
    tolerance=ALGEBRA,
)
def _():
    X, y = squares()
    config = learner.LatticeConfig(box=[(0, 1), (0, 1)], m=3, epsilon=1)
    return learner.expected_accuracy(config, X, y, users=20_000, rng=1, runs=3)


def reports(config, X, y):
    client = learner.Client(config)
    with known_entropy():
        return [client.report(row, label) for row, label in zip(X.tolist(), y.tolist(), strict=True)]


@golden(
    "reports of devices and their sums",
    subject="epsworth.learner.Client.report",
    mutate=lambda f: lambda self, x, y: f(self, x, 1 - y),
    tolerance=ALGEBRA,
)
def _(folder):
    X, y = squares(40)
    found = {}
    for name in ("hadamard", "krr", "oue"):
        config = learner.LatticeConfig(box=[(0, 1), (0, 1)], m=3, mechanism=name, epsilon=3)
        sent = reports(config, X, y)
        sums = learner.Aggregator(config)
        sums.add(sent)
        sums.save(folder / f"{name}.json")
        learnt = learner.Classifier.from_aggregate(sums)
        found[name] = {
            "reports": [bytes(one).hex() for one in sent[:3]],
            "all": digest(b"".join(map(bytes, sent))),
            "decision": learnt.decision_function(ASKED),
        }
    return found


@golden(
    "accuracies by private votes",
    subject="epsworth.learner.PrivateValidation.vote",
    mutate=lambda f: lambda self, X, y: f(self, X, 1 - y),
    tolerance=ALGEBRA,
)
def _():
    X, y = squares(4000)
    validation = learner.PrivateValidation([lambda X: X[:, 0] > X[:, 1], lambda X: X[:, 0] > 0.5], epsilon=2)
    with known_entropy():
        found = validation.accuracies(validation.vote(X, y), fakes=0)
    return chosen(found, "estimate", "lower", "upper", "users", "spent")


@golden("an estimator of private reports", subject="epsworth.learner.simulate", mutate=without_half, tolerance=ALGEBRA)
def _():
    X, y = squares()
    model = learner.LDPClassifier(epsilon=4, bounds=[(0, 1), (0, 1)], random_state=0).fit(X, y)
    return {"labels": model.predict(ASKED), "decision": model.decision_function(ASKED), "score": model.score(X, y)}


def people(n=3000):
    """Return rows of mixed kinds, and labels that depend on them."""
    rng = np.random.default_rng(9)
    age, job = rng.uniform(0, 100, n), rng.integers(3, size=n)
    table = np.empty((n, 2), dtype=object)
    table[:, 0], table[:, 1] = age, np.array(["none", "clerk", "nurse"])[job]
    return table, np.where(0.04 * (age - 50) + 0.8 * (job == 2) + 0.5 * rng.logistic(size=n) > 0.2, "yes", "no")


@golden(
    "a table that is learnt in rounds",
    subject="epsworth.learner.learn_table",
    mutate=lambda f: lambda config, X, y, rng, **given: f(config, X, y, rng + 1, **given),
    tolerance=ALGEBRA,
)
def _():
    X, y = people()
    columns = [learner.Number("age", 0, 100), learner.Category("job", ("none", "clerk", "nurse"))]
    config = learner.TableConfig(columns, ("no", "yes"), "2", 60_000)
    learnt = learner.learn_table(config, X, y, 4, users=60_000)
    audit = learner.ScoreAudit.of(learnt, "labels")
    sums = learner.simulate(audit, X, y, 5, users=30_000)
    audited = learner.AuditedClassifier(sums)
    return {
        "fingerprint": config.fingerprint(),
        "rounds": config.rounds,
        "shares": [float(share) for share in dict(config.shares).values()],
        "decision": learnt.decision_function(X[:8]),
        "labels": learnt.predict(X[:8]),
        "accuracy": float((learnt.predict(X) == y).mean()),
        "audited": certificates(audited.certificate(X[:4], fakes=0)),
    }


@golden(
    "plans on the command line",
    subject="epsworth.learner.plan",
    mutate=lambda f: lambda **given: f(**(given | {"confidence": 0.9})),
    tolerance=ALGEBRA,
)
def _(folder):
    return json_of(folder, "learn", "plan", "--epsilon", "1", "--margin", "0.02")
