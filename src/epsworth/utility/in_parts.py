"""How often labels stay, for records so many that the bounds of all do not fit into memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Rng, generator
from epsworth.bounds import Risk
from epsworth.files import replacing
from epsworth.guarantees import Unit
from epsworth.mechanisms.family import Build
from epsworth.parallel import check_n_jobs
from epsworth.release import Policy
from epsworth.release.given import as_policy
from epsworth.results import json_form
from epsworth.space import Ranges
from epsworth.utility.curve_parts import LABELS, RESULT, RIGHT, CurveParts, Source
from epsworth.utility.engines.checkpoint import OWNER_ONLY, Checkpoint, check_folder
from epsworth.utility.engines.digests import described
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.pieces import Work, piece_size
from epsworth.utility.engines.results import Answered, promised, revealing
from epsworth.utility.engines.run import READ, run
from epsworth.utility.engines.table import Method
from epsworth.utility.pace import Pace, Watch, check_seconds
from epsworth.utility.policies import ask_about
from epsworth.utility.question import Question, ask
from epsworth.utility.stability import DEFAULT_EPSILONS, DEFAULT_MECHANISMS, check_beside_policy, check_options


def stability_in_parts(
    model: Any,
    X: Any,
    *,
    folder: str | Path,
    sensitive: str | int | Sequence[str | int] | None = None,
    mechanisms: str | Iterable[str] | Mapping[str, Build] = DEFAULT_MECHANISMS,
    epsilons: ArrayLike | None = None,
    per: Unit = "record",
    domain: Ranges | None = None,
    method: Method = "auto",
    confidence: float = 0.999,
    tolerance: float = 0.01,
    rng: Rng = None,
    y: ArrayLike | None = None,
    at_least: float | None = None,
    quantise: int | None = None,
    policy: Policy | str | Path | None = None,
    progress: Callable[[float], None] | None = None,
    seconds: float | None = None,
    watch: Watch | None = None,
    n_jobs: int | None = None,
) -> CurveParts:
    """Do what `stability` does for every record, and leave what is found in a folder.

    Claim: that of `stability` with ``over="records"``, and to the last bit its bounds on every record.

    Parameters
    ----------
    model, X, sensitive, mechanisms, epsilons, per, domain, method, confidence, tolerance, rng, y, at_least, quantise, \
policy, progress, seconds, watch, n_jobs
        As for `stability`; no tailored mechanism, and no policy that samples features.
    folder : path
        Made where it is not there.  It is a checkpoint, too: the same call goes on from what it holds, with any number
        of workers.  It is computed from raw data: keep it as you keep the table.

    Returns
    -------
    CurveParts

    Raises
    ------
    ValueError
        Where the folder belongs to another question, or holds anything else; and whatever `stability` raises.

    Examples
    --------
    >>> import tempfile
    >>> import epsworth as ew
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = ew.stability_in_parts(lambda X: X[:, 0] <= 0.5, [[i / 999] for i in range(1000)], sensitive=0,
    ...                                   mechanisms="krr:k=11", epsilons=[2.0], folder=f"{place}/curves")
    ...     len(found), found.average().lower.round(3).item(), found.worst().lower.round(3).item()
    (16, 0.665, 0.288)
    """
    pace = Pace(check_seconds(seconds), watch, progress)
    check_options(method, confidence, tolerance, "records", at_least)
    check_n_jobs(n_jobs)
    check_folder(folder, "folder")
    random, question = generator(rng), _question(locals())
    pace.progress(READ / 2)
    told = {"method": method, "over": "records", "confidence": confidence, "tolerance": tolerance, "at_least": at_least}
    asked, n = described(question, **told), len(question.records)
    pieces = Checkpoint(folder, asked, n, piece_size(n, n_jobs), random)
    _write_labels(pieces, question)
    settings = Settings(Risk.of(confidence), tolerance, at_least, random, pace.progress)
    answered, _ = run(question, method, settings, "records", pace, work=Work(n_jobs, pieces, filed=True))
    found = _parts_of(pieces, question, answered, settings, pace)
    text = json.dumps(json_form(found._head()), allow_nan=False)
    with replacing(pieces.path / RESULT, OWNER_ONLY) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return found


def _question(given: Mapping[str, Any]) -> Question:
    """Return what is asked; what cannot be cut into parts is refused."""
    policy, mechanisms = given["policy"], given["mechanisms"]
    if policy is None:
        if given["sensitive"] is None:
            raise TypeError("sensitive is missing; name the features that users perturb, or give a policy=")
        given = {**given, "epsilons": DEFAULT_EPSILONS if given["epsilons"] is None else given["epsilons"]}
        same = ("sensitive", "mechanisms", "epsilons", "per", "domain", "y", "quantise")
        return ask(given["model"], given["X"], **{name: given[name] for name in same})
    own = None if mechanisms is DEFAULT_MECHANISMS else mechanisms
    check_beside_policy(
        {"mechanisms": own} | {name: given[name] for name in ("sensitive", "epsilons", "domain", "quantise")}
    )
    policy = as_policy(policy)
    if policy.tailoring is not None:
        raise ValueError("a tailored policy is analysed for all records at once; use stability")
    question = ask_about(policy, given["model"], given["X"], y=given["y"])
    if question.subsets:
        raise ValueError("a policy that samples features is analysed for all records at once; use stability")
    return question


def _write_labels(pieces: Checkpoint, question: Question) -> None:
    """Keep what parts need of the records beside the bounds: labels, and whether these are the true ones."""
    held = {LABELS: _plain(question.labels)}
    if question.y is not None:
        held[RIGHT] = np.asarray(question.labels == question.y)
    for name, array in held.items():
        with replacing(pieces.path / name, OWNER_ONLY) as temporary:
            np.save(temporary, array, allow_pickle=False)


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    plain = np.array(labels.tolist())
    if plain.dtype.hasobject or plain.tolist() != labels.tolist():
        raise ValueError("the labels are of several kinds, which a file does not hold; let the classifier answer texts")
    return plain


def _parts_of(pieces: Checkpoint, question: Question, answered: Answered, settings: Settings, pace: Pace) -> CurveParts:
    parts = CurveParts(
        folder=pieces.path,
        records=len(question.records),
        size=pieces.size,
        tolerance=float(settings.tolerance),
        reveal=revealing(question),
        sources=tuple(Source(part.mechanisms, part.engine.name, part.number) for part, _ in answered),
        digest=pieces.digest,
        with_accuracy=question.y is not None,
        **promised(question, answered, settings, pace),
    )
    return replace(parts, notes=(*parts.notes, *_ending(parts, pace)))


def _ending(parts: CurveParts, pace: Pace) -> list[str]:
    if parts.stopped:
        return [
            f"the run was stopped {pace.stopped}: all bounds hold, those of records that were not finished are 0 to 1; "
            "the same call goes on where this one ended"
        ]
    wide = parts._totals["stability"].width
    return [
        f"{name}: bounds are up to {float(row.max()):.3g} wide, more than the tolerance allows"
        for name, row in zip(parts.mechanisms, wide, strict=True)
        if row.max() > 2 * parts.tolerance * (1 + 1e-9)
    ]


__all__ = ["stability_in_parts"]
