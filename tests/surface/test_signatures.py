"""What users call is frozen to the last parameter: a change shows here, and is made on purpose.

``EPSWORTH_FREEZE=1 pytest -n0 tests/surface/test_signatures.py`` writes the file anew.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

FROZEN = Path(__file__).with_name("signatures.json")
PARTS = (
    "epsworth",
    *(f"epsworth.{part}" for part in ("release", "exact", "pac", "learner", "noise", "coverage", "reports", "client")),
)


def signature(call: Any) -> str:
    """Return parameters, kinds and defaults; types as they are written."""
    found = inspect.signature(call)
    plain = [parameter.replace(default=_shown(parameter.default)) for parameter in found.parameters.values()]
    return re.sub(r"ForwardRef\(('[^']*')[^)]*\)", r"\1", str(found.replace(parameters=plain)))


def _shown(default: Any) -> Any:
    """Return a default whose text holds no address."""
    return _Named(getattr(default, "__qualname__", "")) if inspect.isroutine(default) else default


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


def surface(part: str) -> dict[str, str]:
    """Return the signatures of a part's public names, and of the methods that its public classes define."""
    module, found = importlib.import_module(part), {}
    for name in module.__all__:
        value = getattr(module, name)
        if not callable(value):
            continue
        if not inspect.isclass(value) or not issubclass(value, BaseException):
            found[name] = signature(value)
        if inspect.isclass(value):
            found |= {f"{name}.{method}": told for method, told in _methods(value)}
    return found


def _methods(cls: type) -> list[tuple[str, str]]:
    told = []
    for name, value in inspect.getmembers(cls):
        if name.startswith("_"):
            continue
        if isinstance(value, (property, cached_property)):
            told.append((name, "property"))
        elif inspect.isroutine(value) and (getattr(value, "__module__", "") or "").startswith("epsworth"):
            told.append((name, signature(value)))
    return told


@pytest.mark.parametrize("part", PARTS)
def test_public_signatures_are_frozen(part):
    found = surface(part)
    frozen = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    if os.environ.get("EPSWORTH_FREEZE"):
        FROZEN.write_text(json.dumps(frozen | {part: found}, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        return
    assert found == frozen[part]
