"""Engines that bound Pr[label stays], and `stability`, which chooses one and returns `Curves`.

``question``  the user's question, checked once
``plan``      which engine answers for which mechanism, and why
``exact``     laws over all epsilons, contraction of decision tables
``cells``     exact: tree models, up to three sensitive features
``grid``      exact: any classifier, mechanisms whose outputs lie on a grid
``linear``    deterministic bracket: binary linear models
``branching`` tree models with four to six: branch and bound, the rest by conditional sampling
``shared``    k-ary randomised response on black boxes: one set of draws for all epsilons
``sampled``   Monte Carlo with exact intervals: any classifier
``published`` the paper's box search, for comparison: a heuristic
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Floats
from epsworth.bounds import Interval, draws_needed
from epsworth.curves import Bounds, Curves
from epsworth.engines.plan import Method, Part, Planner
from epsworth.engines.published import published
from epsworth.engines.question import Question, ask
from epsworth.engines.sampled import Answer, Settings, each_record, whole_dataset
from epsworth.mechanisms.family import Build
from epsworth.space import Domain

Answered = list[tuple[Part, Answer]]

DEFAULT_MECHANISMS = ("pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr")
MOST_QUERIES_PER_RECORD_MODE = 100_000_000

Over = Literal["auto", "records", "dataset"]


def stability(
    model: Any,
    X: Any,
    *,
    sensitive: str | int | Sequence[str | int],
    mechanisms: str | Iterable[str] | Mapping[str, Build] = DEFAULT_MECHANISMS,
    epsilons: ArrayLike,
    domain: Domain | Mapping[str | int, object] | str | Path | None = None,
    method: Method = "auto",
    confidence: float = 0.999,
    tolerance: float = 0.01,
    rng: np.random.Generator | int | None = None,
    y: ArrayLike | None = None,
    over: Over = "auto",
    target: float | None = None,
    quantise: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Curves:
    """Bound the probability that a classifier keeps its label when users perturb their features.

    Claim: with probability at least ``confidence`` over our own draws, *all* bounds of the result hold
    together: ``lower <= Pr[h(M(x)) = h(x)] <= upper`` for every mechanism, epsilon and record, and for
    the average and the worst case over the records.  Where only exact engines answer there are no draws:
    the bounds hold with certainty, and ``Curves.confidence`` is 1.

    Parameters
    ----------
    model : classifier
        Fitted scikit-learn classifier or pipeline, or a function ``records -> labels``; deterministic.
    X : array_like of shape ``(n, d)`` or data frame
        Records in natural units.
    sensitive : str, int or sequence of them
        The features that users perturb, by name or by column of X, each independently with the same epsilon;
        the others stay.
    mechanisms : str, sequence of str, or mapping
        Words such as ``"pm"``, ``"krr:k=33"``, ``"pm:indicator=0.1"``, or name -> function of epsilon.
    epsilons : array_like, shape ``(m,)``
        Increasing privacy parameters *per feature*; the record's total is the sum over its features.
    domain : Domain, mapping or path, optional
        Public ranges of the sensitive features, ``{"age": (0, 100)}``, or a file that holds them.  Without it
        they must lie on [0, 1].
    method : {"auto", "cells", "linear", "grid", "sampled", "paper"}
        ``auto`` takes, per mechanism, the first that applies: ``grid`` (exact for any classifier, while the
        grid is small), ``cells`` (exact for tree models with up to three sensitive features), ``linear``
        (a deterministic bracket for binary linear models), ``sampled``.  ``Curves.method`` and ``.notes``
        say which and why.  ``paper`` reproduces the published box search: a heuristic (``sound`` is False),
        with the bounds of ``auto`` beside it as ``Curves.check``.
    confidence : float
        Probability, in (0, 1), that all bounds hold.
    tolerance : float
        Half-width of the intervals, in (0, 0.5).
    rng : numpy.random.Generator or int, optional
        Randomness of the *analysis*; nothing here is a release.
    y : array_like, shape ``(n,)``, optional
        True labels: the result then bounds the accuracy too.
    over : {"auto", "records", "dataset"}
        ``records``: every record to the tolerance.  ``dataset``: the average by one interval and the worst
        case by elimination; records that cannot be the worst keep wider (still valid) bounds.  ``auto``:
        records, unless that could take more than 1e8 queries.
    target : float, optional
        A wish such as 0.9: stop drawing a point as soon as its stability (and its accuracy, with ``y``) is
        decided, leaving its interval wide.
    quantise : int, optional
        Round every continuous output to this many grid points.  It is another mechanism with the same
        promise, and exactly answerable for any classifier.
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
    (True, 'exact-grid')

    References
    ----------
    Zheng & Hu 2025 state the question; Clopper & Pearson 1934 give the interval.
    """
    began = time.perf_counter()
    _check(method, confidence, tolerance, over, target)
    generator = _generator(rng)
    question = ask(
        model, X, sensitive=sensitive, mechanisms=mechanisms, epsilons=epsilons, domain=domain, y=y, quantise=quantise
    )
    settings = Settings(
        miss=1 - confidence,
        tolerance=tolerance,
        target=target,
        rng=generator,
        progress=progress or (lambda share: None),
    )
    answered, chosen = _run(question, Planner(question, _sound(method)).parts(), settings, over)
    found = _assemble(question, answered)
    curves = _curves(question, answered, found, chosen, settings, time.perf_counter() - began)
    return _as_published(question, curves, settings, began) if method == "paper" else curves


def answer_question(
    question: Question, method: Method, confidence: float, tolerance: float, rng: np.random.Generator
) -> tuple[Bounds, float]:
    """Return the bounds on stability and their confidence, for questions that were built by hand."""
    settings = Settings(1 - confidence, tolerance, None, rng, lambda share: None)
    answered, _ = _run(question, Planner(question, method).parts(), settings, "auto")
    return _assemble(question, answered).stability, confidence if _drew(answered) else 1.0


def _sound(method: Method) -> Method:
    return "auto" if method == "paper" else method


def _drew(answered: Answered) -> bool:
    return any(part.draws for part, _ in answered)


def _curves(
    question: Question, answered: Answered, found: Answer, over: str, settings: Settings, seconds: float
) -> Curves:
    return Curves(
        mechanisms=question.names,
        epsilons=question.epsilons,
        features=tuple(feature.name for feature in question.features),
        stability=_with_coin(found.stability, question, np.ones(len(question.records))),
        accuracy=_accuracy(found, question),
        guarantees=tuple(tuple(release.guarantee for release in row) for row in question.releases),
        tight_epsilons=np.array([[release.tight_epsilon for release in row] for row in question.releases]),
        labels=question.labels,
        labels_possible=found.labels_possible,
        method=_methods(question, answered),
        over=over,
        confidence=1 - settings.miss if _drew(answered) else 1.0,
        tolerance=float(settings.tolerance),
        queries=found.queries + question.asked,
        seconds=seconds,
        notes=(*question.notes, *_reasons(question, answered)),
    )


def _as_published(question: Question, curves: Curves, settings: Settings, began: float) -> Curves:
    """Put the published claim in place of the bounds, which stay beside it as ``check``."""
    if any(not release.mechanisms for row in question.releases for release in row):
        raise ValueError("method='paper' knows no label_rr; leave it out")
    found, _ = published(question, settings.rng, settings.progress)
    claim = _with_coin(found.stability, question, np.ones(len(question.records)))
    above = int((claim.lower > curves.upper).sum())
    heuristic = (
        f"the published box search is a heuristic, not a guarantee: {above} of {claim.lower.size} claims lie above "
        "the upper bound of the direct check"
    )
    return replace(
        curves,
        stability=claim,
        accuracy=None,
        check=curves.stability,
        method=np.full(curves.method.shape, "paper"),
        queries=curves.queries + found.queries,
        seconds=time.perf_counter() - began,
        notes=(*question.notes, heuristic),
        sound=False,
    )


def _run(question: Question, parts: list[Part], settings: Settings, over: Over) -> tuple[Answered, str]:
    """Run every part; one that turns out too large for its exact engine is sampled with the rest."""
    answered: Answered = []
    left: list[int] = []
    weight, draws = 1 / len(parts), max(1, sum(part.draws for part in parts))
    for number, part in enumerate(parts):
        if part.run is None:
            left += part.mechanisms
            continue
        share = _share(settings.progress, number * weight, weight)
        answer = part.run(question.only(part.mechanisms), replace(settings, progress=share, miss=settings.miss / draws))
        if answer is None:
            left += part.mechanisms
        else:
            answered.append((part, answer))
    if not left:
        settings.progress(1.0)
        return answered, "records"
    rest = question.only(left)
    share = _share(settings.progress, len(answered) * weight, 1 - len(answered) * weight)
    settings = replace(settings, progress=share, miss=settings.miss / draws)
    chosen = _over(rest, settings) if over == "auto" else over
    answer = each_record(rest, settings) if chosen == "records" else whole_dataset(rest, settings)
    answered.append((Part(tuple(left), "monte-carlo", "no exact engine applies", None), answer))
    return answered, chosen


def _share(progress: Callable[[float], None], start: float, size: float) -> Callable[[float], None]:
    return lambda done: progress(min(1.0, start + size * done))


def _assemble(question: Question, answered: Answered) -> Answer:
    """Put the parts' bounds back in the order of the mechanisms."""
    return Answer(
        _joined(question, [(part, answer.stability) for part, answer in answered]),
        None
        if question.y is None
        else _joined(question, [(part, answer.accuracy) for part, answer in answered if answer.accuracy is not None]),
        np.max([answer.labels_possible for _, answer in answered], axis=0),
        sum(answer.queries for _, answer in answered),
    )


def _joined(question: Question, parts: list[tuple[Part, Bounds]]) -> Bounds:
    lower, upper = np.empty(question.shape), np.empty(question.shape)
    pooled = Interval(np.empty(question.shape[:2]), np.empty(question.shape[:2]))
    for part, bounds in parts:
        at = list(part.mechanisms)
        lower[at], upper[at] = bounds.lower, bounds.upper
        pooled.lower[at], pooled.upper[at] = bounds.average()
    return Bounds(lower, upper, pooled)


def _methods(question: Question, answered: Answered) -> NDArray[np.str_]:
    methods = np.empty((len(question.names), len(question.records)), dtype="<U16")
    for part, _ in answered:
        methods[list(part.mechanisms)] = part.name
    return methods


def _reasons(question: Question, answered: Answered) -> list[str]:
    return [
        f"{part.name} for {', '.join(question.names[m] for m in part.mechanisms)}: {part.why}" for part, _ in answered
    ]


def _check(method: str, confidence: float, tolerance: float, over: str, target: float | None) -> None:
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(map(repr, get_args(Method)))}, got {method!r}")
    for name, value in {"confidence": confidence, "tolerance": tolerance, "target": target or 0.5}.items():
        if not isinstance(value, (float, int, np.floating)):
            raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    if not 0 < tolerance < 0.5:
        raise ValueError(f"tolerance must lie strictly between 0 and 0.5, got {tolerance!r}")
    if over not in ("auto", "records", "dataset"):
        raise ValueError(f"over must be 'auto', 'records' or 'dataset', got {over!r}")
    if target is not None and not 0 < target <= 1:
        raise ValueError(f"target must lie in (0, 1], got {target!r}")


def _generator(rng: np.random.Generator | int | None) -> np.random.Generator:
    if isinstance(rng, (int, np.integer)) and rng < 0:
        raise ValueError(f"a seed must not be negative, got {rng}")
    return np.random.default_rng(rng)


def _over(question: Question, settings: Settings) -> Literal["records", "dataset"]:
    points = int(np.prod(question.shape))
    most = points * draws_needed(settings.tolerance, settings.miss / points)
    return "records" if len(question.records) == 1 or most <= MOST_QUERIES_PER_RECORD_MODE else "dataset"


def _accuracy(found: Answer, question: Question) -> Bounds | None:
    if found.accuracy is None or question.y is None:
        return None
    return _with_coin(found.accuracy, question, (question.labels == question.y).astype(np.float64))


def _with_coin(bounds: Bounds, question: Question, raw: Floats) -> Bounds:
    """Account for the privacy indicator: with probability ``reveal`` the raw record is asked about."""
    reveal = np.array([[release.reveal for release in row] for row in question.releases])
    if not reveal.any():
        return bounds
    each = reveal[:, :, np.newaxis]
    lower, upper = (each * raw + (1 - each) * side for side in (bounds.lower, bounds.upper))
    if bounds.pooled is None:
        return Bounds(lower, upper)
    pooled = Interval(*(reveal * raw.mean() + (1 - reveal) * side for side in bounds.pooled))
    return Bounds(lower, upper, pooled)


__all__ = ["DEFAULT_MECHANISMS", "Method", "answer_question", "stability"]
