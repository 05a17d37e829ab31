"""Bodies that every reader reads alike: no member twice, no NaN."""

from __future__ import annotations

import json
from typing import Any

from epsworth.gateway.refusals import Refusal
from epsworth.policy.files.json_lines import NotJson, no_constant
from epsworth.refusals import alone
from epsworth.values import whole_number


@alone()
def read_body(body: bytes) -> Any:
    """Return the document of a body; what two readers could read differently is refused.

    Examples
    --------
    >>> read_body(b'{"a": [1, null]}')
    {'a': [1, None]}
    >>> read_body(b'{"a": 1, "a": 2}')  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    epsworth.gateway.refusals.Refusal: the body is not JSON as every reader reads it; ...
    """
    try:
        return _strict.decode(body.decode("utf-8"))
    except (ValueError, RecursionError):  # the decoder's own words show a part of the body
        raise Refusal(
            "form", "the body is not JSON as every reader reads it; send UTF-8, no member twice, no NaN"
        ) from None


def write_body(document: Any) -> bytes:
    """Return the text of a document; all its numbers are finite."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, in any depth, no member of which may stand there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson
    return found


_strict = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=no_constant, parse_int=whole_number)
