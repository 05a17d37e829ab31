"""`Service`: records in, labels out; known ones are not asked about again, but for a few per request.

A cache would hide that a service draws its labels, goes by the other records of a request, or was given another model:
the same record would never be asked about twice.  So every request carries a few records whose labels are known, from
another request; the very first record is asked about alone.  Where one is answered otherwise, all that was kept of the
service is dropped, and it is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pickle import PicklingError
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from epsworth.classifiers.answers import ClassifierError
from epsworth.classifiers.service import protocol
from epsworth.classifiers.service.cache import Cache, digests
from epsworth.classifiers.service.layout import Layout
from epsworth.classifiers.service.protocol import Label, Tensor
from epsworth.classifiers.service.transport import Asking, Reply, Transport

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
            fresh = [at for one, at in _first(names).items() if one not in labels]
            if fresh:
                self._check_budget(len(fresh))
                if self._seen is None and labels:
                    self._seen = _some(tensors, [labels.get(one) for one in names])
                labels |= self.transport.ask(lambda asking: self._answers(asking, tensors, names, fresh))
        found = [labels[one] for one in names]
        if len({type(label) for label in found}) > 1:
            raise ClassifierError(f"{self.url} answered labels of different kinds; start with another cache")
        return np.array(found)

    def __reduce__(self) -> tuple[Any, ...]:
        """Take along the address and the settings, never a secret: the token is read from the environment again."""
        if self.again is None:
            raise PicklingError(
                "a service with headers= is not pickled, which would show them; set a token in the environment"
            )
        return _made_again, (*self.again, self.url)

    async def _answers(
        self, asking: Asking, tensors: list[Tensor], names: Sequence[bytes], fresh: list[int]
    ) -> dict[bytes, Label]:
        """Ask about fresh records, a batch at a time; every batch is kept before the next one is asked about."""
        found: dict[bytes, Label] = {}
        while fresh:
            size = 1 if self._seen is None else self.batch  # the first one alone
            part, fresh = fresh[:size], fresh[size:]
            sent = [tensor.take(part) for tensor in tensors]
            answers = await self._batch(asking, sent)
            kept = {names[at]: label for at, label in zip(part, answers.values, strict=True)}
            self.cache.keep(kept, answers.kind, answers.version)
            self._seen = _some(sent, list(answers.values))
            found |= kept
        return found

    async def _batch(self, asking: Asking, sent: list[Tensor]) -> protocol.Labels:
        """Return what fresh records are answered, among records that were answered before."""
        n, seen = len(sent[0].values), self._seen
        asked, witnesses = sent, 0
        if seen is not None and [(t.name, t.kind) for t in seen.tensors] == [(t.name, t.kind) for t in sent]:
            asked = [_joined(one, other) for one, other in zip(sent, seen.tensors, strict=True)]
            witnesses = len(seen.labels)
        mark = uuid4().hex
        request = protocol.write(asked, mark=mark, output=self.output, binary=self.binary)

        def read(reply: Reply) -> protocol.Labels:
            return protocol.read(reply.body, reply.headers, n + witnesses, mark=mark, output=self.output, name=self.url)

        most = LARGEST[0] + LARGEST[1] * (n + witnesses)
        answers = await asking.post(f"{self.url}/infer", request, most, read, lambda: self._count(n + witnesses))
        self._check_same_model(answers)
        if seen is not None and answers.values[n:] != seen.labels[:witnesses]:
            raise self._unsteady()
        return protocol.Labels(answers.kind, answers.values[:n], answers.version)

    def _unsteady(self) -> ClassifierError:
        self.cache.drop()
        self._seen = None
        return ClassifierError(
            f"{self.url} gives different labels for the same record: its answers are random, go by the other "
            "records of a request, or come from more than one model; what was kept of it is dropped: give one "
            "deterministic model, such as .../versions/1"
        )

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


def _first(names: Sequence[bytes]) -> dict[bytes, int]:
    """Return where each record stands first."""
    found: dict[bytes, int] = {}
    for at, one in enumerate(names):
        found.setdefault(one, at)
    return found


def _some(tensors: list[Tensor], labels: list[Label | None]) -> Known:
    """Return a few of the records that have a label: of different ones first, then spread over all."""
    with_one = [at for at, label in enumerate(labels) if label is not None]
    different = list({labels[at]: at for at in reversed(with_one)}.values())[:WITNESSES]
    spread = [with_one[int(at)] for at in np.linspace(0, len(with_one) - 1, min(WITNESSES, len(with_one)))]
    rows = list(dict.fromkeys([*different, *spread]))[:WITNESSES]
    return Known([tensor.take(rows) for tensor in tensors], [label for at in rows if (label := labels[at]) is not None])


def _joined(one: Tensor, other: Tensor) -> Tensor:
    return Tensor(one.name, one.kind, np.concatenate([one.values, other.values]))
