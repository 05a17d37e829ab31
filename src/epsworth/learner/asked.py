"""What clients and servers agree on: cells of a box, or a round of questions about a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epsworth.documents import read_json
from epsworth.files import reading
from epsworth.learner.config import LatticeConfig
from epsworth.learner.tables.rounds import FORMAT, Round

Asked = LatticeConfig | Round


def asked_of(document: Any) -> Asked:
    """Return what a JSON document asks."""
    if isinstance(document, Mapping) and document.get("format") == FORMAT:
        return Round.from_dict(document)
    return LatticeConfig.from_dict(document)


def load_asked(path: str | Path) -> Asked:
    """Read a file that `LatticeConfig.save` or `Round.save` wrote."""
    with reading(path, "configuration") as content:
        document = read_json(content)
    return (
        Round.load(path)
        if isinstance(document, Mapping) and document.get("format") == FORMAT
        else LatticeConfig.load(path)
    )
