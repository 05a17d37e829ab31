"""The client on ten million rows: time and peak memory of ``perturb_file``, a process per format.

The alternative is what a script would do: polars reads the file, NumPy adds floating-point noise to one column and
redraws the other, polars writes it.  That is not fit for release; it is the cost of the plumbing.
"""

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

from benchmarks.timing import Clock, Row

# rows in full and in short; what the time may be in units of the script's
SIZES = {"parquet": (10_000_000, 10_000, 3.0), "csv": (2_000_000, 5_000, 60.0), "jsonl": (500_000, 2_000, 60.0)}
MOST = 1.0  # GB of ours, over one of a table: memory does not grow with the file
MEASURE = """
import json, re, sys, time
{imports}
began = time.perf_counter()
{work}
seconds = time.perf_counter() - began
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())  # of this process alone, unlike ru_maxrss
print(json.dumps([seconds, int(peak[1]) / 1e6]))
"""
OURS = MEASURE.format(
    imports='import epsworth as ew\npolicy = ew.Policy.load("policy.toml")',
    work="ew.perturb_file(policy, sys.argv[1], sys.argv[2])",
)
MANY = MEASURE.format(
    imports='import epsworth as ew\npolicy = ew.Policy.load("policy.toml")',
    work="""
if __name__ == "__main__":
    ew.perturb_files(policy, "parts", sys.argv[2], workers=int(sys.argv[1]), ledger=sys.argv[2] + "-ledger")
""",
)
PARTS, SHARED = 8, 0.8  # files, and the time of two workers in units of one's; half, but for two seconds of starting
SCRIPT = MEASURE.format(
    imports="import numpy as np, polars as pl\nrng = np.random.default_rng()",
    work="""
kind = sys.argv[1].rpartition(".")[2]
table = pl.read_ndjson(sys.argv[1]) if kind == "jsonl" else getattr(pl, "read_" + kind)(sys.argv[1])
words = np.array(["a", "b", "c"])
table = table.with_columns(
    age=np.clip(table["age"].to_numpy() + rng.laplace(scale=50, size=len(table)), 0, 100),
    job=np.where(rng.random(len(table)) < 0.3, words[rng.integers(0, 3, len(table))], table["job"].to_numpy()),
)
table.write_ndjson(sys.argv[2]) if kind == "jsonl" else getattr(table, "write_" + kind)(sys.argv[2])
""",
)


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time per format over the script's, and the memory."""
    import epsworth as ew

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        domain = ew.Domain.of({"age": (0, 100), "job": ["a", "b", "c"]})
        ew.Policy.of("pm", 2, domain, passing=["id", "note"]).save(folder / "policy.toml")
        for kind, (full, short, bar) in SIZES.items():
            count = clock.size(full, short)
            _write(folder / f"in.{kind}", count)
            (ours, memory), (theirs, its) = (_run(code, kind, folder) for code in (OURS, SCRIPT))
            note = f"{ours:.1f} s / {theirs:.1f} s for {count:,} rows, {2e-6 * count / ours:.1f}e6 cells/s"
            yield Row(f"perturb {kind}", "a script in floating point", ours / theirs, bar, note)
            note = f"{memory:.2f} GB / {its:.2f} GB of the script"
            yield Row(f"perturb {kind}: peak memory", f"{MOST:g} GB", memory / MOST, 1.0, note)
        (folder / "parts").mkdir()
        count = clock.size(1_000_000, 2_000)
        for part in range(PARTS):
            _write(folder / "parts" / f"{part}.csv", count)
        one, two = (_measured(MANY, folder, str(workers), f"by-{workers}")[0] for workers in (1, 2))
        note = f"{two:.1f} s / {one:.1f} s for {PARTS} files of {count:,} rows"
        yield Row("perturb a folder: two workers", "one", two / one, SHARED, note)


def _run(code: str, kind: str, folder: Path) -> tuple[float, float]:
    found = _measured(code, folder, f"in.{kind}", f"out.{kind}")
    (folder / f"out.{kind}").unlink()
    return found


def _measured(code: str, folder: Path, *words: str) -> tuple[float, float]:
    run = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, capture_output=True, check=True, text=True,
        env=os.environ | {"EPSWORTH_STATE": str(folder)},
    )  # fmt: skip
    seconds, memory = json.loads(run.stdout)
    return seconds, memory


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
