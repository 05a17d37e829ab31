"""`StudyResult`: a study's answer, with what was read and by which versions; pages and figures are made from it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from epsworth.documents import read_as, read_json
from epsworth.files import RESULT_BYTES, check_readable, reading
from epsworth.numerals import short
from epsworth.results import Result, Table
from epsworth.space import Domain, LeakWarning
from epsworth.studies.read_files import ReadFile, read_files
from epsworth.studies.study import Study
from epsworth.studies.versions import told
from epsworth.utility.curve_parts import CurveParts
from epsworth.utility.curves import Curves
from epsworth.utility.recommendation import Recommendation, recommend
from epsworth.utility.surroundings import Surroundings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULT = "epsworth-study-1"


@dataclass(frozen=True, repr=False, eq=False)
class StudyResult(Result):
    r"""A study's answer: curves, recommendation and policy, beside the question and what was read for it.

    Claim: the recommendation that `load` returns is what the curves of the file say.

    Attributes
    ----------
    study : Study
        The question.
    curves : Curves
    recommendation : Recommendation
    domain : Domain or None
        The public ranges, as they were read.
    policy : str or None
        The text of the policy that clients run to get what is recommended.
    no_policy : str or None
        Why there is none.
    files : dict
        SHA-256 and size of every file that was read, by the field of the study that names it.
    fingerprint : str or None
        Of the model's answers, where the ranges of all columns that it reads are declared: it stays the same when the
        model is saved or served elsewhere.
    versions : dict
        Of epsworth, Python and the libraries that computed.
    date : str
        When it began, in UTC.
    seed : int
        Of the analysis: the study's, or the one that was drawn.
    seconds : float
        Wall-clock time, loading included.
    surroundings : Surroundings or None
        What lies around the choice, where the study asks for it: it holds the values of one record.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import epsworth as ew
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skops.io import dump
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dump(LogisticRegression().fit([[0.1], [0.9]], [0, 1]), Path(folder, "model.skops"))
    ...     size = Path(folder, "people.csv").write_text("age\n0.1\n0.8\n")
    ...     study = ew.Study(
    ...         model=str(Path(folder, "model.skops")), table=str(Path(folder, "people.csv")), sensitive=["age"],
    ...         domain={"age": {"lower": 0, "upper": 1}}, epsilons=[2, 4], at_least=0.7, seed=1,
    ...     )
    ...     found = study.run()
    >>> found.recommendation.feasible, found.seed, sorted(found.files)
    (True, 1, ['model', 'table'])
    """

    study: Study
    curves: Curves
    recommendation: Recommendation
    domain: Domain | None
    policy: str | None
    no_policy: str | None
    files: Mapping[str, ReadFile]
    fingerprint: str | None
    versions: Mapping[str, str]
    date: str
    seed: int
    seconds: float
    surroundings: Surroundings | None = None

    def __repr__(self) -> str:
        return f"<StudyResult of {self.date}: {self.curves!r}>"

    def __str__(self) -> str:
        """Return what was asked of what, and the answer in words."""
        return "\n\n".join(map(str, self.shown()))

    def shown(self) -> Sequence[str | Table]:
        """Return what `print` and a notebook show: what was read, the answer, the curves."""
        rows = [(name, self._named(name), found.sha256[:16]) for name, found in self.files.items()]
        words = f"Asked {self.date} with seed {self.seed}, {told(self.versions)}."
        return [
            Table("what was read", ("field", "file", "SHA-256 begins"), rows),
            words,
            str(self.recommendation),
            *self.curves.shown(),
        ]

    def origins(self) -> dict[str, str]:
        """Return where the answer comes from, in words and values that a page shows."""
        files = {name.capitalize(): one.named(getattr(self.study, name)) for name, one in self.files.items()}
        named = {"Model": str(self.study.model)} if self.study.remote else {}
        answers = {} if self.fingerprint is None else {"Model's answers": f"SHA-256 {self.fingerprint}"}
        return named | files | answers | {"Asked": f"{self.date}, seed {self.seed}", "Versions": told(self.versions)}

    def _named(self, field: str) -> str:
        """Return the name of a file that a field names, without the folders that tell about its owner."""
        return Path(str(getattr(self.study, field))).name

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what the study looks at, what it wants at least and the choice; return the axes."""
        found = self.recommendation
        return self.curves.plot(ax, on=self.study.on, of=found.of, recommended=found)

    def changes(self, study: Study | None = None) -> list[str]:
        """Say what is no longer as it was: of the question, and of the files that it names.

        Parameters
        ----------
        study : Study, optional
            The question as it stands now, and where its files lie; by default the result's own, from the current
            folder.

        Returns
        -------
        list of str
            A sentence per change; empty where a run now would ask the same of the same files.
        """
        now = study or self.study
        asked, before = now.to_dict(), self.study.to_dict()
        found = [
            f"{name} was {short(before.get(name))} and is {short(asked.get(name))}"
            for name in dict.fromkeys((*before, *asked))
            if asked.get(name) != before.get(name) and name not in (now.files.keys() & self.files.keys()) | {"domain"}
        ]
        for name, path in now.files.items():
            try:
                held = read_files({name: path})[name]
            except ValueError as error:
                found.append(f"{name}: {error}")
                continue
            if name in ("model", "table") and name in self.files and held != self.files[name]:
                digests = f"SHA-256 {held.sha256[:16]}.. is not {self.files[name].sha256[:16]}.."
                found.append(f"{name}: {path} was changed since: {digests}")
            elif name == "domain" and Domain.load(path) != self.domain:
                found.append(f"domain: {path} declares other ranges")
        if "domain" not in now.files and now.domain != self.domain:
            found.append("domain: other ranges are declared")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded."""
        return {
            "format": RESULT,
            "study": self.study.to_dict(),
            "recommendation": self.recommendation.to_dict(),
            "policy": self.policy,
            "no_policy": self.no_policy,
            "files": {name: found.to_dict() for name, found in self.files.items()},
            "fingerprint": self.fingerprint,
            "versions": dict(self.versions),
            "date": self.date,
            "seed": self.seed,
            "seconds": self.seconds,
            "domain": None if self.domain is None else self.domain.to_dict(),
            "surroundings": None if self.surroundings is None else self.surroundings.to_dict(),
            "curves": self.curves.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        if not is_study_result(document):
            raise ValueError(f"this is not an {RESULT} document; write one with epsworth run STUDY.toml -o")
        try:
            found: Self = read_as(cls, document, recommendation=None)
        except KeyError as error:
            raise ValueError(f"{error.args[0]} is missing; run the study again") from None
        return replace(found, recommendation=_recommended(found.study, found.curves))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote."""
        with reading(check_readable(path, "study result"), "study result", most=RESULT_BYTES) as content:
            return cls.from_dict(read_json(content))


def is_study_result(document: object) -> bool:
    """Tell a study's result from other documents."""
    return isinstance(document, Mapping) and document.get("format") == RESULT


def curves_of_file(path: str | Path) -> tuple[Curves | CurveParts, Domain | None]:
    """Return the curves that a file or folder holds, and the public ranges where it holds them."""
    if Path(path).is_dir():
        return CurveParts.load(path), None
    with reading(path, "curves file", most=RESULT_BYTES) as content:
        document = read_json(content)
        if not is_study_result(document):
            held = document.get("curves", document) if isinstance(document, Mapping) else document
            declared = document.get("domain") if isinstance(document, Mapping) else None
            return Curves.from_dict(held), None if declared is None else Domain.from_dict(declared)
        found = StudyResult.from_dict(document)
        return found.curves, found.domain


def _recommended(study: Study, curves: Curves) -> Recommendation:
    """Return what the curves say to what the study asks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)  # told when it was asked
        return recommend(curves, **study.wanted)
