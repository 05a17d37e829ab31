"""Zheng & Hu 2025: its general statements (concentration, Hoeffding's sizes, PAC LDP, the extended Gaussian)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from epsworth.guarantees import Probabilistic, compose
from epsworth.mechanisms import KRR, MECHANISMS, PM, Gaussian, Laplace, gaussian_sigma
from reproduction.items import Item, Outcome, Setting, judged


def _hoeffding(omega: float, tau: float) -> int:
    return math.ceil(math.log(2 / omega) / (2 * tau**2))


def theorem_1(setting: Setting) -> Outcome:
    """Compare Hoeffding's sizes with the exact law of the share of failures."""
    sizes = {tau: _hoeffding(0.05, tau) for tau in (0.02, 0.01, 0.005)}
    misses = []
    for tau, n in sizes.items():
        shares = np.array([tau, 0.1, 0.25, 0.5])
        high = binom.sf(np.floor(n * (shares + tau)), n, shares)
        misses.append(float(np.max(high + binom.cdf(np.ceil(n * (shares - tau)) - 1, n, shares))))
    return Outcome(
        judged(max(misses) <= 0.05),
        f"n = {', '.join(f'{n:,} for tau {tau:g}' for tau, n in sizes.items())}; exact miss at most {max(misses):.4f}",
    )


def theorem_2(setting: Setting) -> Outcome:
    """Compose probabilistic promises."""
    found = []
    for count, delta in ((2, 0.1), (5, 0.01), (49, 0.1)):
        total = compose([Probabilistic(1.0, delta)] * count)
        found.append((total.delta, 1 - (1 - delta) ** count, total.epsilon == count))
    agree = all(math.isclose(ours, printed, rel_tol=1e-9) and right for ours, printed, right in found)
    # two Gaussian features: what their sum really exceeds 2 epsilon with
    sigma = float(gaussian_sigma(2.0, 1 - math.sqrt(0.9), "theorem4"))
    real = float(ndtr(math.sqrt(2) / (2 * sigma) - 4 * sigma / math.sqrt(2)))
    return Outcome(
        judged(agree),
        f"delta {found[0][0]:.4f}, {found[1][0]:.5f}, {found[2][0]:.4f} for 2 x .1, 5 x .01, 49 x .1",
        f"loose: two features of Gaussian noise have {real:.1e} in place of .1",
    )


def theorem_3(setting: Setting) -> Outcome:
    """Compute the probability that the loss behind the indicator exceeds epsilon."""
    delta, failing, approximate = 0.1, {}, []
    for epsilon in (1.0, 2.0, 4.0):
        stays = float(KRR(epsilon, k=101).law(0.5).mass(0.5, 0.5))
        other = stays * math.exp(-epsilon)
        sent, elsewhere = delta + (1 - delta) * stays, (1 - delta) * other
        failing[epsilon] = sent if sent > math.exp(epsilon) * elsewhere else 0.0
        approximate.append(sent - math.exp(epsilon) * elsewhere)  # the one output whose loss exceeds epsilon
    holds = max(failing.values()) <= delta
    return Outcome(
        judged(holds, corrected=max(approximate) <= delta * (1 + 1e-9)),
        "k-RR, k = 101, delta .1: the loss exceeds epsilon with probability "
        + ", ".join(f"{value:.4f} at {epsilon:g}" for epsilon, value in failing.items()),
        "true where x has no mass, and in (epsilon, delta)-DP",
    )


def theorem_4(setting: Setting) -> Outcome:
    """Check the closed form of sigma over epsilon and delta, and compare it with the least sigma."""
    epsilons, deltas = np.meshgrid(np.geomspace(0.01, 50, 60), np.geomspace(1e-12, 0.5, 40))
    sigma = gaussian_sigma(epsilons, deltas, "theorem4")
    printed = np.sqrt(0.5) * (np.sqrt(np.log(2 / deltas) + epsilons) + np.sqrt(np.log(2 / deltas))) / epsilons
    exceeds = ndtr(0.5 / sigma - epsilons * sigma)
    three = [float(gaussian_sigma(2.0, 0.1, name)) for name in ("theorem4", "exact_tail", "analytic")]
    return Outcome(
        judged(bool((exceeds <= deltas).all() and np.allclose(sigma, printed, rtol=1e-12))),
        f"loss above epsilon with at most {float((exceeds / deltas).max()):.2f} of delta; "
        f"sigma {three[0]:.3f} at (2, .1)",
        f"{three[1]:.3f} keeps the same tail; the proof's branch -C is invalid",
    )


def proposition_1(setting: Setting) -> Outcome:
    """Compare F(b) - F(a) with the mass of the closed interval."""
    laws = {"laplace": Laplace(2.0).law(0.5), "pm": PM(2.0).law(0.5), "krr": KRR(2.0, k=101).law(0.5)}
    closed = {words: float(law.mass(0.2, 0.8)) for words, law in laws.items()}
    without = {words: closed[words] - float(law.mass(0.2, 0.2)) for words, law in laws.items()}
    equal = all(math.isclose(closed[words], without[words], abs_tol=1e-12) for words in laws)
    return Outcome(
        judged(equal, corrected=closed["laplace"] == without["laplace"]),
        f"[.2, .8], epsilon 2, k-RR with 101 values: {closed['krr']:.4f}, by the formula {without['krr']:.4f}",
        "F(b) - F(a-), which differs for grids and atoms",
    )


def combined_gaussian(setting: Setting) -> Outcome:
    """Compose two Gaussian features of delta .1."""
    total = compose([Probabilistic(1.0, 0.1)] * 2).delta
    needed = 1 - math.sqrt(0.9)
    return Outcome(
        judged(total <= 0.1, corrected=compose([Probabilistic(1.0, needed)] * 2).delta <= 0.1 + 1e-9),
        f"delta {total:.2f}; for .1 each feature needs {needed:.4f}",
        "deltas add up (Theorem 2)",
    )


def tail_bound(setting: Setting) -> Outcome:
    """Evaluate the questioned tail bound at 0."""
    bound = 1 / math.sqrt(2 * math.pi)
    above = np.linspace(1.0, 8, 50)
    right = bool((ndtr(-above) <= bound * np.exp(-(above**2) / 2)).all())
    return Outcome(
        judged(round(bound, 3) == 0.399 and bound < 0.5),
        f"{bound:.4f} against 0.5 at t = 0",
        f"{'true' if right else 'fails, too,'} from t = sigma on",
    )


def table_1(setting: Setting) -> Outcome:
    """Look for the mechanisms of Table 1 among ours."""
    listed = ("laplace", "gaussian", "pm", "sw", "exponential", "krr")
    lacking = [name for name in listed if name not in MECHANISMS]
    theorem = Gaussian(2.0, 0.1, "theorem4")
    return Outcome(
        judged(not lacking and theorem.guarantee.notion == "probabilistic"),
        f"{len(listed) - len(lacking)} of {len(listed)} mechanisms; logistic regression, forests and networks are read",
        str(lacking or ""),
    )


def approximate_is_weaker(setting: Setting) -> Outcome:
    """Compare the least noise for the two notions at equal parameters."""
    pairs = [(epsilon, delta) for epsilon in (0.5, 1.0, 2.0, 4.0) for delta in (1e-6, 1e-2, 0.1)]
    tails = [float(gaussian_sigma(*pair, "exact_tail")) for pair in pairs]
    least = [float(gaussian_sigma(*pair, "analytic")) for pair in pairs]
    stricter = all(one > other for one, other in zip(least, tails, strict=True))
    return Outcome(
        judged(stricter),
        f"at (2, .1): sigma {float(gaussian_sigma(2.0, 0.1, 'analytic')):.3f} for (epsilon, delta)-LDP, "
        f"{float(gaussian_sigma(2.0, 0.1, 'exact_tail')):.3f} for PAC LDP",
        "(epsilon, delta)-LDP is the weaker promise",
    )


ITEMS = (
    Item(
        "ldp-utility/fig-1",
        "Figure 1, section 1",
        "A drawing of the idea.",
        reason="it holds no number",
    ),
    Item(
        "ldp-utility/table-1",
        "Table 1, section 7.1",
        "Six mechanisms, three kinds of classifiers.",
        table_1,
        quick=True,
    ),
    Item(
        "ldp-utility/proposition-1",
        "Proposition 1, section 4.1",
        "Pr[output in [a, b]] = F(b) - F(a).",
        proposition_1,
        quick=True,
    ),
    Item(
        "ldp-utility/theorem-1",
        "Theorem 1, section 4.2.1",
        "ln(2/omega) / (2 tau^2) samples put the share within tau.",
        theorem_1,
        quick=True,
    ),
    Item(
        "ldp-utility/theorem-2",
        "Theorem 2, section 5.2",
        "d independent (epsilon, delta)-PAC mechanisms make (d epsilon, 1 - (1 - delta)^d).",
        theorem_2,
        quick=True,
    ),
    Item(
        "ldp-utility/theorem-3",
        "Theorem 3, section 5.2.1",
        "Sending the raw value with probability delta is (epsilon, delta)-PAC.",
        theorem_3,
        quick=True,
    ),
    Item(
        "ldp-utility/theorem-4",
        "Theorem 4, section 5.2.2",
        "A closed form of sigma keeps (epsilon, delta)-PAC LDP.",
        theorem_4,
        quick=True,
    ),
    Item(
        "ldp-utility/section-b.2.2",
        "Appendix B.2.2",
        "The classical Gaussian tail bound gives .399 for .5 at t = 0.",
        tail_bound,
        quick=True,
    ),
    Item(
        "ldp-utility/definition-15",
        "Definition 15 and appendix C.3",
        "PAC LDP is a relaxation of (epsilon, delta)-LDP.",
        approximate_is_weaker,
        quick=True,
    ),
    Item(
        "ldp-utility/section-c.5.1",
        "Appendix C.5.1",
        "Gaussian noise at delta .1 on two features keeps (2 epsilon, .1)-PAC LDP.",
        combined_gaussian,
        quick=True,
    ),
)
