"""What two workers save: a tailored policy and a budget split, beside one process that does the same."""

from __future__ import annotations

from collections.abc import Iterator

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import epsworth as ew
from benchmarks.timing import Clock, Row, shown

SAVED = 0.9  # two cores that others use, too: half is the best there is


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the time of two workers over that of one process."""
    count = clock.size(20_000, 500)
    X, y = make_classification(count, 6, n_informative=5, n_redundant=0, random_state=0)
    forest = RandomForestClassifier(clock.size(100, 5), random_state=0).fit(X, y)
    domain = {j: (float(X[:, j].min()), float(X[:, j].max())) for j in range(6)}

    def policy(n_jobs: int) -> object:
        return ew.tailor(
            forest, X, sensitive=list(range(6)), epsilon=2, domain=domain, rng=0, public=True, n_jobs=n_jobs
        )

    some = X[: clock.size(1_000, 10)]

    def split(n_jobs: int) -> object:
        moved = {j: domain[j] for j in (0, 1)}
        return ew.split_budget(forest, some, sensitive=[0, 1], total=4.0, domain=moved, rng=0, n_jobs=n_jobs)

    for what, made, size in (("tailor", policy, count), ("split", split, len(some))):
        made(2)  # workers stay a while
        found = clock.race(lambda m=made: m(2), lambda m=made: m(1), runs=3)
        note = f"{shown(found.ours)} / {shown(found.theirs)}, {size:,} records, {len(forest.estimators_)} trees"
        yield Row(f"{what} by two workers", "one process", found.ratio, SAVED, note)
