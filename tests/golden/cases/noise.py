"""Noise that keeps answers within a bound."""

from __future__ import annotations

import numpy as np
from golden_results import ALGEBRA, chosen, golden, json_of, scaled

from epsworth import noise
from epsworth.mechanisms.words import ReplayableWords

TUNED = 1e-5  # scales and boosts come from searches, floors from a linear program: both stop at about 1e-6


def by_name(ranking):
    """Return rows by name, not by rank: some differ by less than the searches' tolerance."""
    names = ("epsilon", "delta", "releases", "confidence", "rmse", "sound", "pairs")
    return {"rows": {row.name: chosen(row, *names) for row in sorted_rows(ranking)}, "floor": ranking.floor}


def sorted_rows(ranking):
    return sorted(ranking, key=lambda row: row.name)


def with_less_confidence(optimal_noise):
    """Return the best noise for four fifths of the confidence."""

    def wrong(theta, *, confidence, **options):
        return optimal_noise(theta, confidence=confidence * 4 / 5, **options)

    return wrong


@golden(
    "noises for a number, cheapest first",
    subject="epsworth.noise.profiles.smallest_epsilon",
    mutate=scaled(1.1),
    tolerance=TUNED,
)
def _():
    return by_name(noise.cheapest(5, confidence=0.95, sensitivity=1, delta=1e-6))


@golden(
    "noises for counts without delta",
    subject="epsworth.noise.optimal_noise",
    mutate=with_less_confidence,
    tolerance=TUNED,
)
def _():
    return by_name(noise.cheapest(2, confidence=0.9, delta=0, lattice=1))


@golden(
    "noises for relative errors of a list of answers",
    subject="epsworth.noise.profiles.smallest_epsilon",
    mutate=scaled(1.1),
    tolerance=TUNED,
)
def _():
    found = noise.cheapest(0.3, confidence=0.9, region="relative", offset=2, answers=[0, 1, 5, 6, 20], delta=1e-5)
    return by_name(found)


@golden("a boosted noise", subject="epsworth.noise.profiles.hockey_stick", mutate=scaled(1.1), tolerance=ALGEBRA)
def _():
    gaussian = noise.boosted(scale=2.8, theta=5.0, boost=1.5215837245)
    laplace = noise.boosted("laplace", scale=3.0, theta=4.0, confidence=0.9)
    law = laplace.law(1.0)
    return {
        "gaussian": {
            "delta": noise.delta(gaussian, [0.25, 0.75, 1.5]),
            "epsilon": [gaussian.epsilon(1e-3), gaussian.epsilon(1e-6)],
            "renyi": [noise.renyi(gaussian, order) for order in (2.0, 8.0)],
        },
        "laplace": {
            "boost": laplace.boost,
            "delta": noise.delta(laplace, [0.1, 0.5]),
            "cdf": law.cdf([-8.0, -3.1, 0.0, 1.0, 4.9, 12.0]),
            "variance": float(law.var()),
        },
        "published": [float(noise.published_delta(gaussian, 1.0)), noise.published_epsilon(gaussian, 1e-5)],
    }


@golden(
    "the best noise there is",
    subject="epsworth.noise.optimal_noise",
    mutate=with_less_confidence,
    tolerance=TUNED,
)
def _():
    found = noise.optimal_noise(2, confidence=0.9, sensitivity=1, delta=1e-6, lattice=1)
    pure = noise.optimal_noise(0.5, confidence=0.9, sensitivity=1.0, delta=0.0)
    released = noise.release_of(found.noise)
    drawn = np.asarray(released.draw(np.arange(8), words=ReplayableWords(4)))
    return {
        "approximate": [found.floor, found.floor_any, found.noise.epsilon(1e-6)],
        "pure": [pure.floor, pure.floor_any, pure.noise.pure_epsilon],
        "release": {
            "points": len(released.weights),
            "sum of weights": sum(released.weights),
            "middle": [float(weight) for weight in released.weights[len(released.weights) // 2 :][:4]],
            "confidence": float(released.confidence),
            "epsilon": float(released.epsilon("1e-6")),
            "drawn": drawn,
        },
    }


@golden(
    "the best noise for other questions",
    subject="epsworth.noise.optimal_noise",
    mutate=with_less_confidence,
    tolerance=TUNED,
)
def _():
    asked = {"theta": 2.3, "confidence": 0.99, "sensitivity": 1.0, "delta": 1e-5}
    objectives = ("advantage", "tpr@0.01", "renyi@4", "zcdp", "gdp")
    found = {name: noise.optimal_noise(**asked, objective=name) for name in objectives}
    several = {k: noise.optimal_noise(**{**asked, "theta": 5.0}, releases=k) for k in (2, 100)}
    return {
        "cost": {name: [best.cost, best.floor] for name, best in found.items()},
        "several releases": {str(k): best.cost for k, best in several.items()},
    }


@golden(
    "what an epsilon affords",
    subject="epsworth.noise.profiles.smallest_epsilon",
    mutate=scaled(1.1),
    tolerance=TUNED,
)
def _():
    return {
        "confidence": noise.best_confidence(2.5, 2.0, delta=1e-5, mechanism="gaussian"),
        "boosted confidence": noise.best_confidence(1.0, 5.0, delta=1e-6),
        "interval": noise.narrowest_interval(2.0, confidence=0.95, delta=1e-5, mechanism="gaussian"),
        "releases": noise.most_releases(3, 12.0, confidence=0.9, mechanism="gaussian"),
    }


@golden(
    "boosted randomised response",
    subject="epsworth.noise.pb_grr",
    mutate=lambda f: lambda d, k, e, own: f(d, k, 0.9 * e, own),
    tolerance=ALGEBRA,
)
def _():
    reports = noise.Grouped(20, 5, 2.0, 1.0)
    ratings = noise.channel(noise.windows(5, 1), 2.0, 1.0)
    return {
        "chances": [list(noise.pb_grr(20, 5, 2.0, 1.0)), list(noise.pb_grr(8, 2, 1.0, 0.5))],
        "variance": reports.category_variance(1000, 400),
        "channel": ratings.matrix,
        "boost": ratings.log_boost,
        "confidence": ratings.confidence,
        "loss": ratings.loss,
        "counts": ratings.counts_of_items(ratings.matrix.T @ [10, 20, 30, 20, 20]),
        "on the simplex": noise.on_simplex([0.5, 0.7, -0.1]),
        "split users": noise.split_users([0.05] * 20, k=5, epsilon=2.0, part=0.5, users=10_000),
        "windows": noise.windows(4, 1, circular=True),
    }


@golden(
    "noise on the command line",
    subject="epsworth.noise.profiles.smallest_epsilon",
    mutate=scaled(1.1),
    tolerance=TUNED,
)
def _(folder):
    found = json_of(folder, "noise", "--within", "5", "--confidence", "0.9")
    names = ("epsilon", "delta", "confidence", "rmse")
    return {"rows": {row["name"]: chosen(row, *names) for row in found["rows"]}, "floor": found["floor"]}
