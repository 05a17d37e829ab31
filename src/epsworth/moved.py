"""Import paths of before, which work for one version more; apart, as `import epsworth` needs nothing else of it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # typing alone would take longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

MOVED = {
    "epsworth.engines": "epsworth.utility.stability",
    "epsworth.robustness": "epsworth.utility.radius",
    **{
        f"epsworth.{name}": f"epsworth.utility.{name}"
        for name in ("boxes", "curves", "figures", "margins", "recommendation", "sides", "splitting", "wording")
    },
}  # import paths of version 0.1


class _Moved:
    """Finds and loads modules at the import paths of before; the abstract classes of both take long to import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, origin=MOVED[fullname]) if fullname in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        """Take over all names of the module at its new path."""
        from epsworth.deprecation import warn

        new = MOVED[module.__name__]
        warn(module.__name__, new)  # frames of the import system do not count
        module.__dict__.update((k, v) for k, v in vars(import_module(new)).items() if not k.startswith("__"))


def keep_import_paths(finders: list[Any] = sys.meta_path) -> None:
    """Make the import paths of before work."""
    if not any(isinstance(finder, _Moved) for finder in finders):
        finders.append(_Moved())
