"""What a policy is made of: a rule for each feature, and how many of these a record releases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from epsworth.client.kernels import exp_below
from epsworth.grids import BITS
from epsworth.mechanisms import MECHANISMS, GridMechanism, Kernel, Mechanism, kernel
from epsworth.mechanisms.family import parse
from epsworth.mechanisms.rational import stated_epsilon
from epsworth.numerals import exact_decimal, short
from epsworth.rounding import show_up
from epsworth.space import Feature

UNSAMPLED = ("missing", "scaled")

Unsampled = Literal["missing", "scaled"]


@dataclass(frozen=True)
class Rule:
    """How one feature is released.

    Attributes
    ----------
    feature : Feature
        Its public range or categories, and what stands for a missing value; without that it is refused.
    mechanism : str
        The words of both doors, such as ``"pm"`` or ``"krr:k=33"``; categories always take ``krr``.
    epsilon : Decimal
        Exact.
    bits : int
        The grids of a numeric feature have 2^bits points.
    outside : object, optional
        The category that stands for undeclared ones.  None refuses them; numbers are always clamped.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> policy = Policy.of("pm", {"age": 1, "smoker": "0.5"}, Domain.of({"age": (0, 100), "smoker": ["no", "yes"]}))
    >>> [(rule.feature.name, rule.mechanism, str(rule.epsilon)) for rule in policy.rules]
    [('age', 'pm', '1'), ('smoker', 'krr', '0.5')]
    >>> policy.rules[1].kernel.loss() <= 0.5
    True
    """

    feature: Feature
    mechanism: str
    epsilon: Decimal
    bits: int = BITS
    outside: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_decimal("epsilon", self.epsilon))
        if not self.epsilon > 0:
            raise ValueError(f"epsilon: must be positive, got {short(self.epsilon)}")
        stated_epsilon(self.epsilon)
        categories = self.feature.categories
        for value in categories or ():
            if not isinstance(value, (str, int, float)):
                raise ValueError(
                    f"categories: must be texts, numbers or booleans, got {short(value)}; write it as a text"
                )
        if self.outside is not None and categories is not None and self.outside not in categories:
            raise ValueError(f"outside: {self.outside!r} is not one of the categories; declare it or choose another")
        if categories is None:
            if self.outside not in (None, "clamp"):
                raise ValueError(f"outside: numbers outside the range are clamped ('clamp'), got {short(self.outside)}")
            object.__setattr__(self, "outside", "clamp")
        self.kernel  # noqa: B018  refuses what cannot be sampled exactly

    @cached_property
    def kernel(self) -> Kernel:
        """The exact sampler on the feature's public grid."""
        words = parse(self.mechanism)
        try:
            if self.feature.categories is not None:
                if words.name != "krr":
                    raise ValueError(f"{words.name} does not keep categories; use krr")
                return kernel("krr", self.epsilon, k=len(self.feature.categories))
            if words.indicator is not None:
                raise ValueError("the privacy indicator sends raw records; leave it out")
            options = dict(words.options)
            if issubclass(MECHANISMS.get(words.name, Mechanism), GridMechanism):  # the same grid as in the analysis
                options = {"k": GridMechanism.k} | options
                options |= {} if self.feature.points is None else {"k": self.feature.points}
            return kernel(words.name, self.epsilon, bits=self.bits, **options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"mechanism: {self.mechanism} cannot be released: {error}") from None

    @cached_property
    def proven(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that the integers are proven to keep, exactly: as stated, where that is less.

        The floats of the kernel's guarantee are rounded up, and would add a little to every charge.
        """
        found, stated = self.kernel, Fraction(self.epsilon)
        epsilon = min(stated, kept := Fraction(found.guarantee.epsilon))
        if found.guarantee.delta:  # what goes with probabilities up to e^epsilon times each other
            return epsilon, max(found.slack(exp_below(epsilon)), Fraction(0))
        return (epsilon if found.ratio() <= exp_below(epsilon) else kept), Fraction(0)

    @property
    def points(self) -> int | None:
        """Grid to which outputs are rounded afterwards (post-processing), or None."""
        coarser = parse(self.mechanism).points
        if self.feature.integer and (coarser is not None or self.kernel.points != self.feature.points):
            return self.feature.points
        return coarser

    @property
    def missing(self) -> Any:
        """What stands for a missing value, as the feature declares it."""
        return self.feature.missing

    @property
    def promise(self) -> str:
        """The stated epsilon in words, and beside it what the integers in fact keep, where that differs."""
        kept, stated = self.kernel.guarantee, show_up(float(self.epsilon))
        if kept.delta:
            pure = show_up(self.kernel.loss())
            return f"epsilon {stated} with delta {show_up(kept.delta)} (its integers keep pure epsilon {pure})"
        told = show_up(kept.epsilon)
        return f"epsilon {stated}" + ("" if told == stated else f" (its integers keep {told})")

    def to_dict(self) -> dict[str, Any]:
        """Return the TOML form, without the name."""
        rule = {"mechanism": self.mechanism, "epsilon": self.epsilon}
        rule |= {} if self.feature.categories is not None else {"bits": self.bits}
        instead = {key: value for key in ("outside", "missing") if (value := getattr(self, key)) is not None}
        return replace(self.feature, missing=None).to_dict() | rule | instead


@dataclass(frozen=True)
class Sampling:
    """Each record releases only ``features`` of the policy's features, chosen uniformly, independently of the data.

    Wang et al. 2019: with k of d features at k-th parts of the budget each.  ``unsampled`` values are left
    ``"missing"``, or the record is ``"scaled"``: centre + (d/k) (y - centre), and the centre itself for the
    unsampled, so that means over all records are, on average, what they would be with every feature released.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> ranges = Domain.of({"age": (0, 100), "income": (0, 9000), "visits": (0, 50)})
    >>> policy = Policy.of("pm", 2, ranges, sample=1)  # one of three features, with the whole budget
    >>> policy.sampling, policy.released
    (Sampling(features=1, unsampled='missing'), 1)
    >>> print(policy.guarantee)
    pure LDP, epsilon 2 per record
    """

    features: int
    unsampled: Unsampled = "missing"
