"""The lattice engine: deterministic brackets for linear models with any number of sensitive features (see `sums`).

Mechanisms on [0, 1], and unclipped Gaussian or Laplace noise.
"""

from __future__ import annotations

from epsworth.bounds import Interval
from epsworth.laws import Gaussian, Laplace, Law
from epsworth.utility.engines.contraction import stays_in_range
from epsworth.utility.engines.linear import Brackets, Comparison, LinearModel, by_pairs
from epsworth.utility.engines.sums import unclipped_works
from epsworth.utility.question import Question


class Lattice(Brackets):
    """Sums of independent values on a lattice; with more than two classes by pairs, which need not close."""

    name, because = "lattice", "a linear model, whose scores are sums"

    def lacks(self, question: Question, m: int) -> str | None:
        """Refuse noise that leaves the range, unless all features carry the same kind of it."""
        if stays_in_range(question.releases[m]):
            return None
        weights = self.read(question).weights
        kinds = {(x.output, type(x).__name__) for release in question.releases[m] for x in release.mechanisms}
        alone = len(weights) == 1 and unclipped_works(weights[0])
        works = kinds == {("real line", "Gaussian")} or (kinds == {("real line", "Laplace")} and alone)
        return None if works else "its outputs leave the declared range"

    def worthwhile(self, question: Question, m: int) -> bool:
        """Tell whether there are two classes: of more, sums only give a union bound."""
        return len(self.read(question).weights) == 1

    def slack(self, model: LinearModel, record: int, laws: list[Law]) -> float:
        """Bound the one score of two classes by counted units; else, or where values leave the range, with room."""
        tight = len(model.weights) == 1 and not any(isinstance(law, (Gaussian, Laplace)) for law in laws)
        return model.rounding(record) if tight else model.slack(record)

    def keeps(self, laws: list[Law], comparisons: list[Comparison], slack: float, tolerance: float) -> Interval:
        """Bound each comparison by itself."""
        return by_pairs(laws, comparisons, slack, tolerance)

    def possible(self, question: Question, model: LinearModel) -> list[int]:
        """Return 2 where the label can be lost: exact for two classes, a lower bound for more."""
        own = [model.comparisons(record, question.labels[record]) for record in question.left]
        return [1 + any(one.can_be_lost for one in comparisons) for comparisons in own]
