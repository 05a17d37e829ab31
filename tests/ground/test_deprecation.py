"""Spellings of before: they work, say what to write instead, and fail as Python's own calls do."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from epsworth.deprecation import alias, read_renamed, renamed
from epsworth.moved import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_import_paths_of_before_lead_to_the_same_names(old):
    sys.modules.pop(old, None)
    with pytest.warns(FutureWarning, match=rf"^{old} is deprecated .* write {MOVED[old]}$"):
        found = importlib.import_module(old)
    new = importlib.import_module(MOVED[old])
    shared = {name for name in vars(new) if not name.startswith("__")}
    assert shared
    assert all(getattr(found, name) is getattr(new, name) for name in shared)
    importlib.import_module(old)  # which is there by now, and silent


def test_import_paths_of_before_work_in_a_fresh_interpreter():
    code = "from epsworth.curves import Curves; import epsworth; assert Curves is epsworth.Curves"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "FutureWarning: epsworth.curves is deprecated" in done.stderr


@renamed(level=("confidence", lambda level: 1 - level), rows="records", positional=("rows", "level"))
def certify(model, *, records=1, confidence=0.95):
    """Certify."""
    return model, records, confidence


@pytest.mark.parametrize(
    ("args", "kwargs", "expected", "told"),
    [
        (("m",), {"level": 0.25}, ("m", 1, 0.75), ["level= of certify() is deprecated"]),
        (("m",), {"rows": 5}, ("m", 5, 0.95), ["rows= of certify() is deprecated"]),
        (("m", 5), {}, ("m", 5, 0.95), ["write records="]),
        (("m", 5, 0.5), {}, ("m", 5, 0.5), ["write records=", "write confidence="]),
        (("m", 5), {"confidence": 0.9}, ("m", 5, 0.9), ["write records="]),
        (("m",), {"records": 5, "confidence": 0.9}, ("m", 5, 0.9), []),
        ((), {"model": "m"}, ("m", 1, 0.95), []),
    ],
)
def test_deprecated_keywords_work_with_a_warning(args, kwargs, expected, told, recwarn):
    assert certify(*args, **kwargs) == expected
    assert len(recwarn) == len(told)
    for warning, part in zip(recwarn, told, strict=True):
        assert warning.category is FutureWarning
        assert part in str(warning.message)
        assert warning.filename == __file__  # who wrote it


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("m",), {"level": 0.1, "confidence": 0.9}, r"got level and confidence, which mean the same; give confidence"),
        (("m", 5), {"records": 5}, "got rows and records, which mean the same"),
        (("m", 5), {"rows": 5}, r"certify\(\) got multiple values for argument 'rows'"),
        (("m", 5, 0.5, 7), {}, r"certify\(\) takes 1 positional argument but 4 were given"),
        ((), {}, r"certify\(\) missing 1 required positional argument: 'model'"),
        (("m",), {"unknown": 1}, r"certify\(\) got an unexpected keyword argument 'unknown'"),
    ],
)
def test_wrong_calls_fail_as_pythons_own_do(args, kwargs, message):
    with pytest.raises(TypeError, match=message):
        certify(*args, **kwargs)


def test_attributes_of_before_are_read_with_a_warning():
    class Found:
        confidence = 0.75
        level = alias("level", "confidence", lambda confidence: 1 - confidence)
        sure = alias("sure", "confidence")

    with pytest.warns(FutureWarning, match=r"^Found.level is deprecated .* write confidence$"):
        assert Found().level == 0.25
    with pytest.warns(FutureWarning):
        assert Found().sure == 0.75


def test_documents_of_before_are_read_under_their_new_keys():
    assert read_renamed({"level": 0.05, "n": 3}, level="confidence") == {"confidence": 0.05, "n": 3}
