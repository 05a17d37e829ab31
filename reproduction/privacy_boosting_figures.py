"""Jiang et al. 2025: Figures 1 to 7 in numbers; sensitivities, regions and orders are not all stated there."""

from __future__ import annotations

import csv
import gzip
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from epsworth import noise
from epsworth.arrays import Floats
from epsworth.noise.mechanism import Boosted
from epsworth.noise.profiles import boost_needed, outside, renyi_divergence, weights
from epsworth.noise.published import published_terms
from epsworth.noise.regions import Absolute, Region, region
from epsworth.noise.staircase import best_staircase
from epsworth.noise.tuning import best_boosted, plain
from reproduction.items import Item, Outcome, Setting, judged
from reproduction.panels import Panel, curve, curves

DELTA = 1e-5
SHARES = (0.05, 0.1, 0.2, 0.5)  # theta of relative errors
OFFSET = 2.0  # of relative errors: the half-width at answer 0
ADULT = ("adult_train.csv.gz", "adult_test.csv.gz")


def _pair(half: float, failure: float, size: float, delta: float = DELTA) -> tuple[float, float, float]:
    """Return the epsilons of the plain Gaussian, of the best boosted one, and of the staircase."""
    return _triple(Absolute(half), half, failure, size, delta)


def _triple(where: Region, half: float, failure: float, size: float, delta: float) -> tuple[float, float, float]:
    """Return the same in a region, of which ``half`` is the narrowest half-width."""
    return (
        plain("gaussian", where, failure, size).epsilon(delta),
        best_boosted("gaussian", where, failure, size, delta).epsilon(delta),
        best_staircase(half, failure, size).epsilon(delta),
    )


def _relative(theta: float, failure: float, size: float) -> tuple[float, float, float]:
    """Return the same for errors within 2 + theta times the answer, a whole number from 0 to 30."""
    return _triple(region("relative", theta, offset=OFFSET, answers=np.arange(31.0)), OFFSET, failure, size, DELTA)


def best_renyi(half: float, failure: float, size: float, order: float) -> tuple[float, float]:
    """Return the divergence of the plain Gaussian and of the best boosted one."""
    where = Absolute(half)
    scales = plain("gaussian", where, failure, 1.0).scale * np.geomspace(1, 40, 300)
    boosts = np.where(scales <= scales[0], 1.0, boost_needed(outside("gaussian", scales, where), failure))
    cut = weights("gaussian", scales[:, np.newaxis], boosts[:, np.newaxis], where, *where.pairs(size))
    found = renyi_divergence("gaussian", scales[:, np.newaxis], cut, order)[:, 0]
    return float(found[0]), float(found.min())


def _least(half: float, order: float) -> float:
    """Return the divergence of the best noise there is, proven."""
    found = noise.optimal_noise(half, confidence=0.9, sensitivity=1.0, delta=0.0, objective=f"renyi@{order!r}")
    return found.cost


def _compared(rows: Floats, x: tuple[str, Sequence[float]], title: str) -> Panel:
    names = dict(zip(("Gaussian", "boosted", "staircase (pure)"), rows.T, strict=True))
    return curves(title, x, "epsilon", names, logs="xy")


def _divergences(rows: Floats, x: tuple[str, Sequence[float]], title: str) -> Panel:
    return curves(title, x, "Renyi divergence", dict(zip(("Gaussian", "boosted"), rows.T, strict=True)), logs="xy")


def figure_2(setting: Setting) -> Outcome:
    """Compute the gain against the smallest region, for a low and a high sensitivity."""
    halves = (1.0, 5.0, 20.0) if setting.quick else tuple(np.geomspace(0.5, 20, 10))
    low, high = (np.array([_pair(half, 0.1, size) for half in halves]) for size in (1.0, 5.0))
    renyi = [best_renyi(2.0, 0.1, 1.0, order) for order in (8.0, 32.0)]
    gains = [1 - rows[:, 1] / rows[:, 0] for rows in (low, high)]
    never_worse = all((rows[:, 1] <= rows[:, 0] * (1 + 1e-9)).all() for rows in (low, high))
    wider = bool((gains[1] >= gains[0] - 1e-9).all())
    stairs = int((low[:, 2] < low[:, 1]).sum() + (high[:, 2] < high[:, 1]).sum())
    return Outcome(
        judged(never_worse and wider and all(two <= one for one, two in renyi)),
        f"gain over the Gaussian from theta {halves[0]:g} to {halves[-1]:g}: {gains[0][0]:.0%} to {gains[0][-1]:.0%} "
        f"(sensitivity 1), {gains[1][0]:.0%} to {gains[1][-1]:.0%} (5); Renyi of order 8 at 2: {renyi[0][0]:.2f} to "
        f"{renyi[0][1]:.2f}",
        f"the staircase, left out, is better in {stairs} of {2 * len(halves)} cases, and pure",
        panels=(
            _compared(low, ("theta", halves), "sensitivity 1, delta 1e-5"),
            _compared(high, ("theta", halves), "sensitivity 5, delta 1e-5"),
            *(
                _divergences(
                    np.array([best_renyi(half, 0.1, size, 8.0) for half in halves]), ("theta", halves),
                    f"sensitivity {size:g}, order 8",
                )
                for size in (1.0, 5.0)
            ),
            *(
                _compared(
                    np.array([_relative(theta, 0.1, size) for theta in SHARES]), ("theta", SHARES),
                    f"relative error, sensitivity {size:g}",
                )
                for size in (1.0, 5.0)
            ),
        ),
    )  # fmt: skip


def figure_3(setting: Setting) -> Outcome:
    """Compute the gain against the confidence."""
    failures = (0.3, 0.1, 0.01, 0.001)
    rows = {size: np.array([_pair(5.0, failure, size) for failure in failures]) for size in (1.0, 5.0)}
    slower = [bool(np.ptp(found[:, 1]) < np.ptp(found[:, 0])) for found in rows.values()]
    strict = [float(1 - np.divide(*reversed(_pair(5.0, 0.05, 1.0, delta)[:2]))) for delta in (1e-3, 1e-5, 1e-9)]
    grows = strict[0] < strict[1] < strict[2]
    return Outcome(
        judged(all(slower) and grows, corrected=slower[1] and grows),
        "Gaussian to boosted at beta .3 and .001: "
        + "; ".join(
            f"sensitivity {size:g}: " + ", ".join(f"{one:.2f} to {two:.2f}" for one, two, _ in found[[0, -1]])
            for size, found in rows.items()
        ),
        f"gain at delta 1e-3, 1e-5, 1e-9: {', '.join(f'{value:.0%}' for value in strict)}; less steep only at high "
        "sensitivity",
        panels=(
            *(_compared(found, ("failure probability", failures), f"sensitivity {size:g}, theta 5")
              for size, found in rows.items()),
            *(
                _divergences(
                    np.array([best_renyi(5.0, failure, size, 8.0) for failure in failures]),
                    ("failure probability", failures), f"sensitivity {size:g}, order 8",
                )
                for size in (1.0, 5.0)
            ),
            *(
                _compared(
                    np.array([_relative(0.2, failure, size) for failure in failures]),
                    ("failure probability", failures), f"relative error, sensitivity {size:g}, theta .2",
                )
                for size in (1.0, 5.0)
            ),
        ),
    )  # fmt: skip


def figure_4(setting: Setting) -> Outcome:
    """Time draws of both noises, and count the draws that rejection would take."""
    rng, times, draws, halves = np.random.default_rng(0), {}, [], (1.0, 5.0, 10.0)
    for half in halves:
        one = best_boosted("gaussian", Absolute(half), 0.1, 1.0, DELTA)
        for name, kind in (("Gaussian", plain("gaussian", Absolute(half), 0.1, 1.0)), ("boosted", one)):
            law, spent = kind.law(0.0), []
            for _ in range(5):
                began = time.perf_counter()
                law.sample(10_000, rng)
                spent.append(1e3 * (time.perf_counter() - began))
            times[name, half] = min(spent)
        chance = float(outside("gaussian", one.scale, one.region))
        draws.append(1 / (1 - chance * (1 - 1 / one.boost)))
    shown = ", ".join(f"{times['boosted', half]:.1f}" for half in halves)
    return Outcome(
        judged(draws[0] > draws[1] > draws[2]),
        f"draws per value by rejecting {', '.join(f'{value:.2f}' for value in draws)} at theta 1, 5, 10; 1e4 values by "
        f"inverse transform {shown} ms",
        "by rejection",
        panels=(
            curves("by rejecting", ("theta", halves), "draws per value", {"boosted": draws}),
            curves(
                "by inverse transform", ("theta", halves), "ms for 10,000 values",
                {name: [times[name, half] for half in halves] for name in ("Gaussian", "boosted")},
            ),
        ),
    )  # fmt: skip


def figure_5(setting: Setting) -> Outcome:
    """Compute exact epsilons in a fixed region: clamped, boosted and truncated."""
    where = region("fixed", (0, 10))
    kernel = Boosted("gaussian", 2.0, 1.0, Absolute(1.0), 1.0).epsilon(DELTA)
    exact, claimed = [], []
    misses, chances = (0.4, 0.2, 0.1, 0.0), (0.0001, 0.1, 0.2, 0.3, 0.4)
    for failure in misses:
        boost = np.inf if failure == 0 else float(boost_needed(float(outside("gaussian", 2.0, where)), failure))
        one = Boosted("gaussian", 2.0, boost, where, 1.0)
        exact.append(one.epsilon(DELTA))
        claimed.append(noise.published_epsilon(one, DELTA))
    shifts = []
    for failure in chances:
        boost = float(boost_needed(float(outside("gaussian", 2.0, where)), failure))
        shifts.append(published_terms(Boosted("gaussian", 2.0, boost, where, 1)).shift)
    falls = all(one > two for one, two in pairwise(shifts))
    return Outcome(
        judged(falls and exact[2] < exact[3], corrected=False),
        f"[0, 10], sigma 2, delta 1e-5: clamped {kernel:.3f}, boosted at beta .4, .2, .1 "
        f"{', '.join(f'{value:.3f}' for value in exact[:3])}, truncated {exact[3]:.3f}; published "
        f"{', '.join(f'{value:.3f}' for value in claimed)}; shift {shifts[0]:.3f} to {shifts[-1]:.3f}",
        "truncation has the least exact epsilon",
        panels=(
            curves(
                "[0, 10], sigma 2, delta 1e-5", ("failure probability", misses), "epsilon",
                {"exact": exact, "published": claimed}, besides=(curve("clamped", misses, [kernel] * 4, "guide"),),
            ),
            curves("published extra loss", ("failure probability", chances), "shift", {"sigma 2": shifts}),
        ),
    )  # fmt: skip


def figure_6(setting: Setting) -> Outcome:
    """Compose Renyi divergences: the gain over the Gaussian at one and at many releases."""
    orders, shown, relative, absolute, both = np.geomspace(1.02, 300, 40), [], [], [], []
    for half in (2.0, 10.0):
        rows = np.array([(*best_renyi(half, 0.1, 1.0, float(order)), _least(half, float(order))) for order in orders])
        for releases in (1, 10, 100):
            cost = releases * rows + (np.log(1 / DELTA) / (orders - 1))[:, np.newaxis]
            gaussian, boosted, least = cost.min(axis=0)
            relative.append(1 - boosted / gaussian)
            absolute.append(gaussian - boosted)
            shown.append(f"{gaussian:.2f} to {boosted:.2f} (best {least:.2f})")
            both.append((gaussian, boosted, least))
    widens, grows = (all(gain[i + 2] > gain[i] for i in (0, 3)) for gain in (relative, absolute))
    return Outcome(
        judged(widens, corrected=grows),
        f"Gaussian to boosted for 1, 10, 100 releases at theta 2: {', '.join(shown[:3])}",
        "the gain shrinks",
        panels=tuple(
            curves(f"theta {half:g}", ("releases", (1, 10, 100)), "epsilon",
                   dict(zip(("Gaussian", "boosted", "the best noise"), np.array(rows).T, strict=True)), logs="xy")
            for half, rows in ((2.0, both[:3]), (10.0, both[3:]))
        ),
    )  # fmt: skip


def ages(setting: Setting) -> Floats:
    """Return the ages of all people in the Adult data, limited to 70 values."""
    found = []
    for name in ADULT:
        with gzip.open(setting.file(name), "rt", newline="") as lines:
            found += [int(float(row["age"])) for row in csv.DictReader(lines)]
    return np.clip(found, 17, 86) - 17.0


def figure_7(setting: Setting) -> Outcome:
    """Compute errors of categories and values against the kernel's share of epsilon, and those of split users."""
    people, epsilon, said, shown, panels = ages(setting).astype(int), 2.0, [], [], []
    users = people.size
    shares = np.bincount(people, minlength=70) / users
    for k in (10, 5):
        kernels = np.linspace(0.05, 1, 20) * epsilon
        errors = np.array([noise.Grouped(70, k, epsilon, float(e)).mean_square_errors(shares) for e in kernels]) / users
        split = [noise.split_users(shares, k, epsilon, float(part), users) for part in np.linspace(0.1, 0.9, 17)]
        best = np.array(min(split, key=sum))
        beaten = int((errors > best).all(axis=1).sum())
        panels.append(
            curves(
                f"regions of {k}", ("the kernel's epsilon of 2", kernels), "mean square error of a frequency",
                {"categories": errors[:, 0], "values": errors[:, 1]}, logs="y",
                besides=tuple(curve(f"users split, {name}", kernels, np.full(20, value), "guide")
                              for name, value in zip(("categories", "values"), best, strict=True)),
            )
        )  # fmt: skip
        said.append(errors[:, 0].argmin() == 0 and errors[:, 1].argmin() == len(kernels) - 1)
        shown.append(
            f"k = {k}: categories {errors[0, 0]:.1e} to {errors[-1, 0]:.1e}, values {errors[0, 1]:.1e} to "
            f"{errors[-1, 1]:.1e}; users split: {best[0]:.1e} and {best[1]:.1e}, better for {beaten} of 20"
        )
    return Outcome(
        judged(all(said)),
        f"epsilon 2, kernel's share .05 to 1; {shown[0]}",
        "splitting users is mostly better",
        panels=tuple(panels),
    )


ITEMS = (
    Item(
        "privacy-boosting/fig-1",
        "Figure 1, section 3",
        "A drawing of boosted noise distributions.",
        reason="our copy holds no picture",
    ),
    Item(
        "privacy-boosting/fig-2",
        "Figure 2, section 5.1",
        "Boosted noise beats Gaussian epsilons, more so for high sensitivity.",
        figure_2,
        quick=True,
    ),
    Item(
        "privacy-boosting/fig-3",
        "Figure 3, section 5.1",
        "Boosted epsilons grow more slowly with the confidence, the gain as delta falls.",
        figure_3,
        quick=True,
    ),
    Item(
        "privacy-boosting/fig-4",
        "Figure 4, section 5.2",
        "Sampling takes less time as theta grows.",
        figure_4,
        quick=True,
    ),
    Item(
        "privacy-boosting/fig-5",
        "Figure 5, section 5.3",
        "In a fixed region boosting beats truncation; the shift falls.",
        figure_5,
        quick=True,
    ),
    Item(
        "privacy-boosting/fig-6",
        "Figure 6, section 5.4",
        "Over many releases the gain becomes larger.",
        figure_6,
        quick=True,
    ),
    Item(
        "privacy-boosting/fig-7",
        "Figure 7, section 5.5",
        "Adult's ages: randomised response is best for values, worst for categories.",
        figure_7,
        quick=True,
        needs=ADULT,
    ),
)
