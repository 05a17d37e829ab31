"""All golden results computed anew: differences to what is stored are printed, and written with ``--write``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from golden_results import RESULTS, differences, load_cases, stored, written


def main() -> int:
    """Compute, print, and write if asked to; exit status 1 where something differs and is not written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only cases whose names hold one of these")
    parser.add_argument("--write", action="store_true", help="store the new results")
    parser.add_argument("--seconds", action="store_true", help="print the time that each case takes")
    given = parser.parse_args()
    cases, different = load_cases(), 0
    if given.words and not any(word in name for word in given.words for name in cases):
        parser.error(f"no case is called like {' or '.join(given.words)}")
    fresh: dict[str, dict[str, object]] = {}
    for name, case in cases.items():
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
            different += 1
            print(f"{name}: {line}")
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        for module, results in fresh.items():
            (RESULTS / f"{module}.json").write_text(written(results) + "\n")
    return 1 if different and not given.write else 0


if __name__ == "__main__":
    sys.exit(main())
