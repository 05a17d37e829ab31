"""Packages that the core does without: imported where they are needed, or one sentence with the command."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


class MissingExtra(ImportError, ValueError):
    """An optional package is not installed; the command line prints the sentence, and no trace."""


def needed(module: str, extra: str, why: str) -> Any:
    """Import a module that an extra brings, or say in one sentence how to install it.

    Parameters
    ----------
    module : str
        Such as ``polars`` or ``matplotlib.figure``.
    extra : str
        Which extra of ours brings it.
    why : str
        What needs it: the sentence's subject, such as "reading a table".

    Raises
    ------
    MissingExtra
        An `ImportError` that is a `ValueError`, too.  A package that is there and broken raises what it raises.

    Examples
    --------
    >>> needed("math", "files", "counting").floor(2.5)
    2
    >>> needed("no_such_package", "files", "reading a table")
    Traceback (most recent call last):
    ...
    epsworth.extras.MissingExtra: reading a table needs no_such_package, which is not installed: pip install "epsworth[files]"
    """  # noqa: E501
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
    raise MissingExtra(f'{why} needs {package}, which is not installed: pip install "epsworth[{extra}]"', name=package)


def later(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a library that is imported at the first call: a release does without most of them.

    Examples
    --------
    >>> later("math", "sqrt")(4)
    2.0
    """

    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    return call
