"""The whole story on data that ships with scikit-learn: two classifiers, seven mechanisms, one recommendation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsworth.extras import needed
from epsworth.space import Domain
from epsworth.utility.curves import Curves
from epsworth.utility.problem import DEFAULT_MECHANISMS
from epsworth.utility.recommendation import Recommendation, recommend
from epsworth.utility.stability import stability
from epsworth.utility.tailored import NAME, tailor
from epsworth.utility.tailored_policies import joined

SENSITIVE = ("mean radius", "mean texture")
COLUMNS = (*SENSITIVE, "mean smoothness", "mean concavity", "mean symmetry")
RANGES = Domain.of({"mean radius": (5, 30), "mean texture": (5, 45)})  # declared, not taken from the data
EPSILONS = (1, 2, 3, 4, 6, 8, 12, 16)  # per record
AT_LEAST = 0.9


@dataclass(frozen=True)
class Story:
    """One classifier of the demo: its curves and the recommendations drawn from them.

    The first is among mechanisms that perturb feature by feature, the other one among all.
    """

    title: str
    curves: Curves
    on_average: Recommendation
    made_for_it: Recommendation

    def to_dict(self) -> dict[str, Any]:
        """Return what ``epsworth recommend --json`` writes."""
        return {
            "recommendation": self.made_for_it.to_dict(),
            "curves": self.curves.to_dict(),
            "domain": RANGES.to_dict(),
        }


def stories(progress: Callable[[str, float], None]) -> list[Story]:
    """Train a logistic regression and a random forest on breast-cancer data and answer for both.

    Patients perturb two of five measurements before they query; which mechanism, at which epsilon, keeps
    the diagnosis of 90 % of the queries?
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pl = needed("polars", "files", "the demo")
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
            mechanisms=DEFAULT_MECHANISMS,
            epsilons=EPSILONS,
            domain=RANGES,
            tolerance=0.025,
            over="dataset",
            y=data.target[test],
            progress=lambda share, title=title: progress(title, share),  # type: ignore[misc]
        )
        own = _tailored(fitted, table[train], table[test], data.target[test])
        every = joined(curves, replace(own, seconds=curves.seconds + own.seconds), (*DEFAULT_MECHANISMS, NAME))
        found.append(
            Story(
                title,
                every,
                recommend(curves, at_least=AT_LEAST),
                recommend(every, at_least=AT_LEAST),
            )
        )
    return found


def _tailored(model: Any, public: Any, others: Any, truth: Any) -> Curves:
    """Make a policy for a model out of public patients, and ask about others at the same epsilons of the record."""
    made = tailor(model, public, sensitive=SENSITIVE, epsilon=2, domain=RANGES, rng=0, public=True)
    own = made.stability(EPSILONS, others, y=truth)
    told = (
        f"{NAME}: a policy made for this model by epsworth tailor, out of {len(public)} other patients, who are taken "
        "for public; it holds a copy of the model",
    )
    return replace(own, notes=told)
