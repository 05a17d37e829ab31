"""k-ary randomised response on black boxes: one set of draws for all epsilons.

Each feature keeps its (rounded) value with probability a = (e^eps - 1)/(k - 1 + e^eps) and is otherwise drawn
afresh, uniformly on the grid.  Given that j of the s features are drawn afresh, nothing depends on epsilon:
rho(eps) = sum_j Binom(s, 1 - a)(j) q_j, with q_j the agreement when a random j-subset is redrawn.  Bounds on the
q_j therefore hold for *every* epsilon at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln

from epsworth.arrays import Floats
from epsworth.bounds import Interval, Look, Risk, looks
from epsworth.mechanisms import KRR
from epsworth.mechanisms.law import nearest_index
from epsworth.records import Indices
from epsworth.rounding import UNIT
from epsworth.utility.deadline import Stopped
from epsworth.utility.engines.checkpoint import CheckpointState, labels_of, labels_text
from epsworth.utility.engines.contraction import widened
from epsworth.utility.engines.engine import BATCH, ByRecord, Progress, RecordResult, Settings, quantities, records_of
from epsworth.utility.problem import Problem

NEGLIGIBLE = 0.05  # strata whose weights stay below this share of the tolerance, together, are not drawn


def shared_grid(problem: Problem, m: int) -> int | None:
    """Return the grid size k that every feature of mechanism m shares at every epsilon; None where there is none."""
    mechanisms = [mechanism for release in problem.releases[m] for mechanism in release.mechanisms]
    sizes = {mechanism.k if isinstance(mechanism, KRR) else None for mechanism in mechanisms}
    size = sizes.pop()
    return None if sizes else size


def binomial_weights(epsilons: Floats, k: int, features: int) -> Floats:
    """Return Pr[j features are drawn afresh], shape ``(epsilons, features + 1)``."""
    j = np.arange(features + 1)
    fresh = k * np.exp(-epsilons) / ((k - 1) * np.exp(-epsilons) + 1)  # 1 - a
    choose = gammaln(features + 1) - gammaln(j + 1) - gammaln(features - j + 1)
    kept = np.log(-np.expm1(-epsilons)) - np.log1p((k - 1) * np.exp(-epsilons))  # log a
    return np.asarray(np.exp(choose + j * np.log(fresh)[:, np.newaxis] + (features - j) * kept[:, np.newaxis]))


def weights_error(features: int) -> float:
    """Bound by how much an average over the strata is off, for rounded weights: their errors' sum.

    In units: three logarithms of factorials are off by 4 each (Cephes: 5.4e-16), relative to at most ln s!; the
    logarithm of a share by 8 of its size (of which the binomial mean is at most s / e) and by what the share itself is
    off, at most 20; the exponential by 8, and the sum by s + 2.
    """
    return float(UNIT * (12 * gammaln(features + 2) + 60 * (features + 1)))


class SharedDraws(ByRecord):
    """Redraws random subsets of the features: one set of draws for all epsilons."""

    name, reason = "strata", "k-ary randomised response: the draws serve all epsilons"
    draws = True
    draws_by_record = True

    def unsupported_reason(self, problem: Problem, m: int) -> str | None:
        """Refuse whatever is not k-ary randomised response of one k."""
        return None if shared_grid(problem, m) else "it is not k-ary randomised response with one k for all features"

    def worthwhile(self, problem: Problem, m: int) -> bool:
        """Tell whether there are more epsilons than strata to draw from."""
        return len(problem.epsilons) > len(problem.features)

    def group_key(self, problem: Problem, m: int) -> Hashable:
        """Answer every mechanism by itself."""
        return m

    def record_results(self, problem: Problem, settings: Settings) -> Iterator[RecordResult]:
        """Yield bounds for one mechanism at all epsilons; records, strata and labels share the risk."""
        n, s, k = len(problem.records), len(problem.features), shared_grid(problem, 0) or 0
        weights = binomial_weights(np.array([r.mechanisms[0].scalar_epsilon for r in problem.releases[0]]), k, s)
        risk, settings = settings.risk.split(n * s * quantities(problem)), settings.seeded()
        for record, labels in records_of(problem):
            strata = Strata(problem, record, k, labels)
            told = partial(_told, settings.progress, record - problem.start, len(problem.left))
            whole = strata.run(weights, settings, risk.take(s * len(labels)), told)
            bounds = [widened(weights @ q.lower, weights @ q.upper, weights_error(s)) for q in strata.q]
            yield RecordResult(record, bounds, len(strata.seen), strata.queries, whole)


def _told(progress: Progress, record: int, n: int, share: float) -> None:
    progress((record + share) / n)


class Strata:
    """Agreement of one record by the number of features drawn afresh; stratum 0 is a single query."""

    def __init__(self, problem: Problem, record: int, k: int, targets: list[object]) -> None:
        self.problem, self.record, self.k, self.targets = problem, record, k, targets
        self.s = len(problem.features)
        self.home = nearest_index(problem.unit[record], k).astype(np.intp)
        self.queries = 0
        self.seen = {problem.labels[record]}
        self.q = [Interval(np.zeros(self.s + 1), np.ones(self.s + 1)) for _ in targets]
        for q, hits in zip(self.q, self._ask(self.home[np.newaxis]), strict=True):
            q.lower[0] = q.upper[0] = float(hits)

    def _ask(self, index: Indices) -> list[int]:
        """Return how many labels equal each target, for rows of grid indices."""
        features, unit = self.problem.features, index / (self.k - 1)
        values = [feature.from_unit(unit[:, j], points=self.k) for j, feature in enumerate(features)]
        labels = self.problem.ask(np.full(len(index), self.record), values)
        self.queries += len(index)
        self.seen |= set(labels.tolist())
        return [int((labels == target).sum()) for target in self.targets]

    def run(self, weights: Floats, settings: Settings, risk: Risk, progress: Progress) -> bool:
        """Draw every stratum that matters until all epsilons are as narrow as asked for; return whether they are.

        Where the run is stopped before, the bounds are those of the last look.
        """
        heaviest = weights.max(axis=0)
        order = np.argsort(heaviest[1:]) + 1
        skipped = order[np.cumsum(heaviest[order]) <= NEGLIGIBLE * settings.tolerance]
        drawn_strata = np.setdiff1d(np.arange(1, self.s + 1), skipped)
        state, schedule = settings.state.under("record"), looks((1 - NEGLIGIBLE) * settings.tolerance, risk)
        hits, drawn = np.zeros((len(self.targets), self.s + 1), dtype=np.int64), 0
        done = self._restore(state, hits, schedule, drawn_strata.size)
        for number, look in enumerate(schedule):
            drawn, before = look.draws, drawn
            if number < done:
                continue
            try:
                for j in drawn_strata.tolist():
                    hits[:, j] += self._draw(j, drawn - before, settings.stream(self.record, j, number))
            except Stopped:
                return False
            for q, counts in zip(self.q, hits, strict=True):
                now = look.risk.interval(counts[drawn_strata], drawn)
                q.lower[drawn_strata] = np.maximum(q.lower[drawn_strata], now.lower)
                q.upper[drawn_strata] = np.minimum(q.upper[drawn_strata], now.upper)
            progress(drawn / schedule[-1].draws)
            if max((weights @ (q.upper - q.lower)).max() for q in self.q) <= 2 * settings.tolerance:
                break
            if state.active:
                state.save(**self._state(hits, number + 1))
        return True

    def _state(self, hits: Indices, looked: int) -> dict[str, Any]:
        """Return what a run that goes on within the record needs."""
        seen, q = labels_text([self.seen]), np.array(self.q)
        return {"record": self.record, "hits": hits.copy(), "q": q, "looked": looked, "queries": self.queries,
                "seen": seen}  # fmt: skip

    def _restore(self, state: CheckpointState, hits: Indices, schedule: Sequence[Look], strata: int) -> int:
        """Take over what an earlier run has of the record, pay for its looks, and return how many these are."""
        saved = state.load(**self._state(hits, 0)) if state.active else None
        if saved is None or int(saved["record"]) != self.record:
            return 0
        hits[...], looked = saved["hits"], int(saved["looked"])
        for q, (lower, upper) in zip(self.q, saved["q"], strict=True):
            q.lower[:], q.upper[:] = lower, upper
        self.queries, self.seen = int(saved["queries"]), labels_of(saved["seen"])[0]
        for look in schedule[:looked]:
            look.risk.spend(strata * len(self.targets))
        return looked

    def _draw(self, j: int, draws: int, rng: np.random.Generator) -> Indices:
        """Redraw a random j-subset uniformly on the grid, ``draws`` times; return the hits per target."""
        hits = np.zeros(len(self.targets), dtype=np.intp)
        for start in range(0, draws, BATCH):
            size = min(BATCH, draws - start)
            chosen = np.argsort(rng.random((size, self.s)), axis=1) < j  # ranks of uniforms: a random j-subset
            index = np.where(chosen, rng.integers(self.k, size=(size, self.s)), self.home)
            hits += self._ask(index)
        return hits
