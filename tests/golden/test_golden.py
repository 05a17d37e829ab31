"""Golden results through public names: what is stored is what comes out."""

from __future__ import annotations

import pytest
from golden_results import CASES, MODULES, RESULTS, differences, is_empty, load_cases, stored

from mutation import resolved

load_cases()

COSTLY = {
    "the best noise for other questions", "what an epsilon affords", "proofs of an audit",
    "numbers on pages of other questions", "noise on the command line", "a policy on the command line",
    "curves of a logistic regression with three features", "noises for a number, cheapest first",
    "the noise for records", "noises for relative errors of a list of answers", "numbers on a page of curves",
    "a split on the command line", "curves in parts",
}  # fmt: skip
"""Left to the full suite; others of their kind are quick."""


@pytest.mark.cases("all")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in COSTLY else name for name in CASES]
)
def test_the_result_is_the_stored_one(name, tmp_path):
    case = CASES[name]
    old = stored(case.module).get(name)
    assert old is not None, f"no stored result of {name!r}: python tests/golden/regenerate.py --write"
    found = list(differences(old, case.result(tmp_path), case.tolerance))
    assert not found, f"{name}, {len(found)} differences from what is stored:\n" + "\n".join(found[:20])


def test_every_stored_result_has_a_case_and_holds_something():
    assert MODULES
    assert {path.stem for path in RESULTS.glob("*.json")} == set(MODULES)
    for module in MODULES:
        results = stored(module)
        assert set(results) == {name for name, case in CASES.items() if case.module == module}
        assert not [name for name, result in results.items() if is_empty(result)]


def test_every_subject_is_that_of_something():
    for name, case in CASES.items():
        owner, attribute = resolved(case.subject)
        assert attribute in vars(owner), (name, case.subject)


def test_differences_are_noticed_and_named():
    old = {"a": [1.0, 2.0], "b": "x", "c": 3}
    assert not list(differences(old, {"a": [1.0, 2.0 + 1e-13], "b": "x", "c": 3}, 1e-12))
    assert list(differences(old, {"a": [1.0, 2.1], "b": "x", "c": 3}, 1e-12)) == ["a[1]: 2.0 != 2.1 (tolerance 1e-12)"]
    for other in ({"a": [1.0], "b": "x", "c": 3}, {"a": [1.0, 2.0], "b": "y", "c": 3}, {**old, "c": True}, {"a": []}):
        assert list(differences(old, other, 1e-12))
