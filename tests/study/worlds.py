"""A model, a table and a study of them, in the current folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import skops.io
from sklearn.linear_model import LogisticRegression

STUDY = """\
model = "model.skops"
table = "people.csv"
sensitive = ["age", "bmi"]
epsilons = [0.50, 1, 2, 4]
per = "feature"
mechanisms = ["pm", "krr:k=9"]
at_least = 0.7
max_epsilon = 8
method = "sampled"
tolerance = 0.1
seed = 1

[domain.age]
lower = 0
upper = 100

[domain.bmi]
lower = 15
upper = 40
"""
RANGES = "[features.age]\nlower = 0\nupper = 100\n\n[features.bmi]\nlower = 15\nupper = 40\n"


def made(folder: Path, study: str = STUDY, rows: int = 24) -> Path:
    """Write model, table and study, and return the study's path."""
    rng = np.random.default_rng(0)
    age, bmi = rng.uniform(1, 99, rows), rng.uniform(16, 39, rows)
    ill = (age + 2 * bmi > 105).astype(int)
    model = LogisticRegression(max_iter=1000).fit(np.column_stack([age, bmi]), ill)
    model.feature_names_in_ = np.array(["age", "bmi"], dtype=object)
    skops.io.dump(model, folder / "model.skops")
    pl.DataFrame({"age": age, "bmi": bmi, "ill": ill}).write_csv(folder / "people.csv")
    (folder / "ranges.toml").write_text(RANGES)
    (folder / "study.toml").write_text(study)
    return folder / "study.toml"


def changed(study: str = STUDY, **lines: str | None) -> str:
    """Return a study with some lines written otherwise, or left out."""
    head, _, domain = study.partition("\n\n[")
    kept = [line for line in head.split("\n") if line.partition(" = ")[0] not in lines]
    kept += [f"{name} = {value}" for name, value in lines.items() if value is not None]
    return "\n".join(kept) + "\n\n[" + domain
