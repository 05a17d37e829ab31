"""Draws follow the integers exactly, come from the operating system, and say so when they do not."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

import epsworth as ew
from epsworth import mechanisms
from epsworth.client.kernels import WORD
from epsworth.mechanisms import MECHANISMS, Quantised
from epsworth.mechanisms.alias import Alias
from epsworth.mechanisms.duchi import DuchiKernel, HybridKernel
from epsworth.mechanisms.noise_kernels import NoiseKernel
from epsworth.mechanisms.two_level import TwoLevelKernel
from epsworth.mechanisms.words import FEW, NotPrivate, ReplayableWords, SystemWords, WordSource

every_kernel = pytest.mark.parametrize("name", mechanisms.KERNELS)


class Given(WordSource):
    """Words chosen by a test."""

    private = False

    def __init__(self, *batches: list[int]) -> None:
        self.batches = [np.array(batch, dtype=np.uint64) for batch in batches]

    def take(self, count: int) -> np.ndarray:
        batch = self.batches.pop(0)
        assert len(batch) == count
        return batch


def outputs(kernel, i: int, *words: list[int]) -> list[int]:
    return kernel.outcomes(np.full(len(words[0]), i), Given(*words)).tolist()


# the map from words to outputs, checked at every place where it changes: exactness, not statistics


@pytest.mark.parametrize("name", ["pm", "sw", "pm_affine", "sw_affine", "krr"])
@pytest.mark.parametrize("epsilon", ["0.001", "1", "8"])
def test_two_levels_give_every_output_its_weight(name, epsilon):
    k = mechanisms.kernel(name, epsilon, 4)
    assert isinstance(k, TwoLevelKernel)
    cuts = [y * k.low for y in range(17)] + [16 * k.low + j * (k.high - k.low) for j in range(1, k.width + 1)]
    assert cuts[-1] == WORD
    for i in range(16):
        first, last = outputs(k, i, cuts[:-1]), outputs(k, i, [cut - 1 for cut in cuts[1:]])
        assert first == last  # constant between neighbouring cuts, as the map is monotone there
        found = Counter()
        for y, low, high in zip(first, cuts, cuts[1:], strict=False):
            found[y] += high - low
        assert [found[y] for y in range(16)] == k.weights(i)


@pytest.mark.parametrize("weights", [[WORD], [0, WORD], [1, WORD - 1], [3 * 2**62, 5, 2**62 - 5, 0, 0, 0]])
def test_alias_tables_hold_the_weights(weights):
    table = Alias(weights)
    assert table.weights()[: len(weights)] == weights
    assert not any(table.weights()[len(weights) :])


@pytest.mark.parametrize("name", ["laplace_clipped", "staircase", "gaussian_clipped", "bounded_laplace"])
def test_noise_tables_give_every_output_its_weight(name):
    k = mechanisms.kernel(name, "2", 4)
    assert isinstance(k, NoiseKernel)
    assert k.table.weights() == [*k.noise[:0:-1], *k.noise, WORD - k.whole]
    # columns and their thresholds as the drawing code sees them: words on both sides of every threshold
    bits, entries = k.table.bits, k.table.entries.tolist()
    for column, entry in enumerate(entries):
        threshold, alias, start = entry >> bits, entry % (1 << bits), column << (64 - bits)
        words = [start, start + threshold, start + (1 << (64 - bits)) - 1] + ([start + threshold - 1] * (threshold > 0))
        expected = [column if threshold else alias, alias, alias] + [column] * (threshold > 0)
        assert k.table.draw(np.array(words, dtype=np.uint64)).tolist() == expected
    # and from noise to outputs: adding up the noise's weights gives the kernel's
    noise = np.arange(-15, 17)
    for i in range(16):
        reached = k.settle(i + noise, noise)
        found = Counter()
        for y, weight in zip(reached.tolist(), k.table.weights(), strict=True):
            found[y] += weight
        assert [found[y] for y in range(16)] == k.weights(i)
        assert found[-1] == WORD - k.total(i)


def test_duchi_and_the_hybrid_compare_one_word():
    k = mechanisms.kernel("duchi", "1", 4)
    assert isinstance(k, DuchiKernel)
    for i in range(16):
        upper = k.weights(i)[-1]
        assert outputs(k, i, [0, upper - 1, upper, WORD - 1]) == [15, 15, 0, 0]
    mixed = mechanisms.kernel("hybrid", "1", 4)
    assert isinstance(mixed, HybridKernel)
    coin = [mixed.share - 1, mixed.share]
    assert outputs(mixed, 3, coin, [WORD - 1] * 2, [WORD - 1] * 2) == [outputs(mixed.first, 3, [WORD - 1])[0], 0]


@every_kernel
@pytest.mark.parametrize("epsilon", ["0.1", "2", "8"])
@pytest.mark.cases(14)
def test_draws_follow_the_weights(name, epsilon):
    """Chi-square on system randomness; false-alarm rate 1e-9 for each of 13 x 3 x 3 cases (it cannot be seeded)."""
    k, n = mechanisms.kernel(name, epsilon, 4), 100_000
    for i in (0, 5, 15):
        counts = np.bincount(k.draw(np.full(n, i)), minlength=16)
        expected = np.array([n * weight / k.total(i) for weight in k.weights(i)])
        rare = expected < 10
        assert counts[expected == 0].sum() == 0
        observed = np.append(counts[~rare], counts[rare].sum())
        wanted = np.append(expected[~rare], expected[rare].sum())
        keep = wanted > 0
        if keep.sum() > 1:
            assert chisquare(observed[keep], wanted[keep] * n / wanted[keep].sum()).pvalue > 1e-9


@every_kernel
@pytest.mark.cases(14)
def test_draws_keep_shape_and_range(name):
    k = mechanisms.kernel(name, "1")
    assert k.draw(7).shape == ()
    assert k.draw(np.zeros((0, 3), dtype=int)).shape == (0, 3)
    drawn = k.draw(np.full((300, 170), 40_000, dtype=np.uint16))  # several chunks
    assert drawn.shape == (300, 170)
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert drawn.max() < 2**16
    for bad in ([65_536], [-1]):
        with pytest.raises(ValueError, match="inputs must lie between 0 and 65535"):
            k.draw(bad)
    for bad in ([0.5], [True]):
        with pytest.raises(TypeError, match="inputs must be whole numbers"):
            k.draw(bad)


def test_values_are_clamped_rounded_and_never_shown():
    k = mechanisms.kernel("pm", 1, 4)
    assert k.index([-3.0, 0.0, 0.5, 0.51, 1.0, np.inf]).tolist() == [0, 0, 8, 8, 15, 15]
    with pytest.raises(ValueError, match=r"^x holds NaN; decide") as caught:
        k.index([0.123456, np.nan])
    assert "0.12" not in str(caught.value)


def test_floating_point_draws_give_their_input_away():
    """Why this package exists: Laplace noise on 0 and on 1, and outputs within [-1, 1] that only 0 can have produced.

    Sums with 1 are multiples of 2^-53 there; of bare noise one draw in four is not.  Integer kernels reach the same
    outputs from every input.  (500 000 draws: the share is known to within .004 but for one run in a million.)
    """
    noise = np.random.default_rng(0).laplace(size=500_000)

    def only_from_zero(y):
        return (np.abs(y) <= 1) & (y * 2.0**53 != np.rint(y * 2.0**53))

    assert only_from_zero(noise).mean() == pytest.approx(0.27, abs=0.02)
    assert not only_from_zero(1 + noise).any()
    for name in mechanisms.KERNELS:
        k = mechanisms.kernel(name, "1", 4)
        assert len({tuple(np.array(k.weights(i), dtype=object) > 0) for i in range(16)}) == 1


# where the randomness comes from


def test_no_generator_can_fix_a_release():
    """64 draws of 65 536 categories: two calls agree by chance with probability below 2^-900."""
    k, inputs = mechanisms.kernel("krr", "0.001"), np.zeros(64, dtype=int)
    drawn = set()
    for _ in range(3):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002  the legacy generator is the one under test
        drawn.add(tuple(k.draw(inputs).tolist()))
    assert len(drawn) == 3


FORKS = """
import os
from epsworth import mechanisms
kernel = mechanisms.kernel("krr", "0.001")
kernel.draw([0] * 100)  # so many take a key
for child in range(2):
    if os.fork() == 0:
        print(kernel.draw([0] * 8).tolist(), kernel.draw([0] * 100).tolist(), sep="\\n", flush=True)
        os._exit(0)
    os.wait()
print(kernel.draw([0] * 8).tolist(), kernel.draw([0] * 100).tolist(), sep="\\n")
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")
def test_forked_processes_share_no_draws():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(set(lines)) == 6


def test_the_key_stream_is_the_ciphers():
    """Words of a known key equal the cipher's encryption of zeros: nothing is lost or repeated between requests."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    source = SystemWords()
    key, nonce = bytes(range(32)), bytes(range(16))
    source._stream = Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()
    words = np.concatenate([source.take(n) for n in (FEW + 1, 50, 4096)])
    again = Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor().update(bytes(8 * (FEW + 4147)))
    assert words.tobytes() == again
    assert len(set(words.tolist())) == FEW + 4147


def test_a_few_words_are_the_systems_own(monkeypatch):
    asked = []
    monkeypatch.setattr("os.urandom", lambda count: asked.append(count) or bytes(range(count)))
    assert SystemWords().take(FEW).tobytes() == bytes(range(8 * FEW))
    assert asked == [8 * FEW]


def test_sources_cannot_be_copied_or_saved():
    for source in (SystemWords(), ReplayableWords(0)):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                attempt(source)


def test_kernels_hold_no_secret_and_can_be_sent():
    k = mechanisms.kernel("bounded_laplace", 1, 8)
    k.draw([0, 1, 2])
    again = pickle.loads(pickle.dumps(k))
    assert again.weights(3) == k.weights(3)
    again.prove()


def test_replayable_draws_say_so():
    k = mechanisms.kernel("bounded_laplace", 2, 8)
    inputs = np.arange(256)
    one, two = (k.draw(inputs, words=ReplayableWords(3)) for _ in range(2))
    assert isinstance(one, NotPrivate)
    assert (one == two).all()
    for derived in (one, one / 255, one[:5], one.reshape(2, -1), np.clip(one, 0, 9)):
        assert repr(derived).startswith("NOT PRIVATE")
        assert str(derived).startswith("NOT PRIVATE")
    assert not isinstance(k.draw(inputs), NotPrivate)


def test_nothing_in_the_package_takes_a_seed():
    import inspect

    for name, build in mechanisms.KERNELS.items():
        assert "seed" not in inspect.signature(build).parameters, name
        assert "seed" not in inspect.signature(mechanisms.kernel(name, 1, 4).draw).parameters
    assert "seed" not in inspect.signature(mechanisms.kernel).parameters


# the law that the analysis sees


@every_kernel
@pytest.mark.parametrize(("epsilon", "bits"), [("1", 4), ("8", 4), ("0.1", 6), ("2", 8)])
@pytest.mark.cases(14)
def test_the_law_is_the_weights(name, epsilon, bits):
    k = mechanisms.kernel(name, epsilon, bits)
    grid = np.arange(k.points) / (k.points - 1)
    rng = np.random.default_rng(0)
    for i in (0, 1, k.points // 3, k.points - 1):
        law, masses = k.law(i), np.array([weight / k.total(i) for weight in k.weights(i)])
        np.testing.assert_allclose(law.pmf(grid), masses, atol=3e-16, rtol=1e-13)
        np.testing.assert_allclose(law.mass(0.2, 0.7), masses[(grid >= 0.2) & (grid <= 0.7)].sum(), atol=1e-15)
        assert law.mean() == pytest.approx(masses @ grid, abs=1e-14)
        assert law.var() == pytest.approx(masses @ (grid - masses @ grid) ** 2, abs=1e-14)
        u = np.concatenate([rng.random(200), [2.0**-54, 1 - 2.0**-53]])
        reached = np.searchsorted(np.cumsum(masses), u)
        assert (np.rint(law.from_uniform(u) * (k.points - 1)) == np.minimum(reached, k.points - 1)).mean() > 0.98
        assert (law.cdf(law.from_uniform(u)) >= u - 1e-15).all()


@every_kernel
def test_laws_of_sixteen_bits_add_up(name):
    law = mechanisms.kernel(name, "2").mechanism().law(np.array([0.0, 0.31, 1.0]))
    assert law.shape == (3,)
    np.testing.assert_allclose(law.mass(0.0, 1.0), 1.0, atol=1e-12)
    np.testing.assert_allclose(law.cell_masses([0, 0.2, 0.5, 1]).sum(axis=1), 1.0, atol=1e-12)
    assert np.isfinite(law.mean()).all()


def distance(name: str, epsilon: str, bits: int) -> float:
    """Return the largest difference of the two distribution functions, over true values and outputs."""
    mechanism, analysis = mechanisms.kernel(name, epsilon, bits).mechanism(), MECHANISMS[name](float(epsilon))
    points, worst = mechanism.points, 0.0
    edges = np.arange(points) / (points - 1)
    for i in (0, 1, points // 5, points // 2):
        integer, continuous = mechanism.law(i / (points - 1)), analysis.law(i / (points - 1))
        up_to = integer.cdf(edges)
        before, after = continuous.cdf_left(edges), continuous.cdf(edges)
        worst = max(worst, np.abs(up_to - after).max(), np.abs(np.append(0, up_to[:-1]) - before).max())
    return worst


SEEN = [
    ("pm", "1", 1.3e-5),
    ("pm", "4", 5.8e-5),
    ("pm", "8", 4.2e-4),
    ("sw", "1", 1.32e-5),
    ("sw", "4", 1.6e-4),
    ("sw", "8", 2.82e-3),
]


@pytest.mark.parametrize(("name", "epsilon", "seen"), SEEN)
def test_two_levels_are_close_to_the_continuous_law(name, epsilon, seen):
    """Within 2/m on the real line; once rounded to the grid, the continuous law is as near as the figures say."""
    for bits in (8, 16):
        assert distance(name, epsilon, bits) <= 2 / mechanisms.kernel(name, epsilon, bits).width
    mechanism, analysis = mechanisms.kernel(name, epsilon).mechanism(), MECHANISMS[name](float(epsilon))
    grid = np.arange(2**16) / (2**16 - 1)
    for i in (0, 1, 13_107, 21_845, 32_768, 65_535):
        rounded = Quantised(analysis, 2**16).law(grid[i])
        assert np.abs(mechanism.law(grid[i]).cdf(grid) - rounded.cdf(grid)).max() <= seen


@pytest.mark.parametrize("name", ["pm_affine", "sw_affine", "duchi", "hybrid"])
@pytest.mark.parametrize("epsilon", ["0.5", "2", "8"])
def test_the_other_mechanisms_of_the_literature_are_close_too(name, epsilon):
    """Within 2/m, m the window's width (Duchi's mechanism has none: its mean alone is rounded, at 2^-64)."""
    for bits in (8, 16):
        k = mechanisms.kernel(name, epsilon, bits)
        width = k.width if isinstance(k, TwoLevelKernel) else k.first.width if isinstance(k, HybridKernel) else 2**40
        assert distance(name, epsilon, bits) <= 2 / width


@pytest.mark.parametrize("name", ["laplace_clipped", "bounded_laplace", "gaussian_clipped", "staircase"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4", "8"])
@pytest.mark.cases(4)
def test_noise_is_close_to_the_continuous_law(name, epsilon):
    """One step of the grid moves a distribution function by at most the step times the largest density."""
    x = np.array([0.0, 0.5])  # where densities are largest
    peak = float(MECHANISMS[name](float(epsilon)).law(x).pdf(x).max())
    for bits in (8, 16):
        assert distance(name, epsilon, bits) <= 1.1 * (peak + 1) / 2**bits


@pytest.mark.parametrize("name", ["krr", "exponential", "exponential_tight"])
def test_grid_mechanisms_are_the_same_mechanism(name):
    for epsilon in (0.1, 1.0, 8.0):
        integer = mechanisms.kernel(name, epsilon, k=101).mechanism().law(0.3)
        analysis = MECHANISMS[name](epsilon, k=101).law(0.3)
        grid = np.arange(101) / 100
        np.testing.assert_allclose(integer.pmf(grid), analysis.pmf(grid), atol=1e-9)


def test_stability_of_what_is_released():
    """The integer mechanism's rho, by the grid engine, the cells and sampling, against the continuous one."""
    mine = {
        "pm exact": lambda epsilon: mechanisms.kernel("pm", epsilon, bits=8).mechanism(),
        "krr exact": lambda epsilon: mechanisms.kernel("krr", epsilon, k=101).mechanism(),
    }
    ask = {"sensitive": [0, 1], "epsilons": [1.0, 4.0]}
    label = lambda X: (X[:, 0] > 0.5) & (X[:, 1] > 0.25)  # noqa: E731
    curves = ew.stability(label, [[0.8, 0.6]], mechanisms=mine, **ask)
    assert set(curves.method.ravel()) == {"grid"}
    assert curves.guarantees[0][0].epsilon <= 2.0
    known = ew.stability(label, [[0.8, 0.6]], mechanisms=["pm", "krr"], quantise=256, **ask)
    np.testing.assert_allclose(curves.lower, known.lower, atol=0.01)
    large = {"pm exact": lambda epsilon: mechanisms.kernel("pm", epsilon).mechanism()}
    sampled = ew.stability(label, [[0.8, 0.6]], mechanisms=large, rng=0, **ask)
    assert set(sampled.method.ravel()) == {"sampled"}
    assert (sampled.lower <= curves.upper[:1] + 0.01).all()
    assert (sampled.upper >= curves.lower[:1] - 0.01).all()


def test_stability_of_a_forest_under_the_released_law():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    X = rng.random((200, 2))
    forest = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] + X[:, 1] > 1)
    mine = {"pm": lambda epsilon: mechanisms.kernel("pm", epsilon).mechanism()}
    released = ew.stability(forest, X[:3], sensitive=[0, 1], mechanisms=mine, epsilons=[2.0, 6.0])
    analysis = ew.stability(forest, X[:3], sensitive=[0, 1], mechanisms="pm", epsilons=[2.0, 6.0])
    assert set(released.method.ravel()) == {"cells"}
    np.testing.assert_allclose(released.lower, analysis.lower, atol=2e-3)
