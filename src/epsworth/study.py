"""Studies: questions in files, and their results.

A result holds the answer with what was read for it.
"""

from __future__ import annotations

import datetime
import os
import secrets
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from epsworth import inputs
from epsworth.documents import read_as, read_json, read_toml
from epsworth.files import (
    RESULT_BYTES,
    check_curves_size,
    check_readable,
    check_writable,
    file_named,
    reading,
    write_text,
)
from epsworth.numerals import short
from epsworth.results import Result, Table
from epsworth.space import Domain, LeakWarning
from epsworth.utility.choice import Limits
from epsworth.utility.curve_parts import CurveParts
from epsworth.utility.curves import Curves
from epsworth.utility.panels import Panels, panels_of
from epsworth.utility.problem import DEFAULT_EPSILONS, DEFAULT_MECHANISMS, Problem
from epsworth.utility.recommendation import Recommendation, recommend
from epsworth.utility.run import Run

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from epsworth.classifiers import Classifier
    from epsworth.utility.deadline import Watch

HEADER = "# An epsworth study: a question. Ask it by: epsworth run THIS_FILE -o result.json\n"
VERSION = 1
RESULT = "epsworth-study-1"
EPSILONS = ",".join(map(str, DEFAULT_EPSILONS))
REQUEST = ("at_least", "on", "of", "delta", "max_epsilon", "at_most_sure")
NEEDED = ("model", "table", "sensitive")
LEAST_SECONDS = 1e-3  # of a run whose time was spent before it began
SEED_BITS = 53  # of a seed that is drawn: what any reader of JSON keeps


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question about a model in a file, or behind an address, and a table in a file.

    It is read strictly: what is unknown, of another type or out of range is refused before anything is loaded.  It
    names what is read, and nothing that is written; and it cannot say that the model, or an address, is to be trusted.

    Parameters
    ----------
    model : str or Path
        A file, as `load_model` takes it, or one of the learner; or ``http://HOST/v2/models/NAME``.
    table : str or Path
        Records in natural units: ``.csv``, ``.csv.gz``, ``.jsonl`` or ``.parquet``.
    sensitive : sequence of str
        The columns that users perturb.
    domain : str, Path, Domain or mapping, optional
        Their public ranges: a file, or the ranges themselves, ``{"age": (0, 120)}`` or
        ``{"age": {"lower": 0, "upper": 120}}``.
    mechanisms : sequence of str, optional
        Mechanisms by their words; ``"all"`` for every family.
    epsilons : str, array or sequence of numbers, optional
        Of the record: a list, or ``"first:last:step"``.  The texts are kept: 0.10 stays 0.10.
    per : {"record", "feature"}
        With ``"feature"`` they are those of every feature.
    target : str, optional
        The column of true labels.
    sep : str
        What separates the fields of a CSV: a comma, semicolon, tab or bar.
    at_least, on, of, delta, max_epsilon, at_most_sure
        What is wanted, as for `recommend`.
    method, over, confidence, tolerance, quantise
        How it is answered, as for `stability`.
    seed : int, optional
        Of the analysis.  Without one a seed is drawn, and the result tells it.
    service : mapping, optional
        Of a model behind an address: ``budget``, ``batch``, ``timeout``, ``inputs``, ``output``, as for `remote`.
    panels : bool
        Whether the result is to hold what a page shows around the choice: labels near one record, whose own values it
        then holds, where that record is safe, a split of the epsilon, groups of records.
    folder : Path
        Where names of files begin: that of the study file.

    Examples
    --------
    >>> import epsworth as ew
    >>> study = ew.Study(model="model.skops", table="people.csv", sensitive=["age"], epsilons=[0.5, 1, 2])
    >>> study.epsilons, study.at_least
    ('0.5,1,2', 0.9)
    >>> ew.Study(model="model.skops", table="people.csv", sensitive=["age"], epsilons="1:8:1", at_least=90)
    Traceback (most recent call last):
    ValueError: at_least must lie in (0, 1], got 90
    """

    model: str | Path
    table: str | Path
    sensitive: Sequence[str]
    domain: str | Path | Domain | Mapping[str | int, Any] | None = None
    mechanisms: Sequence[str] = DEFAULT_MECHANISMS
    epsilons: str | ArrayLike = EPSILONS
    per: str = "record"
    target: str | None = None
    sep: str = ","
    at_least: float = 0.9
    on: str | int = "average"
    of: str = "stability"
    delta: float | None = None
    max_epsilon: float | None = None
    at_most_sure: float | None = None
    method: str = "auto"
    over: str = "auto"
    confidence: float = 0.999
    tolerance: float = 0.01
    quantise: int | None = None
    seed: int | None = None
    service: Mapping[str, Any] | None = None
    panels: bool = False
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", _folder(self.folder))
        optional = {one.name for one in fields(self) if one.default is None}
        for name, check in inputs.CHECKS.items():
            value = getattr(self, name)
            if value is not None or name not in optional:
                object.__setattr__(self, name, check(name, value))
        Limits.of_wish(self.delta, self.max_epsilon, self.at_most_sure)
        try:
            self._run()
        except TypeError as error:
            raise ValueError(str(error)) from None
        if self.of == "accuracy" and self.target is None:
            raise ValueError("of is 'accuracy', which needs true labels; name their column as target")
        if isinstance(self.domain, Domain):
            for name in self.sensitive:
                _ = name.isdigit() or self.domain[name]  # refuses what is not declared; digits may be a column's place
        if self.target in self.sensitive:
            raise ValueError(f"target names {short(self.target)}, a sensitive column; it is the column of true labels")
        if self.service is not None and not self.remote:
            raise ValueError("service is for a model behind an address, and model is a file; leave it out")

    def _run(self, **options: Any) -> Run:
        fields = {name: getattr(self, name) for name in ("method", "over", "confidence", "tolerance")}
        return Run.of(**fields, **options)

    @property
    def request(self) -> dict[str, Any]:
        """The request to the curves, by the names of `recommend`'s parameters."""
        return {name: getattr(self, name) for name in REQUEST}

    @property
    def grid(self) -> list[float]:
        """The epsilons."""
        return inputs.epsilon_grid(str(self.epsilons), "epsilons")

    @property
    def remote(self) -> bool:
        """Whether the model is behind an address, so that records leave this machine."""
        return inputs.is_address(self.model)

    @property
    def files(self) -> dict[str, Path]:
        """Paths of all files, by field; a name begins in the folder of the study file."""
        names = {"model": None if self.remote else self.model, "table": self.table, "domain": self.domain}
        return {field: self.folder / name for field, name in names.items() if isinstance(name, str)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, folder: str | Path = ".") -> Self:
        """Read what a TOML file says, its files' names in a folder; errors name the entry."""
        if not isinstance(document, Mapping):
            raise ValueError(f"a study must be a table of {', '.join(FIELDS)}, got {short(document)}")
        entries = {name: value if name == "epsilons" else _plain(name, value) for name, value in document.items()}
        version = entries.pop("version", VERSION)
        if isinstance(version, bool) or version != VERSION:
            raise ValueError(f"version must be {VERSION}, got {short(version)}; read it with a newer epsworth")
        for name in entries:
            if name not in FIELDS:
                raise inputs.unknown(name, FIELDS)
        for name in NEEDED:
            if name not in entries:
                raise ValueError(f"{name} is missing; a study needs {', '.join(NEEDED)}")
        return cls(**entries | {"folder": folder})

    @classmethod
    def from_toml(cls, text: str, *, folder: str | Path = ".") -> Self:
        """Read the text of a study file."""
        return cls.from_dict(read_toml(text, Decimal), folder=folder)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study file; names of files in it begin in its folder."""
        path = check_readable(path, "study file")
        if path.suffix.lower() != ".toml":
            raise ValueError(f"the study file {path} must end in .toml")
        with reading(path, "study file") as content:
            return cls.from_toml(content.decode(), folder=path.parent)

    def to_dict(self) -> dict[str, Any]:
        """Return what a file says: every field that is not empty, epsilons by their texts."""
        document: dict[str, Any] = {"version": VERSION}
        for name in FIELDS:
            value = getattr(self, name)
            if value is not None:
                plain = value.to_dict()["features"] if isinstance(value, Domain) else value
                document[name] = list(plain) if isinstance(plain, tuple) else plain
        return document

    def to_toml(self) -> str:
        """Return the text of a study file."""
        import tomli_w

        return HEADER + tomli_w.dumps(self.to_dict())

    def save(self, path: str | Path) -> None:
        """Write a study file, whole or not at all; names of files are written as they are."""
        path = file_named(path)
        if check_writable(path).suffix.lower() != ".toml":
            raise ValueError(f"cannot write {path}: a study is a TOML file; let its name end in .toml")
        write_text(path, self.to_toml())

    def run(
        self, *, trust: bool | Sequence[str] = False, send: bool = False,
        progress: Callable[[float], None] | None = None, seconds: float | None = None, watch: Watch | None = None,
        checkpoint: str | Path | None = None, cache: str | Path | None = None, n_jobs: int | None = None,
    ) -> StudyResult:  # fmt: skip
        """Load what the study names, ask, recommend, and write down what was read.

        Claim: of the same files with the same seed and the same versions come the same bounds.

        Parameters
        ----------
        trust : bool or sequence of str
            As for `load_model`: whether the model's file may run code.
        send : bool
            Whether records may be sent to the address that the study names.
        progress, seconds, watch, checkpoint, n_jobs
            As for `stability`.
        cache : str or Path, optional
            As for `remote`.

        Returns
        -------
        StudyResult
        """
        from epsworth.threads import one_openmp_thread

        start, date = time.monotonic(), datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        files = {name: inputs.FileDigest.of(path, name) for name, path in self.files.items()}
        domain = Domain.load(self.files["domain"]) if "domain" in files else cast("Domain | None", self.domain)
        model = self._model(trust, send, cache)
        frame, truth, names = self._table(model, domain)
        answers = None if self.remote else _fingerprint(model, frame, domain)  # a service counts its queries
        seed = secrets.randbits(SEED_BITS) if self.seed is None else self.seed
        left = None if seconds is None else max(seconds - (time.monotonic() - start), LEAST_SECONDS)
        run = self._run(rng=seed, progress=progress, seconds=left, watch=watch, checkpoint=checkpoint, n_jobs=n_jobs)
        with one_openmp_thread():
            problem = Problem.of(
                model, frame, sensitive=names, mechanisms=self.mechanisms, epsilons=self.grid,
                per=self.per, domain=domain, quantise=self.quantise, y=truth,  # type: ignore[arg-type]  # checked above
            )  # fmt: skip
            check_curves_size(problem.shape, accuracy=truth is not None)
            curves = run.curves(problem)
        recommendation, policy, reason, panels = recommend(curves, **self.request), None, "nothing is recommended", None
        choice = recommendation.choice
        if choice is not None and choice.tailored:
            policy = inputs.tailored_of(
                choice, model, frame, sensitive=names, domain=domain, y=truth, rng=seed, progress=progress
            ).policy
        elif choice is not None:
            try:
                policy = recommendation.policy(domain)
            except ValueError as error:  # a mechanism without an exact sampler has curves, and no releases
                reason = str(error)
        if self.panels and not curves.stopped:
            panels = panels_of(
                curves, problem, frame, found=recommendation, record=self.on if isinstance(self.on, int) else None,
                ask_model=not self.remote, rng=seed,
            )  # fmt: skip
        text = None if policy is None else policy.to_toml()
        return StudyResult(
            study=self, curves=curves, recommendation=recommendation, domain=domain, policy=text,
            no_policy=reason if text is None else None, files=files, fingerprint=answers,
            versions=inputs.versions(), date=date, seed=seed, seconds=time.monotonic() - start, panels=panels,
        )  # fmt: skip

    def _model(self, trust: bool | Sequence[str], send: bool, cache: str | Path | None) -> Classifier:
        """Load the model; only a caller can trust it, or have records sent."""
        from epsworth.classifiers import as_classifier

        if not self.remote:
            if cache is not None:
                raise ValueError("cache is for a model behind an address, and model is a file; leave it out")
            return as_classifier(inputs.model_of_file(self.files["model"], trust))
        if not send:
            raise ValueError(f"model: records of the table are sent to {self.model}; pass send=True if you mean that")
        from epsworth.classifiers.service import remote

        try:
            return as_classifier(remote(str(self.model), **(self.service or {}), cache=cache))
        except ImportError as error:
            raise ValueError(str(error)) from None

    def _table(self, model: Classifier, domain: Domain | None) -> tuple[pl.DataFrame, Any, list[Any]]:
        """Read the records, their true labels, and how the sensitive columns are named among them."""
        path = self.files["table"]
        frame, truth = inputs.read_records(path, model, domain, self.target, field="target", sep=self.sep)
        names = [inputs.column_named(name, frame.columns, "sensitive") for name in self.sensitive]
        if isinstance(self.on, int):
            inputs.check_row(self.on, len(frame))
        inputs.check_gaps_of(frame, names, domain, path)
        return frame, truth, names


FIELDS = tuple(one.name for one in fields(Study) if one.name != "folder")


def _folder(given: object) -> Path:
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"folder must be a text or a Path, got {short(given)}")
    return Path(given)


def _plain(name: str, value: Any) -> Any:
    """Return numbers as doubles, also in lists and tables; refuse dates."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {key: _plain(f"{name}.{key}", entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(f"{name}[{i}]", entry) for i, entry in enumerate(value)]
    if isinstance(value, (datetime.date, datetime.time)):
        raise ValueError(f"{name} must not be a date or a time, got {value}; write it in quotes")
    return value


def _fingerprint(model: Classifier, frame: pl.DataFrame, domain: Domain | None) -> str | None:
    """Return the fingerprint of the model's answers, where every column that it reads has a declared range."""
    from epsworth.classifiers.classifier import table_of
    from epsworth.classifiers.fingerprints import fingerprint

    if domain is None:
        return None
    try:
        return fingerprint(model, domain.features, table_of(model, frame, domain.features))
    except Exception:  # a model may refuse records that nobody has; nothing rests on it
        return None


@dataclass(frozen=True, repr=False, eq=False)
class StudyResult(Result):
    r"""A study's answer: curves, recommendation and policy, beside the question and what was read for it.

    Attributes
    ----------
    study : Study
    curves : Curves
    recommendation : Recommendation
        The curves' answer to the study's request.
    domain : Domain or None
        The public ranges, as they were read.
    policy, no_policy : str or None
        The text of the policy that clients run to get what is recommended, or why there is none.
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
    panels : Panels or None
        Panels about the choice, where the study asks for them: they hold the values of one record.

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
    files: Mapping[str, inputs.FileDigest]
    fingerprint: str | None
    versions: Mapping[str, str]
    date: str
    seed: int
    seconds: float
    panels: Panels | None = None

    def __repr__(self) -> str:
        return f"<StudyResult of {self.date}: {self.curves!r}>"

    def __str__(self) -> str:
        """Return what was asked of what, and the answer in words."""
        return "\n\n".join(map(str, self.shown()))

    def shown(self) -> Sequence[str | Table]:
        """Return what `print` and a notebook show: what was read, the answer, the curves."""
        rows = [
            (name, Path(str(getattr(self.study, name))).name, file.sha256[:16]) for name, file in self.files.items()
        ]
        words = f"Asked {self.date} with seed {self.seed}, {inputs.in_a_line(self.versions)}."
        files = Table("what was read", ("field", "file", "SHA-256 begins"), rows)
        return [files, words, str(self.recommendation), *self.curves.shown()]

    def origins(self) -> dict[str, str]:
        """Return where the answer comes from, in words and values that a page shows."""
        files = {name.capitalize(): file.named(getattr(self.study, name)) for name, file in self.files.items()}
        address = {"Model": str(self.study.model)} if self.study.remote else {}
        answers = {} if self.fingerprint is None else {"Model's answers": f"SHA-256 {self.fingerprint}"}
        run = {"Asked": f"{self.date}, seed {self.seed}", "Versions": inputs.in_a_line(self.versions)}
        return address | files | answers | run

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what the study looks at, what it wants at least and the choice; return the axes."""
        return self.curves.plot(ax, on=self.study.on, of=self.recommendation.of, recommended=self.recommendation)

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
        after, before, common = now.to_dict(), self.study.to_dict(), now.files.keys() & self.files.keys() - {"domain"}
        changes = [
            f"{name} was {short(before.get(name))} and is {short(after.get(name))}"
            for name in dict.fromkeys((*before, *after))
            if after.get(name) != before.get(name) and name not in (*common, "domain")
        ]
        domain = self.domain if "domain" in now.files else now.domain
        for name, path in now.files.items():
            try:
                file = inputs.FileDigest.of(path, name)
                domain = Domain.load(path) if name == "domain" else domain
            except ValueError as error:
                changes.append(f"{name}: {error}")
                continue
            if name in common and file != self.files[name]:
                digests = f"SHA-256 {file.sha256[:16]}.. is not {self.files[name].sha256[:16]}.."
                changes.append(f"{name}: {path} was changed since: {digests}")
        return [*changes, *(["domain: other ranges are declared"] if domain != self.domain else [])]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: full precision, nothing rounded."""
        domain = None if self.domain is None else self.domain.to_dict()
        first = {"format": RESULT, "study": self.study.to_dict(), "domain": domain}
        return first | {name: value for name, value in super().to_dict().items() if name not in first}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; the curves are asked again what the study wants."""
        if not is_study_result(document):
            raise ValueError(f"this is not an {RESULT} document; write one with epsworth run STUDY.toml -o")
        try:
            result: Self = read_as(cls, document, recommendation=None)
        except KeyError as error:
            raise ValueError(f"{error.args[0]} is missing; run the study again") from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeakWarning)  # it was given when the study ran
            return replace(result, recommendation=recommend(result.curves, **result.study.request))

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
        if is_study_result(document):
            result = StudyResult.from_dict(document)
            return result.curves, result.domain
        entries = document if isinstance(document, Mapping) else {"curves": document}
        domain = entries.get("domain")
        return Curves.from_dict(entries.get("curves", entries)), None if domain is None else Domain.from_dict(domain)
