"""Run every benchmark, or the parts named: ``python -m benchmarks masses peers``.

Every bar is a ratio to a named alternative, measured in the same run.  ``--short`` runs every part once on small
sizes and judges nothing: it shows that none has rotted.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import sys

from benchmarks.timing import Clock, Row

PARTS = (
    "masses",
    "draws",
    "startup",
    "sampling",
    "average",
    "exact",
    "linear",
    "records",
    "boxes",
    "forests",
    "pipelines",
    "peers",
    "radius",
    "workers",
    "release",
    "perturb",
    "ledger",
    "tailored",
    "gateway",
    "client",
    "pac",
    "exposure",
    "noise",
    "learner",
    "shuffling",
)


def main() -> int:
    """Print a row per measurement; exit 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n\n")[1])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all of them by default")
    parser.add_argument("--short", action="store_true", help="one run on small sizes; no bar is judged")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    print(_machine() + ("; short: nothing is judged" if asked.short else ""))
    missed = 0
    for part in asked.parts or PARTS:
        for row in importlib.import_module(f"benchmarks.{part}").rows(Clock(asked.short)):
            print(_line(row, asked.short), flush=True)
            missed += not row.met
    return 1 if missed and not asked.short else 0


def _machine() -> str:
    import numpy
    import scipy
    import sklearn

    return (
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {numpy.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}; "
        "medians of ratios of neighbouring runs"
    )


def _line(row: Row, short: bool) -> str:
    verdict = "" if row.bar is None or short else ("ok" if row.met else "MISSED")
    bar = "" if row.bar is None else f"<= {row.bar:.3g}"
    return f"{f'{row.what} / {row.than}':80s} {row.ratio:9.3g} {bar:10s} {verdict:7s} {row.note}"


if __name__ == "__main__":
    sys.exit(main())
