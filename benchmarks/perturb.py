"""The client on ten million rows: throughput and peak memory of ``perturb_file``, a process per format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.timing import Row

ROWS = {"parquet": 10_000_000, "csv": 2_000_000, "jsonl": 500_000}
LEAST = 5e6  # cells a second, of Parquet
MOST = 1.0  # GB
RUN = """
import json, re, sys, time
import epsworth as ew
policy = ew.Policy.load("policy.toml")
began = time.perf_counter()
ew.perturb_file(policy, sys.argv[1], sys.argv[2])
seconds = time.perf_counter() - began
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())  # of this process alone, unlike ru_maxrss
print(json.dumps([seconds, int(peak[1]) / 1e6]))
"""


def rows() -> Iterator[Row]:
    """Yield a row per format: microseconds per perturbed cell, and memory."""
    import epsworth as ew

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ew.Policy.split("pm", 2, ew.Domain.of({"age": (0, 100), "job": ["a", "b", "c"]})).save(folder / "policy.toml")
        for kind, count in ROWS.items():
            _write(folder / f"in.{kind}", count)
            run = subprocess.run(
                [sys.executable, "-c", RUN, f"in.{kind}", f"out.{kind}"], cwd=folder, capture_output=True, check=True,
                text=True, env=os.environ | {"EPSWORTH_STATE": name},
            )  # fmt: skip
            seconds, memory = json.loads(run.stdout)
            cells = 2 * count / seconds
            bar = LEAST / cells if kind == "parquet" else None
            note = f"{cells / 1e6:.1f}e6 cells/s, {seconds:.1f} s for {count:,} rows"
            yield Row(f"perturb {kind}: 5e6 cells/s over throughput", LEAST / cells, "", bar and 1.0, note)
            yield Row(f"perturb {kind}: peak memory", memory, "GB", MOST, "")


def _write(path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "id": np.arange(count),
            "age": rng.random(count) * 100,
            "job": rng.choice(["a", "b", "c"], count),
            "note": rng.integers(0, 1000, count),
        }
    )
    if path.suffix == ".parquet":
        table.write_parquet(path)
    elif path.suffix == ".csv":
        table.write_csv(path)
    else:
        table.write_ndjson(path)
