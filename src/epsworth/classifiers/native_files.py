"""Files that hold a model as data (ONNX, XGBoost, LightGBM, CatBoost), and programs of PyTorch and Keras.

Boosters hold scores and an objective.  Where the objective says what a label is, the model becomes its library's
classifier, which answers labels; else it is refused, since no threshold on a score is ours to choose.  The files of
XGBoost and LightGBM hold no names of classes: their labels are 0, 1, 2, ...
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from epsworth.classifiers.boosters import LIGHTGBM_OBJECTIVES, XGBOOST_OBJECTIVES, lightgbm_classifier
from epsworth.classifiers.tables import CATBOOST_OBJECTIVES
from epsworth.classifiers.tree_validation import TreeError, check_lightgbm, check_xgboost

PROBES = 16


def _imported(package: str, extra: str, path: Path) -> Any:
    """Import a package, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ValueError(
            f"the model {path} needs the package {package.split('.')[0]}, which is not installed: "
            f'pip install "epsworth[{extra}]"'
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


Loader = Callable[[Path], Any]
NATIVE: dict[str, Loader] = {
    ".onnx": _onnx,
    ".ubj": _xgboost,
    ".json": _xgboost,
    ".txt": _lightgbm,
    ".cbm": _catboost,
}
PROGRAMS: dict[str, Loader] = {".pt2": _exported, ".pt": _scripted, ".keras": _keras}
