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
    "epsworth.mechanisms.law.first_index_from",
    claim="`mass` is the probability of the closed interval, atoms counted",
    test=f"{MECHANISMS}::test_mass_is_the_integral_of_the_density_plus_atoms",
)
def intervals_open_on_the_left(original):
    def first_index_from(y, k):
        found = original(y, k)
        return np.minimum(np.where(found / (k - 1) == y, found + 1, found), k)

    return first_index_from


@mutant(
    "epsworth.mechanisms.law.MASS_ERROR",
    claim="no mass of a law is off by more than allowed for",
    test=f"{OUTWARD}::test_no_mass_is_off_by_more_than_derived",
)
def masses_trusted_to_the_bit(original):
    return 0.0


@mutant(
    "epsworth.mechanisms.piecewise.piecewise_shape",
    claim="no log-likelihood ratio exceeds a mechanism's tight epsilon",
    test=f"{MECHANISMS}::test_log_ratio_never_exceeds_the_tight_epsilon",
)
def window_a_little_narrower(original):
    def piecewise_shape(epsilon):
        spread, half = original(epsilon)
        return spread, 0.998 * half

    return piecewise_shape


@mutant(
    "epsworth.mechanisms.calibration.gaussian_sigma",
    claim="Gaussian noise keeps (ε, δ), rounding included, and is the least that does",
    test=f"{GUARANTEES}::test_gaussian_calibrations_are_tight_and_err_to_privacy",
)
def noise_a_shade_too_small(original):
    return lambda *given, **options: original(*given, **options) * (1 - 1e-12)


@mutant(
    "epsworth.mechanisms.calibration._ulps",
    claim="Gaussian noise keeps (ε, δ), rounding included, and is the least that does",
    test=f"{GAUSSIAN}::test_noise_keeps_its_promise_in_sixty_digits",
)
def normal_tails_trusted_to_the_bit(original):
    return lambda terms: 0.0 * terms


@mutant(
    "epsworth.mechanisms.gaussian.GaussianClipped.guarantee",
    claim="clipped noise keeps the probabilistic promise only where no loss exceeds ε",
    test=f"{GUARANTEES}::test_clipping_can_break_the_probabilistic_promise",
)
def probabilistic_though_clipped(original):
    from epsworth.mechanisms.gaussian import Gaussian

    return lambda self: Gaussian.guarantee.fget(self)


@mutant(
    "epsworth.guarantees.compose",
    claim="a record's ε is at least the sum over its features",
    test=f"{GUARANTEES}::test_composed_epsilon_is_never_below_the_sum",
)
def epsilons_summed_to_nearest(original):
    def compose(parts):
        return dataclasses.replace(original(parts), epsilon=math.fsum(part.epsilon for part in parts))

    return compose


@mutant(
    "epsworth.mechanisms.indicator.PrivacyIndicator.over",
    claim="a coin that sends the raw record costs its δ; the promise is approximate",
    test="tests/policy/test_theorems.py::test_theorem_3_holds_as_approximate_dp_only",
)
def raw_records_cost_nothing(original):
    return lambda self, features, unit="record": dataclasses.replace(original(self, features, unit), delta=0.0)


@mutant(
    "epsworth.guarantees.ceiling",
    claim="no mechanism beats the ceiling on inputs with different labels",
    test=f"{GUARANTEES}::test_the_ceiling_is_never_exceeded",
)
def ceiling_of_one_label_more(original):
    return lambda epsilon_total, labels, delta=0.0: original(epsilon_total, labels + 1, delta)


@mutant(
    "epsworth.mechanisms.promise.check_promise",
    claim="a mechanism that users bring is refused if its law breaks its promise at 257 inputs; "
    "passing is called checked, not proven",
    test="tests/contract/test_own_mechanisms.py::test_what_keeps_its_promise_passes_and_a_tenth_more_does_not",
)
def promises_believed(original):
    return lambda name, mechanism, inputs=None: None


@mutant(
    "epsworth.utility.engines.run.check_possible",
    claim="an answer that a mechanism's promise rules out is refused",
    test="tests/contract/test_own_mechanisms.py::test_an_answer_that_no_promise_allows_is_refused",
)
def impossible_answers_told(original):
    return lambda question, stability: None


@mutant(
    "epsworth.mechanisms.family.is_brought",
    claim="a mechanism that users bring is refused if its law breaks its promise at 257 inputs; passing is called checked, not proven",
    test="tests/contract/test_own_mechanisms.py::test_a_density_that_tells_more_than_epsilon_is_refused",
)
def densities_believed(original):
    return lambda release: original(release) and type(release).__module__.split(".")[0] != "epsworth"
