"""The lattice engine: deterministic brackets for linear models with any number of sensitive features (see `linear`).

Mechanisms on [0, 1], and unclipped Gaussian or Laplace noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epsworth.bounds import Interval
from epsworth.laws import Law
from epsworth.utility.engines.brackets import bracketed
from epsworth.utility.engines.contraction import stays_in_range
from epsworth.utility.engines.engine import Answer, Engine, Found, Settings, gathered
from epsworth.utility.engines.linear import LinearModel, by_pairs, linear_for, read_linear, unclipped_works
from epsworth.utility.question import Question


class Lattice(Engine):
    """Sums of independent values on a lattice; with more than two classes by pairs, which need not close."""

    name = "lattice"
    brackets = True

    def lacks(self, question: Question, m: int) -> str | None:
        """Refuse whose sums have no lattice: noise leaves the range, unless all features carry the same kind of it."""
        model = question.read(linear_for)
        if isinstance(model, str):
            return model
        if stays_in_range(question.releases[m]):
            return None
        kinds = {(x.output, type(x).__name__) for release in question.releases[m] for x in release.mechanisms}
        alone = len(model.weights) == 1 and unclipped_works(model.weights[0])
        works = kinds == {("real line", "Gaussian")} or (kinds == {("real line", "Laplace")} and alone)
        return None if works else "its outputs leave the declared range"

    def worthwhile(self, question: Question, m: int) -> bool:
        """Tell whether there are two classes: of more, sums only give a union bound."""
        return len(read_linear(question).weights) == 1

    def why(self, question: Question, m: int) -> str:
        """Say what was read."""
        return "a binary linear model" if self.worthwhile(question, m) else "a linear model, by pairs"

    def bound(self, question: Question, settings: Settings) -> Answer | None:
        """Return deterministic bounds."""
        return gathered(question, _found(question, read_linear(question), settings.tolerance), settings.progress)


def _found(question: Question, model: LinearModel, tolerance: float) -> Iterator[Found]:
    def keeps(record: int, label: Any, laws: list[Law]) -> Interval:
        return by_pairs(laws, model.comparisons(record, label), model.slack(record), tolerance)

    for record, bounds in bracketed(question, model.known, keeps):
        lost = any(one.can_be_lost for one in model.comparisons(record, question.labels[record]))
        yield Found(record, bounds, 1 + int(lost), 1)  # exact for two classes, a lower bound for more
