"""The receipt of a run: public facts only."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from epsworth.numerals import counted
from epsworth.results import Result
from epsworth.rounding import float_above, show_up


@dataclass(frozen=True)
class Receipt(Result):
    """What one run released: public facts only, none of them a draw or a value.

    Attributes
    ----------
    rows : int
    columns : tuple of str
        The perturbed ones.
    passed, left_out : tuple of str
        Those that were sent as they are, and those that were not sent.
    epsilon, delta, notion
        Per record, of this run: what the integers that were drawn from keep.
    times_before : int or None
        How often the ledger has seen these records leave under the same policy before; None without a ledger.
    epsilon_so_far, delta_so_far : float or None
        Sums over all runs of these records in the ledger, this one included, whatever the policy.
    private : bool
        False if replayable randomness touched the output: then it must not leave the device.
    stated : float or None
        Epsilon per record as the policy states it, rounded up; never below ``epsilon`` but for rounding.
    together : tuple of str
        Columns whose values stand together for one region of a classifier.
    person : str or None
        The column that said who a row is about; None: the run is charged to everybody.
    people : int or None
        How many people there are; None where nobody was named.
    most : int or None
        Rows of one person, at most: the epsilon of a person is that many times the record's.
    rows_left_out : int
        Those of people who had as many rows as one may have.
    already_done : bool
        The output was there from an earlier run: nothing was drawn or charged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import polars as pl
    >>> from epsworth import Domain, Policy, perturb_file
    >>> policy = Policy.of("pm", 1, Domain.of({"age": (0, 100), "income": (0, 9000)}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "table.csv")
    ...     pl.DataFrame({"age": [30, 61], "income": [2500, 4000]}).write_csv(table)
    ...     receipt = perturb_file(policy, table, Path(folder, "released.csv"))
    >>> receipt.rows, receipt.columns, receipt.stated, receipt.private
    (2, ('age', 'income'), 1.0, True)
    >>> receipt.epsilon <= receipt.stated
    True
    """

    policy: str
    rows: int
    columns: tuple[str, ...]
    passed: tuple[str, ...]
    left_out: tuple[str, ...]
    epsilon: float
    delta: float
    notion: str
    version: str
    times_before: int | None = None
    epsilon_so_far: float | None = None
    private: bool = True
    delta_so_far: float | None = None
    stated: float | None = None
    together: tuple[str, ...] = ()
    person: str | None = None
    people: int | None = None
    most: int | None = None
    rows_left_out: int = 0
    already_done: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """Return the receipt in a sentence or two."""
        kept = show_up(self.epsilon)
        stated = kept if self.stated is None else show_up(self.stated)
        text = (
            f"{counted(self.rows, 'row')}, perturbed in {', '.join(self.columns)}; {self._others}. "
            f"{self.notion.capitalize()} LDP, epsilon {kept}{_delta(self.delta)} per record"
            f"{'' if stated == kept else f' ({stated} is stated)'}; policy {self.policy[:12]}, epsworth {self.version}."
        )
        if self.together:
            text += f" {meaning(self.together)}"
        text += f" {self._of_people}"
        if self.rows_left_out:
            text += f" Left out: {counted(self.rows_left_out, 'row')} over the limit per person."
        own = show_up(self._of_one if self.person is not None else self.epsilon)
        if self.epsilon_so_far is not None and (so_far := show_up(self.epsilon_so_far)) != own:
            text += f" With what left before: epsilon {so_far}{_delta(self.delta_so_far)}"
            text += f" per {'record' if self.person is None else 'person'} in all, at most."
        return text if self.private else f"NOT PRIVATE (replayable randomness): {text}"

    @property
    def _others(self) -> str:
        left_out = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
        return f"sent as they are: {', '.join(self.passed) or 'none'}{left_out}"

    @property
    def _of_people(self) -> str:
        if self.person is None:
            each = show_up(float_above(Fraction(self.epsilon) * (self.most or self.rows)))
            return f"No column says whose rows these are (person=): the ledger charges epsilon {each} to everybody."
        each = show_up(self._of_one)
        whom, rows = counted(self.people or 0, "people"), counted(self.most or 0, "row")
        return f"{whom} ({self.person}), at most {rows} each: epsilon {each} per person."

    @property
    def _of_one(self) -> float:
        """Epsilon of the person with most rows."""
        return float_above(Fraction(self.epsilon) * (self.most or 1))


def meaning(names: tuple[str, ...]) -> str:
    """Return what released values of a tailored policy's columns mean.

    Examples
    --------
    >>> meaning(("age",))
    'The values of age stand together for a region of the classifier; each alone means nothing.'
    """
    return f"The values of {', '.join(names)} stand together for a region of the classifier; each alone means nothing."


def _delta(delta: float | None) -> str:
    return f", delta {show_up(delta)}" if delta else ""
