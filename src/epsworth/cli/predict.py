"""``epsworth predict``: what a model says of every row of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options, show

if TYPE_CHECKING:
    import polars as pl


def predict(
    model: Annotated[
        Path, typer.Argument(help="Fitted model: .npz or .skops of privatize, or what utility takes as a file.")
    ],
    source: options.Table,
    destination: Annotated[Path, typer.Argument(help="Output: a prediction per row, .csv, .parquet or .jsonl.")],
    sep: options.Sep = ",",
    trust: options.Trust = False,
) -> None:
    """Predict the label (a regression's value) of every row of a table, by columns of the model's names."""
    from sklearn.base import is_regressor

    from epsworth.classifiers.scalers import Predict
    from epsworth.extras import needed
    from epsworth.learner import Classifier, TableLearner
    from epsworth.learner.report_files import check_table, write_table
    from epsworth.studies.inputs import model_of_file
    from epsworth.tables import read_table

    check_table(destination)
    if model.is_file() and (TableLearner.wrote(model) or Classifier.wrote(model)):
        raise ValueError(f"{model} was written by learn; ask it with: epsworth learn predict")
    loaded = model_of_file(model, trust)
    if not hasattr(loaded, "predict"):
        raise ValueError(f"the model {model} is a {type(loaded).__name__}, which predicts nothing; give one that does")
    X = _columns_of(loaded, read_table(source, sep=sep))
    try:
        told = Predict(loaded)(X)
    except (TypeError, ValueError):  # whose words may show a value of the table
        raise ValueError(
            f"the model {model} refuses the table: most want numbers, none missing; recode or fill the columns"
        ) from None
    name = "value" if is_regressor(loaded) else "label"
    write_table(needed("polars", "files", "writing a table").DataFrame({name: told}), destination)
    show.console().print(f"{len(told):,} rows, a {name} for each.")


def _columns_of(model: Any, frame: pl.DataFrame) -> Any:
    """Return the columns that a model asks for by name, or all in their order where it knows none."""
    from epsworth.headers import shown_names
    from epsworth.tables import selected

    names = getattr(model, "feature_names_in_", None)
    if names is None:
        wanted = getattr(model, "n_features_in_", None)
        if wanted is not None and wanted != frame.width:
            raise ValueError(f"the model takes {wanted} columns, and the table has {frame.width}; drop the others")
        return frame.to_numpy()
    for name in map(str, names):
        if name not in frame.columns:
            raise ValueError(
                f"the table lacks the column {str(name)!r}, which the model takes; {shown_names(frame.columns)}"
            )
    return selected(frame, map(str, names)).to_numpy()
