"""
From a pandas frame to released rows
====================================

A frame as it comes: numbers and categories with gaps, and a column that the model does not read. Two columns are
private; what leaves is a frame of the columns that the model reads.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import epsworth as ew

rng = np.random.default_rng(0)
n = 600
people = pd.DataFrame(
    {
        "id": np.arange(n),
        "age": rng.integers(20, 90, n),
        "cigarettes": rng.poisson(6, n).clip(0, 40).astype(float),
        "drinks": rng.choice(["never", "sometimes", "often"], n, p=[0.3, 0.5, 0.2]),
        "ward": rng.choice(["north", "south"], n),
    }
)
ill = people["age"] + people["cigarettes"] + 10 * (people["drinks"] == "often") + rng.normal(0, 8, n) > 65
people.loc[rng.random(n) < 0.15, "cigarettes"] = np.nan
people.loc[rng.random(n) < 0.1, "drinks"] = None
print(people.isna().sum())

# %%
# **The model** is an ordinary pipeline that copes with the gaps itself.

numbers = make_pipeline(SimpleImputer(), StandardScaler())
words = OneHotEncoder(handle_unknown="ignore")
model = make_pipeline(
    make_column_transformer((numbers, ["age", "cigarettes"]), (words, ["drinks", "ward"])), LogisticRegression()
)
model.fit(people[:400], ill[:400])

# %%
# **The public ranges** say what a gap is read as on the device, and that cigarettes are counted in whole numbers.
# They come from what everybody knows, not from the frame.

domain = ew.Domain.of(
    {
        "cigarettes": {"lower": 0, "upper": 40, "integer": True, "missing": 0},
        "drinks": {"categories": ["never", "sometimes", "often", "unknown"], "missing": "unknown"},
    }
)

# %%
# **The answer** for rows that the model was not fitted on. The label to keep is the model's own, for the row with its
# gaps.

curves = ew.stability(
    model,
    people[400:],
    sensitive=["cigarettes", "drinks"],
    domain=domain,
    mechanisms=["pm", "sw"],
    epsilons=[1, 2, 3, 4],  # of the record: its two columns share it
    tolerance=0.05,
    over="dataset",
    seconds=5,  # bounds hold whenever it ends
    rng=0,
)
found = ew.recommend(curves, at_least=0.8)
print(found)

figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
curves.plot(axes)
plt.show()

# %%
# **The policy** is what every client runs. Age and ward pass, as the model reads them; the id is left out. The bound is
# of the average over draws; one draw of 200 rows lies some 3 % beside it.

policy = found.policy(domain)
print(policy)
released = ew.perturb(policy, people[400:].drop(columns="id"))
print(released.head())
print(f"labels that stay: {np.mean(model.predict(released) == model.predict(people[400:])):.2f}")
