"""Utilities of PAC-private algorithms (Sridhar, Xiao & Devadas 2024, section 6) beside the authors' public code.

    EPSWORTH_DATA=... python -m reproduction.pac_utilities [--quick] [--mean | --records] [TASK ...]

The tasks stand in `reproduction.pac_tasks`; ``python -m reproduction pac/fig-2`` says what holds of them.  Noise
"optimal", basis "svd" unless a row says "diag"; averages over simulated releases (400, with --quick 100; standard
error .005 to .01 on Iris, and other lists of worlds move a cell as much).
The columns of the public code are its stored results; its forests leave leaf labels without noise, and are marked.
"same, paper noise" is Algorithm 1 on our outputs: what the noise rule and the basis gain, like for like.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.pac import MI, PACPrivatizer, RecordPosterior, posterior
from reproduction import pac_tasks
from reproduction.pac_tasks import BUDGETS, MEANS, TABLE_2, TASKS, Task, scorer

__all__ = ["scorer"]  # tests score with it


def folder() -> Path | None:
    """Return the folder of the papers' tables; Iris needs none."""
    named = os.environ.get("EPSWORTH_DATA")
    return Path(named) if named else None


def fit(task: Task, budget: Any = None) -> tuple[PACPrivatizer, Callable[[Any], float]]:
    """Return the privatizer of the task's pool, and the scorer of what it releases on the test rows."""
    return pac_tasks.fit(task, folder(), budget)


def split(table: str, scaling: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return pool and test rows as the public code splits them."""
    return pac_tasks.split(table, scaling, folder())


def mean_distances(table: str, beta: float, releases: int = 1000) -> dict[str, float]:
    """Return average l2 distances of private means from the pool's."""
    return pac_tasks.mean_distances(table, beta, folder(), releases)


def task_row(task: Task, releases: int) -> str:
    """Return our utilities, those under the paper's noise, and the published ones."""
    began = time.perf_counter()
    fitted, score = fit(task)
    seconds = time.perf_counter() - began
    asked = [MI(beta) for beta in BUDGETS]
    found = fitted.simulate_utility(score, releases, budgets=asked)
    paper = fitted.simulate_utility(score, releases, budgets=asked, noises=["paper"], bases=["diag"])
    bare = np.mean([score(fitted.mechanism_.rebuild(vector)) for vector in fitted.trials_.outputs[:64]])
    digits = 4 if task.error else 3
    ours, theirs = ("".join(f"{one.mean:10.{digits}f}" for one in row) for row in (found, paper))
    published = "".join(f"{value:10.3f}" for value in task.published)
    mark = "  leaf labels open" if task.open else ""
    return (
        f"{task.name:22s}{ours}{bare:10.{digits}f}{seconds:7.1f}\n"
        f"{'  same, paper noise':22s}{theirs}\n{'  public code':22s}{published}{mark}"
    )


def mean_table() -> None:
    """Print Table 2: (sub-sampled, private) as the paper gives it, and what its rules give and should give."""
    print(f"{'':9s} {'MI':>7s}  {'paper':>13s}" + "".join(f"{name:>13s}" for name in MEANS) + "   (distances)")
    for table, cells in TABLE_2.items():
        for beta, (bare, private) in zip((1 / 4, 1 / 16, 1 / 64), cells, strict=True):
            found = mean_distances(table, beta)
            print(
                f"{table:9s} {beta:7.4f}  {f'({bare}, {private})':>13s}" + "".join(f"{found[m]:13.4f}" for m in MEANS)
            )
    print("published, corrected: single records only; all tasks: every inference about the half that was used")


def record_table(releases: int, chosen: list[str]) -> None:
    """Print utilities where the most exposed record may be found with the success that MI 1/64 and 1/16 allow."""
    for task in TASKS:
        if not any(part in task.name for part in chosen or ("K-Means", "SVM")):
            continue
        for beta in (1 / 64, 1 / 16):
            q = posterior(beta, 0.5)
            fitted, score = fit(task, RecordPosterior(q))
            (found,) = fitted.simulate_utility(score, releases)
            published = task.published[BUDGETS.index(beta)]
            print(
                f"{task.name:22s} worst record {100 * q:.1f} %: {found.mean:.3f} (public code at MI {beta:.4f}: "
                f"{published:.3f}); joint tasks keep MI {fitted.plan_.mi:.2f}",
                flush=True,
            )


def main() -> None:
    """Print one block per task."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", help="parts of task names; default: all")
    parser.add_argument("--quick", action="store_true", help="100 releases instead of 400")
    parser.add_argument("--mean", action="store_true", help="private means instead (Table 2)")
    parser.add_argument("--records", action="store_true", help="budgets for single records instead")
    given = parser.parse_args()
    releases = 100 if given.quick else 400
    if given.mean:
        mean_table()
        return
    if given.records:
        record_table(releases, given.tasks)
        return
    print(f"{'':22s}" + "".join(f"{f'MI {beta:g}':>10s}" for beta in BUDGETS) + f"{'no noise':>10s}{'s':>7s}")
    for task in TASKS:
        if given.tasks and not any(part in task.name for part in given.tasks):
            continue
        print(task_row(task, releases), flush=True)


if __name__ == "__main__":
    main()
