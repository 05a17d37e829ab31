"""``epsworth predict``: what a model says of every row of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options, show
from epsworth.numerals import counted

if TYPE_CHECKING:
    from epsworth.classifiers import Classifier


def predict(
    model: Annotated[
        Path, typer.Argument(help="Fitted model: .npz or .skops of privatize, or what utility takes as a file.")
    ],
    source: options.Table,
    destination: Annotated[Path, typer.Argument(help="Output: a prediction per row, .csv, .parquet or .jsonl.")],
    sep: options.Sep = ",",
    trust: options.Trust = False,
) -> None:
    """Predict the label of every row of a table.

    A regression's value; columns are found by the model's names.
    """
    import numpy as np
    from sklearn.base import is_regressor

    from epsworth import learner
    from epsworth.classifiers.classifier import declared_inputs, table_of
    from epsworth.inputs import model_of_file
    from epsworth.tables import check_table, read_table, write_table

    check_table(destination)
    if model.is_file() and (learner.TableLearner.wrote(model) or learner.Classifier.wrote(model)):
        raise ValueError(f"{model} was written by learn; ask it with: epsworth learn predict")
    loaded = model_of_file(model, trust)
    if not hasattr(loaded, "predict"):
        raise ValueError(f"the model {model} is a {type(loaded).__name__}, which predicts nothing; give one that does")
    asked = _asked(loaded)
    frame = read_table(source, lambda names: declared_inputs(asked, names), sep=sep)
    records = table_of(asked, frame)
    try:
        told = asked.answer(records.take(np.arange(len(records))))
    except (TypeError, ValueError):  # whose words may show a value of the table
        raise ValueError(
            f"the model {model} refuses the table: most want numbers, none missing; recode or fill the columns"
        ) from None
    name = "value" if is_regressor(loaded) else "label"
    write_table({name: told}, destination)
    show.console().print(f"{counted(len(told), 'row')}, a {name} for each.")


def _asked(model: Any) -> Classifier:
    """Return a model as something to ask, whether it classifies or not."""
    from epsworth.classifiers import Classifier, as_classifier
    from epsworth.classifiers.reading import Predict

    try:
        return as_classifier(model)
    except TypeError:  # a regression, a mixture
        names = getattr(model, "feature_names_in_", None)
        features = None if names is None else tuple(map(str, names))
        return Classifier(
            type(model).__name__, Predict(model), features, getattr(model, "n_features_in_", None), model=model
        )
