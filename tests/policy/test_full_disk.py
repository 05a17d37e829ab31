"""A disk that is full ends a release in one sentence; the run goes on where there is room, and is charged once."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import epsworth as ew
from epsworth.policy import Ledger

CODE = (
    "import resource, signal, sys; from epsworth.cli import main; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 1 << 40)); main()"
)
WRITERS = {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}


def command(code, *words, **streams):
    words = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False, **streams)


@pytest.mark.parametrize("kind", [*WRITERS, "folder"])
@pytest.mark.cases(1)
def test_a_full_disk_is_one_sentence_and_one_charge(tmp_path, kind):
    n = 25_000
    table = pl.DataFrame({"note": np.random.default_rng(0).random(n), "age": np.arange(n) % 100 + 0.0})
    ew.Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), passing=["note"]).save(tmp_path / "p.toml")
    if kind == "folder":
        (tmp_path / "in").mkdir()
        source, out = tmp_path / "in", tmp_path / "out"
        table.write_csv(source / "a.csv")
    else:
        source, out = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
        getattr(table, WRITERS[kind])(source)
    words = ["perturb", tmp_path / "p.toml", source, out, "--ledger", tmp_path / "ledger"]
    done = command(CODE, *words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert str(out if kind != "folder" else "a.csv") in done.stderr
    assert "File too large" in done.stderr
    assert "room" in done.stderr or "space" in done.stderr
    assert out.is_dir() == (kind == "folder")
    left = [path.name for path in (out if kind == "folder" else tmp_path).iterdir()]
    assert not [name for name in left if name.endswith((".part", "a.csv", "manifest.json"))]
    again = command(CODE.replace("200_000", "1 << 40"), *words)
    assert again.returncode == 0, again.stderr
    assert len(Ledger(tmp_path / "ledger").runs()) == 1


@pytest.mark.slow
def test_standard_output_that_is_full_is_one_sentence(tmp_path):
    pl.DataFrame({"age": [1.0, 2.0]}).write_csv(tmp_path / "in.csv")
    ew.Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), passing=["note"]).save(tmp_path / "p.toml")
    words = ["perturb", tmp_path / "p.toml", tmp_path / "in.csv", "-", "--ledger", tmp_path / "ledger"]
    with open("/dev/full", "w") as full:
        done = command("from epsworth.cli import main; main()", *words, stdout=full)
    assert done.returncode == 2
    assert done.stderr == (
        "epsworth: cannot write standard output: No space left on device; make room or choose another place\n"
    )
