"""`remote`: the address of a model behind the Open Inference Protocol -> a Classifier."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from epsworth.classifiers.answers import ClassifierError
from epsworth.classifiers.classifier import Classifier
from epsworth.classifiers.service.asking import Service
from epsworth.classifiers.service.cache import Cache
from epsworth.classifiers.service.layout import Inputs, layout_of
from epsworth.classifiers.service.protocol import document_of
from epsworth.classifiers.service.transport import Asking, Transport, check_address, refusal, secret_headers

FIRST = 10.0  # seconds after which an address that never answered is taken for a wrong one
METADATA = 1 << 20  # bytes


def remote(
    url: str,
    *,
    inputs: Inputs | None = None,
    output: str | None = None,
    batch: int = 512,
    timeout: float = 30.0,
    patience: float = 120.0,
    budget: int | None = None,
    cache: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    binary: bool | None = None,
) -> Classifier:
    """Return a model behind an address as a classifier: a black box that is asked over HTTP.

    The service speaks the Open Inference Protocol, version 2 (KServe, mlserver, Triton), answers labels, and is
    deterministic: what looks like scores is refused, and so is a service that answers a record it was asked about
    before otherwise.  A record is asked about once, but for a few per request that show this.

    Parameters
    ----------
    url : str
        ``http://HOST/v2/models/NAME``, with ``/versions/VERSION`` behind it where there are several.
    inputs : {"tensor", "columns"}, optional
        Send all numbers as one tensor, or every column as a tensor of its name (texts as BYTES).  By default as the
        service's metadata declare; where they declare nothing, data frames by columns and arrays as one tensor.
    output : str, optional
        The output that holds the labels, where the service answers several, or floats.
    batch : int
        Records per request.
    timeout : float
        Seconds that one try may take, to the last byte of its answer.
    patience : float
        Seconds that one request may take, with all tries and the pauses between them.  Tried again are connections that
        fail, broken bodies and the statuses 429, 502, 503 and 504; Retry-After is kept to.
    budget : int, optional
        The most records that may be sent, repeated ones counted; what would exceed it is refused before it is sent.
    cache : str or Path, optional
        A file that keeps the answers: a run that was interrupted goes on from there.  It tells about the records that
        were asked about, perturbed copies among them; its owner alone may read it.
    headers : mapping, optional
        Sent with every request and never shown, such as ``{"Authorization": ...}``; by default a bearer's token is
        taken from the environment, ``EPSWORTH_REMOTE_TOKEN``.
    binary : bool, optional
        Send and ask for binary tensors; by default where the server declares that extension.

    Examples
    --------
    >>> from epsworth import remote
    >>> remote("https://models.example/v2/models/")
    Traceback (most recent call last):
    ValueError: the address of a service must be http://HOST/v2/models/NAME, ... got one that is not of this form
    """
    address = check_address(url)
    _check_numbers(batch, timeout, patience, budget)
    transport = Transport(address, timeout, patience, secret_headers(headers))
    metadata, extensions = transport.ask(lambda asking: _declared(asking, transport))
    layout = layout_of(metadata, inputs, address)
    known = [one.get("name") for one in metadata.get("outputs") or () if isinstance(one, dict)]
    if output is not None and known and output not in known:
        raise ValueError(
            f"output={output!r}: {address} declares no such output; leave it out, or name one that it does"
        )
    told = json.dumps([address, metadata, repr(layout), output], sort_keys=True)
    settings = {
        "inputs": inputs, "output": output, "batch": batch, "timeout": timeout, "patience": patience, "budget": budget,
        "cache": cache, "binary": binary,
    }  # fmt: skip
    service = Service(
        address,
        transport,
        layout,
        Cache(None if cache is None else Path(cache), sha256(told.encode()).hexdigest()),
        batch=batch,
        budget=budget,
        output=output,
        binary="binary_tensor_data" in extensions if binary is None else bool(binary),
        again=None if headers else (remote, settings),
    )
    return Classifier(address, service, features=layout.features, count=layout.count)


async def _declared(asking: Asking, transport: Transport) -> tuple[dict[str, Any], list[Any]]:
    """Return the model's metadata and the server's extensions; a server may keep the latter to itself."""
    patience = min(FIRST, transport.patience)
    metadata = await asking.get(transport.url, METADATA, patience, lambda reply: document_of(reply.body, "metadata"))
    if isinstance(metadata, int):
        raise ClassifierError(f"{transport.url} {refusal(metadata)}")
    root = transport.url.rsplit("/models/", 1)[0]
    server = await asking.get(root, METADATA, patience, lambda reply: document_of(reply.body, "metadata"))
    extensions = server.get("extensions") if isinstance(server, dict) else None
    return metadata, extensions if isinstance(extensions, list) else []


def _check_numbers(batch: int, timeout: float, patience: float, budget: int | None) -> None:
    for name, number in (("batch", batch), ("budget", budget)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ValueError(f"{name} must be a whole number of records from 1 on, got {number!r}")
    for name, seconds in (("timeout", timeout), ("patience", patience)):
        if not (isinstance(seconds, (int, float)) and 0 < seconds < math.inf):
            raise ValueError(f"{name} must be a positive number of seconds, got {seconds!r}")
