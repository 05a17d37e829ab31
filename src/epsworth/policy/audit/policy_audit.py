"""An exact audit of a policy: every promise proved again from the integers that are drawn from.

Nothing here trusts the constructions' own arithmetic: losses are ratios of sums of integers, and their logarithms are
taken in 120 decimal digits, rounded up (the constructions use binary Taylor sums from below).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.bounds import Risk
from epsworth.mechanisms import Kernel
from epsworth.policy.audit.black_box import Replay, replays
from epsworth.policy.audit.cases import (
    OF_WORDS,
    Columns,
    agreeing,
    audit_cases,
    audit_sources,
    mixed,
    raw,
    repeats,
    widest,
)
from epsworth.policy.audit.serial import LENGTH, dependence
from epsworth.policy.audit.words import CELLS, DRAWS, Check, Recorded, Rows, audit_words, excluded, followed, kept_by
from epsworth.policy.columns import Column
from epsworth.policy.files.json_table import JsonRecords
from epsworth.policy.policy import Given, Policy, as_policy
from epsworth.policy.rules import Rule
from epsworth.policy.tables import Perturbation
from epsworth.results import Result
from epsworth.rounding import float_above, show_up
from epsworth.tailored.mechanism import Tailoring


@dataclass(frozen=True)
class ModelAudit(Result):
    """What a classifier's answers say.

    Attributes
    ----------
    policy : str
        Its fingerprint.
    model : str
        The classifier's fingerprint.
    copied : tuple of str
        Those of the classifiers that the policy copied.
    """

    policy: str
    model: str
    copied: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the classifier is one of those that were copied, as far as its answers tell."""
        return self.model in self.copied

    def __str__(self) -> str:
        """Return the finding in a sentence."""
        from epsworth.classifiers.fingerprints import ASKED

        if self.passed:
            return f"model {self.model[:12]}: answers {ASKED} fixed records as the classifier that was copied: passed"
        shown = ", ".join(one[:12] for one in self.copied) or "none that is named"
        return (
            f"model {self.model[:12]}: another classifier than the one that was copied ({shown}): FAULT; epsilon "
            "holds, labels may not: tailor a policy for this model"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON form."""
        document: dict[str, Any] = super().to_dict()
        return document | {"passed": self.passed}


def audit_model(policy: Given, model: Any) -> ModelAudit:
    """Compare a classifier's answers with those of the one that a tailored policy copied (see `fingerprint`).

    Raises
    ------
    ValueError
        If the policy is no tailored one, or the classifier reads columns that it does not declare.
    """
    from epsworth.classifiers.fingerprints import fingerprint  # who audits rules alone has no scikit-learn

    policy = as_policy(policy)
    if policy.tailoring is None:
        raise ValueError("model: the policy has rules alone, which fit any classifier; drop the model")
    seen = [grid.feature for grid in policy.tailoring.grids]
    return ModelAudit(policy.fingerprint, fingerprint(model, seen), policy.tailoring.classifiers)


FALSE_ALARM = Fraction(1, 10**6)  # probability that chance alone fails a faultless policy
OF_REPLAYS = Fraction(1, 1000)  # its share of the attempts at replays, which need no more
OF_SERIAL = Fraction(1, 1000)  # and of patterns between rows; the draws have the rest
ROWS = 40_000  # of random records, followed back to their words: three chunks of a draw


@dataclass(frozen=True)
class FeatureAudit:
    """What the audit found about one feature.

    Attributes
    ----------
    epsilon : str
        As the policy states it.
    quoted : float
        The pure loss that the kernel quotes; infinite for an approximate promise without one.
    found : float
        The largest loss between the inputs whose weights were read, rounded up.
    inputs : int
        How many those are: all ``points``, of a policy's rules.
    excluded : float
        The largest share of any input's words that a fault of the code that draws could hold unseen, but for a
        probability of 1e-9; of a region 1, as its words are looked at where its kernels are read.
    """

    feature: str
    mechanism: str
    epsilon: str
    points: int
    quoted: float
    found: float
    inputs: int
    checks: tuple[Check, ...]
    excluded: float = 1.0

    @property
    def passed(self) -> bool:
        """Whether every obligation is met."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        """Return a line, and one more per fault."""
        read = "every input" if self.inputs == self.points else f"{self.inputs} of {self.points} inputs and the proof"
        if self.excluded < 1:  # else draws were not compared word by word
            read += f"; faults in over {show_up(100 * self.excluded, 3)} % of an input's words excluded"
        head = (
            f"{self.feature}: {self.mechanism}, epsilon {self.epsilon}, quoted {show_up(self.quoted)}, "
            f"largest loss found {show_up(self.found)} ({read}): {'passed' if self.passed else 'FAULT'}"
        )
        return "\n    ".join([head, *(f"fault ({c.name}): {c.says}" for c in self.checks if not c.passed)])


@dataclass(frozen=True)
class Audit(Result):
    """The audit of a policy: feature by feature, then what concerns the whole record.

    Attributes
    ----------
    policy : str
        Its fingerprint.
    false_alarm : float
        Probability that chance alone fails a faultless policy: what the tests of draws spent.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> from epsworth.policy import audit_policy
    >>> audit = audit_policy(Policy.of("krr", 1, Domain.of({"smoker": ["no", "yes"]})))
    >>> audit.passed, audit.guarantee, audit.false_alarm < 1e-6
    (True, 'pure LDP, epsilon 1 per record', True)
    """

    policy: str
    guarantee: str
    features: tuple[FeatureAudit, ...]
    record: tuple[Check, ...]
    false_alarm: float

    @property
    def passed(self) -> bool:
        """Whether no fault was found."""
        return all(feature.passed for feature in self.features) and all(check.passed for check in self.record)

    def __str__(self) -> str:
        """Return a line per feature and per check of the record."""
        lines = [f"policy {self.policy[:12]}: {self.guarantee}", *(f"  {feature}" for feature in self.features)]
        lines += [f"  {check.name}: {check.says}: {'passed' if check.passed else 'FAULT'}" for check in self.record]
        return "\n".join([*lines, "passed" if self.passed else "faults found"])

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON form; an infinite loss is null."""
        document = asdict(self) | {"passed": self.passed}
        for row, feature in zip(document["features"], self.features, strict=True):
            row["passed"] = feature.passed
            row |= {key: None for key in ("quoted", "found") if row[key] == inf}
        return document


def audit_policy(policy: Given, *, progress: Callable[[float], None] = lambda share: None) -> Audit:
    """Prove a policy's promises again from its integers, and test its draws.

    Claim: if the audit passes, all inputs keep the stated epsilon exactly against each other, by the runs of words that
    lead to each output (an approximate promise up to delta, between the inputs whose weights were read: all on grids of
    at most 256 points, on larger ones the ends, the middle and random ones).  The code that draws followed those runs
    at their ends and at random words, for every input; and row by row.  A faultless policy fails with probability at
    most ``false_alarm``.  Faults are told by the result; none is raised as an error.

    Parameters
    ----------
    policy : Policy or path
    progress : callable, optional
        Told the share that is done.

    Returns
    -------
    Audit

    Notes
    -----
    Approximate promises: delta is computed for every pair of inputs up to 64 points, else for the pairs with an end.

    Examples
    --------
    >>> from epsworth import Domain
    >>> from epsworth.policy import Policy, audit_policy
    >>> audit = audit_policy(Policy.of("pm", "0.5", Domain.of({"age": (0, 100)}), bits=4))
    >>> audit.passed, audit.features[0].found <= 0.5
    (True, True)
    """
    policy, features = as_policy(policy), []
    risk = Risk(FALSE_ALARM)
    of_draws, of_replays, of_serial = risk.divide([1 - OF_REPLAYS - OF_SERIAL, OF_REPLAYS, OF_SERIAL])
    read = lru_cache(maxsize=1)(
        _read
    )  # the features of a policy often share one kernel; rows of a large grid are large
    count = len(policy.rules) + (policy.tailoring is not None)
    shares = of_draws.split(count)
    for rule, part in zip(policy.rules, shares, strict=False):  # what is left is the region's
        features.append(_audit_rule(rule, *read(rule.kernel), part))
        progress(len(features) / count)
    if policy.tailoring is not None:
        features.append(_audit_tailoring(policy.tailoring, shares.take()))
        progress(1.0)
    record = [
        _total(policy),
        *_replays(policy, of_replays),
        *_rows(policy),
        *raw(policy),
        *_serial(policy, of_serial),
        *_passing(policy),
    ]
    return Audit(policy.fingerprint, str(policy.guarantee), tuple(features), tuple(record), float_above(risk.spent))


def _read(kernel: Kernel) -> tuple[Rows, Check, Fraction | None]:
    """Return weights, whether words become what they say, and the largest loss."""
    rows = Rows(kernel)
    return rows, *audit_words(rows)


def _audit_rule(rule: Rule, rows: Rows, words: Check, loss: Fraction | None, risk: Risk) -> FeatureAudit:
    kernel = rule.kernel
    checks = [_construction(kernel), _weights(rows), words, _values(rule), _draws(Column(rule), rows, risk)]
    checks += _approximate(rows, rule) if kernel.guarantee.delta else _pure(kernel, loss, rule)
    return FeatureAudit(
        rule.feature.name, rule.mechanism, str(rule.epsilon), kernel.points, kernel.loss(),
        inf if loss is None else float_above(loss), kernel.points, tuple(checks), excluded(kernel.points),
    )  # fmt: skip


def _audit_tailoring(tailoring: Tailoring, risk: Risk) -> FeatureAudit:
    randomiser = tailoring.randomiser
    checks, found = audit_cases(tailoring, risk)
    return FeatureAudit(
        ", ".join(tailoring.names), f"tailored ({randomiser.kind})", str(tailoring.epsilon), randomiser.count,
        randomiser.loss, inf if found is None else float_above(found), randomiser.count, checks,
    )  # fmt: skip


def _construction(kernel: Kernel) -> Check:
    try:
        kernel.prove()
    except ArithmeticError as error:
        return Check("construction", False, str(error))
    return Check("construction", True, "the construction's obligations hold in integers")


def _weights(rows: Rows) -> Check:
    faults, read = rows.faults, f"the weights of {len(rows.inputs)} inputs"
    says = f"{read} add up to their totals"
    if faults:
        says = f"the weights of {len(faults)} inputs (first: {faults[0]}) do not add up to what is drawn from"
    return Check("weights", not faults, says)


def _pure(kernel: Kernel, loss: Fraction | None, rule: Rule) -> Iterator[Check]:
    """Compare what the integers keep with what is quoted, and with what the policy states."""
    quoted, stated = kernel.loss(), Fraction(rule.epsilon)
    shown = "infinite" if loss is None else show_up(float_above(loss))
    says = f"the largest loss of the weights is {shown}, stated {rule.epsilon}, quoted {show_up(quoted)}"
    yield Check("loss", loss is not None and loss <= stated and float_above(loss) <= quoted, says)
    yield Check("quote", quoted <= float_above(stated), f"quoted {show_up(quoted)}, stated {rule.epsilon}")


def _approximate(rows: Rows, rule: Rule) -> Iterator[Check]:
    """Compare the delta that the integers need at the stated epsilon with the one quoted."""
    promise, needed = rows.kernel.guarantee, float_above(rows.delta(rule.epsilon))
    says = f"delta {show_up(needed)} is needed at epsilon {rule.epsilon}, quoted {show_up(promise.delta)}"
    yield Check("delta", needed <= promise.delta, says)
    stated = f"quoted epsilon {show_up(promise.epsilon)}, stated {rule.epsilon}"
    yield Check("quote", promise.epsilon <= float_above(Fraction(rule.epsilon)), stated)


def _values(rule: Rule) -> Check:
    """Check that what leaves is looked up in a public table, inside the declared range."""
    feature, values = rule.feature, Column(rule).values
    if feature.categories is not None:
        return Check("values", values.tolist() == list(feature.categories), f"{len(values)} declared categories")
    inside = bool(np.all((values >= feature.lower) & (values <= feature.upper)))
    return Check("values", inside, f"{len(values)} public values, all inside the range" if inside else "out of range")


def _draws(column: Column, rows: Rows, risk: Risk) -> Check:
    """Compare fresh draws with the weights, for the ends and the middle: intervals for the shares of groups of outputs.

    A policy without fault fails with at most the probability of ``risk``.
    """
    for (i, (group, shares)), part in zip(rows.groups.items(), risk.split(len(rows.groups)), strict=True):
        drawn = column.draw(np.full(DRAWS, i))
        if drawn.min() < 0 or drawn.max() >= group.size:
            return Check("draws", False, f"input {i} leads to outputs beyond the grid")
        counts = np.bincount(group[drawn], minlength=CELLS)
        lower, upper = part.split(CELLS).interval(counts, DRAWS)
        if (wrong := np.flatnonzero((shares < lower) | (shares > upper))).size:
            at = int(wrong[0])
            told = f"{counts[at]:,} of {DRAWS:,} draws from input {i} fall into outputs of probability {shares[at]:.6g}"
            return Check("draws", False, f"{told}, which chance does not explain")
    return Check("draws", True, f"{DRAWS:,} draws from each of {len(rows.groups)} inputs fit the weights")


def _replays(policy: Policy, risk: Risk) -> Iterator[Check]:
    """Try to make the release repeat itself: every column that rules release, and the region as one."""
    release, count = _same_records(policy), len(policy.rules)
    of_words, of_draws = risk.divide([OF_WORDS, 1 - OF_WORDS])
    yield audit_sources(of_words)
    parts, size = of_draws.split((count > 0) + (policy.tailoring is not None)), 2 * -(-DRAWS // (2 * len(policy.names)))
    found: list[Replay] = []
    if count:
        agree = [agreeing(rule.kernel, rule.kernel.points // 2) for rule in policy.rules]
        columns = Columns(lambda rows: release(rows)[:count], [rule.feature.name for rule in policy.rules], agree)
        found += repeats(columns, size, parts.take())
    if policy.tailoring is not None:
        found += replays(lambda values: mixed(release(values.size)[count:]), np.zeros(size), parts.take())
    yield Check("replay", not any(attempt.fault for attempt in found), "; ".join(map(str, found)))


def _same_records(policy: Policy) -> Callable[[int], list[NDArray[Any]]]:
    """Return a function that releases one record so many times: column by column, rules first."""
    record = [] if policy.tailoring is None else widest(policy.tailoring)

    def release(rows: int) -> list[NDArray[Any]]:
        inputs = {rule.feature.name: np.full(rows, rule.kernel.points // 2) for rule in policy.rules}
        grids = () if policy.tailoring is None else policy.tailoring.grids
        places = {grid.name: np.full(rows, place) for grid, place in zip(grids, record, strict=True)}
        return [drawn for _, drawn, _ in Perturbation(policy).draw(inputs, places)]

    return release


def _serial(policy: Policy, risk: Risk) -> Iterator[Check]:
    """Look for patterns between the rows, and columns, of one release of equal records."""
    columns, rules = _same_records(policy)(LENGTH), len(policy.rules)
    parts = [part for part in (columns[:rules], [mixed(columns[rules:])] if columns[rules:] else []) if part]
    for part, share in zip(parts, risk.split(len(parts)), strict=True):
        found = dependence(part, share)
        yield Check("serial", not found.fault, str(found))


def _rows(policy: Policy) -> Iterator[Check]:
    """Follow every row of a release of random records back to its own words; of what rules release."""
    if not policy.rules:
        return
    pick, words = np.random.default_rng(), Recorded()
    inputs = {rule.feature.name: pick.integers(0, rule.kernel.points, ROWS) for rule in policy.rules}
    places = (
        {}
        if policy.tailoring is None
        else {grid.name: np.zeros(ROWS, dtype=np.int64) for grid in policy.tailoring.grids}
    )
    released = list(Perturbation(policy, words).draw(inputs, places))[: len(policy.rules)]
    source, wrong = words.again(), []
    try:
        kept = kept_by(policy, ROWS, source)
        for column, (rule, (_, drawn, keep)) in enumerate(zip(policy.rules, released, strict=True)):
            told = followed(rule.kernel, inputs[rule.feature.name], source)
            same = np.array_equal(np.asarray(drawn), told)
            if not same or (kept is not None and (keep is None or not np.array_equal(keep, kept[:, column]))):
                wrong.append(rule.feature.name)
        spare = bool(source.left.size) and policy.tailoring is None
    except ArithmeticError:  # fewer words were taken
        wrong, spare = wrong or [policy.names[0]], False
    says = f"every row of {ROWS:,} is what its own words lead to, in their order"
    if wrong or spare:
        says = f"a row of {wrong[0] if wrong else policy.names[0]!r} is not what its own words lead to, in their order"
    yield Check("rows", not wrong and not spare, says)


def _passing(policy: Policy) -> Iterator[Check]:
    """Release a record with every declared column, and see what of it leaves; then one with a column more."""
    perturbation, kept = Perturbation(policy), (*policy.names, *policy.passing.columns)
    values = {name: column.values[0] for name, column in (perturbation.seen | perturbation.ruled).items()}
    record = dict.fromkeys((*policy.passing.columns, *policy.passing.drop), "own")
    record |= {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}

    def left(given: dict[str, Any]) -> dict[str, Any] | None:
        try:
            records = JsonRecords(perturbation, None)
            line = records.release(records.read(json.dumps(given).encode(), 0), None)
        except ValueError:
            return None
        return dict(json.loads(line))

    sent = left(record)  # nothing where the copy sees a column that is not declared: no record can be released
    as_stated = sent is not None and all(sent.get(name) == record[name] for name in policy.passing.columns)
    yield Check(
        "pass", as_stated and sorted(sent or ()) == sorted(kept), f"{len(kept)} declared columns leave, the others stay"
    )
    unknown = "".join(("other", *record))  # longer than each of them
    yield Check("undeclared", left(record | {unknown: 1}) is None, "a column that is not declared is refused")


def _total(policy: Policy) -> Check:
    """Check that the record's quoted epsilon covers whatever features are released together."""
    parts = sorted((Fraction(rule.kernel.guarantee.epsilon) for rule in policy.rules), reverse=True)
    region = Fraction(0) if policy.tailoring is None else Fraction(policy.tailoring.randomiser.loss)
    total, quoted = Fraction(sum(parts[: policy.released])) + region, policy.guarantee.epsilon
    says = f"what is released together adds up to epsilon {show_up(float_above(total))}, quoted {show_up(quoted)}"
    return Check("record", total <= Fraction(quoted), says)
