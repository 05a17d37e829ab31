"""Draws fit for release, against bars and, where they are installed, against other libraries in the same run.

Peers are optional: ``pip install opendp trasgodp multi-freq-ldpy``.  OpenDP samples exactly, as we do;
the others sample in floating point, which is not fit for release.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.timing import Row, median_seconds
from epsworth import FAMILIES, exact

VALUES = 1 << 20
FEW = 5_000  # for peers that loop
EPSILON = 1.0
BARS = {"krr": 12.5, "pm": 33.3, "sw": 33.3}  # ns per value: 8e7 and 3e7 a second
OTHERS = 125.0  # 8e6 a second
EXACT_PEER, UNSAFE_PEER = 1 / 200, 1.0  # of their time

Sampler = Callable[[], object]


def rows() -> Iterator[Row]:
    """Yield ns per released value, then our time over each peer's for the same law."""
    rng = np.random.default_rng(0)
    ours = {}
    for name in exact.KERNELS:
        kernel = exact.kernel(name, EPSILON)
        inputs = rng.integers(0, kernel.points, VALUES)
        ours[name] = ns_per_value(lambda kernel=kernel, inputs=inputs: kernel.draw(inputs), VALUES)
        rate = f"{1e3 / ours[name]:.0f} million a second"
        yield Row(f"release of 2^20 values: {name}", ours[name], "ns/value", BARS.get(name, OTHERS), rate)
    for name in ours:
        if name in FAMILIES:
            law = FAMILIES[name](EPSILON).law(rng.random(VALUES))
            theirs = ns_per_value(lambda law=law: law.sample((), rng), VALUES)
            yield ratio(f"float draws for analysis: {name}", ours[name], theirs, UNSAFE_PEER)
    for library, sampler in PEERS.items():
        if importlib.util.find_spec(library):
            for name, count, draw, bar in sampler():
                yield ratio(f"{library}: {name}", ours[name], ns_per_value(draw, count), bar)
    single = exact.kernel("pm", EPSILON)
    yield Row("one value, one call", median_seconds(lambda: single.draw(7), runs=501) * 1e6, "us", None)


def ns_per_value(action: Sampler, count: int) -> float:
    """Return the median time per value."""
    return median_seconds(action, runs=5) / count * 1e9


def ratio(what: str, ours: float, theirs: float, bar: float) -> Row:
    """Return our time over theirs."""
    return Row(f"time over {what}", ours / theirs, "", bar, f"{theirs / ours:.3g} x faster than {theirs:.3g} ns/value")


def opendp() -> Iterator[tuple[str, int, Sampler, float]]:
    """Exact samplers on integers, at the scale of a grid of 2^16 points."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    scale, ints = 2**16 / EPSILON, dp.vector_domain(dp.atom_domain(T=int))
    data = list(range(FEW))
    laplace = dp.m.make_laplace(ints, dp.l1_distance(T=int), scale=scale)
    gaussian = dp.m.make_gaussian(ints, dp.l2_distance(T=float), scale=scale)
    response = dp.m.make_randomized_response(list(range(16)), prob=0.5)
    yield "laplace_clipped", FEW, lambda: laplace(data), EXACT_PEER
    yield "gaussian_clipped", FEW, lambda: gaussian(data), EXACT_PEER
    yield "krr", FEW, lambda: [response(value % 16) for value in data], EXACT_PEER


def trasgodp() -> Iterator[tuple[str, int, Sampler, float]]:
    """Floating point, vectorised: the fastest that we know."""
    from trasgodp import categorical, numerical

    data = np.random.default_rng(0).random(VALUES)
    words = np.array([f"c{i}" for i in range(16)])[np.random.default_rng(0).integers(0, 16, VALUES)]
    yield "laplace_clipped", VALUES, lambda: numerical.dp_clip_laplace_array(data, EPSILON, 0, 1), UNSAFE_PEER
    yield "gaussian_clipped", VALUES, lambda: numerical.dp_clip_gaussian_array(data, EPSILON, 0, 1), UNSAFE_PEER
    yield "krr", VALUES, lambda: categorical.dp_randomized_response_kary_array(words, EPSILON), UNSAFE_PEER


def multi_freq_ldpy() -> Iterator[tuple[str, int, Sampler, float]]:
    """Compiled, one value a call."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

    yield "krr", FEW, lambda: [GRR_Client(i % 16, 16, EPSILON) for i in range(FEW)], UNSAFE_PEER


PEERS = {
    "opendp": opendp,
    "trasgodp": trasgodp,
    "multi_freq_ldpy": multi_freq_ldpy,
}
