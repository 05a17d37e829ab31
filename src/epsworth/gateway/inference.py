"""What a request asks, whichever form it had: values to perturb, whose they are, and how the rest is put together."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from epsworth.gateway.refusals import Refusal, shown
from epsworth.gateway.settings import Settings
from epsworth.gateway.strict_json import write_body
from epsworth.policy.ledger.ids import refusal

Released = Mapping[str, list[Any]]


@dataclass(frozen=True)
class InferenceRequest:
    """A request that may be forwarded once its values are perturbed.

    Attributes
    ----------
    rows : int
    values : mapping from feature to list
        As the request holds them; None is missing.
    people : list of str or None
        Whose each record is; None where the gateway does not ask.
    rebuilt : callable
        From released values to the document that leaves.
    """

    rows: int
    values: Mapping[str, list[Any]]
    people: list[str] | None
    rebuilt: Callable[[Released], Any]

    def body(self, released: Released) -> bytes:
        """Return the bytes that leave, however often they have to be sent."""
        return write_body(self.rebuilt(released))


def check_rows(rows: int, settings: Settings) -> None:
    """Refuse no record, and more than one request may hold."""
    if rows < 1:
        raise Refusal("form", "the request holds no record; send at least one")
    if rows > settings.most_records:
        raise Refusal("size", f"the request holds {rows} records, the most is {settings.most_records}; send parts")


def check_covered(name: Any, settings: Settings) -> None:
    """Refuse an input that nobody declared."""
    if not isinstance(name, str) or not settings.covers(name):
        raise Refusal(
            "undeclared",
            f"the input {shown(name)} is neither perturbed nor let pass by the policy; leave it out",
        )


def check_complete(values: Container[str], settings: Settings) -> None:
    """Refuse a request that lacks a feature of the policy, or the person: leaving out would release something else."""
    for name in settings.features:
        if name not in values:
            raise Refusal("lacking", f"the request lacks {name!r}, which the policy perturbs; send it", field=name)
    if settings.person is not None and settings.person not in values:
        raise Refusal("person", f"the request lacks {settings.person!r}, which says whose record it is; send it")


def check_public(name: str, values: list[Any]) -> list[Any]:
    """Return public values, each a single finite one: what is nested could hold anything."""
    for value in values:
        if isinstance(value, (list, dict)) or (isinstance(value, float) and value - value != 0):
            raise Refusal(
                "form",
                f"the public input {shown(name)} holds something else than one finite value per record; send that",
            )
    return values


def people_of(values: Mapping[str, list[Any]], settings: Settings) -> list[str] | None:
    """Return whose each record is; what is no id by the ledger's rule (`epsworth.policy.ledger.ids`) is refused."""
    if settings.person is None:
        return None
    found = []
    for row, value in enumerate(values[settings.person]):
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise Refusal(
                "person",
                f"row {row}: {settings.person!r} must say whose record it is, a word or a whole number; send it",
            )
        name = str(value)  # 7 and "7" are one person: two would have two caps
        if (why := refusal(name)) is not None:
            raise Refusal("person", f"row {row}: {settings.person!r} {why}")
        found.append(name)
    return found
