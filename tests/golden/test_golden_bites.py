"""Golden results seen to change: with its subject replaced by something wrong, no result is the stored one."""

from __future__ import annotations

import pytest
from golden_results import CASES, differences, load_cases, stored

from mutation import clear_caches, replace

load_cases()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_result_changes_with_its_subject(name, tmp_path):
    case = CASES[name]
    try:
        with pytest.MonkeyPatch.context() as patch:
            replace(patch, case.subject, case.mutate)
            wrong = case.result(tmp_path)
    finally:
        clear_caches()  # nothing that was computed wrongly stays
    found = list(differences(stored(case.module)[name], wrong, case.tolerance))
    assert found, f"{case.subject} was replaced, and the result of {name!r} is the same"
