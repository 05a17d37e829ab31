"""Questions and runs told apart, for tests that ask one thing by several doors."""

from __future__ import annotations

import epsworth as ew


def in_parts(model, X, *, folder, **asked):
    """Ask what `stability` is asked by the same words, in parts."""
    run = {name: asked.pop(name) for name in ew.RunOptions.__annotations__ if name in asked}
    return ew.stability_in_parts(ew.Problem.of(model, X, **asked), folder, **run)
