"""The columns that a policy does not perturb: by name, so that what nobody declared stays home."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from epsworth.headers import NO_COLUMN, looks_like_header, shown_name

ENTRIES = ("columns", "drop", "text")


@dataclass(frozen=True)
class Pass:
    """Which columns are sent as they are, and which are left out; a table that has any other one is refused.

    Claim: a column that is neither perturbed nor named here never leaves.

    Parameters
    ----------
    columns : tuple of str
        Those that are sent as they are.
    drop : tuple of str
        Those that are left out.
    text : tuple of str
        Those of ``columns`` whose fields may hold commas and quotes in CSV: there, a quote out of place can draw a
        perturbed field into its neighbour.

    Raises
    ------
    ValueError
        If a name is no text, is empty or stands twice, or ``text`` names a column that does not pass.

    Examples
    --------
    >>> from epsworth.policy import Pass
    >>> passing = Pass(columns=("id",), drop=("name",))
    >>> passing.kept(["name", "id", "age"], {"age"})
    ['id', 'age']
    >>> passing.kept(["id", "zip"], {"age"})
    Traceback (most recent call last):
    ValueError: the policy does not name 'zip'; under [pass], send with columns = ["zip"], or leave out with drop = \
["zip"] (epsworth policy pass writes both)
    """

    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for entry in ENTRIES:
            names = getattr(self, entry)
            if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) and name for name in names):
                raise ValueError(f"pass.{entry}: must be a list of the names of columns; write it as in ['id']")
            object.__setattr__(self, entry, tuple(names))
        named = (*self.columns, *self.drop)
        for names in (named, self.text):
            if twice := [name for name in names if names.count(name) > 1]:
                raise ValueError(f"pass: the column {twice[0]!r} stands twice; keep one")
        for name in self.text:
            if name not in self.columns:
                raise ValueError(f"pass.text: {name!r} is not in pass.columns; only columns that pass can hold text")

    def check_beside(self, perturbed: Collection[str]) -> None:
        """Refuse a column that is said to be perturbed as well."""
        for name in (*self.columns, *self.drop):
            if name in perturbed:
                raise ValueError(f"pass: {name!r} is perturbed by the policy; take it out of one of the two")

    def unknown(self, names: Iterable[str], perturbed: Collection[str]) -> list[str]:
        """Return the columns that nobody declared, in their order."""
        return [name for name in names if name not in {*perturbed, *self.columns, *self.drop}]

    def kept(self, names: Sequence[str], perturbed: Collection[str], *, named: bool = False) -> list[str]:
        """Return the columns that stay, in their order; those that nobody declared are refused.

        Parameters
        ----------
        names : sequence of str
            A table's columns; what is named here need not be among them.
        perturbed : collection of str
        named : bool
            Whether they are names whatever they look like, as in Parquet; else, for want of a header, they may be a
            record.
        """
        unknown = self.unknown(names, perturbed)
        if unknown and len(unknown) == len(names) and not named:
            raise ValueError(f"the policy does not name any of the table's columns; {NO_COLUMN}")
        if unknown and not looks_like_header(unknown if named else names):
            shown = repr(unknown[0]) if named else shown_name(unknown[0], names)
            raise ValueError(f"the policy does not name the column {shown}; leave it out")
        if unknown:
            listed = json.dumps(unknown, ensure_ascii=False)
            raise ValueError(
                f"the policy does not name {', '.join(map(repr, unknown))}; under [pass], send with columns = "
                f"{listed}, or leave out with drop = {listed} (epsworth policy pass writes both)"
            )
        dropped = set(self.drop)
        return [name for name in names if name not in dropped]

    def edited(self, columns: Sequence[str] = (), drop: Sequence[str] = (), text: Sequence[str] = ()) -> Pass:
        """Return the same with more columns; one that passes and is dropped now, or the reverse, changes sides.

        ``text`` lets no column pass: it says of those that do what their fields may hold.

        Raises
        ------
        ValueError
            If a name is given twice or on both sides, or ``text`` names a column that does not pass.

        Examples
        --------
        >>> from epsworth.policy import Pass
        >>> Pass(("id", "zip")).edited(["note"], drop=["id"], text=["note"])
        Pass(columns=('zip', 'note'), drop=('id',), text=('note',))
        """
        Pass(tuple(columns), tuple(drop))  # refuses a name that is given twice
        passed = [name for name in (*self.columns, *columns) if name not in drop]
        left_out = [name for name in (*self.drop, *drop) if name not in columns]
        for name in text:
            if name not in passed:
                now = "is left out" if name in left_out else "is not among the columns that pass"
                raise ValueError(
                    f"text: {name!r} {now}, and text only says of one that passes that its fields may hold commas and "
                    f"quotes; to let it pass, name it among the columns as well"
                )
        if twice := [name for name in text if text.count(name) > 1]:
            raise ValueError(f"text: the column {twice[0]!r} stands twice; keep one")
        texts = [name for name in (*self.text, *text) if name not in drop]
        return Pass(*(tuple(dict.fromkeys(names)) for names in (passed, left_out, texts)))

    def to_dict(self) -> dict[str, list[str]]:
        """Return the section of a policy's file."""
        return {entry: list(getattr(self, entry)) for entry in ENTRIES if getattr(self, entry)}

    def __str__(self) -> str:
        """Return what happens to which columns, in a sentence."""
        parts = [f"sent as they are: {', '.join(self.columns)}"] if self.columns else []
        parts += [f"left out: {', '.join(self.drop)}"] if self.drop else []
        return "; ".join([*parts, "all other columns are refused"])
