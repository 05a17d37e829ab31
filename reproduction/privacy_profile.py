"""LeBlond et al. 2023: Figures 1 to 8 in numbers, on Adult as the paper prepares it.

Two columns (age, education-num), standardised, divided by the largest norm; no intercept; l2 = 1 unless stated.
Figures 1 and 8 use the first 100 rows.  Everything is computed from raw data (Adult is public).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from epsworth.arrays import Floats
from epsworth.exposure import (
    Neighbours,
    OutputPerturbation,
    fit_base,
    kernels,
    loo,
    plateau_ends,
    profile,
    sensitivity,
    typical_profile,
)
from epsworth.extras import needed
from reproduction.items import Item, Outcome, Setting, judged
from reproduction.panels import Panel, Series, curve, curves

FEW, SHOWN, DRAWS = 100, 50, 20
SHOWN_OF = 16  # rows of Adult to a point of a picture
RANKS = (0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
TWO = ("age", "education-num")
SIX = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
NEEDS = ("adult_train.csv.gz", "adult_test.csv.gz")
Draw = Callable[[float], Iterator[Floats]]


@lru_cache(maxsize=2)
def adult(folder: Path, columns: tuple[str, ...] = TWO) -> tuple[Floats, Floats]:
    """Return the prepared columns of Adult, and its labels."""
    pl = needed("polars", "files", "reading the papers' tables")
    table = pl.concat([pl.read_csv(folder / name) for name in NEEDS])
    X = table.select(columns).to_numpy().astype(float)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1).max(), np.where(table["income"].to_numpy() == ">50K", 1.0, -1.0)


@lru_cache(maxsize=1)
def _all(folder: Path) -> tuple[Floats, Floats, Neighbours]:
    X, y = adult(folder)
    return X, y, loo(X, y, fit_base(X, y, 1.0), 1.0)


def perturbed(X: Floats, y: Floats, b: Floats, reg: float) -> Floats:
    """Return the minimisers of the sum of losses + reg/2 |f|^2 + b.f: objective perturbation in our own hands."""
    f = np.zeros_like(b)
    for _ in range(15):
        m = f @ X.T * y
        slope = (-expit(-m) * y) @ X + reg * f + b
        hessian = np.einsum("sn,ni,nj->sij", expit(m) * expit(-m), X, X) + reg * np.eye(2)
        f = f - np.linalg.solve(hessian, slope[..., None])[..., 0]
    return f


def of_objective(X: Floats, y: Floats) -> Draw:
    """Return draws of objective perturbation: the base data set first, then neighbours."""
    X, y = X[:FEW], y[:FEW]
    rng = np.random.default_rng(1)
    left_out = [-1, *rng.choice(FEW, SHOWN, replace=False)]

    def draw(epsilon: float) -> Iterator[Floats]:
        for row in left_out:
            kept = np.arange(FEW) != row
            b = OutputPerturbation(2, epsilon / 2).sample(DRAWS, rng)
            yield perturbed(X[kept], y[kept], b, 1.0 * FEW)

    return draw


def of_output(X: Floats, y: Floats) -> Draw:
    """Return draws of output perturbation: the base data set first, then neighbours."""
    X, y = X[:FEW], y[:FEW]
    rng = np.random.default_rng(2)
    few = loo(X, y, fit_base(X, y, 1.0), 1.0, "exact")
    left_out = rng.choice(FEW, SHOWN, replace=False)

    def draw(epsilon: float) -> Iterator[Floats]:
        noise = OutputPerturbation(2, epsilon / sensitivity(FEW, 1.0))
        yield few.base + noise.sample(DRAWS, rng)
        for row in left_out:
            yield few.base + few.deltas[row] + noise.sample(DRAWS, rng)

    return draw


def spread(clouds: list[Floats]) -> float:
    """Return the spread of the clouds' means in standard errors of one: 1 where clouds cannot be told apart."""
    centres = np.linalg.norm(np.std([models.mean(axis=0) for models in clouds], axis=0))
    width = np.mean([np.linalg.norm(models.std(axis=0)) for models in clouds]) / np.sqrt(DRAWS)
    return float(centres / width)


def _cloud(name: str, points: Floats, colour: ArrayLike | None = None) -> Series:
    shown = None if colour is None else np.asarray(colour, dtype=float)
    return Series(name, points[:, 0], points[:, 1], "points", shown)


def _clouds(make: Callable[[Floats, Floats], Draw], setting: Setting) -> Outcome:
    budgets = (0.1, 1.0, 10.0, 1000.0)
    X, y = adult(setting.file(""))
    draw = make(X, y)
    clouds = [list(draw(epsilon)) for epsilon in budgets]
    found = [spread(models) for models in clouds]
    return Outcome(
        judged(found[0] < 1.5 and found[-1] > 3),
        "spread of the clouds' means in standard errors: "
        + ", ".join(f"{found[i]:.1f} at epsilon {budgets[i]:g}" for i in (0, -1)),
        "attacks gain at epsilons that look safe (privacy-profile/fig-6)",
        panels=tuple(
            Panel(f"epsilon {epsilon:g}", "first weight", "second weight", (
                _cloud("neighbours", np.concatenate(models[1:]), np.repeat(np.arange(len(models) - 1), DRAWS)),
                Series("base", models[0][:, 0], models[0][:, 1], "paper"),
            ))
            for epsilon, models in zip(budgets, clouds, strict=True)
        ),
    )  # fmt: skip


def figure_1(setting: Setting) -> Outcome:
    """Draw from objective perturbation in our own hands: diffprivlib's draws are not in the text."""
    return _clouds(of_objective, setting)


def figure_8(setting: Setting) -> Outcome:
    """Draw from output perturbation."""
    return _clouds(of_output, setting)


def _off(X: Floats, y: Floats, l2: float, count: int) -> tuple[float, float, Panel]:
    """Return by how much the worst-case points and Newton's miss the retrained ones, relative to their distance."""
    base = fit_base(X, y, l2)
    sphere, newton = loo(X, y, base, l2, "wc"), loo(X, y, base, l2)
    rows = np.r_[newton.distances.argmax(), np.random.default_rng(3).choice(len(X), count, replace=False)]
    exact = np.array([fit_base(np.delete(X, i, 0), np.delete(y, i), l2) for i in rows]) - base
    size = np.linalg.norm(exact, axis=1)
    far, near = (float((np.linalg.norm(one.deltas[rows] - exact, axis=1) / size).max()) for one in (sphere, newton))
    panel = Panel(
        f"l2 = {l2:g}", "shift of the first weight", "of the second",
        (_cloud("retrained", exact),
         Series("worst-case points", sphere.deltas[rows, 0], sphere.deltas[rows, 1], "paper")),
        equal=True,
    )  # fmt: skip
    return far, near, panel


def figure_2(setting: Setting) -> Outcome:
    """Retrain without some rows, and compare the worst-case points, at two strengths of regularisation."""
    X, y = adult(setting.file(""))
    count = 5 if setting.quick else 40
    (far, near, strong), (weak, _, loose) = (_off(X, y, l2, count) for l2 in (1.0, 0.01))
    return Outcome(
        judged(far < 0.02),
        f"worst-case point off by {far:.1%} of the distance at l2 = 1, {weak:.0%} at .01; Newton by {near:.0e}",
        "accurate only where the model is nearly useless",
        panels=(strong, loose),
    )


def section_5_1(setting: Setting) -> Outcome:
    """Repeat it with six columns."""
    X, y = adult(setting.file(""), SIX)
    far, near, _ = _off(X, y, 1.0, 5 if setting.quick else 40)
    weak, _, _ = _off(X, y, 0.01, 3 if setting.quick else 20)
    return Outcome(
        judged(far < 2e-3),
        f"{far:.2%} at l2 = 1, {weak:.0%} at .01; Newton {near:.0e}",
        "not where models are useful",
    )


def figure_3(setting: Setting) -> Outcome:
    """Look whether all neighbours lie in their spheres, and whether the base lies on each surface."""
    X, y, found = _all(setting.file(""))
    sphere = loo(X, y, found.base, 1.0, "wc")
    radii = sphere.distances / 2
    inside = np.linalg.norm(found.deltas - sphere.deltas / 2, axis=1) <= radii + found.errors
    slope = -expit(-y * (X @ found.base))[:, np.newaxis] * y[:, np.newaxis] * X
    printed = np.linalg.norm(found.base + slope, axis=1) / (2 * (len(X) - 1))
    turn = np.linspace(0, 2 * np.pi, 100)
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    away = np.linalg.norm(found.deltas - sphere.deltas, axis=1)
    panels = []
    for title, row in (("largest distance from its worst-case point", away.argmax()), ("smallest", away.argmin())):
        round_it = sphere.deltas[row] / 2 + radii[row] * ring
        panels.append(
            Panel(title, "shift of the first weight", "of the second", (
                curve("sphere", round_it[:, 0], round_it[:, 1]),
                curve("worst-case point", sphere.deltas[row, :1], sphere.deltas[row, 1:], "paper"),
                _cloud("base", np.zeros((1, 2))), _cloud("neighbour", found.deltas[[row]]),
            ), equal=True)
        )  # fmt: skip
    return Outcome(
        judged(bool(inside.all() and np.allclose(printed, radii, rtol=1e-6))),
        f"{inside.mean():.0%} of {len(X):,} neighbours lie within, radii {radii.min():.1e} to {radii.max():.1e}",
        "caption and text swap panels",
        panels=tuple(panels),
    )


def section_5_2(setting: Setting) -> Outcome:
    """Compare radii with the distances of the centres from the base."""
    X, y, found = _all(setting.file(""))
    n = len(X)
    slope = -expit(-y * (X @ found.base))[:, np.newaxis] * y[:, np.newaxis] * X
    centre = (1 + 1 / (2 * (n - 1))) * found.base + slope / (2 * (n - 1))
    radius = np.linalg.norm(found.base + slope, axis=1) / (2 * (n - 1))
    ratio = radius / np.linalg.norm(centre - found.base, axis=1)
    return Outcome(
        judged(bool(np.allclose(ratio, 1, rtol=1e-6))),
        f"radius over distance between {ratio.min():.9f} and {ratio.max():.9f} over {n:,} rows",
    )


def figure_4(setting: Setting) -> Outcome:
    """Compute the losses of a model at the base, and off it."""
    X, _, found = _all(setting.file(""))
    beta = 1 / sensitivity(len(X), 1.0)
    at, off = (profile(found, found.base + b, beta) for b in (np.zeros(2), np.array([6e-6, 6e-6])))
    order = np.argsort(found.distances)
    grows = bool((np.diff(np.abs(at.losses)[order]) >= -1e-12).all())
    b = np.array([6e-6, 6e-6])
    equal = np.abs(np.linalg.norm(found.deltas - b, axis=1) - np.linalg.norm(b))
    least = int(np.abs(off.losses).argmin())
    falls = bool((np.diff(np.abs(at.losses)[order]) <= 1e-12).all())
    circle = bool(equal[least] <= np.quantile(equal, 1e-3))
    return Outcome(
        judged(falls and circle, corrected=grows and circle),
        f"centred: beta times the distance, up to {np.abs(at.losses).max():.3f} at epsilon 1; off-centre the "
        f"least, {np.abs(off.losses[least]):.1e}, lies on the circle about the model through the base",
        "centred, the loss grows with the distance",
        panels=tuple(
            Panel(f"{title}: darker is less", "shift of the first weight", "of the second", (
                _cloud("neighbours", found.deltas[::SHOWN_OF], np.abs(one.losses)[::SHOWN_OF]),
                curve("the model", where[:1], where[1:], "paper"),
            ), equal=True)
            for title, where, one in (("at the base", np.zeros(2), at), ("off it", b, off))
        ),
    )  # fmt: skip


def _typical(setting: Setting) -> tuple[Floats, Floats, Floats]:
    X, _, found = _all(setting.file(""))
    budgets = np.geomspace(1e-1, 1e5, 7 if setting.quick else 19)
    beta = budgets / sensitivity(len(X), 1.0)
    rng = np.random.default_rng(5)
    draws = 6 if setting.quick else 30
    ratio = np.array([typical_profile(found, b, rng=rng, draws=draws).ranked / b for b in beta])
    return budgets, beta, len(X) * ratio


def figure_5(setting: Setting) -> Outcome:
    """Compute the typical profiles at the least and the largest epsilon."""
    budgets, _, ratio = _typical(setting)
    at = [min(int(share * ratio.shape[1]), ratio.shape[1] - 1) for share in RANKS]
    low, high = ratio[0, at], ratio[-1, at]
    flat = bool(np.allclose(ratio[0, at[2:]], ratio[1, at[2:]], rtol=0.2))
    return Outcome(
        judged(flat and bool((high > low).all())),
        f"n |loss| / beta at ranks 1 to 100 %: {', '.join(f'{v:.3g}' for v in low)} at epsilon {budgets[0]:g}, "
        f"{', '.join(f'{v:.3g}' for v in high)} at {budgets[-1]:g}",
        "the low one does not protect all rows (privacy-profile/fig-6)",
        panels=(
            curves(
                "typical profiles", ("rank of the row (share)", np.geomspace(1e-3, 1, 40)), "n |loss| / beta",
                {f"epsilon {epsilon:.3g}": row[(np.geomspace(1e-3, 1, 40) * (len(row) - 1)).astype(int)]
                 for epsilon, row in list(zip(budgets, ratio, strict=True))[:: max(1, len(budgets) // 6)]},
                logs="xy",
            ),
        ),
    )  # fmt: skip


def figure_6(setting: Setting) -> Outcome:
    """Attack the most exposed row at the onset of the rise, and at the published line."""
    X, _, found = _all(setting.file(""))
    worst = found.distances.max()
    line = plateau_ends(2)[0] / worst
    advantage = kernels(2).adv(worst * np.array([line, 8 / worst, 1 / sensitivity(len(X), 1.0)]))
    _, beta, ratio = _typical(setting)
    u = worst * beta
    return Outcome(
        judged(bool(advantage[0] < 0.1)),
        f"best attack on the most exposed row: advantage {advantage[0]:.2f} at the onset, {advantage[1]:.2f} at the "
        f"published line (u = 8), {advantage[2]:.3f} at epsilon 1",
        "the loss there is proportional to epsilon: less protects more",
        panels=(
            curves(
                "typical profiles at five ranks", ("beta", beta), "n |loss| / beta",
                {f"{share:.0%}": ratio[:, min(int(share * ratio.shape[1]), ratio.shape[1] - 1)] for share in RANKS[1:]},
                logs="xy",
            ),
            curves(
                "the most exposed row", ("beta", beta), "advantage of the best attack", {"ours": kernels(2).adv(u)},
                logs="x", besides=(curve("published line", [8 / worst] * 2, [0, 1], "guide"),),
            ),
        ),
    )  # fmt: skip


def figure_7(setting: Setting) -> Outcome:
    """Follow the exact mean loss towards small beta, and the scale of its onset."""
    _, _, found = _all(setting.file(""))
    small = np.array([1e-3, 1e-2])
    slope = float(np.diff(np.log(kernels(2).kl(small)))[0] / np.log(10))
    exposed = int(found.distances.argmax())
    beta = np.geomspace(1e2, 1e8, 49)
    rows = [int(i) for i in np.argsort(found.distances)[[0, len(found.distances) // 2, -1]]]
    means = {f"row {i + 1}": kernels(2).kl(np.maximum(beta * found.distances[i], 1e-9)) for i in rows}
    return Outcome(
        judged(abs(slope) < 0.1, corrected=exposed == 24_238),
        f"most exposed row {exposed + 1} (counted from 1); mean loss falls as u^{slope:.2f}, u = beta |distance|",
        "no plateau: the mean loss goes to zero",
        panels=(curves("mean loss of three rows", ("beta", beta), "mean loss (nats)", means, logs="xy"),),
    )


ITEMS = tuple(
    Item(f"privacy-profile/{name}", what, said, compute, quick=True, needs=NEEDS)
    for name, what, said, compute in (
        (
            "fig-1",
            "Figure 1, section 2",
            "100 rows: clouds apart at large epsilon, one at small.",
            figure_1,
        ),
        ("fig-2", "Figure 2, section 5.1", "The worst-case points lie close to the retrained models.", figure_2),
        (
            "fig-3",
            "Figure 3, section 5.2",
            "Each neighbour lies in a sphere through the base model, and in half of it.",
            figure_3,
        ),
        (
            "fig-4",
            "Figure 4, section 5.3",
            "Centred, losses decay with the distance; off-centre, least where equally far.",
            figure_4,
        ),
        (
            "fig-5",
            "Figure 5, section 5.4",
            "Profiles over beta have two stable regimes and a transition.",
            figure_5,
        ),
        (
            "fig-6",
            "Figure 6, section 5.4",
            "Below the onset all rows are protected; less epsilon gains nothing.",
            figure_6,
        ),
        (
            "fig-7",
            "Figure 7, section 5.4",
            "Mean losses level off below 1 / distance; row 24239 is most exposed.",
            figure_7,
        ),
        ("fig-8", "Figure 8, appendix A", "Output perturbation looks as Figure 1 does.", figure_8),
        (
            "section-5.1",
            "Section 5.1",
            "Six columns: the worst-case point is off by less than .2 %.",
            section_5_1,
        ),
        ("section-5.2", "Section 5.2", "The base model always lies on the surface of the sphere.", section_5_2),
    )
)
