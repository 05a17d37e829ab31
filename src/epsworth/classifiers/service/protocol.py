"""Requests and replies of the Open Inference Protocol, version 2: JSON, and the extension for binary tensors.

A reply is a stranger's: names, kinds, shapes and lengths are checked before a value becomes a label.  Two kinds of
failure are told apart: `Broken` bodies, which another try may mend, and answers that are whole and are no labels, which
it does not.

References
----------
Open Inference Protocol, REST specification and binary tensor data extension (KServe, Triton).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.reading import ClassifierError

Label = int | float | str | bool

KINDS: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    **{f"{sign}INT{8 * size}": np.dtype(f"<{kind}{size}") for sign, kind in (("", "i"), ("U", "u")) for size in (1, 2,
    4, 8)}, **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)}, "BYTES": np.dtype(object),
}  # fmt: skip
HEADER = "Inference-Header-Content-Length"


class Broken(Exception):
    """A reply was cut short, or is not what the protocol writes: another try may bring a whole one."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """One input: ``values`` of shape ``(n,)`` or ``(n, d)``; texts and gaps (None) where the kind is BYTES."""

    name: str
    kind: str
    values: NDArray[Any]

    def take(self, rows: Any) -> Tensor:
        """Return some of its records."""
        return Tensor(self.name, self.kind, self.values[rows])

    @property
    def shape(self) -> list[int]:
        """A column is written as n lists of one."""
        return [len(self.values), 1 if self.values.ndim == 1 else self.values.shape[1]]


@dataclass(frozen=True)
class Request:
    """A body, and the headers that describe it."""

    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Labels:
    """What a reply said, one label per record, and by which version of the model."""

    kind: str
    values: list[Label]
    version: str | None


def write(tensors: Sequence[Tensor], *, mark: str, output: str | None, binary: bool) -> Request:
    """Return the request about some records.

    Parameters
    ----------
    mark : str
        The request's ``id``, which the reply repeats.
    output : str, optional
        The one output that is asked for; None leaves it to the service.
    """
    parts = [_binary(tensor) if binary else b"" for tensor in tensors]
    document: dict[str, Any] = {
        "id": mark,
        "inputs": [_input(t, part, binary) for t, part in zip(tensors, parts, strict=True)],
    }
    frame = len(tensors) > 1 or tensors[0].values.ndim == 1
    document["parameters"] = {"content_type": "pd" if frame else "np"}
    if binary:
        document["parameters"]["binary_data_output"] = True
    if output is not None:
        document["outputs"] = [{"name": output, **({"parameters": {"binary_data": True}} if binary else {})}]
    head = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    if not binary:
        return Request(head, {"Content-Type": "application/json"})
    return Request(head + b"".join(parts), {"Content-Type": "application/octet-stream", HEADER: str(len(head))})


def _input(tensor: Tensor, part: bytes, binary: bool) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tensor.name, "shape": tensor.shape, "datatype": tensor.kind}
    written["parameters"] = {"content_type": "str" if tensor.kind == "BYTES" else "np"}
    if binary:
        written["parameters"]["binary_data_size"] = len(part)
    else:
        written["data"] = _listed(tensor)
    return written


def _listed(tensor: Tensor) -> list[Any]:
    """Return the values row by row; JSON has no NaN, and a gap is null."""
    values = tensor.values.reshape(-1)
    if values.dtype.kind != "f":
        return values.tolist()
    if np.isinf(values).any():
        raise ClassifierError(
            f"the input {tensor.name!r} holds infinite values, which JSON cannot write; drop the rows"
        )
    return [None if value != value else value for value in values.tolist()]


def _binary(tensor: Tensor) -> bytes:
    if tensor.kind != "BYTES":
        return tensor.values.tobytes()
    texts = tensor.values.reshape(-1).tolist()
    if None in texts:
        raise ClassifierError(
            f"the input {tensor.name!r} has gaps, which binary tensors cannot write; give binary=False"
        )
    return b"".join(struct.pack("<I", len(text)) + text for text in (text.encode() for text in texts))


def document_of(body: bytes, what: str) -> dict[str, Any]:
    """Read a JSON object; what is none is broken."""
    try:
        document = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Broken(f"{what} that is not JSON") from None
    if not isinstance(document, dict):
        raise Broken(f"{what} that is no JSON object")
    return document


def _no_constant(word: str) -> float:
    if word == "NaN":
        return float("nan")  # refused as such, with the output's name
    raise ValueError(word)


def read(body: bytes, headers: Mapping[str, str], n: int, *, mark: str, output: str | None, name: str) -> Labels:
    """Return the labels that a reply holds, one for each of n records, or say why it holds none."""
    head, rest = _parted(body, headers)
    document = document_of(head, "a reply")
    if document.get("id") not in (None, "", mark):
        raise Broken("the reply to another request")
    outputs = document.get("outputs")
    if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
        raise Broken("a reply without outputs")
    parts = _binary_parts(outputs, rest)
    at = _chosen(outputs, output, name)
    kind = outputs[at].get("datatype")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ClassifierError(
            f"{name} answered by an output of the kind {_shown(kind)}, which the protocol does not know"
        )
    values = _values(outputs[at], parts[at], kind, n, name)
    labels = _labels(values, kind, outputs[at].get("name"), name)
    if kind.startswith("FP") and output is None:  # margins and percentages may be whole, too
        raise ClassifierError(
            f"{name} answered by the output {_shown(outputs[at].get('name'))} of the kind {kind}, which may be "
            "scores; let the service answer INT64, BYTES or BOOL, or name that output by output= if it holds labels"
        )
    version = document.get("model_version")
    return Labels(kind, labels, version if isinstance(version, str) else None)


def _parted(body: bytes, headers: Mapping[str, str]) -> tuple[bytes, bytes]:
    """Part the JSON of a reply from its binary tensors."""
    length = headers.get(HEADER.lower())
    if length is None:
        return body, b""
    if not (length.isascii() and length.isdigit() and len(length) < 12 and int(length) <= len(body)):
        raise Broken("a reply shorter than it says")
    return body[: int(length)], body[int(length) :]


def _binary_parts(outputs: list[dict[str, Any]], rest: bytes) -> list[bytes | None]:
    parts: list[bytes | None] = []
    for one in outputs:
        parameters = one.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if size is None:
            parts.append(None)
            continue
        if type(size) is not int or not 0 <= size <= len(rest):
            raise Broken("a reply shorter than it says")
        parts.append(rest[:size])
        rest = rest[size:]
    if rest:
        raise Broken("a reply longer than it says")
    return parts


def _chosen(outputs: list[dict[str, Any]], output: str | None, name: str) -> int:
    """Return which output holds the labels: the named one, the only one, or the only one not of floats."""
    names = [str(one.get("name")) for one in outputs]
    if output is not None:
        places = [at for at, one in enumerate(names) if one == output]
    elif len(outputs) == 1:
        places = [0]
    else:
        places = [at for at, one in enumerate(outputs) if not str(one.get("datatype")).startswith("FP")]
    if len(places) != 1:
        listed = ", ".join(map(_shown, names[:10])) or "none"
        asked = "none of them" if output is None else f"not {output!r}, once,"
        raise ClassifierError(
            f"{name} answered by the outputs {listed}, {asked} surely the labels; name them by output="
        )
    return places[0]


def _values(output: dict[str, Any], part: bytes | None, kind: str, n: int, name: str) -> list[Any]:
    shape = output.get("shape")
    if shape not in ([n], [n, 1]):
        shown = str(shape)[:40] if isinstance(shape, list) and all(type(one) is int for one in shape) else "none"
        raise ClassifierError(
            f"{name} answered {n} records by the output {_shown(output.get('name'))} of shape {shown}; "
            "it must hold one label per record (class labels, not probabilities): name another by output="
        )
    values = _listed_values(output.get("data")) if part is None else _unpacked(part, kind)
    if len(values) != n:
        raise ClassifierError(f"{name} answered {n} records with {len(values)} labels; it must give one per record")
    return values


def _listed_values(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise Broken("an output without data")
    nested = [one for one in data if isinstance(one, list)]
    if len(nested) == len(data) and all(len(one) == 1 for one in nested):
        return [one[0] for one in nested]
    return data


def _unpacked(part: bytes, kind: str) -> list[Any]:
    if kind != "BYTES":
        if len(part) % KINDS[kind].itemsize:
            raise Broken("an output cut within a number")
        return list(np.frombuffer(part, KINDS[kind]).tolist())
    texts, at = [], 0
    while at < len(part):
        end = at + 4 + int.from_bytes(part[at : at + 4], "little")
        if end > len(part) or at + 4 > len(part):
            raise Broken("an output cut within a text")
        try:
            texts.append(part[at + 4 : end].decode())
        except UnicodeDecodeError:
            raise Broken("a text that is not UTF-8") from None
        at = end
    return texts


def _labels(values: list[Any], kind: str, output: Any, name: str) -> list[Label]:
    """Return values of the declared kind, or say what else they are; broken numbers are scores."""
    answer = f"{name} answered by the output {_shown(output)}"
    if kind == "BYTES":
        fits = all(type(value) is str for value in values)
    elif kind == "BOOL":
        fits = all(type(value) is bool for value in values)
    elif "INT" in kind:
        ends = np.iinfo(KINDS[kind])
        fits = all(type(value) is int and ends.min <= value <= ends.max for value in values)
    else:
        fits = all(type(value) in (int, float) for value in values)
        if fits and any(value != value for value in values):
            raise ClassifierError(f"{answer} NaN instead of a label")
        if fits and any(abs(value) == float("inf") or value != int(value) for value in values):
            raise ClassifierError(
                f"{answer} broken numbers, which look like scores; name the output of the labels by output=, "
                "or let the service answer labels, such as scores > 0.5"
            )
        values = [float(value) for value in values] if fits else values
    if not fits:
        raise ClassifierError(f"{answer} something else than the {kind} that it declared")
    return values


def _shown(word: Any) -> str:
    """Return a stranger's word, short and printable."""
    text = str(word)
    return repr(text if len(text) <= 40 else f"{text[:37]}...") if text.isprintable() else "(unprintable)"
