"""Bounds of binary linear models: a Fourier series and closed forms against the former lattice at the same width."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks import former_lattice
from benchmarks.timing import Clock, Row, shown
from epsworth import MECHANISMS
from epsworth.utility.engines.sums import at_most

EPSILONS = np.array([0.5, 1.0, 2.0, 4.0])
PAIRS = 6  # real transforms of 2^18 points and back: what a point may cost


def rows(clock: Clock) -> Iterator[Row]:
    """Yield a point's cost over the former code's at the same width, and over transforms at a width of 1e-6."""
    from scipy.fft import irfft, rfft

    rng = np.random.default_rng(0)
    values = rng.random(clock.size(2**18, 2**12))
    for name, s in (("pm", 5), ("pm", 30), ("sw", 30), ("laplace_clipped", 30), ("bounded_laplace", 30), ("duchi", 30)):
        count = clock.size(s, 4)
        weights, x = rng.normal(size=count), rng.random(count)
        laws = [MECHANISMS[name](EPSILONS).law(v) for v in x]
        threshold = float(weights @ rng.random(count))
        asked = clock.size(1, 50) / 1000

        def ours(laws=laws, weights=weights, threshold=threshold, asked=asked):
            return at_most(laws, weights, threshold, 0.0, asked)

        def former(laws=laws, weights=weights, threshold=threshold, asked=asked):
            return former_lattice.at_most(laws, weights, threshold, 0.0, asked)

        found = clock.race(ours, former, per=(len(EPSILONS), len(EPSILONS)), runs=3)
        note = f"{shown(found.ours)} / {shown(found.theirs)} a point, {count} features"
        yield Row(f"{name}, {count} features, width {asked:g}", "former lattice", found.ratio, 1.0, note)
        hard = [MECHANISMS[name](EPSILONS[2:]).law(v) for v in x]

        def close(laws=hard, weights=weights, threshold=threshold):
            return at_most(laws, weights, threshold, 0.0, 1e-6)

        found = clock.race(close, lambda: irfft(rfft(values)), per=(2, 1), runs=3)
        width = float(np.max(close().upper - close().lower))
        note = f"{shown(found.ours)} / {shown(found.theirs)} a point, {count} features, width {width:.1e}"
        yield Row(
            f"{name}, {count} features, width 1e-6", f"pair of transforms of {values.size}", found.ratio, PAIRS, note
        )
