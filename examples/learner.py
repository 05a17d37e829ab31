"""Learning from locally privatised data: the published mechanism beside ours, on toy problems and on real tables.

    PYTHONPATH=. python examples/learner.py [--quick] [--jobs 2]
    EPSWORTH_DATA=... PYTHONPATH=. python examples/learner.py    # with Adult and Stroke

"slides": overlapping cells, two groups, discrete Laplace noise, bandwidth (n epsilon^2)^(-1 / (2 + 2d)) (Berrett &
Butucea 2019).  "best": the lattice of 2 to 24 intervals that is best on the test set, which nobody could know.  "ours":
`LDPClassifier` with its defaults.  Accuracy on held-out data, mean and standard error over runs, as Markdown.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import t
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC

from epsworth.learner import LDPClassifier
from epsworth.parallel import in_order
from reproduction.published_lattice import Slides

ALPHAS = (0.25, 0.5, 1, 2, 4, 8)
LATTICES = {2: (2, 3, 4, 6, 8, 12, 16, 24), 4: (2, 3, 4, 6)}  # by the number of features
RUNS = {10**4: 40, 10**5: 20, 10**6: 6}
Data = tuple[np.ndarray, np.ndarray]


def blobs(n: int, seed: int) -> Data:
    return make_blobs(n, centers=[[-0.75] * 4, [0.75] * 4], random_state=seed)


def linear(n: int, seed: int) -> Data:
    """Return uniform points; the log-odds of their labels are linear."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, (rng.random(n) < 1 / (1 + np.exp(6 - 8 * X @ [1, 0.5]))).astype(int)


@dataclass(frozen=True)
class Problem:
    """A public generator ``(n, seed) -> X, y`` and its public box."""

    make: Callable[[int, int], Data]
    box: tuple[tuple[float, float], ...]


PROBLEMS = {
    "moons": Problem(lambda n, seed: make_moons(n, noise=0.3, random_state=seed), ((-2.2, 3.2), (-1.7, 2.2))),
    "circles": Problem(lambda n, seed: make_circles(n, noise=0.2, factor=0.5, random_state=seed), ((-1.7, 1.7),) * 2),
    "linear": Problem(linear, ((0.0, 1.0),) * 2),
    "blobs, d = 4": Problem(blobs, ((-3.0, 3.0),) * 4),
}


@cache
def held_out(name: str) -> Data:
    return PROBLEMS[name].make(20_000, 10_000)


def run(task: tuple[str, int, int]) -> np.ndarray:
    """Return the accuracy of one population, by epsilon, of slides, ours and the published mechanism's lattices."""
    name, users, seed = task
    box, (X, y) = PROBLEMS[name].box, PROBLEMS[name].make(users, seed)
    kinds = [(Slides.name, None), ("auto", None), *((Slides.name, m) for m in LATTICES[len(box)])]
    seeds = count(10**6 * (1 + seed))  # every learner draws its own reports

    def score(epsilon: float, mechanism: str, m: int | None) -> float:
        model = LDPClassifier(epsilon, box, mechanism, m=m, random_state=next(seeds)).fit(X, y)
        return float(model.score(*held_out(name)))

    return np.array([[score(epsilon, *kind) for kind in kinds] for epsilon in ALPHAS])


def summary(scores: np.ndarray) -> str:
    return f"{scores.mean():.3f} ± {scores.std(ddof=1) / len(scores) ** 0.5:.3f}"


def toy(runs: dict[int, int], jobs: int) -> None:
    for name, problem in PROBLEMS.items():
        X, y = problem.make(5_000, 1)
        print(f"\n{name}: support vector machine on 5000 raw records {SVC().fit(X, y).score(*held_out(name)):.3f}\n")
        print("| epsilon | users | slides | best lattice | ours |\n| --- | --- | --- | --- | --- |")
        for users, repeats in runs.items():
            tasks = [(name, users, seed) for seed in range(repeats)]
            found = np.stack(list(in_order(run, tasks, n_jobs=jobs)), axis=-1)  # alphas, kinds, runs
            for epsilon, (slides, ours, *lattices) in zip(ALPHAS, found, strict=True):
                best = max(lattices, key=np.mean)
                print(f"| {epsilon} | {users:,} | {' | '.join(map(summary, (slides, best, ours)))} |", flush=True)


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


def interval(scores: list[float]) -> str:
    """Return the mean and the 95 % interval of the expected accuracy over draws of the reports."""
    half = t.ppf(0.975, len(scores) - 1) * np.std(scores, ddof=1) / len(scores) ** 0.5
    return f"{np.mean(scores):.3f} ({np.mean(scores) - half:.3f} to {np.mean(scores) + half:.3f})"


def real(folder: Path, runs: int) -> None:
    for name, (X, y, X_test, y_test), ranges in tables(folder):
        raw = HistGradientBoostingClassifier(random_state=0).fit(X, y).score(X_test, y_test)
        print(
            f"\n{name}: {len(y):,} users; boosting on raw records {raw:.3f}, majority class {1 - y_test.mean():.3f}\n"
        )
        print("| epsilon | slides | ours |\n| --- | --- | --- |")
        for epsilon in (0.5, 1, 2, 4):
            row = []
            for mechanism in (Slides.name, "auto"):
                fitted = (
                    LDPClassifier(epsilon, ranges, mechanism, random_state=seed).fit(X, y) for seed in range(runs)
                )
                row.append(interval([model.score(X_test, y_test) for model in fitted]))
            print(f"| {epsilon} | {row[0]} | {row[1]} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer users and runs")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    warnings.simplefilter("error")
    toy({10**4: 3, 10**5: 2} if given.quick else RUNS, given.jobs)
    if folder := os.environ.get("EPSWORTH_DATA"):
        real(Path(folder), 5 if given.quick else 20)
    else:
        print("\nEPSWORTH_DATA is unset: Adult and Stroke are left out")


if __name__ == "__main__":
    main()
