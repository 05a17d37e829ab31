"""Every test and example has a ledger of its own; examples that show an extra are skipped where it is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count

import pytest

EXTRAS = ("torch",)
COSTLY = {"epsworth.noise.ranking.cheapest", "epsworth.policy.audit.policy_audit.Audit"}  # examples of the full suite
_numbers = count()


@pytest.fixture(scope="session", autouse=True)
def _no_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what fixtures of whole modules release, before any test's own ledger, away from the account's, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPSWORTH_STATE", str(tmp_path_factory.getbasetemp() / "state"))
        yield


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the ledger of what a test releases, and its key, away from the account's and from other tests'."""
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path_factory.getbasetemp() / f"state-{next(_numbers)}"))


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip examples of extras that are not installed; CI runs them where these are. Costly ones are slow."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            if item.name in COSTLY:
                item.add_marker(pytest.mark.slow)
            source = "".join(example.source for example in item.dtest.examples)
            needed = [extra for extra in EXTRAS if re.search(rf"^import {extra}$", source, re.M)]
            for extra in needed:
                if find_spec(extra) is None:
                    item.add_marker(pytest.mark.skip(reason=f"{extra} is not installed"))
