"""Figures 2 to 7 and the tables behind docs/noise.md, from our numbers: Jiang et al. 2025, section 5.

    EPSWORTH_DATA=... python examples/papers/privacy_boosting.py [figure.png]

The paper's sensitivities, regions and orders are not all stated; shapes are to be compared, not digits.  Figure 6 and
the table of several releases need the extra ``accounting``; Figure 7 the ages of the Adult data (70 ages, 17 to 86).
About two minutes.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from epsworth import noise
from epsworth.noise.composition import composed_epsilon
from epsworth.noise.mechanism import Boosted
from epsworth.noise.profiles import boost_needed, outside
from epsworth.noise.published import published_terms
from epsworth.noise.regions import Absolute, region
from epsworth.noise.staircase import best_staircase
from epsworth.noise.tuning import best_boosted, plain
from epsworth.reproduce.items import Setting
from epsworth.reproduce.paper_003_figures import ages, best_renyi

BLUE, RED, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.5"
ONE = [(0.5, 0.1), (0.5, 0.01), (1, 0.2), (1, 0.1), (1, 0.05), (1, 0.01), (1, 0.001), (2, 0.1), (2, 0.01), (5, 0.1)]
ONE += [(5, 0.01), (5, 0.001), (10, 0.05), (10, 0.001)]
SEVERAL = [(10, 0.5, 0.1), (10, 2, 0.1), (10, 5, 0.1), (10, 5, 0.01), (10, 20, 0.01), (100, 2, 0.01), (100, 5, 0.01)]
SEVERAL += [(100, 10, 0.1), (100, 50, 0.01)]
RELATIVE = [(1, 2, 0.2, 0.1), (1, 2, 0.05, 0.01), (1, 5, 0.2, 0.01), (5, 2, 0.2, 0.1), (5, 5, 0.2, 0.1)]
LINES = (("--", "Gaussian"), ("-", "boosted"), (":", "staircase"))
COLUMNS = ("gaussian", "pb_gaussian", "pb_gaussian (published)", "laplace", "pb_laplace", "staircase", "optimal")


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "privacy_boosting.png")
    tables()
    figure = Figure(figsize=(13, 10), layout="constrained")
    panels = figure.subplots(3, 3)
    by_region(panels[0, 0])
    by_region_renyi(panels[0, 1])
    by_confidence(panels[0, 2])
    sampling_time(panels[1, 0])
    fixed_region(panels[1, 1])
    extra_loss(panels[1, 2])
    if have_accounting():
        composition(panels[2, 0])
    if "EPSWORTH_DATA" in os.environ:
        adult(panels[2, 1], 10)
        adult(panels[2, 2], 5)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(frameon=False, fontsize=7)
    figure.savefig(target, dpi=110)
    print(f"wrote {target}")


def have_accounting() -> bool:
    try:
        import dp_accounting  # noqa: F401
    except ImportError:
        print("no composition: pip install 'epsworth[accounting]'")
        return False
    return True


def tables() -> None:
    print("\none release, sensitivity 1, delta 1e-5; the published column claims / is in truth")
    print(f"{'theta':>6} {'beta':>6} " + " ".join(f"{name[:15]:>15}" for name in COLUMNS) + f" {'floor':>9}")
    for theta, beta in ONE:
        ranked = noise.cheapest(theta, confidence=1 - beta, delta=1e-5, method="published")
        print(f"{theta:6g} {beta:6g} {row(ranked, COLUMNS)} {ranked.floor:9.4f}")
    if have_accounting():
        print("\nT releases, delta 1e-5 in all")
        for releases, theta, beta in SEVERAL:
            ranked = noise.cheapest(theta, confidence=1 - beta, delta=1e-5, releases=releases, method="published")
            print(f"{releases:4d} {theta:6g} {beta:6g} {row(ranked, COLUMNS[:-1])}")
    print("\nrelative errors, answers 0..150, delta 1e-5: sensitivity, offset, theta, beta")
    for size, offset, theta, beta in RELATIVE:
        ranked = noise.cheapest(
            theta, confidence=1 - beta, sensitivity=size, delta=1e-5, region="relative", offset=offset,
            answers=range(151), method="published",
        )  # fmt: skip
        print(f"{size:3g} {offset:3g} {theta:5g} {beta:5g} {row(ranked, COLUMNS[:-1])}", flush=True)


def row(ranked: noise.Ranking, names: tuple[str, ...]) -> str:
    return " ".join(f"{cell(ranked, name):>15}" for name in names)


def cell(ranked: noise.Ranking, name: str) -> str:
    choice = ranked.named(name)
    return f"{choice.epsilon:.4f}" if choice.sound else f"{choice.epsilon:.3f}/{choice.exact_epsilon:.3f}"


def by_region(panel) -> None:
    """Figure 2 (a, b): epsilon against the smallest region."""
    halves = np.geomspace(0.5, 20, 14)
    for size, colour in ((1.0, BLUE), (5.0, RED)):
        gaussian = [plain("gaussian", Absolute(h), 0.1, size).epsilon(1e-5) for h in halves]
        boosted = [best_boosted("gaussian", Absolute(h), 0.1, size, 1e-5).epsilon(1e-5) for h in halves]
        stairs = [best_staircase(h, 0.1, size).epsilon(1e-5) for h in halves]
        for values, (style, name) in zip((gaussian, boosted, stairs), LINES, strict=True):
            panel.loglog(halves, values, style, color=colour, label=f"{name}, sensitivity {size:g}")
    panel.set(title="Fig. 2 (a, b): beta .1, delta 1e-5", xlabel="half-width theta", ylabel="epsilon")


def by_region_renyi(panel) -> None:
    """Figure 2 (c, d): Renyi divergence against the smallest region."""
    halves = np.geomspace(0.5, 20, 25)
    for order, colour in ((8.0, BLUE), (32.0, RED)):
        both = np.array([best_renyi(h, 0.1, 1.0, order) for h in halves])
        panel.loglog(halves, both[:, 0], "--", color=colour, label=f"Gaussian, order {order:g}")
        panel.loglog(halves, both[:, 1], "-", color=colour, label=f"boosted, order {order:g}")
    panel.set(title="Fig. 2 (c, d): Renyi, sensitivity 1", xlabel="half-width theta", ylabel="divergence")


def by_confidence(panel) -> None:
    """Figure 3: epsilon against the confidence, for a low and a high sensitivity."""
    betas = np.geomspace(0.3, 1e-3, 12)
    for size, colour in ((1.0, BLUE), (5.0, RED)):
        where = Absolute(5.0)
        gaussian = [plain("gaussian", where, b, size).epsilon(1e-5) for b in betas]
        boosted = [best_boosted("gaussian", where, b, size, 1e-5).epsilon(1e-5) for b in betas]
        panel.loglog(betas, gaussian, "--", color=colour, label=f"Gaussian, sensitivity {size:g}")
        panel.loglog(betas, boosted, "-", color=colour, label=f"boosted, sensitivity {size:g}")
    panel.invert_xaxis()
    panel.set(title="Fig. 3: theta 5, delta 1e-5", xlabel="beta = 1 - confidence", ylabel="epsilon")


def sampling_time(panel) -> None:
    """Figure 4: 10 000 draws by inverse transform, and the mean number of draws that rejection would take."""
    halves, rng = np.linspace(1, 10, 10), np.random.default_rng(0)
    seconds, draws = {"Gaussian": [], "boosted, inverse transform": []}, []
    for half in halves:
        boosted = best_boosted("gaussian", Absolute(half), 0.1, 1.0, 1e-5)
        for name, chosen in zip(seconds, (plain("gaussian", Absolute(half), 0.1, 1.0), boosted), strict=True):
            law = chosen.law(0.0) if name != "Gaussian" else chosen.law(0.0).noise
            began = time.perf_counter()
            for _ in range(10):
                law.sample(10_000, rng)
            seconds[name].append(100 * (time.perf_counter() - began))
        chance = float(outside("gaussian", boosted.scale, boosted.region))
        draws.append(1 / (1 - chance * (1 - 1 / boosted.boost)))
    for (name, values), colour in zip(seconds.items(), (GREY, BLUE), strict=True):
        panel.plot(halves, values, color=colour, label=f"{name}, ms")
    panel.plot(halves, draws, "--", color=RED, label="draws per value by rejection")
    panel.set(title="Fig. 4: 10 000 values", xlabel="half-width theta", ylim=(0, None))


def fixed_region(panel) -> None:
    """Figure 5 (a): exact profiles in a fixed region, and the published ones."""
    where, epsilon = region("fixed", (0, 10)), np.linspace(0.2, 3, 60)
    kernel = Boosted("gaussian", 2.0, 1.0, Absolute(1.0), 1.0)
    panel.semilogy(epsilon, kernel.profile(epsilon), color=GREY, label="kernel, also clamped")
    for boost, name, colour in ((9.0, "boosted, beta .1", BLUE), (np.inf, "truncated", RED)):
        found = Boosted("gaussian", 2.0, boost, where, 1.0)
        panel.semilogy(epsilon, found.profile(epsilon), color=colour, label=f"{name}, exact")
        panel.semilogy(epsilon, noise.published_delta(found, epsilon), "--", color=colour, label=f"{name}, published")
    panel.set(title="Fig. 5 (a): [0, 10], sigma 2", xlabel="epsilon", ylabel="delta", ylim=(1e-8, 1))


def extra_loss(panel) -> None:
    """Figure 5 (b): the published additional loss tau against the confidence."""
    betas = np.linspace(0.001, 0.45, 30)
    for size, width, colour in ((1, 10, BLUE), (5, 10, RED), (1, 5, GREEN)):
        where = region("fixed", (0, width))
        chance = float(outside("gaussian", 2.0, where))
        boosts = boost_needed(chance, betas)
        taus = [published_terms(Boosted("gaussian", 2.0, float(b), where, size)).shift for b in boosts]
        panel.plot(1 - betas, taus, color=colour, label=f"sensitivity {size}, width {width}")
    panel.set(title="Fig. 5 (b): tau, sigma 2", xlabel="confidence", ylabel="published extra loss")


def composition(panel) -> None:
    """Figure 6: total epsilon of T releases."""
    counts = [1, 2, 5, 10, 20, 50, 100]
    for half, colour in ((2.0, BLUE), (10.0, RED)):
        where = Absolute(half)
        gaussian = [composed_epsilon(plain("gaussian", where, 0.1, 1.0), 1e-5, T) for T in counts]
        boosted = [composed_epsilon(best_boosted("gaussian", where, 0.1, 1.0, 1e-5, T), 1e-5, T) for T in counts]
        stairs = [composed_epsilon(best_staircase(half, 0.1, 1.0), 1e-5, T) for T in counts]
        for values, (style, name) in zip((gaussian, boosted, stairs), LINES, strict=True):
            panel.loglog(counts, values, style, color=colour, label=f"{name}, theta {half:g}")
    panel.set(title="Fig. 6: beta .1, delta 1e-5 in all", xlabel="releases", ylabel="epsilon")


def adult(panel, k: int) -> None:
    """Figure 7: errors of category and value frequencies against the kernel's share of epsilon 2."""
    people, epsilon = ages(Setting(Path(os.environ["EPSWORTH_DATA"]))).astype(int), 2.0
    users, shares = people.size, np.bincount(people, minlength=70) / people.size
    kernels = np.linspace(0.05, 1, 20) * epsilon
    errors = np.array([noise.Grouped(70, k, epsilon, e).mean_square_errors(shares) for e in kernels]) / users
    rng = np.random.default_rng(0)
    check = noise.Grouped(70, k, epsilon, 1.0)
    matrix = noise.channel(noise.groups([k] * (70 // k)), epsilon, 1.0).matrix
    counts = np.bincount(people, minlength=70)
    reports = np.sum([rng.multinomial(n, row, size=50) for n, row in zip(counts, matrix, strict=True)], axis=0)
    simulated = ((check.values(reports) / users - shares) ** 2).mean()
    expected = check.mean_square_errors(shares)[1] / users
    best = min((noise.split_users(shares, k, epsilon, part, users) for part in np.linspace(0.1, 0.9, 17)), key=sum)
    better = int((errors > best).all(axis=1).sum())
    print(f"Adult, k = {k}: value error at eps_K = 1 {expected:.3e}, simulated {simulated:.3e};")
    print(f"  users split: {best[0]:.2e} / {best[1]:.2e}, better in both for {better} of {len(kernels)} kernels")
    panel.semilogy(kernels, errors[:, 0], color=BLUE, label="categories, PB-GRR")
    panel.semilogy(kernels, errors[:, 1], color=RED, label="values, PB-GRR")
    panel.axhline(best[0], color=BLUE, linestyle=":", label="categories, users split")
    panel.axhline(best[1], color=RED, linestyle=":", label="values, users split")
    panel.set(title=f"Fig. 7: Adult's ages, k {k}, epsilon 2", xlabel="kernel's epsilon", ylabel="mean squared error")


if __name__ == "__main__":
    main()
