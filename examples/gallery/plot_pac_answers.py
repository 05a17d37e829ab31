"""
Answers by a secret model, and what they tell of every record
=============================================================

A classifier is trained on 32 halves of a pool; one of these models, which nobody knows, is consulted now and then. All
that is asked can be watched by everybody: beliefs about who is in the secret half stay within limits on every path.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.tree import DecisionTreeClassifier

from epsworth.pac import MI, ResponseServer, WorldModels

X, y = make_moons(300, noise=0.3, random_state=0)
asked, truth = make_moons(100, noise=0.3, random_state=1)
kept = WorldModels.fit(DecisionTreeClassifier(max_depth=4), X, y, worlds=32, worlds_seed=0)

figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for panel, q in zip(panels, [None, 0.6], strict=True):
    settings = {"classes": kept.classes, "fallback": "votes", "per_query": 1 / 50, "record_posterior": q}
    chances, right = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        ResponseServer(kept.models, kept.members, MI(1), ledger=f"{folder}/answers", **settings) as server,
    ):
        for row, label in zip(asked, truth, strict=True):
            right.append(server.answer([row])[0] == label)
            chances.append(server.probabilities @ kept.members)
    spent = server.spent
    panel.plot(np.array(chances), color="C0", alpha=0.1)
    panel.set_title(f"record_posterior={q}: {spent:.2f} nats, {np.mean(right):.0%} right", fontsize=10)
    panel.set_xlabel("answers")
panels[0].set_ylabel("chance of being in the secret half")
plt.show()

# %%
# Trees know the pool better than other rows. That is not protected: print both before opening a server.

print(f"most models are right on {kept.on_pool:.0%} of the pool, on {kept.accuracy(asked, truth):.0%} of other rows")
