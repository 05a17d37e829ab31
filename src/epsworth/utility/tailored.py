"""`tailor`: a policy made for one classifier, which keeps its labels at a tenth of the usual epsilon.

The client finds the region of its record with a public copy of the classifier, randomises the region, and sends an
ordinary record that stands for it; the service stays as it is.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Rng, generator
from epsworth.classifiers import as_classifier
from epsworth.classifiers.fingerprints import fingerprint
from epsworth.exact.regions import MOST_REGIONS, checked_gain
from epsworth.guarantees import Pure
from epsworth.mechanisms.mechanism import EPSILON_RANGE
from epsworth.numerals import as_float, exact_decimal, share, short, whole
from epsworth.records import Records, as_records
from epsworth.release import Policy
from epsworth.release.copies import Indices
from epsworth.release.grids import Grid
from epsworth.results import Result
from epsworth.rounding import round_up, show_up
from epsworth.space import Domain, LeakWarning
from epsworth.tailoring.asking import Asked
from epsworth.tailoring.building import EXACT, WISHES, Asking, Parts, Plan, Wish, build
from epsworth.tailoring.columns import Substitutes, grids_of
from epsworth.tailoring.surrogates import KINDS, TREE
from epsworth.utility.curves import Curves
from epsworth.utility.judging import Within, bounds_of, judge, labels_possible
from epsworth.utility.kept import Kept
from epsworth.utility.question import answer, declared, epsilon_grid, reference_labels, sensitive_positions, true_labels
from epsworth.utility.tailored_words import UNSEEN, agreed, few, folded, kept_in_words, notes_of

NAME = "tailored"
FEW = 200  # public records that tell the ceiling where none was held out
Classifiers = Sequence[Any] | Mapping[Any, float]


@dataclass(frozen=True, repr=False, eq=False)
class Tailored(Result):
    """A tailored policy, and what it keeps.

    Attributes
    ----------
    policy : Policy
        What clients run.
    copied : str
        ``"exact"``, or what kind of surrogate was learnt from the classifier's answers.
    size : int
        Bytes of the copy's tables as compact JSON: what the policy tells about the classifier.
    agreement : float
        Share of held-out records in the same region by the copy and by the classifier.
    kept : float
        Average over the held-out records of the probability that the label stays.
    held_out : (lower, upper)
        Bounds on that average over the population that the public records come from.
    balanced : float
        The same average, taken label by label, each counting as much as any other.
    ceiling : float
        What no mechanism of this epsilon exceeds for the worst of the inputs that differ in sensitive columns alone, by
        the labels that were seen of one record.
    constant : float
        Share of the held-out records that would send the same whatever their sensitive values are.
    certified : float or None
        Share of the held-out records for which copy and classifier are proven to agree, on all that can be sent, too;
        None where nothing is proven.
    records : int
        How many were held out.
    confidence : float
        Of ``held_out``: at least so often do such intervals hold, over the records and their random split.
    notes : tuple of str
        What a reader must know besides.
    rows : ndarray of int
        Which rows of the public table were held out.
    """

    policy: Policy
    copied: str
    size: int
    agreement: float
    kept: float
    held_out: Within
    balanced: float
    ceiling: float
    constant: float
    certified: float | None
    records: int
    confidence: float
    notes: tuple[str, ...]
    plan: Plan
    asked: Asked
    weights: tuple[float, ...]
    rows: Indices

    def stability(self, epsilons: ArrayLike, records: Any, *, y: ArrayLike | None = None) -> Curves:
        """Return how often labels of records stay, exactly, at many epsilons *per record*.

        Claim: for a deterministic classifier every bound holds for certain; they differ by rounding alone.

        Parameters
        ----------
        epsilons : array_like, shape ``(m,)``
            Increasing.
        records : table
            As the classifier takes them.  Those that built the policy do not count for the population that
            `Curves.population` speaks of.
        y : array_like, optional
            True labels: the result then bounds the accuracy, too.
        """
        began, grid = time.perf_counter(), epsilon_grid(epsilons)
        first = self.asked.classifiers[0]
        table = as_records(records, features=first.features, count=first.count).releasing(_words(self.plan.grids))
        asked = replace(self.asked, records=table)
        own, queries = _own_labels(asked)
        stated = [record_epsilon(float(epsilon)) for epsilon in grid]
        tailoring = self.plan.tailoring(stated[0])
        kept = Kept.of(tailoring, asked, own, self.weights)
        truth = None if y is None else true_labels(y, own[0], first)
        right = None if truth is None else Kept.of(tailoring, replace(asked, classifiers=(first,)), [truth])
        randomisers = [self.plan.randomiser(one) for one in stated]
        return Curves(
            mechanisms=(NAME,),
            epsilons=grid,
            features=tailoring.names,
            stability=bounds_of(kept, randomisers),
            accuracy=None if right is None else bounds_of(right, randomisers),
            guarantees=(tuple(Pure(float(epsilon), "record") for epsilon in grid),),
            tight_epsilons=np.array([[randomiser.loss for randomiser in randomisers]]),
            labels=own[0],
            labels_possible=labels_possible(kept, len(own)),
            method=np.full((1, len(table)), NAME),
            over="records",
            confidence=1.0,
            tolerance=0.01,
            queries=queries + kept.queries + (0 if right is None else right.queries),
            seconds=time.perf_counter() - began,
            notes=tuple(f"{NAME}: {note}" for note in (*self.notes, UNSEEN)),
            unit="record",
        )

    def __str__(self) -> str:
        """Return what clients must run, what is kept, and what one must know."""
        names = few(self.plan.tailoring(self.policy.total).names)
        together = f" for {names} together" if "," in names else f" for {names}"
        lines = [
            f"tailored policy {self.policy.fingerprint[:12]}: {self.policy.guarantee},{together}",
            *kept_in_words(self.records, self.kept, self.balanced, self.held_out, self.confidence),
            f"At epsilon {show_up(float(self.policy.total))} per record no mechanism can promise more than "
            f"{round_up(self.ceiling, 3):g} to every label.",
            f"The policy holds a copy of the classifier: {self.copied}, {self.size:,} bytes"
            f"{agreed(self.records, self.agreement)}.",
        ]
        return "\n".join(map(folded, [*lines, *(f"Note, {note}." for note in self.notes)]))

    def __repr__(self) -> str:
        return f"<Tailored {self.policy.fingerprint[:12]}: {self.policy.guarantee}, copy {self.copied}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without the policy's tables: save these with ``policy.save``."""
        names = (
            "copied", "size", "agreement", "kept", "balanced", "ceiling", "constant", "certified", "records",
            "confidence",
        )  # fmt: skip
        return {
            "policy": self.policy.fingerprint,
            "epsilon_per_record": float(self.policy.total),
            "sensitive": list(self.plan.tailoring(self.policy.total).names),
            **{name: getattr(self, name) for name in names},
            "held_out": self.held_out._asdict(),
            "notes": list(self.notes),
        }


def tailor(
    model: Any,
    X: Any,
    *,
    sensitive: str | int | Sequence[str | int],
    epsilon: str | float | Decimal,
    domain: Domain | Mapping[str | int, object] | str | Path | None = None,
    missing: Substitutes = None,
    outside: Substitutes = None,
    wish: Wish = "worst",
    y: ArrayLike | None = None,
    gain: ArrayLike | None = None,
    classifiers: Classifiers | None = None,
    cells: int = 1,
    fidelity: float = 0.0,
    draw: bool = False,
    surrogate: str = "auto",
    rng: Rng = None,
    holdout: float = 0.25,
    confidence: float = 0.999,
    public: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Tailored:
    """Make a policy for one classifier: clients randomise the region of their record, and send one that stands for it.

    Claim: given the policy, whatever the sensitive columns of a record hold, all that can be sent for it has
    probabilities that differ by at most e^epsilon, its other columns being what they are; see `Policy.outcomes`.

    Parameters
    ----------
    model : classifier
        As for `stability`.  It may be copied exactly into the policy, which is public.
    X : table
        *Public* records in natural units, with all columns that the classifier reads: they choose what stands for a
        region.  Were they private, the policy would tell about them, and no epsilon covers that.
    sensitive : str, int or sequence of them
        The columns that clients keep to themselves; all others are sent as they are.
    epsilon : number or text
        Of the whole record.
    domain : Domain, mapping or path, optional
        Public ranges and categories of the sensitive columns; without it those of the public records, or 0 to 1 where
        their numbers lie there.  Values beyond a range are clamped: declare as much as people may hold.
    missing, outside : value, or mapping from column to value, optional
        What stands for a sensitive value that is missing or no number, and for an undeclared category.  By default the
        median, or the commonest category, of the public records: a client never refuses a record for what it holds.
    wish : {"worst", "average", "accuracy"}
        ``worst``: the best there is for the rarest label.  ``average``: the most labels kept on average; it mostly
        ignores the record where public columns tell the label (``constant``).  ``accuracy``: the most true labels, by
        ``y``.
    y : array_like, optional
        True labels of the public records.
    gain : array_like, shape ``(labels, labels)``, optional
        What naming label j is worth where i is right, times how often i is: see `epsworth.exact.region_kernel`.
    classifiers : sequence of classifiers, or mapping from classifier to weight, optional
        Further ones that read the same records: one release then serves all, and labels count by weight (the model's
        is 1, unless it is among them).
    cells : int
        Regions are cut into so many cells in all, so that what is sent lies nearer to the record.
    fidelity : float
        What a distance of the whole range costs, in labels kept; with ``cells``.
    draw : bool
        Send any of up to 64 listed records of a region, all equally likely, instead of one.
    surrogate : str
        ``"auto"`` copies exactly where that takes at most 256 kB, else learns the best of several small copies;
        ``"exact"``, or one of these: ``"tree:32"``, ``"tree:256"``, ``"tree:1024"``, the best of them (``"tree"``),
        ``"linear"``, ``"relu"``.
    rng : numpy.random.Generator, int or None
        Randomness of the *building*; clients draw from their system's entropy.
    holdout : float
        Share of the public records that neither build nor choose anything: what is kept of them is what unseen records
        can expect.
    confidence : float
        Of ``held_out``.
    public : bool
        Declare that the classifier was fitted on public data, or released with an epsilon of its own: no warning then.
    progress : callable, optional
        Called with the share of the work that is done.

    Returns
    -------
    Tailored

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).random((400, 3))
    >>> model = LogisticRegression().fit(X, X.sum(axis=1) > 1.5)
    >>> made = tailor(model, X, sensitive=[0, 1, 2], epsilon=2, rng=0, public=True)
    >>> made.copied, round(made.kept, 3), round(made.ceiling, 3)
    ('exact', 0.881, 0.881)
    >>> sum(share for _, share in made.policy.outcomes({"x0": 0.1, "x1": None, "x2": "?"}))
    Fraction(1, 1)
    """
    stated, random = record_epsilon(epsilon), generator(rng)
    told = progress or (lambda done: None)
    held_share, confidence = as_float(holdout), share("confidence", confidence)
    if not 0 <= held_share < 1:
        raise ValueError(f"holdout must lie in [0, 1), got {short(holdout)}; give a share of the records")
    if not public:
        warnings.warn(
            "the policy tells about the classifier and about X: epsilon covers neither what the classifier was fitted "
            "on nor these records; where all of them are public, or were released with an epsilon of their own, say "
            "public=True",
            LeakWarning,
            stacklevel=2,
        )
    asking, parts, held = asking_of(
        model, X, sensitive, domain, missing, outside, wish, y, gain, classifiers, cells, fidelity, draw, surrogate,
        held_share, random,
    )  # fmt: skip
    told(0.05)
    plan = build(asking, parts.within_known(), random)
    told(0.8)
    policy = Policy((), None, plan.tailoring(stated))
    found = _judged(plan, policy, asking, held, parts.hold, confidence)
    told(1.0)
    return found


def record_epsilon(epsilon: str | float | Decimal, name: str = "epsilon") -> Decimal:
    """Return the epsilon that a text states for a record, in the range that kernels are built for."""
    value, (low, high) = exact_decimal(name, epsilon), EPSILON_RANGE
    if not Decimal(str(low)) <= value <= Decimal(str(high)):
        raise ValueError(f"{name} must lie between {low:g} and {high:g} (per record), got {epsilon}; give another")
    return value


def asking_of(
    model: Any, X: Any, sensitive: Any, domain: Any, missing: Any, outside: Any, wish: Wish, y: Any, gain: Any,
    classifiers: Classifiers | None, cells: int, fidelity: float, draw: bool, surrogate: str,
    holdout: float, rng: np.random.Generator,
) -> tuple[Asking, Parts, Records]:  # fmt: skip
    """Check everything that the user gave, once; of what is held out nothing else is seen, not even its range.

    Return the question about all other records, the parts of the table, and the records that are held out.
    """
    surrogate = surrogate.lower() if isinstance(surrogate, str) else surrogate
    _check(wish, y, gain, classifiers, cells, fidelity, draw, surrogate)
    cells, weighed = whole("cells", cells, most=MOST_REGIONS), _weighed(classifiers)
    given = [one for one, _ in weighed if one is not model]
    own = [weight for one, weight in weighed if one is model] or [1.0]  # the model may be named among them
    weights = (own[-1], *(weight for one, weight in weighed if one is not model))
    if not all(0 < weight < np.inf for weight in weights):
        raise ValueError("classifiers: weights must be positive and finite")
    every = tuple(as_classifier(one) for one in (model, *given))
    records = as_records(X, features=every[0].features, count=every[0].count)
    positions = tuple(sorted(sensitive_positions(records, sensitive)))  # as the copy's inputs stand
    parts = Parts.of(len(records), holdout, rng)
    known = records.part(parts.known)
    grids = grids_of(known, positions, declared(domain), missing, outside)
    known, held = (part.releasing(_words(grids)) for part in (known, records.part(parts.hold)))
    asked = Asked(every, known, positions, tuple(grids[p] for p in positions))
    truth = None
    if y is not None:
        truth = true_labels(y, answer(every[0], records, np.arange(len(records))), every[0])[parts.known]
    worth = None if gain is None else checked_gain(gain)
    marks = tuple(fingerprint(classifier, [grid.feature for grid in grids], known) for classifier in every)
    exactly = float(fidelity), bool(draw)
    return Asking(asked, weights, grids, wish, surrogate, cells, *exactly, truth, worth, marks), parts, held


def _weighed(classifiers: Classifiers | None) -> list[tuple[Any, float]]:
    """Return further classifiers and their weights; NaN for one that is no number."""
    if isinstance(classifiers, Mapping):
        return [(one, as_float(weight)) for one, weight in classifiers.items()]
    # an ensemble is a sequence, too: of its members
    if hasattr(classifiers, "predict") or not isinstance(classifiers, (Iterable, type(None))):
        raise TypeError(f"classifiers must be a list, or a mapping from each to its weight, got {short(classifiers)}")
    return [(one, 1.0) for one in classifiers or ()]


def _own_labels(asked: Asked) -> tuple[list[NDArray[Any]], int]:
    """Return what classifiers say of records as they stand, which is to be kept, and the number of queries."""
    found = [reference_labels(classifier, asked.records) for classifier in asked.classifiers]
    return [labels for labels, _ in found], sum(queries for _, queries in found)


def _check(
    wish: object, y: object, gain: object, classifiers: object, cells: object, fidelity: object, draw: object,
    surrogate: object,
) -> None:  # fmt: skip
    if wish not in WISHES:
        raise ValueError(f"wish must be one of {', '.join(map(repr, WISHES))}, got {wish!r}")
    if wish == "accuracy" and y is None:
        raise ValueError("wish='accuracy' needs the true labels of the public records: give y")
    if not 0 <= as_float(fidelity) < np.inf:
        raise ValueError(f"fidelity must not be negative, and finite, got {fidelity!r}")
    if fidelity and cells == 1:
        raise ValueError("fidelity needs cells, between which what is sent can differ; give cells=32, say")
    if not isinstance(draw, (bool, np.bool_)):
        raise ValueError(f"draw must be True or False, got {draw!r}")
    known = ("auto", EXACT, TREE, *KINDS)
    if surrogate not in known:
        raise ValueError(f"surrogate must be one of {', '.join(map(repr, known))}, got {surrogate!r}")
    asked = [name for name, given in (("wish='accuracy'", wish == "accuracy"), ("gain", gain is not None),
                                      ("cells", cells != 1), ("classifiers", classifiers)) if given]  # fmt: skip
    if len(asked) > 1:
        raise ValueError(f"{' and '.join(asked)} each ask for a kernel of their own; choose one")


def _words(grids: Sequence[Grid]) -> dict[str, tuple[Any, ...] | None]:
    return {grid.name: grid.feature.categories for grid in grids}


def _judged(plan: Plan, policy: Policy, asking: Asking, held: Records, rows: Indices, confidence: float) -> Tailored:
    """Measure what is kept of the records that were held out; without any, some others tell the ceiling alone."""
    tailoring, some = policy.tailoring, np.arange(min(FEW, len(asking.records)))
    assert tailoring is not None
    shown = held if len(rows) else asking.records.part(some)
    found = judge(plan, tailoring, asking.asked, shown, asking.weights, confidence, counted=len(rows) > 0)
    reached = {label for label, standing in zip(plan.labels, plan.representatives, strict=True) if len(standing)}
    return Tailored(
        policy, plan.copied, plan.size, found.agreement, found.kept, found.held_out, found.balanced, found.most,
        found.constant, found.certified, len(rows), confidence,
        notes_of(plan, tailoring, found.constant, len(reached)), plan, asking.asked, asking.weights, rows,
    )  # fmt: skip
