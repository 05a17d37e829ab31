"""The trusted shuffler: nothing but the reports leaves, in an order that tells nothing, and full batches alone."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import numpy as np
import polars as pl
import pytest

from epsworth.learner import Aggregator, LatticeConfig, aggregate_files, shuffle_files, write_reports
from epsworth.mechanisms.words import ReplayableWords, SystemWords, random_order

CONFIG = LatticeConfig(box=(0, 1), m=8, epsilon=1)


def arrived(folder, *names, each=20):
    rng = np.random.default_rng(0)
    for name in names:
        write_reports(CONFIG, rng.random((each, 1)), rng.integers(2, size=each), folder / name)
    return [folder / name for name in names]


def reports_of(path):
    data, size = path.read_bytes(), CONFIG.report_size
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_a_batch_holds_the_reports_in_another_order_and_nothing_else(tmp_path):
    one, two = arrived(tmp_path, "one.ldp", "two.jsonl", each=100)
    batch = tmp_path / "batch.ldp"
    assert shuffle_files(CONFIG, [one, two], batch, at_least=200) == (200, True, None, None)
    found = reports_of(batch)
    assert len(found) == 200
    assert Counter(found[:]) >= Counter(reports_of(one))
    ours, theirs = aggregate_files(CONFIG, [batch]), aggregate_files(CONFIG, [one, two])
    assert (ours.tally.counts == theirs.tally.counts).all()
    assert found[:100] != reports_of(one)  # by chance with probability below 1e-100
    again = tmp_path / "again.ldp"
    shuffle_files(CONFIG, [one, two], again, at_least=200)
    assert again.read_bytes() != batch.read_bytes()


def test_every_order_is_as_likely():
    """24 orders, 24,000 draws: chi-squared with 23 degrees exceeds 60 with probability 4e-5; the seed is fixed."""
    source = ReplayableWords(0)
    seen = Counter(tuple(random_order(source.words, 4).tolist()) for _ in range(24_000))
    assert set(seen) == set(itertools.permutations(range(4)))
    assert sum((count - 1000) ** 2 / 1000 for count in seen.values()) < 60


def test_words_that_are_alike_are_drawn_again():
    class Twice(SystemWords):
        def __init__(self):
            self.left = [np.array([7, 7, 3], dtype=np.uint64), np.array([2, 9, 1], dtype=np.uint64)]

        def words(self, count):
            return self.left.pop(0)

    assert random_order(Twice().words, 3).tolist() == [2, 0, 1]


def test_a_small_batch_is_held_back(tmp_path):
    paths = arrived(tmp_path, "one.ldp")
    assert shuffle_files(CONFIG, paths, tmp_path / "batch.ldp", at_least=21) == (20, False, None, None)
    assert not (tmp_path / "batch.ldp").exists()


def test_damaged_and_foreign_files_forward_nothing(tmp_path):
    (path,) = arrived(tmp_path, "one.ldp")
    data = bytearray(path.read_bytes())
    data[CONFIG.report_size + 9] ^= 1
    (tmp_path / "damaged.ldp").write_bytes(data)
    state = tmp_path / "sums.state"
    Aggregator(CONFIG).save(state)
    other = LatticeConfig(box=(0, 1), m=4, epsilon=1)
    batch = tmp_path / "batch.ldp"
    for config, sources, target, words in (
        (CONFIG, [tmp_path / "damaged.ldp"], batch, "damaged.ldp: "),
        (other, [path], batch, "one.ldp: "),
        (CONFIG, [state], batch, "holds no reports; name files of reports"),
        (CONFIG, [path, path], batch, "is named twice: every report counts once"),
        (CONFIG, [path], path, "one.ldp"),
        (CONFIG, [path], tmp_path / "batch.jsonl", "a batch is written as .ldp"),
        (CONFIG, [tmp_path / "none.ldp"], batch, "there is no such file"),
        (LatticeConfig(box=(0, 1), m=8, epsilon=1, rows="hash"), [path], batch, "hold no ids"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            shuffle_files(config, sources, target, at_least=2)
        assert not batch.exists()
    with pytest.raises(ValueError, match="at_least must be a whole number of at least 2, got 1"):
        shuffle_files(CONFIG, [path], batch, at_least=1)


def test_the_shell_forwards_and_says_what_the_batch_keeps(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CONFIG.save("c.json")
    arrived(tmp_path, "one.ldp", each=1000)
    words = "learn shuffle c.json one.ldp -o batch.ldp --at-least 1000 --delta 1e-6"
    code, out, _ = cli(*words.split())
    assert code == 0
    forwarded, central, _, breaks = out.splitlines()
    assert forwarded.startswith("1,000 reports forwarded in random order, fingerprint ")
    assert "only a shuffled batch of 1,000 honest reports of epsilon 1 each" in central
    assert breaks.startswith("It does not hold if the shuffler and who gets the batch work together")
    code, out, _ = cli(*words.replace("batch.ldp", "more.ldp").replace("1000", "1001").split())
    assert (code, out) == (1, "Held back: 1,000 reports arrived, and 1,001 were planned with; wait for more.\n")
    code, _, err = cli(*words.replace("batch.ldp", "more.ldp").split(), "--fakes", 999)
    assert code == 2
    assert "fakes must be below 999" in err
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".ldp") == ["batch.ldp", "one.ldp"]


def test_a_round_of_a_table_passes_the_shuffler(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = {"a": rng.random(50), "job": ["none", "clerk"] * 25, "label": [0, 1] * 25}
    pl.DataFrame(table).write_csv("people.csv")
    steps = (
        "learn config t.json -b a=0:1 -c job=none,clerk --epsilon 1 --users 1000",
        "learn open t.json round.json",
        "learn report round.json people.csv r.ldp --target label",
        "learn shuffle round.json r.ldp -o batch.ldp --at-least 50 --delta 1e-4",
        "learn aggregate round.json batch.ldp -o sums.state",
    )
    for line in steps:
        code, out, err = cli(*line.split())
        assert code == 0, err
    assert out.startswith("50 reports")
