"""What clients and servers agree on: cells of a box, or a step of a table: a round of questions, or an audit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epsworth.documents import read_json
from epsworth.files import reading
from epsworth.learner.config import LatticeConfig
from epsworth.learner.tables.audits import ScoreAudit
from epsworth.learner.tables.config import FORMAT as TABLE_FORMAT
from epsworth.learner.tables.config import TableConfig
from epsworth.learner.tables.rounds import Round
from epsworth.learner.tables.steps import Step

Asked = LatticeConfig | Step
TABLE = "this is the configuration of a table; its clients get a round: write one with epsworth learn open, or open()"
STEPS: dict[str, type[Step]] = {kind.FORMAT: kind for kind in (Round, ScoreAudit)}


def _kind(document: Any) -> type[Step] | type[LatticeConfig]:
    """Return what reads a JSON document."""
    form = document.get("format") if isinstance(document, Mapping) else None
    if form == TABLE_FORMAT:
        raise ValueError(TABLE)
    return STEPS.get(form, LatticeConfig) if isinstance(form, str) else LatticeConfig


def asked_of(document: Any) -> Asked:
    """Return what a JSON document asks."""
    return _kind(document).from_dict(document)


def checked_asked(config: Any) -> Asked:
    """Return what a client or an aggregator was given, if it is a question."""
    if isinstance(config, TableConfig):
        raise ValueError(TABLE)
    if not isinstance(config, (LatticeConfig, Step)):
        raise ValueError(f"config must be a LatticeConfig, a Round or a ScoreAudit, got a {type(config).__name__}")
    return config


def load_asked(path: str | Path) -> Asked:
    """Read a file that `LatticeConfig.save`, `Round.save` or `ScoreAudit.save` wrote."""
    with reading(path, "configuration") as content:
        kind = _kind(read_json(content))
    return kind.load(path)
