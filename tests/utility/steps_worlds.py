"""Long computations that are kept step by step: small ones of each kind, in many pieces."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import epsworth as ew
from epsworth.exposure import fit_base, left_out, loo, usefulness, window
from epsworth.tailored import problem

X, SICK = make_classification(600, 3, n_informative=3, n_redundant=0, random_state=0)
MODEL = RandomForestClassifier(5, random_state=0).fit(X, SICK)
RANGES = {j: (float(X[:, j].min()), float(X[:, j].max())) for j in range(3)}
ROWS = X / np.linalg.norm(X, axis=1).max()


def in_words(records):
    """Answer texts, as objects."""
    return np.array(["well", "ill"], dtype=object)[MODEL.predict(records)]


def cut(patch=setattr):
    """Make pieces small."""
    patch(left_out, "PAIRS", 60_000)
    patch(usefulness, "CELLS", 60_000)
    patch(problem, "PIECE", 2_000)


def a_policy(model=MODEL, table=X, **settings):
    """Return all that is known of a tailored policy, as a text."""
    asked = {"sensitive": [0, 1], "epsilon": 2, "domain": {j: RANGES[j] for j in (0, 1)}, "rng": 0, "public": True,
             "surrogate": "tree"} | settings  # fmt: skip
    made = ew.tailor(model, table, **asked)
    return made.policy.to_toml() + json.dumps(made.to_dict()) + repr(made.rows.tolist())


def a_policy_in_words(**settings):
    """Return that of a function whose labels are texts."""
    return a_policy(in_words, **settings)


def some_neighbours(rows=ROWS, labels=SICK, l2=0.01, **settings):
    """Return models without each row, as a text."""
    found = loo(rows, labels, fit_base(rows, labels, l2), l2, "exact", **settings)
    return found.deltas.tobytes().hex() + found.errors.tobytes().hex()


def a_window(rows=ROWS, labels=SICK, l2=0.01, **settings):
    """Return a window of epsilons, as a text."""
    found = window(rows, labels, l2, **({"rng": 1} | settings))
    return json.dumps(found.to_dict()) + found.neighbours.deltas.tobytes().hex() + repr(found.usefulness.kept_lower)


MAKERS = {one.__name__: one for one in (a_policy, a_policy_in_words, some_neighbours, a_window)}
CASES = [pytest.param(one, id=name) for name, one in MAKERS.items()]
