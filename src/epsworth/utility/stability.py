"""How often the label stays: `stability` chooses an engine for every mechanism and returns `Curves`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsworth.arrays import Rng, generator
from epsworth.bounds import Risk
from epsworth.deprecation import renamed
from epsworth.mechanisms.family import Build
from epsworth.release import Policy
from epsworth.rounding import float_below
from epsworth.space import Domain
from epsworth.utility.curves import Bounds, Curves
from epsworth.utility.engines.assembly import assemble, curves_of, run, with_published_claim
from epsworth.utility.engines.engine import Settings
from epsworth.utility.engines.plan import Method, known, methods
from epsworth.utility.engines.sampled import Over
from epsworth.utility.policies import ask_about
from epsworth.utility.question import Question, ask

DEFAULT_MECHANISMS = ("pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr")


@renamed(target="at_least")
def stability(
    model: Any,
    X: Any,
    *,
    sensitive: str | int | Sequence[str | int] | None = None,
    mechanisms: str | Iterable[str] | Mapping[str, Build] = DEFAULT_MECHANISMS,
    epsilons: ArrayLike | None = None,
    domain: Domain | Mapping[str | int, object] | str | Path | None = None,
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
        ``records -> labels``; deterministic.
    X : array_like of shape ``(n, d)``, data frame, or mapping from column names to columns
        Records in natural units.
    sensitive : str, int or sequence of them
        The features that users perturb, by name or by column of X, each independently with the same epsilon; the others
        stay.  Needed, like ``epsilons``, unless there is a policy.
    mechanisms : str, sequence of str, or mapping
        Words such as ``"pm"``, ``"krr:k=33"``, ``"pm:indicator=0.1"``, or name -> function of epsilon.
    epsilons : array_like, shape ``(m,)``
        Increasing privacy parameters *per feature*; the record's total is the sum over its features.
    domain : Domain, mapping or path, optional
        Public ranges of the sensitive features, ``{"age": (0, 100), "smoker": ["no", "yes"]}``, or a file that holds
        them; categories that are two numbers are written ``{"categories": [0, 1]}``.  Without it the features must lie
        on [0, 1].
    method : str
        ``auto`` takes, per mechanism, the first engine that applies and is worth its cost, in the order of this list
        but for ``propagation``; any of them can be asked for by its word.  `Curves.method` and ``.notes`` say which
        answered and why.

        - ``label``, ``constant``: the label itself is randomised, or there is only one; closed forms.
        - ``grid``: exact for any classifier, while the mechanism's grid is small.
        - ``cells``: exact for tree models with up to three sensitive features.
        - ``branch_and_bound``: tree models with up to six; two-sided, the undecided rest is sampled.
        - ``propagation``: networks (``MLPClassifier``, ``torch.nn.Sequential``) with up to five, likewise.
        - ``lattice``: a deterministic bracket for linear models with two classes.
        - ``polygons``: the same for more classes and up to two sensitive features.
        - ``rays``: unclipped noise on other linear models; one set of draws for all epsilons.
        - ``slabs``: a deterministic bracket for naive Bayes, quadratic discriminants, Gaussian mixtures, centroids
          and k-means with up to two sensitive features.
        - ``strata``: k-ary randomised response on anything; one set of draws for all epsilons.
        - ``sampled``: anything.

        ``paper`` reproduces the published box search: a heuristic (``sound`` is False), with the bounds of ``auto``
        beside it as ``Curves.check``.
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
        records, unless that could take more than 1e8 queries.
    at_least : float, optional
        A target such as 0.9: stop drawing a point as soon as its stability (and its accuracy, with ``y``) is
        decided, leaving its interval wide.
    quantise : int, optional
        Round every continuous output to this many grid points.  It is another mechanism with the same
        promise, and exactly answerable for any classifier.
    policy : Policy or path, optional
        Analyse what clients release under a policy: its features, mechanisms and epsilons, missing and undeclared
        values and ``[sample]`` as it says, in the very integers and doubles that leave.  In place of ``sensitive``,
        ``mechanisms``, ``epsilons``, ``domain`` and ``quantise``; the one epsilon of the result is per *record*.
    progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    Curves

    Examples
    --------
    >>> import numpy as np
    >>> at_most_half = lambda records: records[:, 0] <= 0.5
    >>> curves = stability(at_most_half, [[0.2]], sensitive=0, mechanisms="krr:k=11", epsilons=[2.0], rng=1)
    >>> truth = (6 + np.e**2 - 1) / (10 + np.e**2)  # six of eleven grid points, the true one among them
    >>> bool(curves.lower.item() <= truth <= curves.upper.item()), curves.method.item()
    (True, 'grid')

    References
    ----------
    Zheng & Hu 2025 state the question; Clopper & Pearson 1934 give the interval.
    """
    began = time.perf_counter()
    _check(method, confidence, tolerance, over, at_least)
    random = generator(rng)
    if policy is not None:
        own = None if mechanisms is DEFAULT_MECHANISMS else mechanisms
        _check_alone(
            {"sensitive": sensitive, "mechanisms": own, "epsilons": epsilons, "domain": domain, "quantise": quantise}
        )
        if method == "paper":
            raise ValueError("method='paper' knows no policy; leave it out")
        question = ask_about(policy, model, X, y=y)
    elif sensitive is None or epsilons is None:
        missing = "sensitive" if sensitive is None else "epsilons"
        raise TypeError(f"{missing} is missing; give both sensitive= and epsilons=, or a policy=")
    else:
        question = ask(
            model, X, sensitive=sensitive, mechanisms=mechanisms, epsilons=epsilons, domain=domain, y=y,
            quantise=quantise,
        )  # fmt: skip
    settings = Settings(Risk.of(confidence), tolerance, at_least, random, progress or (lambda share: None))
    answered, chosen = run(question, method, settings, over)
    curves = curves_of(question, answered, assemble(question, answered), chosen, settings, time.perf_counter() - began)
    return with_published_claim(question, curves, settings, began) if method == "paper" else curves


def answer_question(
    question: Question, method: Method, confidence: float, tolerance: float, rng: np.random.Generator
) -> tuple[Bounds, float]:
    """Return the bounds on stability and what they spent of 1 - confidence, for questions that were built by hand."""
    settings = Settings(Risk.of(confidence), tolerance, None, rng, lambda share: None)
    found = assemble(question, run(question, method, settings, "auto")[0])
    return found.stability, float_below(found.spent)


def _check_alone(given: Mapping[str, object]) -> None:
    """Refuse what a policy says already."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is given beside a policy, which says its own; leave {name} out, or the policy")


def _check(method: str, confidence: float, tolerance: float, over: str, at_least: float | None) -> None:
    if not known(method):
        raise ValueError(f"method must be one of {', '.join(map(repr, methods()))}, got {method!r}")
    for name, value in {"confidence": confidence, "tolerance": tolerance, "at_least": at_least or 0.5}.items():
        if not isinstance(value, (float, int, np.floating)):
            raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    if not 0 < tolerance < 0.5:
        raise ValueError(f"tolerance must lie strictly between 0 and 0.5, got {tolerance!r}")
    if over not in ("auto", "records", "dataset"):
        raise ValueError(f"over must be 'auto', 'records' or 'dataset', got {over!r}")
    if at_least is not None and not 0 < at_least <= 1:
        raise ValueError(f"at_least must lie in (0, 1], got {at_least!r}")


__all__ = ["DEFAULT_MECHANISMS", "Method", "answer_question", "stability"]
