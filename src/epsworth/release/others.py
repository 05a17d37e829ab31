"""What becomes of the columns that a policy does not perturb: by name, so that what nobody declared stays home."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from epsworth.headers import shown_name

ENTRIES = ("pass", "drop", "text")


@dataclass(frozen=True)
class Others:
    """The columns beside the perturbed ones: those that are sent as they are, and those that are left out.

    Claim: under a policy that has it, a column that is neither perturbed nor named here never leaves.

    Parameters
    ----------
    passed : tuple of str
        ``pass`` in a policy's file.
    dropped : tuple of str
        ``drop`` in a policy's file.
    text : tuple of str
        Those of ``passed`` whose fields may hold commas and quotes in CSV: there, a quote out of place can draw a
        perturbed field into its neighbour.

    Raises
    ------
    ValueError
        If a name is no text or stands twice, or ``text`` names a column that does not pass.

    Examples
    --------
    >>> from epsworth.release import Others
    >>> others = Others(passed=("id",), dropped=("name",))
    >>> others.kept(["name", "id", "age"], {"age"})
    ['id', 'age']
    >>> others.kept(["id", "Age"], {"age"})
    Traceback (most recent call last):
    ValueError: the column 'Age' is neither perturbed nor among others.pass or others.drop; leave it out or name it
    """

    passed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    text: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key, entry in zip(("passed", "dropped", "text"), ENTRIES, strict=True):
            names = getattr(self, key)
            if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"others.{entry}: must be a list of the names of columns; write it as in ['id']")
            object.__setattr__(self, key, tuple(names))
        named = (*self.passed, *self.dropped)
        for names in (named, self.text):
            if twice := [name for name in names if names.count(name) > 1]:
                raise ValueError(f"others: the column {twice[0]!r} stands twice; keep one")
        for name in self.text:
            if name not in self.passed:
                raise ValueError(f"others.text: {name!r} is not in others.pass; only columns that pass can hold text")

    def check_beside(self, perturbed: Collection[str]) -> None:
        """Refuse a column that is said to be perturbed as well."""
        for name in (*self.passed, *self.dropped):
            if name in perturbed:
                raise ValueError(f"others: {name!r} is perturbed by the policy; take it out of one of the two")

    def kept(self, names: Sequence[str], perturbed: Collection[str]) -> list[str]:
        """Return the columns that stay, in their order; one that is not declared is refused.

        Parameters
        ----------
        names : sequence of str
            A table's columns; what is named here need not be among them.
        perturbed : collection of str
        """
        for name in names:
            if name not in perturbed and name not in self.passed and name not in self.dropped:
                raise ValueError(
                    f"the column {shown_name(name, names)} is neither perturbed nor among others.pass or others.drop; "
                    "leave it out or name it"
                )
        return [name for name in names if name not in self.dropped]

    def to_dict(self) -> dict[str, list[str]]:
        """Return the section of a policy's file."""
        told = zip(ENTRIES, (self.passed, self.dropped, self.text), strict=True)
        return {entry: list(names) for entry, names in told if names}

    def __str__(self) -> str:
        """Return what happens to which columns, in a sentence."""
        passed = f"sent as they are: {', '.join(self.passed)}" if self.passed else "none is sent as it is"
        dropped = f"; left out: {', '.join(self.dropped)}" if self.dropped else ""
        return f"other columns: {passed}{dropped}; any other is refused"
