"""The published box search: near the truth on a box, and above it where it must be."""

from __future__ import annotations

import numpy as np

import epsworth as ew
from reproduction.box_search import claims_of_boxes


def test_it_claims_too_much_where_it_must():
    """The sliver of section 3: published .9405 (1 without its factor), truth .78161."""
    asked = {"sensitive": 0, "mechanisms": "pm", "epsilons": [8.0], "rng": 0}

    def sliver(Z):
        return (Z[:, 0] > 0.503) & (Z[:, 0] <= 0.507)

    curves = ew.stability(sliver, [[0.5]], **asked)
    assert curves.lower.item() <= 0.781607399867423 <= curves.upper.item()
    assert claims_of_boxes(sliver, [[0.5]], **asked).stability.item() == 1.0


def test_a_box_is_found():
    """Where the label stays exactly on a box, the heuristic is close to it, and the claim near the truth."""
    claimed = claims_of_boxes(
        lambda Z: (Z[:, 0] > 0.25) & (Z[:, 1] <= 0.75), [[0.6, 0.4]], sensitive=[0, 1],
        mechanisms=["pm", "laplace_clipped"], epsilons=[2.0], rng=0,
    )  # fmt: skip
    exact = [
        float(ew.MECHANISMS[m](2.0).law(0.6).mass(0.25, 1) * ew.MECHANISMS[m](2.0).law(0.4).mass(0, 0.75))
        for m in ("pm", "laplace_clipped")
    ]
    np.testing.assert_allclose(claimed.stability[:, 0, 0], exact, atol=0.05)
    assert claimed.queries > 73_000
