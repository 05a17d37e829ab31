"""Jiang et al. 2025: its theorems and propositions, by the exact profiles of the noises they speak of."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from epsworth import noise
from epsworth.noise.mechanism import Boosted
from epsworth.noise.profiles import boost_needed, outside, renyi_divergence, weights
from epsworth.noise.published import published_choice, published_terms
from epsworth.noise.regions import Absolute, Region, region
from epsworth.noise.tuning import best_boosted, plain
from reproduction.inversion import delta_of_several
from reproduction.items import Item, Outcome, Setting, judged

WHY = "independence is assumed"


def _boosted(where: Region, failure: float, ratio: float, size: float = 1.0) -> Boosted:
    """Return the noise whose kernel is ``ratio`` times as wide as the one that needs no boost."""
    scale = ratio * plain("gaussian", where, failure, 1.0).scale
    boost = float(boost_needed(float(outside("gaussian", scale, where)), failure))
    return Boosted("gaussian", scale, boost, where, size)


def theorem_1(setting: Setting) -> Outcome:
    """Compare the delta of the published distribution with the exact one over a grid of noises."""
    worse, total, factor = 0, 0, 1.0
    for theta in (1.0, 2.0, 5.0, 10.0, 20.0):
        for failure in (0.1, 0.01, 0.001):
            for ratio in (1.05, 1.5, 2.5):
                one = _boosted(Absolute(theta), failure, ratio)
                epsilons = np.linspace(0.1, 4, 14)
                true, told = one.profile(epsilons), np.asarray(noise.published_delta(one, epsilons))
                seen = true > 1e-9
                worse += int((told < true * (1 - 1e-6))[seen].sum())
                total += int(seen.sum())
                with np.errstate(divide="ignore"):
                    factor = max(factor, float((true / told)[seen].max(initial=1.0)))
    one = _boosted(Absolute(20.0), 0.001, 1.05)
    exact, claimed = float(one.profile(0.958)), float(noise.published_delta(one, 0.958))
    return Outcome(
        judged(worse == 0),
        f"theta 20, beta .001, epsilon .958: delta {exact:.1e}, published {claimed:.1e}; too small in {worse} of "
        f"{total} cases, by up to {factor:.0f} times",
        WHY,
    )


def proposition_2(setting: Setting) -> Outcome:
    """Compare the published Renyi divergence with the exact one."""
    worse = total = 0
    for theta in (1.0, 2.0, 5.0, 10.0):
        for failure in (0.1, 0.01, 0.001):
            for ratio in (1.05, 1.5, 2.5):
                one = _boosted(Absolute(theta), failure, ratio)
                for order in (2.0, 8.0, 32.0):
                    total += 1
                    worse += noise.published_renyi(one, order) < noise.renyi(one, order) * (1 - 1e-6)
    one = _boosted(Absolute(2.0), 0.001, 1.5)
    exact, claimed = noise.renyi(one, 2.0), noise.published_renyi(one, 2.0)
    return Outcome(
        judged(worse == 0),
        f"theta 2, beta .001, order 2: {exact:.3f}, published {claimed:.3f}; too small in {worse} of {total} cases",
        WHY,
    )


def theorem_2(setting: Setting) -> Outcome:
    """Compute the delta of ten releases by inverting the transform of their loss, and compare the published one."""
    one, found = _boosted(Absolute(10.0), 0.05, 1.1), []
    for epsilon in (1.078, 2.278):
        true, claimed = delta_of_several(one, epsilon, 10), float(noise.published_delta(one, epsilon, 10))
        found.append((epsilon, true, claimed))
    return Outcome(
        judged(all(claimed >= true for _, true, claimed in found)),
        "ten releases, theta 10, beta .05: "
        + "; ".join(
            f"epsilon {epsilon}: delta {true:.4e}, published {claimed:.1e}" for epsilon, true, claimed in found
        ),
        WHY,
    )


def proposition_4(setting: Setting) -> Outcome:
    """Compare the pair (0, sensitivity) with all neighbouring answers under relative errors."""
    where = region("relative", 0.5, offset=2.0, answers=range(151))
    one = _boosted(where, 0.1, 2.0)
    deltas = one.by_pair(1.0)
    firsts, seconds = where.pairs(1.0)
    at = int(np.argmax(deltas))
    named = [float(deltas[i]) for i in range(len(deltas)) if firsts[i] == 0 and seconds[i] == 1]
    claimed = float(noise.published_delta(one, 1.0))
    return Outcome(
        judged(bool(named and named[0] >= deltas.max() * (1 - 1e-9))),
        f"offset 2, theta .5, beta .1, epsilon 1: delta {float(deltas.max()):.3f} between answers {firsts[at]:g} and "
        f"{seconds[at]:g}, {named[0] if named else math.nan:.3f} between 0 and 1, published {claimed:.3f}",
        "usually not the worst pair; its own loss exceeds the claim",
    )


def proposition_5(setting: Setting) -> Outcome:
    """Compare the published delta of fixed regions with the exact one."""
    worst, loose, rng = 0.0, 1.0, np.random.default_rng(0)
    for _ in range(40 if setting.quick else 400):
        width, size = int(rng.integers(4, 20)), int(rng.integers(1, 4))
        where = region("fixed", (0, width))
        scale = float(rng.uniform(0.8, 5))
        chance = float(outside("gaussian", scale, where))
        boost = float(boost_needed(chance, chance * float(rng.uniform(0.05, 0.9))))
        one = Boosted("gaussian", scale, boost, where, size)
        epsilons = np.linspace(0.2, 4, 8)
        exact, claimed = one.profile(epsilons), noise.published_delta(one, epsilons)
        seen = exact > 1e-12
        worst = max(worst, float((exact / claimed)[seen].max(initial=0.0)))
        loose = max(loose, float((claimed / exact)[seen].max(initial=1.0)))
    return Outcome(
        judged(worst <= 1 + 1e-6),
        f"the published delta was never too small, and up to {loose:.0f} times too large",
        "random noises, no proof",
    )


def proposition_6(setting: Setting) -> Outcome:
    """Compute the terms of a data-independent region, and what the guarantee of Remark 4 makes of them."""
    one = _boosted(Absolute(5.0), 0.1, 1.5)
    terms = published_terms(one)
    law = one.law(0.0)
    # inside the region of the answer 0 and outside that of 1: [-5, -4); the other way round: (5, 6]
    plus, minus = float(law.mass(-5.0, -4.0)), float(law.mass(5.0, 6.0))
    right = (
        abs(terms.shift) < 1e-12
        and math.isclose(terms.plus, plus, rel_tol=1e-6)
        and math.isclose(terms.minus, minus, rel_tol=1e-6)
        and math.isclose(terms.step, math.log(one.boost), rel_tol=1e-12)
    )
    return Outcome(
        judged(right and math.isclose(plus, minus, rel_tol=1e-6), corrected=right),
        f"theta 5, beta .1: shift {terms.shift:g}, step ln B = {terms.step:.3f}, p+ {plus:.4f}, p- {minus:.4f}",
        "p+ is a boosted strip inside, p- an unboosted one outside",
    )


def proposition_1(setting: Setting) -> Outcome:
    """Say of the profile what Theorem 1 says of the distribution."""
    return theorem_1(setting)


def remark_4(setting: Setting) -> Outcome:
    """Let the published guarantee choose a noise, and compute its true epsilon."""
    where, failure = Absolute(10.0), 0.001
    base = plain("gaussian", where, failure, 1.0).scale
    chosen = published_choice(where, failure, 1.0, 1e-5, 1, base)
    assert chosen is not None
    one, claimed = chosen
    true, gaussian = one.epsilon(1e-5), plain("gaussian", where, failure, 1.0).epsilon(1e-5)
    return Outcome(
        judged(claimed >= true),
        f"theta 10, beta .001, delta 1e-5: claimed {claimed:.3f}, true {true:.3f}, the plain Gaussian {gaussian:.3f}",
        "Algorithm 2's choice is worse than no boost",
    )


def algorithm_2(setting: Setting) -> Outcome:
    """Count the minima of the exact objective over kernels."""
    theta, failure, delta = 1.7678, 4.02e-4, 1.251e-3
    where = Absolute(theta)
    ratios = np.geomspace(1, 4, 60)
    values = np.array([_boosted(where, failure, float(r)).epsilon(delta) if r > 1 else
                       plain("gaussian", where, failure, 1.0).epsilon(delta) for r in ratios])  # fmt: skip
    inner = (values[1:-1] < values[:-2]) & (values[1:-1] <= values[2:])
    minima = int(inner.sum()) + int(values[0] < values[1]) + int(values[-1] < values[-2])
    best = best_boosted("gaussian", where, failure, 1.0, delta)
    return Outcome(
        judged(minima == 1),
        f"theta {theta}, beta {failure:g}, delta {delta:g}: {minima} minima, {values[0]:.3f} at the plain kernel and "
        f"{best.epsilon(delta):.3f} inside, {values.max():.3f} between or beyond",
        "rare (2 of 400 cases), and the objective is untrue",
    )


def _grr() -> tuple[float, float, float, float]:
    d, k, epsilon, kernel = 70, 10, 2.0, 1.0
    boost = math.exp(epsilon - kernel)
    total = boost * math.exp(kernel) + boost * (k - 1) + (d - k)
    truth, inside, away = boost * math.exp(kernel) / total, boost / total, 1 / total
    return truth, inside, away, truth + (k - 1) * inside


def proposition_7(setting: Setting) -> Outcome:
    """Compute the channel of the boosted randomised response, and that of unequal categories."""
    truth, inside, away, _ = _grr()
    channel = noise.channel(noise.groups([10] * 7), 2.0, 1.0)
    row = np.sort(channel.matrix[0])[::-1]
    same = np.allclose([row[0], row[1], row[-1]], [truth, inside, away], rtol=1e-6)
    uneven = noise.channel(noise.groups([2, 8]), 2.0, 1.0)
    return Outcome(
        judged(bool(same and channel.loss <= 2 + 1e-9)),
        f"70 values in tens, epsilon 2, kernel 1: {truth:.4f}, {inside:.4f}, {away:.4f}; true loss {channel.loss:.6f}",
        f"for regions of one size; for categories of 2 and 8 ln B must fall to {uneven.log_boost:.3f} from 1",
    )


def remark_5(setting: Setting) -> Outcome:
    """Compute the confidence of the boosted randomised response."""
    expected, ours = _grr()[3], noise.Grouped(70, 10, 2.0, 1.0).confidence
    return Outcome(judged(math.isclose(expected, ours, rel_tol=1e-9)), f"{ours:.5f} for 70 values in tens at epsilon 2")


def remark_2(setting: Setting) -> Outcome:
    """Add exact Renyi divergences, and compare with the divergence of two releases at once."""
    one = _boosted(Absolute(5.0), 0.1, 1.5)
    order, rng = 2.0, np.random.default_rng(0)
    single = noise.renyi(one, order)
    cut = weights("gaussian", np.array([one.scale]), np.array([one.boost]), one.region, *one.region.pairs(1.0))
    again = float(np.max(renyi_divergence("gaussian", np.array([one.scale]), cut, order)))
    here, there = one.law(1.0), one.law(0.0)
    first, second = (there.sample(400_000, rng) for _ in range(2))
    ratio = (here.pdf(first) / there.pdf(first)) * (here.pdf(second) / there.pdf(second))
    two = float(np.log(np.mean(ratio**order)) / (order - 1))
    return Outcome(
        judged(abs(two - 2 * single) < 0.05 * single),
        f"order 2: one release {single:.4f} ({again:.4f}), two {two:.4f} by draws",
        "what is added (privacy-boosting/proposition-2) is too small",
    )


def analytic(setting: Setting) -> Outcome:
    """Check the profile of the unboosted kernel, on which every formula of the paper rests."""
    one = plain("gaussian", Absolute(5.0), 0.1, 1.0)
    epsilon, sigma = 0.5, one.scale
    printed = ndtr(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * ndtr(-0.5 / sigma - epsilon * sigma)
    ours = float(one.profile(epsilon))
    return Outcome(
        judged(math.isclose(ours, printed, rel_tol=1e-6)), f"delta {ours:.3e} at epsilon .5, theta 5, beta .1"
    )


_ROWS = (
    (
        "theorem-1",
        "Theorem 1, section 3.2",
        "The loss is a mixture of three shifts of the kernel's.",
        theorem_1,
    ),
    (
        "theorem-2",
        "Theorem 2, section 3.3",
        "T releases: a sum over 2 T + 1 leakages of the kernel's T-fold loss.",
        theorem_2,
    ),
    (
        "proposition-1",
        "Proposition 1, section 3.2",
        "Delta is a mixture of the kernel's at three shifts.",
        proposition_1,
    ),
    (
        "proposition-2",
        "Proposition 2, section 3.2",
        "Renyi divergence is the kernel's plus a shift and a term of the boost.",
        proposition_2,
    ),
    ("proposition-3", "Proposition 3, section 3.3", "The delta of T releases follows from Theorem 2.", theorem_2),
    (
        "proposition-4",
        "Proposition 4, section 4.1",
        "Relative errors: the answers 0 and sensitivity are the worst pair.",
        proposition_4,
    ),
    (
        "proposition-5",
        "Proposition 5, section 4.2",
        "A fixed region: one shift, taken at the region's boundary.",
        proposition_5,
    ),
    (
        "proposition-6",
        "Proposition 6, section 4.3",
        "Constant width: no shift, a step of ln B, equally probable either way.",
        proposition_6,
    ),
    (
        "proposition-7",
        "Proposition 7, section 4.4.1",
        "Boosted randomised response: three probabilities that keep pure epsilon-LDP.",
        proposition_7,
    ),
    ("remark-2", "Remark 2, section 3.3", "Renyi divergences of several releases add up.", remark_2),
    (
        "remark-3",
        "Remark 3, section 4.2",
        "A fixed region costs the kernel's delta at epsilon less the shift.",
        proposition_5,
    ),
    (
        "remark-4",
        "Remark 4, section 4.3",
        "Constant width: (epsilon, delta) in closed form.",
        remark_4,
    ),
    ("remark-5", "Remark 5, section 4.4.1", "The confidence of the boosted randomised response.", remark_5),
    (
        "algorithm-1",
        "Algorithm 1, section 3.3",
        "The epsilon of T releases, by Theorem 2.",
        theorem_2,
    ),
    (
        "algorithm-2",
        "Algorithm 2, section 3.4",
        "Ternary search finds the best kernel, as the loss has one minimum.",
        algorithm_2,
    ),
    ("section-2", "Section 2", "The Gaussian kernel's delta in closed form.", analytic),
)
ITEMS = (
    *(Item(f"privacy-boosting/{name}", what, said, compute, quick=True) for name, what, said, compute in _ROWS),
    Item(
        "privacy-boosting/remark-1",
        "Remark 1, section 3.3",
        "How the accounting's time grows with T.",
        reason="lost in our copy; repeated convolution takes T^2",
    ),
)
