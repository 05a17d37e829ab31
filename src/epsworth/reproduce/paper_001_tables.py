"""Sridhar, Xiao & Devadas 2024, section 6: private means (Table 2) and the utilities of Figures 2 to 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.decomposition import PCA

from epsworth.arrays import Floats
from epsworth.pac import MI, FixedForest, PACPrivatizer
from epsworth.pac.allocation import Rule
from epsworth.pac.calibration import Basis
from epsworth.reproduce import pac_tasks
from epsworth.reproduce.items import Item, Outcome, Setting, Verdict, judged
from epsworth.reproduce.pac_tasks import BUDGETS, Task, task

CIFAR = "cifar10_jpeg_10k.npz"
RULES: tuple[Rule, ...] = ("paper", "isotropic_paper", "optimal")  # anisotropic and isotropic as in the paper; ours
TABLES = ("rice.csv.gz", "dry_bean.csv.gz")


def table_2(setting: Setting) -> Outcome:
    """Compute private means by the published rule, as variances and as deviations."""
    shown, agree, off = [], True, True
    for table in ("iris",) if setting.quick else pac_tasks.TABLE_2:
        for beta, (bare, private) in zip((1 / 4, 1 / 16, 1 / 64), pac_tasks.TABLE_2[table], strict=True):
            found = pac_tasks.mean_distances(table, beta, setting.folder)
            agree &= abs(found["sub-sampled"] - bare) < 0.004 and abs(found["published"] - private) < 0.004
            off &= abs(found["as a deviation"] - private) <= max(0.2 * abs(found["published"] - private), 0.001)
        shown.append(
            f"{table} at MI 1/64: {found['published']:.3f} by the published rule, {found['corrected']:.3f} by the "
            f"least noise, {found['as a deviation']:.3f} with its variance as the deviation (printed {private:.3f})"
        )
    return Outcome(
        judged(agree),
        "; ".join(shown),
        ("the printed cells come out where the noise's variance is taken for its standard deviation: too little noise"
         if off else "the printed cells do not come out")
        + "; the DP rows add Laplace noise by an l2 clip, which is not epsilon-DP for more than one column",
    )  # fmt: skip


def _utilities(names: Sequence[str], setting: Setting) -> dict[str, dict[str, list[float]]]:
    """Return, for each task, utilities by rule over `BUDGETS`, and without noise."""
    found = {}
    for name in names:
        one = task(name)
        fitted, score = pac_tasks.fit(one, setting.folder, worlds=128 if setting.quick else None)
        releases = 60 if setting.quick else 400
        row: dict[str, list[float]] = {}
        for rule in RULES:
            basis: Basis = "svd" if rule == "optimal" and one.basis == "auto" else "diag"
            budgets = [MI(beta) for beta in BUDGETS]
            told = fitted.simulate_utility(score, releases, budgets=budgets, noises=[rule], bases=[basis])
            row[rule] = [one.mean for one in told]
        row["bare"] = [float(np.mean([score(fitted.mechanism_.rebuild(v)) for v in fitted.trials_.outputs[:32]]))]
        found[name] = row
    return found


def _told(found: Mapping[str, Mapping[str, list[float]]]) -> str:
    rows = []
    for name, row in found.items():
        values = ", ".join(
            f"{word} {' '.join(f'{value:.3f}' for value in row[rule])}"
            for word, rule in (("anisotropic", "paper"), ("isotropic", "isotropic_paper"), ("ours", "optimal"))
        )
        rows.append(f"{name}: {values}; without noise {row['bare'][0]:.3f}")
    return " | ".join(rows)


def _figure(
    setting: Setting, names: Sequence[str], said: Mapping[str, tuple[int, float]], *, error: bool = False
) -> Outcome:
    """Judge a figure: anisotropic noise no worse than isotropic, and the values that the text gives.

    ``said``: for a task, the budget's number and the least accuracy (the largest error) that the text states there.
    """
    brief = [name for name in names if "Iris" in name or "d'=1" in name] or list(names[:1])
    found = _utilities(brief if setting.quick else names, setting)
    sign = -1 if error else 1
    slack = 0.03 if setting.quick else 0.01  # simulated releases
    better = [
        name
        for name, row in found.items()
        if not (sign * np.subtract(row["paper"], row["isotropic_paper"]) > -slack).all()
    ]
    missed = [
        f"{name} at MI {BUDGETS[at]:g}: {found[name]['paper'][at]:.3f}, stated {value:g}"
        for name, (at, value) in said.items()
        if name in found and sign * (found[name]["paper"][at] - value) < -slack
    ]
    why = "; ".join([*(f"isotropic noise is better for {name}" for name in better), *missed])
    return Outcome(
        judged(not better and not missed, corrected=not better),
        f"MI 1/64 to 4: {_told(found)}",
        why or "values read off a figure are compared by their order and by what the text states",
    )


def figure_2(setting: Setting) -> Outcome:
    """K-Means under three noises."""
    return _figure(
        setting, ("Iris K-Means", "Rice K-Means", "Dry Bean K-Means"),
        {"Iris K-Means": (3, 0.9), "Rice K-Means": (0, 0.9), "Dry Bean K-Means": (3, 0.7)},
    )  # fmt: skip


def figure_3(setting: Setting) -> Outcome:
    """Compare the SVM without regularisation under three noises."""
    return _figure(setting, ("Iris SVM C=1", "Rice SVM C=1"), {"Iris SVM C=1": (4, 0.9), "Rice SVM C=1": (2, 0.88)})


def figure_4(setting: Setting) -> Outcome:
    """Compare the regularised SVM: a lower start, and less lost to noise."""
    found = _utilities(("Iris SVM C=1", "Iris SVM C=1e-6"), setting)
    lost = {name: row["bare"][0] - row["paper"][1] for name, row in found.items()}
    strong = found["Iris SVM C=1e-6"]["bare"][0]
    return Outcome(
        judged(lost["Iris SVM C=1e-6"] < lost["Iris SVM C=1"] and abs(strong - 0.75) < 0.04),
        f"MI 1/64 to 4: {_told(found)}; lost at 1/16: {lost['Iris SVM C=1']:.3f} at C = 1, "
        f"{lost['Iris SVM C=1e-6']:.3f} regularised",
        "C is 1e-6, as in the public code; the text says .05",
    )


def figure_6(setting: Setting) -> Outcome:
    """One principal component under three noises."""
    return _figure(
        setting, ("Rice PCA d'=1", "Dry Bean PCA d'=1"),
        {"Rice PCA d'=1": (0, 0.2), "Dry Bean PCA d'=1": (0, 0.2)}, error=True,
    )  # fmt: skip


def figure_7(setting: Setting) -> Outcome:
    """Six and eight principal components under three noises."""
    return _figure(
        setting, ("Rice PCA d'=6", "Dry Bean PCA d'=8"),
        {"Rice PCA d'=6": (0, 0.05), "Dry Bean PCA d'=8": (0, 0.07)}, error=True,
    )  # fmt: skip


def cifar(setting: Setting) -> Outcome:
    """Three components of the compressed copy of CIFAR-10, by the paper's noise and by ours."""
    data = np.load(setting.file(CIFAR))
    pixels, test = (data[part].reshape(len(data[part]), -1) / 255 for part in ("x_train", "x_test"))
    fitted = PACPrivatizer(PCA(3, svd_solver="randomized", random_state=0), MI(1.0), worlds=64, worlds_seed=0)
    fitted.fit(pixels[:2000] if setting.quick else pixels)
    size = float(np.linalg.norm(test))

    def error(model: PCA) -> float:
        return float(np.linalg.norm(model.inverse_transform(model.transform(test)) - test)) / size

    budgets = [MI(1 / 64), MI(4.0)]
    found = fitted.simulate_utility(error, 20, budgets=budgets, noises=["paper", "optimal"], bases=["diag"])
    paper, ours = ([one.mean for one in found if one.noise == rule] for rule in ("paper", "optimal"))
    bare = error(PCA(3, svd_solver="randomized", random_state=0).fit(pixels[:2000] if setting.quick else pixels))
    return Outcome(
        Verdict.NOT_REPRODUCIBLE,
        f"restoration error {paper[0]:.2f} at MI 1/64, {paper[1]:.2f} at 4, {bare:.2f} without noise; least noise "
        f"{ours[0]:.2f}, {ours[1]:.2f}",
        "the copy at hand holds 8,000 compressed images, not 50,000, and a smaller pool needs more noise; the code "
        "of the paper's date took the noise's variance for its deviation",
    )


def _row(values: Floats) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def _forest(setting: Setting, first: FixedForest, second: FixedForest) -> tuple[Floats, Floats, float]:
    """Return the utilities of two forests on Iris under the paper's noise, and the second one's without noise."""
    rows, bare = [], 0.0
    for forest in (first, second):
        fitted, score = pac_tasks.fit(Task("Iris", "iris", "min-max", forest, basis="diag"), None)
        releases = 100 if setting.quick else 400
        told = fitted.simulate_utility(score, releases, budgets=[MI(b) for b in BUDGETS], noises=["paper"])
        rows.append(np.array([utility.mean for utility in told]))
        bare = float(np.mean([score(fitted.mechanism_.rebuild(v)) for v in fitted.trials_.outputs[:32]]))
    return rows[0], rows[1], bare


NAIVE = FixedForest(1, 3, p=0.01, w1=0.0, w2=0.0, features=[[2, 3, 0]])


def figure_8(setting: Setting) -> Outcome:
    """Privatise one tree of depth 3 without regularisation, and one of depth 2."""
    small, naive, bare = _forest(setting, FixedForest(1, 2, p=0.05, features=[[2, 3]]), NAIVE)
    return Outcome(
        judged(bare > 0.9 and naive[2] < 0.65),
        f"Iris, one tree of depth 3, MI 1/64 to 4: {_row(naive)}, without noise {bare:.3f}; of depth 2, coarser: "
        f"{_row(small)}",
        "three columns are fixed before, and leaf labels are noised, too; the paper draws columns and bares labels",
    )


def figure_9(setting: Setting) -> Outcome:
    """Privatise the tree with and without regularisation."""
    forest = FixedForest(1, 3, p=0.05, w1=0.4, w2=0.4, features=[[2, 3, 0]])
    strong, naive, _ = _forest(setting, forest, NAIVE)
    helps = bool((strong[:3] > naive[:3]).all())
    return Outcome(
        judged(helps and bool(strong[2] >= 0.7), corrected=helps),
        f"Iris, MI 1/64 to 4: regularised {_row(strong)}, not so {_row(naive)}",
        "leaf labels are noised, too: in the paper's code they are released as they are",
    )


ITEMS = (
    Item(
        "001-table-2",
        "Table 2, section 6.3",
        "Private means lie .043 to .048 (Iris), .008 (Rice), .005 (Dry Bean) from the pool's: noise hardly matters.",
        table_2,
        quick=True,
        needs=TABLES,
    ),
    Item(
        "001-fig-2",
        "Figure 2, section 6.4",
        "K-Means: anisotropic noise beats isotropic; Rice as without noise, Dry Bean nearly so from MI 1 on.",
        figure_2,
        quick=True,
        needs=TABLES,
    ),
    Item(
        "001-fig-3",
        "Figure 3, section 6.5",
        "SVM without regularisation: Iris loses little only above MI 1, Rice little from MI 1/4 on.",
        figure_3,
        quick=True,
        needs=TABLES,
    ),
    Item(
        "001-fig-4",
        "Figure 4, section 6.5",
        "Strong regularisation lowers Iris to 75 % without noise, and the loss to noise much more.",
        figure_4,
        quick=True,
    ),
    Item(
        "001-fig-6",
        "Figure 6, section 6.6",
        "One component: errors below 20 % for Rice and Dry Bean at every budget.",
        figure_6,
        quick=True,
        needs=TABLES,
    ),
    Item(
        "001-fig-7",
        "Figure 7, section 6.6",
        "More components: Rice at most 5 % at every budget; anisotropic noise much better than isotropic.",
        figure_7,
        needs=TABLES,
    ),
    Item(
        "001-section-6.6",
        "Section 6.6, CIFAR-10",
        "Three components of CIFAR-10: an error of 43 % at MI 1/64 and 33 % at MI 4.",
        cifar,
        needs=(CIFAR,),
    ),
    Item(
        "001-fig-8",
        "Figure 8, section 6.7",
        "An unregularised tree on Iris has over 90 % without noise and about 50 % up to MI 1/2.",
        figure_8,
        quick=True,
    ),
    Item(
        "001-fig-9",
        "Figure 9, section 6.7",
        "Regularised, it keeps 70 % from MI 1/8 on.",
        figure_9,
        quick=True,
    ),
)
