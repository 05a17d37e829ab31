"""Studies as values and files: what is read, what is refused, in one sentence each."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import STUDY, changed, made

import epsworth as ew
from epsworth.utility.problem import DEFAULT_MECHANISMS

GIVEN = {"model": "m.skops", "table": "t.csv", "sensitive": ["a"], "epsilons": [1, 2]}


def test_a_study_reads_itself_again(tmp_path):
    study = ew.Study.load(made(tmp_path))
    assert (study.epsilons, study.grid) == ("0.50,1,2,4", [0.5, 1.0, 2.0, 4.0])
    assert study.files == {"model": tmp_path / "model.skops", "table": tmp_path / "people.csv"}
    assert ew.Study.from_toml(study.to_toml()) == study == ew.Study.from_dict(study.to_dict())
    study.save(tmp_path / "again.toml")
    assert ew.Study.load(tmp_path / "again.toml") == study
    assert ew.Study(**GIVEN).mechanisms == DEFAULT_MECHANISMS
    assert len(ew.Study(**GIVEN, mechanisms="all").mechanisms) == len(ew.MECHANISMS)


@given(st.lists(st.decimals("0.001", "50", places=5), min_size=1, max_size=8, unique=True))
def test_epsilons_are_kept_by_their_texts(numbers):
    texts = [f"{number:.7f}" for number in sorted(numbers)]
    study = ew.Study.from_toml(changed(epsilons=f"[{', '.join(texts)}]"))
    assert study.epsilons == ",".join(texts) == ew.Study.from_toml(study.to_toml()).epsilons
    assert study.grid == [float(text) for text in texts]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ({"epsilon": "1"}, "unknown entry 'epsilon'; did you mean 'epsilons'?"),
        ({"zzz": "1"}, "unknown entry 'zzz'; there are model, table"),
        ({"model": None}, "model is missing; a study needs model, table, sensitive"),
        ({"per": '"person"'}, "per must be"),
        ({"epsilons": "[]"}, "epsilons must be first:last:step or a list of finite numbers like 1,2,4, got ''"),
        ({"epsilons": "[2, 1]"}, "epsilons must be positive and increase, got '2,1'"),
        ({"epsilons": "[0, 1]"}, "epsilons must be positive and increase"),
        ({"epsilons": "[true]"}, "epsilons[0]: must be a finite number, got True"),
        ({"epsilons": "[[1]]"}, "epsilons[0]: must be a finite number, got [1]"),
        ({"epsilons": "nan"}, "epsilons: must be a finite number, got NaN; give one, or leave it out"),
        ({"epsilons": "[1, inf]"}, "epsilons[1]: must be a finite number"),
        ({"epsilons": "1e999999999"}, "epsilons: must be a finite number of modest length"),
        ({"epsilons": '"1:1e9:1"'}, "more than 10000 values; take a larger step"),
        ({"epsilons": '"1:2"'}, "epsilons must be first:last:step or a list"),
        ({"epsilons": "2020-01-01"}, "epsilons must be a text such as"),
        ({"at_least": "90"}, "at_least must lie in (0, 1], got 90"),
        ({"at_least": '"0.9"'}, "at_least must lie in (0, 1], got '0.9'"),
        ({"at_least": "true"}, "at_least must lie in (0, 1], got True"),
        ({"confidence": "1"}, "confidence must lie strictly between 0 and 1, got 1"),
        ({"tolerance": "0.5"}, "tolerance must lie strictly between 0 and 0.5, got 0.5"),
        ({"delta": "-1"}, "delta must lie in [0, 1), got -1"),
        ({"on": '"best"'}, "on must be 'average', 'worst' or a record number from 0, got 'best'"),
        ({"on": "-1"}, "on must be a whole number of at least 0, got -1"),
        ({"of": '"accuracy"'}, "of is 'accuracy', which needs true labels; name their column as target"),
        ({"of": "1"}, "of must be 'stability' or 'accuracy', got 1"),
        ({"method": '"magic"'}, "method must be one of"),
        ({"mechanisms": '["duchy"]'}, "did you mean 'duchi'?"),
        ({"mechanisms": '["krr:k=1"]'}, "mechanisms: "),
        ({"mechanisms": '["pm", "pm"]'}, "mechanisms names 'pm' twice; keep one"),
        ({"mechanisms": "[]"}, "mechanisms must be a list of texts"),
        ({"sensitive": "[1]"}, "sensitive[0] must be a text of 1 to 4096 letters, got 1"),
        ({"sensitive": "{}"}, "sensitive must be a list of texts"),
        ({"target": '"age"'}, "target names 'age', a sensitive column"),
        ({"table": '"-"'}, "table is '-', standard input, which nobody can ask again; name a file"),
        ({"table": '"a\\u0000b"'}, "table must be a text of 1 to 4096 letters"),
        ({"seed": "-1"}, "seed must be a whole number from 0 to"),
        ({"seed": "1.5"}, "seed must be a whole number from 0 to"),
        ({"quantise": "1"}, "quantise must be a whole number from 2 to"),
        ({"version": "2"}, "version must be 1, got 2; read it with a newer epsworth"),
        ({"panels": "1"}, "panels must be true or false, got 1"),
        ({"service": "{batch = 8}"}, "service is for a model behind an address, and model is a file; leave it out"),
        ({"service": "{batch = 0}"}, "service.batch must be a whole number from 1 to 1000000, got 0"),
        ({"service": "{bach = 1}"}, "unknown entry 'service.bach'; did you mean 'batch'?"),
        ({"service": "{timeout = -1}"}, "service.timeout must be positive and finite, got -1"),
        ({"seed": "1\nseed = 2"}, "Cannot overwrite a value"),
    ],
)  # fmt: skip
@pytest.mark.cases(1)
def test_what_a_study_cannot_mean_is_refused_in_a_sentence(tmp_path, cli, lines, told):
    path = tmp_path / "study.toml"
    path.write_text(changed(**lines))
    code, out, err = cli("run", str(path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert f"study file {path}" in err


@pytest.mark.parametrize(
    ("domain", "told"),
    [
        ("age = 1", "domain.age: expected a table with lower and upper"),
        ("age = {lower = 0, uper = 1}", "domain.age.uper: unknown entry"),
        ("age = {lower = nan, upper = 1}", "domain.age.lower: must be a finite number"),
        ("age = {categories = [2020-01-01, 1]}", "domain.age.categories[0] must not be a date or a time"),
        ("", "domain is an empty table"),
    ],
)
def test_ranges_within_a_study_are_checked_as_in_their_own_file(domain, told):
    with pytest.raises(ValueError, match="domain") as refused:
        ew.Study.from_toml(f"{STUDY.partition('[domain')[0]}[domain]\n{domain}\n")
    assert told in str(refused.value)


@pytest.mark.parametrize("name", ["trust", "send", "cache", "service.cache", "service.trust"])
def test_a_study_names_nothing_that_is_trusted_or_written(tmp_path, name):
    line = {"service": f"{{{name.partition('.')[2]} = true}}"} if "." in name else {name: "true"}
    text = changed(**line, model='"http://127.0.0.1:9/v2/models/m"')
    with pytest.raises(ValueError, match=f"^{name}: a study file .* where you run it"):
        ew.Study.from_toml(text)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a = ", b"[" * 5000, b"a" + b".a" * 5000 + b" = 1", b""])
@pytest.mark.cases(1)
def test_bytes_that_are_no_study_are_refused(tmp_path, cli, content):
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    code, out, err = cli("run", str(path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"study file {path}" in err


@pytest.mark.slow
def test_files_that_are_missing_are_named(tmp_path, cli):
    for field, file in (("model", "model.skops"), ("table", "people.csv")):
        path = made(tmp_path)
        (tmp_path / file).unlink()
        code, out, err = cli("run", str(path))
        assert (code, out) == (2, "")
        assert f"cannot read the {field} {tmp_path / file}: there is no such file; check the path" in err
    code, _, err = cli("run", str(tmp_path / "none.toml"))
    assert code == 2
    assert "cannot read the study file" in err
    code, _, err = cli("run", str(tmp_path / "people.csv"))
    assert code == 2


def test_columns_and_records_that_a_table_lacks_are_named(tmp_path, cli):
    for line, told in (
        ({"sensitive": '["age", "7"]'}, "sensitive: the table has no column '7'; it has age, bmi, ill"),
        ({"sensitive": '["age", "bim"]'}, "the domain does not declare 'bim' (it declares age, bmi)"),
        ({"target": '"sick"'}, "target: the table has no column 'sick'; it has age, bmi, ill"),
        ({"on": "24"}, "there is no record 24; the table holds records 0 to 23"),
    ):
        code, out, err = cli("run", str(made(tmp_path, changed(**line))))
        assert (code, out) == (2, "")
        assert told in err


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        (np.arange(1, 4), "1,2,3"),
        (range(1, 4), "1,2,3"),
        (np.linspace(0.1, 0.3, 3), "0.1,0.2,0.3"),
        (np.array([0.1], np.float32), "0.10000000149011612"),  # what stability takes it for
        ([np.float64(0.1), np.int64(2), "3.10"], "0.1,2,3.10"),
        (pl.Series([0.5, 1.5]), "0.5,1.5"),
        (np.float64(2), "2.0"),
        (np.array(2), "2"),
        ((1, Decimal("1.50")), "1,1.50"),
    ],
)
def test_epsilons_are_numbers_in_any_sequence(numbers, text):
    study = ew.Study(**GIVEN | {"epsilons": numbers})
    assert study.epsilons == text
    np.testing.assert_array_equal(study.grid, np.atleast_1d(np.asarray(numbers, float)))
    assert ew.Study.from_toml(study.to_toml()) == study


@pytest.mark.parametrize("numbers", [np.ones((2, 2)), np.array([True]), range(10**9), b"12", {1: 2}, np.arange(2), {1}])
def test_what_is_no_list_of_epsilons_is_refused(numbers):
    with pytest.raises(ValueError, match=r"^epsilons") as refused:
        ew.Study(**GIVEN | {"epsilons": numbers})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"a": (0, 100)}, {"a": {"lower": 0, "upper": 100}}),
        ({"a": ["x", "y"]}, {"a": {"categories": ["x", "y"]}}),
        ({"a": ew.Feature("a", 0, 1), "b": (0, 2)}, {"a": {"lower": 0, "upper": 1}, "b": {"lower": 0, "upper": 2}}),
        ({"a": (0, 1), "b": {"lower": 0, "upper": 2}}, {"a": {"lower": 0, "upper": 1}, "b": {"lower": 0, "upper": 2}}),
    ],
)
def test_ranges_are_given_as_to_stability(given, same):
    study = ew.Study(**GIVEN, domain=given)
    assert study.domain == ew.Study(**GIVEN, domain=same).domain == ew.Study.from_toml(study.to_toml()).domain
    for wrong in ({"a": (1, 0)}, {"a": [0, 100]}, {"a": (0, 1, 2), "b": 5}):
        with pytest.raises(ValueError, match="a"):
            ew.Study(**GIVEN, domain=wrong)


def test_files_are_named_by_paths_too():
    study = ew.Study(**GIVEN | {"model": Path("m.skops"), "table": Path("t.csv"), "domain": Path("d.toml")})
    assert study == ew.Study(**GIVEN, domain="d.toml")
    assert study.files == {"model": Path("m.skops"), "table": Path("t.csv"), "domain": Path("d.toml")}


def test_what_no_file_can_hold_is_refused():
    with pytest.raises(ValueError, match=r"^model holds half of a letter"):
        ew.Study(**(GIVEN | {"model": "\ud800.skops"}))
    with pytest.raises(ValueError, match=r"^epsilons masks some of its entries"):
        ew.Study(**(GIVEN | {"epsilons": np.ma.array([1.0, 2.0], mask=[0, 1])}))
    assert ew.Study(**(GIVEN | {"epsilons": np.ma.array([1.0, 2.0])})).grid == [1.0, 2.0]


def test_a_folder_and_ranges_are_checked_when_a_study_is_made():
    for door in (lambda: ew.Study(**GIVEN, folder=5), lambda: ew.Study.from_dict(GIVEN, folder=5)):
        with pytest.raises(TypeError, match=r"^folder must be a text or a Path, got 5$"):
            door()
    with pytest.raises(ValueError, match=r"the domain does not declare 'a' \(it declares b\); give its public range"):
        ew.Study(**GIVEN, domain={"b": (0, 1)})
    assert ew.Study(**GIVEN | {"sensitive": ["0"]}, domain={"b": (0, 1)}).sensitive == ("0",)
