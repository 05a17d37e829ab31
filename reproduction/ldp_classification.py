"""Baumann 2022 on Berrett & Butucea 2019: the mechanism of the slides, its excess risk, and its experiment."""

from __future__ import annotations

import itertools
import math

import numpy as np
from sklearn.datasets import make_moons

from epsworth.arrays import Floats
from epsworth.learner import LDPClassifier, rate
from reproduction import published_lattice  # noqa: F401  the mechanism of the slides
from reproduction.items import Item, Outcome, Setting, judged
from reproduction.panels import Panel, Series, curve, curves

CENTRE = 0.4137  # where the labels turn: off the lattice, on which the excess would be exactly zero
SLOPE = 0.8


def theorem_1(setting: Setting) -> Outcome:
    """Count the cells in which two points' messages differ, at most, in one to three dimensions."""
    most = {}
    # per axis: on the lattice one cell is active, elsewhere two; far points share none
    axes = [{0}, {0, 1}, {1}, {7}, {7, 8}]
    for d in (1, 2, 3):
        points = [set(itertools.product(*one)) for one in itertools.product(axes, repeat=d)]
        most[d] = max(len(one ^ other) for one in points for other in points)
    return Outcome(
        judged(all(count <= 2 ** (d + 1) for d, count in most.items())),
        f"messages differ by at most {most[1]}, {most[2]}, {most[3]} for d = 1, 2, 3",
    )


def _excess(n: int, alpha: float, h: float, rng: np.random.Generator, runs: int, private: bool = True) -> float:
    """Return the mean excess risk in one dimension: X uniform on [0, 1], eta(x) = 1/2 + SLOPE (x - CENTRE).

    The sums of all reports are drawn by their laws: counts of cells, and sums of n Laplace draws, nearly normal.
    """
    centres = h * np.arange(math.floor(1 / h) + 2)
    low, high = np.clip(centres - h, 0, 1), np.clip(centres + h, 0, 1)
    mass = np.maximum(high - low, 0)
    half = SLOPE * ((high**2 - low**2) / 2 - CENTRE * (high - low))  # integral of eta - 1/2 over the cell
    ones = mass / 2 + half  # the chance of a point of label one in the cell
    spread = ones * (1 - ones) + mass * (1 - mass) / 4
    noise = 2.5 * (4 / alpha) ** 2 if private else 0.0
    fine = (np.arange(4000) + 0.5) / 4000
    nearest = np.minimum(np.rint(fine / h).astype(int), len(centres) - 1)
    lost = 2 * SLOPE * np.abs(fine - CENTRE)
    total = 0.0
    for _ in range(runs):
        T = half + rng.standard_normal(len(centres)) * np.sqrt((spread + noise) / n)
        wrong = (T[nearest] >= 0) != (fine >= CENTRE)
        total += float((wrong * lost).mean())
    return total / runs


def _slope(users: Floats, excess: Floats) -> float:
    return float(np.polyfit(np.log(users), np.log(excess), 1)[0])


def _falling(private: bool, setting: Setting) -> tuple[Floats, Floats]:
    users = 10.0 ** np.arange(4, 11)
    rng, runs = np.random.default_rng(0), 200 if setting.quick else 2000
    power = 1 / 4 if private else 1 / 3
    risks = [
        np.mean([
            _excess(int(n), 1.0, float(scale * n**-power), rng, max(1, runs // 10), private)
            for scale in np.linspace(0.8, 1.2, 10)  # averages over where the boundary falls in its cell
        ])
        for n in users
    ]  # fmt: skip
    return np.asarray(users, dtype=float), np.array(risks, dtype=float)


def theorem_2(setting: Setting) -> Outcome:
    """Watch the excess risk fall, and break the theorem by an alpha that grows."""
    users, risks = _falling(True, setting)
    rng = np.random.default_rng(1)
    # d = 1, h = 1/n, alpha_n = n: n alpha^2 h^2 = n grows, but a cell holds two users however many there are
    broken, few = [], (10**3, 10**4, 10**5)
    for n in few:
        counts = rng.binomial(n, 2 / n, size=4000)
        x = rng.random(4000)
        ones, others = rng.binomial(counts, 0.5 + SLOPE * (x - CENTRE)), rng.binomial(n, 2 / n, size=4000)
        noise = math.sqrt(2.5) * 4 / n * rng.standard_normal(4000) / math.sqrt(n)
        label = ones / n - others / (2 * n) + noise >= 0
        broken.append(float(np.mean((label != (x >= CENTRE)) * 2 * SLOPE * np.abs(x - CENTRE))))
    falls = bool((np.diff(risks) < 0).all() and risks[-1] < risks[0] / 20)
    return Outcome(
        judged(falls and broken[-1] < broken[0] / 2, corrected=falls),
        f"alpha 1, one dimension, n = 1e4, 1e7, 1e10: {risks[0]:.4f}, {risks[3]:.4f}, {risks[6]:.6f}; with alpha = n, "
        f"h = 1/n, n = 1e3, 1e4, 1e5: {', '.join(f'{value:.3f}' for value in broken)}",
        "alpha must stay bounded",
        panels=(
            curves("alpha = 1, h = n^(-1/4)", ("users n", users), "excess risk", {"one dimension": risks}, logs="xy"),
            curves("alpha = n, h = 1/n", ("users n", few), "excess risk", {"one dimension": broken}, logs="xy"),
        ),
    )


def lemma_1(setting: Setting) -> Outcome:
    """Look for points of small mass among draws of a law with a density, an atom and a singular part."""
    rng, count = np.random.default_rng(0), 20_000
    digits = rng.integers(0, 2, size=(count, 40)) * 2
    cantor = (digits * 3.0 ** -np.arange(1, 41)).sum(axis=1)
    drawn = {"normal": np.sort(rng.standard_normal(count)), "Cantor": np.sort(cantor), "atom": np.zeros(count)}
    least = {}
    for name, values in drawn.items():
        ratios = []
        for h in (0.3, 0.1, 0.03):
            near = np.searchsorted(values, values + h) - np.searchsorted(values, values - h, side="right")
            ratios.append(float(np.quantile(near / count / h, 0.01)))
        least[name] = ratios
    holds = all(min(ratios) > 0.01 for ratios in least.values())
    return Outcome(
        judged(holds),
        "P[|X - x| < h] / h at h = .3, .1, .03, exceeded by 99 % of the points: "
        + "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in ratios)}" for name, ratios in least.items()),
        "three scales, no proof",
    )


def lemma_2(setting: Setting) -> Outcome:
    """Evaluate both limits of the lemma at a point, in one dimension."""
    x0, bounds, signs = 0.7, [], []
    eta = 0.5 + SLOPE * (x0 - CENTRE)
    for n in (1e6, 1e8, 1e10, 1e12):
        h = n**-0.25
        centre = h * round(x0 / h)
        mass = 2 * h
        delta = abs(eta - 0.5) * mass / 2
        bounds.append(math.exp(-n * delta**2 / 2**8))
        signs.append(SLOPE * (centre - CENTRE) * mass / delta)
    return Outcome(
        judged(bounds[-1] < 1e-9 and bool((np.diff(bounds) <= 0).all()) and abs(signs[-1] - 2) < 0.01),
        f"n = 1e6, 1e8, 1e10, 1e12: bound {', '.join(f'{value:.2g}' for value in bounds)}; E T / delta "
        f"{', '.join(f'{value:.4f}' for value in signs)}",
        "uniform X, linear eta, x0 = .7, h = n^(-1/4), alpha = 1",
    )


def slide_19(setting: Setting) -> Outcome:
    """Compare the exponential bound with simulated sums: all users in one cell, eta = .56, one dimension."""
    n, eta, rng, kept, shown = 200, 0.56, np.random.default_rng(0), {}, []
    delta, populations = (eta - 0.5) / 2, 100_000
    for alpha in (1.0, 4.0, 200.0):
        noise = math.sqrt(2.5) * 4 / alpha * rng.standard_normal(populations) / math.sqrt(n)
        wrong = float(np.mean(rng.binomial(n, eta, size=populations) / n - 0.5 + noise < 0))
        bound = 2 * math.exp(-n * alpha**2 * delta**2 / 2**8)
        kept[alpha] = (2 * eta - 1) * wrong <= bound
        shown.append(f"{(2 * eta - 1) * wrong:.4f} against {bound:.1e} at alpha {alpha:g}")
    return Outcome(
        judged(all(kept.values()), corrected=kept[1.0] and kept[4.0]),
        "; ".join(shown),
        "users are a sample; right for alpha up to 2^(d + 1), here 4",
    )


def theorem_3(setting: Setting) -> Outcome:
    """Fit the slope of the excess risk in one dimension, beta = gamma = 1."""
    users, risks = _falling(True, setting)
    slope, theory = _slope(users[2:], risks[2:]), rate(1)
    return Outcome(
        judged(abs(slope - theory) < 0.06),
        f"slope {slope:.3f} over n = 1e6 to 1e10, theory {theory:.3f}",
        "not that nobody does better",
        panels=(
            curves(
                "alpha = 1, one dimension", ("users n", users), "excess risk", {"ours": risks}, logs="xy",
                besides=(curve(f"n^{theory:.2f}", users, risks[2] * (users / users[2]) ** theory, "guide"),),
            ),
        ),
    )  # fmt: skip


def table_1(setting: Setting) -> Outcome:
    """Fit both slopes: with and without privacy."""
    users, private = _falling(True, setting)
    _, raw = _falling(False, setting)
    slopes = [_slope(users[2:], risks[2:]) for risks in (private, raw)]
    theory = [rate(1), rate(1, private=False)]
    return Outcome(
        judged(all(abs(one - other) < 0.06 for one, other in zip(slopes, theory, strict=True))),
        f"private {slopes[0]:.3f} (theory {theory[0]:.3f}), raw {slopes[1]:.3f} (theory {theory[1]:.3f})",
        "one dimension, beta = gamma = 1",
    )


def figure_2(setting: Setting) -> Outcome:
    """Learn two moons from private reports at six values of alpha."""
    users = 100_000
    X, y = make_moons(users, noise=0.3, random_state=0)
    test, truth = make_moons(5_000, noise=0.3, random_state=1)
    box, found = ((-2.2, 3.2), (-1.7, 2.2)), {}
    runs, alphas = 2 if setting.quick else 10, (0.5, 1.0, 2.0, 4.0, 8.0)
    for mechanism in ("slides", "auto"):
        found[mechanism] = [
            float(np.mean([
                LDPClassifier(alpha, box, mechanism, random_state=100 + seed).fit(X, y).score(test, truth)
                for seed in range(runs)
            ]))
            for alpha in alphas
        ]  # fmt: skip
    slides, ours = found["slides"], found["auto"]
    return Outcome(
        judged(slides[-1] > slides[0] + 0.1 and slides[-1] < 0.915 and slides[3] > slides[1]),
        f"two moons, 1e5 users, alpha .5, 1, 2, 4, 8: {', '.join(f'{value:.3f}' for value in slides)}; by our own "
        f"{', '.join(f'{value:.3f}' for value in ours)}; without privacy .914",
        "its shape: the figure holds no numbers",
        panels=(
            curves(
                "accuracy", ("alpha", alphas), "accuracy", {"the slides' mechanism": slides, "our own": ours}, logs="x",
                besides=(curve("without privacy", alphas, [0.914] * len(alphas), "guide"),),
            ),
            Panel(
                "two moons, noise .3", "first feature", "second feature",
                tuple(
                    Series(f"class {k}", test[truth == k, 0][:400], test[truth == k, 1][:400], "points") for k in (0, 1)
                ),
            ),
        ),
    )  # fmt: skip


ITEMS = (
    Item(
        "ldp-classification/theorem-1",
        "Theorem 1, slide 8",
        "Laplace noise of scale 2^(d + 1) / alpha on overlapping cells keeps alpha.",
        theorem_1,
        quick=True,
    ),
    Item(
        "ldp-classification/theorem-2",
        "Theorem 2, slide 12",
        "If h -> 0 and n alpha^2 h^(2d) -> infinity, the excess risk goes to zero.",
        theorem_2,
        quick=True,
    ),
    Item(
        "ldp-classification/lemma-1",
        "Lemma 1, slide 14",
        "Almost every point has P[|X - x| < h] of the order h^d or more.",
        lemma_1,
        quick=True,
    ),
    Item(
        "ldp-classification/lemma-2",
        "Lemma 2, slide 17",
        "Slide 19's bound goes to 0, and E T / delta to twice the sign of eta - 1/2.",
        lemma_2,
        quick=True,
    ),
    Item(
        "ldp-classification/slide-19",
        "Slide 19, the proof's tail bound",
        "The chance of a wrong sign is at most about exp(-n alpha^2 delta^2 / 2^(2d + 6)).",
        slide_19,
        quick=True,
    ),
    Item(
        "ldp-classification/theorem-3",
        "Theorem 3, slide 25",
        "The minimax excess risk is of the order n alpha^2 to minus the private exponent of Table 1.",
        theorem_3,
        quick=True,
    ),
    Item(
        "ldp-classification/table-1",
        "Table, slide 27",
        "The exponent is beta (1 + gamma) / (2 beta + 2d) with privacy, / (2 beta + d) without.",
        table_1,
        quick=True,
    ),
    Item(
        "ldp-classification/fig-1",
        "Figure, slide 29",
        "Artificial data of scikit-learn.",
        reason="generator and settings are not told",
    ),
    Item(
        "ldp-classification/fig-2",
        "Figure, slide 30",
        "Accuracy rises with alpha, and levels off.",
        figure_2,
        quick=True,
    ),
    Item(
        "ldp-classification/theorem-4",
        "Theorem 4, appendix",
        "Lebesgue's decomposition of a measure.",
        reason="a textbook theorem",
    ),
    Item(
        "ldp-classification/theorem-5",
        "Theorem 5, appendix",
        "Lebesgue's differentiation theorem.",
        reason="a textbook theorem",
    ),
)
