"""Panels of the help, by what options are about."""

from __future__ import annotations

QUESTION, PRECISION, OUTPUT, REMOTE = "Question", "Precision", "Output", "Remote model"
PRECISE = (
    "confidence", "tolerance", "method", "quantise", "over", "within_seconds", "jobs", "cluster", "workers", "seed",
    "resume", "checkpoint", "parts", "worlds", "worlds_seed",
)  # fmt: skip
WRITTEN = (
    "json", "plot", "report", "policy", "passing", "out", "output", "receipt", "study", "verbose", "quiet", "dry_run",
)  # fmt: skip
PANELS = dict.fromkeys(PRECISE, PRECISION) | dict.fromkeys(WRITTEN, OUTPUT)


def panel_of(parameter: str) -> str:
    """Return the panel of an option, which its parameter names.

    Examples
    --------
    >>> panel_of("json"), panel_of("at_least")
    ('Output', 'Question')
    """
    return PANELS.get(parameter, QUESTION)
