"""Values that some library reads, rounds or raises about in its own way: refused in a sentence, or passed as is."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import epsworth as ew
from epsworth.policy import Pass, Policy, perturb_file

PLAIN = Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), bits=4, passing=["id", "note"])
SECOND = Policy(PLAIN.rules, passing=Pass(("id",), ("note",)))
ARRAYS = Policy.of("pm", 1, ew.Domain.of({0: (0, 100)}), bits=4, passing=["x1"])
SECOND_ARRAYS = Policy(ARRAYS.rules, passing=Pass((), ("x1",)))


class Odd(float):
    def __ne__(self, other):
        raise RuntimeError


def test_what_an_object_does_decides_nothing():
    value = Decimal("sNaN")
    table = pd.DataFrame({"age": [31.0], "id": pd.Series([value], dtype=object)})
    for policy in (PLAIN, SECOND):
        assert ew.perturb(policy, table)["id"][0] is value
        with pytest.raises(ValueError, match="id: the column holds values of a type of somebody's own"):
            ew.perturb(policy, table.assign(id=pd.Series([Odd(1.0)], dtype=object)))
    with pytest.raises(ValueError, match="row 0, age: the value is missing, or not a number"):
        ew.perturb(PLAIN, pd.DataFrame({"age": pd.Series([Decimal("sNaN")], dtype=object)}))


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63 - 1])
def test_whole_numbers_that_doubles_would_round_stay_whole(value):
    table = np.array([[31, value], [40, value - 1]])
    assert ew.perturb(ARRAYS, table)[:, 1].tolist() == [value, value - 1]
    assert ew.perturb(SECOND_ARRAYS, table).shape == (2, 1)  # what is dropped does not leave
    assert ew.perturb(ARRAYS, table.astype(object))[:, 1].tolist() == [value, value - 1]


def test_whole_numbers_that_doubles_hold_pass():
    edge = np.array([[31, 2**53], [40, -(2**53)]])
    assert ew.perturb(ARRAYS, edge)[:, 1].tolist() == [2**53, -(2**53)]
    large = np.array([[31, 2**64 - 1]], dtype=np.uint64)
    assert ew.perturb(ARRAYS, large)[0, 1] == 2**64 - 1
    assert ew.perturb(ARRAYS, large[:, ::-1][:, :1]).shape == (1, 1)  # of what is perturbed nothing is left
    assert ew.perturb(ARRAYS, np.empty((0, 2), dtype=np.int64)).shape == (0, 2)


JSON = {
    "a literal": ('{"age": 31, "id": NaN}', "a member is NaN or Infinity, which JSON does not have"),
    "infinity": ('{"age": 31, "id": "b\\"", "note": 1, "id": -Infinity}', "two members of one name"),
    "escaped": ('{"age": 31, "id": "\\u0041"}\n{"age": 31, "id": -Infinity}', "row 1.*: a member is NaN"),
}


@pytest.mark.parametrize("name", JSON)
def test_numbers_of_json_that_are_none_are_refused(name, tmp_path):
    text, says = JSON[name]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(text + "\n")
    for policy in (SECOND, PLAIN):
        with pytest.raises(ValueError, match=says):
            perturb_file(policy, source, target)
        assert not target.exists()


def test_what_is_dropped_may_be_nan(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"age": 31, "id": 1, "note": NaN}\n')
    perturb_file(SECOND, source, target)
    assert "NaN" not in target.read_text()


def test_a_type_that_nobody_can_make_is_refused_in_one_sentence(tmp_path):
    source = tmp_path / "in.parquet"
    wide = pa.array([Decimal("41.57319")], pa.decimal256(60, 6))
    for columns in ({"age": [31.0], "id": wide}, {"age": wide}):
        parquet.write_table(pa.table(columns), source)
        with pytest.raises(ValueError, match=r"in\.parquet.*(damaged|libraries at hand)"):
            perturb_file(PLAIN, source, tmp_path / "out.parquet")
        assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("categories", [[1, True], [0, False, "x"], [1, 1.0]])
def test_categories_that_equal_one_another_are_told_so(categories):
    with pytest.raises(ValueError, match=r"at least two different values, got .*\(True equals 1, and 1\.0 equals 1"):
        ew.Feature("n", categories=tuple(categories))
    with pytest.raises(ValueError, match=r"different values, got \['a', 'a'\]$"):
        ew.Domain.of({"n": ["a", "a"]})
