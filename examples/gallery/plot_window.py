"""
The window of epsilons worth trying
===================================

How exposed is the most exposed row of a linear model, and what does the noise cost? Between the two answers lies the
window. All of it is computed from raw data, and not private.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from epsworth.exposure import window

X, y = load_breast_cancer(return_X_y=True)
rows = np.column_stack([StandardScaler().fit_transform(X[:, :6]), np.ones(len(X))])
rows /= np.linalg.norm(rows, axis=1).max()
advice = window(rows, 2 * y - 1, l2=0.01, rng=np.random.default_rng(0))
print(advice)

# %%
# The advantage of the best membership attack on the most exposed row, and the window, if there is one.

figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
advice.plot(axes)
plt.show()
