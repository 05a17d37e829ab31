"""The client of a model behind an address: records in, labels out.

Known records are not asked about again, but for a few per request: a cache would hide that a service draws its labels,
goes by the other records of a request, or was given another model.  So every request carries a few records whose labels
are known, from another request; the very first record is asked about alone.  Where one is answered otherwise, all that
was kept of the service is dropped, and it is refused.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from pickle import PicklingError
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.classifier import Classifier
from epsworth.classifiers.reading import ClassifierError, NondeterministicError
from epsworth.classifiers.service import protocol
from epsworth.classifiers.service.cache import Cache, digests
from epsworth.classifiers.service.layout import Inputs, Layout, layout_of
from epsworth.classifiers.service.protocol import Label, Tensor, document_of
from epsworth.classifiers.service.transport import HttpSession, Reply, Transport, check_address, refusal, secret_headers

FIRST = 10.0  # seconds after which an address that never answered is taken for a wrong one
METADATA = 1 << 20  # bytes
WITNESSES = 8  # records of a request that were answered before
LARGEST = 1 << 20, 1 << 12  # bytes of a reply: at most these, and so many per record


@dataclass(frozen=True, eq=False)
class Known:
    """Records as they are sent, and what they were answered."""

    tensors: list[Tensor]
    labels: list[Label]


@dataclass(eq=False)
class Service:
    """Ask a model behind an address; called with records, return one label per record.

    Attributes
    ----------
    asked : int
        Records that were sent so far: repeated tries, and those that were asked about twice, count.
    """

    url: str
    transport: Transport = field(repr=False)
    layout: Layout = field(repr=False)
    cache: Cache = field(repr=False)
    batch: int = field(repr=False)
    budget: int | None = field(repr=False)
    output: str | None = field(repr=False)
    binary: bool = field(repr=False)
    again: tuple[Callable[..., Any], Mapping[str, Any]] | None = field(repr=False)
    asked: int = field(default=0, init=False)
    _seen: Known | None = field(default=None, init=False, repr=False)
    _lock: Any = field(default_factory=threading.RLock, init=False, repr=False)

    def __call__(self, records: Any) -> NDArray[Any]:
        """Return the labels of records, known ones without asking."""
        tensors = self.layout.tensors(records)
        names = digests(tensors)
        with self._lock:
            labels = self.cache.known(dict.fromkeys(names))
            first = {name: at for at, name in reversed(list(enumerate(names)))}
            fresh = sorted(at for name, at in first.items() if name not in labels)
            if fresh:
                self._check_budget(len(fresh))
                if self._seen is None and labels:
                    self._seen = _some(tensors, [labels.get(one) for one in names])
                labels |= self.transport.ask(lambda session: self._answers(session, tensors, names, fresh))
        if len({type(labels[name]) for name in names}) > 1:
            raise ClassifierError(f"{self.url} answered labels of different kinds; start with another cache")
        return np.array([labels[name] for name in names])

    def __reduce__(self) -> tuple[Any, ...]:
        """Take along the address and the settings, never a secret: the token is read from the environment again."""
        if self.again is None:
            raise PicklingError(
                "a service with headers= is not pickled, which would show them; set a token in the environment"
            )
        return _made_again, (*self.again, self.url)

    async def _answers(
        self, session: HttpSession, tensors: list[Tensor], names: Sequence[bytes], fresh: list[int]
    ) -> dict[bytes, Label]:
        """Ask about fresh records, a batch at a time; every batch is kept before the next one is asked about."""
        labels: dict[bytes, Label] = {}
        while fresh:
            size = 1 if self._seen is None else self.batch  # the first one alone
            part, fresh = fresh[:size], fresh[size:]
            sent = [tensor.take(part) for tensor in tensors]
            answers = await self._batch(session, sent)
            new = {names[at]: label for at, label in zip(part, answers.values, strict=True)}
            self.cache.keep(new, answers.kind, answers.version)
            self._seen = _some(sent, list(answers.values))
            labels |= new
        return labels

    async def _batch(self, session: HttpSession, sent: list[Tensor]) -> protocol.Labels:
        """Return what fresh records are answered, among records that were answered before."""
        n, seen = len(sent[0].values), self._seen
        asked, witnesses = sent, 0
        if seen is not None and [(t.name, t.kind) for t in seen.tensors] == [(t.name, t.kind) for t in sent]:
            asked = [
                Tensor(one.name, one.kind, np.concatenate([one.values, other.values]))
                for one, other in zip(sent, seen.tensors, strict=True)
            ]
            witnesses = len(seen.labels)
        mark = uuid4().hex
        request = protocol.write(asked, mark=mark, output=self.output, binary=self.binary)

        def read(reply: Reply) -> protocol.Labels:
            return protocol.read(reply.body, reply.headers, n + witnesses, mark=mark, output=self.output, name=self.url)

        most = LARGEST[0] + LARGEST[1] * (n + witnesses)
        answers = await session.post(f"{self.url}/infer", request, most, read, lambda: self._count(n + witnesses))
        self._check_same_model(answers)
        if seen is not None and answers.values[n:] != seen.labels[:witnesses]:
            self.cache.drop()
            self._seen = None
            raise NondeterministicError(
                f"{self.url} gives different labels for the same record: its answers are random, go by the other "
                "records of a request, or come from more than one model; what was kept of it is dropped: give one "
                "deterministic model, such as .../versions/1"
            )
        return protocol.Labels(answers.kind, answers.values[:n], answers.version)

    def _check_same_model(self, answers: protocol.Labels) -> None:
        cache = self.cache
        if not cache.count or (cache.kind, cache.version) == (answers.kind, answers.version):
            return
        raise ClassifierError(
            f"{self.url} answered by another version of the model, or another kind of label, than what is kept of it; "
            "name one version (.../versions/1), or start with another cache"
        )

    def _count(self, n: int) -> None:
        """Count records that are about to be sent; refuse what the budget does not hold."""
        self._check_budget(n)
        self.asked += n

    def _check_budget(self, n: int) -> None:
        if self.budget is not None and self.asked + n > self.budget:
            where = "" if self.cache.path is None else f"; all answers so far are kept in {self.cache.path}"
            raise ClassifierError(
                f"the budget of {self.budget:,} queries is spent but for {self.budget - self.asked:,}, and the next "
                f"step needs {n:,}{where}: give a larger budget and a cache, a wider tolerance, fewer records or fewer "
                "epsilons"
            )


def _made_again(make: Callable[..., Any], settings: Mapping[str, Any], url: str) -> Any:
    return make(url, **settings).answer


def _some(tensors: list[Tensor], labels: list[Label | None]) -> Known:
    """Return a few of the records that have a label: of different ones first, then spread over all."""
    with_one = [at for at, label in enumerate(labels) if label is not None]
    different = list({labels[at]: at for at in reversed(with_one)}.values())[:WITNESSES]
    spread = [with_one[int(at)] for at in np.linspace(0, len(with_one) - 1, min(WITNESSES, len(with_one)))]
    rows = list(dict.fromkeys([*different, *spread]))[:WITNESSES]
    return Known([tensor.take(rows) for tensor in tensors], [label for at in rows if (label := labels[at]) is not None])


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
    metadata, extensions = transport.ask(lambda session: _declared(session, transport))
    layout = layout_of(metadata, inputs, address)
    known = [one.get("name") for one in metadata.get("outputs") or () if isinstance(one, dict)]
    if output is not None and known and output not in known:
        raise ValueError(
            f"output={output!r}: {address} declares no such output; leave it out, or name one that it does"
        )
    identity = json.dumps([address, metadata, repr(layout), output], sort_keys=True)
    settings = {
        "inputs": inputs, "output": output, "batch": batch, "timeout": timeout, "patience": patience, "budget": budget,
        "cache": cache, "binary": binary,
    }  # fmt: skip
    service = Service(
        address,
        transport,
        layout,
        Cache(None if cache is None else Path(cache), sha256(identity.encode()).hexdigest()),
        batch=batch,
        budget=budget,
        output=output,
        binary="binary_tensor_data" in extensions if binary is None else bool(binary),
        again=None if headers else (remote, settings),
    )
    return Classifier(address, service, features=layout.features, count=layout.count)


async def _declared(session: HttpSession, transport: Transport) -> tuple[dict[str, Any], list[Any]]:
    """Return the model's metadata and the server's extensions; a server may keep the latter to itself."""
    patience = min(FIRST, transport.patience)
    metadata = await session.get(transport.url, METADATA, patience, lambda reply: document_of(reply.body, "metadata"))
    if isinstance(metadata, int):
        raise ClassifierError(f"{transport.url} {refusal(metadata)}")
    root = transport.url.rsplit("/models/", 1)[0]
    server = await session.get(root, METADATA, patience, lambda reply: document_of(reply.body, "metadata"))
    extensions = server.get("extensions") if isinstance(server, dict) else None
    return metadata, extensions if isinstance(extensions, list) else []


def _check_numbers(batch: int, timeout: float, patience: float, budget: int | None) -> None:
    for name, number in (("batch", batch), ("budget", budget)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ValueError(f"{name} must be a whole number of records from 1 on, got {number!r}")
    for name, seconds in (("timeout", timeout), ("patience", patience)):
        if not (isinstance(seconds, (int, float)) and 0 < seconds < math.inf):
            raise ValueError(f"{name} must be a positive number of seconds, got {seconds!r}")
