"""What clients and servers agree on: cells of a box, or a step of a table: a round of questions, or an audit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epsworth.documents import read_json
from epsworth.files import reading
from epsworth.learner.config import LatticeConfig
from epsworth.learner.tables.audits import ScoreAudit
from epsworth.learner.tables.rounds import Round
from epsworth.learner.tables.steps import Step

Asked = LatticeConfig | Step
STEPS: dict[str, type[Step]] = {kind.FORMAT: kind for kind in (Round, ScoreAudit)}


def _kind(document: Any) -> type[Step] | type[LatticeConfig]:
    """Return what reads a JSON document."""
    form = document.get("format") if isinstance(document, Mapping) else None
    return STEPS.get(form, LatticeConfig) if isinstance(form, str) else LatticeConfig


def asked_of(document: Any) -> Asked:
    """Return what a JSON document asks."""
    return _kind(document).from_dict(document)


def load_asked(path: str | Path) -> Asked:
    """Read a file that `LatticeConfig.save`, `Round.save` or `ScoreAudit.save` wrote."""
    with reading(path, "configuration") as content:
        document = read_json(content)
    return _kind(document).load(path)
