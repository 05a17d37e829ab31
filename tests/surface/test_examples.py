"""Every public name says what it claims and takes, and shows how it is used, for whoever copies the example."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import inspect
import re
from functools import cached_property

import numpy as np
import pytest

PARTS = (
    "epsworth",
    *(f"epsworth.{part}" for part in (
        "release", "exact", "exact.testing", "pac", "learner", "noise", "coverage", "reports",
    )),
)  # fmt: skip
PUBLIC = {
    f"{part}.{name}": getattr(importlib.import_module(part), name)
    for part in PARTS
    for name in importlib.import_module(part).__all__
}
TABLES = {name for name, value in PUBLIC.items() if isinstance(value, dict)}
NAMES = sorted(PUBLIC.keys() - TABLES)
FUNCTIONS = [name for name in NAMES if not inspect.isclass(PUBLIC[name])]


def text(name: str) -> str:
    return inspect.getdoc(inspect.unwrap(PUBLIC[name])) or ""


def examples(doc: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(doc)


def unbound(source: str) -> set[str]:
    """Return the names that a text of statements reads without having made, imported or bound them anywhere."""
    tree, bound = ast.parse(source), set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.ExceptHandler):
            bound.add(node.name or "")
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - bound


def test_names_that_an_example_takes_for_granted_are_found():
    assert unbound("import numpy as np\nf = lambda x: x + y\nwith f(np) as g: print(g, h)") == {"y", "h"}


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_that_shows_something(name):
    found = examples(text(name))
    assert found, f"{name} has no example: show how one gets it, and what one does with it"
    assert any(example.want for example in found), f"no example of {name} shows an outcome"


@pytest.mark.parametrize("name", NAMES)
def test_examples_can_be_copied(name):
    """What doctest runs among a module's own names, readers run in an empty file."""
    source = "".join(example.source for example in examples(text(name)))
    assert not unbound(source), f"the example of {name} does not import them"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_of_functions_call_them(name):
    source = "".join(example.source for example in examples(text(name)))
    assert re.search(rf"\b{name.rpartition('.')[2]}\(", source)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_tables_are_shown_where_they_are_found(name):
    part, _, table = name.rpartition(".")
    shown = examples(importlib.import_module(part).__doc__ or "")
    assert any(re.search(rf"\b{table}\b", example.source) for example in shown)


@pytest.mark.parametrize("name", NAMES)
def test_summaries_are_sentences(name):
    assert re.search(r"[.:]$", text(name).partition("\n\n")[0])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_taken_is_described(name):
    """Of results, which nobody makes by hand, the attributes are described that are not plain from their names."""
    doc, value = text(name).partition("\nExamples\n")[0], inspect.unwrap(PUBLIC[name])
    results = inspect.isclass(value) and ("Attributes" in doc or issubclass(value, tuple | np.ndarray | Exception))
    taken = [] if results else inspect.signature(value).parameters
    missing = [one for one in taken if not re.search(rf"\b{one}\b", doc)]
    assert not missing, f"{name} does not say what {', '.join(missing)} are"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_return_and_refuse(name):
    doc, value = text(name), inspect.unwrap(PUBLIC[name])
    if inspect.signature(value).return_annotation not in (None, "None"):
        assert re.search(r"\b[Rr]eturns?\b", doc), f"{name} does not say what it returns"
    assert re.search(r"\nRaises\n|\b[Rr]efuse[sd]?\b|\b[Ee]rrors?\b|\braises?\b", doc), (
        f"{name} does not say what it refuses"
    )


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isclass(PUBLIC[name])])
def test_methods_of_public_classes_say_what_they_do(name):
    for method, value in vars(PUBLIC[name]).items():
        told = isinstance(value, property | cached_property | classmethod | staticmethod) or inspect.isroutine(value)
        if not method.startswith("_") and told:
            assert value.__doc__, f"{name}.{method} has no docstring"
