"""The picture of the README: what is kept by epsilon, feature by feature and by a policy made for the model.

    python docs/kept.py [folder]

Breast-cancer data that ships with scikit-learn, as in ``epsworth demo``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import epsworth as ew
from epsworth.demo import AT_LEAST, SENSITIVE, stories
from epsworth.utility.choice import MAX_EPSILON

mpl.rcParams["svg.hashsalt"] = "epsworth"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images"
    story = stories(lambda title, share: None)[-1]
    curves, epsilons = story.curves, story.curves.epsilons
    kept = 100 * curves.average().lower
    single = kept[:-1].max(axis=0)  # the tailored policy is the last
    figure = Figure(figsize=(8.2, 4.2), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    at = np.linspace(epsilons[0], 8, 200)
    axes.plot(at, [100 * ew.ceiling(float(e), 2) for e in at], ":", color="#555555")
    axes.plot(epsilons, kept[-1], "o-", color="#0b6e4f", linewidth=2)
    axes.plot(epsilons, single, "s-", color="#b5541c", linewidth=2)
    axes.axhline(100 * AT_LEAST, color="#999999", linewidth=0.8)
    axes.axvspan(MAX_EPSILON, 8.2, color="#f1ece4", zorder=0)
    axes.set(xlim=(0.9, 8.2), ylim=(50, 101), xlabel="epsilon per record", ylabel="diagnoses that stay, %")
    axes.text(1.05, 90.6, "wanted: 90 %", color="#555555", fontsize=9)
    axes.text(6.1, 52.5, "an attacker may be more\nthan 98.3 % sure", ha="center", color="#7a6a55", fontsize=9)
    axes.annotate("a policy made for this model:\nyes, at epsilon 3", (3, kept[-1][2]), (1.3, 96), color="#0b6e4f")
    axes.annotate(
        "the best mechanism per feature:\nnot at epsilon 4 or less", (4, single[3]), (4.15, 71), color="#b5541c"
    )
    axes.text(1.25, 58, "dotted: no mechanism can promise more\nto every patient", color="#555555", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"A random forest, {' and '.join(SENSITIVE)} perturbed on the device", loc="left", fontsize=11)
    figure.savefig(folder / "kept.png")


if __name__ == "__main__":
    main()
