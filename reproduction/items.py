"""What stands in a paper, and what we find: `Item`, `Outcome`, and the states that an outcome can have."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.panels import Panel

PAPERS = {
    "ldp-utility": "Zheng & Hu 2025, Quantifying Classifier Utility under Local Differential Privacy",
    "pac": "Sridhar, Xiao & Devadas 2024, PAC-Private Algorithms",
    "ldp-classification": (
        "Baumann 2022, slides on Berrett & Butucea 2019, Classification under Local Differential Privacy"
    ),
    "privacy-boosting": ("Jiang et al. 2025, Meeting Utility Constraints in Differential Privacy"),
    "privacy-profile": "LeBlond et al. 2023, Probing the Transition to Dataset-Level Privacy in ML Models",
    "variation-ratio": "Wang et al. 2024 (arXiv 2304.05007), one claim beside the five papers",
}
NOTES = {  # what all items of a paper rest on
    "ldp-utility": (
        "PM is the piecewise mechanism, k-RR k-ary response, LR logistic regression, RF a random forest. Figures 6 to "
        "16 use our own fits, with clipped Laplace and Gaussian noise, and our own convolutional network; their "
        "numbers are at epsilon 4, in the order in which the mechanisms are named."
    ),
    "pac": (
        "Utilities stand at MI 1/64, 1/4 and 4 under anisotropic noise, in brackets at 1/64 under isotropic, then "
        "without. Our forests noise leaf labels, too. CIFAR-10 is a copy of 8,000 compressed images."
    ),
    "privacy-boosting": (
        "Formulas are rebuilt from the proofs, which take the kernel's loss and the region for independent; both are "
        "functions of the same output."
    ),
}
PATTERN = re.compile(rf"({'|'.join(PAPERS)})/([a-z]+)-([a-z0-9.]+)")


class Verdict(StrEnum):
    """What becomes of a statement; the first three are said of a number of ours that was checked."""

    HOLDS = "holds"
    CORRECTED = "holds with a correction"
    FAILS = "does not hold"
    NOT_REPRODUCIBLE = "not reproducible"
    NOT_RUN = "not run yet"


CHECKED = (Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS)


def judged(as_printed: bool, corrected: bool = False) -> Verdict:
    """Return the verdict on a statement that holds as it is printed, or else once it is corrected.

    Raises
    ------
    TypeError
        For what is no truth value: a pair or a text would pass any check by not being empty.

    Examples
    --------
    >>> judged(True).value, judged(False, corrected=True).value, judged(False).value
    ('holds', 'holds with a correction', 'does not hold')
    """
    for check in (as_printed, corrected):
        if not isinstance(check, bool | np.bool_):
            raise TypeError(f"a verdict needs a check that is true or false, not {check!r}")
    if as_printed:
        return Verdict.HOLDS
    return Verdict.CORRECTED if corrected else Verdict.FAILS


@dataclass(frozen=True)
class Outcome:
    """What we found about one item.

    Claim: it says that a statement holds, or that it does not, only beside a number; any other verdict than "holds"
    gives its reason.

    Attributes
    ----------
    verdict : Verdict
    ours : str
        Our number or numbers.
    why : str
        The reason of a verdict that is not plainly "holds".
    seconds : float
    panels : tuple of Panel
        The picture, where the item is a figure.
    """

    verdict: Verdict
    ours: str
    why: str = ""
    seconds: float = 0.0
    panels: tuple[Panel, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        told = re.search(r"\d", self.ours) and not re.search(r"\bnan\b", self.ours)
        if self.verdict in CHECKED and not told:
            raise ValueError(f"no verdict without a number: {self.ours!r}")
        if self.verdict is not Verdict.HOLDS and not self.why:
            raise ValueError(f"the verdict {str(self.verdict)!r} needs a reason")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"verdict": self.verdict.value, "ours": self.ours, "why": self.why, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class Setting:
    """How an item is computed: from which folder of data, and whether briefly.

    Attributes
    ----------
    folder : Path, optional
        Folder of the papers' tables.
    quick : bool
        Fewer draws, records and runs: the same statement, less sharply tested.
    """

    folder: Path | None = None
    quick: bool = False

    def file(self, name: str) -> Path:
        """Return the path of one data file; `Item.lacking` has made sure that it is there."""
        if self.folder is None:
            raise ValueError(f"{name} is needed; name the folder of the papers' data with --data")
        return self.folder / name


Compute = Callable[[Setting], Outcome]


def claims(
    said: Sequence[tuple[str, bool]], ours: str, main: bool, note: str = "", panels: Sequence[Panel] = ()
) -> Outcome:
    """Return the outcome of several statements about one item.

    Parameters
    ----------
    said : sequence of (statement, whether it is so)
        Each as the paper makes it, perhaps after what it is about and a colon; what is said of several is told once.
    ours : str
    main : bool
        What the item is shown for is so, whatever becomes of the rest.
    note : str
        What all of it rests on, where that is not in `NOTES`.
    panels : sequence of Panel
    """
    wrong: dict[str, list[str]] = {}
    for what, true in said:
        if not true:
            about, _, words = what.rpartition(": ")
            wrong.setdefault(words, []).append(about)
    told = [f"{', '.join(about)}: {words}" if any(about) else words for words, about in wrong.items()]
    why = f"not so: {'; '.join(told)}" if told else ""
    why = f"{why} ({note})" if why and note else why or note
    return Outcome(judged(not wrong, corrected=main), ours, why, panels=tuple(panels))


@dataclass(frozen=True)
class Item:
    """A figure, table, example, theorem or numbered statement of a paper.

    Attributes
    ----------
    id : str
        Paper, kind and number, such as ``"ldp-utility/fig-2"``.
    what : str
        As the paper calls it, and where it stands.
    statement : str
        What the paper states, in our words.
    compute : callable, optional
        From a `Setting` to our `Outcome`.
    reason : str
        Why there is no number of ours, where ``compute`` is None.
    pending : bool
        Without ``compute``: it could be computed, and is not yet.
    quick : bool
        It takes part in a quick run.
    needs : tuple of str
        Data files that ``compute`` reads.
    """

    id: str
    what: str
    statement: str
    compute: Compute | None = None
    reason: str = ""
    pending: bool = False
    quick: bool = False
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not PATTERN.fullmatch(self.id):
            raise ValueError(f"{self.id!r} is no name of an item; it is paper/kind-number, as in ldp-utility/fig-2")
        if (self.compute is None) != bool(self.reason):
            raise ValueError(f"{self.id}: give either compute or a reason")
        if self.compute is None and self.quick:
            raise ValueError(f"{self.id}: nothing is computed, so it cannot be quick")

    @property
    def paper(self) -> str:
        """The paper's name."""
        return self.id.partition("/")[0]

    @property
    def kind(self) -> str:
        """Whether it is a figure (``fig``), a table, a theorem, ..."""
        return self.id.partition("/")[2].split("-")[0]

    def lacking(self, folder: Path | None) -> list[str]:
        """Return the data files that are not there."""
        return [name for name in self.needs if folder is None or not (folder / name).is_file()]

    def standing(self, folder: Path | None) -> str:
        """Say in a list what a run would do: compute it, or why not."""
        if self.compute is None:
            return str(Verdict.NOT_RUN if self.pending else Verdict.NOT_REPRODUCIBLE)
        return "needs data" if self.lacking(folder) else "computed"


def outcome_of(item: Item, setting: Setting) -> Outcome:
    """Compute an item, or say why there is nothing to compute."""
    if item.compute is None:
        return Outcome(Verdict.NOT_RUN if item.pending else Verdict.NOT_REPRODUCIBLE, "none", item.reason)
    if lacking := item.lacking(setting.folder):
        return Outcome(Verdict.NOT_RUN, "none", f"{', '.join(lacking)} not found; name its folder with --data")
    return _timed(item.compute, setting)


@cache  # two items may be about one thing, such as a figure and its example
def _timed(compute: Compute, setting: Setting) -> Outcome:
    began = time.perf_counter()
    return replace(compute(setting), seconds=time.perf_counter() - began)
