"""Shuffled reports: the bound for all, its inverse, laws of mechanisms, rounds; beside bare special functions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.fft import irfft
from scipy.special import betainc, betaincc

from benchmarks.timing import Clock, Row, shown
from epsworth import local_epsilon, shuffled

DELTA = 1e-9
BETAS = "1,024 pairs of incomplete beta functions"
TRANSFORM = "an inverse transform of 2^20 points"


def rows(clock: Clock) -> Iterator[Row]:
    """Yield times over those of one evaluation's special functions, of a transform, or of the way there."""
    for users in (10**6, 10**8):
        n = clock.size(users, 1000)
        rate = 2 / (np.exp(1) + 1)
        counted = np.round(n * rate + np.sqrt(n * rate / 4) * np.linspace(-6, 6, 1024))

        def betas(n: int = n, rate: float = rate, counted: object = counted) -> object:
            k = np.ceil(np.asarray(counted) / 2 + 2 * np.sqrt(counted))
            return betainc(k, counted - k + 1, 0.5), betaincc(counted, n - counted, rate)

        def bound(n: int = n) -> object:
            return shuffled(1.0, users=n, delta=DELTA)

        def back(n: int = n) -> object:
            return local_epsilon(0.01, users=n, delta=DELTA)

        found = clock.race(bound, betas)
        note = f"{shown(found.ours)} / {shown(found.theirs)}"
        yield Row(f"shuffled: any mechanism, {n:.0e} users", BETAS, found.ratio, 16.0, note)
        found = clock.race(back, bound)
        note = f"{shown(found.ours)} / {shown(found.theirs)}"
        yield Row(f"local_epsilon: any mechanism, {n:.0e} users", "shuffled", found.ratio, 4.0, note)
    spectrum = np.ones(clock.size(1 << 19, 1 << 10) + 1)

    def transform() -> object:
        return irfft(spectrum)

    asked = [("krr", 64, 1.0, 20.0), ("oue", None, 4.0, 60.0), ("hadamard", 3, 4.0, 60.0), ("ternary", None, 4.0, 60.0)]
    for mechanism, symbols, local, bar in asked:
        users = clock.size(10**6, 1000)

        def law(mechanism=mechanism, symbols=symbols, local=local, users=users) -> object:
            return shuffled(local, users=users, delta=DELTA, mechanism=mechanism, symbols=symbols)

        found = clock.race(law, transform, runs=3)
        what = f"shuffled: law of {mechanism}, epsilon {local:g}, {users:.0e} users"
        yield Row(what, TRANSFORM, found.ratio, bar, f"{shown(found.ours)} / {shown(found.theirs)}")
    one = shuffled(1.0, users=clock.size(10**6, 1000), delta=DELTA)
    found = clock.race(lambda: one.rounds(8), transform, runs=3)
    note = f"{shown(found.ours)} / {shown(found.theirs)}"
    yield Row("shuffled: eight rounds, 1e+06 users", TRANSFORM, found.ratio, 60.0, note)
