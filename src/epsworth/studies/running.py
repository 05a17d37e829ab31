"""A study asked: what it names is loaded and fingerprinted, its question answered, a choice made."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from epsworth.classifiers import Classifier, as_classifier
from epsworth.space import Domain
from epsworth.studies.inputs import check_gaps_of, check_row, column_named, model_of_file, read_records, tailored_of
from epsworth.studies.read_files import ReadFile, check_unchanged, read_files
from epsworth.studies.result import StudyResult
from epsworth.studies.versions import versions
from epsworth.threads import one_openmp_thread
from epsworth.utility.problem import Problem
from epsworth.utility.recommendation import Recommendation, recommend
from epsworth.utility.run import Run
from epsworth.utility.surroundings import look_around

if TYPE_CHECKING:
    import polars as pl

    from epsworth.studies.study import Study
    from epsworth.utility.deadline import Watch

LEAST = 1e-3  # seconds of a run whose time was spent before it began
SEED_BITS = 53  # of a seed that is drawn: what any reader of JSON keeps


@dataclass(frozen=True)
class Settings:
    """How a study is run: what it cannot say of itself."""

    trust: bool | Sequence[str] = False
    send: bool = False
    progress: Callable[[float], None] | None = None
    seconds: float | None = None
    watch: Watch | None = None
    checkpoint: str | Path | None = None
    cache: str | Path | None = None
    n_jobs: int | None = None


@dataclass(frozen=True)
class Loaded:
    """What a study names, loaded."""

    model: Classifier
    frame: pl.DataFrame
    truth: Any
    names: list[Any]
    domain: Domain | None
    files: dict[str, ReadFile]

    @classmethod
    def of(cls, study: Study, settings: Settings) -> Self:
        """Load it, and refuse files that change meanwhile."""
        if study.remote and not settings.send:
            raise ValueError(
                f"model: records of the table are sent to {study.model}; pass --send (send=True) if you mean that"
            )
        if not study.remote and settings.cache is not None:
            raise ValueError("cache is for a model behind an address, and model is a file; leave it out")
        files = study.files
        before = read_files(files)
        domain = study.domain if isinstance(study.domain, Domain) else None
        domain = Domain.load(files["domain"]) if "domain" in files else domain
        named = _service(study, settings) if study.remote else model_of_file(files["model"], settings.trust)
        model = as_classifier(named)
        frame, truth = read_records(files["table"], model, domain, study.target, field="target", sep=study.sep)
        names = [column_named(name, frame.columns, "sensitive") for name in study.sensitive]
        if isinstance(study.on, int):
            check_row(study.on, len(frame))
        check_gaps_of(frame, names, domain, files["table"])
        check_unchanged(before, files)
        return cls(model, frame, truth, names, domain, before)

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the model's answers, where every column that it reads has a declared range."""
        from epsworth.classifiers.classifier import table_of
        from epsworth.classifiers.fingerprints import fingerprint

        if self.domain is None:
            return None
        try:
            records = table_of(self.model, self.frame, self.domain.features)
            return fingerprint(self.model, self.domain.features, records)
        except Exception:  # a model may refuse records that nobody has; nothing rests on it
            return None


def answer(study: Study, settings: Settings) -> StudyResult:
    """Return a study's answer."""
    began, date = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    loaded = Loaded.of(study, settings)
    answers = loaded.fingerprint() if not study.remote else None  # a service counts what it is asked
    seed = secrets.randbits(SEED_BITS) if study.seed is None else study.seed
    left = None if settings.seconds is None else max(settings.seconds - (time.monotonic() - began), LEAST)
    how = Run.of(
        rng=seed, method=study.method, over=study.over, confidence=study.confidence, tolerance=study.tolerance,  # type: ignore[arg-type]  # checked by the study
        progress=settings.progress, seconds=left, watch=settings.watch, checkpoint=settings.checkpoint,
        n_jobs=settings.n_jobs,
    )  # fmt: skip
    with one_openmp_thread():
        problem = Problem.of(
            loaded.model, loaded.frame, sensitive=loaded.names, mechanisms=study.mechanisms, epsilons=study.grid,
            per=study.per, domain=loaded.domain, quantise=study.quantise, y=loaded.truth,  # type: ignore[arg-type]  # checked by the study
        )  # fmt: skip
        curves = how.curves(problem)
    found = recommend(curves, **study.wanted)
    policy, without = _policy(found, loaded, seed, settings)
    around = None
    if study.surroundings and not curves.stopped:
        around = look_around(
            curves, problem, loaded.frame, found=found, record=study.on if isinstance(study.on, int) else None,
            ask_model=not study.remote, rng=seed,
        )  # fmt: skip
    return StudyResult(
        study=study,
        curves=curves,
        recommendation=found,
        domain=loaded.domain,
        policy=policy,
        no_policy=without,
        files=loaded.files,
        fingerprint=answers,
        versions=versions(),
        date=date,
        seed=seed,
        seconds=time.monotonic() - began,
        surroundings=around,
    )


def _service(study: Study, settings: Settings) -> Any:
    from epsworth.classifiers.service import remote

    try:
        return remote(str(study.model), **(study.service or {}), cache=settings.cache)
    except ImportError as error:
        raise ValueError(str(error)) from None


def _policy(found: Recommendation, loaded: Loaded, seed: int, settings: Settings) -> tuple[str | None, str | None]:
    """Return the policy of what is recommended, or why there is none."""
    if found.choice is None:
        return None, "nothing is recommended"
    if found.choice.tailored:
        made = tailored_of(
            found.choice, loaded.model, loaded.frame, sensitive=loaded.names, domain=loaded.domain, y=loaded.truth,
            rng=seed, progress=settings.progress,
        )  # fmt: skip
        return made.policy.to_toml(), None
    try:
        return found.policy(loaded.domain).to_toml(), None
    except ValueError as error:  # a mechanism without an exact sampler: curves can be had of it, releases cannot
        return None, str(error)
