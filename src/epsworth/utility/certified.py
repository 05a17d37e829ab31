"""Of how many records what is kept is proven for all at their places: the copy is certain to be the classifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epsworth.arrays import Bools
from epsworth.classifiers.reading import Unsupported
from epsworth.records import Records
from epsworth.release.grids import Grid
from epsworth.tailoring.asking import Asked
from epsworth.tailoring.building import EXACT, Plan
from epsworth.tailoring.copying import certificate_of
from epsworth.utility.kept import Kept


def certified(plan: Plan, known: Asked, kept: Kept, records: Records) -> float | None:
    """Return the share of records for which copy and classifier agree, for certain, wherever it matters.

    Claim: every record whose columns lie at the same places as one that counts here - numbers up to half a step from
    them, all within the public ranges - has the classifier's label of the copy's region, and so has all that can be
    sent for it: what is kept of it is the kernel's probability of the own region, without a look at the classifier.
    Records that hold a gap, a number beyond its range or an undeclared category do not count: of them a place says
    nothing but what stands for it.  None where nothing is certain: for surrogates, cells and several classifiers.

    Parameters
    ----------
    known : Asked
        About public records, in whose kind of table the classifier is asked.
    kept : Kept
        Of the records that are looked at.
    records : Records
        These.
    """
    if plan.copied != EXACT or len(known.classifiers) > 1 or plan.copy.regions != len(set(plan.labels)):
        return None
    try:
        certificate = certificate_of(known.classifiers[0].inside, plan.grids, known.records, plan.copy)
    except Unsupported:
        return None
    reach, hidden = kept.reach, plan.sensitive
    fine = certificate(kept.places, True) & (reach.standing[reach.at, kept.true] >= 0) & _told(records, plan.grids)
    for region, rows in enumerate(plan.representatives):
        contexts = np.flatnonzero(reach.standing[:, region] >= 0)
        if not contexts.size:
            continue
        certain = np.ones(len(reach.contexts), dtype=bool)
        for number in range(len(rows)) if plan.draw else np.unique(reach.standing[contexts, region]).tolist():
            own = contexts if plan.draw else contexts[reach.standing[contexts, region] == number]
            sent = reach.contexts[own].copy()
            sent[:, hidden] = rows[number]
            right = certificate(sent, np.tile(~hidden, (len(own), 1)))
            certain[own] &= right | (plan.copy(sent) != region)  # what the copy takes for another region is not sent
        fine &= certain[reach.at]
    return float(np.mean(fine))


def _told(records: Records, grids: Sequence[Grid]) -> Bools:
    """Tell of which records all places stand for what the columns hold, up to half a step."""
    held = [grid.holds(records.column(records.names.index(grid.name))) for grid in grids]
    return np.asarray(np.all(held, axis=0))
