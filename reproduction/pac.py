"""Sridhar, Xiao & Devadas 2024: its formulas, and the figures that come from them."""

from __future__ import annotations

import math

import numpy as np
from sklearn.decomposition import PCA
from sklearn.svm import LinearSVC

from epsworth.arrays import Floats
from epsworth.pac import MI, allocate, dp_epsilon, dp_posterior, generalised_prior, lira, posterior
from epsworth.pac.allocation import gaussian_bound
from epsworth.pac.simulation import variances_settled
from epsworth.pac.unsupervised import polar, procrustes
from reproduction import pac_tasks
from reproduction.items import Item, Outcome, Setting, judged
from reproduction.panels import curve, curves

CIFAR = "cifar10_jpeg_10k.npz"
NO_NOISE = 20.0  # nats, at which next to none is added
TABLE_1 = {
    1 / 64: (58.815, 3.213), 1 / 32: (62.434, 4.364), 1 / 16: (67.490, 6.200), 1 / 8: (74.464, 9.171),
    1 / 4: (83.789, 14.057), 1 / 2: (95.181, 22.177), 1.0: (100, 35.729), 2.0: (100, 58.103), 4.0: (100, 92.582),
}  # fmt: skip


def table_1(setting: Setting) -> Outcome:
    """Compute the eighteen posteriors of Table 1, cut off to a thousandth of a percent."""
    wrong = []
    for mi, row in TABLE_1.items():
        for prior, printed in zip((0.5, 0.01), row, strict=True):
            ours = 100 * posterior(mi, prior)
            if round(1000 * printed) != math.floor(1000 * ours + 1e-6):
                wrong.append(f"MI {mi:g}, prior {prior:g}: {ours:.4f}, printed {printed:.3f}")
    return Outcome(
        judged(not wrong, corrected=len(wrong) == 1),
        f"{2 * len(TABLE_1) - len(wrong)} of {2 * len(TABLE_1)} cells agree, cut off to .001 %",
        "; ".join(wrong),
    )


def equation_2(setting: Setting) -> Outcome:
    """Turn the two posteriors into epsilons and back."""
    pairs = ((0.58815, 0.36), (0.95181, 2.98))
    ours = [dp_epsilon(success) for success, _ in pairs]
    back = [100 * dp_posterior(epsilon) for _, epsilon in pairs]
    return Outcome(
        judged(all(round(one, 2) == printed for one, (_, printed) in zip(ours, pairs, strict=True))),
        f"epsilon {ours[0]:.4f} and {ours[1]:.4f}; {back[0]:.3f} % and {back[1]:.3f} % for .36 and 2.98",
    )


def theorem_1(setting: Setting) -> Outcome:
    """Bound the information under Algorithm 1's noise, and look at the covariance as it is printed."""
    rng, used = np.random.default_rng(0), []
    for _ in range(300):
        variances = np.exp(rng.normal(scale=3, size=int(rng.integers(1, 40))))
        beta = float(np.exp(rng.uniform(math.log(1 / 64), math.log(4))))
        used.append(gaussian_bound(variances, allocate(variances, beta, "paper")) / beta)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    printed = np.diag([1.0, 3.0]) @ turn.T
    symmetric = bool(np.allclose(printed, printed.T))
    return Outcome(
        judged(max(used) <= 1 and symmetric, corrected=max(used) <= 1),
        f"1/2 sum ln(1 + s/e) is {min(used):.2f} to {max(used):.3f} of the budget in 300 random cases",
        "the covariance must be A Sigma A^T, not Sigma A^T",
    )


def claim_1(setting: Setting) -> Outcome:
    """Compare the truncated product with an orthogonal matrix, and with the best one."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((6, 6)))[0][:3]
    turned = np.linalg.qr(rng.standard_normal((3, 3)))[0] @ polar(basis + 0.05 * rng.standard_normal((3, 6)))
    right = [np.linalg.svd(matrix, full_matrices=True)[2].T for matrix in (basis, turned)]
    printed = (right[0] @ right[1].T)[:3, :3]
    best = procrustes(basis, turned)
    off = float(np.abs(printed.T @ printed - np.eye(3)).max())
    away = [float(np.linalg.norm(basis - matrix @ turned)) for matrix in (printed, best)]
    return Outcome(
        judged(off < 1e-9 and math.isclose(away[0], away[1], rel_tol=1e-6)),
        f"not orthogonal, leaves more than {int(away[0])}; Procrustes {away[1]:.3f}",
        "cut, it is in general not unitary",
    )


def algorithm_1(setting: Setting) -> Outcome:
    """Compute the noise of Algorithm 1 for some variances."""
    variances = np.array([4.0, 1.0, 0.25])
    ours = allocate(variances, 0.5, "paper")
    printed = np.sqrt(variances) * np.sqrt(variances).sum() / (2 * 0.5)
    best = allocate(variances, 0.5)
    return Outcome(
        judged(bool(np.allclose(ours, printed, rtol=1e-9))),
        f"noise variances {', '.join(f'{e:.3f}' for e in ours)} for variances 4, 1, .25 at MI 1/2",
        f"the least noise is {best.sum() / ours.sum():.2f} of it in all",
    )


def equation_6(setting: Setting) -> Outcome:
    """Evaluate the prior as printed, with the missing square, and exactly."""
    n, half = 100, 50
    whole = math.comb(n, half)
    printed = {k: 1 - sum(math.comb(half, j) for j in range(k)) / whole for k in (30, 32)}
    squared = {k: 1 - sum(math.comb(half, j) ** 2 for j in range(k)) / whole for k in (30, 32)}
    ours = {k: generalised_prior(n, half, half, k) for k in (30, 32, 35)}
    agrees = all(math.isclose(squared[k], ours[k], rel_tol=1e-6) for k in squared)
    success = posterior(1.0, ours[35])
    return Outcome(
        judged(printed[32] < 0.01, corrected=agrees and ours[32] < 0.01 and round(100 * success, 2) == 14.56),
        f"k = 32: {100 * ours[32]:.3f} %, as printed {100 * printed[32]:.1f} %; k = 35 at MI 1: {100 * success:.4f} %",
        "the binomial must be squared",
    )


def figure_12(setting: Setting) -> Outcome:
    """Find from which k on the prior is below 5 %."""
    priors = {k: generalised_prior(100, 50, 50, k) for k in range(25, 41)}
    first = next(k for k, prior in priors.items() if prior < 0.05)
    return Outcome(
        judged(first <= 30),
        f"from k = {first} on: {100 * priors[29]:.2f} % at 29, {100 * priors[30]:.2f} % at 30",
        panels=(
            curves(
                "50 of 100 are members", ("at least k guessed", list(priors)), "prior", {"ours": list(priors.values())},
                logs="y",
                besides=(curve("printed", [32], [0.01], "paper"), curve("5 %", [25, 40], [0.05, 0.05], "guide")),
            ),
        ),
    )  # fmt: skip


def _explained(X: Floats, count: int) -> Floats:
    return np.cumsum(PCA(count, svd_solver="auto", random_state=0).fit(X).explained_variance_ratio_)


def figure_5(setting: Setting) -> Outcome:
    """Compute the shares of variance; of CIFAR-10 the images of a smaller, compressed copy."""
    shares = {name: _explained(pac_tasks.split(name, "min-max", setting.folder)[0], 5) for name in ("rice", "dry_bean")}
    images = np.load(setting.file(CIFAR))["x_train"][: 1000 if setting.quick else None]
    pixels = images.reshape(len(images), -1) / 255
    cifar = np.cumsum(PCA(20, svd_solver="randomized", random_state=0).fit(pixels).explained_variance_ratio_)
    said = shares["rice"][0] > 0.5 and shares["dry_bean"][0] > 0.5 and cifar[0] < 0.5
    panels = [
        curves(name, ("components", np.arange(1, len(row) + 1)), "share of the variance", {"ours": row})
        for name, row in (*shares.items(), ("CIFAR-10 copy", cifar))
    ]
    return Outcome(
        judged(bool(said and abs(cifar[19] - 0.7) < 0.05)),
        f"first component: Rice {shares['rice'][0]:.1%}, Dry Bean {shares['dry_bean'][0]:.1%}, CIFAR {cifar[0]:.1%}; "
        f"twenty of CIFAR {cifar[19]:.1%}",
        panels=tuple(panels),
    )


def figure_10(setting: Setting) -> Outcome:
    """Count the trials until the paper's rule stops, with and without strong regularisation."""
    X, y = pac_tasks.split("iris", "min-max", None)[:2]
    most, found, size, panels = 240 if setting.quick else 2000, {}, {}, []
    for C in (1.0, 0.05, 1e-6):
        rng, outputs = np.random.default_rng(0), []
        for _ in range(most):
            half = rng.permutation(len(X))[: len(X) // 2]
            model = LinearSVC(C=C, dual=False).fit(X[half], y[half])
            outputs.append(np.append(model.coef_.ravel(), model.intercept_))
        trials = np.array(outputs)
        stops = (m for m in range(20, most + 1, 10) if variances_settled(trials[:m]))
        found[C], size[C] = next(stops, most + 1), float(trials.var(axis=0).max())
        looks = np.arange(20, most + 1, 10)
        change = np.abs(np.diff([trials[:m, 0].var() for m in looks]))
        rule = curve("the paper's rule", looks[[1, -1]], [1e-6, 1e-6], "guide")
        panels.append(
            curves(
                f"SVM, C = {C:g}", ("trials", looks[1:]), "change of the first variance", {"ours": change},
                logs="xy", besides=(rule,),
            )
        )  # fmt: skip
    shown = ", ".join(
        f"C = {C:g}: {count if count <= most else f'more than {most}'} ({size[C]:.0e})" for C, count in found.items()
    )
    return Outcome(
        judged(found[1.0] > 10 * found[0.05], corrected=found[1.0] > 10 * found[1e-6]),
        f"trials (largest variance): {shown}",
        "an absolute rule stops at once where outputs are small",
        panels=tuple(panels),
    )


def figure_11(setting: Setting) -> Outcome:
    """Attack K-Means and the SVM on Iris, with and without noise, thresholds held out."""
    trials, shown, broken, panels = 400 if setting.quick else 4000, [], [], []
    for name in ("Iris K-Means", "Iris SVM C=1"):
        one = pac_tasks.task(name)
        rows = pac_tasks.split("iris", one.scaling, None)[0]
        budgets = (1 / 64, 1 / 4, NO_NOISE)
        fits = [pac_tasks.fit(one, None, MI(mi), worlds=256)[0] for mi in budgets]
        found = [lira(fitted, rows, trials=trials, rng=0).advantage for fitted in fits]
        shown.append(f"{name} {', '.join(f'{100 * value:.1f} %' for value in found)}")
        drawn = {"attack": found[:2], "bound": [posterior(mi, 0.5) - 0.5 for mi in budgets[:2]]}
        bare = curve("attack without noise", budgets[:2], [found[2]] * 2, "guide")
        at = ("mutual information (nats)", budgets[:2])
        panels.append(curves(name, at, "advantage", drawn, logs="x", besides=(bare,)))
        above = [f"{mi:g}" for mi, value in zip(budgets, found, strict=True) if value > posterior(mi, 0.5) - 0.5]
        broken += [f"{name}: above the bound at MI {', '.join(above)}"] if above else []
        broken += [f"{name}: not lower with noise"] if found[0] >= found[2] else []
        broken += [f"{name}: above 11 % without noise"] if found[2] > 0.11 else []
    return Outcome(
        judged(not broken),
        f"advantage at MI 1/64, 1/4, without noise: {'; '.join(shown)} ({trials} trials)",
        "; ".join(broken),
        panels=tuple(panels),
    )


ITEMS = (
    Item(
        "pac/fig-1",
        "Figure 1, section 3.1",
        "A drawing of the four steps.",
        reason="it holds no number",
    ),
    Item(
        "pac/table-1",
        "Table 1, section 3.1",
        "Posterior success for nine budgets, priors 50 % and 1 %.",
        table_1,
        quick=True,
    ),
    Item(
        "pac/equation-2",
        "Equation (2), section 3.1",
        "Posteriors of 58.815 % and 95.181 % are those of epsilon .36 and 2.98.",
        equation_2,
        quick=True,
    ),
    Item(
        "pac/theorem-1",
        "Theorem 1, section 4",
        "Algorithm 1's noise keeps the budget in any public orthogonal basis.",
        theorem_1,
        quick=True,
    ),
    Item(
        "pac/algorithm-1",
        "Algorithm 1, section 4",
        "Noise of variance sqrt(s_i) sum_k sqrt(s_k) / (2 MI) for outputs of variances s.",
        algorithm_1,
        quick=True,
    ),
    Item(
        "pac/claim-1",
        "Claim 1, section 5.3",
        "The best unitary matrix between bases is V_A V_B^T, cut.",
        claim_1,
        quick=True,
    ),
    Item(
        "pac/equation-6",
        "Equation (6), section 8.2",
        "Guessing k of 50 members: below 1 % at k = 32; MI 1 allows 14.56 % at k = 35.",
        equation_6,
        quick=True,
    ),
    Item(
        "pac/fig-5",
        "Figure 5, section 6.6",
        "One component explains most of Rice and Dry Bean, under half of CIFAR-10.",
        figure_5,
        quick=True,
        needs=("rice.csv.gz", "dry_bean.csv.gz", CIFAR),
    ),
    Item(
        "pac/fig-10",
        "Figure 10, section 7",
        "A strongly regularised SVM's variances settle ten times sooner.",
        figure_10,
        quick=True,
    ),
    Item(
        "pac/fig-11",
        "Figure 11, section 8.1",
        "The attack gains at most 11 % without noise, less than the bound with it.",
        figure_11,
    ),
    Item(
        "pac/fig-12",
        "Figure 12, section 8.2",
        "Guessing at least k of 50 members: below 5 % from k = 30 on.",
        figure_12,
        quick=True,
    ),
)
