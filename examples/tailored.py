"""A tailored policy from beginning to end, on data that ships with scikit-learn: some seconds.

    python examples/tailored.py

Thirty measurements of a tumour at epsilon 2 for all of them together: mechanisms per measurement lose the label, and
one randomised region keeps it nine times out of ten.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import epsworth as ew


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    fit, public, people = np.split(order, [200, 420])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[fit], y[fit])
    domain = {j: (float(X[:, j].min()), float(X[:, j].max())) for j in range(30)}  # public ranges

    # the model's owner
    made = ew.tailor(
        model, X[public], sensitive=list(range(30)), epsilon=2, domain=domain, rng=0, public=True, holdout=0.5
    )
    print(made)

    # a client; nothing else leaves it
    sent = ew.perturb(made.policy, X[people])
    kept = np.mean(model.predict(sent) == model.predict(X[people]))
    print(f"labels kept of {len(people)} people: {kept:.3f}; expected {made.kept:.3f}")

    # the same epsilon, split over thirty measurements
    split = ew.perturb(ew.Policy.of("pm", 2, ew.Domain.of(domain)), X[people])
    print(f"with pm at 2/30 each: {np.mean(model.predict(split) == model.predict(X[people])):.3f}")


if __name__ == "__main__":
    main()
