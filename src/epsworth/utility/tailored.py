"""`tailor`: a policy made for one classifier, which keeps its labels at a tenth of the usual epsilon.

The client finds the region of its record with a public copy of the classifier, randomises the region, and sends an
ordinary record that stands for it; the service stays as it is.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsworth.arrays import Indices, Rng, generator
from epsworth.callbacks import check_callback
from epsworth.classifiers import Classifier, as_classifier
from epsworth.classifiers.classifier import columns_read, table_of
from epsworth.classifiers.fingerprints import fingerprint
from epsworth.client.kernels import EPSILON_RANGE
from epsworth.grids import Grid
from epsworth.guarantees import Pure
from epsworth.mechanisms.regions import MOST_REGIONS, checked_gain
from epsworth.numerals import as_float, exact_decimal, share, short, truth, whole
from epsworth.parallel import check_n_jobs
from epsworth.policy import Pass, Policy
from epsworth.records import Records
from epsworth.results import Result
from epsworth.rounding import chance_up, percent_down, percent_up, round_up, show_up
from epsworth.space import LeakWarning, Ranges, as_domain
from epsworth.tailored.building import EXACT, WISHES, BuildOptions, Parts, Plan, Wish, build
from epsworth.tailored.learning import KINDS, TREE
from epsworth.tailored.mechanism import Tailoring
from epsworth.tailored.problem import Replacements, Substitutes, cannot_answer, grids_of
from epsworth.utility.attacker import attacker, row
from epsworth.utility.curves import Curves
from epsworth.utility.engines.checkpoint import digest_of_classifier
from epsworth.utility.labels import answer, reference_labels, true_labels
from epsworth.utility.problem import epsilon_grid
from epsworth.utility.retention import Retention, Within, bounds_of, judge, labels_possible
from epsworth.utility.steps import KeptSteps, begun

UNSEEN = "what is said of a population holds if none of these records made the policy"
SHOWN = 4  # columns that are named; of more, the first ones


def few(names: Sequence[str]) -> str:
    """Name the first of many columns.

    Examples
    --------
    >>> few(["age", "bmi"]), few(["a", "b", "c", "d", "e", "f"])
    ('age, bmi', 'a, b, c, d, ... (6 columns)')
    """
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, ... ({len(names)} columns)"


def agreed(records: int, agreement: float) -> str:
    """Say how often a copy is right."""
    return f", right on {percent_down(agreement)} % of held-out records" if records else ""


def notes_of(plan: Plan, tailoring: Tailoring, constant: float, reached: int) -> tuple[str, ...]:
    """Say what clients run, what the policy tells, and where it does not help."""
    names = few(tailoring.names)
    notes = [
        "clients run this policy before they ask; the service stays as it is",
        f"what is sent in {names} stands for a region of the classifier and says little beyond its label: each value "
        "alone means nothing",
        f"the policy holds {'the classifier itself' if plan.copied == EXACT else 'a copy of the classifier'}: whoever "
        "reads it can ask it anything, and look for ways around it or for what it was fitted on",
        "records unlike the public ones are as private, but may keep their labels less often",
    ]
    if plan.copied != EXACT:
        notes.append(
            "at a large epsilon what is kept tends to the copy's agreement, where mechanisms per feature tend to 1"
        )
    if not tailoring.hidden.all():
        notes.append("epsilon says nothing of what the columns that are sent as they are tell of the others")
    if plan.prior is not None:
        notes.append(
            f"for {round_up(100 * constant, 1):g} % of the held-out records what is sent does not depend on what is "
            "sensitive at all: the public columns decide"
        )
    if reached < len(set(plan.labels)):
        notes.append(
            f"{len(set(plan.labels)) - reached} of {len(set(plan.labels))} labels have no record that stands for them"
        )
    return tuple(notes)


def _filled(plan: Plan, agreement: float, records: int) -> tuple[str, ...]:
    """Say why an exact copy is not right on all records, where it is not."""
    if plan.copied != EXACT or agreement == 1 or not records:
        return ()
    return (
        f"the copy is exact, but {percent_up(1 - agreement)} % of the held-out records change their label already when "
        "the policy reads them: it fills gaps, and moves values to its ranges and grid",
    )


Classifiers = Sequence[Any] | Mapping[Any, float]


def record_epsilon(epsilon: str | float | Decimal, name: str = "epsilon") -> Decimal:
    """Return the epsilon that a text states for a record, in the range that kernels are built for."""
    value, (low, high) = exact_decimal(name, epsilon), EPSILON_RANGE
    if not Decimal(str(low)) <= value <= Decimal(str(high)):
        raise ValueError(f"{name} must lie between {low:g} and {high:g} (per record), got {value:.6g}; give another")
    return value


def asking_of(
    model: Any, X: Any, sensitive: Any, domain: Any, missing: Any, outside: Any, wish: Wish, y: Any, gain: Any,
    classifiers: Classifiers | None, cells: int, fidelity: float, draw: bool, surrogate: str,
    holdout: float, rng: np.random.Generator,
) -> tuple[BuildOptions, Parts, Records]:  # fmt: skip
    """Check everything that the user gave, once; of what is held out nothing else is seen, not even its range.

    Return the question about all other records, the parts of the table, and the records that are held out.
    """
    surrogate = surrogate.lower() if isinstance(surrogate, str) else surrogate
    weighed = _weighed(classifiers)
    _check(wish, y, gain, bool(weighed), cells, fidelity, draw, surrogate)
    given = [one for one, _ in weighed if one is not model]
    own = [weight for one, weight in weighed if one is model] or [1.0]  # the model may be named among them
    weights = (own[-1], *(weight for one, weight in weighed if one is not model))
    if not all(0 < weight < np.inf for weight in weights):
        raise ValueError("classifiers: weights must be positive and finite")
    every = tuple(as_classifier(one) for one in (model, *given))
    ranges = None if domain is None else as_domain(domain)
    records = table_of(every[0], X, ranges.features if ranges else ())
    positions = tuple(sorted(records.positions("sensitive", sensitive)))  # as the copy's inputs stand
    parts = Parts.of(len(records), holdout, rng)
    known = records.part(parts.known)
    grids = grids_of(known, positions, ranges, missing, outside)
    known, held = (part.releasing(words_of(grids)) for part in (known, records.part(parts.hold)))
    asked = Replacements(every, known, positions, tuple(grids[p] for p in positions))
    truth = None
    if y is not None:
        truth = true_labels(y, answer(every[0], records, np.arange(len(records))), every[0])[parts.known]
    worth = None if gain is None else checked_gain(gain)
    marks = tuple(_mark(classifier, grids, known) for classifier in every)
    exactly = float(fidelity), bool(draw)
    return BuildOptions(asked, weights, grids, wish, surrogate, cells, *exactly, truth, worth, marks), parts, held


def _mark(classifier: Classifier, grids: Sequence[Grid], known: Records) -> str:
    try:
        return fingerprint(classifier, [grid.feature for grid in grids], known)
    except (ValueError, TypeError) as error:
        raise cannot_answer(classifier, "the public records", error) from None


def _weighed(classifiers: Classifiers | None) -> list[tuple[Any, float]]:
    """Return further classifiers and their weights; NaN for one that is no number."""
    if isinstance(classifiers, Mapping):
        return [(one, as_float(weight)) for one, weight in classifiers.items()]
    # an ensemble is a sequence, too: of its members
    if hasattr(classifiers, "predict") or not isinstance(classifiers, (Sequence, Mapping, type(None))):
        raise TypeError(f"classifiers must be a list, or a mapping from each to its weight, got {short(classifiers)}")
    return [(one, 1.0) for one in classifiers or ()]


def _check(
    wish: object, y: object, gain: object, several: bool, cells: object, fidelity: object, draw: object,
    surrogate: object,
) -> None:  # fmt: skip
    if not isinstance(wish, str) or wish not in WISHES:
        raise ValueError(f"wish must be one of {', '.join(map(repr, WISHES))}, got {short(wish)}")
    if wish == "accuracy" and y is None:
        raise ValueError("wish='accuracy' needs the true labels of the public records: give y")
    if not 0 <= as_float(fidelity) < np.inf:
        raise ValueError(f"fidelity must not be negative, and finite, got {short(fidelity)}")
    if fidelity and cells == 1:
        raise ValueError("fidelity needs cells, between which what is sent can differ; give cells=32, say")
    truth("draw", draw)
    whole("cells", cells, most=MOST_REGIONS)
    known = ("auto", EXACT, TREE, *KINDS)
    if not isinstance(surrogate, str) or surrogate not in known:
        raise ValueError(f"surrogate must be one of {', '.join(map(repr, known))}, got {short(surrogate)}")
    asked = [name for name, given in (("wish='accuracy'", wish == "accuracy"), ("gain", gain is not None),
                                      ("cells", cells != 1), ("classifiers", several)) if given]  # fmt: skip
    if len(asked) > 1:
        raise ValueError(f"{' and '.join(asked)} each ask for a kernel of their own; choose one")


def words_of(grids: Sequence[Grid]) -> dict[str, tuple[Any, ...] | None]:
    """Return what columns of categories may hold."""
    return {grid.name: grid.feature.categories for grid in grids}


def data_of(options: BuildOptions, held: Records) -> dict[str, tuple[object, ...]]:
    """Return what a tailored policy is made of, by the words of a refusal: what digests are taken of."""
    tables = (options.records, held)
    columns = [table.column(place) for table in tables for place in range(len(table.names))]
    return {
        "records": (tuple(options.records.names), *columns),
        "models": tuple(digest_of_classifier(classifier) for classifier in options.asked.classifiers),
        "answers of the classifiers": options.fingerprints,
        "ranges": tuple(repr(grid) for grid in options.grids),
        "true labels": (options.truth,),
        "gain": (options.gain,),
    }


def options_of(options: BuildOptions) -> dict[str, object]:
    """Return what else a tailored policy is made by."""
    names = "wish", "surrogate", "cells", "fidelity", "draw", "weights"
    sensitive = ", ".join(grid.name for grid in options.asked.grids)
    return {"sensitive features": sensitive} | {name: getattr(options, name) for name in names}


NAME = "tailored"
FEW = 200  # public records that tell the ceiling where none was held out


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
    public : bool
        Whether it was declared that table and classifier are public.

    Examples
    --------
    >>> import numpy as np
    >>> import epsworth as ew
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).random((400, 3))
    >>> model = LogisticRegression().fit(X, X.sum(axis=1) > 1.5)
    >>> made = ew.tailor(model, X, sensitive=[0, 1, 2], epsilon=2, rng=0, public=True)
    >>> made.policy.names, made.records, round(made.kept, 3)  # of so many that were held out
    (('x0', 'x1', 'x2'), 100, 0.881)
    >>> made.stability([1, 2], X[made.rows]).average().lower.round(3)
    array([[0.731, 0.881]])
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
    asked: Replacements
    weights: tuple[float, ...]
    rows: Indices
    public: bool = False

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
        table = table_of(first, records, (grid.feature for grid in self.plan.grids)).releasing(
            words_of(self.plan.grids)
        )
        asked = replace(self.asked, records=table)
        own, queries = _own_labels(asked)
        stated = [record_epsilon(float(epsilon)) for epsilon in grid]
        tailoring = self.plan.tailoring(stated[0])
        kept = Retention.of(tailoring, asked, own, self.weights)
        truth = None if y is None else true_labels(y, own[0], first)
        right = None if truth is None else Retention.of(tailoring, replace(asked, classifiers=(first,)), [truth])
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
        )

    def __str__(self) -> str:
        """Return the verdict, and of whom it holds."""
        return "\n".join((*self.verdict, self.certainty))

    @property
    def verdict(self) -> tuple[str, ...]:
        """What is kept, what an attacker may learn, what no mechanism exceeds, and what copy the policy holds."""
        keeps = f"{percent_down(self.kept)} % of the labels" if self.records else "nobody knows how many labels"
        kind = self.copied if self.copied == EXACT else f"learnt ({self.copied})"
        return (
            f"Tailored at epsilon {show_up(float(self.policy.total))} for {few(self.policy.names)}: keeps {keeps}.",
            row("attacker", attacker(self.policy.guarantee)),
            row("ceiling", f"no mechanism keeps every input above {chance_up(self.ceiling)} %"),
            row("copy of the model", f"{kind}, {self.size:,} bytes{agreed(self.records, self.agreement)}"),
        )

    @property
    def certainty(self) -> str:
        """Of whom that holds, and how surely."""
        if not self.records:
            return "No record was held out (--holdout 0), so how often labels stay is not known."
        low, high = map(float, self.held_out)
        return (
            f"On {self.records:,} held-out records; people like them: {percent_down(low)} to {percent_up(high)} % "
            f"({percent_down(self.confidence, 4)} % sure)."
        )

    def __repr__(self) -> str:
        return f"<Tailored {self.policy.fingerprint[:12]}: {self.policy.guarantee}, copy {self.copied}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without the policy's tables: save these with ``policy.save``."""
        names = (
            "copied", "size", "agreement", "kept", "balanced", "ceiling", "constant", "certified", "records",
            "confidence", "public",
        )  # fmt: skip
        return {
            "policy": self.policy.fingerprint,
            "epsilon_per_record": float(self.policy.total),
            "sensitive": list(self.policy.names),
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
    domain: Ranges | None = None,
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
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
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
        The columns that clients keep to themselves; the others that the classifier reads are sent as they are.
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
        What naming label j is worth where i is right, times how often i is: see `epsworth.mechanisms.region_kernel`.
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
    n_jobs : int, optional
        Workers that share what the classifiers are asked, and the fits of small copies; -1 for all cores.  The policy
        does not depend on it, to the bit.  Services and functions are asked from this process.
    checkpoint : path, optional
        A folder in which answers and fits are kept as they come: the same call goes on from it, and makes the same
        policy to the bit; ``rng`` is then that of the folder.  It is computed from X, and holds labels of it.

    Returns
    -------
    Tailored

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsworth import tailor
    >>> X = np.random.default_rng(0).random((400, 3))
    >>> model = LogisticRegression().fit(X, X.sum(axis=1) > 1.5)
    >>> made = tailor(model, X, sensitive=[0, 1, 2], epsilon=2, rng=0, public=True)
    >>> made.copied, round(made.kept, 3), round(made.ceiling, 3)
    ('exact', 0.881, 0.881)
    >>> sum(share for _, share in made.policy.outcomes({"x0": 0.1, "x1": None, "x2": "?"}))
    Fraction(1, 1)
    """
    stated, random = record_epsilon(epsilon), generator(rng)
    told = check_callback("progress", progress) or (lambda done: None)
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
    check_n_jobs(n_jobs)
    began = None if checkpoint is None else begun(checkpoint, random)
    asking, parts, held = asking_of(
        model, X, sensitive, domain, missing, outside, wish, y, gain, classifiers, cells, fidelity, draw, surrogate,
        held_share, random,
    )  # fmt: skip
    kept = None
    if checkpoint is not None:
        options = options_of(asking) | {"epsilon": stated, "holdout": held_share, "confidence": confidence}
        kept = KeptSteps.of(checkpoint, "tailored policy", data_of(asking, held), options, state=began)
    asking = replace(asking, asked=replace(asking.asked, n_jobs=n_jobs, kept=kept))
    told(0.05)
    plan = build(asking, parts.within_known(), random)
    told(0.8)
    policy = Policy((), None, plan.tailoring(stated), _passing(plan, asking.asked))
    result = _judged(plan, policy, asking, held, parts.hold, confidence)
    told(1.0)
    return replace(result, public=public)


def _passing(plan: Plan, replacements: Replacements) -> Pass:
    """Let the public columns pass that some classifier reads; at the others the copy may look, and they stay."""
    public = [grid.name for grid, hidden in zip(plan.grids, plan.sensitive, strict=True) if not hidden]
    read = {name for one in replacements.classifiers for name in columns_read(one, replacements.records.names)}
    return Pass(tuple(name for name in public if name in read), tuple(name for name in public if name not in read))


def _own_labels(replacements: Replacements) -> tuple[list[NDArray[Any]], int]:
    """Return what classifiers say of records as they stand, which is to be kept, and the number of queries."""
    result = [reference_labels(classifier, replacements.records) for classifier in replacements.classifiers]
    return [labels for labels, _ in result], sum(queries for _, queries in result)


def _judged(
    plan: Plan, policy: Policy, options: BuildOptions, held: Records, rows: Indices, confidence: float
) -> Tailored:
    """Measure what is kept of the records that were held out; without any, some others tell the ceiling alone."""
    tailoring, some = policy.tailoring, np.arange(min(FEW, len(options.records)))
    assert tailoring is not None
    shown = held if len(rows) else options.records.part(some)
    result = judge(plan, tailoring, options.asked, shown, options.weights, confidence, counted=len(rows) > 0)
    reached = {label for label, standing in zip(plan.labels, plan.representatives, strict=True) if len(standing)}
    return Tailored(
        policy, plan.copied, plan.size, result.agreement, result.kept, result.held_out, result.balanced, result.most,
        result.constant, result.certified, len(rows), confidence,
        (*notes_of(plan, tailoring, result.constant, len(reached)), *_filled(plan, result.agreement, len(rows))), plan,
        replace(options.asked, n_jobs=None, kept=None), options.weights, rows,
    )  # fmt: skip
