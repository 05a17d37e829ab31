"""A run: how sure, how narrow, until when, by how many workers, and where it is kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import numpy as np

from epsworth.arrays import Rng, generator
from epsworth.bounds import Risk
from epsworth.numerals import share, short
from epsworth.parallel import check_n_jobs
from epsworth.rounding import float_below
from epsworth.utility.curves import Curves
from epsworth.utility.deadline import Deadline, Watch, check_seconds
from epsworth.utility.engines.checkpoint import Checkpoint, check_folder, described
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.pieces import Work, piece_size
from epsworth.utility.engines.run import (
    READ,
    Answered,
    Method,
    assemble,
    average_comes_first,
    curves_of,
    known,
    methods,
    run,
)
from epsworth.utility.engines.sampled import Over
from epsworth.utility.problem import Problem
from epsworth.utility.quantities import Bounds
from epsworth.utility.tailored_policies import TailoredProblem, curves_of_policy, joined
from epsworth.utility.tailored_policies import curves_of as curves_of_tailored

DEPTH = 4  # frames from a warning about tailored mechanisms up to whoever asks `stability`
OVERS = ("auto", "records", "dataset")


class RunOptions(TypedDict, total=False):
    """Options of every door that bounds label stability.

    Attributes
    ----------
    method : str, default "auto"
        ``auto`` takes, per mechanism, the first engine that applies and is worth its cost, in the order of this list
        but for ``propagation``; any of them can be asked for by its word.  `Curves.method` and ``.notes`` say which
        answered and why.

        - ``label``, ``constant``: the label itself is randomised, or there is only one; closed forms.
        - ``grid``: exact for any classifier, while the mechanism's grid is small.
        - ``cells``: exact for tree models with up to three sensitive features.
        - ``branch_and_bound``: tree models with up to six; two-sided, certain unless some rest has to be sampled.
        - ``propagation``: networks (``MLPClassifier``, ``torch.nn.Sequential``) with up to five, likewise.
        - ``lattice``: a deterministic bracket for linear models with two classes.
        - ``polygons``: the same for more classes and up to two sensitive features.
        - ``rays``: unclipped noise on other linear models; one set of draws for all epsilons.
        - ``slabs``: a deterministic bracket for naive Bayes, quadratic discriminants, Gaussian mixtures, centroids
          and k-means with up to two sensitive features.
        - ``strata``: k-ary randomised response on anything; one set of draws for all epsilons.
        - ``sampled``: anything.
    confidence : float, default .999
        Probability, in (0, 1), that all bounds hold.
    tolerance : float, default .01
        Half-width of the intervals, in (0, 0.5); ``Curves.notes`` says where it is not met.
    at_least : float, optional
        A target such as 0.9: stop drawing a point as soon as its stability (and its accuracy, with ``y``) is
        decided, leaving its interval wide.
    over : {"auto", "records", "dataset"}
        ``records``: every record to the tolerance.  ``dataset``: the average by one interval and the worst
        case by elimination; records that cannot be the worst keep wider (still valid) bounds.  ``auto``:
        records, unless that could take more than 1e8 queries, or there is a deadline (``seconds``) and more than one.
    rng : numpy.random.Generator, int or None
        Randomness of the *analysis*; nothing here is a release.
    progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.
    seconds : float, optional
        Time after which the run ends with what is proven by then: valid bounds, wider than the tolerance where it was
        not finished, and 0 to 1 where it had not begun (``Curves.stopped``, and ``notes``).  Of all mechanisms for
        which anything is drawn the *average* over the records then comes first, by one interval per mechanism and
        epsilon, to the tolerance; only then the worst case, or record after record.  Not so with ``over="records"``,
        or where a checkpoint is of a run that began without a deadline.  Everything counts from the call on; looking
        into the classifier is not cut short, and a query that has begun is waited for (it is cut so as to take about a
        quarter of a second, or twice what a query costs whatever its size).
    watch : callable, optional
        Called between queries and records with the run's `RunState`: ``.done``, ``.seconds``, ``.average()``.  Where it
        returns True the run ends, as after ``seconds``; for whatever reason it does, all bounds hold.  Where there is a
        deadline too, the first averages are there within seconds.
    checkpoint : path, optional
        A folder that the run is kept in: a file for every piece of the records that is done, and what the others have,
        every half minute and whenever the run ends, by an exception too.  Where the folder is there, the run goes on
        from it, with any number of workers, to the bounds it would have had without a break.  It must belong to the
        same question.  It is computed from raw data: keep it as you keep the table.
    n_jobs : int, optional
        Workers that share the records, piece by piece; -1 for all cores.  None leaves it to ``joblib.parallel_config``,
        by default this process alone.  The bounds are the same to the last bit, whoever does which piece; ``queries``
        may differ, since workers do not share answers.  Average and worst case that are sampled over a whole dataset
        stay in this process, and so do tailored mechanisms.

    Examples
    --------
    >>> import epsworth as ew
    >>> quick: ew.RunOptions = {"tolerance": 0.05, "seconds": 20.0, "rng": 1}
    >>> curves = ew.stability(lambda X: X[:, 0] > 0.5, [[0.2]], sensitive=0, mechanisms="krr:k=3", **quick)
    >>> curves.stopped
    False
    """

    method: Method
    confidence: float
    tolerance: float
    at_least: float | None
    over: Over
    rng: Rng
    progress: Callable[[float], None] | None
    seconds: float | None
    watch: Watch | None
    checkpoint: str | Path | None
    n_jobs: int | None


@dataclass(frozen=True, eq=False)
class Run:
    """How an answer is sought, checked; it begins where it is made."""

    method: Method
    over: Over
    confidence: float
    settings: Settings
    deadline: Deadline
    checkpoint: str | Path | None
    n_jobs: int | None

    @classmethod
    def of(cls, **options: Unpack[RunOptions]) -> Self:
        """Check options, whatever is asked with them."""
        if unknown := set(options) - RunOptions.__annotations__.keys():
            known_ones = ", ".join(RunOptions.__annotations__)
            if "policy" in unknown:
                raise TypeError("a policy says itself what is perturbed: stability_of_policy(policy, classifier, X)")
            raise TypeError(f"there is no option {min(unknown)!r}; how a run goes is said by {known_ones}")
        deadline = Deadline(check_seconds(options.get("seconds")), options.get("watch"), options.get("progress"))
        method, over = options.get("method", "auto"), options.get("over", "auto")
        confidence, tolerance = options.get("confidence", 0.999), options.get("tolerance", 0.01)
        at_least, n_jobs, checkpoint = options.get("at_least"), options.get("n_jobs"), options.get("checkpoint")
        _check(method, confidence, tolerance, over, at_least)
        confidence, tolerance = float(confidence), float(tolerance)
        check_n_jobs(n_jobs)
        if checkpoint is not None:
            check_folder(checkpoint)
        settings = Settings(Risk.of(confidence), tolerance, at_least, generator(options.get("rng")), deadline.progress)
        return cls(method, over, confidence, settings, deadline, checkpoint, n_jobs)

    def curves(self, problem: Problem | TailoredProblem) -> Curves:
        """Run the engines, in a run that is kept where that is wished."""
        if isinstance(problem, TailoredProblem):
            self._keep_nothing("a tailored policy is analysed in one run")
            return curves_of_policy(problem, self.method, self.over, self.settings, self.deadline)
        if problem.subsets:
            self._keep_nothing("a policy that samples features is analysed in one run")
        if not problem.words.tailored:
            return self._of_features(problem)
        if self.method != "auto":
            raise ValueError(
                f"method={self.method!r} is for mechanisms per feature; ask about tailored ones with 'auto'"
            )
        self._keep_nothing("tailored mechanisms are built anew in every run")
        draws = np.random.default_rng(copy.deepcopy(self.settings.rng).integers(1 << 62))  # leaves the run's as it is
        began = self.deadline.clock() - self.deadline.began
        tailored = curves_of_tailored(problem, draws, self.settings.tolerance, began, depth=DEPTH)
        if not problem.words.others:
            self.deadline.progress(1.0)
            return tailored
        curves = self._of_features(problem)
        return joined(curves, replace(tailored, seconds=curves.seconds), problem.words.names)

    def _keep_nothing(self, why: str) -> None:
        if self.checkpoint is not None:
            raise ValueError(f"{why}; leave out the checkpoint")

    def _of_features(self, problem: Problem) -> Curves:
        self.deadline.progress(READ / 2)
        answered, chosen = self._answered(problem)
        return curves_of(problem, answered, assemble(problem, answered), chosen, self.settings, self.deadline)

    def bounds(self, problem: Problem) -> tuple[Bounds, float]:
        """Return the bounds on stability and what they spent of 1 - confidence, for questions built by hand."""
        answered, _ = self._answered(problem)
        result = assemble(problem, answered)
        return result.stability, float_below(result.spent)

    def asked_in_files(self, problem: Problem) -> dict[str, str]:
        """Return what must be the same where a run goes on from a file."""
        return described(
            problem, method=self.method, over=self.over, confidence=self.confidence,
            tolerance=self.settings.tolerance, at_least=self.settings.at_least,
        )  # fmt: skip

    def _answered(self, problem: Problem) -> tuple[Answered, str]:
        settings, n = self.settings, len(problem.records)
        if self.checkpoint is None:
            return run(problem, self.method, settings, self.over, self.deadline, Work(self.n_jobs))
        first = average_comes_first(problem, self.over, self.deadline)
        asked, size = self.asked_in_files(problem), piece_size(n, self.n_jobs)
        with Checkpoint(self.checkpoint, asked, n, size, settings.rng, average_first=first) as folder:
            return run(problem, self.method, settings, self.over, self.deadline, Work(self.n_jobs, folder))


def _check(method: Any, confidence: Any, tolerance: Any, over: Any, at_least: Any) -> None:
    """Check what does not depend on the records."""
    if not known(method):
        raise ValueError(f"method must be one of {', '.join(map(repr, methods()))}, got {short(method)}")
    for name, value in {"confidence": confidence, "tolerance": tolerance, "at_least": at_least}.items():
        if not isinstance(value, (float, int, np.floating)) and not (name == "at_least" and value is None):
            raise TypeError(f"{name} must be a number, got {short(value)}")
    share("confidence", confidence)
    if not 0 < tolerance < 0.5:
        raise ValueError(f"tolerance must lie strictly between 0 and 0.5, got {short(tolerance)}")
    if not isinstance(over, str) or over not in OVERS:
        raise ValueError(f"over must be 'auto', 'records' or 'dataset', got {short(over)}")
    if at_least is not None and not 0 < at_least <= 1:
        raise ValueError(f"at_least must lie in (0, 1], got {short(at_least)}")
