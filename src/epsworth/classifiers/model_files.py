"""Model files: data is loaded as it is, programs only when the user says so.

skops files may hold what skops and `file_safety` list, or what the user names; ONNX files, and those that XGBoost,
LightGBM and CatBoost write, hold numbers.  Pickles, Keras archives and PyTorch programs run when they are loaded or
asked.  Boosters hold scores and an objective: where that says what a label is, the model becomes its library's
classifier, of labels 0, 1, 2, ..; else it is refused, since no threshold on a score is ours to choose.
"""

from __future__ import annotations

import importlib
import io
import json
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.classifiers.boosters import (
    CATBOOST_OBJECTIVES,
    LIGHTGBM_OBJECTIVES,
    XGBOOST_OBJECTIVES,
    lightgbm_classifier,
)
from epsworth.classifiers.file_safety import TreeError, check_lightgbm, check_trees, check_xgboost, doubtful
from epsworth.files import check_readable

PICKLES = (".pkl", ".pickle", ".joblib")
SCHEMA = "schema.json"  # of what a skops file holds
PROBES = 16
LARGEST = 2**30  # bytes that a skops file may unpack to
SMALL, RATIO = 2**26, 100  # beyond the first, not more than so many times the file's own size


class ArchiveError(ValueError):
    """An archive that unpacks to too much."""


def load_model(path: str | Path, *, trust: bool | Sequence[str] = False) -> Any:
    """Load a fitted classifier.

    Parameters
    ----------
    path : str or Path
        By its ending: ``.skops``; ``.onnx``; ``.ubj`` or ``.json`` of XGBoost, ``.txt`` of LightGBM, ``.cbm`` of
        CatBoost; and, with ``trust=True``, a pickle (``.pkl``, ``.pickle``, ``.joblib``), a PyTorch program
        (``.pt2`` of ``torch.export``, ``.pt`` of TorchScript) or ``.keras``.
    trust : bool or sequence of str
        Names of types that a skops file may hold besides the harmless ones, such as ``("mypackage.MyScaler",)``.
        True runs whatever the file contains, which is code of whoever wrote it, and says so in a warning.

    Returns
    -------
    object
        What was saved; see `as_classifier` for how it is asked.

    Raises
    ------
    ValueError
        For files that are not there, broken, of an unknown kind, or that hold types which ``trust`` does not name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skops.io import dump
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsworth import load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.skops")
    ...     dump(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), path)
    ...     model = load_model(path)
    >>> model.predict([[0.2], [0.9]]).tolist()
    [0, 1]
    """
    path = check_readable(path, "model")
    ending = path.suffix.lower()
    loaders = NATIVE | PROGRAMS
    if ending not in (".skops", *PICKLES, *loaders):
        raise ValueError(
            f"the model {path} has the ending {path.suffix or '(none)'}; give one of .skops, {', '.join(NATIVE)}, "
            f"or with --trust one of {', '.join((*PICKLES, *PROGRAMS))} (a learner's: learner.Classifier.load)"
        )
    if not path.stat().st_size:
        raise ValueError(f"cannot read the model {path}: the file is empty; save the model again")
    if ending == ".skops":
        return _load_skops(path, trust if isinstance(trust, bool) else _types(trust))
    if ending in NATIVE:
        return NATIVE[ending](path)
    what = "a pickle" if ending in PICKLES else "a program"
    if trust is not True:  # names of types are not enough
        raise ValueError(
            f"the model {path} is {what}, and loading it runs code of whoever wrote it; "
            "save it with skops.io.dump or as ONNX, or pass --trust if you made it yourself"
        )
    warnings.warn(f"{path} is {what}: loading it runs the code it contains", UserWarning, stacklevel=2)
    return _load_pickle(path) if ending in PICKLES else PROGRAMS[ending](path)


def _types(trust: Sequence[str]) -> set[str]:
    """Return the names of trusted types."""
    names = [trust] if isinstance(trust, str) else list(trust)
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")) or "." not in name:
            raise ValueError(
                f"trust names {name!r}, which is no type; give names such as 'mypackage.module.Type', "
                "or True to run whatever the file contains"
            )
    return set(names)


def _load_skops(path: Path, trust: bool | set[str]) -> Any:
    from skops import io as skops_io

    trusted, refused = (trust if isinstance(trust, set) else set[str]()), list[str]()
    try:
        data = path.read_bytes()  # once: what is checked is what is loaded
        if trust is not True:
            _check_size(data)
        unknown = skops_io.get_untrusted_types(data=data)
        if trust is not True:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                refused = [one for one in doubtful(json.loads(archive.read(SCHEMA)), unknown) if one not in trusted]
        if not refused:
            model = skops_io.loads(data, trusted=unknown)
            if trust is not True:
                check_trees(model)
    except (ArchiveError, TreeError) as error:
        raise ValueError(f"the model {path} {error}; pass --trust if you made it yourself") from None
    except Exception as error:
        reason = "" if isinstance(error, zipfile.BadZipFile) else f": {_first_line(error)}"
        raise ValueError(
            f"the model {path} is not a skops file, or not a whole one{reason}; save it with skops.io.dump"
        ) from error
    if refused:
        raise ValueError(
            f"the model {path} contains types that skops does not know: {', '.join(refused)}; "
            f"pass --trust {','.join(refused)} if you made it yourself"
        )
    if trust is True and unknown:
        warnings.warn(
            f"{path} is loaded with every type that it names ({', '.join(sorted(unknown))}), which may run code; "
            "name the types to trust instead",
            UserWarning,
            stacklevel=3,
        )
    return model


def _check_size(data: bytes) -> None:
    """Refuse a file that unpacks to too much, before anything in it is loaded."""
    most = min(LARGEST, max(SMALL, RATIO * len(data)))
    if _unpacked(data, most) > most:
        raise ArchiveError(f"unpacks to more than {most / 2**20:,.0f} MB, from {len(data) / 2**20:,.1f} MB")


def _unpacked(data: bytes, most: int) -> int:
    """Return bytes by the stated sizes, with archives within (sparse matrices), a member for each time it is named."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        stated = {info.filename: info.file_size for info in archive.infolist()}
        size = sum(info.file_size for info in archive.infolist())
        for name in stated if size <= most else ():
            member = archive.read(name)
            if member.startswith(b"PK"):
                size += _unpacked(member, most - size)
            elif name == SCHEMA:
                size += sum(stated.get(one, 0) for one in _named_members(member))
    return size


def _named_members(schema: bytes) -> list[str]:
    """Return the members that a schema names, as often as it does."""
    names: list[Any] = []
    json.loads(schema, object_hook=lambda node: names.append(node.get("file")))
    return [name for name in names if isinstance(name, str)]


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


def _imported(package: str, extra: str, path: Path) -> Any:
    """Import a package, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ValueError(
            f'the model {path} needs the package {package}, which is not installed: pip install "epsworth[{extra}]"'
        ) from None


def _parsed(path: Path, what: str, load: Callable[[], Any]) -> Any:
    """Load a file, or say in one sentence that it is none of the library's."""
    try:
        return load()
    except TreeError as error:
        raise ValueError(f"the model {path} {error}; save the model again") from None
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise ValueError(
            f"the model {path} is not {what} file, or not a whole one: {reason}; save the model again"
        ) from error


def _scores_only(path: Path, objective: str, known: tuple[str, ...]) -> ValueError:
    names = ", ".join(name.split(" ")[0] for name in known)
    return ValueError(
        f"the model {path} answers scores of the objective {objective!r}, which does not say what a label is; "
        f"give a model of one of {names}, or a function from records to labels"
    )


def _xgboost(path: Path) -> Any:
    xgboost = _imported("xgboost", "boosting", path)
    data = bytearray(path.read_bytes())  # once: what is checked is what is loaded
    booster = xgboost.Booster()
    _parsed(path, "an XGBoost", lambda: booster.load_model(data))
    _parsed(path, "an XGBoost", lambda: check_xgboost(bytes(booster.save_raw("json"))))
    objective = re.search(r'"objective":\{.*?"name":"([^"]*)"', booster.save_config())
    if objective is None or objective[1] not in XGBOOST_OBJECTIVES:
        raise _scores_only(path, objective[1] if objective else "unknown", XGBOOST_OBJECTIVES)
    model = xgboost.XGBClassifier()
    model.load_model(data)
    return model


def _lightgbm(path: Path) -> Any:
    """Load a booster as a classifier, and compare their answers."""
    lightgbm = _imported("lightgbm", "boosting", path)
    text = _parsed(path, "a LightGBM", lambda: path.read_text(encoding="utf-8"))
    _parsed(path, "a LightGBM", lambda: check_lightgbm(text))
    text = re.sub(r"^tree_sizes=.*\n", "", text, flags=re.MULTILINE)  # places to read at, unchecked
    booster = _parsed(path, "a LightGBM", lambda: lightgbm.Booster(model_str=text))
    model = lightgbm_classifier(booster)
    if model is None:
        objective = re.search(r"^objective=(.*)$", booster.model_to_string(num_iteration=1), flags=re.MULTILINE)
        raise _scores_only(path, objective[1] if objective else "unknown", LIGHTGBM_OBJECTIVES)
    probes = np.random.default_rng(0).normal(size=(PROBES, booster.num_feature()))
    scores = booster.predict(probes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the probes carry no names
        same = model.predict(probes) == (scores > 0.5 if scores.ndim == 1 else scores.argmax(axis=1))
    if not same.all():
        raise ValueError(f"the model {path} is answered in another way by this version of lightgbm; save it with skops")
    return model


def _catboost(path: Path) -> Any:
    catboost = _imported("catboost", "catboost", path)
    plain = _parsed(path, "a CatBoost", lambda: catboost.CatBoost().load_model(str(path)))
    objective = str(plain.get_all_params().get("loss_function", "unknown")).split(":")[0]
    if objective not in CATBOOST_OBJECTIVES:
        raise _scores_only(path, objective, CATBOOST_OBJECTIVES)
    return catboost.CatBoostClassifier().load_model(str(path))


def _onnx(path: Path) -> Any:
    onnx = _imported("onnx", "onnx", path)
    _imported("onnxruntime", "onnx", path)
    model = _parsed(path, "an ONNX", lambda: onnx.load(path))
    _parsed(path, "an ONNX", lambda: onnx.checker.check_model(model))
    return model


def _exported(path: Path) -> Any:
    torch = _imported("torch", "torch", path)
    return _parsed(path, "a torch.export", lambda: torch.export.load(path))


def _scripted(path: Path) -> Any:
    torch = _imported("torch", "torch", path)
    return _parsed(path, "a TorchScript", lambda: torch.jit.load(path, map_location="cpu")).eval()


def _keras(path: Path) -> Any:
    keras = _imported("keras", "keras", path)
    return _parsed(path, "a Keras", lambda: keras.saving.load_model(path, compile=False))


NATIVE: dict[str, Callable[[Path], Any]] = {
    ".onnx": _onnx, ".ubj": _xgboost, ".json": _xgboost, ".txt": _lightgbm, ".cbm": _catboost
}  # fmt: skip
PROGRAMS: dict[str, Callable[[Path], Any]] = {".pt2": _exported, ".pt": _scripted, ".keras": _keras}
