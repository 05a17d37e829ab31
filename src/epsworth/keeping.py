"""Where results lie that an earlier run found, and what a run that goes on still has to do."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


class Shelf(Protocol):
    """Where the results of one call of `in_order` lie."""

    def holds(self, number: int) -> bool:
        """Tell whether the result of a batch is there."""

    def read(self, number: int, batch: Any) -> Any:
        """Return it; a ValueError where the file is none of this question."""

    def write(self, number: int, batch: Any, result: Any) -> None:
        """Leave it, whole or not at all."""


class Keeping(Protocol):
    """Where the results of many calls of `in_order` lie, which come in an order that follows from the question.

    A function whose results are kept has two methods besides: ``arrays`` makes arrays of a result, and ``read`` makes a
    result of a batch and its arrays again.
    """

    def step(self, function: Any) -> Shelf:
        """Return the place of the next call."""


def going_on(
    batches: Sequence[Any], shelf: Shelf, afresh: Callable[[Sequence[Any]], Generator[Any, None, None]]
) -> Iterator[Any]:
    """Yield the result of every batch, in order: those that are kept, and what ``afresh`` finds of the others."""
    left = [number for number in range(len(batches)) if not shelf.holds(number)]
    to_do = set(left)
    with closing(afresh([batches[number] for number in left])) as found:
        for number, batch in enumerate(batches):
            if number in to_do:
                result = next(found)
                shelf.write(number, batch, result)
            else:
                result = shelf.read(number, batch)
            yield result
