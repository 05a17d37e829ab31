"""Mechanisms that somebody brings: what breaks its promise is refused, what keeps it is told as checked, not proven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import epsworth as ew
from epsworth import laws
from epsworth.guarantees import Approximate, Pure
from epsworth.mechanisms import FAMILIES, PrivacyIndicator, Quantised
from epsworth.mechanisms.mechanism import Mechanism
from epsworth.mechanisms.promise import CHECKED, check_promise


class Named(Mechanism):
    title: ClassVar[str] = "Own"
    reference: ClassVar[str] = "nobody"
    output: ClassVar[str] = "[0, 1]"


def brought(kind, *, loss=1.0, promise=None, tight=None):
    """Return a mechanism of somebody else's: the law of a family at ``loss`` times the epsilon that it says."""

    @dataclass(frozen=True)
    class Own(Named):
        def _law(self, x):
            return FAMILIES[kind](loss * self.scalar_epsilon)._law(x)

        @property
        def guarantee(self):
            return Pure(self.scalar_epsilon) if promise is None else promise(self.scalar_epsilon)

        @property
        def tight_epsilon(self):
            return self.scalar_epsilon if tight is None else tight

        @property
        def points(self):
            return FAMILIES[kind](1.0).points

    return Own


def ask(build, epsilons=(1.0,)):
    return ew.stability(
        lambda X: X[:, 0] > 0.5, [[0.8]], sensitive=0, mechanisms={"mine": build}, epsilons=epsilons, rng=0
    )


PURE = [name for name in FAMILIES if FAMILIES[name](1.0).guarantee.notion == "pure"]


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
@pytest.mark.cases(20)
def test_what_keeps_its_promise_passes_and_a_tenth_more_does_not(kind, epsilon):
    spare = 2.0 if kind == "exponential" else 1.0  # the textbook constant wastes half of it
    check_promise("mine", brought(kind, loss=spare)(epsilon))
    if kind == "boosted_laplace":  # on the real line its loss is found in the tails alone
        spare = 1.05
    with pytest.raises(ValueError, match=r"'mine' at epsilon .* tells more than it says"):
        check_promise("mine", brought(kind, loss=1.1 * spare)(epsilon))


def test_approximate_promises_are_compared_with_their_delta():
    calibrated = FAMILIES["gaussian_clipped"](1.0, delta=1e-3)

    @dataclass(frozen=True)
    class Own(Named):
        delta: float = 1e-3

        def _law(self, x):
            return calibrated._law(x)

        @property
        def guarantee(self):
            return Approximate(self.scalar_epsilon, self.delta)

    check_promise("mine", Own(1.0))
    with pytest.raises(ValueError, match=r"delta is 0\.0001; correct its guarantee"):
        check_promise("mine", Own(1.0, 1e-4))
    with pytest.raises(ValueError, match=r"delta is 0\.001; correct its guarantee"):
        check_promise("mine", Own(0.5))


def test_the_mechanism_that_was_believed_is_refused():
    """A window that is 1475 times as likely as the rest, said to keep epsilon 1."""
    with pytest.raises(ValueError, match=r"an output is 1475 times as likely from input .* and e\^epsilon is 2.718"):
        ask(brought("pm", loss=float(np.log(1475))))


def test_a_tight_epsilon_is_a_promise_too():
    check_promise("mine", brought("pm", tight=1.0)(1.0))
    with pytest.raises(ValueError, match=r"tells more than it says"):
        check_promise("mine", brought("pm", tight=0.9)(1.0))


def test_what_is_possible_from_one_input_alone_is_refused():
    @dataclass(frozen=True)
    class Shown(Named):
        def _law(self, x):
            return laws.TwoLevel.around(x, np.zeros_like(x), 0.25)

    with pytest.raises(ValueError, match=r"an output is possible from input 0.* and not from"):
        ask(Shown)


def test_every_epsilon_of_the_grid_is_checked():
    def build(epsilon):
        return brought("pm", loss=1.0 if epsilon < 2 else 1.5)(epsilon)

    assert ask(build, [0.5, 1.0]).lower.shape == (1, 2, 1)
    with pytest.raises(ValueError, match=r"'mine' at epsilon 2 tells more"):
        ask(build, [0.5, 1.0, 2.0])


def test_wrappers_do_not_hide_what_they_wrap():
    wrong = brought("pm", loss=1.5)
    for build in (lambda e: PrivacyIndicator(wrong(e), 0.1), lambda e: Quantised(wrong(e), 11)):
        with pytest.raises(ValueError, match=r"tells more than it says"):
            ask(build)


def test_what_is_no_mechanism_is_one_sentence():
    for build, got in ((lambda epsilon: 5, "got 5"), (lambda epsilon: "pm", "got 'pm'")):
        with pytest.raises(TypeError, match=f"'mine' must return a Mechanism for each epsilon, {got}"):
            ask(build)


def test_what_is_no_law_is_refused():
    class Half(laws.TwoLevel):
        def mass(self, lower, upper):
            return super().mass(lower, upper) / 2

    @dataclass(frozen=True)
    class Own(Named):
        def _law(self, x):
            inner = FAMILIES["pm"](1.0)._law(x)
            return Half(**{name: getattr(inner, name) for name in inner.__dataclass_fields__})

    with pytest.raises(
        ValueError, match=r"'mine' has no law at input 0: its masses must add up to 1, and add up to 0.5"
    ):
        ask(Own)


def test_it_is_told_and_families_of_the_package_are_not_checked_again():
    assert f"mine: {CHECKED}" in ask(brought("pm")).notes
    assert not any(CHECKED in note for note in ask(lambda epsilon: FAMILIES["pm"](epsilon / 2)).notes)
