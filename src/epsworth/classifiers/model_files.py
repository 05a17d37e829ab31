"""Model files are code: skops files by default, pickles only when the user says so."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

from epsworth.files import check_readable

PICKLES = (".pkl", ".pickle", ".joblib")


def load_model(path: str | Path, *, trust: bool = False) -> Any:
    """Load a fitted classifier.

    Parameters
    ----------
    path : str or Path
        ``.skops`` (its unknown types are refused), or a pickle (``.pkl``, ``.pickle``, ``.joblib``).
    trust : bool
        Run whatever the file contains.  Loading a pickle executes code of whoever wrote it.
    """
    path = check_readable(path, "model")
    if path.suffix == ".skops":
        return _load_skops(path, trust)
    if path.suffix in PICKLES:
        if not trust:
            raise ValueError(
                f"the model {path} is a pickle, and loading it runs code of whoever wrote it; "
                "save it with skops.io.dump, or pass --trust if you made it yourself"
            )
        warnings.warn(f"{path} is a pickle: loading it runs the code it contains", UserWarning, stacklevel=2)
        return _load_pickle(path)
    raise ValueError(
        f"the model {path} has the ending {path.suffix or '(none)'}; "
        f"give a .skops file, or with --trust one of {', '.join(PICKLES)} (a learner's: learner.Classifier.load)"
    )


def _load_skops(path: Path, trust: bool) -> Any:
    from skops import io

    try:
        unknown = io.get_untrusted_types(file=path)
        if unknown and not trust:
            raise ValueError(
                f"the model {path} contains types that skops does not know: {', '.join(sorted(unknown))}; "
                "pass --trust if you made it yourself"
            )
        return io.load(path, trusted=unknown)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"the model {path} is not a skops file: {error}; save it with skops.io.dump") from error


def _load_pickle(path: Path) -> Any:
    try:
        if path.suffix == ".joblib":
            import joblib

            return joblib.load(path)
        with path.open("rb") as file:
            return pickle.load(file)
    except Exception as error:
        raise ValueError(f"cannot load the model {path}: {type(error).__name__}: {error}; save it again") from error
