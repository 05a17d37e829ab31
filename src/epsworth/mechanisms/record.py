"""From one feature to a record: which mechanism each sensitive feature gets, and what that promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from epsworth.guarantees import Guarantee, Pure, Unit, compose
from epsworth.mechanisms.family import Release
from epsworth.mechanisms.indicator import PrivacyIndicator
from epsworth.mechanisms.krr import KRR
from epsworth.mechanisms.label import LabelResponse
from epsworth.mechanisms.mechanism import GridMechanism, Mechanism
from epsworth.mechanisms.quantised import Quantised
from epsworth.numerals import short
from epsworth.rounding import float_above, float_below
from epsworth.space import Feature


@dataclass(frozen=True)
class RecordRelease:
    """What leaves one record: a mechanism per sensitive feature, independently, or the raw record.

    Attributes
    ----------
    mechanisms : tuple of Mechanism
        One per sensitive feature; none where the label itself is released (`LabelResponse`).
    reveal : float
        Probability of sending the raw record (the privacy indicator's delta, else 0).
    guarantee : Guarantee
        The promise for the whole record.
    tight_epsilon : float
        Sum of the features' tight epsilons: the pure loss that is in fact kept; may be infinite.
    """

    mechanisms: tuple[Mechanism, ...]
    reveal: float
    guarantee: Guarantee
    tight_epsilon: float


def record_release(release: Release, features: Sequence[Feature]) -> RecordRelease:
    """Fit a mechanism to each feature.

    Grid mechanisms take a feature's declared grid, and where it holds whole numbers the outputs of all others are
    rounded to them.  Categorical features always get k-ary randomised
    response over their categories, at the same epsilon: no other mechanism keeps categories.
    """
    if isinstance(release, LabelResponse):
        whole = compose([Pure(release.epsilon)] * len(features))
        return RecordRelease((), 0.0, whole, whole.epsilon)
    inner, reveal = (release.mechanism, release.delta) if isinstance(release, PrivacyIndicator) else (release, 0.0)
    fitted = tuple(_fitted(inner, feature) for feature in features)
    promises: list[Guarantee] = [m.guarantee for m in fitted]
    guarantee = release.over(promises) if isinstance(release, PrivacyIndicator) else compose(promises)
    tight = float("inf") if reveal else sum(m.tight_epsilon for m in fitted)
    return RecordRelease(fitted, reveal, guarantee, tight)


def budgets(epsilons: Sequence[float], features: int, per: Unit) -> tuple[list[float], list[float]]:
    """Return the epsilons of a record, and those of each of its features: the largest that do not sum to more.

    Examples
    --------
    >>> budgets([2.0], 2, "record"), budgets([2.0], 2, "feature")
    (([2.0], [1.0]), ([4.0], [2.0]))
    >>> 3 * Fraction(budgets([1.0], 3, "record")[1][0]) <= 1
    True
    """
    if not isinstance(per, str) or per not in ("record", "feature"):
        raise ValueError(f"per must be 'record' or 'feature', got {short(per)}")
    if per == "feature":
        return [float_above(Fraction(epsilon) * features) for epsilon in epsilons], list(epsilons)
    return list(epsilons), [float_below(Fraction(epsilon) / features) for epsilon in epsilons]


def stated(release: RecordRelease, total: float) -> RecordRelease:
    """Promise the epsilon that was asked for, where its shares only lost to rounding."""
    promise = release.guarantee
    lost = promise.epsilon < total and math.isclose(promise.epsilon, total, rel_tol=1e-12)
    return replace(release, guarantee=replace(promise, epsilon=total)) if lost else release


def stand_ins(release: Release, features: Sequence[Feature], *, explicit: bool = False) -> list[str]:
    """Say which features do not get the mechanism that was named, but one that suits what is declared.

    Parameters
    ----------
    explicit : bool
        Whether a number of grid points was asked for, so that a declared one in its place must be told, too.
    """
    if isinstance(release, LabelResponse):
        return []
    named = release.mechanism if isinstance(release, PrivacyIndicator) else release
    notes = []
    for feature in features:
        fitted = _fitted(named, feature)
        if feature.categories is not None and type(fitted) is not type(named):
            notes.append(
                f"{feature.name} is categorical, so k-ary randomised response over its {fitted.points} categories "
                "perturbs it instead"
            )
        elif explicit and fitted.points != named.points:
            notes.append(f"{feature.name} declares {fitted.points} values, which replace the {named.points} asked for")
    return notes


def _fitted(mechanism: Mechanism, feature: Feature) -> Mechanism:
    if feature.categories is not None:
        return KRR(mechanism.scalar_epsilon, k=len(feature.categories))
    if feature.points is not None and isinstance(mechanism, GridMechanism):
        return replace(mechanism, k=feature.points)
    if feature.points is not None and isinstance(mechanism, Quantised):
        return Quantised(mechanism.mechanism, feature.points)
    if feature.points is not None and feature.integer:
        return Quantised(mechanism, feature.points)
    return mechanism
