"""All that one record can send under a policy, with exact probabilities: what `Policy.outcomes` returns."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsworth.refusals import alone
from epsworth.release.columns import Column
from epsworth.release.copies import Indices

if TYPE_CHECKING:
    from epsworth.release.policy import Policy
    from epsworth.release.tailoring import Tailoring

MOST_OUTCOMES = 1 << 16
Released = dict[str, Any]


@alone()
def outcomes(policy: Policy, record: Mapping[str, Any] | NDArray[Any]) -> list[tuple[Any, Fraction]]:
    """Return what `Policy.outcomes` promises."""
    if isinstance(record, np.ndarray):
        return _of_row(policy, record)
    if not isinstance(record, Mapping):
        raise ValueError(f"record: must be a mapping from column to value, or a row, got a {type(record).__name__}")
    if policy.sampling is not None:
        raise ValueError("outcomes: a policy that samples features is not listed; ask stability_of_policy")
    tailoring = policy.tailoring
    columns = {rule.feature.name: Column(rule) for rule in policy.rules}
    for name in columns:
        if name not in record:
            raise ValueError(f"record: lacks {name!r}, which the policy perturbs; give every column")
    kept = policy.passing.kept(list(record), policy.names)
    drawn = {name: _of_rule(column, record[name]) for name, column in columns.items()}
    if prod(map(len, drawn.values())) > MOST_OUTCOMES:
        raise ValueError(
            f"outcomes: there are more than {MOST_OUTCOMES} of what the rules release; use grids of fewer points"
        )
    found: list[tuple[Released, Fraction]] = []
    for chosen in product(*drawn.values()):
        share = prod((part for _, part in chosen), start=Fraction(1))
        values = {name: value for name, (value, _) in zip(columns, chosen, strict=True)}
        if tailoring is None:
            found.append(({**record, **values}, share))
        else:
            found += [(sent, share * part) for sent, part in _tailored(tailoring, record, values)]
    left = {name for name in record if name not in kept}
    return [({n: v for n, v in sent.items() if n not in left}, part) for sent, part in found] if left else found


def _of_row(policy: Policy, row: NDArray[Any]) -> list[tuple[Any, Fraction]]:
    """Return the same for a row of an array, whose columns are x0, x1, ..: what is sent are tuples."""
    if row.ndim != 1:
        raise ValueError(f"record: must be one row, got shape {row.shape}")
    names = [f"x{j}" for j in range(len(row))]
    found = outcomes(policy, dict(zip(names, row.tolist(), strict=True)))
    kept = policy.passing.kept(names, policy.names)
    return [(tuple(sent.get(name) for name in kept), share) for sent, share in found]


def _of_rule(column: Column, value: Any) -> list[tuple[Any, Fraction]]:
    """Return what one value is released as; points that are rounded to one value are added up."""
    given = np.empty(1, dtype=object)
    given[0] = value
    index = int(column.encode(given)[0])
    weights, total = column.rule.kernel.weights(index), column.rule.kernel.total(index)
    shares: dict[Any, Fraction] = {}
    for sent, weight in zip(column.values.tolist(), weights, strict=True):
        if weight:
            shares[sent] = shares.get(sent, Fraction(0)) + Fraction(weight, total)
    return list(shares.items())


def _tailored(
    tailoring: Tailoring, record: Mapping[str, Any], released: Mapping[str, Any]
) -> list[tuple[Released, Fraction]]:
    """Return what is sent where rules have released some columns: the region alone sees their true values."""
    values = tailoring.released_values
    found = tailoring.outcomes(_places(tailoring, record), _places(tailoring, {**record, **released}))
    public = {name: value for name, value in record.items() if name not in values}  # where those stood, or not, is lost
    shares: dict[tuple[Any, ...], Fraction] = {}  # of a narrow range, several places have one value
    for places, share in found:
        sent = tuple(column[place] for column, place in zip(values.values(), places, strict=True))
        shares[sent] = shares.get(sent, Fraction(0)) + share
    return [({**public, **released, **dict(zip(values, sent, strict=True))}, share) for sent, share in shares.items()]


def _places(tailoring: Tailoring, record: Mapping[str, Any]) -> Indices:
    return np.array([grid.place(record.get(grid.name)) for grid in tailoring.grids], dtype=np.int64)
