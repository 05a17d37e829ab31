"""Learning from locally privatised data: the published mechanism beside ours, on toy problems and on real tables.

    python examples/papers/learner.py [--quick]
    EPSWORTH_DATA=... python examples/papers/learner.py    # with Adult and Stroke

"slides": overlapping cells, two groups, discrete Laplace noise, bandwidth (n alpha^2)^(-1 / (2 + 2d)) (Berrett &
Butucea 2019).  "best": the lattice of 2 to 24 intervals that is best on the test set, which nobody could know.  "ours":
`LDPClassifier` with its defaults.  Accuracy on held-out data, mean and standard error over runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC

from epsworth.learner import LDPClassifier

ALPHAS = (0.25, 0.5, 1, 2, 4, 8)
LATTICES = (2, 3, 4, 6, 8, 12, 16, 24)


@dataclass(frozen=True)
class Problem:
    """A public generator ``(n, seed) -> X, y`` and its public box."""

    name: str
    make: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    box: tuple[tuple[float, float], ...]


def blobs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(n, centers=[[-0.75] * 4, [0.75] * 4], random_state=seed)


PROBLEMS = (
    Problem("moons", lambda n, seed: make_moons(n, noise=0.3, random_state=seed), ((-2.2, 3.2), (-1.7, 2.2))),
    Problem("circles", lambda n, seed: make_circles(n, noise=0.2, factor=0.5, random_state=seed), ((-1.7, 1.7),) * 2),
    Problem("blobs d=4", blobs, ((-3.0, 3.0),) * 4),
)


def score(mechanism: str, alpha: float, problem: Problem, users: int, seed: int, m: int | None = None) -> float:
    X, y = problem.make(users, seed)
    model = LDPClassifier(alpha, problem.box, mechanism, m=m, random_state=seed).fit(X, y)
    return float(model.score(*problem.make(20_000, 10_000)))


def summary(scores: list[float]) -> str:
    return f"{np.mean(scores):.3f} ±{np.std(scores, ddof=1) / len(scores) ** 0.5:.3f}"


def toy_row(problem: Problem, alpha: float, users: int, runs: int) -> str:
    seeds = range(runs)
    slides = [score("slides", alpha, problem, users, seed) for seed in seeds]
    lattices = LATTICES if len(problem.box) == 2 else LATTICES[:4]
    best = max(([score("slides", alpha, problem, users, seed, m) for seed in seeds] for m in lattices), key=np.mean)
    ours = [score("auto", alpha, problem, users, seed) for seed in seeds]
    return " / ".join(map(summary, (slides, best, ours)))


def toy(quick: bool) -> None:
    sizes = {10**4: 10, 10**5: 5, 10**6: 2} if not quick else {10**4: 3, 10**5: 2}
    for problem in PROBLEMS:
        X, y = problem.make(5_000, 1)
        reference = SVC().fit(X, y).score(*problem.make(20_000, 10_000))
        print(f"\n{problem.name}: support vector machine on 5000 raw records {reference:.3f}")
        print("alpha  users    slides / best lattice / ours")
        for alpha in ALPHAS if not quick else (0.5, 1, 4):
            for users, runs in sizes.items():
                print(f"{alpha:5g}  {users:7d}  {toy_row(problem, alpha, users, runs)}", flush=True)


def tables(folder: Path) -> Iterator[tuple[str, tuple[np.ndarray, ...], list[tuple[float, float]]]]:
    """Yield name, train and test data, and declared public ranges."""
    names = ["age", "education-num", "hours-per-week"]
    parts = [pl.read_csv(folder / f"adult_{part}.csv.gz") for part in ("train", "test")]
    data = [(part.select(names).to_numpy().astype(float), (part["income"] == ">50K").to_numpy()) for part in parts]
    yield "Adult (age, education-num, hours)", (*data[0], *data[1]), [(17, 90), (1, 16), (1, 99)]
    stroke = pl.read_csv(folder / "stroke.csv.gz", null_values="N/A", infer_schema_length=None).drop_nulls("bmi")
    X = stroke.select("age", "bmi", "avg_glucose_level").to_numpy()
    y = stroke["stroke"].to_numpy() == 1
    held = np.arange(len(y)) % 5 == 0
    yield "Stroke (age, bmi, glucose)", (X[~held], y[~held], X[held], y[held]), [(0, 100), (10, 100), (50, 300)]


def real(folder: Path, runs: int) -> None:
    for name, (X, y, X_test, y_test), ranges in tables(folder):
        raw = HistGradientBoostingClassifier(random_state=0).fit(X, y).score(X_test, y_test)
        print(f"\n{name}: {len(y):,} users; boosting on raw records {raw:.3f}, majority class {1 - y_test.mean():.3f}")
        for alpha in (0.5, 1, 2, 4):
            row = []
            for mechanism in ("slides", "auto"):
                fitted = (LDPClassifier(alpha, ranges, mechanism, random_state=seed).fit(X, y) for seed in range(runs))
                row.append(summary([model.score(X_test, y_test) for model in fitted]))
            print(f"alpha {alpha:3g}: slides {row[0]}, ours {row[1]}", flush=True)


def main() -> None:
    warnings.simplefilter("error")
    quick = "--quick" in sys.argv[1:]
    toy(quick)
    if folder := os.environ.get("EPSWORTH_DATA"):
        real(Path(folder), 5 if quick else 20)
    else:
        print("\nEPSWORTH_DATA is unset: Adult and Stroke are left out")


if __name__ == "__main__":
    main()
