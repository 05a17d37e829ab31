"""The audit of a tailored policy: every kernel that public columns can lead to, or some where these are too many.

All that is read here are weights and what leaves; which regions a draw may reach, and which stand for the others, is
worked out anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from fractions import Fraction
from random import SystemRandom
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.bounds import Risk
from epsworth.mechanisms import Kernel
from epsworth.mechanisms.two_level import TwoLevelKernel
from epsworth.release.audit_rows import DOWN, DRAWS, SPOTS, Check, Rows
from epsworth.release.audit_words import audit_words
from epsworth.release.copies import Indices
from epsworth.release.randomisers import Average, ConditionalKernel, Gain, Randomiser
from epsworth.release.tailoring import ReachableRegions, Tailoring
from epsworth.rounding import float_above, show_up

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
