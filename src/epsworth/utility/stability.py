"""How often the label stays: `stability` chooses an engine for every mechanism and returns `Curves`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Rng, generator
from epsworth.bounds import Risk
from epsworth.guarantees import Unit
from epsworth.mechanisms.family import Build
from epsworth.numerals import share, short
from epsworth.parallel import check_n_jobs
from epsworth.release import Policy
from epsworth.release.given import as_policy
from epsworth.rounding import float_below
from epsworth.space import Ranges
from epsworth.threads import one_openmp_thread
from epsworth.utility.curves import Curves
from epsworth.utility.engines.checkpoint import Checkpoint, check_folder
from epsworth.utility.engines.digests import described
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.pieces import Work, piece_size
from epsworth.utility.engines.results import assemble, curves_of
from epsworth.utility.engines.run import READ, average_comes_first, run
from epsworth.utility.engines.sampled import Over
from epsworth.utility.engines.table import Method, known, methods
from epsworth.utility.pace import Pace, Watch, check_seconds
from epsworth.utility.policies import ask_about
from epsworth.utility.quantities import Bounds
from epsworth.utility.question import Question, ask
from epsworth.utility.tailored_beside import Asked, joined, rows_of, warn_public
from epsworth.utility.tailored_beside import alone as by_itself
from epsworth.utility.tailored_policies import kept_under

DEPTH = 3  # frames from a warning of `stability` up to whoever asks it
DEFAULT_EPSILONS = (0.5, 1, 2, 3, 4, 6, 8)  # of the record: certainty of 62 to 99.97 % about it
DEFAULT_MECHANISMS = ("pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr")


def stability(
    model: Any,
    X: Any,
    *,
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
    over: Over = "auto",
    at_least: float | None = None,
    quantise: int | None = None,
    policy: Policy | str | Path | None = None,
    progress: Callable[[float], None] | None = None,
    seconds: float | None = None,
    watch: Watch | None = None,
    checkpoint: str | Path | None = None,
    n_jobs: int | None = None,
) -> Curves:
    """Bound the probability that a classifier keeps its label when users perturb their features.

    Claim: with probability at least ``confidence`` over our own draws, *all* bounds of the result hold
    together: ``lower <= Pr[h(M(x)) = h(x)] <= upper`` for every mechanism, epsilon and record, and for
    the average and the worst case over the records.  Where nothing is drawn, because exact engines answer,
    the bounds hold with certainty, and ``Curves.confidence`` is 1.

    Parameters
    ----------
    model : classifier
        Fitted scikit-learn classifier or pipeline, PyTorch module in evaluation mode, or a function
        ``records -> labels``; deterministic.  It is asked on one OpenMP thread; ``n_jobs`` uses more cores.
    X : array_like of shape ``(n, d)``, data frame, or mapping from column names to columns
        Records in natural units.
    sensitive : str, int or sequence of them
        The features that users perturb, by name or by column of X, each independently with the same epsilon; the others
        stay.  Needed unless there is a policy.
    mechanisms : str, sequence of str, or mapping
        Words such as ``"pm"``, ``"krr:k=33"``, ``"pm:indicator=0.1"``, or name -> function of epsilon.  ``"tailored"``
        (``"tailored:wish=average"``; options ``wish``, ``surrogate``, ``cells``, ``fidelity``) is what `tailor` would
        make of these very records, at the same epsilon *per record*: X, y and the classifier are then taken for
        public (`LeakWarning`), and nothing follows for a population.
    epsilons : array_like, shape ``(m,)``
        Increasing privacy parameters of the whole *record*, which its sensitive features share evenly; by default .5,
        1, 2, 3, 4, 6 and 8.
    per : {"record", "feature"}
        With ``"feature"`` each feature has the epsilons itself, and the record's are their sums.
    domain : Domain, mapping or path, optional
        Public ranges of the sensitive features, ``{"age": (0, 100), "smoker": ["no", "yes"]}``, or a file that holds
        them; categories that are two numbers are written ``{"categories": [0, 1]}``.  ``{"bmi": {"lower": 15, "upper":
        60, "missing": 27}}`` also says what a gap is perturbed as (the label to be kept is that of the record with its
        gap), and ``"integer": True`` that outputs are rounded to whole numbers.  Without a domain the features must lie
        on [0, 1].
    method : str
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
    confidence : float
        Probability, in (0, 1), that all bounds hold.
    tolerance : float
        Half-width of the intervals, in (0, 0.5); ``Curves.notes`` says where it is not met.
    rng : numpy.random.Generator, int or None
        Randomness of the *analysis*; nothing here is a release.
    y : array_like, shape ``(n,)``, optional
        True labels: the result then bounds the accuracy too.
    over : {"auto", "records", "dataset"}
        ``records``: every record to the tolerance.  ``dataset``: the average by one interval and the worst
        case by elimination; records that cannot be the worst keep wider (still valid) bounds.  ``auto``:
        records, unless that could take more than 1e8 queries, or there is a deadline (``seconds``) and more than one.
    at_least : float, optional
        A target such as 0.9: stop drawing a point as soon as its stability (and its accuracy, with ``y``) is
        decided, leaving its interval wide.
    quantise : int, optional
        Round every continuous output to this many grid points.  It is another mechanism with the same
        promise, and exactly answerable for any classifier.
    policy : Policy or path, optional
        Analyse what clients release under a policy: its features, mechanisms and epsilons, missing and undeclared
        values and ``[sample]`` as it says, in the very integers and doubles that leave.  In place of ``sensitive``,
        ``mechanisms``, ``epsilons``, ``domain`` and ``quantise``; the one epsilon of the result is per *record*.  A
        tailored policy is enumerated, exactly, unless rules release some columns first: then releases are sampled.
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
        Called between queries and records with the run's `Standing`: ``.done``, ``.seconds``, ``.average()``.  Where it
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

    Returns
    -------
    Curves

    Raises
    ------
    ValueError
        For values outside the declared ranges, by row; for gaps that nothing stands for; for options that do not fit
        one another.
    TypeError
        For a model that neither predicts nor is a function.
    ClassifierError
        Where the classifier fails, or answers something that is no label.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth import stability
    >>> at_most_half = lambda records: records[:, 0] <= 0.5
    >>> curves = stability(at_most_half, [[0.2]], sensitive=0, mechanisms="krr:k=11", epsilons=[2.0], rng=1)
    >>> truth = (6 + np.e**2 - 1) / (10 + np.e**2)  # six of eleven grid points, the true one among them
    >>> bool(curves.lower.item() <= truth <= curves.upper.item()), curves.method.item()
    (True, 'grid')

    References
    ----------
    Zheng & Hu 2025 state the question; Clopper & Pearson 1934 give the interval.
    """
    pace = Pace(check_seconds(seconds), watch, progress)
    check_options(method, confidence, tolerance, over, at_least)
    check_n_jobs(n_jobs)
    if checkpoint is not None:
        check_folder(checkpoint)
    random, apart = generator(rng), Asked.of(mechanisms)
    settings = Settings(Risk.of(confidence), tolerance, at_least, random, pace.progress)
    how = _How(method, over, confidence, settings, pace, checkpoint, n_jobs)
    with one_openmp_thread():  # around whatever is asked of the classifier
        if policy is not None:
            own = None if mechanisms is DEFAULT_MECHANISMS else mechanisms
            check_beside_policy(
                {"sensitive": sensitive, "mechanisms": own, "epsilons": epsilons, "domain": domain,
                 "quantise": quantise}
            )  # fmt: skip
            return how.under(as_policy(policy), model, X, y)
        if sensitive is None:
            raise TypeError("sensitive is missing; name the features that users perturb, or give a policy=")
        question = ask(
            model, X, sensitive=sensitive, mechanisms=apart.to_check, domain=domain, y=y, quantise=quantise, per=per,
            epsilons=DEFAULT_EPSILONS if epsilons is None else epsilons,
        )  # fmt: skip
        if not apart.tailored:
            return how.answer(question)
        apart.check(method, checkpoint)
        warn_public(depth=DEPTH)
        made = rows_of(apart, question, model, X, sensitive=sensitive, domain=domain, rng=_apart(random))
        tailored = by_itself(question, made, tolerance, pace.clock() - pace.began)
        if not apart.others:
            pace.progress(1.0)
            return tailored
        curves = how.answer(question)
        return joined(curves, replace(tailored, seconds=curves.seconds), apart.names)


@dataclass(frozen=True)
class _How:
    """How a question is answered, whatever it asks."""

    method: Method
    over: Over
    confidence: float
    settings: Settings
    pace: Pace
    checkpoint: str | Path | None
    n_jobs: int | None

    def answer(self, question: Question) -> Curves:
        """Run the engines, in a run that is kept where that is wished."""
        settings, pace = self.settings, self.pace
        pace.progress(READ / 2)
        asked = {} if self.checkpoint is None else described(
            question, method=self.method, over=self.over, confidence=self.confidence,
            tolerance=settings.tolerance, at_least=settings.at_least,
        )  # fmt: skip
        first = average_comes_first(question, self.over, pace)
        with _work(self.checkpoint, asked, question, settings.rng, self.n_jobs, average_first=first) as work:
            answered, chosen = run(question, self.method, settings, self.over, pace, work)
        return curves_of(question, answered, assemble(question, answered), chosen, settings, pace)

    def under(self, policy: Policy, model: Any, X: Any, y: ArrayLike | None) -> Curves:
        """Answer what clients release under a policy."""
        if policy.tailoring is not None:
            if self.checkpoint is not None:
                raise ValueError("a tailored policy is analysed in one run; leave out the checkpoint")
            return kept_under(
                policy, model, X, y=y, method=self.method, over=self.over, settings=self.settings, pace=self.pace
            )
        question = ask_about(policy, model, X, y=y)
        if question.subsets and self.checkpoint is not None:
            raise ValueError("a policy that samples features is analysed in one run; leave out the checkpoint")
        return self.answer(question)


def _apart(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator of its own, which leaves the other one's draws as they are."""
    return np.random.default_rng(copy.deepcopy(rng).integers(1 << 62))


@contextmanager
def _work(
    checkpoint: str | Path | None, asked: Mapping[str, str], question: Question, rng: np.random.Generator,
    n_jobs: int | None, *, average_first: bool,
) -> Iterator[Work]:  # fmt: skip
    """Yield who does the work, and the folder in which the run is kept, where that is wished."""
    if checkpoint is None:
        yield Work(n_jobs)
        return
    n = len(question.records)
    with Checkpoint(checkpoint, asked, n, piece_size(n, n_jobs), rng, average_first=average_first) as folder:
        yield Work(n_jobs, folder)


def answer_question(
    question: Question,
    method: Method,
    confidence: float,
    tolerance: float,
    rng: np.random.Generator,
    *,
    n_jobs: int | None = None,
    checkpoint: Path | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[Bounds, float]:
    """Return the bounds on stability and what they spent of 1 - confidence, for questions that were built by hand."""
    settings = Settings(Risk.of(confidence), tolerance, None, rng, progress)
    asked = {} if checkpoint is None else described(question, method=method, confidence=confidence, tolerance=tolerance)
    with _work(checkpoint, asked, question, rng, n_jobs, average_first=False) as work:
        answered, _ = run(question, method, settings, "auto", work=work)
    found = assemble(question, answered)
    return found.stability, float_below(found.spent)


def check_beside_policy(given: Mapping[str, object]) -> None:
    """Refuse what a policy says already."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is given beside a policy, which says its own; leave {name} out, or the policy")


def check_options(method: str, confidence: float, tolerance: float, over: str, at_least: float | None) -> None:
    """Check what does not depend on the records."""
    if not known(method):
        raise ValueError(f"method must be one of {', '.join(map(repr, methods()))}, got {short(method)}")
    for name, value in {"confidence": confidence, "tolerance": tolerance, "at_least": at_least}.items():
        if not isinstance(value, (float, int, np.floating)) and not (name == "at_least" and value is None):
            raise TypeError(f"{name} must be a number, got {short(value)}")
    share("confidence", confidence)
    if not 0 < tolerance < 0.5:
        raise ValueError(f"tolerance must lie strictly between 0 and 0.5, got {short(tolerance)}")
    if not isinstance(over, str) or over not in ("auto", "records", "dataset"):
        raise ValueError(f"over must be 'auto', 'records' or 'dataset', got {short(over)}")
    if at_least is not None and not 0 < at_least <= 1:
        raise ValueError(f"at_least must lie in (0, 1], got {short(at_least)}")


__all__ = ["DEFAULT_MECHANISMS", "Method", "answer_question", "stability"]
