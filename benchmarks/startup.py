"""Start-up in fresh processes, as installed packages start: ``import epsworth`` and ``epsworth --help``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Clock, Row, shown

SCIENTIFIC = "import numpy, scipy.special"
PARSER = "import typer, rich.console, cryptography"  # what a command line of this kind imports before it does anything


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the import over that of numpy and scipy.special, and the help over the bare parser's import."""
    with tempfile.TemporaryDirectory() as compiled:
        yield from _rows(clock, compiled)


def _rows(clock: Clock, compiled: str) -> Iterator[Row]:
    # all are compiled once, not we at every start and numpy never: whoever works on sources may have switched that off
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = compiled

    def run(*command: str | Path):
        return lambda: subprocess.run(command, check=True, capture_output=True, env=environment)

    def python(code: str):
        return run(sys.executable, "-c", code)

    main_names = "import epsworth as ew; ew.stability, ew.MECHANISMS, ew.recommend"
    script = Path(sys.executable).with_name("epsworth")
    for what, ours, than, bar in (
        ("import epsworth", python("import epsworth"), SCIENTIFIC, 1.3),
        ("import epsworth and its main names", python(main_names), SCIENTIFIC, 1.3),
        ("epsworth --help", run(script, "--help"), PARSER, 1.3),
    ):
        found = clock.race(ours, python(than), runs=11)
        yield Row(what, than, found.ratio, bar, f"{shown(found.ours)} / {shown(found.theirs)}")
