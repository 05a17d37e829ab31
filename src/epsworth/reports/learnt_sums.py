"""Whether the counts of what was learnt agree: with the cells that they count, and with one another."""

from __future__ import annotations

from itertools import pairwise

from epsworth.bounds import Risk
from epsworth.guarantees import Pure
from epsworth.learner.config import PureOfReporters
from epsworth.reports.held import Held, agree

NEAR = 1e-9  # relative: by which chances are rounded up, and what a level in doubles is off by


def check(held: Held) -> None:
    """Refuse a result whose numbers contradict one another.

    Claim: what is left has as many certified cells as its map, its labels and its rows by confidence say.
    """
    confidence, epsilon = held.share("confidence"), held.number("epsilon", 0)
    promises = [str(kind(epsilon, "record")) for kind in (Pure, PureOfReporters)]
    agree(held.whole("users") >= 1, "users: nobody reported; fit again")
    agree(0 < confidence < 1, "confidence: damaged, it must lie between 0 and 1; fit again")
    agree(held.text("guarantee") in promises, "guarantee: it is not what epsilon says; fit again")
    labels, found = held.parts("labels"), held.part("map") if "map" in held else None
    if labels:
        names = [one.text("label") for one in labels]
        agree(names == held.texts("classes"), "labels: damaged, they are not the classes; fit again")
    if found is not None:
        drawn = found.numbers("label", 0)
        for number, one in enumerate(labels):
            agree(one.whole("cells") == drawn.count(number), "labels: their cells are not those of the map; fit again")
    if "certified" in held:
        _certified(held, labels, float(Risk.of(confidence).total))
        if found is not None:
            _of_map(held, found, labels, float(Risk.of(confidence).total))
        return
    extra = held.parts("by_confidence") or held.parts("clearest") or (found is not None and "certified" in found)
    agree(not extra, "certified: it is missing beside certificates; fit again")


def _certified(held: Held, labels: list[Held], level: float) -> None:
    """Compare the number of certified cells with the labels, the rows by confidence, and the clearest cells."""
    count, cells = held.whole("certified"), held.whole("cells")
    agree(count <= cells, f"certified: {count:,} are more than the {cells:,} cells; fit again")
    total = (
        sum(one.whole("certified") for one in labels) == count and sum(one.whole("cells") for one in labels) == cells
    )
    agree(total, "labels: they do not add up to the cells, and to those certified; fit again")
    rows = sorted((one.share("confidence"), one.whole("certified")) for one in held.parts("by_confidence"))
    for own, told in rows:
        least = count if own <= held.share("confidence") else 0  # who asks for less is given no less
        most = count if own >= held.share("confidence") else cells
        agree(least <= told <= most, "by_confidence: it does not agree with certified; fit again")
    falling = all(one >= two for (_, one), (_, two) in pairwise(rows))
    agree(falling, "by_confidence: more certainty certifies no more cells; fit again")
    listed = held.parts("clearest")
    for one in listed:
        _apart(one.flag("certified"), one.share("adjusted"), level, "clearest")
    fits = sum(one.flag("certified") for one in listed) == min(count, len(listed))
    agree(fits, "clearest: they do not agree with certified; fit again")


def _of_map(held: Held, found: Held, labels: list[Held], level: float) -> None:
    """Compare all that is counted with the cells one by one."""
    sure, own, drawn = found.raw("certified"), found.raw("cell_label"), found.raw("label")
    chances = found.numbers("adjusted", 0, 1)
    same = all(isinstance(one, list) and len(one) == len(chances) for one in (sure, own, drawn))
    agree(same, "map: damaged or incomplete (lists of different lengths)")
    for certified, chance in zip(sure, chances, strict=True):
        _apart(certified is True, chance, level, "map")
    agree(sure.count(True) == held.whole("certified"), "certified: it is not what the map says; fit again")
    for number, one in enumerate(labels):
        with_it = sum(yes is True and label == number for yes, label in zip(sure, own, strict=True))
        agree(one.whole("certified") == with_it, "labels: their certificates are not those of the map; fit again")
    other = sum(yes is True and a != b for yes, a, b in zip(sure, own, drawn, strict=True))
    agree(held.whole("differing") == other, "differing: it is not what the map says; fit again")
    for one in held.parts("by_confidence"):
        bound = float(1 - one.share("confidence"))
        low, high = (sum(chance <= bound * (1 + room) for chance in chances) for room in (-NEAR, NEAR))
        agree(low <= one.whole("certified") <= high, "by_confidence: it is not what the map says; fit again")
    clearest = [one.share("adjusted") for one in held.parts("clearest")]
    agree(clearest == sorted(chances)[: len(clearest)], "clearest: they are not those of the map; fit again")


def _apart(certified: bool, chance: float, level: float, name: str) -> None:
    """Refuse a certificate whose chance of a miss is too large, and one that is withheld for no reason."""
    fits = chance <= level * (1 + NEAR) if certified else chance >= level * (1 - NEAR)
    agree(fits, f"{name}: damaged, a certificate does not agree with its chance; fit again")
