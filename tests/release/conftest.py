"""Releases in tests keep their ledger's key in a folder of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path_factory.mktemp("state")))
