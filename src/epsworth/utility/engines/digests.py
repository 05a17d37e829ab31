"""Digests by which a run knows its question again: records, model, laws, settings."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import pickletools
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.utility.problem import Problem

PROBES = 512  # answers over the ranges by which a classifier is known again
EDGES = np.linspace(-0.5, 1.5, 33)  # of released values, and
PLACES = np.linspace(0, 1, 5)  # true values, by whose masses a law is known again
DIGITS = 9
NUMBERS = frozenset(
    ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "NEWTRUE", "NEWFALSE")
)  # as a pickle holds them
ROWS = 4_096  # of a column of objects that become a text at once


def described(problem: Problem, **settings: object) -> dict[str, str]:
    """Say what a question is, by the words of a refusal: by digests where there is much to say, or data."""
    labels_text([set(problem.labels.tolist())])  # refused now, or never
    columns = [problem.records.column(p) for p in range(len(problem.records.names))]
    return {
        "version of epsworth": version("epsworth"),
        "records": digest(problem.records.names, *columns),
        "true values of the records": digest(problem.unit),  # gaps and outliers as a policy reads them
        "labels of the records": digest(problem.labels),
        "true labels": digest(problem.y),
        "the model": digest_of_model(problem.classifier.inside),
        "answers of the classifier": digest(problem.ask(*problem.over_the_ranges(PROBES))),
        "sensitive features": ", ".join(feature.name for feature in problem.features),
        "ranges": digest([[repr(f), f.from_unit(np.linspace(0, 1, len(PLACES))).tolist()] for f in problem.features]),
        "mechanisms": ", ".join(problem.names),
        "epsilons": ", ".join(f"{epsilon!r}" for epsilon in problem.epsilons.tolist()),
        "laws of what is released": digest(_laws(problem)),
    } | {name: f"{value}" for name, value in settings.items()}


def _laws(problem: Problem) -> list[Any]:
    """Return masses of every law at a few true values, and what else a release is."""
    masses: list[Any] = []
    for release in (release for row in problem.releases for release in row):
        laws = [mechanism.law(PLACES[:, np.newaxis]) for mechanism in release.mechanisms]
        masses.append([np.round(law.mass(-np.inf, EDGES), DIGITS).tolist() for law in laws])
        masses.append([repr(release.guarantee), float(release.reveal)])
    return masses


def digest(*values: object) -> str:
    """Return a digest of arrays, texts and numbers, in their order."""
    state = hashlib.sha256()
    for value in values:
        _add(state, value)
    return f"sha256:{state.hexdigest()}"


def _add(state: hashlib._Hash, value: object) -> None:
    """Add a value to a digest: arrays by their bytes, field by field, since what lies between fields is anything."""
    if not isinstance(value, np.ndarray):
        state.update(repr(value).encode())
    elif value.dtype.names:
        for name in value.dtype.names:
            _add(state, value[name])
    elif value.dtype.hasobject:
        for start in range(0, len(value), ROWS):
            state.update(repr(value[start : start + ROWS].tolist()).encode())
    else:
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes())


class _Arrays(pickle.Pickler):
    """Pickles a model with a digest in place of each of its arrays."""

    def reducer_override(self, held: Any) -> Any:
        if isinstance(held, np.ndarray) and not held.dtype.hasobject:
            return bytes, (digest(held).encode(),)
        if hasattr(held, "get_tree_stats"):  # scikit-learn's trees of neighbours: counts of calls come eighth
            return bytes, (digest(*held.__getstate__()[:7]).encode(),)
        return NotImplemented


def digest_of_model(model: Any) -> str:
    """Return a digest of the numbers, texts and arrays of a model; of those that come before what cannot be pickled.

    Numbers in their order; texts and arrays as a set, since what is held twice may be pickled once.
    """
    content, numbers, texts = io.BytesIO(), hashlib.sha256(), set()
    with suppress(Exception):
        _Arrays(content, protocol=5).dump(model)
    with suppress(ValueError):  # where pickling stopped
        for code, value, _ in pickletools.genops(content.getvalue()):
            if code.name in NUMBERS:
                numbers.update(f"{code.name} {value!r};".encode())
            elif isinstance(value, (str, bytes, bytearray)):
                texts.add(repr(value))
    return digest(numbers.hexdigest(), *sorted(texts))


def check_same_question(kept: Mapping[str, Any], asked: Mapping[str, str]) -> None:
    """Refuse what belongs to another question, and say what differs."""

    def describe(word: str) -> str:
        one, other = str(kept.get(word, "none")), asked.get(word, "none")
        return word if one.startswith("sha256:") or len(one + other) > 60 else f"{word} ({one}, not {other})"

    differ = [word for word in dict(asked) | dict(kept) if kept.get(word) != asked.get(word)]
    if differ:
        raise ValueError(
            f"belongs to another question: not the same {', '.join(map(describe, differ))}; "
            "ask that question again, or give another path"
        )


def labels_text(seen: Iterable[set[Any]]) -> str:
    """Return sets of labels as JSON; refuse labels that it cannot hold."""
    plain = [[label.item() if isinstance(label, np.generic) else label for label in labels] for labels in seen]
    if not all(isinstance(label, (str, int, float)) for labels in plain for label in labels):
        raise ValueError("a checkpoint holds labels that are texts, numbers or booleans only; leave it out")
    return json.dumps(plain)


def labels_of(text: NDArray[Any]) -> list[set[Any]]:
    """Return what `labels_text` wrote."""
    return [set(labels) for labels in json.loads(str(text))]
