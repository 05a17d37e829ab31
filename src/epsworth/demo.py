"""The whole story on data that ships with scikit-learn: two classifiers, ten mechanisms, one recommendation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsworth.space import Domain
from epsworth.utility.curves import Curves
from epsworth.utility.recommendation import Recommendation, recommend
from epsworth.utility.stability import stability

SENSITIVE = ("mean radius", "mean texture")
COLUMNS = (*SENSITIVE, "mean smoothness", "mean concavity", "mean symmetry")
RANGES = Domain.of({"mean radius": (5, 30), "mean texture": (5, 45)})  # declared, not taken from the data
MECHANISMS = (
    "laplace", "laplace_clipped", "bounded_laplace", "gaussian", "gaussian_clipped",
    "pm", "sw", "exponential", "exponential_tight", "krr",
)  # fmt: skip  # those that a label is asked about in the literature; more would crowd the plot
AT_LEAST = 0.9


@dataclass(frozen=True)
class Story:
    """One classifier of the demo: its curves and the recommendations drawn from them."""

    title: str
    curves: Curves
    on_average: Recommendation
    for_the_worst: Recommendation

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "model": self.title,
            "curves": self.curves.to_dict(),
            "recommendations": [self.on_average.to_dict(), self.for_the_worst.to_dict()],
        }


def stories(progress: Callable[[str, float], None]) -> list[Story]:
    """Train a logistic regression and a random forest on breast-cancer data and answer for both.

    Patients perturb two of five measurements before they query; which mechanism, at which epsilon, keeps
    the diagnosis of 90 % of the queries?
    """
    import polars as pl
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = load_breast_cancer()
    at = [list(data.feature_names).index(name) for name in COLUMNS]
    table = pl.DataFrame(data.data[:, at], schema=list(COLUMNS))
    train, test = train_test_split(np.arange(len(table)), test_size=0.3, random_state=0, stratify=data.target)
    models = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
        "random forest": RandomForestClassifier(n_estimators=100, random_state=0, n_jobs=2),
    }
    found = []
    for title, model in models.items():
        fitted = model.fit(table[train], data.target[train])
        curves = stability(
            fitted,
            table[test],
            sensitive=SENSITIVE,
            mechanisms=MECHANISMS,
            epsilons=np.arange(1, 8.5, 0.5),
            domain=RANGES,
            tolerance=0.025,
            over="dataset",
            y=data.target[test],
            progress=lambda share, title=title: progress(title, share),  # type: ignore[misc]
        )
        found.append(
            Story(
                title,
                curves,
                recommend(curves, at_least=AT_LEAST),
                recommend(curves, at_least=AT_LEAST, on="worst"),
            )
        )
    return found
