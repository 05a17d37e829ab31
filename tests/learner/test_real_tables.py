"""Real tables, learnt from real reports: every user draws a row and flips a bit, as on a device.

Seeds are fixed, words too; a bar is a mean over runs whose standard error is a third of its distance, or less,
measured with other seeds.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from epsworth.learner import Aggregator, TableConfig, TableLearner
from epsworth.learner.wire import pack
from epsworth.mechanisms.words import ReplayableWords

EXAMPLE = Path(__file__).parents[2] / "examples" / "learner_tables.py"


@pytest.fixture(scope="module")
def tables(paper_data):
    spec = importlib.util.spec_from_file_location("learner_tables_example", EXAMPLE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    adult = module.adult(paper_data)
    yield {
        "bean": module.of_numbers(paper_data / "dry_bean.csv.gz"),
        "rice": module.of_numbers(paper_data / "rice.csv.gz"),
        "adult": adult, "adult six": adult.some(module.SIX), "bank": module.bank(paper_data),
    }  # fmt: skip
    del sys.modules[spec.name]


def learnt(table, users, seed, **given):
    """Return accuracy and balanced accuracy on held-out rows, after every round was answered by reports."""
    rng, words = np.random.default_rng(seed), ReplayableWords(seed)
    config = TableConfig(table.columns, sorted(set(table.y.tolist())), 1, users, **given)
    learner = TableLearner(config)
    while (asked := learner.open()) is not None:
        sums = Aggregator(asked)
        for part in np.array_split(rng.integers(len(table.y), size=asked.users), max(1, asked.users // 100_000)):
            messages = asked.kernel.draw(asked.admitted(table.X[part], table.y[part]), words)
            sums.add(pack(asked, asked.kernel.format.encode(messages)))
        learner.close(sums)
    right = learner.classifier().predict(table.X_test) == table.y_test
    return right.mean(), np.mean([right[table.y_test == one].mean() for one in np.unique(table.y_test)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "users", "runs", "bar"),
    [("bean", 10**5, 6, 0.84), ("rice", 10**4, 6, 0.883), ("rice", 3 * 10**5, 6, 0.89), ("adult", 3 * 10**5, 6, 0.825),
     ("adult six", 32_561, 24, 0.81)],
)  # fmt: skip
def test_real_tables_are_learnt_from_reports(tables, name, users, runs, bar):
    assert np.mean([learnt(tables[name], users, seed)[0] for seed in range(runs)]) >= bar


@pytest.mark.slow
def test_a_rare_label_is_found(tables):
    """Bank, a million users: accuracy .825, balanced .65; as if both labels were as common, balanced .7."""
    plain, balanced = learnt(tables["bank"], 10**6, 0)
    assert plain >= 0.825
    assert balanced >= 0.65
    assert learnt(tables["bank"], 10**6, 1, prior="balanced")[1] >= 0.7
