"""Learning real tables of many columns from one private report per user, beside two simple rivals, in one run.

    EPSWORTH_DATA=... python examples/learner_tables.py [--quick] [--epsilon 1]

"naive Bayes": each user is asked about one random column of eight even bins, by the one-bit report of `hadamard`
about the pair of bin and label.  "moments": each user sends one bit about a random entry of the second moments of
scaled columns and signed label; ridge regression by the noise (two labels alone).  "ours": `TableLearner` by its rule.
Users are drawn from the training rows with replacement; accuracy on held-out rows, mean and standard error over runs,
balanced accuracy in brackets, as Markdown.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from epsworth.learner import Category, Classifier, LatticeConfig, Number, TableConfig, learn_table, simulate

USERS = {
    "Dry Bean, 16 columns, 7 classes": (10**5, 10**6), "Rice, 7 columns": (3_048, 10**4, 10**5, 3 * 10**5, 10**6),
    "Adult, 14 columns": (3 * 10**5, 10**6), "Adult, 6 columns": (32_561, 3 * 10**5), "Bank, 8 columns": (10**6,),
    "Stroke, 6 columns": (10**5,),
}  # fmt: skip
BINS = 8
FLAGS = {  # of Adult: name, column, values
    "married": ("marital-status", ["Married-civ-spouse", "Married-AF-spouse"]), "male": ("sex", ["Male"]),
    "white": ("race", ["White"]), "us": ("native-country", ["United-States"]), "private": ("workclass", ["Private"]),
    "professional": ("occupation", ["Exec-managerial", "Prof-specialty"]),
    "spouse": ("relationship", ["Husband", "Wife"]),
    "degree": ("education", ["Bachelors", "Masters", "Doctorate", "Prof-school"]),
}  # fmt: skip
ADULT = {
    "age": (17, 90), "fnlwgt": (1e4, 1.5e6), "education-num": (1, 16), "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_356), "hours-per-week": (1, 99),
}  # fmt: skip
SIX = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week", "married")


@dataclass(frozen=True)
class Table:
    """Declared columns, training rows and labels, held-out rows and labels."""

    columns: list[Number | Category]
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def some(self, names: tuple[str, ...]) -> Table:
        """Return the table of some columns."""
        own = [i for i, column in enumerate(self.columns) if column.name in names]
        return Table([self.columns[i] for i in own], self.X[:, own], self.y, self.X_test[:, own], self.y_test)


def held_out(columns: list[Number | Category], X: np.ndarray, y: np.ndarray) -> Table:
    test = np.random.default_rng(0).permutation(len(y)) % 5 == 0
    return Table(columns, X[~test], y[~test], X[test], y[test])


def of_numbers(path: Path) -> Table:
    """Return a table of numbers alone; a range is where 98 % of its values lie, as if that were public."""
    frame = pl.read_csv(path)
    *names, target = frame.columns
    X = frame.select(names).to_numpy().astype(float)
    ranges = zip(names, *np.quantile(X, [0.01, 0.99], axis=0).tolist(), strict=True)
    return held_out([Number(*one) for one in ranges], X, frame[target].to_numpy())


def adult(folder: Path) -> Table:
    parts = [pl.read_csv(folder / f"adult_{part}.csv.gz") for part in ("train", "test")]
    columns = [Number(name, *ends) for name, ends in ADULT.items()] + [Category(name, (0, 1)) for name in FLAGS]
    data = []
    for part in parts:
        flags = [part[column].is_in(values).cast(pl.Int64).alias(name) for name, (column, values) in FLAGS.items()]
        data += [part.select([*ADULT, *flags]).to_numpy().astype(float), (part["income"] == ">50K").to_numpy()]
    return Table(columns, *data)


def bank(folder: Path) -> Table:
    frame = pl.read_csv(folder / "bank_attrition.csv.gz")
    ranges = {"CreditScore": (300, 850), "Age": (18, 95), "Tenure": (0, 10), "Balance": (0, 260_000),
              "NumOfProducts": (1, 4), "EstimatedSalary": (0, 200_000)}  # fmt: skip
    flags = {"HasCrCard": (0, 1), "IsActiveMember": (0, 1)}
    columns = [Number(name, *ends) for name, ends in ranges.items()] + [Category(*one) for one in flags.items()]
    return held_out(columns, frame.select([*ranges, *flags]).to_numpy().astype(float), frame["Exited"].to_numpy())


def stroke(folder: Path) -> Table:
    frame = pl.read_csv(folder / "stroke.csv.gz", null_values="N/A", infer_schema_length=None)
    ranges = {"age": (0, 100, False), "bmi": (10, 100, True), "avg_glucose_level": (50, 300, False)}
    flags = ("hypertension", "heart_disease")
    columns = [Number(name, *given) for name, given in ranges.items()] + [Category(name, (0, 1)) for name in flags]
    columns.append(Category("smoking_status", tuple(sorted(frame["smoking_status"].unique().to_list()))))
    X = np.empty((len(frame), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        X[:, j] = frame[column.name].to_list()
    return held_out(columns, X, frame["stroke"].to_numpy())


def ours(table: Table, epsilon: float, users: int, seed: int) -> np.ndarray:
    config = TableConfig(table.columns, sorted(set(table.y.tolist())), epsilon, users)
    return learn_table(config, table.X, table.y, seed, users=users).predict(table.X_test)


def even_bins(table: Table, X: np.ndarray) -> np.ndarray:
    """Return the bin of every entry: eight even ones of a range, or the value of a category."""
    found = np.empty(X.shape, dtype=int)
    for j, column in enumerate(table.columns):
        if isinstance(column, Category):
            found[:, j] = [column.number(value) for value in X[:, j].tolist()]
        else:
            own = np.array([column.low if value is None else value for value in X[:, j].tolist()], dtype=float)
            found[:, j] = np.clip((own - column.low) / (column.high - column.low) * BINS, 0, BINS - 1)
    return found


def naive_bayes(table: Table, epsilon: float, users: int, seed: int) -> np.ndarray:
    """Ask an equal part of the users about each column, by the one-bit report about bin and label."""
    rng, classes = np.random.default_rng(seed), sorted(set(table.y.tolist()))
    bins, test = even_bins(table, table.X), even_bins(table, table.X_test)
    score, part = np.zeros((len(test), len(classes))), users // len(table.columns)
    spread = 1 / np.tanh(epsilon / 2) / np.sqrt(part)
    for j, column in enumerate(table.columns):
        size = column.bins
        # a third label that nobody has makes the report one of masses, not of differences
        config = LatticeConfig((0, size), size, 1, [*range(len(classes)), -1], "hadamard", epsilon)
        y = np.searchsorted(classes, table.y)
        sums = simulate(config, bins[:, j, None] + 0.5, y, rng, users=part)
        mass = np.maximum(Classifier.from_aggregate(sums, smoothing=None).estimates[:, : len(classes)], 0)
        prior = np.bincount(y, minlength=len(classes)) / len(y)  # given to it for nothing
        whole = mass.sum(axis=1, keepdims=True)
        score += np.log((mass + 2 * spread * prior) / (whole + 2 * spread) / prior)[test[:, j]]
    return np.array(classes)[(score + np.log(prior)).argmax(axis=1)]


def moments(table: Table, epsilon: float, users: int, seed: int) -> np.ndarray:
    """Ask for one random entry of the second moments by one bit, and solve for the sign of the label."""
    rng, classes = np.random.default_rng(seed), sorted(set(table.y.tolist()))
    if len(classes) > 2:
        return np.full(len(table.y_test), classes[0])

    def scaled(X: np.ndarray) -> np.ndarray:
        ends = np.array(
            [(0, column.bins - 1) if isinstance(column, Category) else (0, BINS - 1) for column in table.columns]
        )
        own = 2 * even_bins(table, X) / ends[:, 1] - 1
        return np.column_stack([np.ones(len(X)), own])

    features, sign = scaled(table.X), 2.0 * (table.y == classes[1]) - 1
    first, second = np.triu_indices(features.shape[1])
    truth = np.concatenate([(features.T @ features / len(sign))[first, second], features.T @ sign / len(sign)])
    contrast, share = np.tanh(epsilon / 2), users // truth.size
    found = (2 * rng.binomial(share, (1 + contrast * truth) / 2) / share - 1) / contrast
    gram = np.zeros((features.shape[1],) * 2)
    gram[first, second] = gram[second, first] = found[: first.size]
    value, vector = np.linalg.eigh(gram)
    least = max(0.02, np.sqrt(features.shape[1] / share) / contrast)
    weight = vector @ (vector.T @ found[first.size :] / np.maximum(value, least))
    return np.where(scaled(table.X_test) @ weight >= 0, classes[1], classes[0])


LEARNERS: dict[str, Callable[[Table, float, int, int], np.ndarray]] = {
    "naive Bayes": naive_bayes, "moments": moments, "ours": ours,
}  # fmt: skip


def told(table: Table, found: list[np.ndarray]) -> str:
    right = np.array([np.mean(one == table.y_test) for one in found])
    labels = np.unique(table.y_test)
    even = np.mean([[np.mean(one[table.y_test == c] == c) for c in labels] for one in found])
    return f"{right.mean():.3f} ± {right.std(ddof=1) / len(right) ** 0.5:.3f} ({even:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer users and runs")
    parser.add_argument("--epsilon", type=float, default=1.0)
    given = parser.parse_args()
    if not (folder := os.environ.get("EPSWORTH_DATA")):
        print("EPSWORTH_DATA is unset: it names the folder with the tables")
        return
    data = Path(folder)
    whole = adult(data)
    tables = dict(
        zip(USERS, (of_numbers(data / "dry_bean.csv.gz"), of_numbers(data / "rice.csv.gz"), whole, whole.some(SIX),
                    bank(data), stroke(data)), strict=True)
    )  # fmt: skip
    print(f"| table | users | majority | {' | '.join(LEARNERS)} |\n| --- | --- | --- {'| --- ' * len(LEARNERS)}|")
    for name, table in tables.items():
        common = np.unique(table.y_test, return_counts=True)[1].max() / len(table.y_test)
        for users in USERS[name][: 1 if given.quick else None]:
            runs = range(2 if given.quick else 8)
            scores = [
                told(table, [learner(table, given.epsilon, users, seed) for seed in runs])
                if learner is not moments or len(set(table.y.tolist())) == 2 else "-"
                for learner in LEARNERS.values()
            ]  # fmt: skip
            print(f"| {name} | {users:,} | {common:.3f} | {' | '.join(scores)} |", flush=True)


if __name__ == "__main__":
    main()
