"""How often labels stay, for records so many that the bounds of all do not fit into memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from epsworth.files import replacing
from epsworth.numerals import short
from epsworth.results import json_form
from epsworth.threads import one_openmp_thread
from epsworth.utility.curve_parts import LABELS, RESULT, RIGHT, CurveParts, Source
from epsworth.utility.engines.checkpoint import OWNER_ONLY, Checkpoint, check_folder
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.pieces import Work, piece_size
from epsworth.utility.engines.run import READ, Answered, promised
from epsworth.utility.engines.run import run as solve
from epsworth.utility.pace import Pace
from epsworth.utility.problem import Problem
from epsworth.utility.run import Run, RunOptions
from epsworth.utility.tailored_policies import TailoredProblem


def stability_in_parts(problem: Problem | TailoredProblem, folder: str | Path, **run: Unpack[RunOptions]) -> CurveParts:
    """Do what `stability` does for every record, and leave the bounds in a folder.

    Claim: that of `stability` with ``over="records"``, and to the last bit its bounds on every record.

    Parameters
    ----------
    problem : Problem
        What is asked: `Problem.of` takes what `stability` takes, `problem_of_policy` what `stability_of_policy`
        takes; no tailored mechanism, and no policy that samples features.
    folder : path
        Made where it is not there.  It is a checkpoint, too: the same call goes on from what it holds, with any number
        of workers.  It is computed from raw data: keep it as you keep the table.
    **run : RunOptions
        As for `stability`, but for ``over`` and ``checkpoint``.

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
    >>> problem = ew.Problem.of(
    ...     lambda X: X[:, 0] <= 0.5, [[i / 999] for i in range(1000)], sensitive=0, mechanisms="krr:k=11", epsilons=[2]
    ... )
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = ew.stability_in_parts(problem, f"{place}/curves")
    ...     len(found), found.average().lower.round(3).item(), found.worst().lower.round(3).item()
    (16, 0.665, 0.288)
    """
    if not isinstance(problem, Problem):
        raise TypeError(
            f"problem must be what Problem.of or problem_of_policy returns, got {short(problem)}; "
            "a tailored policy is analysed for all records at once, by stability_of_policy"
        )
    if "over" in run or "checkpoint" in run:
        raise TypeError("parts hold every record, and their folder is the checkpoint; leave out over and checkpoint")
    if problem.words.tailored:
        raise ValueError("tailored mechanisms are built from all records at once; use stability")
    if problem.subsets:
        raise ValueError("a policy that samples features is analysed for all records at once; use stability_of_policy")
    run["over"] = "records"
    how = Run.of(**run)
    problem.check_unchanged()
    check_folder(folder, "folder")
    how.pace.progress(READ / 2)
    n, n_jobs = len(problem.records), how.n_jobs
    pieces = Checkpoint(folder, how.asked_in_files(problem), n, piece_size(n, n_jobs), how.settings.rng)
    _write_labels(pieces, problem)
    work = Work(n_jobs, pieces, filed=True)
    with one_openmp_thread():
        answered, _ = solve(problem, how.method, how.settings, "records", how.pace, work=work)
    parts = _parts_of(pieces, problem, answered, how.settings, how.pace)
    text = json.dumps(json_form(parts._head()), allow_nan=False)
    with replacing(pieces.path / RESULT, OWNER_ONLY) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return parts


def _write_labels(pieces: Checkpoint, problem: Problem) -> None:
    """Keep what parts need of the records beside the bounds: labels, and whether these are the true ones."""
    held = {LABELS: _plain(problem.labels)}
    if problem.y is not None:
        held[RIGHT] = np.asarray(problem.labels == problem.y)
    for name, array in held.items():
        with replacing(pieces.path / name, OWNER_ONLY) as temporary:
            np.save(temporary, array, allow_pickle=False)


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    plain = np.array(labels.tolist())
    if plain.dtype.hasobject or plain.tolist() != labels.tolist():
        raise ValueError("the labels are of several kinds, which a file does not hold; let the classifier answer texts")
    return plain


def _parts_of(pieces: Checkpoint, problem: Problem, answered: Answered, settings: Settings, pace: Pace) -> CurveParts:
    parts = CurveParts(
        folder=pieces.path,
        records=len(problem.records),
        size=pieces.size,
        tolerance=float(settings.tolerance),
        reveal=problem.reveal,
        sources=tuple(Source(part.mechanisms, part.engine.name, part.number) for part, _ in answered),
        digest=pieces.digest,
        with_accuracy=problem.y is not None,
        **promised(problem, answered, settings, pace),
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
