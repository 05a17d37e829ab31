"""Draws fit for release, against the bare key stream and, where they are installed, against other libraries.

Peers are optional: ``pip install opendp trasgodp multi-freq-ldpy``.  OpenDP samples exactly, as we do;
the others sample in floating point, which is not fit for release.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.timing import Clock, Race, Row, shown
from epsworth import MECHANISMS, mechanisms

EPSILON = 1.0
WORDS, OTHERS = {"krr": 8.0, "pm": 22.0, "sw": 22.0}, 83.0  # words of the key stream that a value may cost
EXACT_PEER, UNSAFE_PEER, ANALYSIS = 1 / 200, 1.0, 1.5  # of their time

Sampler = Callable[[], object]


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time per released value over the bare key stream's, floating-point draws', and each peer's."""
    rng = np.random.default_rng(0)
    values = clock.size(1 << 20, 1 << 12)
    kernels = {name: mechanisms.kernel(name, EPSILON, bits=clock.size(16, 8)) for name in mechanisms.KERNELS}
    draws = {name: partial(k.draw, rng.integers(0, k.points, values)) for name, k in kernels.items()}
    for name, draw in draws.items():
        found = clock.race(draw, lambda: words(values), per=(values, values), runs=5)
        yield Row(f"released value: {name}", "a word of AES-CTR", found.ratio, WORDS.get(name, OTHERS), both(found))
        law = MECHANISMS[name](EPSILON).law(rng.random(values))
        found = clock.race(draw, lambda law=law: law.sample((), rng), per=(values, values), runs=5)
        yield Row(f"released value: {name}", "a float draw for analysis", found.ratio, ANALYSIS, both(found))
    for library, sampler in PEERS.items():
        if importlib.util.find_spec(library):
            for name, count, peer, bar in sampler(clock):
                found = clock.race(draws[name], peer, per=(values, count), runs=5)
                yield Row(f"released value: {name}", library, found.ratio, bar, both(found))


def words(count: int) -> np.ndarray:
    """Return 64-bit words of a key stream, from the same cipher and nothing else."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), dtype=np.uint64)


def both(found: Race) -> str:
    """Return both times."""
    return f"{shown(found.ours)} / {shown(found.theirs)} a value"


def opendp(clock: Clock) -> Iterator[tuple[str, int, Sampler, float]]:
    """Exact samplers on integers, at the scale of a grid of 2^16 points."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    scale, ints = 2**16 / EPSILON, dp.vector_domain(dp.atom_domain(T=int))
    few = clock.size(5_000, 100)  # it loops
    data = list(range(few))
    laplace = dp.m.make_laplace(ints, dp.l1_distance(T=int), scale=scale)
    gaussian = dp.m.make_gaussian(ints, dp.l2_distance(T=float), scale=scale)
    response = dp.m.make_randomized_response(list(range(16)), prob=0.5)
    yield "laplace_clipped", few, lambda: laplace(data), EXACT_PEER
    yield "gaussian_clipped", few, lambda: gaussian(data), EXACT_PEER
    yield "krr", few, lambda: [response(value % 16) for value in data], EXACT_PEER


def trasgodp(clock: Clock) -> Iterator[tuple[str, int, Sampler, float]]:
    """Floating point, vectorised: the fastest that we know."""
    from trasgodp import categorical, numerical

    values = clock.size(1 << 20, 1 << 12)
    data = np.random.default_rng(0).random(values)
    words = np.array([f"c{i}" for i in range(16)])[np.random.default_rng(0).integers(0, 16, values)]
    yield "laplace_clipped", values, lambda: numerical.dp_clip_laplace_array(data, EPSILON, 0, 1), UNSAFE_PEER
    yield "gaussian_clipped", values, lambda: numerical.dp_clip_gaussian_array(data, EPSILON, 0, 1), UNSAFE_PEER
    yield "krr", values, lambda: categorical.dp_randomized_response_kary_array(words, EPSILON), UNSAFE_PEER


def multi_freq_ldpy(clock: Clock) -> Iterator[tuple[str, int, Sampler, float]]:
    """Compiled, one value a call."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

    few = clock.size(5_000, 100)
    yield "krr", few, lambda: [GRR_Client(i % 16, 16, EPSILON) for i in range(few)], UNSAFE_PEER


PEERS = {
    "opendp": opendp,
    "trasgodp": trasgodp,
    "multi_freq_ldpy": multi_freq_ldpy,
}
