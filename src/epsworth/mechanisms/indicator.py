"""The privacy indicator: with probability delta send the raw value, else perturb it."""

from __future__ import annotations

from dataclasses import dataclass

from epsworth.arrays import as_floats
from epsworth.guarantees import Approximate, Guarantee, compose
from epsworth.mechanisms.law import Law
from epsworth.mechanisms.laws import RawOr
from epsworth.mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class PrivacyIndicator:
    """Wrap a mechanism: one coin per *record* sends it raw with probability ``delta``.

    Zheng & Hu 2025, section 5.2.  It buys stability (delta + (1 - delta) rho) by revealing, on average,
    a share ``delta`` of all records in full: see `cost`.

    Parameters
    ----------
    mechanism : Mechanism
        What is used when the coin does not fall on the raw record.
    delta : float
        Probability of sending the raw record, in (0, 1).

    Examples
    --------
    >>> from epsworth import MECHANISMS, PrivacyIndicator
    >>> wrapped = PrivacyIndicator(MECHANISMS["pm"](1.0), delta=0.1)
    >>> print(wrapped.guarantee)
    approximate LDP, epsilon 1, delta 0.1 per feature
    >>> wrapped.cost
    'with probability 0.1 the raw record is sent'
    """

    mechanism: Mechanism
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ValueError(f"indicator delta must lie strictly between 0 and 1, got {self.delta!r}")

    @property
    def title(self) -> str:
        """What it is, in words."""
        return f"{self.mechanism.title}; {self.cost}"

    @property
    def reference(self) -> str:
        """Where it comes from."""
        return f"{self.mechanism.reference}; indicator: Zheng & Hu 2025, section 5.2"

    @property
    def output(self) -> str:
        """Where outputs lie."""
        return self.mechanism.output

    @property
    def epsilon(self) -> float:
        """Epsilon per feature of the wrapped mechanism."""
        return self.mechanism.scalar_epsilon

    @property
    def guarantee(self) -> Guarantee:
        """The promise for one feature: (epsilon, 1 - (1 - delta)(1 - delta of the mechanism)), approximate."""
        return self.over([self.mechanism.guarantee], unit="feature")

    @property
    def tight_epsilon(self) -> float:
        """Infinite: a raw value has unbounded loss."""
        return float("inf")

    @property
    def cost(self) -> str:
        """What the wrapper gives away, in a sentence."""
        return f"with probability {self.delta:g} the raw record is sent"

    def over(self, features: list[Guarantee], unit: str = "record") -> Guarantee:
        """Return the promise for a record whose features keep ``features``: one coin for all of them."""
        whole = compose([*features, Approximate(0.0, self.delta)])
        return Approximate(whole.epsilon, whole.delta, "record" if unit == "record" else "feature")

    def law(self, x: object) -> Law:
        """Return the law of one feature, the coin included."""
        values = as_floats(x)  # type: ignore[arg-type]
        return RawOr(values, self.delta, self.mechanism.law(values))

    def loss_exceeds(self) -> float:
        """Return the probability, at the worst input, of an output whose loss exceeds epsilon.

        It is delta for mechanisms without atoms.  Where the raw value can coincide with an atom or a
        grid point, that atom's whole mass is lost too: delta + (1 - delta) max_x Pr[M(x) = x].
        """
        ends = as_floats([0.0, 1.0])  # atoms at the true value are heaviest at the ends of the range
        return self.delta + (1 - self.delta) * float(self.mechanism.law(ends).pmf(ends).max())
