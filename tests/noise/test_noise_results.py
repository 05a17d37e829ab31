"""What all results of noise share."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from epsworth import noise
from epsworth.noise.figures import draw_costs, plot_noise
from epsworth.noise.lattice import LatticeNoise

KERNEL = noise.boosted(scale=2.0, theta=2.0, confidence=Fraction(19, 20))


RANKED = noise.cheapest((0, 9), confidence=0.9, delta=1e-5, region="fixed", method="published")
RESULTS = {
    "ranking": RANKED, "choice": RANKED[0], "grouped": noise.Grouped(20, 5, 2.0, 1.0),
    "channel": noise.channel(noise.windows(5, 1), 2.0, 1.0),
    "optimum": noise.optimal_noise(2.0, confidence=0.95, sensitivity=1.0, delta=1e-5, lattice=1),
    "release": noise.release_of(LatticeNoise(masses=np.array([0.1, 0.8, 0.1]), step=0.5, shift=1, inside=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results_print_numbers_and_write_them_whole(name, tmp_path):
    result = RESULTS[name]
    assert any(digit in str(result) for digit in "0123456789")
    assert result._repr_html_().startswith(("<pre", "<table"))
    result.save(tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(json.dumps(result.to_dict()))


def test_tables_for_release_are_read_back_or_refused(tmp_path):
    release = RESULTS["release"]
    release.save(tmp_path / "table.json")
    again = noise.LatticeRelease.load(tmp_path / "table.json")
    assert again.to_dict() == release.to_dict()
    for change in ({"weights": [1, 2, 1]}, {"weights": 5}, {"step": -1.0}, {"inside": 9}, {"more": 1}):
        (tmp_path / "bad.json").write_text(json.dumps(release.to_dict() | change))
        with pytest.raises(ValueError, match=r"noise table .*bad\.json"):
            noise.LatticeRelease.load(tmp_path / "bad.json")


def test_rankings_are_drawn_on_given_axes_and_to_files(tmp_path):
    from matplotlib.figure import Figure

    panel = Figure().subplots()
    assert RANKED.plot(panel) is panel
    assert panel.get_ylabel() == "density"
    assert (
        draw_costs(np.ones(2), {"laplace": np.ones(2)}, "epsilon, delta 1e-05", None).get_ylabel()
        == "epsilon, delta 1e-05"
    )
    plot_noise(RANKED, tmp_path / "fixed.svg")
    assert (tmp_path / "fixed.svg").stat().st_size > 1000


def test_a_list_of_other_noises_is_drawn_whole():
    ranked = noise.cheapest((0, 10), confidence=0.9, region="fixed", answers=range(11), scale=2.0)
    others = replace(ranked, choices=tuple(choice for choice in ranked if choice.name.startswith("clamped")))
    drawn = others.panels()[0](None).get_legend_handles_labels()[1]
    assert sorted(name.removesuffix(" (advised)") for name in drawn) == sorted(choice.name for choice in others)
