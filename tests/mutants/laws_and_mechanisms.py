"""Laws of released values, the noise that mechanisms calibrate, and the promises that they state."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from planting import mutant

MECHANISMS = "tests/contract/test_mechanisms.py"
GUARANTEES = "tests/test_guarantees.py"
GAUSSIAN = "tests/ground/test_gaussian_noise.py"
OUTWARD = "tests/utility/test_outward.py"


@mutant(
    "epsworth.laws.grid.first_index_from",
    claim="`mass` is the probability of the closed interval, atoms counted",
    test=f"{MECHANISMS}::test_mass_is_the_integral_of_the_density_plus_atoms",
)
def intervals_open_on_the_left(original):
    def first_index_from(y, k):
        found = original(y, k)
        return np.minimum(np.where(found / (k - 1) == y, found + 1, found), k)

    return first_index_from


@mutant(
    "epsworth.laws.bounded.Clipped.mass",
    claim="`mass` is the probability of the closed interval, atoms counted",
    test=f"{OUTWARD}::test_no_mass_is_off_by_more_than_derived",
)
def atoms_left_out(original):
    return lambda self, lower, upper: self.noise.mass(np.maximum(lower, self.low), np.minimum(upper, self.high))


@mutant(
    "epsworth.laws.law.MASS_ERROR",
    claim="no mass of a law is off by more than is allowed for",
    test=f"{OUTWARD}::test_no_mass_is_off_by_more_than_derived",
)
def masses_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.laws.noise.Laplace.mass",
    claim="no mass of a law is off by more than is allowed for",
    test=f"{OUTWARD}::test_no_mass_is_off_by_more_than_derived",
)
def masses_beside_the_centre_cancel(original):
    def mass(self, lower, upper):
        left, right = self.rate * (np.asarray(lower) - self.x), self.rate * (np.asarray(upper) - self.x)
        around = 1 - 0.5 * (np.exp(np.minimum(left, 0)) + np.exp(-np.maximum(right, 0)))
        return np.where((left <= 0) & (right >= 0), around, original(self, lower, upper))

    return mass


@mutant(
    "epsworth.laws.two_level.TwoLevel.var",
    claim="moments of the laws agree with 34-digit quadrature",
    test="tests/reference/test_utility_reference.py::test_moments",
)
def variance_without_that_of_the_window(original):
    return lambda self: original(self) - (1 - self.spread) * self.half**2 / 12


@mutant(
    "epsworth.laws.two_level.TwoLevel.from_uniform",
    claim="draws for analysis follow the law",
    test=f"{MECHANISMS}::test_draws_follow_the_law",
)
def draws_nearer_to_the_truth(original):
    return lambda self, u: self.x + 0.98 * (original(self, u) - self.x)


@mutant(
    "epsworth.mechanisms.piecewise.piecewise_shape",
    claim="the log-likelihood ratio of a mechanism never exceeds its tight epsilon",
    test=f"{MECHANISMS}::test_log_ratio_never_exceeds_the_tight_epsilon",
)
def window_a_little_narrower(original):
    def piecewise_shape(epsilon):
        spread, half = original(epsilon)
        return spread, 0.998 * half

    return piecewise_shape


@mutant(
    "epsworth.mechanisms.gaussian.gaussian_sigma",
    claim="Gaussian noise keeps (epsilon, delta), and is the least that does",
    test=f"{GUARANTEES}::test_gaussian_calibrations_are_tight_and_err_to_privacy",
)
def noise_a_shade_too_small(original):
    return lambda *given, **options: original(*given, **options) * (1 - 1e-12)


@mutant(
    "epsworth.mechanisms.gaussian._ulps",
    claim="rounding never lowers Gaussian noise below its promise",
    test=f"{GAUSSIAN}::test_noise_keeps_its_promise_in_sixty_digits",
)
def normal_tails_trusted_to_the_bit(original):
    return lambda terms: 0.0 * terms


@mutant(
    "epsworth.mechanisms.gaussian._loss_above",
    claim="the loss of clipped Gaussian noise is never stated below the truth",
    test=f"{GAUSSIAN}::test_the_tight_epsilon_of_clipped_noise_is_not_below_the_truth",
)
def loss_of_clipped_noise_rounded_down(original):
    from epsworth.rounding import down

    return lambda sigma: down(np.asarray(original(sigma)), ulps=40)


@mutant(
    "epsworth.mechanisms.gaussian.clipped_sigma",
    claim="clipped Gaussian noise keeps (epsilon, delta), and is the least that does",
    test=f"{GUARANTEES}::test_clipped_gaussian_noise_is_the_least_that_keeps_epsilon_and_delta",
)
def clipped_noise_a_shade_too_small(original):
    return lambda epsilon, delta: original(epsilon, delta) * (1 - 1e-9)


@mutant(
    "epsworth.mechanisms.gaussian.GaussianClipped.guarantee",
    claim="clipping and rounding to a grid keep the probabilistic promise only where no loss exceeds epsilon",
    test=f"{GUARANTEES}::test_clipping_can_break_the_probabilistic_promise",
)
def probabilistic_though_clipped(original):
    from epsworth.mechanisms.gaussian import Gaussian

    return lambda self: Gaussian.guarantee.fget(self)


@mutant(
    "epsworth.mechanisms.quantised.Quantised._law",
    claim="rounding an output to a grid has the law of the rounded output",
    test="tests/utility/test_exact.py::test_the_quantised_law_is_the_rounded_law",
)
def law_of_a_finer_grid(original):
    from epsworth import laws

    return lambda self, x: laws.Quantised(self.mechanism.law(x), self.k + 1)


COMPOSED = "a record's epsilon is never below the sum over its features, nor its delta below the chance that one fails"


@mutant(
    "epsworth.guarantees.compose", claim=COMPOSED, test=f"{GUARANTEES}::test_composed_epsilon_is_never_below_the_sum"
)
def epsilons_summed_to_nearest(original):
    def compose(parts):
        return dataclasses.replace(original(parts), epsilon=math.fsum(part.epsilon for part in parts))

    return compose


@mutant(
    "epsworth.mechanisms.indicator.PrivacyIndicator.over",
    claim="a coin that sends the raw record costs its delta, approximate and not probabilistic",
    test="tests/release/test_theorems.py::test_theorem_3_holds_as_approximate_dp_only",
)
def raw_records_cost_nothing(original):
    return lambda self, features, unit="record": dataclasses.replace(original(self, features, unit), delta=0.0)


@mutant(
    "epsworth.mechanisms.indicator.PrivacyIndicator.loss_exceeds",
    claim="a coin that sends the raw record costs its delta, approximate and not probabilistic",
    test="tests/release/test_theorems.py::test_theorem_3_holds_as_approximate_dp_only",
)
def raw_values_never_meet_atoms(original):
    return lambda self: self.delta


@mutant(
    "epsworth.guarantees.ceiling",
    claim="no mechanism beats the ceiling on inputs with different labels",
    test=f"{GUARANTEES}::test_the_ceiling_is_never_exceeded",
)
def ceiling_of_one_label_more(original):
    return lambda epsilon_total, labels, delta=0.0: original(epsilon_total, labels + 1, delta)
