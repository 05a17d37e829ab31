"""What tailored policies keep on six public data sets, beside mechanisms per feature: the tables of docs/tailored.md.

    EPSWORTH_DATA=... python examples/tailored_table.py [--quick] [--no-features] [PART ...]

Every classifier is fitted on one part of the records, the policy is built from another, and what is kept is measured on
a third that neither saw; epsilon is that of the whole record.  Parts: ``table``, ``bank``, ``several``, ``fidelity``,
``draws``; by default all of them.  Mechanisms per feature (``--no-features`` leaves them out) take most of the time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import epsworth as ew

EPSILONS = (1, 2, 4)
EVERY = ("pm", "sw", "krr:k=2", "krr:k=11", "laplace_clipped")
FEW = ("pm", "krr:k=2")  # of tables with words, where each takes long
ADULT = {
    "age": (0, 100), "education-num": (0, 16), "capital-gain": (0, 100_000), "capital-loss": (0, 5000),
    "hours-per-week": (0, 100),
}  # fmt: skip
INCOME = {"<=50K": 0, ">50K": 1}


@dataclass(frozen=True)
class Problem:
    """A fitted classifier, public records, and records that saw neither the classifier nor the policy."""

    name: str
    model: Any
    public: pd.DataFrame
    unseen: pd.DataFrame
    truth: Any
    sensitive: tuple[str, ...]
    domain: dict[str, Any]
    surrogate: str
    mechanisms: tuple[str, ...] = EVERY
    records: int = 100  # that mechanisms per feature are asked about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small tables and few records: shows that it runs")
    parser.add_argument("--no-features", action="store_true", help="leave mechanisms per feature out")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    data = Data(Path(os.environ["EPSWORTH_DATA"]), asked.quick)
    for part in asked.parts or PARTS:
        began = time.perf_counter()
        PARTS[part](data, not asked.no_features)
        print(f"({part}: {time.perf_counter() - began:.0f} s)\n", flush=True)


@dataclass(frozen=True)
class Data:
    """The folder with the data sets, and whether a small part of each will do."""

    folder: Path
    quick: bool

    def most(self, n: int) -> int:
        """Return how many of n records to use."""
        return min(n, 1500) if self.quick else n

    def problem(
        self, name: str, model: Any, X: pd.DataFrame, y: Any, parts: tuple[int, int, int], surrogate: str,
        sensitive: Sequence[str] | None = None, domain: dict[str, Any] | None = None, **settings: Any,
    ) -> Problem:  # fmt: skip
        """Shuffle, cut into three, and fit on the first."""
        order = np.random.default_rng(0).permutation(len(X))
        ends = np.cumsum([self.most(n) for n in parts])
        fit, public, unseen = np.split(order[: ends[-1]], ends[:-1])
        names = tuple(X.columns if sensitive is None else sensitive)
        fitted = clone(model).fit(X.iloc[fit], np.asarray(y)[fit])
        return Problem(
            name, fitted, X.iloc[public], X.iloc[unseen], np.asarray(y)[unseen], names,
            {c: (domain or _ranges(X))[c] for c in names}, surrogate, **settings,
        )  # fmt: skip

    def breast_cancer(self, width: int) -> Problem:
        """Return two measurements and a forest, or thirty and a linear model."""
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        linear = make_pipeline(StandardScaler(), LogisticRegression())
        model = RandomForestClassifier(random_state=0) if width == 2 else linear
        name = f"breast cancer {width}, {'forest' if width == 2 else 'logistic'}"
        return self.problem(name, model, X.iloc[:, :width], y, (200, 220, 149), "tree:256" if width == 2 else "linear")

    def adult(self, sensitive: str) -> Problem:
        """Return 13 columns, 8 of them words; all or only the numbers are sensitive."""
        tables = [pd.read_csv(self.folder / f"adult_{part}.csv.gz") for part in ("train", "test")]
        X = pd.concat(tables, ignore_index=True).drop(columns="fnlwgt")
        y = X.pop("income").map(INCOME)
        words = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
        X[words] = X[words].astype("category")
        model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
        domain = ADULT | {c: list(X[c].cat.categories) for c in words}
        names = list(X) if sensitive == "all" else [c for c in X if c not in words]
        return self.problem(
            f"Adult {len(names)} of {X.shape[1]}, boosting", model, X, y, (20_000, 20_000, 8_000), "tree:256",
            names, domain, mechanisms=FEW, records=40,
        )  # fmt: skip

    def bank(self) -> Problem:
        """Return nine numbers, two of them sensitive."""
        X = pd.read_csv(self.folder / "bank_paper_inputs.csv.gz")
        y = X.pop("Exited")
        return self.problem(
            "Bank 2 of 9, forest", RandomForestClassifier(random_state=42), X, y, (4_000, 4_000, 2_000), "tree:256",
            ["Age", "EstimatedSalary"], {"Age": (0, 1), "EstimatedSalary": (0, 1)}, mechanisms=FEW,
        )  # fmt: skip

    def bean(self, model: Any = None, name: str = "network", surrogate: str = "linear") -> Problem:
        """Return 16 measurements, seven kinds."""
        X = pd.read_csv(self.folder / "dry_bean.csv.gz")
        y = X.pop("Class")
        network = make_pipeline(StandardScaler(), MLPClassifier((32, 16), max_iter=100, random_state=0))
        return self.problem(
            f"Dry Bean 16, {name}", network if model is None else model, X, y, (4_500, 6_000, 3_000), surrogate,
            records=40,
        )  # fmt: skip

    def mnist(self) -> Problem:
        """Return 49 pixels, ten digits."""
        data = np.load(self.folder / "mnist_7x7.npz")
        names = [f"pixel{i}" for i in range(49)]
        X = pd.DataFrame(data["x_train"].reshape(-1, 49) / float(data["scale"]), columns=names)
        model = MLPClassifier((16,), max_iter=30, random_state=0)
        return self.problem(
            "MNIST 7x7, network", model, X, data["y_train"], (20_000, 20_000, 5_000), "relu",
            domain=dict.fromkeys(names, (0, 1)), records=40,
        )  # fmt: skip


def _ranges(X: pd.DataFrame) -> dict[str, Any]:
    """Return public ranges: of these tables, which are public."""
    return {
        c: list(X[c].cat.categories) if isinstance(X[c].dtype, pd.CategoricalDtype)
        else (float(X[c].min()), float(X[c].max()))
        for c in X
    }  # fmt: skip


def made(problem: Problem, epsilon: float = 2, **settings: Any) -> Any:
    return ew.tailor(
        problem.model, problem.public, sensitive=list(problem.sensitive), epsilon=epsilon, domain=problem.domain,
        rng=0, public=True, **settings,
    )  # fmt: skip


def shares(values: Any) -> str:
    return " / ".join("-" if np.isnan(v) else f"{v:.3f}".removeprefix("0") for v in np.asarray(values, dtype=float))


def per_feature(problem: Problem, epsilons: Sequence[float], quick: bool, of: str = "stability") -> Any:
    """Return the best average of mechanisms that perturb each feature at an equal part of the record's epsilon."""
    count = 15 if quick else problem.records
    X, y = problem.unseen.iloc[:count], problem.truth[:count]
    each = [epsilon / len(problem.sensitive) for epsilon in epsilons]
    curves = ew.stability(
        problem.model, X, sensitive=list(problem.sensitive), mechanisms=list(problem.mechanisms),
        per="feature", epsilons=each, domain=problem.domain,
        tolerance=0.05, over="dataset", rng=0, **({"y": y} if of == "accuracy" else {}),
    )  # fmt: skip
    lower, upper = curves.average(of)
    return ((lower + upper) / 2).max(axis=0)


def table(data: Data, features: bool) -> None:
    """Print what is kept per feature, by the exact copy, by a surrogate, and what no mechanism exceeds."""
    print(f"share of labels kept, epsilon {' / '.join(map(str, EPSILONS))} per record")
    for problem in _problems(data):
        labels = len(set(problem.model.classes_))
        ceiling = [np.exp(e) / (np.exp(e) + labels - 1) for e in EPSILONS]
        own = per_feature(problem, EPSILONS, data.quick) if features else [np.nan] * 3
        print(f"{problem.name} ({len(problem.public):,} public, {len(problem.unseen):,} unseen records)")
        print(f"  per feature {shares(own)}   ceiling {shares(ceiling)}")
        for kind in dict.fromkeys(("auto", problem.surrogate)):
            print(f"  {_told(problem, kind)}", flush=True)
    for name, problem in (("breast cancer 30", data.breast_cancer(30)), ("Adult 13", data.adult("all"))):
        curve = made(problem).stability([4], problem.unseen, y=problem.truth)
        h = np.mean(problem.model.predict(problem.unseen) == problem.truth)
        own = per_feature(problem, [4], data.quick, "accuracy") if features else [np.nan]
        accuracy = float(curve.average("accuracy").lower[0, 0])
        print(f"accuracy at 4, {name}: per feature {shares(own)}, tailored {accuracy:.3f}, the classifier {h:.3f}")


def _problems(data: Data) -> Iterator[Problem]:
    yield data.breast_cancer(2)
    yield data.breast_cancer(30)
    yield data.adult("all")
    yield data.adult("numbers")
    yield data.bean()
    yield data.bean(RandomForestClassifier(random_state=0), "forest", "tree:256")
    yield data.mnist()


def _told(problem: Problem, kind: str) -> str:
    began = time.perf_counter()
    policy = made(problem, surrogate=kind)
    took = time.perf_counter() - began
    kept = policy.stability(EPSILONS, problem.unseen).average().lower[0]
    return (
        f"{policy.copied}: {shares(kept)}  agreement {policy.agreement:.3f}, {policy.size / 1000:.1f} kB, {took:.0f} s"
    )


def bank(data: Data, features: bool) -> None:
    """Print where public features nearly decide: the worst case is dearly paid for, the average is not."""
    for problem, epsilons in ((data.bank(), (0.5,)), (data.adult("numbers"), (0.5, 1, 2))):
        own = per_feature(problem, epsilons, data.quick) if features else [np.nan] * len(epsilons)
        print(f"{problem.name}, epsilon {' / '.join(map(str, epsilons))}: per feature {shares(own)}")
        for wish in ("worst", "average"):
            policies = [made(problem, epsilon, wish=wish) for epsilon in epsilons]
            kept = policies[0].stability(epsilons, problem.unseen).average().lower[0]
            rest = (
                f"balanced {shares([p.balanced for p in policies])}, constant {shares([p.constant for p in policies])}"
            )
            print(f"  {wish} ({policies[0].copied}): {shares(kept)}; {rest}", flush=True)


def several(data: Data, features: bool) -> None:
    """Print one release for three classifiers of Dry Bean, beside three releases at a third of epsilon each."""
    problem = data.bean()
    X, rng = pd.concat([problem.public, problem.unseen]), np.random.default_rng(1)
    own = problem.model.predict(X)
    rows = rng.permutation(len(X))[:3000]
    others = [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X.iloc[rows], y[rows])
        for y in (np.isin(own, ["DERMASON", "SIRA", "SEKER"]), X["Area"].to_numpy() > X["Area"].median())
    ]
    joint = made(problem, 4, classifiers=others)
    released = ew.perturb(joint.policy, problem.unseen)
    kept = [np.mean(h.predict(released) == h.predict(problem.unseen)) for h in (problem.model, *others)]
    alone = [
        made(replace(problem, model=h)).stability([4 / 3], problem.unseen).average().lower[0, 0]
        for h in (problem.model, *others)
    ]
    print(f"Dry Bean, three classifiers, epsilon 4, {len(set(joint.plan.labels))} regions: one release {shares(kept)}")
    print(f"  three releases at 4/3 {shares(alone)}")


def fidelity(data: Data, features: bool) -> None:
    """Print labels kept and the average distance of what is sent from the record, in sides of the cube."""
    problem = data.adult("numbers")
    print(f"{problem.name}, 32 cells: stability and error")
    for epsilon, wish in ((4, 0.0), (4, 1.0), (4, 10.0), (4, 100.0), (8, 1.0)):
        policy = made(problem, epsilon, cells=32, fidelity=wish)
        kept = policy.stability([epsilon], problem.unseen).average().lower[0, 0]
        error = _error(problem, ew.perturb(policy.policy, problem.unseen))
        print(f"  epsilon {epsilon}, lambda {wish:g}: {shares([kept, error])} ({policy.copied})", flush=True)
    middle = problem.public[list(problem.sensitive)].median()
    print(f"  a constant: error {_error(problem, problem.unseen.assign(**middle.to_dict())):.3f}")


def _error(problem: Problem, sent: pd.DataFrame) -> float:
    sides = {c: high - low for c, (low, high) in problem.domain.items()}
    return float(np.mean([(sent[c] - problem.unseen[c]).abs().mean() / side for c, side in sides.items()]))


def draws(data: Data, features: bool) -> None:
    """Print how far the means of what is sent, any listed record of a region, lie from one region's own."""
    problem = data.adult("numbers")
    policies = {draw: made(problem, 4, draw=draw) for draw in (False, True)}
    for draw, policy in policies.items():
        kept = policy.stability([4], problem.unseen).average().lower[0, 0]
        sent = ew.perturb(policy.policy, problem.unseen)
        sides = {c: high - low for c, (low, high) in problem.domain.items()}
        off = [abs(sent[c].mean() - problem.unseen[c].mean()) / side for c, side in sides.items()]
        print(f"draw={draw}: kept {kept:.3f}, means off by {shares(off)} of a side")


PARTS: dict[str, Callable[[Data, bool], None]] = {
    "table": table, "bank": bank, "several": several, "fidelity": fidelity, "draws": draws,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
