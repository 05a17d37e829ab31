"""All golden results computed anew: differences to what is stored are printed, and written with ``--write``."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from golden_results import RESULTS, differences, load_cases, stored, written


def main() -> None:
    """Compute, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only cases whose names hold one of these")
    parser.add_argument("--write", action="store_true", help="store the new results")
    parser.add_argument("--seconds", action="store_true", help="print the time that each case takes")
    given = parser.parse_args()
    fresh: dict[str, dict[str, object]] = {}
    for name, case in load_cases().items():
        old = stored(case.module).get(name)
        kept = fresh.setdefault(case.module, {})
        if given.words and not any(word in name for word in given.words):
            if old is not None:
                kept[name] = old
            continue
        with tempfile.TemporaryDirectory() as state, tempfile.TemporaryDirectory() as folder:
            os.environ["EPSWORTH_STATE"] = state
            start = time.perf_counter()
            new = kept[name] = case.result(Path(folder))
            if given.seconds:
                print(f"{time.perf_counter() - start:6.2f} s  {name}")
        for line in ["new"] if old is None else differences(old, new, case.tolerance):
            print(f"{name}: {line}")
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        for module, results in fresh.items():
            (RESULTS / f"{module}.json").write_text(written(results) + "\n")


if __name__ == "__main__":
    main()
