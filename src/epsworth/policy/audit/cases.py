"""What an audit tries of a policy: every kernel of a tailored one, raw values through the doors, and repeats.

*Tailored.*  Every kernel that public columns can lead to is read, or some where these are too many: weights and what
leaves; which regions a draw may reach, and which stand for the others, is worked out anew.

*Doors.*  Raw values go through arrays, data frames and a device's client with words that are given.  What leaves must
be the kernel's own outcome of the row's words, at an index that is found here, from the public range and by Python's
own numbers: a fault on the way to that index would else be one of every draw that follows it.

*Repeats.*  One source of words per column multiplies the seeds of a whole release, so columns are compared by
themselves, in calls of few rows and in forked processes; how often independent ones agree is summed exactly from the
weights.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from importlib.util import find_spec
from itertools import islice, product
from random import SystemRandom
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Indices
from epsworth.bounds import Risk
from epsworth.client.door import fresh
from epsworth.frames import as_frame
from epsworth.mechanisms import Kernel
from epsworth.mechanisms.two_level import TwoLevelKernel
from epsworth.mechanisms.words import FEW, SystemWords, Words
from epsworth.policy.audit.black_box import CALLS, ENOUGH, POWER_ULPS, Replay, digest, in_children, same_state
from epsworth.policy.audit.words import DOWN, DRAWS, SPOTS, Check, Recorded, Rows, audit_words, followed, kept_by
from epsworth.policy.audit.words import Given as GivenWords
from epsworth.policy.columns import Column
from epsworth.policy.files.file_tables import WIDTH, PartWords
from epsworth.policy.policy import Policy
from epsworth.policy.rules import Rule
from epsworth.policy.tables import Perturbation
from epsworth.rounding import float_above, show_up, up
from epsworth.tailored.mechanism import ReachableRegions, Tailoring
from epsworth.tailored.randomisers import Average, ConditionalKernel, Gain, Randomiser

CONTEXTS = 256  # public columns, taken at random, at which all that can be sent is listed
MOST_PAIRS = 1 << 17  # of regions in these lists together
MIXERS = 0x9E3779B97F4A7C15  # odd: columns of a record become one number


def audit_cases(tailoring: Tailoring, risk: Risk) -> tuple[tuple[Check, ...], Fraction | None]:
    """Return what was found about a tailored policy's region, and the largest loss; None: infinite.

    A policy without fault fails with at most the probability of ``risk``.
    """
    randomiser = tailoring.randomiser
    losses: list[Fraction | None] = [Fraction(0)]
    faults: list[str] = []
    known: dict[int, Kernel] = {}  # that were read
    cases = list(_cases(randomiser))
    for leaf, present in cases:
        case = randomiser.case(leaf, present)
        faults += _case_faults(randomiser, leaf, present, case)
        if case.kernel is not None and not _same(known.get(len(case.regions)), case.kernel):
            rows = Rows(case.kernel)
            if rows.faults:
                faults.append(f"of {len(case.regions)} regions, weights do not add up to what is drawn from")
            elif not (words := audit_words(rows)[0]).passed:
                faults.append(f"of {len(case.regions)} regions, {words.says}")
            losses.append(_loss(rows))
            known[len(case.regions)] = case.kernel
    built = Check(
        "kernels", not faults, faults[0] if faults else f"{len(cases)} kernels between regions within reach are proven"
    )
    found = None if None in losses else max(loss for loss in losses if loss is not None)
    stated, quoted = Fraction(tailoring.epsilon), randomiser.loss
    shown = "infinite" if found is None else show_up(float_above(found))
    says = f"the largest loss of the weights is {shown}, stated {stated_text(tailoring)}, quoted {show_up(quoted)}"
    loss = Check("loss", found is not None and found <= stated and float_above(found) <= quoted, says)
    quote = Check("quote", quoted <= float_above(stated), f"quoted {show_up(quoted)}, stated {stated_text(tailoring)}")
    if faults:  # and nothing can be listed, or drawn, that would say more
        return (built, loss, quote), found
    return (built, loss, quote, _reach(tailoring), _draws(tailoring, cases, risk)), found


def _same(known: Kernel | None, kernel: Kernel) -> bool:
    """Tell whether a kernel of the same integers was read before."""
    if not isinstance(known, TwoLevelKernel) or not isinstance(kernel, TwoLevelKernel):
        return False
    return all(getattr(known, field.name) == getattr(kernel, field.name) for field in fields(kernel))


def stated_text(tailoring: Tailoring) -> str:
    """Return epsilon as the policy states it."""
    return str(tailoring.epsilon)


def _cases(randomiser: Randomiser) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield leaves and regions within reach: of randomised response all sizes, of a matrix the whole and some parts."""
    count, pick = randomiser.count, SystemRandom()
    leaves = range(len(randomiser.orders)) if isinstance(randomiser, Average) else range(1)
    for leaf in leaves:
        yield leaf, tuple(range(count))
        sizes = range(1, count)
        if isinstance(randomiser, Average):
            sizes = range(1, min(count, randomiser.most[leaf] + 1))
        for size in sizes if not isinstance(randomiser, Gain) else pick.sample(sizes, min(SPOTS, count - 1)):
            yield leaf, tuple(sorted(pick.sample(range(count), size)))
    if isinstance(randomiser, Gain):  # every region out of reach, once
        for out in pick.sample(range(count), min(count, SPOTS)) if count > 1 else ():
            yield 0, tuple(region for region in range(count) if region != out)


def _case_faults(randomiser: Randomiser, leaf: int, present: Sequence[int], case: ConditionalKernel) -> Iterator[str]:
    """Yield what is wrong with a case: its regions, its rows, their sums, or its proof."""
    named = f"with {len(present)} of {randomiser.count} regions within reach"
    if case.regions != _expected(randomiser, leaf, present):
        yield f"{named}, other regions are drawn from than the policy says"
    if case.kernel is None:
        if len(case.regions) != 1:
            yield f"{named}, several regions have no kernel"
        return
    if case.kernel.points != len(case.regions):
        yield f"{named}, the kernel is one of {case.kernel.points}: a part of it was divided by its sum, or none built"
        return
    try:
        case.kernel.prove()
    except ArithmeticError as error:
        yield f"{named}: {error}"
    if isinstance(randomiser, Gain) and not _folded(randomiser, case):
        yield f"{named}, rows are not those of the whole with each region out of reach moved to the one in its stead"


def _expected(randomiser: Randomiser, leaf: int, present: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(randomiser, Average):
        return tuple(present)
    ordered = sorted(present, key=randomiser.orders[leaf].index)
    return tuple(ordered[: randomiser.most[leaf]])


def _folded(randomiser: Gain, case: ConditionalKernel) -> bool:
    """Work out anew what a part of the matrix should be."""
    assert case.kernel is not None
    target = {y: next(r for r in (y, *randomiser.instead[y]) if r in case.regions) for y in range(randomiser.count)}
    for row, region in enumerate(case.regions):
        sums = dict.fromkeys(case.regions, 0)
        for y, weight in enumerate(randomiser.kernel.rows[region]):
            sums[target[y]] += weight
        if list(case.kernel.weights(row)) != list(sums.values()):
            return False
    return True


def _loss(rows: Rows) -> Fraction | None:
    """Return the largest loss of a case; columns that are empty in all rows lose nothing."""
    if all(min(column) > 0 for column in zip(*rows.weights.values(), strict=True)):
        return rows.loss
    kept = [at for at, column in enumerate(zip(*rows.weights.values(), strict=True)) if any(column)]
    rows.weights = {i: [row[at] for at in kept] for i, row in rows.weights.items()}
    return rows.loss


def _reach(tailoring: Tailoring) -> Check:
    """List all that can be sent from some public columns, whatever the region is: one support, sums of 1, the ratio."""
    count = tailoring.randomiser.count
    reach = ReachableRegions.of(tailoring, _contexts(tailoring, max(1, min(CONTEXTS, MOST_PAIRS // count**2))))
    most, regions = Fraction(DOWN.next_minus(DOWN.exp(tailoring.epsilon))), 0
    for context in range(len(reach.contexts)):
        told = [dict(reach.outcomes(context, true)) for true in range(count)]
        regions = max(regions, int((reach.standing[context] >= 0).sum()))
        for shares in told:
            if sum(shares.values()) != 1 or shares.keys() != told[0].keys():
                return Check("reach", False, "what can be sent depends on the true region")
        for sent in told[0]:
            each = [shares[sent] for shares in told]
            if max(each) > most * min(each):
                return Check("reach", False, "what is sent tells two regions apart by more than e^epsilon")
    says = f"all that can be sent was listed at {len(reach.contexts)} public records, of at most {regions} regions each"
    return Check("reach", True, says)


def _contexts(tailoring: Tailoring, size: int) -> Indices:
    """Return places of records at random; nothing is known of the real ones."""
    draw = np.random.default_rng()
    return np.column_stack([draw.integers(0, grid.input.places, size) for grid in tailoring.grids])


def widest(tailoring: Tailoring) -> list[int]:
    """Return the places of a record, of some at random, that has most regions within reach."""
    rows = _contexts(tailoring, CONTEXTS)
    reach = ReachableRegions.of(tailoring, rows)
    place: list[int] = rows[int(np.argmax((reach.standing >= 0).sum(axis=1)[reach.at]))].tolist()
    return place


def mixed(drawn: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return one number per record: columns that are drawn together are no independent draws.

    Different records may get one number, by which the chance of equal ones is overestimated.
    """
    found = np.zeros(len(drawn[0]), dtype=np.uint64)
    for column in drawn:
        found = found * np.uint64(MIXERS) + np.asarray(column).astype(np.uint64)
    return found


def _draws(tailoring: Tailoring, cases: Sequence[tuple[int, tuple[int, ...]]], risk: Risk) -> Check:
    """Compare fresh regions with their weights: all true regions of the whole, and of some part."""
    chosen = [cases[0], min(cases[1:], key=lambda case: abs(len(case[1]) - 2), default=cases[0])]
    regions = sorted({0, tailoring.randomiser.count // 2, tailoring.randomiser.count - 1})
    trials = [(case, true) for case in chosen for true in regions]
    for ((leaf, present), true), part in zip(trials, risk.split(len(trials)), strict=True):
        case = tailoring.randomiser.case(leaf, present)
        drawn = case.draw(np.full(DRAWS, true), None)
        shares = dict(case.shares(true))
        counts = np.array([(drawn == region).sum() for region in shares])
        lower, upper = part.split(len(counts)).interval(counts, DRAWS)
        truth = np.array([float(share) for share in shares.values()])
        if counts.sum() != DRAWS or ((truth < lower) | (truth > upper)).any():
            says = f"draws from region {true}, of {len(present)} within reach, do not fit the weights by any chance"
            return Check("draws", False, says)
    return Check("draws", True, f"{DRAWS:,} draws from each of {len(trials)} regions fit the weights")


ROWS = 4096  # of a table
RECORDS = 512  # of one record each
COPIES = 16  # of every special value, at random rows
Values = Mapping[str, list[Any]]


def raw(policy: Policy) -> Iterator[Check]:
    """Release raw values of what rules perturb, and compare what leaves with what their words lead to."""
    if not policy.rules:
        return
    plain = Policy(policy.rules, policy.sampling)
    told = {"arrays": _array(plain), "data frames": _frame(plain), "records": _records(plain)}
    run, wrong = (
        [door for door, found in told.items() if found is not None],
        [found for found in told.values() if found],
    )
    says = f"raw values - random ones, ends, -0.0, beyond, missing, undeclared - through {', '.join(run)}"
    yield Check("raw", not wrong, f"{says}: {wrong[0] if wrong else 'each is what its words lead to'}")


def special(rule: Rule) -> list[Any]:
    """Return the values that a door could treat in a way of its own; those that the policy refuses are left out."""
    feature, gap = rule.feature, [None] if rule.missing is not None else []
    if feature.categories is not None:
        return [*feature.categories, *gap, *([_undeclared(feature.categories)] if rule.outside is not None else [])]
    low, high = feature.lower, feature.upper
    middle = low + (high - low) / 2
    inner = [math.nextafter(low, high), math.nextafter(high, low), math.nextafter(low, -math.inf), middle]
    return [low, high, -0.0, 0.0, *inner, -1e308, 1e308, -math.inf, math.inf, 5e-324, *gap]


def _undeclared(categories: Sequence[Any]) -> Any:
    """Return a word, or a number, that is none of the categories, of the kind of the first."""
    if isinstance(categories[0], str):
        return "".join(("un", *map(str, categories)))
    return 1 + math.ceil(max(abs(float(one)) for one in categories if not isinstance(one, str)))


def values_of(rule: Rule, rows: int, pick: np.random.Generator) -> list[Any]:
    """Return raw values: random ones, some beyond the range, and copies of the special ones, in a random order."""
    feature = rule.feature
    chosen = (special(rule) * COPIES)[:rows]
    if feature.categories is not None:
        found = [*chosen, *(feature.categories[i] for i in pick.integers(0, len(feature.categories), rows))]
    else:
        spread = pick.uniform(-0.125, 1.125, rows)
        found = [*chosen, *(feature.lower * (1 - spread) + feature.upper * spread).tolist()]
    return [found[i] for i in pick.permutation(rows)]


def index_of(rule: Rule, value: Any) -> int:
    """Return the kernel's input for a value, by the policy's text alone.

    Examples
    --------
    >>> from epsworth import Domain
    >>> age, job = Policy.of("pm", "1", Domain.of({"age": (0, 100), "job": ["clerk", "nurse"]}), bits=4).rules
    >>> [index_of(age, value) for value in (-5, -0.0, 50, 1e9)], index_of(job, "nurse")
    ([0, 0, 8, 15], 1)
    """
    feature = rule.feature
    if value is None:
        value = rule.missing
    if feature.categories is not None:
        known = list(feature.categories)
        return known.index(value if value in known else rule.outside)
    clipped = min(max(float(value), feature.lower), feature.upper)
    return round((clipped - feature.lower) / (feature.upper - feature.lower) * (rule.kernel.points - 1))


def _table(policy: Policy, rows: int) -> tuple[Values, dict[str, Indices]]:
    pick = np.random.default_rng()
    table = {rule.feature.name: values_of(rule, rows, pick) for rule in policy.rules}
    told = {r.feature.name: np.array([index_of(r, v) for v in table[r.feature.name]]) for r in policy.rules}
    return table, told


def _expected_rows(policy: Policy, told: Mapping[str, Indices], source: GivenWords) -> dict[str, list[Any]]:
    """Return what must leave: the outcome of each row's own words, looked up."""
    rows = len(next(iter(told.values())))
    kept, found = kept_by(policy, rows, source), {}
    for at, rule in enumerate(policy.rules):
        drawn = followed(rule.kernel, told[rule.feature.name], source)
        keep = None if kept is None else kept[:, at]
        found[rule.feature.name] = Column(rule).released(drawn, keep, policy).tolist()
    return found


def _differs(found: Mapping[str, Sequence[Any]], expected: Mapping[str, list[Any]]) -> str | None:
    for name, values in expected.items():
        if [_plain(value) for value in found[name]] != [_plain(value) for value in values]:
            return name
    return None


def _plain(value: Any) -> Any:
    return None if value is None or value != value else value


def _tried(
    policy: Policy, release: Callable[[Perturbation, Values], Mapping[str, Sequence[Any]]], door: str
) -> str | None:
    """Release a table by a door; return what is wrong with what leaves, nothing where nothing is."""
    (table, told), words = _table(policy, ROWS), Recorded()
    try:
        found = release(Perturbation(policy, words), table)
        name = _differs(found, _expected_rows(policy, told, words.again()))
    except (ValueError, ArithmeticError) as error:  # of made-up values: a door refuses, or took other words
        return f"{door} give {type(error).__name__}"
    return "" if name is None else f"{door} release something else for {name!r}"


def _array(policy: Policy) -> str | None:
    """Release an array, whose columns are x0, x1, ..: the same rules under these names."""
    rules = [replace(r, feature=replace(r.feature, name=f"x{i}")) for i, r in enumerate(policy.rules)]
    named = Policy(tuple(rules), policy.sampling)

    def release(perturbation: Perturbation, table: Values) -> Mapping[str, Sequence[Any]]:
        columns: list[NDArray[Any]] = []
        for rule in rules:
            values, numbers = table[rule.feature.name], rule.feature.categories is None
            columns.append(
                np.array([math.nan if v is None else v for v in values] if numbers else values, dtype=object)
            )
        stacked = np.stack(columns, axis=1)
        sent = perturbation.array(stacked if _has_words(named) else stacked.astype(np.float64))
        return {name: sent[:, i].tolist() for i, name in enumerate(table)}

    return _tried(named, release, "arrays")


def _has_words(policy: Policy) -> bool:
    return any(rule.feature.categories is not None for rule in policy.rules)


def _frame(policy: Policy) -> str | None:
    """Release a data frame of the library at hand; categories of several kinds are no column of one."""
    library = next((name for name in ("polars", "pandas") if find_spec(name) is not None), None)
    kinds = [{type(one) for one in rule.feature.categories or (0.0,)} for rule in policy.rules]
    if library is None or any(len(kind) > 1 or bool in kind for kind in kinds):
        return None

    def release(perturbation: Perturbation, table: Values) -> Mapping[str, Sequence[Any]]:
        made = __import__(library).DataFrame(table)
        sent = perturbation.frame(as_frame(made))
        return {name: sent.get_column(name).to_list() for name in table}

    return _tried(policy, release, "data frames")


def _records(policy: Policy) -> str | None:
    """Release records one by one; a policy that devices do not run has no such door."""
    try:
        client = policy.client
    except ValueError:
        return None
    table, told = _table(policy, RECORDS)
    words = SystemWords().words(RECORDS * client.words).reshape(RECORDS, client.words)
    records = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    sent = [client.replay(record, row) for record, row in zip(records, words.tolist(), strict=True)]
    d = len(policy.rules)
    order = words.T if policy.sampling is None else [words[:, :d], *words[:, d:].T]  # column by column, as tables draw
    source = GivenWords(np.concatenate([np.ravel(part) for part in order]))
    name = _differs({name: [record[name] for record in sent] for name in table}, _expected_rows(policy, told, source))
    return "" if name is None else f"records release something else for {name!r}"


Release = Callable[[int], Sequence[NDArray[Any]]]
CALLED_ROWS = (64, 256, 1024, 4096)  # of a call, of which there are many: the first that leaves nothing to chance
AT_ONCE = 64  # calls of few rows that a process makes
SOURCES = 4096  # of words, each asked for few: seeds of 20 bits come back in all but 0.04 % of the tries
OF_WORDS = Fraction(1, 5)  # the share of the risk that pays for equal words


@dataclass(frozen=True)
class Columns:
    """A release's columns, each with the probability that two draws of it agree."""

    release: Release
    names: Sequence[str]
    agree: Sequence[Fraction]

    def digests(self, rows: int, calls: int = 1) -> list[bytes]:
        """Return a digest of every column of some calls in a row."""
        made = [self.release(rows) for _ in range(calls)]
        return [digest(np.concatenate([call[at] for call in made])) for at in range(len(self.names))]

    def chance(self, at: int, rows: int, pairs: int = 1) -> float:
        """Return a bound on the probability that some pair of independent blocks of a column agrees everywhere."""
        return min(1.0, up(pairs * up(float_above(self.agree[at]) ** rows, ulps=POWER_ULPS)))


def agreeing(kernel: Kernel, i: int) -> Fraction:
    """Return the probability that two draws from an input agree.

    Examples
    --------
    >>> from epsworth.mechanisms import kernel
    >>> round(float(agreeing(kernel("krr", "1", k=2), 0)), 3)
    0.607
    """
    return Fraction(sum(weight * weight for weight in kernel.weights(i)), kernel.total(i) ** 2)


def repeats(columns: Columns, rows: int, risk: Risk) -> Iterator[Replay]:
    """Try to make each column repeat itself, in every way that betrays a seeded, shared or inherited generator.

    Claim: independent draws are called a fault with at most the probability of ``risk``.
    """
    attempts: dict[str, tuple[int, Callable[[], list[list[bytes]]]]] = {
        "two calls in a row": (rows, lambda: [columns.digests(rows), columns.digests(rows)]),
        "the generators of random and numpy set to one state": (rows, lambda: _of_one_state(columns, rows)),
        "two processes forked from one parent": (rows, lambda: _forked(columns, rows, 1)),
        f"calls of {FEW} rows in forked processes": (FEW * AT_ONCE, lambda: _forked(columns, FEW, AT_ONCE)),
    }
    shares = iter(risk.split((len(attempts) + 2) * len(columns.names)))
    for attempt, (drawn, blocks) in attempts.items():
        yield _compared(columns, attempt, drawn, blocks(), shares)
    yield _many(columns, CALLED_ROWS, CALLS, shares)
    yield _many(columns, (FEW,), CALLS // 4, shares)


def _of_one_state(columns: Columns, rows: int) -> list[list[bytes]]:
    found = []
    for _ in range(2):
        with same_state():
            found.append(columns.digests(rows))
    return found


def _forked(columns: Columns, rows: int, calls: int) -> list[list[bytes]]:
    """Return the digests of two children, and of their parent afterwards; none where there is no fork."""
    answers = in_children(lambda: b"".join(columns.digests(rows, calls)))
    told = [answer for answer in answers if answer is not None]
    if len(told) < len(answers):
        return []
    size = len(told[0]) // len(columns.names)
    children = [[answer[size * at : size * (at + 1)] for at in range(len(columns.names))] for answer in told]
    return [*children, columns.digests(rows, calls)]


def _compared(
    columns: Columns, attempt: str, rows: int, blocks: Sequence[Sequence[bytes]], shares: Iterator[Risk]
) -> Replay:
    """Return the first column of which two blocks are the same, and not by chance."""
    pairs, worst = len(blocks) * (len(blocks) - 1) // 2, 0.0
    found: list[Replay] = []
    for at, (name, share) in enumerate(zip(columns.names, shares, strict=False)):
        chance = columns.chance(at, rows, pairs)
        worst = max(worst, chance)
        if blocks and len({block[at] for block in blocks}) < len(blocks):
            found.append(Replay(f"{attempt}, {name!r}", True, chance, chance <= share.spend()))
    faults = [replay for replay in found if replay.fault]
    if faults or found:
        return (faults or found)[0]
    return Replay(attempt, False if blocks else None, worst, False)


def _many(columns: Columns, sizes: Sequence[int], calls: int, shares: Iterator[Risk]) -> Replay:
    """Make many calls, and look for two that drew the same of a column: few seeds collide."""
    width = len(columns.names)
    pairs, allowed = calls * (calls - 1) // 2, [next(shares).spend() for _ in range(width)]
    for rows in sizes:
        told = [at for at in range(width) if columns.chance(at, rows, pairs) <= allowed[at]]
        if len(told) == width:
            break
    coarse = [name for at, name in enumerate(columns.names) if at not in told]
    attempt = f"{calls:,} calls in a row, of {rows} rows each"
    attempt += f" (too few for {', '.join(map(repr, coarse))})" if coarse else ""
    started, seen = time.monotonic(), {at: set[bytes]() for at in told}
    for call in range(1, calls + 1) if told else ():
        drawn = columns.release(rows)
        for at in told:
            seen[at].add(digest(drawn[at]))
            if len(seen[at]) < call:
                return Replay(f"{attempt}, {columns.names[at]!r}", True, columns.chance(at, rows, pairs), True)
        if time.monotonic() - started > ENOUGH:
            attempt = f"{attempt}, stopped after {call:,}"
            break
    return Replay(attempt, False if told else None, 1.0, False)


def audit_sources(risk: Risk) -> Check:
    """Ask sources for few words and for many, here and in forked processes, and keyed ones: no word may come twice.

    A faultless source fails with probability n^2 / 2^65 for n words, which ``risk`` must pay for.
    """
    answers = [answer for answer in in_children(lambda: _words(AT_ONCE).tobytes()) if answer is not None]
    children = [np.frombuffer(answer, dtype=np.uint64) for answer in answers]
    keyed, same = _keyed()
    found = np.concatenate([_words(SOURCES), *children, *keyed])
    chance = Fraction(found.size * (found.size - 1) // 2, 1 << 64)
    told = f"{found.size:,} words of {SOURCES:,} sources, forked processes and {len(keyed)} parts of runs"
    if np.unique(found).size < found.size and chance <= Fraction(risk.spend()):
        return Check("sources", False, f"{told}: one comes twice; the randomness can be replayed")
    if not same:
        return Check("sources", False, f"{told}: a part of a run that is drawn again has other words")
    return Check("sources", True, f"{told} differ, and a part that is drawn again has the same")


def _words(sources: int) -> Words:
    """Return the words of many sources: 1 to 16, more of every 64th, and as a device takes them."""
    found = [SystemWords().take(1 + at % FEW) for at in range(sources)]
    found += [SystemWords().words(FEW + 1 + at) for at in range(sources // AT_ONCE)]
    return np.concatenate([*found, np.array(list(islice(fresh(3), AT_ONCE)), dtype=np.uint64)])


def _keyed() -> tuple[list[Words], bool]:
    """Return the words of parts that differ in key, what is drawn, index or digest, and whether equal ones agree."""
    keys, digests = ([os.urandom(WIDTH) for _ in range(2)] for _ in range(2))
    found, same = [], True
    for key, identity, index, told in product(keys, ("one policy", "another"), (0, 1), digests):
        found.append(PartWords(key, identity)(index, told).take(AT_ONCE))
        again = PartWords(key, identity)(index, told)
        same = same and np.array_equal(found[-1], np.concatenate([again.take(FEW), again.take(AT_ONCE - FEW)]))
    return found, same
