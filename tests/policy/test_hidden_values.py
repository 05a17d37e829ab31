"""What lies behind a column that passes: under its gaps, beside its slice, on its values."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epsworth as ew

POLICY = ew.Policy.of("pm", 2, {"age": (0, 100)}, passing=["zone"])


def test_a_masked_column_holds_nothing_under_its_gaps():
    mask = np.array([True, False])
    for hidden in (
        pd.arrays.IntegerArray(np.array([777, 2]), mask),
        pd.arrays.FloatingArray(np.array([777.5, 2.0]), mask),
        pd.arrays.BooleanArray(np.array([True, False]), mask),
    ):
        released = ew.perturb(POLICY, pd.DataFrame({"age": [31, 64], "zone": hidden}))["zone"]
        assert released.dtype == hidden.dtype
        assert released.isna().tolist() == [True, False]
        assert released[1] == hidden[1]
        assert not released.array._data[0]


def test_arrow_columns_hold_their_rows_alone():
    whole = pa.table({"age": list(range(30, 80)), "zone": [f"z{row}" for row in range(50)]})
    released = ew.perturb(POLICY, whole.slice(0, 2))
    assert released["zone"].to_pylist() == ["z0", "z1"]
    assert b"z40" not in pickle.dumps(released)
    frame = ew.perturb(POLICY, whole.to_pandas(types_mapper=pd.ArrowDtype).iloc[:2])
    assert frame["zone"].tolist() == ["z0", "z1"]
    assert b"z40" not in pickle.dumps(frame)
    buffers = [pa.py_buffer(bytes([0b10])), pa.py_buffer(np.array([777, 2], dtype=np.int64).tobytes())]
    under = pa.Array.from_buffers(pa.int64(), 2, buffers)
    column = ew.perturb(POLICY, pa.table({"age": [31, 64], "zone": under}))["zone"]
    assert column.to_pylist() == [None, 2]
    assert np.frombuffer(column.chunk(0).buffers()[1], dtype=np.int64)[:2].tolist() == [0, 2]


@pytest.mark.parametrize("kind", [str, float, int])
def test_values_of_a_type_of_somebodys_own_do_not_pass(kind):
    own = type("Own", (kind,), {"more": "SECRET"})
    with pytest.raises(ValueError, match="zone: the column holds values of a type of somebody's own") as told:
        ew.perturb(POLICY, pd.DataFrame({"age": [31, 64], "zone": pd.Series([own(1), 2], dtype=object)}))
    assert "SECRET" not in str(told.value)
