"""
One policy for one classifier
=============================

Thirty measurements of a tumour, all of them sensitive. A mechanism per measurement has to share the epsilon; a policy
made for the classifier spends it once, on the region of the decision map, and comes up to the ceiling of any
mechanism.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import epsworth as ew

X, y = load_breast_cancer(return_X_y=True)
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X[:200], y[:200])
public, others = X[200:420], X[420:440]
everything = list(range(30))
made = ew.tailor(model, public, sensitive=everything, epsilon=2, rng=0, public=True)
print(made)

# %%
# What other mechanisms keep of twenty more records, at the same epsilons *of the record*.

totals = np.array([0.5, 1, 2, 3, 4, 6])
ranges = {i: (float(X[:, i].min()), float(X[:, i].max())) for i in everything}  # X is public here
per_feature = ew.stability(
    model,
    others,
    sensitive=everything,
    domain=ranges,
    mechanisms=["pm", "laplace_clipped"],
    epsilons=totals,
    tolerance=0.05,
    over="dataset",
    rng=0,
)
tailored = made.stability(totals, others)

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, style, lower in zip(["pm", "laplace_clipped"], ["s:", "^--"], per_feature.average().lower, strict=True):
    axes.plot(totals, lower, style, label=f"{name}, per feature")
axes.plot(totals, tailored.average().lower[0], "o-", label="tailored")
axes.plot(totals, [ew.ceiling(total, 2) for total in totals], "k", lw=1, label="ceiling of the worst label")
axes.set(xlabel="epsilon per record", ylabel="labels kept, guaranteed", ylim=(0, 1.02))
axes.legend()
plt.show()
