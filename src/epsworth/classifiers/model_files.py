"""Model files are code: skops files by default, pickles only when the user says so."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

from epsworth.classifiers.archives import ArchiveError, check_archive
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
    ending = path.suffix.lower()
    if ending not in (".skops", *PICKLES):
        raise ValueError(
            f"the model {path} has the ending {path.suffix or '(none)'}; give a .skops file, "
            f"or with --trust one of {', '.join(PICKLES)} (a learner's: learner.Classifier.load)"
        )
    if not path.stat().st_size:
        raise ValueError(f"cannot read the model {path}: the file is empty; save the model again")
    if ending == ".skops":
        return _load_skops(path, trust)
    if not trust:
        raise ValueError(
            f"the model {path} is a pickle, and loading it runs code of whoever wrote it; "
            "save it with skops.io.dump, or pass --trust if you made it yourself"
        )
    warnings.warn(f"{path} is a pickle: loading it runs the code it contains", UserWarning, stacklevel=2)
    return _load_pickle(path)


def _load_skops(path: Path, trust: bool) -> Any:
    from skops import io

    try:
        data = path.read_bytes()  # once: what is checked is what is loaded
        if not trust:
            check_archive(data)
        unknown = io.get_untrusted_types(data=data)
        if not unknown or trust:
            return io.loads(data, trusted=unknown)
    except ArchiveError as error:
        raise ValueError(f"the model {path} {error}; pass --trust if you made it yourself") from None
    except Exception as error:
        raise ValueError(
            f"the model {path} is not a skops file, or not a whole one: {_first_line(error)}; "
            "save it with skops.io.dump"
        ) from error
    raise ValueError(
        f"the model {path} contains types that skops does not know: {', '.join(sorted(unknown))}; "
        "pass --trust if you made it yourself"
    )


def _load_pickle(path: Path) -> Any:
    try:
        if path.suffix.lower() == ".joblib":
            import joblib

            return joblib.load(path)
        with path.open("rb") as file:
            return pickle.load(file)
    except Exception as error:
        raise ValueError(f"cannot load the model {path}: {_first_line(error)}; save it again") from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]
