"""Generated hospital data: mixed columns with gaps, public ranges, and two pipelines fitted on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

ROWS, PUBLIC = 4_000, 0.5  # rows in all, and the share of them that is the public test split
NUMBERS = ["age", "bmi", "sbp", "heart_rate", "glucose", "visits"]
WORDS = ["sex", "ward", "smoker"]
SENSITIVE = ["age", "bmi", "sbp", "heart_rate", "glucose"]
GAPS = {"bmi": 0.08, "sbp": 0.04, "glucose": 0.3, "ward": 0.05, "smoker": 0.15}
WARDS = ["cardiology", "emergency", "general", "surgery"]
DOMAIN: dict[str, Any] = {
    "age": (0, 110), "bmi": (10, 60), "sbp": (70, 230), "heart_rate": (30, 200), "glucose": (40, 400),
    "visits": (0, 20), "sex": ["f", "m"], "ward": WARDS, "smoker": ["current", "former", "never"],
}  # fmt: skip


@dataclass(frozen=True)
class Hospital:
    """A training half, a public test half, and who was readmitted."""

    train: pd.DataFrame
    y_train: np.ndarray
    test: pd.DataFrame
    y_test: np.ndarray


def hospital(seed: int = 0, rows: int = ROWS, *, gaps: bool = True) -> Hospital:
    """Generate a hospital's records; without ``gaps`` the sensitive columns are complete, the others are not."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(58, 18, rows), 18, 105).round().astype(np.int64)
    smoker = rng.choice(["current", "former", "never"], rows, p=[0.2, 0.3, 0.5])
    bmi = np.clip(rng.gamma(30, 0.9, rows), 14, 58).round(1)
    sbp = np.clip(rng.normal(95 + 0.45 * age + 0.4 * bmi, 14), 75, 225).round()
    glucose = np.clip(rng.gamma(12, 6 + bmi / 12, rows) + 20, 45, 390).round(1)
    table = pd.DataFrame({
        "age": age, "sex": rng.choice(["f", "m"], rows), "bmi": bmi, "sbp": sbp,
        "heart_rate": np.clip(rng.normal(76 + 4 * (smoker == "current"), 13), 38, 180).round().astype(np.int64),
        "glucose": glucose, "visits": np.minimum(rng.poisson(1.5 + age / 40), 20),
        "ward": pd.Categorical(rng.choice(WARDS, rows), WARDS), "smoker": smoker,
    })  # fmt: skip
    odds = (age - 58) / 11 + (bmi - 27) / 5 + (sbp - 132) / 16 + (glucose - 117) / 30 + (smoker == "current")
    odds += 0.4 * (table["visits"].to_numpy() - 3) + (table["ward"] == "emergency").to_numpy()
    readmitted = (rng.random(rows) < 1 / (1 + np.exp(-1.2 * odds + 1))).astype(np.int64)
    for column, share in GAPS.items():
        if gaps or column not in SENSITIVE:
            table[column] = table[column].mask(rng.random(rows) < share)
    public = int(rows * PUBLIC)
    test, train = table[:public], table[public:].reset_index(drop=True)
    return Hospital(train, readmitted[public:], test, readmitted[:public])


def boosted(data: Hospital) -> Pipeline:
    """Return gradient boosting, which takes gaps as they are, behind encoded words."""
    words = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = ColumnTransformer([("numbers", "passthrough", NUMBERS), ("words", words, WORDS)])
    return make_pipeline(columns, HistGradientBoostingClassifier(random_state=0)).fit(data.train, data.y_train)


def logistic(data: Hospital) -> Pipeline:
    """Return logistic regression behind imputed, scaled numbers and imputed, encoded words."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = ColumnTransformer([("numbers", numbers, NUMBERS), ("words", words, WORDS)])
    return make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(data.train, data.y_train)


def domain_text() -> str:
    """Return the ranges as a file of a domain, in TOML."""
    lines = []
    for name, allowed in DOMAIN.items():
        numeric = isinstance(allowed, tuple)
        lower = f"lower = {allowed[0]}\nupper = {allowed[1]}" if numeric else f"categories = {allowed}"
        lines.append(f"[features.{name}]\n{lower}\n")
    return "\n".join(lines).replace("'", '"')
