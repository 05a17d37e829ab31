"""Metrics in Prometheus' text form: counts and times, no values; workers share them in one piece of memory."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from epsworth.gateway.refusals import OF_A_FEATURE, REASONS

OUTCOMES = ("answered", "refused", "upstream", "failed")
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
TIMED = {"seconds": "Seconds from a request to its answer.", "upstream_seconds": "Seconds of these spent upstream."}
TOLD = {
    "requests_total": "Inference requests by outcome.",
    "refusals_total": "Requests that were not forwarded, by reason and feature.",
    "records_total": "Records that left, perturbed.",
    "attempts_total": "Times that a request was sent upstream.",
    "under_way": "Requests that are being worked on.",
}
Name = tuple[str, str]  # metric, labels


class Counts:
    """Counters of all workers of one gateway; each writes its own row, any of them can tell the sums.

    Parameters
    ----------
    features : sequence of str
        The policy's names: the only ones that labels hold.
    workers : int

    Examples
    --------
    >>> counts = Counts(["age"])
    >>> counts.refused("value", "age")
    >>> 'refusals_total{reason="value",field="age"} 1' in counts.text()
    True
    """

    def __init__(self, features: Sequence[str], workers: int = 1) -> None:
        names: list[Name] = [("requests_total", f'{{outcome="{outcome}"}}') for outcome in OUTCOMES]
        names += [
            ("refusals_total", f'{{reason="{reason}",field="{_escaped(field)}"}}')
            for reason in REASONS
            for field in ("", *(features if reason in OF_A_FEATURE else ()))
        ]
        names += [("records_total", ""), ("attempts_total", ""), ("under_way", "")]
        for timed in TIMED:
            names += [(f"{timed}_bucket", f'{{le="{bound:g}"}}') for bound in BOUNDS]
            names += [(f"{timed}_bucket", '{le="+Inf"}'), (f"{timed}_sum", "")]
        self._places = {name: place for place, name in enumerate(names)}
        self._memory = mmap.mmap(-1, 8 * workers * len(names))  # anonymous: children that are forked share it
        self._all = np.frombuffer(self._memory, dtype=np.float64).reshape(workers, len(names))
        self._mine = self._all[0]

    def become(self, worker: int) -> None:
        """Write the row of that worker from now on."""
        self._mine = self._all[worker]
        self._mine[self._places["under_way", ""]] = 0  # of one that died

    def add(self, metric: str, labels: str = "", by: float = 1.0) -> None:
        """Add to a counter."""
        self._mine[self._places[metric, labels]] += by

    def outcome(self, outcome: str) -> None:
        """Count a request."""
        self.add("requests_total", f'{{outcome="{outcome}"}}')

    def refused(self, reason: str, field: str) -> None:
        """Count a refusal."""
        self.add("refusals_total", f'{{reason="{reason}",field="{_escaped(field)}"}}')

    def time(self, timed: str, seconds: float) -> None:
        """Put a time into its bucket."""
        at = bisect_left(BOUNDS, seconds)
        self._mine[self._places[f"{timed}_bucket", f'{{le="{BOUNDS[0]:g}"}}'] + at] += 1
        self.add(f"{timed}_sum", by=seconds)

    def text(self) -> str:
        """Return the sums over all workers."""
        sums = self._all.sum(axis=0)
        lines = []
        for metric, told in TOLD.items():
            kind = "gauge" if metric == "under_way" else "counter"
            lines += [f"# HELP epsworth_gateway_{metric} {told}", f"# TYPE epsworth_gateway_{metric} {kind}"]
            lines += [
                f"epsworth_gateway_{name}{labels} {sums[place]:.0f}"
                for (name, labels), place in self._places.items()
                if name == metric
            ]
        for timed, told in TIMED.items():
            lines += [f"# HELP epsworth_gateway_{timed} {told}", f"# TYPE epsworth_gateway_{timed} histogram"]
            total = 0.0
            for (name, labels), place in self._places.items():
                if name == f"{timed}_bucket":
                    total += sums[place]
                    lines.append(f"epsworth_gateway_{name}{labels} {total:.0f}")
            lines.append(f"epsworth_gateway_{timed}_sum {sums[self._places[f'{timed}_sum', '']]:.6f}")
            lines.append(f"epsworth_gateway_{timed}_count {total:.0f}")
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
