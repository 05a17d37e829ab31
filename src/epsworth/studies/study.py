"""`Study`: a whole question as one value, which a file can hold."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from epsworth.documents import read_toml
from epsworth.files import check_readable, check_writable, file_named, reading, write_text
from epsworth.numerals import short
from epsworth.space import Domain
from epsworth.studies.fields import CHECKS, VERSION, unknown
from epsworth.studies.inputs import epsilon_grid, is_address
from epsworth.utility.problem import DEFAULT_EPSILONS, DEFAULT_MECHANISMS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from epsworth.studies.result import StudyResult
    from epsworth.utility.deadline import Watch

HEADER = "# An epsworth study: a question. Ask it by: epsworth run THIS_FILE -o result.json\n"
EPSILONS = ",".join(map(str, DEFAULT_EPSILONS))


WANTED = ("at_least", "on", "of", "delta", "max_epsilon", "at_most_sure")


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
    surroundings : bool
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
    surroundings: bool = False
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        for name, check in CHECKS.items():
            given = getattr(self, name)
            if given is not None or DEFAULTS.get(name) is not None or name in NEEDED:
                object.__setattr__(self, name, check(name, given))
        if self.of == "accuracy" and self.target is None:
            raise ValueError("of is 'accuracy', which needs true labels; name their column as target")
        if self.target in self.sensitive:
            raise ValueError(f"target names {short(self.target)}, a sensitive column; it is the column of true labels")
        if self.max_epsilon is not None and self.at_most_sure is not None:
            raise ValueError("max_epsilon and at_most_sure are two ways to say one thing; keep one")
        if self.service is not None and not is_address(self.model):
            raise ValueError("service is for a model behind an address, and model is a file; leave it out")

    @property
    def wanted(self) -> dict[str, Any]:
        """What is wanted of the curves, by the names of `recommend`'s parameters."""
        return {name: getattr(self, name) for name in WANTED}

    @property
    def grid(self) -> list[float]:
        """The epsilons."""
        return epsilon_grid(str(self.epsilons), "epsilons")

    @property
    def remote(self) -> bool:
        """Whether the model is behind an address, so that records leave this machine."""
        return is_address(self.model)

    @property
    def files(self) -> dict[str, Path]:
        """What is read, by field; a name begins in the folder of the study file."""
        named = {"model": None if self.remote else self.model, "table": self.table, "domain": self.domain}
        return {name: self.folder / one for name, one in named.items() if isinstance(one, str)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, folder: str | Path = ".") -> Self:
        """Read what a TOML file says; errors name the entry.

        Parameters
        ----------
        document : mapping
        folder : str or Path
            Where names of files begin.
        """
        if not isinstance(document, Mapping):
            raise ValueError(f"a study must be a table of {', '.join(CHECKS)}, got {short(document)}")
        said = {name: value if name == "epsilons" else _plain(name, value) for name, value in document.items()}
        version = said.pop("version", VERSION)
        if isinstance(version, bool) or version != VERSION:
            raise ValueError(f"version must be {VERSION}, got {short(version)}; read it with a newer epsworth")
        for name in said:
            if name not in CHECKS:
                raise unknown(name, tuple(CHECKS))
        for name in NEEDED:
            if name not in said:
                raise ValueError(f"{name} is missing; a study needs {', '.join(NEEDED)}")
        return cls(**said, folder=Path(folder))

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
        found: dict[str, Any] = {"version": VERSION}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is None or one.name == "folder":
                continue
            plain = value.to_dict()["features"] if isinstance(value, Domain) else value
            found[one.name] = list(plain) if isinstance(plain, tuple) else plain
        return found

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
        self,
        *,
        trust: bool | Sequence[str] = False,
        send: bool = False,
        progress: Callable[[float], None] | None = None,
        seconds: float | None = None,
        watch: Watch | None = None,
        checkpoint: str | Path | None = None,
        cache: str | Path | None = None,
        n_jobs: int | None = None,
    ) -> StudyResult:
        """Load what the study names, ask, recommend, and write down what was read.

        Claim: of the same files with the same seed and the same versions come the same bounds; a file that changes
        while it is read is refused.

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
        from epsworth.studies.running import Settings, answer

        return answer(self, Settings(trust, send, progress, seconds, watch, checkpoint, cache, n_jobs))


DEFAULTS = {one.name: one.default for one in fields(Study) if isinstance(one.default, (str, int, float, tuple))}
NEEDED = ("model", "table", "sensitive")


def _plain(name: str, value: Any) -> Any:
    """Return numbers as doubles, also in lists and tables; dates are nothing that a study knows."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {key: _plain(f"{name}.{key}", one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(f"{name}[{i}]", one) for i, one in enumerate(value)]
    if isinstance(value, (datetime.date, datetime.time)):
        raise ValueError(f"{name} must not be a date or a time, got {value}; write it in quotes")
    return value
