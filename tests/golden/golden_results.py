"""Golden results: named cases, their stored values, their comparison."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results"
MODULES = tuple(sorted(path.stem for path in (HERE / "cases").glob("*.py") if path.stem != "__init__"))

EXACT = 0.0
SMALL = 1e-6  # tolerances are relative, but to no less than this: what cancels to nearly 0 has no digits
ROUNDING = 1e-12  # elementary functions differ between machines in their last bit
ALGEBRA = 1e-9  # so do sums of products, by the processor's BLAS; and quadrature and series


@dataclass(frozen=True)
class Case:
    """One golden result: what computes it, how near it must come, and what it must be seen to depend on."""

    name: str
    compute: Callable[..., Any]
    tolerance: float
    subject: str
    mutate: Callable[[Any], Any]

    @property
    def module(self) -> str:
        return self.compute.__module__.rpartition(".")[2]

    def result(self, folder: Path) -> Any:
        """Compute the result in an empty folder, as its file holds it."""
        given = (folder,) if self.compute.__code__.co_argcount else ()
        return json.loads(written(plain(self.compute(*given))))


CASES: dict[str, Case] = {}


def golden(
    name: str, *, subject: str, mutate: Callable[[Any], Any], tolerance: float = ROUNDING
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function, of nothing or of an empty folder, as a golden case.

    ``tolerance`` is relative to the larger of both numbers and of one; texts, integers and shapes must be equal.
    ``subject`` is the dotted name of something that the result depends on, and ``mutate`` makes it wrong.
    """

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in CASES, name
        CASES[name] = Case(name, compute, tolerance, subject, mutate)
        return compute

    return register


def load_cases() -> dict[str, Case]:
    """Import all modules of cases; return the cases by name."""
    for module in MODULES:
        import_module(f"cases.{module}")
    return CASES


def stored(module: str) -> dict[str, Any]:
    """Read the stored results of a module."""
    path = RESULTS / f"{module}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def plain(value: Any) -> Any:
    """Return a value as what JSON holds: fractions, decimals and numbers that are not finite as texts."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Fraction | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    assert value is None or isinstance(value, bool | int | float | str), type(value)
    return value


def written(value: Any, indent: str = "") -> str:
    """Return JSON with one entry per line; lists of plain entries stand on one line, as far as they fit."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{deeper}{json.dumps(key)}: {written(entry, deeper)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(entry, list | dict) for entry in value):
        return "[\n" + ",\n".join(deeper + written(entry, deeper) for entry in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def differences(old: Any, new: Any, tolerance: float, path: str = "") -> Iterator[str]:
    """Yield where two results differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            yield f"{path}: keys {list(old)} != {list(new)}"
        for key in (key for key in old if key in new):
            yield from differences(old[key], new[key], tolerance, f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} entries != {len(new)}"
        for at, (left, right) in enumerate(zip(old, new, strict=False)):
            yield from differences(left, right, tolerance, f"{path}[{at}]")
    elif isinstance(old, float) and isinstance(new, float):
        if abs(old - new) > tolerance * max(SMALL, abs(old), abs(new)):
            yield f"{path}: {old!r} != {new!r} (tolerance {tolerance:g})"
    elif type(old) is not type(new) or old != new:
        yield f"{path}: {old!r} != {new!r}"


def is_empty(value: Any) -> bool:
    """Return whether a result holds no value at all to compare."""
    if isinstance(value, dict | list):
        return all(is_empty(entry) for entry in (value.values() if isinstance(value, dict) else value))
    return value is None or value == ""


def digest(text: str | bytes) -> str:
    """Return the start of a text's SHA-256, for what is too long to be read."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


@contextlib.contextmanager
def known_entropy(number: int = 7) -> Iterator[None]:
    """Let the operating system give bytes that a number determines: NOT PRIVATE, for results that repeat."""
    generator = np.random.Generator(np.random.Philox(number))
    with mock.patch("os.urandom", generator.bytes):
        yield


def command(folder: Path, *words: str) -> str:
    """Run a command of the command line in a folder; return what it prints."""
    from epsworth.cli import main

    out, err = io.StringIO(), io.StringIO()
    broken = signal.getsignal(signal.SIGPIPE) if hasattr(signal, "SIGPIPE") else None
    code: Any = 0
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", ["epsworth", *words]),
            mock.patch.object(warnings, "showwarning", warnings.showwarning),
        ):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        if broken is not None:
            signal.signal(signal.SIGPIPE, broken)
    assert not code, err.getvalue()
    return out.getvalue()


def json_of(folder: Path, *words: str) -> Any:
    """Run a command with ``--json -``; return the document."""
    return json.loads(command(folder, *words, "--json", "-"))


def chosen(found: Any, *names: str) -> dict[str, Any]:
    """Return these entries of a document, or attributes of an object."""
    return {name: found[name] if isinstance(found, Mapping) else getattr(found, name) for name in names}


def scaled(factor: float) -> Callable[[Any], Any]:
    """Return what makes a function's number, or array of numbers, wrong by a factor."""
    return changed(lambda value: value * factor)


def changed(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes a function return something else than it does."""

    def make(original: Any) -> Any:
        def wrong(*args: Any, **kwargs: Any) -> Any:
            return change(original(*args, **kwargs))

        return wrong

    return make
