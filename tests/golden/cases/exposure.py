"""Exposure of training rows: profiles, windows, kernels of a private linear model."""

from __future__ import annotations

import numpy as np
from golden_results import ALGEBRA, chosen, golden, json_of, scaled

from epsworth import exposure

FITTED = 1e-7  # Newton's method stops near 1e-9, and losses divide by small distances


def world(n=120, d=3):
    """Return rows in the unit ball and labels of a noisy linear rule."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1).max()
    return X, np.where(X @ rng.normal(size=d) + rng.normal(size=n) / (2 * d) > 0, 1.0, -1.0)


@golden("exposure by distance", subject="epsworth.exposure.Kernels.adv", mutate=scaled(0.99), tolerance=ALGEBRA)
def _():
    u = np.array([0.0, 0.1, 1.0, 5.0, 40.0])
    found = {}
    for d in (1, 3, 20):
        law = exposure.kernels(d)
        found[f"{d}"] = {
            "kl": law.kl(u),
            "abs": law.abs(u),
            "adv": law.adv(u),
            "survival": law.survival(u, 0.5),
            "delta": law.delta(u, 0.5),
            "epsilon": law.epsilon(u, 1e-3),
            "inverse_adv": law.inverse_adv([0.1, 0.5, 0.9]),
        }
    return found


@golden("neighbours of a model", subject="epsworth.exposure.fit_base", mutate=scaled(1.01), tolerance=FITTED)
def _():
    X, y = world()
    f = exposure.fit_base(X, y, 0.05)
    newton, exact = (exposure.loo(X, y, f, 0.05, method) for method in ("newton", "exact"))
    return {
        "base": f,
        "newton": newton.distances[:10],
        "exact": exact.distances[:10],
        "deltas": exact.deltas[:3],
        "sensitivity": [exposure.sensitivity(120, 0.05), exposure.sensitivity(120, 0.05, "add_remove")],
        "norm": exposure.norm_bound(0.05),
    }


@golden("a profile of training rows", subject="epsworth.exposure.fit_base", mutate=scaled(1.01), tolerance=FITTED)
def _():
    X, y = world()
    f = exposure.fit_base(X, y, 0.05)
    found = exposure.loo(X, y, f, 0.05, "exact")
    rate = 1.0 / exposure.sensitivity(120, 0.05)
    model = f + np.random.default_rng(1).normal(size=3)
    own = exposure.profile(found, model, rate)
    typical = exposure.typical_profile(found, rate, rng=1, draws=20)
    return {
        "losses": own.ranked[:8],
        "rows": own.rows[:8],
        "typical": {name: getattr(typical, name)[:8] for name in ("ranked", "mean_abs", "kl", "adv")},
    }


@golden("a window of epsilons", subject="epsworth.exposure.Kernels.adv", mutate=scaled(0.99), tolerance=FITTED)
def _():
    X, y = world()
    found = exposure.window(X, y, 0.05, rng=1, draws=100)
    names = ("epsilon_low", "epsilon_high", "epsilon_util", "adv_low", "adv_high", "kappa")
    use = found.usefulness
    return {
        **chosen(found, *names),
        "advised": found.advised,
        "advantage": found.advantage(1.0)[:6],
        "accuracy": use.accuracy[::10],
        "base": [use.base, use.majority],
        "plateaus": exposure.plateau_ends(3),
    }


@golden(
    "the worst case without data",
    subject="epsworth.exposure.worst_case",
    mutate=lambda f: lambda e, d: f(1.01 * e, d),
    tolerance=ALGEBRA,
)
def _(folder):
    found = exposure.worst_case(1.0, 5)
    return {
        "library": chosen(found, "epsilon", "d", "advantage", "any_mechanism", "mean_loss", "mean_abs_loss"),
        "stand-in": [part[:2] for part in exposure.stand_in(20, 3, rng=4)],
    }


@golden(
    "losses of noisy descents and objectives",
    subject="epsworth.exposure.linear_gradients",
    mutate=lambda f: lambda X, y, **given: f(0.9 * X, y, **given),
    tolerance=FITTED,
)
def _():
    X, y = world(40)
    steps = exposure.descend(
        exposure.linear_gradients(X, y), np.zeros(3), steps=5, learning_rate=0.5, clip=0.5, noise=1.0, rng=3
    )
    lost = exposure.expost_objective(X, y, exposure.fit_base(X, y, 0.1), reg=0.1, noise_scale=2.0)
    return {
        "models": steps.models[-1],
        "losses": steps.losses[:4],
        "nominal": steps.nominal,
        "noise part": lost.noise_part[:4],
        "jacobian part": lost.jacobian_part[:4],
    }


@golden("a profile on the command line", subject="epsworth.exposure.Kernels.adv", mutate=scaled(0.99), tolerance=FITTED)
def _(folder):
    X, y = world(60, 2)
    lines = [",".join(map(repr, [*row, label])) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    (folder / "rows.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")
    found = json_of(folder, "profile", "rows.csv", "--target", "label", "--l2", "0.05", "--seed", "1")
    return {name: entry for name, entry in found.items() if name not in ("verdict", "notes", "seconds")}
