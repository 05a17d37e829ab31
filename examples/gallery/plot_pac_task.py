"""
Noise where a task does not mind it
===================================

The least noise for a budget is not the least harm: what counts is what noise does to the accuracy, direction by
direction. Here a classifier of flowers is released at several budgets, with both.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC

from epsworth.pac import MI, PACPrivatizer

X, y = load_iris(return_X_y=True)
X, y = X / 10, y > 1


def accuracy(model):
    return ((X @ model.coef_[0] + model.intercept_ > 0) == y).mean()  # as model.predict, many times as fast


private = PACPrivatizer(LinearSVC(dual=False), MI(1), worlds=256, worlds_seed=0, scorer=accuracy).fit(X, y)
budgets = [MI(1 / 64), MI(1 / 16), MI(1 / 4)]
figure, panel = plt.subplots(layout="constrained")
for noise, style in (("optimal", "o--"), ("task", "s-")):
    found = private.simulate_utility(accuracy, 300, budgets=budgets, noises=[noise])
    panel.semilogx([one.mi for one in found], [one.mean for one in found], style, label=noise)
panel.set_xlabel("mutual information in nats")
panel.set_ylabel("accuracy of a release")
panel.legend()
plt.show()

# %%
# The least budget, on a grid of half octaves, whose releases are right for 80 % of the flowers on average:

print(private.find_budget(accuracy, at_least=0.8, n=1000))
