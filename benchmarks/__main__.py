"""Run every benchmark, or the parts named: ``python -m benchmarks masses peers``."""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import sys

PARTS = (
    "masses",
    "draws",
    "startup",
    "sampling",
    "exact",
    "peers",
    "release",
    "perturb",
    "pac",
    "coverage",
    "noise",
    "learner",
)


def main() -> int:
    """Print a row per measurement; exit 1 when a bar is missed."""
    import numpy
    import scipy
    import sklearn

    print(
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {numpy.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}; medians, one thread"
    )
    missed = 0
    for part in sys.argv[1:] or PARTS:
        for row in importlib.import_module(f"benchmarks.{part}").rows():
            verdict = "" if row.bar is None else ("ok" if row.met else "MISSED")
            bar = "" if row.bar is None else f"<= {row.bar:g}"
            print(f"{row.what:55s} {row.value:10.3f} {row.unit:9s} {bar:9s} {verdict:7s} {row.note}", flush=True)
            missed += not row.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
