"""Arguments of any kind: accepted, or refused in one sentence of our own that names the field."""

from __future__ import annotations

import numpy as np
import pytest

import epsworth as ew

RECORDS = np.random.default_rng(0).random((6, 2))
HOSTILE = {
    "None": None,
    "true": True, "nan": float("nan"), "infinity": float("inf"), "minus one": -1, "zero": 0, "no text": "",
    "a text": "a", "no list": [], "a list": [2], "no mapping": {}, "a huge number": 10**400, "a fraction": 1.5,
    "an array without a dimension": np.array(3), "objects": np.array(["a"], dtype=object), "an object": object(),
    "bytes": b"x", "a complex number": 1j, "a mapping": {"x": 1},
}  # fmt: skip
SPLIT = {"sensitive": [0, 1], "total": 2.0, "mechanism": "krr:k=5"}
TAILORED = {"sensitive": [0], "epsilon": 1, "domain": {0: (0, 1)}, "public": True}
ASKED = {"sensitive": [0], "mechanisms": ["krr:k=5"], "epsilons": [1.0]}
CALLS = {
    "stability": (ew.stability, (RECORDS,), ASKED, [
        "sensitive", "mechanisms", "epsilons", "method", "confidence", "tolerance", "over", "at_least", "seconds",
        "n_jobs", "quantise", "progress", "watch",
    ]),
    "radius": (ew.radius, (RECORDS[0],), {"features": [0]}, [
        "features", "norm", "confidence", "failing", "budget", "seconds", "progress", "watch",
    ]),
    "radii": (ew.radii, (RECORDS,), {"features": [0]}, [
        "norm", "features", "confidence", "failing", "budget", "seconds", "n_jobs", "progress",
    ]),
    "tailor": (ew.tailor, (RECORDS,), TAILORED, [
        "sensitive", "epsilon", "wish", "outside", "surrogate", "holdout", "confidence", "n_jobs",
    ]),
    "split_budget": (ew.split_budget, (RECORDS,), SPLIT, [
        "sensitive", "total", "mechanism", "on", "method", "confidence", "tolerance", "n_jobs", "progress",
    ]),
}  # fmt: skip
FIELDS = [(name, field) for name, (*_, fields) in CALLS.items() for field in fields]
OTHER_WORDS = {
    "sensitive": "sensitive|domain",
    "epsilons": "epsilon",
    "total": "total|epsilon",
    "mechanism": "mechanism",
    "mechanisms": "mechanism",
}


def above(table):
    return (table.sum(axis=1) > 1).astype(int)


@pytest.mark.parametrize(("name", "field"), FIELDS)
@pytest.mark.slow
def test_arguments_of_any_kind_get_one_sentence(name, field):
    call, given, others, _ = CALLS[name]
    told = []
    for value in HOSTILE.values():
        try:
            call(above, *given, **{"rng": 0, **others, field: value})
        except (ValueError, TypeError) as error:
            told.append(str(error))
    words = OTHER_WORDS.get(field, field).split("|")
    assert len(told) > len(HOSTILE) / 2
    assert [one for one in told if not one.isprintable() or len(one) >= 300] == []
    assert [one for one in told if not any(word in one for word in words)] == []
