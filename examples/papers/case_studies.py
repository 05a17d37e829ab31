"""The case studies of Zheng & Hu 2025 (sections 7.2.1, 7.2.2): our bounds beside the paper's statements.

    EPSWORTH_DATA=... python examples/papers/case_studies.py [--dataset]

Stroke: record 4 (age 79, bmi 24), sensitive age and bmi.  Bank: record 0 with the age changed to 22, sensitive age and
salary; (epsilon, 0.1) per record through the privacy indicator.  Classifiers: logistic regression and a forest of 100
trees, scikit-learn defaults, 80/20 stratified split, seed 42.  With --dataset also the average and the worst case over
the held-out records.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import epsworth as ew
from epsworth.mechanisms import PrivacyIndicator, family

EPSILONS = np.arange(1.0, 9.0)
DRAWS = 2_000


@dataclass(frozen=True)
class Study:
    """One data set of the paper; ``boxes`` are the hyperrectangles it prints for its two classifiers."""

    file: str
    target: str
    sensitive: tuple[str, str]
    row: int
    changes: dict[str, float]
    boxes: dict[str, tuple[tuple[float, float], tuple[float, float]]]
    mechanisms: tuple[str, ...]
    reveal: float


STROKE = Study(
    "stroke_paper_inputs.csv.gz",
    "stroke",
    ("age", "bmi"),
    4,
    {},
    {"LR": ((0.63, 1.0), (0.0, 1.0)), "RF": ((0.50, 1.0), (0.0, 0.62))},
    ("laplace_clipped", "pm", "sw", "exponential", "exponential_tight", "krr"),
    0.0,
)
BANK = Study(
    "bank_paper_inputs.csv.gz",
    "Exited",
    ("Age", "EstimatedSalary"),
    0,
    {"Age": 0.22},
    {"LR": ((0.0, 0.72), (0.0, 1.0))},
    (
        "laplace_clipped:indicator=0.1",
        "pm:indicator=0.1",
        "sw:indicator=0.1",
        "exponential:indicator=0.1",
        "krr:indicator=0.1",
        f"gaussian_clipped:delta={1 - math.sqrt(0.9)!r},calibration=theorem4",
    ),
    0.1,
)


def main() -> None:
    folder = Path(os.environ["EPSWORTH_DATA"])
    for study in (STROKE, BANK):
        table = pl.read_csv(folder / study.file)
        y, X = table[study.target].to_numpy(), table.drop(study.target)
        # a few bmi exceed the paper's scale of 50: clip them, as a client with a declared range would
        X = X.with_columns(pl.col(name).clip(0, 1) for name in study.sensitive)
        train, test = train_test_split(np.arange(len(X)), test_size=0.2, stratify=y, random_state=42)
        record = X[study.row].with_columns(**{k: pl.lit(v) for k, v in study.changes.items()})
        models = {
            "LR": LogisticRegression(random_state=42, max_iter=1000),
            "RF": RandomForestClassifier(random_state=42, n_jobs=2),
        }
        for short, model in models.items():
            model.fit(X[train], y[train])
            print(f"\n{study.file}, {short}, test accuracy {(model.predict(X[test]) == y[test]).mean():.3f}")
            show(study, short, ask(model, record, study, tolerance=1e-3), model, record)
            if "--dataset" in sys.argv:
                whole = ask(model, X[test], study, tolerance=0.01)
                for title, bounds in (("average", whole.average()), ("worst", whole.worst())):
                    print(f"  {title} over {len(test)} held-out records ({whole.seconds:.0f} s)")
                    lines(whole.mechanisms, bounds.lower, bounds.upper)


def ask(model: object, X: pl.DataFrame, study: Study, **settings: object) -> ew.Curves:
    return ew.stability(
        model, X, sensitive=study.sensitive, mechanisms=study.mechanisms, epsilons=EPSILONS, rng=0, **settings
    )


def show(study: Study, short: str, curves: ew.Curves, model: object, record: pl.DataFrame) -> None:
    print(f"  record, label {curves.labels[0]}, {', '.join(sorted(set(curves.method[:, 0])))}, {curves.seconds:.2f} s")
    lines(curves.mechanisms, curves.lower[..., 0], curves.upper[..., 0])
    if short in study.boxes:
        values = record.select(study.sensitive).row(0)
        print(
            f"  the paper's statement: mass of its box {study.boxes[short]}"
            + " with the indicator" * bool(study.reveal)
        )
        claims(curves, [[published(m, e, values, study.boxes[short]) for e in EPSILONS] for m in curves.mechanisms])
    row, at = record.to_numpy()[0], [record.columns.index(name) for name in study.sensitive]
    print(f"  mean of {DRAWS} draws, the paper's empirical utility")
    empirical(lambda rows: model.predict(pl.DataFrame(rows, schema=record.columns)), row, at, curves.mechanisms)
    paper = ask(model, record, study, method="paper", tolerance=0.01)
    print(f"  the published search on our fit, {paper.queries:,} queries, {paper.seconds:.0f} s")
    claims(curves, paper.lower[..., 0].tolist())


def claims(curves: ew.Curves, rows: list[list[float]]) -> None:
    for m, (words, row) in enumerate(zip(curves.mechanisms, rows, strict=True)):
        over = [f"{e:g}" for e, c, u in zip(EPSILONS, row, curves.upper[m, :, 0], strict=True) if c > u]
        verdict = f"  above our upper bound at epsilon {', '.join(over)}" if over else ""
        print(f"    {words[:34]:34s}" + "".join(f"   {c:.3f}     " for c in row) + verdict)


def empirical(
    labels: Callable[[np.ndarray], np.ndarray], row: np.ndarray, at: Sequence[int], mechanisms: Sequence[str]
) -> None:
    """Print the shares of draws that keep the label of a row, perturbed at some positions; one coin per draw."""
    rng, own = np.random.default_rng(0), labels(row[np.newaxis])[0]
    for words in mechanisms:
        shares = []
        for epsilon in EPSILONS:
            built = family(words).build(epsilon)
            inner, reveal = (built.mechanism, built.delta) if isinstance(built, PrivacyIndicator) else (built, 0.0)
            rows = np.repeat(row[np.newaxis], DRAWS, axis=0)
            perturbed = rng.random(DRAWS) >= reveal
            rows[np.ix_(perturbed, at)] = inner.law(row[list(at)]).sample(DRAWS, rng)[perturbed]
            shares.append((labels(rows) == own).mean())
        print(f"    {words[:34]:34s}" + "".join(f"   {share:.3f}     " for share in shares))


def published(words: str, epsilon: float, values: tuple[float, ...], box: tuple[tuple[float, float], ...]) -> float:
    """Mass of the box, as the paper states it (its factor (1 - omega)(1 - tau) dropped, as in its figures)."""
    built = family(words).build(epsilon)
    inner, reveal = (built.mechanism, built.delta) if isinstance(built, PrivacyIndicator) else (built, 0.0)
    mass = math.prod(float(inner.law(x).mass(*side)) for x, side in zip(values, box, strict=True))
    return reveal + (1 - reveal) * mass


def lines(names: tuple[str, ...], lower: np.ndarray, upper: np.ndarray) -> None:
    for name, low, high in zip(names, lower, upper, strict=True):
        cells = "".join(
            f"{np.floor(a * 1e3) / 1e3:.3f}..{np.ceil(b * 1e3) / 1e3:.3f} " for a, b in zip(low, high, strict=True)
        )
        print(f"    {name[:34]:34s}{cells}")


if __name__ == "__main__":
    main()
