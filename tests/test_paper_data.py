"""The papers' own data, where the folder is at hand: known decision boundaries must lie inside our bounds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import epsworth as ew

MECHANISMS = ["laplace_clipped", "pm", "sw", "exponential", "exponential_tight", "krr"]
EPSILONS = np.arange(1.0, 9.0)


def fitted(folder, file, target):
    table = pl.read_csv(folder / file)
    y, X = table[target].to_numpy(), table.drop(target)
    train, _ = train_test_split(np.arange(len(X)), test_size=0.2, stratify=y, random_state=42)
    return LogisticRegression(random_state=42, max_iter=1000).fit(X[train], y[train]), X


@pytest.mark.parametrize(
    ("file", "target", "sensitive", "row", "change", "sure", "possible"),
    [
        ("stroke_paper_inputs.csv.gz", "stroke", ("age", "bmi"), 4, {}, (0.653, 1.0), (0.622, 1.0)),
        ("bank_paper_inputs.csv.gz", "Exited", ("Age", "EstimatedSalary"), 0, {"Age": 0.22}, (0, 0.735), (0, 0.765)),
    ],
)  # fmt: skip
def test_logistic_regression_on_the_papers_record(paper_data, file, target, sensitive, row, change, sure, possible):
    """The label depends on the first feature only, but for a strip: its masses enclose the truth."""
    model, X = fitted(paper_data, file, target)
    record = X[row].with_columns(**{name: pl.lit(value) for name, value in change.items()})
    curves = ew.stability(
        model,
        record,
        sensitive=sensitive,
        mechanisms=MECHANISMS,
        per="feature",
        epsilons=EPSILONS,
        rng=0,
        confidence=1 - 1e-6,
    )
    x = record[sensitive[0]][0]
    for m, name in enumerate(MECHANISMS):
        for e, epsilon in enumerate(EPSILONS):
            law = ew.MECHANISMS[name](epsilon).law(x)
            assert curves.upper[m, e, 0] >= law.mass(*sure)
            assert curves.lower[m, e, 0] <= law.mass(*possible)


def test_values_beyond_the_papers_scale_are_refused(paper_data):
    """A few bmi exceed the paper's constant of 50: they must be declared or clipped, not silently used."""
    model, X = fitted(paper_data, "stroke_paper_inputs.csv.gz", "stroke")
    with pytest.raises(
        ValueError,
        match=r"row \d+, bmi: the value lies outside, as in 19 more of .* rows; the declared range is 0 to 1;",
    ):
        ew.stability(model, X, sensitive=["bmi"], mechanisms="pm", epsilons=[1.0])
