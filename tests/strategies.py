"""What property tests draw from, and which cases of a costly table run by default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

epsilons = st.sampled_from([1e-3, 0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0, 100.0, 700.0]) | st.floats(1e-3, 700.0)
moderate_epsilons = st.sampled_from([1e-3, 0.05, 0.5, 2.0, 8.0, 20.0]) | st.floats(1e-3, 20.0)
values = st.sampled_from([0.0, 0.31, 0.5, 0.79, 1.0]) | st.floats(0.0, 1.0)
edges = st.sampled_from([-0.5, 0.0, 0.2, 0.5, 0.8, 1.0, 1.5]) | st.floats(-0.5, 1.5)

CONTINUOUS = [
    "pm", "sw", "laplace_clipped", "bounded_laplace", "gaussian_clipped:delta=0.1", "laplace", "gaussian:delta=0.1",
]  # fmt: skip
"""Words of mechanisms without a grid, of every kind of output."""


def sparing(cases: Iterable[Any], *, keep: Sequence[int]) -> list[Any]:
    """Return the cases for ``pytest.mark.parametrize``; all but those at these places are slow."""
    cases = list(cases)
    assert set(keep) <= set(range(len(cases)))

    def slow(case: Any) -> Any:
        return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)

    return [case if place in keep else slow(case) for place, case in enumerate(cases)]
