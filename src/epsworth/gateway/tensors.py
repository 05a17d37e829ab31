"""Requests of the Open Inference Protocol v2 (JSON): a tensor per column, or one with a column per feature.

What leaves is built anew from names that the settings declare; of the request's own words only values of public inputs,
shapes, and the content types that servers know pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from epsworth.gateway.inference import (
    InferenceRequest,
    Released,
    check_complete,
    check_covered,
    check_public,
    check_rows,
    people_of,
)
from epsworth.gateway.refusals import Refusal, shown
from epsworth.gateway.settings import Settings

MEMBERS = frozenset({"id", "parameters", "inputs", "outputs"})
OF_INPUT = frozenset({"name", "shape", "datatype", "data", "parameters"})
WHOLE = tuple(f"{sign}INT{bits}" for sign in ("U", "") for bits in (8, 16, 32, 64))
DATATYPES = frozenset({"BOOL", "FP16", "FP32", "FP64", "BYTES", *WHOLE})
CONTENT_TYPES = frozenset({"np", "pd", "str"})  # how MLServer decodes; nothing else of `parameters` passes
LARGEST = 1 << 31  # of a dimension


@dataclass(frozen=True)
class Tensor:
    """One input: the columns it holds, in their order, by rows."""

    name: str
    columns: tuple[str, ...]
    shape: list[int]
    datatype: str
    data: list[Any]
    parameters: dict[str, str]

    def column(self, i: int) -> list[Any]:
        """Return one column."""
        width = len(self.columns)
        return self.data if width == 1 else self.data[i::width]


def read_tensors(document: Any, settings: Settings) -> InferenceRequest:
    """Return what a request asks; what the settings do not cover is refused."""
    if not isinstance(document, dict) or not isinstance(document.get("inputs"), list) or not document["inputs"]:
        raise Refusal("form", "inputs: must be a list of tensors, as the Open Inference Protocol v2 has it; send one")
    for key in document:
        if key not in MEMBERS:
            raise Refusal("undeclared", f"the request's member {shown(key)} is not of the protocol; leave it out")
    tensors = [_tensor(given, settings) for given in document["inputs"]]
    values: dict[str, list[Any]] = {}
    for tensor in tensors:
        for i, name in enumerate(tensor.columns):
            if name in values:
                raise Refusal("form", f"the request holds {shown(name)} twice; keep one")
            values[name] = tensor.column(i)
    check_complete(values, settings)
    rows = tensors[0].shape[0]
    if any(tensor.shape[0] != rows for tensor in tensors):
        raise Refusal("form", "shape: the inputs differ in their number of records; send one row per record in each")
    check_rows(rows, settings)
    for name in settings.public:
        if name in values:
            check_public(name, values[name])
    asks = _outputs(document.get("outputs"), settings)
    top = _content_type(document.get("parameters"))

    def rebuilt(released: Released) -> dict[str, Any]:
        inputs = [_leaving(tensor, values, released, settings) for tensor in tensors]
        return {"inputs": [tensor for tensor in inputs if tensor is not None]} | asks | top

    return InferenceRequest(
        rows, {name: values[name] for name in settings.features}, people_of(values, settings), rebuilt
    )


def _tensor(given: Any, settings: Settings) -> Tensor:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise Refusal("form", "inputs: each must be an object with a name, shape, datatype and data; repair it")
    name, parameters = given["name"], given.get("parameters")
    columns = _columns(name, parameters, settings)
    told = shown(name)
    if len(columns) > 1 and (words := [column for column in columns if column in settings.words]):
        raise Refusal("form", f"the input {told} cannot hold the words of {words[0]!r} beside numbers; send it apart")
    for key in given:
        if key not in OF_INPUT:
            raise Refusal(
                "undeclared", f"the input {told} has the member {shown(key)}, not of the protocol; leave it out"
            )
    if "data" not in given or not isinstance(given["data"], list):
        raise Refusal(
            "form", f"the input {told} has no data in the JSON; binary and shared memory are not read", status=415
        )
    datatype = given.get("datatype")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise Refusal("form", f"the input {told} has a datatype that the protocol does not know; send one that it does")
    shape = _shape(given.get("shape"), told)
    width = prod(shape[1:])
    if width != len(columns):
        what = "is not one value per record" if len(columns) == 1 else f"does not have its {len(columns)} columns"
        raise Refusal("form", f"the input {told} {what}; send the shape [records, columns]")
    data = given["data"]
    if data and all(isinstance(row, list) and len(row) == width for row in data):  # else lists are values, and gaps
        data = [value for row in data for value in row]
    if len(data) != shape[0] * width:
        raise Refusal("form", f"the data of the input {told} do not fill its shape; send one value per entry")
    return Tensor(name, columns, shape, datatype, data, _content_type(parameters).get("parameters", {}))


def _columns(name: str, parameters: Any, settings: Settings) -> tuple[str, ...]:
    """Return the columns of a tensor: itself, or those of a declared one."""
    if name not in settings.tensors:
        check_covered(name, settings)
        return (name,)
    own = parameters.get("columns") if isinstance(parameters, dict) else None
    declared = settings.tensors[name]
    if declared:
        if own is not None and (not isinstance(own, list) or own != list(declared)):
            raise Refusal(
                "form", f"the columns of {shown(name)} are not those that the gateway was told; leave them out"
            )
        return declared
    if not isinstance(own, list) or not own:
        raise Refusal("lacking", f"the input {shown(name)} does not name its columns; send them as parameters.columns")
    for column in own:
        check_covered(column, settings)
    return tuple(own)


def _shape(shape: Any, told: str) -> list[int]:
    whole = isinstance(shape, list) and 1 <= len(shape) <= 2 and all(type(size) is int for size in shape)
    if not whole or not all(0 <= size < LARGEST for size in shape):
        raise Refusal("form", f"the shape of the input {told} must be [records] or [records, columns]; send that")
    return list(shape)


def _content_type(parameters: Any) -> dict[str, Any]:
    kind = parameters.get("content_type") if isinstance(parameters, dict) else None
    return {"parameters": {"content_type": kind}} if isinstance(kind, str) and kind in CONTENT_TYPES else {}


def _outputs(asked: Any, settings: Settings) -> dict[str, Any]:
    """Return the outputs asked for, by name alone: those that the settings declare."""
    if asked is None:
        return {}
    if not isinstance(asked, list) or not asked:
        raise Refusal("form", "outputs: must be a list of objects with a name; leave it out for all")
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in asked]
    for name in names:
        if name not in settings.outputs:
            raise Refusal("undeclared", f"the output {shown(name)} is not declared; leave it out, or declare it")
    return {"outputs": [{"name": name} for name in names]}


def _leaving(
    tensor: Tensor, values: Mapping[str, list[Any]], released: Released, settings: Settings
) -> dict[str, Any] | None:
    """Return a tensor as it leaves, without the person's column; None where nothing is left of it."""
    stay = [name for name in tensor.columns if name in released or name in settings.public]
    if not stay:
        return None
    columns = [released[name] if name in released else values[name] for name in stay]
    data = columns[0] if len(columns) == 1 else [value for row in zip(*columns, strict=True) for value in row]
    shape = [tensor.shape[0], len(stay)] if len(tensor.shape) == 2 else tensor.shape
    alone, perturbed = len(stay) == 1, any(name in released for name in stay)
    datatype = tensor.datatype if not perturbed else settings.datatypes[stay[0]] if alone else settings.datatype
    leaving = {"name": tensor.name, "shape": shape, "datatype": datatype, "data": data}
    return leaving | ({"parameters": tensor.parameters} if tensor.parameters else {})
