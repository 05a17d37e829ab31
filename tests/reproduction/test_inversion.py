"""The delta of ten releases: by our inversion, by mpmath, and between two convolutions that cannot miss it."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from epsworth.noise.profiles import boost_needed, outside
from epsworth.noise.regions import Absolute
from epsworth.noise.tuning import plain
from reproduction.inversion import delta_of_several, transform
from reproduction.privacy_boosting import _boosted

THETA, FAILURE, RELEASES = 10.0, 0.05, 10


@pytest.fixture(scope="module")
def noise():
    return _boosted(Absolute(THETA), FAILURE, 1.1)


def by_mpmath(epsilon, releases):
    """Return the same number from the definition alone: 20 digits, another line, the pieces written out."""
    with mp.workdps(20):
        below = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2  # noqa: E731
        theta, beta = mp.mpf(10), mp.mpf("0.05")
        sigma = mp.mpf("1.1") * theta / mp.findroot(lambda x: 2 * (1 - below(x)) - beta, 1.96)
        out = 2 * (1 - below(theta / sigma))
        boost = (1 - beta) / beta * out / (1 - out)
        ends = [-mp.inf, -theta, 1 - theta, theta, 1 + theta, mp.inf]
        weights = [(1, 1), (boost, 1), (boost, boost), (1, boost), (1, 1)]

        def moment(s):
            total = mp.mpc(0)
            for (own, other), a, b in zip(weights, ends[:-1], ends[1:], strict=True):
                high = 1 if b == mp.inf else below((b + s) / sigma)
                low = 0 if a == -mp.inf else below((a + s) / sigma)
                total += own * mp.e ** (s * mp.log(mp.mpf(own) / other)) * (high - low)
            return total * mp.e ** (s * (s + 1) / (2 * sigma**2)) / (boost * (1 - out) + out)

        step, total = mp.mpf(1) / 2, mp.mpf(0)
        for k in range(240):
            s = mp.mpc(4, k * step)
            term = moment(s) ** releases * mp.e ** (-s * mp.mpf(epsilon)) / (s * (s + 1))
            total += mp.re(term) / (2 if k == 0 else 1)
        return float(total * step / mp.pi)


def between(noise, epsilon, releases, cells=2**16, width=5e-4):
    """Return two bounds: the loss of each release rounded down, and up, to a lattice, and convolved."""
    z = np.linspace(-15 * noise.scale, 1 + 15 * noise.scale, 400_001)
    ends = [-THETA, 1 - THETA, THETA, 1 + THETA]
    z = np.unique(np.r_[z, ends])
    low, high = z[:-1], z[1:]
    middle = (low + high) / 2
    own, other = (np.where(np.abs(middle - q) <= THETA, noise.boost, 1.0) for q in (0.0, 1.0))
    mass = noise.law(0.0).mass(low, high)
    sides = [np.log(own / other) + (1 - 2 * at) / (2 * noise.scale**2) for at in (high, low)]  # it falls within a cell
    found = []
    for side, rounded in zip(sides, (np.floor, np.ceil), strict=True):
        at = rounded(side / width).astype(int)
        share = np.bincount(at - at.min(), weights=mass, minlength=cells)
        total = np.fft.irfft(np.fft.rfft(share) ** releases, cells)
        losses = width * (np.arange(cells) + releases * at.min())
        found.append(float((total * np.maximum(-np.expm1(epsilon - losses), 0)).sum()))
    return found


@pytest.mark.parametrize(("epsilon", "known"), [(2.278, 2.64156e-4), (1.078, 2.07250e-2)])
@pytest.mark.slow
def test_three_ways_give_one_delta(noise, epsilon, known):
    ours = delta_of_several(noise, epsilon, RELEASES)
    assert ours == pytest.approx(by_mpmath(str(epsilon), RELEASES), rel=1e-5)
    assert ours == pytest.approx(known, rel=1e-5)
    least, most = between(noise, epsilon, RELEASES)
    assert least <= ours <= most
    assert most - least < 0.05 * ours


def test_the_transform_is_that_of_a_loss(noise):
    # E[1] and E[exp(-L)] are 1, the latter as both laws have the same support
    assert transform(noise, np.array([0.0 + 0j, -1.0 + 0j])) == pytest.approx([1, 1], rel=1e-12)


def test_what_cannot_be_inverted_is_refused(noise):
    with pytest.raises(ArithmeticError, match="the inversion gives"):
        delta_of_several(noise, 0.3, 1)
    with pytest.raises(ValueError, match="only Gaussian kernels"):
        transform(_boosted(Absolute(THETA), FAILURE, 1.1, 2.0), np.array([0j]))


def test_the_noise_is_the_specified_one(noise):
    scale = 1.1 * plain("gaussian", Absolute(THETA), FAILURE, 1.0).scale
    assert noise.scale == pytest.approx(scale)
    assert noise.boost == pytest.approx(
        float(boost_needed(float(outside("gaussian", scale, Absolute(THETA))), FAILURE))
    )
    assert math.isclose(noise.scale, 5.612348026171193, rel_tol=1e-9)
