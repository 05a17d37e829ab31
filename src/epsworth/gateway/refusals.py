"""What does not pass: a status, a reason that is counted, and one sentence that names the field and never a value."""

from __future__ import annotations

from typing import Literal

Reason = Literal["form", "undeclared", "lacking", "value", "person", "cap", "size", "busy", "ledger"]
REASONS: tuple[Reason, ...] = (
    "form", "undeclared", "lacking", "value", "person", "cap", "size", "busy", "ledger",
)  # fmt: skip
OF_A_FEATURE = frozenset({"lacking", "value"})
STATUS: dict[Reason, int] = {"cap": 429, "size": 413, "busy": 503, "ledger": 503}
LONGEST_NAME = 60


class Refusal(ValueError):
    """A request that is not forwarded.

    Parameters
    ----------
    reason : str
        What is counted and logged.
    sentence : str
        For whoever sent the request; it holds no value.
    field : str
        A feature of the policy, for counts and logs; "" for anything else, since a client's names may be anything.
    """

    def __init__(self, reason: Reason, sentence: str, *, field: str = "", status: int | None = None) -> None:
        super().__init__(sentence)
        self.reason, self.sentence, self.field = reason, sentence, field
        self.status = STATUS.get(reason, 400) if status is None else status


def shown(name: object) -> str:
    """Return a client's name as a message shows it.

    Examples
    --------
    >>> shown("age"), shown("a" * 70)[-5:], shown(7)
    ("'age'", 'aaa..', 'of no name')
    """
    if not isinstance(name, str):
        return "of no name"
    return ascii(name) if len(name) <= LONGEST_NAME else ascii(name[:LONGEST_NAME])[:-1] + ".."
