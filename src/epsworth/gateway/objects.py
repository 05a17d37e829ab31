"""Requests whose records are JSON objects: a list of them, or one member that holds the list."""

from __future__ import annotations

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
from epsworth.gateway.refusals import Refusal
from epsworth.gateway.settings import Settings

CONTAINERS = ("records", "instances", "dataframe_records")  # ours, TensorFlow Serving's, MLflow's


def read_objects(document: Any, settings: Settings) -> InferenceRequest:
    """Return what a request asks; what the settings do not cover is refused."""
    container, records = None, document
    if isinstance(document, dict) and len(document) == 1:
        container, records = next(iter(document.items()))
    named = container is None or container in CONTAINERS
    if not named or not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise Refusal(
            "form", f"the body must be a list of objects, or one member {', '.join(CONTAINERS)} with it; send that"
        )
    check_rows(len(records), settings)
    for record in records:
        for name in record:
            check_covered(name, settings)
        check_complete(record.keys() | settings.may_lack, settings)
    given = {name for record in records for name in record}
    public = [name for name in settings.public if name in given]
    for name in public:
        check_public(name, [record.get(name) for record in records])

    def rebuilt(released: Released) -> Any:
        names = settings.features
        rows = zip(*(released[name] for name in names), strict=True)
        leaving = [
            dict(zip(names, row, strict=True)) | {name: record[name] for name in public if name in record}
            for row, record in zip(rows, records, strict=True)
        ]
        return leaving if container is None else {container: leaving}

    asked = (*settings.features, *([settings.person] if settings.person is not None else []))
    values = {name: [record.get(name) for record in records] for name in asked}
    people = people_of(values, settings)
    return InferenceRequest(len(records), {name: values[name] for name in settings.features}, people, rebuilt)
