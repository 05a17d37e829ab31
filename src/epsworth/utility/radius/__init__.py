"""How far can one record move before its label can change? `radius` answers with a two-sided `Radius`.

``bracket``    what is proven by now, and whether the run must end
``question``   the user's question, checked once, and the classifier that has the last word
``linear``     exact: hyperplanes, centroids and k-means among them, by the dual norm
``quadratic``  quadrics: duality in norm 2, closed form or boxes in norm inf
``trees``      one tree exactly; sums of trees on all cells, where these are few
``search``     sums of trees by boxes of cells, the most promising first
``networks``   ReLU networks in norm inf, by mixed-integer programming
``sampled``    any classifier: the nearest flip seen, and a ball that hardly ever flips
``boxes``      a search that all continuous bounds share
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsworth.arrays import Floats, Rng, generator
from epsworth.bounds import Risk, check_spent
from epsworth.numerals import share, whole
from epsworth.results import Result, how_sure
from epsworth.rounding import float_below, show_down, show_up
from epsworth.utility.deadline import Stopped, check_seconds
from epsworth.utility.radius.networks import network_radius
from epsworth.utility.radius.quadratic import linear_radius, quadratic_radius
from epsworth.utility.radius.question import RadiusQuestion, RadiusResult, Tightening, Watch, ask
from epsworth.utility.radius.sampled import kept_flip, nearest_flip, tested_radius
from epsworth.utility.radius.trees import tree_radius

__all__ = ["Radius", "radius"]

BOXES = 20_000  # that a search looks at, where there is no deadline
SAMPLED = "sampled"


@dataclass(frozen=True, eq=False)
class Radius(Result):
    """Two-sided bounds on the distance from a record to the nearest point with another label.

    Attributes
    ----------
    lower, upper : float
        ``lower <= distance <= upper``, rounded outwards; infinite where the label cannot change (lower) or no
        other label was seen (upper).
    norm : float
        2 or infinity, over the moved features in the model's own input units.
    features : tuple of str
        Those that move.
    method : str
        "linear", "quadratic", "tree", "trees", "network" or "sampled".
    confidence : float
        1 where nothing was drawn; of `tested` where method is "sampled".
    sound : bool
        Whether `lower` says something about every point; False where it is 0 for want of a proof.  For
        networks it is the bound of the mixed-integer solver HiGHS, less its stated tolerance.
    witness : ndarray or None
        Values of the moved features at which the classifier itself answers another label, ``upper`` away.
    tested, failing : float or None
        Sampled only: at most the share ``failing`` of the ball of radius ``tested`` flips, with that confidence.
    spent : float
        What bounds on draws spent of 1 - confidence.
    stopped : bool
        Whether the run ended early, by its deadline or on request; all that is stated holds.
    notes : tuple of str
        What ended the search before the bounds met, and what more would do.

    Examples
    --------
    >>> import epsworth as ew
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])  # cuts the first feature at 0.5
    >>> found = ew.radius(model, [0.2, 0.7])
    >>> round(found.lower, 4), round(found.upper, 4), found.method
    (0.3, 0.3, 'tree')
    >>> found.witness.round(4)  # another label, that far away
    array([0.5, 0.7])
    """

    lower: float
    upper: float
    norm: float
    features: tuple[str, ...]
    method: str
    confidence: float
    sound: bool
    witness: Floats | None
    tested: float | None = None
    failing: float | None = None
    spent: float = 0.0
    stopped: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_spent(self.spent, self.confidence)

    def __str__(self) -> str:
        """Return what is proven, seen and tested, rounded to the safe side."""
        moved, norm = ", ".join(self.features), "inf" if math.isinf(self.norm) else "2"
        if self.lower == math.inf:
            return f"The label cannot change, however far {moved} move ({self.method})."
        if self.witness is None:
            seen = "no point with another label was seen"
        else:
            seen = f"a point with another label lies at most {show_up(self.upper)} away"
        how = f"in norm {norm} over {moved} ({self.method})"
        notes = "".join(f" Note, {note}." for note in self.notes)
        if self.sound:
            return f"No point nearer than {show_down(self.lower)} has another label; {seen}, {how}.{notes}"
        tested = ""
        if self.tested is not None and self.failing is not None:
            tested = (
                f" At most {show_up(self.failing)} of the ball of radius {show_down(self.tested)} has another label, "
                f"{how_sure(self.confidence)}."
            )
        return f"Nothing is proven of every point; {seen}, {how}.{tested}{notes}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; null where a bound is infinite."""
        return super().to_dict() | {"norm": "inf" if math.isinf(self.norm) else 2}


def radius(
    model: Any,
    x: Any,
    *,
    norm: float | str = 2,
    features: str | int | Sequence[str | int] | None = None,
    confidence: float = 0.999,
    rng: Rng = None,
    failing: float = 0.01,
    budget: int | None = None,
    seconds: float | None = None,
    watch: Watch | None = None,
    progress: Callable[[float], None] | None = None,
) -> Radius:
    """Bound how far the features of one record can move before its label can change.

    Claim: ``lower <= distance <= upper``, where the distance is from x to the nearest point at which the
    classifier answers another label, among the points that differ from x in the moved features only.  The
    upper bound is the distance of a witness on which the classifier was asked.  A sampled answer proves
    nothing about every point: its lower bound is 0, and ``tested`` is a statement about the share of a ball.

    Parameters
    ----------
    model : classifier
        Fitted scikit-learn classifier or pipeline, or a function ``records -> labels``; deterministic.  Also
        k-means or a Gaussian mixture: the label is the number of the cluster or component.
    x : array_like of shape ``(d,)``, table with one row, row of a pandas frame, or mapping
        The record, in the units that the model takes.
    norm : 2 or math.inf
        Or "inf".
    features : str, int or sequence of them, optional
        The features that move; by default all.
    confidence : float
        Of the tested radius of a sampled answer, over our own draws.
    rng : numpy Generator or int, optional
        For sampled answers, and for the first flip that the searches start from.
    failing : float
        Share of a ball that may flip, for the tested radius.
    budget : int, optional
        Most boxes that a search looks at before it returns what it has proven; by default 20,000, and where there are
        ``seconds`` no end.
    seconds : float, optional
        Time after which the run ends with what is proven by then (``Radius.stopped``, and ``notes``).  Everything
        counts from the call on; looking into the classifier is not cut short, and a query that has begun is waited for.
    watch : callable, optional
        Called between queries and boxes with the run's `Bracket`: ``.lower``, ``.upper``, ``.seconds``; both bounds
        hold and only tighten.  Where it returns True the run ends, as after ``seconds``.
    progress : callable, optional
        Called with ``lower / upper`` whenever that has grown: at 1 the bounds meet.

    Returns
    -------
    Radius

    Raises
    ------
    ValueError
        For another norm, and features that are not there.
    ClassifierError
        Where the classifier fails, or answers no labels.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import NearestCentroid
    >>> from epsworth import radius
    >>> table = np.array([[-1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [3.0, -1.0]])
    >>> model = NearestCentroid().fit(table, [0, 0, 1, 1])
    >>> found = radius(model, [0.25, 0.5])
    >>> round(found.lower, 9), round(found.upper, 9), found.method
    (0.75, 0.75, 'linear')
    """
    check_options(confidence, failing, budget)
    run = Tightening(check_seconds(seconds), watch, progress)
    asked = ask(model, x, norm=norm, features=features, run=run)
    return bounded(asked, generator(rng), confidence=confidence, failing=failing, budget=budget)


def bounded(
    question: RadiusQuestion, draws: np.random.Generator, *, confidence: float, failing: float, budget: int | None
) -> Radius:
    """Answer a question whose options are checked."""
    run, risk, tested = question.run, Risk.of(confidence), 0.0
    most = math.inf if budget is None and run.deadline.seconds is not None else budget or BOXES
    try:
        result = _look_inside(question, draws, most)
        if result is None:
            flip = nearest_flip(question, draws)
            tested = tested_radius(question, flip, draws, failing=failing, risk=risk)
            result = RadiusResult(0.0, flip, SAMPLED)
    except Stopped:
        result = RadiusResult(run.lower, kept_flip(question), run.method or SAMPLED)
    run.found(result.witness)
    run.proven(result.lower)
    answer = _answer(question, result)
    if result.method != SAMPLED:
        return answer
    return replace(
        answer, sound=False, confidence=confidence, tested=tested, failing=failing, spent=float_below(risk.spent)
    )


def check_options(confidence: float, failing: float, budget: int | None) -> None:
    """Check what does not depend on the record."""
    share("confidence", confidence)
    share("failing", failing)
    if budget is not None:
        whole("budget", budget)


def _look_inside(question: RadiusQuestion, rng: np.random.Generator, budget: float) -> RadiusResult | None:
    """Return what a method that knows the model finds, or None."""
    result, inside = tree_radius(question, rng, budget), question.inside()
    if result is None and inside is not None:
        result = linear_radius(question, inside) or quadratic_radius(question, inside, budget)
        result = result or network_radius(question, inside, rng)
    if result is not None and result.witness is None and math.isfinite(result.lower):
        question.run.proves(result.method, result.lower)  # a search for a flip may be the run's end
        return replace(
            result, witness=nearest_flip(question, rng)
        )  # scores so flat that rounding decides: look for a flip
    return result


def _answer(question: RadiusQuestion, found: RadiusResult) -> Radius:
    return Radius(
        lower=float(min(found.lower, found.upper)),
        upper=found.upper,
        norm=question.norm,
        features=question.names,
        method=found.method,
        confidence=1.0,
        sound=True,
        witness=None if found.witness is None else found.witness.point,
        stopped=question.run.deadline.stopped is not None,
        notes=(*_ended(question.run), *found.notes),
    )


def _ended(run: Tightening) -> tuple[str, ...]:
    """Say why a run ended before its work was done, and what more time would do."""
    why = run.deadline.stopped
    return () if why is None else (f"the run ended {why}; more time can bring the bounds closer",)
