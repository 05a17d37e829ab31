"""Draws for all requests that wait together: the policy's own kernels, charged before they leave.

A call of a kernel costs about the same for one value as for a hundred; so requests that arrived meanwhile are encoded
and drawn for in one call, each value with words of its own.  One request has one draw, however often it is sent on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from epsworth.arrays import Indices
from epsworth.gateway.inference import InferenceRequest, Released
from epsworth.gateway.people import LedgerError, People
from epsworth.gateway.refusals import Refusal
from epsworth.policy.columns import Column
from epsworth.policy.tables import Perturbation
from epsworth.refusals import alone
from epsworth.values import number

Inputs = Mapping[str, Indices]
Waiting = tuple[InferenceRequest, Inputs, "asyncio.Future[Released]"]


class Draws:
    """Perturbs requests; those that wait at the same time share the calls, not the randomness.

    Parameters
    ----------
    perturbation : Perturbation
    people : People, optional
        The ledger.
    same : bool
        Whether a person's first draw leaves for all later requests.
    """

    def __init__(self, perturbation: Perturbation, people: People | None = None, *, same: bool = False) -> None:
        self.perturbation, self.people, self.same = perturbation, people, same
        self._waiting: list[Waiting] = []
        self._running = False
        self._thread = ThreadPoolExecutor(1, "ledger") if people is not None else None

    async def released(self, asked: InferenceRequest) -> Released:
        """Return released values, fresh; a request whose values the policy refuses is refused before any charge."""
        inputs = {name: checked(self.perturbation.ruled[name], values) for name, values in asked.values.items()}
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Released] = loop.create_future()
        self._waiting.append((asked, inputs, future))
        if not self._running:
            self._running = True
            loop.call_soon(self._start)  # after what else has arrived by now was read
        return await future

    def close(self) -> None:
        """Let go of the ledger."""
        if self._thread is not None and self.people is not None:
            self._thread.submit(self.people.close)
            self._thread.shutdown()

    def _start(self) -> None:
        if self.people is None:
            waiting, self._waiting, self._running = self._waiting, [], False
            try:
                _answer(waiting, self._drawn([inputs for _, inputs, _ in waiting]))
            except BaseException as error:
                _fail(waiting, error)
        else:
            self._task = asyncio.get_running_loop().create_task(self._through_the_ledger())

    async def _through_the_ledger(self) -> None:
        """Charge and draw for all who wait in one transaction, then for those who came meanwhile."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                found = await loop.run_in_executor(self._thread, self._charged, waiting)
            except BaseException as error:
                _fail(waiting, error)
            else:
                _answer(waiting, found)
        self._running = False

    def _charged(self, waiting: list[Waiting]) -> list[Released | Refusal]:
        """Charge, draw, return; whatever goes wrong before the charge is on the disk, nothing leaves."""
        assert self.people is not None
        people = [asked.people or [] for asked, _, _ in waiting]
        poor = Refusal("cap", "somebody in this request has reached their cap, so nothing was drawn; use what you have")
        names = self.perturbation.policy.names
        try:
            if self.same:
                drawn = self._drawn([inputs for _, inputs, _ in waiting])
                rows = [list(zip(*(one[name] for name in names), strict=True)) for one in drawn]
                kept = self.people.keep(list(zip(people, rows, strict=True)))
                return [poor if row is None else _by_name(names, row) for row in kept]
            enough = self.people.charge(people)
        except LedgerError:
            raise Refusal("ledger", "the ledger cannot be written, so nothing may leave; try again later") from None
        fresh = iter(self._drawn([inputs for (_, inputs, _), charged in zip(waiting, enough, strict=True) if charged]))
        return [next(fresh) if charged else poor for charged in enough]

    def _drawn(self, requests: list[Inputs]) -> list[Released]:
        """Return fresh draws for each request: one call per feature for all of them."""
        if not requests:
            return []
        together = {name: np.concatenate([inputs[name] for inputs in requests]) for name in self.perturbation.ruled}
        values = {
            column.feature.name: natural(column.released(drawn, keep, self.perturbation.policy).tolist())
            for column, drawn, keep in self.perturbation.draw(together)
        }
        found: list[Released] = []
        start = 0
        for inputs in requests:
            end = start + len(next(iter(inputs.values())))
            found.append({name: drawn[start:end] for name, drawn in values.items()})
            start = end
        return found


@alone()
def checked(column: Column, values: list[Any]) -> Indices:
    """Return a kernel's inputs; what the policy refuses is refused by row and name, and never by its value."""
    try:
        return column.encode(values, read=number)
    except ValueError as error:
        raise Refusal("value", str(error), field=column.feature.name) from None


def natural(values: list[Any]) -> list[Any]:
    """Return released values as JSON has them: what a record does not release is null."""
    return [None if value is None or value != value else value for value in values]


def _by_name(names: Iterable[str], rows: list[tuple[Any, ...]]) -> Released:
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _answer(waiting: list[Waiting], found: list[Released] | list[Released | Refusal]) -> None:
    for (_, _, future), one in zip(waiting, found, strict=True):
        if future.done():  # nobody waits any more
            continue
        if isinstance(one, Refusal):
            future.set_exception(one)
        else:
            future.set_result(one)


def _fail(waiting: list[Waiting], error: BaseException) -> None:
    for _, _, future in waiting:
        if not future.done():
            future.set_exception(error)
