"""Examples in docstrings need what they import: one that shows an extra is skipped where the extra is missing."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

EXTRAS = ("torch",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip examples of extras that are not installed; CI runs them where these are."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            source = "".join(example.source for example in item.dtest.examples)
            needed = [extra for extra in EXTRAS if re.search(rf"^import {extra}$", source, re.M)]
            for extra in needed:
                if find_spec(extra) is None:
                    item.add_marker(pytest.mark.skip(reason=f"{extra} is not installed"))
