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

PARTS = (
    "epsworth",
    *(f"epsworth.{part}" for part in (
        "policy", "mechanisms", "pac", "learner", "noise", "exposure", "report",
    )),
)  # fmt: skip
PUBLIC = {
    f"{part}.{name}": getattr(importlib.import_module(part), name)
    for part in PARTS
    for name in importlib.import_module(part).__all__
}
TABLES = {name for name, value in PUBLIC.items() if isinstance(value, dict | tuple)}
NAMES = sorted(PUBLIC.keys() - TABLES)
TEXTS = {name: inspect.getdoc(inspect.unwrap(PUBLIC[name])) or "" for name in NAMES}


def examples(doc: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(doc)


def source_of(name: str) -> str:
    return "".join(example.source for example in examples(TEXTS[name]))


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


def test_every_public_name_has_an_example_that_can_be_copied():
    """What doctest runs among a module's own names, readers run in an empty file."""
    assert unbound("import numpy as np\nf = lambda x: x + y\nwith f(np) as g: print(g, h)") == {"y", "h"}
    assert [name for name in NAMES if not any(example.want for example in examples(TEXTS[name]))] == []
    assert {name: lacking for name in NAMES if (lacking := unbound(source_of(name)))} == {}
    for name in NAMES:
        called = rf"\b{name.rpartition('.')[2]}\("
        assert inspect.isclass(PUBLIC[name]) or re.search(called, source_of(name)), name
    for name in TABLES:
        part, _, table = name.rpartition(".")
        shown = examples(importlib.import_module(part).__doc__ or "")
        assert any(re.search(rf"\b{table}\b", example.source) for example in shown), name


def test_every_public_name_says_what_it_takes_returns_and_refuses():
    """Of results, which nobody makes by hand, the attributes are described that are not plain from their names."""
    for name in NAMES:
        doc, value = TEXTS[name], inspect.unwrap(PUBLIC[name])
        assert re.search(r"[.:]$", doc.partition("\n\n")[0]), name
        results = inspect.isclass(value) and ("Attributes" in doc or issubclass(value, tuple | np.ndarray | Exception))
        taken = [] if results else inspect.signature(value).parameters
        assert [one for one in taken if not re.search(rf"\b{one}\b", doc.partition("\nExamples\n")[0])] == [], name
        if inspect.isclass(value):
            for method, own in vars(value).items():
                kinds = property | cached_property | classmethod | staticmethod
                if not method.startswith("_") and (isinstance(own, kinds) or inspect.isroutine(own)):
                    assert own.__doc__, f"{name}.{method}"
            continue
        if inspect.signature(value).return_annotation not in (None, "None"):
            assert re.search(r"\b[Rr]eturns?\b", doc), name
        assert re.search(r"\nRaises\n|\b[Rr]efuse[sd]?\b|\b[Ee]rrors?\b|\braises?\b", doc), name
