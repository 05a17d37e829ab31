"""The first averages of a limited run against a plain script: one mechanism, draws, a predict per epsilon."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import epsworth as ew
from benchmarks.timing import Clock, Row, shown
from epsworth.utility.deadline import RunState

HALF_WIDTH, NORMAL = 0.03, 3.29  # of the averages; 99.9 % of a normal variable, two-sided
BAR = 6.0  # per point: 42 of ours hold together, with exact limits, and one of the script's alone, nearly
NAME = "pm"


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time of 42 averages per point over that of a script's seven, both to the same half-width."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # where the generator of the data lies
    import hospital

    data = hospital.hospital(0, clock.size(hospital.ROWS, 400), gaps=False)
    model, table = hospital.boosted(data), data.test[: clock.size(1_200, 100)]
    half, names = clock.size(1, 4) * HALF_WIDTH, hospital.SENSITIVE
    ranges, found = {name: hospital.DOMAIN[name] for name in names}, list[ew.Curves]()

    def narrow(standing: RunState) -> bool:
        lower, upper = standing.average()
        return bool(upper.size and (upper - lower).max() <= 2 * half)

    def ours() -> None:
        found[:] = [ew.stability(model, table, sensitive=names, domain=ranges, rng=0, seconds=600, watch=narrow)]

    def plain() -> None:
        script(model, table, ranges, found[0].epsilons, half)

    ours()
    points = found[0].lower[..., 0].size
    race = clock.race(ours, plain, per=(points, len(found[0].epsilons)), runs=3)
    note = f"{shown(race.ours * points)} for {points} averages to +-{half:g} together, {found[0].queries:,} queries"
    yield Row("an average, 5 features of 1,200 patients", "one of a plain script", race.ratio, BAR, note)


def script(model, table, ranges, epsilons, half) -> list[float]:
    """Return one mechanism's averages as a plain script has them, each by itself within ``half``, nearly."""
    rng, draws = np.random.default_rng(0), int(np.ceil((NORMAL / 2 / half) ** 2))
    labels, averages = model.predict(table), []
    for epsilon in epsilons:
        picked = rng.integers(len(table), size=draws)
        copies = table.iloc[picked].copy()
        for name, (lower, upper) in ranges.items():
            unit = (copies[name].to_numpy(dtype=float) - lower) / (upper - lower)
            noisy = ew.MECHANISMS[NAME](epsilon / len(ranges)).law(unit).from_uniform(rng.random(draws))
            copies[name] = lower + (upper - lower) * noisy
        averages.append(float((model.predict(copies) == labels[picked]).mean()))
    return averages
