"""What --missing and --outside say: the value that stands for another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epsworth.space import Domain, Feature

SHOWN = 10  # categories that a message names


def with_gaps(
    domain: Domain | None, words: list[str] | None, names: Sequence[str], columns: Sequence[str], file: Path | None
) -> Domain | None:
    """Return declared ranges with what --missing says besides.

    Parameters
    ----------
    domain : Domain or None
        None: the sensitive columns lie on [0, 1].
    names, columns : sequence of str
        The sensitive columns, and all of the table.
    file : path, optional
        The --domain file.

    Raises
    ------
    ValueError
        For a column that is not sensitive, and for what contradicts the file.
    """
    if not words:
        return domain
    from epsworth.space import Domain, unit_domain

    declared = domain or unit_domain(names)
    named = substitutes("--missing", words, [declared[name] for name in names], columns) or {}
    for name, value in named.items():
        own = declared[str(name)].missing
        if own is not None and own != (float(value) if isinstance(own, float) else value):
            raise ValueError(
                f"--missing {name}={value} contradicts missing = {_shown(own)} under [features.{name}] of {file}; keep "
                "one of them"
            )
    return Domain(
        tuple(replace(one, missing=named[one.name]) if one.name in named else one for one in declared.features)
    )


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def substitutes(
    option: str, words: list[str] | None, features: Sequence[Feature], columns: Sequence[str] = ()
) -> dict[str | int, Any] | None:
    """Read what stands for values: NAME=VALUE, or one value for all features that are not named.

    ``columns`` are those of the table, for whoever names one that is not sensitive.

    Examples
    --------
    >>> from epsworth import Feature
    >>> features = [Feature("age", 0, 100), Feature("job", categories=("clerk", "other"))]
    >>> substitutes("--missing", ["age=40", "other"], features)
    {'age': Decimal('40'), 'job': 'other'}
    >>> substitutes("--outside", ["other"], features)
    {'job': 'other'}
    """
    if not words:
        return None
    of = {feature.name: feature for feature in features if option == "--missing" or feature.categories is not None}
    named: dict[str | int, Any] = {}
    general: list[str] = []
    values = {str(category) for feature in features for category in feature.categories or ()}
    for word in words:
        name = next((feature.name for feature in features if word.startswith(f"{feature.name}=")), None)
        if name is None and (other := next((one for one in columns if word.startswith(f"{one}=")), None)):
            raise ValueError(f"{option} {word}: {other} is not perturbed, so the model gets its gaps; leave it out")
        if name is None and "=" in word and word not in values:
            told = ", ".join(feature.name for feature in features)
            raise ValueError(f"{option} {word}: {word.partition('=')[0]} is not perturbed; NAME is one of {told}")
        if name is None:
            general.append(word)
        elif name in named:
            raise ValueError(f"{option} {word}: {name} has a value already; keep one")
        elif name not in of:
            raise ValueError(f"{option} {word}: numbers outside the range of {name} count as its ends; leave it out")
        else:
            named[name] = _value(f"{option} {word}", word[len(name) + 1 :], of[name])
    if len(general) > 1:
        raise ValueError(f"{option}: {' and '.join(general)} name no feature; write NAME=VALUE, or one value for all")
    rest = [feature for name, feature in of.items() if name not in named]
    if general and not rest:
        raise ValueError(f"{option} {general[0]}: there is no feature for it; write NAME=VALUE, or leave it out")
    return named | {feature.name: _value(f"{option} {word}", word, feature) for word in general for feature in rest}


def _value(told: str, text: str, feature: Feature) -> Any:
    """Read a value that a feature can have."""
    from epsworth.numerals import exact_decimal

    name = feature.name
    if feature.categories is not None:
        found = [category for category in feature.categories if str(category) == text]
        if not found:
            shown = map(str, [*feature.categories[:SHOWN], *(["..."] if len(feature.categories) > SHOWN else [])])
            raise ValueError(f"{told}: {name} has the categories {', '.join(shown)}")
        return found[0]
    try:
        value = exact_decimal(told, text)
    except ValueError:
        raise ValueError(f"{told}: {name} is a number from {feature.lower:g} to {feature.upper:g}") from None
    if not feature.lower <= value <= feature.upper:
        raise ValueError(f"{told}: {name} is a number from {feature.lower:g} to {feature.upper:g}")
    return value
