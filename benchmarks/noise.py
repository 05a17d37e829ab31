"""The ranked list for one release and for a hundred, and the linear program on two hundred points."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.timing import Row, median_seconds
from epsworth import noise


def rows() -> Iterator[Row]:
    """Yield seconds; a hundred releases only where dp-accounting is installed."""
    yield Row("noise: cheapest, one release", median_seconds(lambda: noise.cheapest(5, 0.05), runs=5), "s", 1.0)

    def relative() -> object:
        return noise.cheapest(0.2, 0.1, region="relative", offset=2, answers=range(151))

    yield Row("noise: cheapest, relative error, 300 pairs", median_seconds(relative, runs=3), "s", None)
    best = noise.optimal_noise(40, 0.01, 1.0, 1e-6)
    gap = best.noise.epsilon(1e-6) / best.floor - 1
    seconds = median_seconds(lambda: noise.optimal_noise(40, 0.01, 1.0, 1e-6), runs=3)
    points = f"{best.noise.inside} preferred cells; optimum known to {gap:.1e}"
    yield Row("noise: linear program", seconds, "s", 30.0, points)
    try:
        import dp_accounting  # noqa: F401
    except ImportError:
        return
    many = median_seconds(lambda: noise.cheapest(5, 0.05, releases=100), runs=3)
    yield Row("noise: cheapest, 100 releases", many, "s", 20.0)
