"""Start-up in fresh processes, as installed packages start: ``import epsworth`` and ``epsworth --help``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Row, median_seconds


def rows() -> Iterator[Row]:
    """Yield the import as a ratio to numpy and scipy.special, and the help in seconds."""
    with tempfile.TemporaryDirectory() as compiled:
        yield from _rows(compiled)


def _rows(compiled: str) -> Iterator[Row]:
    # all are compiled once, not we at every start and numpy never: whoever works on sources may have switched that off
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = compiled

    def run(*command: str | Path):
        return lambda: subprocess.run(command, check=True, capture_output=True, env=environment)

    def python(code: str):
        return run(sys.executable, "-c", code)

    bare = median_seconds(python("pass"), runs=11)
    scientific = median_seconds(python("import numpy, scipy.special"), runs=11)
    package = median_seconds(python("import epsworth"), runs=11)
    everything = median_seconds(python("import epsworth as ew; ew.stability, ew.FAMILIES, ew.recommend"), runs=11)
    yield Row(
        "import epsworth / import numpy, scipy.special", package / scientific, "x", 1.3, f"{1e3 * package:.0f} ms"
    )
    yield Row(
        "the same, with its main names loaded", everything / scientific, "x", 1.3,
        f"{1e3 * everything:.0f} ms; a bare interpreter takes {1e3 * bare:.0f} ms",
    )  # fmt: skip
    script = Path(sys.executable).with_name("epsworth")
    yield Row("epsworth --help", median_seconds(run(script, "--help"), runs=11), "s", 0.25)
