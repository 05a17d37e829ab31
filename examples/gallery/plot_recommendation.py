"""
Curves and a recommendation
===========================

How often does a logistic regression keep its label if two of four measurements are perturbed, and which mechanism
does it at the least epsilon?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import epsworth as ew

X, y = load_iris(return_X_y=True)
model = LogisticRegression(max_iter=1000).fit(X[::2], y[::2])
curves = ew.stability(
    model,
    X[1::2],  # held out
    sensitive=[2, 3],  # length and width of the petals
    domain={2: (0, 8), 3: (0, 3)},  # declared, not taken from the data
    mechanisms=["pm", "sw", "laplace_clipped", "krr:k=33"],
    epsilons=np.arange(1, 9),  # of a flower, whose measurements share it
    tolerance=0.03,
    over="dataset",
    rng=0,
)
found = ew.recommend(curves, at_least=0.8)
print(found)

# %%
# Both ends of every interval hold together, with the probability that stands in the answer. The recommendation reads
# the lower one.

figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
curves.plot(axes)
plt.show()
