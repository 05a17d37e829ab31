"""Raw values through the doors - arrays, data frames, a device's client - with words that are given.

What leaves must be the kernel's own outcome of the row's words, at an index that is found here, from the public range
and by Python's own numbers: a fault on the way to that index would else be one of every draw that follows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.frames import as_frame
from epsworth.mechanisms.words import SystemWords
from epsworth.release.audit_rows import Check
from epsworth.release.audit_words import Given as GivenWords
from epsworth.release.audit_words import Recorded, followed, kept_by
from epsworth.release.columns import Column, Indices
from epsworth.release.policy import Policy
from epsworth.release.rules import Rule
from epsworth.release.tables import Perturbation

ROWS = 4096  # of a table
RECORDS = 512  # of one record each
COPIES = 16  # of every special value, at random rows
Values = Mapping[str, list[Any]]


def raw(policy: Policy) -> Iterator[Check]:
    """Release raw values of what rules perturb, and compare what leaves with what their words lead to."""
    if not policy.rules:
        return
    plain = Policy(policy.rules, policy.sampling)
    told = {"arrays": _array(plain), "data frames": _frame(plain), "records": _records(plain)}
    run, wrong = (
        [door for door, found in told.items() if found is not None],
        [found for found in told.values() if found],
    )
    says = f"raw values - random ones, ends, -0.0, beyond, missing, undeclared - through {', '.join(run)}"
    yield Check("raw", not wrong, f"{says}: {wrong[0] if wrong else 'each is what its words lead to'}")


def special(rule: Rule) -> list[Any]:
    """Return the values that a door could treat in a way of its own; those that the policy refuses are left out."""
    feature, gap = rule.feature, [None] if rule.missing is not None else []
    if feature.categories is not None:
        return [*feature.categories, *gap, *([_undeclared(feature.categories)] if rule.outside is not None else [])]
    low, high = feature.lower, feature.upper
    middle = low + (high - low) / 2
    inner = [math.nextafter(low, high), math.nextafter(high, low), math.nextafter(low, -math.inf), middle]
    return [low, high, -0.0, 0.0, *inner, -1e308, 1e308, -math.inf, math.inf, 5e-324, *gap]


def _undeclared(categories: Sequence[Any]) -> Any:
    """Return a word, or a number, that is none of the categories, of the kind of the first."""
    if isinstance(categories[0], str):
        return "".join(("un", *map(str, categories)))
    return 1 + math.ceil(max(abs(float(one)) for one in categories if not isinstance(one, str)))


def values_of(rule: Rule, rows: int, pick: np.random.Generator) -> list[Any]:
    """Return raw values: random ones, some beyond the range, and copies of the special ones, in a random order."""
    feature = rule.feature
    chosen = (special(rule) * COPIES)[:rows]
    if feature.categories is not None:
        found = [*chosen, *(feature.categories[i] for i in pick.integers(0, len(feature.categories), rows))]
    else:
        spread = pick.uniform(-0.125, 1.125, rows)
        found = [*chosen, *(feature.lower * (1 - spread) + feature.upper * spread).tolist()]
    return [found[i] for i in pick.permutation(rows)]


def index_of(rule: Rule, value: Any) -> int:
    """Return the kernel's input for a value, by the policy's text alone.

    Examples
    --------
    >>> from epsworth import Domain
    >>> age, job = Policy.of("pm", "1", Domain.of({"age": (0, 100), "job": ["clerk", "nurse"]}), bits=4).rules
    >>> [index_of(age, value) for value in (-5, -0.0, 50, 1e9)], index_of(job, "nurse")
    ([0, 0, 8, 15], 1)
    """
    feature = rule.feature
    if value is None:
        value = rule.missing
    if feature.categories is not None:
        known = list(feature.categories)
        return known.index(value if value in known else rule.outside)
    clipped = min(max(float(value), feature.lower), feature.upper)
    return round((clipped - feature.lower) / (feature.upper - feature.lower) * (rule.kernel.points - 1))


def _table(policy: Policy, rows: int) -> tuple[Values, dict[str, Indices]]:
    pick = np.random.default_rng()
    table = {rule.feature.name: values_of(rule, rows, pick) for rule in policy.rules}
    told = {r.feature.name: np.array([index_of(r, v) for v in table[r.feature.name]]) for r in policy.rules}
    return table, told


def _expected(policy: Policy, told: Mapping[str, Indices], source: GivenWords) -> dict[str, list[Any]]:
    """Return what must leave: the outcome of each row's own words, looked up."""
    rows = len(next(iter(told.values())))
    kept, found = kept_by(policy, rows, source), {}
    for at, rule in enumerate(policy.rules):
        drawn = followed(rule.kernel, told[rule.feature.name], source)
        keep = None if kept is None else kept[:, at]
        found[rule.feature.name] = Column(rule).released(drawn, keep, policy).tolist()
    return found


def _differs(found: Mapping[str, Sequence[Any]], expected: Mapping[str, list[Any]]) -> str | None:
    for name, values in expected.items():
        if [_plain(value) for value in found[name]] != [_plain(value) for value in values]:
            return name
    return None


def _plain(value: Any) -> Any:
    return None if value is None or value != value else value


def _tried(
    policy: Policy, release: Callable[[Perturbation, Values], Mapping[str, Sequence[Any]]], door: str
) -> str | None:
    """Release a table by a door; return what is wrong with what leaves, nothing where nothing is."""
    (table, told), words = _table(policy, ROWS), Recorded()
    try:
        found = release(Perturbation(policy, words), table)
        name = _differs(found, _expected(policy, told, words.again()))
    except (ValueError, ArithmeticError) as error:  # of made-up values: a door refuses, or took other words
        return f"{door} give {type(error).__name__}"
    return "" if name is None else f"{door} release something else for {name!r}"


def _array(policy: Policy) -> str | None:
    """Release an array, whose columns are x0, x1, ..: the same rules under these names."""
    rules = [replace(r, feature=replace(r.feature, name=f"x{i}")) for i, r in enumerate(policy.rules)]
    named = Policy(tuple(rules), policy.sampling)

    def release(perturbation: Perturbation, table: Values) -> Mapping[str, Sequence[Any]]:
        columns: list[NDArray[Any]] = []
        for rule in rules:
            values, numbers = table[rule.feature.name], rule.feature.categories is None
            columns.append(
                np.array([math.nan if v is None else v for v in values] if numbers else values, dtype=object)
            )
        stacked = np.stack(columns, axis=1)
        sent = perturbation.array(stacked if _has_words(named) else stacked.astype(np.float64))
        return {name: sent[:, i].tolist() for i, name in enumerate(table)}

    return _tried(named, release, "arrays")


def _has_words(policy: Policy) -> bool:
    return any(rule.feature.categories is not None for rule in policy.rules)


def _frame(policy: Policy) -> str | None:
    """Release a data frame of the library at hand; categories of several kinds are no column of one."""
    library = next((name for name in ("polars", "pandas") if find_spec(name) is not None), None)
    kinds = [{type(one) for one in rule.feature.categories or (0.0,)} for rule in policy.rules]
    if library is None or any(len(kind) > 1 or bool in kind for kind in kinds):
        return None

    def release(perturbation: Perturbation, table: Values) -> Mapping[str, Sequence[Any]]:
        made = __import__(library).DataFrame(table)
        sent = perturbation.frame(as_frame(made))
        return {name: sent.get_column(name).to_list() for name in table}

    return _tried(policy, release, "data frames")


def _records(policy: Policy) -> str | None:
    """Release records one by one; a policy that devices do not run has no such door."""
    try:
        client = policy.client
    except ValueError:
        return None
    table, told = _table(policy, RECORDS)
    words = SystemWords().words(RECORDS * client.words).reshape(RECORDS, client.words)
    records = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    sent = [client.replay(record, row) for record, row in zip(records, words.tolist(), strict=True)]
    d = len(policy.rules)
    order = words.T if policy.sampling is None else [words[:, :d], *words[:, d:].T]  # column by column, as tables draw
    source = GivenWords(np.concatenate([np.ravel(part) for part in order]))
    name = _differs({name: [record[name] for record in sent] for name in table}, _expected(policy, told, source))
    return "" if name is None else f"records release something else for {name!r}"
