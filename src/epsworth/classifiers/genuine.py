"""Whether a model answers through its library's own code: only then does its inside tell its labels.

A class is recognised by being the library's, never by its name.  A subclass counts for the class it is made from as
long as it changes nothing but how it is fitted; a method that was put in the place of another, on the class or on the
object, makes a model a black box.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

LIBRARIES = {
    "sklearn": ("sklearn",),
    "xgboost": ("xgboost", "sklearn"),
    "lightgbm": ("lightgbm", "sklearn"),
    "catboost": ("catboost", "_catboost", "sklearn"),
    "interpret": ("interpret", "sklearn"),
    "torch": ("torch",),
}
FITTING = {"__init__", "fit", "partial_fit", "fit_predict", "score", "_fit", "_partial_fit", "_parameter_constraints"}
WRITTEN = {  # by the interpreter, abc and scikit-learn into every class
    *("__module__", "__qualname__", "__doc__", "__annotations__", "__annotate__", "__annotate_func__"),
    *("__annotations_cache__", "__firstlineno__", "__static_attributes__", "__dict__", "__weakref__"),
    *("__abstractmethods__", "_abc_impl", "_sklearn_auto_wrap_output_keys"),
}
PLAIN = (  # what the interpreter itself puts into a class
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    type,
)


def kind_of(model: Any) -> str | None:
    """Return the name of the library's class whose answers a model gives; None where it may answer otherwise.

    Claim: every method and property that the library's class has is found on the model unchanged, and was written
    in that library, but for those that fit.
    """
    kind = type(model)
    found = _kind_of_class(kind)
    if found is None:
        return None
    shadowed = any(_acts(_static(kind, name)) for name in getattr(model, "__dict__", ()))
    return None if shadowed else found.__name__


def all_of_kind(models: Any, kinds: tuple[str, ...]) -> bool:
    """Tell whether all models, such as the trees of a forest, give the answers of one of these classes."""
    models = list(models)
    for kind in set(map(type, models)):  # what their classes hold is looked at once
        found = _kind_of_class(kind)
        if found is None or found.__name__ not in kinds:
            return False
        own = {name for model in models if type(model) is kind for name in getattr(model, "__dict__", ())}
        if any(_acts(_static(kind, name)) for name in own):
            return False
    return True


def shadowed(part: Any) -> str | None:
    """Return the name of an object's attribute that is found in the place of a method of its class; None without."""
    kind = type(part)
    own = ((name, _static(kind, name)) for name in getattr(part, "__dict__", ()))
    return next((name for name, value in own if _acts(value) and not hasattr(type(value), "__set__")), None)


def _kind_of_class(kind: type) -> type | None:
    """Return the first library class that a class is made from, if it is genuine and answers unchanged."""
    for parent in kind.__mro__:
        root = _root(parent.__dict__.get("__module__"))
        if root in LIBRARIES and vars(sys.modules[parent.__module__]).get(parent.__name__) is parent:
            own = _attributes(parent)
            genuine = all(_written_in(value, LIBRARIES[root]) for name, value in own.items() if not _request(name))
            same = kind is parent or (type(kind) is type(parent) and _answers_as(kind, own))
            return parent if genuine and same else None
    return None


def _answers_as(kind: type, own: dict[str, Any]) -> bool:
    """Tell whether a subclass leaves everything but fitting as it was, and puts nothing before fitted attributes."""
    changed = {name: value for name, value in _attributes(kind).items() if own.get(name) is not value}
    return all(
        _request(name) or not (name in own or name.startswith("__") or hasattr(value, "__set__"))
        for name, value in changed.items()
        if name not in FITTING | WRITTEN or isinstance(value, property)
    )


def _attributes(kind: type) -> dict[str, Any]:
    """Return what a class and its parents define, as it stands in their bodies; ``object`` counts for hooks only."""
    found: dict[str, Any] = {}
    for parent in reversed(kind.__mro__):
        found |= parent.__dict__
    return found


def _static(kind: type, name: str) -> Any:
    return next((parent.__dict__[name] for parent in kind.__mro__ if name in parent.__dict__), None)


def _acts(value: Any) -> bool:
    """Tell whether a class attribute is a method, and not a default that an object may replace."""
    return callable(value) or hasattr(type(value), "__get__")


def _request(name: str) -> bool:
    """Tell whether scikit-learn made a method for every subclass: it declares metadata and answers nothing."""
    return name.startswith("set_") and name.endswith("_request")


def _written_in(value: Any, roots: tuple[str, ...]) -> bool:
    """Tell whether a class attribute is no code, or code of these libraries, also behind what wraps it."""
    if isinstance(value, (classmethod, staticmethod, types.MethodType)):
        return _written_in(value.__func__, roots)
    if isinstance(value, property):
        return all(_written_in(part, roots) for part in (value.fget, value.fset, value.fdel) if part is not None)
    if isinstance(value, functools.cached_property):
        return _written_in(value.func, roots)
    if isinstance(value, types.FunctionType):
        here = _root(value.__globals__.get("__name__")) in roots  # `__module__` is copied by what wraps a function
        return here and (not hasattr(value, "__wrapped__") or _written_in(value.__wrapped__, roots))
    if isinstance(value, PLAIN) or not _acts(value):
        return True
    if isinstance(value, types.BuiltinFunctionType):
        return _root(value.__module__) in (*roots, "builtins", None)
    inner = getattr(value, "fn", None)  # scikit-learn's available_if
    return _root(type(value).__module__) in roots and (inner is None or _written_in(inner, roots))


def _root(module: Any) -> str | None:
    return module.split(".")[0] if isinstance(module, str) else None
