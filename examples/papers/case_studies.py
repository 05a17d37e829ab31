"""The case studies of Zheng & Hu 2025 (sections 7.2.1, 7.2.2): our bounds beside the paper's statements.

    EPSWORTH_DATA=... python examples/papers/case_studies.py [--dataset]

What is asked, of which records and models, stands in `epsworth.reproduce.studies`; ``epsworth reproduce 000-fig-6``
says what holds of it.  With --dataset also the average and the worst case over the held-out records.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import epsworth as ew
from epsworth.reproduce.studies import BANK, DRAWS, EPSILONS, MODELS, STROKE, Study, ask, empirical, fitted, published


def main() -> None:
    folder = Path(os.environ["EPSWORTH_DATA"])
    for study in (STROKE, BANK):
        for short in MODELS:
            found = fitted(folder, study, short)
            print(f"\n{study.file}, {short}, test accuracy {found.accuracy:.3f}")
            record = found.record(study)
            show(study, short, ask(found.model, record, study, tolerance=1e-3), found.model, record)
            if "--dataset" in sys.argv:
                whole = ask(found.model, found.table[found.test], study, tolerance=0.01)
                for title, bounds in (("average", whole.average()), ("worst", whole.worst())):
                    print(f"  {title} over {len(found.test)} held-out records ({whole.seconds:.0f} s)")
                    lines(whole.mechanisms, bounds.lower, bounds.upper)


def show(study: Study, short: str, curves: ew.Curves, model: object, record: object) -> None:
    print(f"  record, label {curves.labels[0]}, {', '.join(sorted(set(curves.method[:, 0])))}, {curves.seconds:.2f} s")
    lines(curves.mechanisms, curves.lower[..., 0], curves.upper[..., 0])
    if box := study.box(short):
        values = record.select(study.sensitive).row(0)
        print(f"  the paper's statement: mass of its box {box}" + " with the indicator" * bool(study.reveal))
        claims(curves, [[published(m, e, values, box) for e in EPSILONS] for m in curves.mechanisms])
    print(f"  mean of {DRAWS} draws, the paper's empirical utility")
    table(curves.mechanisms, empirical(model, record, study))
    paper = ask(model, record, study, method="paper", tolerance=0.01)
    print(f"  the published search on our fit, {paper.queries:,} queries, {paper.seconds:.0f} s")
    claims(curves, paper.lower[..., 0].tolist())


def claims(curves: ew.Curves, rows: list[list[float]]) -> None:
    for m, (words, row) in enumerate(zip(curves.mechanisms, rows, strict=True)):
        over = [f"{e:g}" for e, c, u in zip(EPSILONS, row, curves.upper[m, :, 0], strict=True) if c > u]
        verdict = f"  above our upper bound at epsilon {', '.join(over)}" if over else ""
        print(f"    {words[:34]:34s}" + "".join(f"   {c:.3f}     " for c in row) + verdict)


def table(names: tuple[str, ...], shares: np.ndarray) -> None:
    for words, row in zip(names, shares, strict=True):
        print(f"    {words[:34]:34s}" + "".join(f"   {share:.3f}     " for share in row))


def lines(names: tuple[str, ...], lower: np.ndarray, upper: np.ndarray) -> None:
    for name, low, high in zip(names, lower, upper, strict=True):
        cells = "".join(
            f"{np.floor(a * 1e3) / 1e3:.3f}..{np.ceil(b * 1e3) / 1e3:.3f} " for a, b in zip(low, high, strict=True)
        )
        print(f"    {name[:34]:34s}{cells}")


if __name__ == "__main__":
    main()
