"""How often the label stays: `stability` and `stability_of_policy` choose engines and return `Curves`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from epsworth.guarantees import Unit
from epsworth.mechanisms.family import Build
from epsworth.policy import Policy
from epsworth.policy.policy import as_policy
from epsworth.space import Ranges
from epsworth.threads import one_openmp_thread
from epsworth.utility.curves import Curves
from epsworth.utility.policies import problem_of
from epsworth.utility.problem import DEFAULT_EPSILONS, DEFAULT_MECHANISMS, Problem
from epsworth.utility.run import Run, RunOptions
from epsworth.utility.tailored_policies import TailoredProblem


def stability(
    model: Any,
    X: Any,
    *,
    sensitive: str | int | Sequence[str | int],
    mechanisms: str | Iterable[str] | Mapping[str, Build] = DEFAULT_MECHANISMS,
    epsilons: ArrayLike = DEFAULT_EPSILONS,
    per: Unit = "record",
    domain: Ranges | None = None,
    y: ArrayLike | None = None,
    quantise: int | None = None,
    **run: Unpack[RunOptions],
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
        stay.
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
    y : array_like, shape ``(n,)``, optional
        True labels: the result then bounds the accuracy too.
    quantise : int, optional
        Round every continuous output to this many grid points.  It is another mechanism with the same
        promise, and exactly answerable for any classifier.
    **run : RunOptions
        How the answer is sought: ``confidence`` (.999) and ``tolerance`` (.01), ``method``, ``over``, ``at_least``,
        ``rng``, ``seconds``, ``watch``, ``progress``, ``checkpoint``, ``n_jobs``; see `RunOptions`.

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
    how = Run.of(**run)
    with one_openmp_thread():  # around whatever is asked of the classifier
        problem = Problem.of(
            model, X, sensitive=sensitive, mechanisms=mechanisms, epsilons=epsilons, per=per, domain=domain, y=y,
            quantise=quantise,
        )  # fmt: skip
        return how.curves(problem)


def stability_of_policy(
    policy: Policy | str | Path, model: Any, X: Any, *, y: ArrayLike | None = None, **run: Unpack[RunOptions]
) -> Curves:
    """Bound the probability that a classifier keeps its label when clients release records under a policy.

    Claim: that of `stability`, for what clients release: the policy's features, mechanisms and epsilons, missing and
    undeclared values and ``[sample]`` as it says, in the very integers and doubles that leave.  A tailored policy is
    enumerated, exactly, unless rules release some columns first: then releases are sampled.

    Parameters
    ----------
    policy : Policy or path
        Its total is the one epsilon of the result, per *record*.
    model, X, y
        As for `stability`.
    **run : RunOptions
        How the answer is sought, as for `stability`; no checkpoint where the policy is tailored or samples features.

    Returns
    -------
    Curves
        With the one mechanism ``"policy"``.

    Raises
    ------
    ValueError
        For a policy of columns that the table lacks or the classifier does not read; and whatever `stability` raises.

    Examples
    --------
    >>> import epsworth as ew
    >>> policy = ew.Policy.of("krr", 2, {"x0": ["low", "high"]})
    >>> curves = ew.stability_of_policy(policy, lambda X: X["x0"] == "high", {"x0": ["low", "high"]})
    >>> curves.average().lower.round(3).item()  # e^2 / (1 + e^2)
    0.881
    """
    how = Run.of(**run)
    with one_openmp_thread():
        return how.curves(problem_of_policy(policy, model, X, y=y))


def problem_of_policy(
    policy: Policy | str | Path, model: Any, X: Any, *, y: ArrayLike | None = None
) -> Problem | TailoredProblem:
    """Check what is asked about a policy, once.

    Parameters
    ----------
    policy, model, X, y
        As for `stability_of_policy`.

    Returns
    -------
    Problem or TailoredProblem
        Columns of a tailored policy are released together: of it the question is of another kind.

    Raises
    ------
    ValueError
        As of `stability_of_policy`.

    Examples
    --------
    >>> import epsworth as ew
    >>> policy = ew.Policy.of("krr", 2, {"x0": ["low", "high"]})
    >>> ew.problem_of_policy(policy, lambda X: X["x0"] == "high", {"x0": ["low", "high"]}).shape
    (1, 1, 2)
    """
    policy = as_policy(policy)
    return (problem_of if policy.tailoring is None else TailoredProblem.of)(policy, model, X, y)


__all__ = ["problem_of_policy", "stability", "stability_of_policy"]
