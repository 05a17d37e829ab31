"""Pieces of the records give the bits of all of them, whoever does them, in whatever sizes, and after any end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import epsworth as ew
from epsworth.utility.quantities import Histogram, Totals
from parted import in_parts

RNG = np.random.default_rng(0)
MANY = RNG.random((40, 4))
WHICH = (MANY[:, 0] + MANY[:, 1] * MANY[:, 2] > 0.8).astype(int)
X, Y = MANY[:12], WHICH[:12]
FOREST = RandomForestClassifier(6, random_state=0).fit(MANY, WHICH)
LINEAR = LogisticRegression().fit(MANY, WHICH)
THREE = LogisticRegression().fit(MANY, (3 * MANY[:, 0]).astype(int))
TWO = {"sensitive": [0, 1], "epsilons": [1.0, 4.0], "rng": 3}


def beyond(records):
    return records.sum(axis=1) > 2


CASES = {
    "cells": (FOREST, TWO | {"mechanisms": ["pm", "pm:indicator=0.1", "sw"], "y": Y}),
    "lattice": (LINEAR, TWO | {"mechanisms": ["pm", "laplace_clipped"]}),
    "polygons": (THREE, TWO | {"mechanisms": ["pm"]}),
    "grid": (beyond, TWO | {"mechanisms": ["krr:k=5"], "y": Y}),
    "one grid": (lambda table: table[:, 0] > 0.4, TWO | {"mechanisms": ["krr:k=5"], "sensitive": [0, 1, 2, 3]}),
    "sampled": (beyond, TWO | {"mechanisms": ["pm", "sw"], "tolerance": 0.1, "y": Y}),
    "branch_and_bound": (FOREST, TWO | {"sensitive": [0, 1, 2], "mechanisms": ["pm"], "tolerance": 0.2,
                                        "method": "branch_and_bound"}),
    "propagation": (MLPClassifier((4,), solver="lbfgs", max_iter=2000, random_state=0).fit(MANY, WHICH),
                    TWO | {"mechanisms": ["pm"], "method": "propagation", "tolerance": 0.1}),
    "strata": (beyond, TWO | {"mechanisms": ["krr:k=300"], "tolerance": 0.1, "method": "strata"}),
    "rays": (THREE, TWO | {"mechanisms": ["laplace"], "tolerance": 0.1, "method": "rays"}),
    "label": (LINEAR, TWO | {"mechanisms": ["label_rr", "pm"]}),
}  # fmt: skip


def same(one, other):
    assert one.notes == other.notes
    assert (one.method == other.method).all()
    assert (one.confidence, one.spent, one.stopped) == (other.confidence, other.spent, other.stopped)
    np.testing.assert_array_equal(one.labels_possible, other.labels_possible)
    for bounds, others in ((one.stability, other.stability), (one.accuracy, other.accuracy)):
        if bounds is not None:
            np.testing.assert_array_equal(bounds.lower, others.lower)
            np.testing.assert_array_equal(bounds.upper, others.upper)


def sized(monkeypatch, size):
    monkeypatch.setattr("epsworth.utility.run.piece_size", lambda records, n_jobs: size)
    monkeypatch.setattr("epsworth.utility.curve_parts.piece_size", lambda records, n_jobs: size)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_the_size_of_pieces_changes_no_bit(name, tmp_path, monkeypatch):
    model, asked = CASES[name]
    whole = ew.stability(model, X, **asked)
    for size in (1, 5):
        sized(monkeypatch, size)
        (tmp_path / f"{size}").mkdir()
        same(ew.stability(model, X, **asked, checkpoint=tmp_path / f"{size}"), whole)
        if size == 5:
            parts = in_parts(model, X, **asked, folder=tmp_path / "parts")
            same(parts.whole(), whole)
            again = ew.CurveParts.load(tmp_path / "parts")
            for one, other in zip(parts.average(), again.average(), strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "one grid"])
def test_workers_change_no_bit(name):
    model, asked = CASES[name]
    same(ew.stability(model, X, **asked, n_jobs=2), ew.stability(model, X, **asked, n_jobs=1))


def test_averages_of_parts_hold_and_are_the_same_in_any_pieces():
    """The sums are exact: against fractions, and however records are grouped."""
    from fractions import Fraction

    rng = np.random.default_rng(5)
    lower = np.where(rng.random((2, 300)) < 0.2, rng.integers(2, size=(2, 300)), rng.random((2, 300)) ** 20)
    exact = rng.integers(2**53, size=(20, 300)) * 2.0**-53  # nothing is lost before the quotient is rounded
    lower = np.concatenate([lower, exact])
    upper = np.concatenate([np.minimum(1, lower[:2] + rng.random((2, 300)) * 1e-3), exact])
    every, some = Totals((22,)), Totals((22,))
    every.add(lower, upper)
    for start in range(0, 300, 7):
        some.add(lower[:, start : start + 7], upper[:, start : start + 7])
    for one, other, side, sign in zip(every.average(), some.average(), (lower, upper), (-1, 1), strict=True):
        assert (one == other).all()
        for row, found in zip(side.tolist(), one.tolist(), strict=True):
            truth = sum(map(Fraction, row)) / 300
            assert 0 <= sign * (Fraction(found) - truth) <= Fraction(2) ** -51
    assert (every.worst().lower == lower.min(axis=1)).all()
    assert (every.worst().upper == upper.min(axis=1)).all()
    half = every.average(600)
    for row, low in zip(lower.tolist(), half.lower.tolist(), strict=True):
        assert Fraction(low) <= sum(map(Fraction, row)) / 600
    for row, high in zip(upper.tolist(), half.upper.tolist(), strict=True):
        assert Fraction(high) >= (sum(map(Fraction, row)) + 300) / 600


def test_histograms_round_to_the_safe_side():
    lower, upper = np.array([[0.30004, 1.0, 0.0]]), np.array([[0.31, 1.0, 2.0**-20]])
    found = Histogram((1,))
    found.add(lower, upper)
    held = [np.repeat(found.values, found.of(side)[0]) for side in (0, 1)]
    for values, rows in zip(held, (lower[0], 1 - upper[0]), strict=True):
        assert (np.sort(values) <= np.sort(rows)).all()
        assert (np.sort(values) > np.sort(rows) - 2.0**-13).all()


@pytest.mark.slow
def test_the_population_of_parts_is_that_of_the_records(tmp_path):
    model, asked = CASES["cells"]
    parts = in_parts(model, X, **asked, folder=tmp_path / "parts")
    whole = ew.stability(model, X, **asked)
    for of in ("stability", "accuracy"):
        one, other = parts.population(of), whole.population(of)
        assert (one.lower <= other.lower + 1e-6).all()  # 20 halvings find it to 1e-6
        assert (one.upper >= other.upper - 1e-6).all()
        np.testing.assert_allclose(one.lower, other.lower, atol=3e-4)
        assert (one.records, one.confidence, one.spent) == (other.records, other.confidence, other.spent)
    chosen, wanted = (ew.recommend(curves, at_least=0.6).choice for curves in (parts, whole))
    assert (chosen.mechanism, chosen.epsilon) == (wanted.mechanism, wanted.epsilon)
    np.testing.assert_array_equal(parts.select(7).lower, whole.select(7).lower)
    assert parts.to_dict()["stability"]["average"]["lower"] == parts.average().lower.tolist()
    frame, every = parts.to_frame(), whole.to_frame()
    assert frame.drop("lower", "upper").equals(every.drop("lower", "upper"))
    np.testing.assert_allclose(frame["lower"], every["lower"], atol=1e-12)
    assert frame["upper"].to_list() == [
        x for of in ("stability", "accuracy") for on in ("average", "worst") for x in parts.select(on, of).upper.ravel()
    ]


def test_a_folder_goes_on_where_it_ended(tmp_path):
    """Stopped after some pieces, within one, and with some of them removed, it ends where it would have ended."""
    model, asked = CASES["sampled"]
    folder, within = tmp_path / "kept", []
    folder.mkdir()

    def enough(standing):
        assert (standing.average().lower <= standing.average().upper).all()
        within.extend([standing.done] * (len(list(folder.glob("*-*.npz"))) > 2))
        return len(within) > 2

    cut = ew.stability(model, X, **asked, checkpoint=folder, watch=enough)
    assert cut.stopped
    done = sorted(folder.glob("*-*.npz"))
    assert 0 < len(done) < 12
    before = {path: path.stat().st_mtime_ns for path in done}
    whole = ew.stability(model, X, **asked)
    same(ew.stability(model, X, **asked | {"rng": None}, checkpoint=folder), whole)
    assert {path: path.stat().st_mtime_ns for path in done} == before  # nothing was done twice
    done[0].unlink()
    same(ew.stability(model, X, **asked | {"rng": None}, checkpoint=folder), whole)


def test_parts_of_a_stopped_run_hold(tmp_path):
    model, asked = CASES["cells"]
    seen = []
    parts = in_parts(model, X, **asked, folder=tmp_path / "parts", watch=lambda s: seen.append(s) or len(seen) > 6)
    assert parts.stopped
    assert "the same call goes on" in parts.notes[-1]
    whole = ew.stability(model, X, **asked)
    assert (parts.average().lower <= whole.average().lower).all()
    assert (parts.average().upper >= whole.average().upper).all()
    assert parts.average().lower.max() > 0
    assert (parts.worst().lower == 0).all()
    same(in_parts(model, X, **asked, folder=tmp_path / "parts").whole(), whole)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epsilons": [1.0, 5.0]}, "epsilons"),
        ({"mechanisms": ["pm"]}, "mechanisms"),
        ({"tolerance": 0.02}, "tolerance"),
        ({"y": 1 - Y}, "true labels"),
    ],
)
@pytest.mark.cases(1)
def test_a_folder_of_another_question_is_refused(change, told, tmp_path):
    model, asked = CASES["cells"]
    in_parts(model, X, **asked, folder=tmp_path / "parts")
    with pytest.raises(ValueError, match=f"belongs to another question: not the same .*{told}"):
        in_parts(model, X, **asked | change, folder=tmp_path / "parts")


@pytest.mark.slow
def test_a_folder_of_another_model_is_refused(tmp_path):
    """Another seed of a model that answers alike where it is probed: its arrays differ."""
    model, asked = CASES["lattice"]
    in_parts(model, X, **asked, folder=tmp_path / "parts")
    other = LogisticRegression().fit(MANY, WHICH)
    other.coef_ = np.nextafter(other.coef_, 9)
    with pytest.raises(ValueError, match=r"the model"):
        in_parts(other, X, **asked, folder=tmp_path / "parts")


def spoilt(path):
    """Yield what a file could hold instead of a piece, none of which a run wrote."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    told = json.loads(str(arrays["head"]))
    yield b""
    yield path.read_bytes()[:-40]
    yield bytes(reversed(path.read_bytes()))
    for change in (
        {"of lower": arrays["of lower"][..., :-1]},
        {"head": np.array(json.dumps(told | {"digest": "0"}))},
        {"head": np.array(["x"], dtype=object)},
    ):
        np.savez(path, **arrays | change)
        yield path.read_bytes()


@pytest.mark.slow
def test_damaged_pieces_are_refused_in_one_sentence(tmp_path):
    model, asked = CASES["cells"]
    folder = tmp_path / "parts"
    parts = in_parts(model, X, **asked, folder=folder)
    piece = min(folder.glob("*-*.npz"))
    good = piece.read_bytes()
    for content in spoilt(piece):
        piece.write_bytes(content)
        for reader in (parts.average, ew.CurveParts.load(folder).whole,
                       lambda: in_parts(model, X, **asked, folder=folder)):  # fmt: skip
            with pytest.raises(ValueError, match=r"^piece .*(damaged|another question)[^\n]*$"):
                reader()
    piece.unlink()
    with pytest.raises(ValueError, match="cannot read the piece"):
        ew.CurveParts.load(folder).average()
    piece.write_bytes(good)
    assert ew.CurveParts.load(folder).average().lower.size


@pytest.mark.parametrize(
    "change",
    [{"confidence": "2"}, {"records": 0}, {"sources": [[]]}, {"reveal": ["a"]}, {"mechanisms": [1]},
     {"format": "else"}],
)  # fmt: skip
@pytest.mark.cases(1)
def test_damaged_heads_are_refused(change, tmp_path):
    model, asked = CASES["lattice"]
    in_parts(model, X, **asked, folder=tmp_path / "parts")
    head = tmp_path / "parts" / "curves.json"
    head.write_text(json.dumps(json.loads(head.read_text()) | change))
    with pytest.raises(ValueError, match=r"^curves in parts"):
        ew.CurveParts.load(tmp_path / "parts")
    (tmp_path / "parts" / "head.json").write_text("{")
    with pytest.raises(ValueError, match=r"checkpoint .*damaged"):
        in_parts(model, X, **asked, folder=tmp_path / "parts")


def test_places_that_cannot_hold_pieces_are_refused(tmp_path):
    model, asked = CASES["lattice"]
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    for path, why in (("file", "it is a file"), ("full", "other files"), ("none/parts", "does not exist")):
        with pytest.raises(ValueError, match=why):
            in_parts(model, X, **asked, folder=tmp_path / path)
    with pytest.raises(ValueError, match="it is a file; give a folder"):
        ew.stability(model, X, **asked, checkpoint=tmp_path / "file", n_jobs=2)


def test_what_pieces_hold_is_the_owners(tmp_path):
    model, asked = CASES["lattice"]
    in_parts(model, X, **asked, folder=tmp_path / "parts")
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "parts").iterdir()} == {0}
    assert (tmp_path / "parts").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_deadlines_and_requests_end_workers(tmp_path):
    def slowly(table):
        time.sleep(0.2)
        return table.sum(axis=1) > 2

    asked = TWO | {"mechanisms": ["pm"], "tolerance": 0.01, "n_jobs": 2}
    whole = ew.stability(slowly, X, **asked, seconds=4)
    assert whole.stopped
    assert whole.seconds < 30
    assert (whole.lower <= whole.upper).all()
    told = []
    found = ew.stability(slowly, X, **asked, watch=lambda standing: told.append(standing.done) or len(told) > 8)
    assert found.stopped
    assert "on request" in found.notes[-1]


KILLED = """
    import sys, numpy as np
    import epsworth as ew
    from sklearn.ensemble import RandomForestClassifier
    rng = np.random.default_rng(0)
    X = rng.random((60, 4))
    model = RandomForestClassifier(20, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0.8)
    if __name__ == "__main__":
        found = ew.stability(model, X, sensitive=[0, 1, 2], mechanisms=["pm"], epsilons=[1, 4], method="sampled",
                             tolerance=0.08, rng=None if len(sys.argv) > 3 else 7, n_jobs=2,
                             checkpoint=sys.argv[1] or None)
        np.savez(sys.argv[2], lower=found.lower, upper=found.upper)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills")
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(KILLED))
    folder = tmp_path / "kept"

    def start(*words):
        return subprocess.Popen([sys.executable, str(script), *map(str, words)], start_new_session=True)

    running = start(folder, tmp_path / "never.npz")
    while len(list(folder.glob("*-*.npz"))) < 3:
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    kept = len(list(folder.glob("*-*.npz")))
    assert not (tmp_path / "never.npz").exists()
    assert start(folder, tmp_path / "resumed.npz", "other rng").wait() == 0
    assert start("", tmp_path / "whole.npz").wait() == 0
    assert kept < len(list(folder.glob("*-*.npz")))
    with np.load(tmp_path / "resumed.npz") as one, np.load(tmp_path / "whole.npz") as other:
        assert (one["lower"] == other["lower"]).all()
        assert (one["upper"] == other["upper"]).all()


MEMORY = """
    import resource, sys, numpy as np
    import epsworth as ew
    from sklearn.dummy import DummyClassifier
    n = int(sys.argv[2])
    X = np.random.default_rng(0).random((n, 2))
    model = DummyClassifier(strategy="constant", constant=1).fit(X[:10], np.arange(10) % 2)
    asked = ew.Problem.of(model, X, sensitive=[0, 1], mechanisms=["pm", "sw", "krr", "laplace_clipped"],
                           epsilons=np.arange(1, 61) / 4)
    parts = ew.stability_in_parts(asked, sys.argv[1])
    assert parts.average().lower.min() == 1
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts KiB")
def test_parts_take_the_memory_of_a_part(tmp_path):
    """Bounds of 11,000 records more would be 42 MB, and twice that with what joins them; a part has 64 records."""
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(MEMORY))
    used = []
    for n in (1_000, 12_000):
        words = [sys.executable, str(script), str(tmp_path / f"{n}"), str(n)]
        used.append(int(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
    assert used[1] - used[0] < 25_000
