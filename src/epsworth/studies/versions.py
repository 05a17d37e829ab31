"""Versions of what computes: a result tells them, so that another one can be explained."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import metadata
from platform import python_version

from epsworth.version import __version__

ALWAYS = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn"}  # module -> package
WHERE_USED = ("polars", "skops", "onnxruntime", "xgboost", "lightgbm", "catboost", "torch", "keras", "pandas")


def versions() -> dict[str, str]:
    """Return the versions of what computed, the model's library included where it was loaded."""
    own = {"epsworth": __version__, "python": python_version()}
    named = ALWAYS | {name: name for name in WHERE_USED if name in sys.modules}
    return own | {package: _version(module, package) for module, package in named.items()}


def _version(module: str, package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # built from source, or under another name
        return str(getattr(sys.modules.get(module), "__version__", "unknown"))


def told(versions: Mapping[str, str]) -> str:
    """Return versions in a line."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())
