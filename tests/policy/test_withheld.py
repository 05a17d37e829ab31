"""What other libraries say of a table may quote its values: no message, and no trace behind it, does."""

from __future__ import annotations

import decimal
import traceback
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import epsworth as ew
from epsworth.policy import Pass, Policy, perturb_file
from epsworth.policy.columns import Column, values_withheld

SECRET = 77.4242
KINDS = ew.Domain.of({"c": [1, 2, 3]})
NUMBERS = Policy.of("krr", 1, KINDS)
FILLED = Policy((replace(NUMBERS.rules[0], feature=replace(KINDS["c"], missing=1), outside=2),), passing=Pass(("id",)))
WORDS = Policy.of("krr", 1, ew.Domain.of({"c": ["a", "b"]}))
AGES = Policy.of("pm", 1, ew.Domain.of({"c": (0, 100)}))


def told(run) -> str:
    """Return all that a caller, and whoever prints its trace, sees of an error."""
    with pytest.raises((ValueError, TypeError)) as error:
        run()
    return "".join(traceback.format_exception(error.value))


FRAMES = {
    "a category that is no number": (NUMBERS, pl.DataFrame({"c": [SECRET, float("nan"), 2.0]})),
    "beyond 64 bits": (NUMBERS, pl.DataFrame({"c": pl.Series([774242 * 10**20], dtype=pl.Int128)})),
    "a signalling decimal": (AGES, pd.DataFrame({"c": pd.Series([decimal.Decimal("sNaN774242")], dtype=object)})),
    "mixed": (WORDS, pd.DataFrame({"c": pd.Series([774242, "774242", "a"], dtype=object)})),
    "a view": (WORDS, pa.table({"c": pa.array(["774242"], pa.string_view())})),
    "half a float": (NUMBERS, pa.table({"c": pa.array(np.array([77.4], dtype=np.float16))})),
    "wide decimals": (NUMBERS, pa.table({"c": pa.array([decimal.Decimal("774242")], pa.decimal256(60))})),
    "half a character": (WORDS, pd.DataFrame({"c": pd.Series(["774242\ud800"], dtype=object)})),
}


@pytest.mark.parametrize("name", FRAMES)
def test_no_message_quotes_a_value_of_a_table(name):
    policy, table = FRAMES[name]
    text = told(lambda: ew.perturb(policy, table))
    assert "7742" not in text.split("test_withheld.py")[-1].partition("\n")[2]
    assert "77.4" not in text.rpartition("Error: ")[2]


@pytest.mark.parametrize(
    "kind", [pl.DataFrame, pd.DataFrame, pa.table, lambda columns: np.array(list(columns.values())).T]
)
def test_an_accident_while_a_table_is_read_is_told_by_its_kind(kind, monkeypatch):
    def accident(*given):
        raise KeyError(SECRET)

    monkeypatch.setattr(Column, "kinds", accident)
    policy = Policy.of("krr", 1, ew.Domain.of({"x0": [1, 2, 3]}))
    text = told(lambda: ew.perturb(policy, kind({"x0": [1, 2]})))
    assert "cannot be read by the libraries at hand (KeyError)" in text
    assert str(SECRET) not in text


def test_what_is_missing_or_undeclared_has_its_substitute(tmp_path, cli):
    table = pl.DataFrame({"id": [1, 2, 3], "c": [SECRET, float("nan"), 2.0]})
    assert set(ew.perturb(FILLED, table)["c"]) <= {1, 2, 3}
    table.write_parquet(tmp_path / "n.parquet")
    assert perturb_file(FILLED, tmp_path / "n.parquet", tmp_path / "o.parquet", person="id").rows == 3
    NUMBERS.save(tmp_path / "p.toml")
    code, _, err = cli("perturb", str(tmp_path / "p.toml"), str(tmp_path / "n.parquet"), str(tmp_path / "q.parquet"))
    assert (code, err.count("\n"), "77" in err) == (2, 1, False)


@pytest.mark.slow
def test_damaged_parquet_is_one_sentence(tmp_path):
    chance, path = np.random.default_rng(5), tmp_path / "n.parquet"
    pl.DataFrame({"id": ["x"] * 50, "c": [SECRET] * 50}).write_parquet(path)
    whole = path.read_bytes()
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[chance.integers(0, len(whole))] ^= 1 << int(chance.integers(0, 8))
        path.write_bytes(bytes(damaged))
        with suppress(ValueError):
            perturb_file(AGES, path, tmp_path / "o.parquet", again=True)
            continue
        text = told(lambda: perturb_file(AGES, path, tmp_path / "o.parquet", again=True))
        assert "77.4" not in text.rpartition("Error: ")[2]


def test_a_header_that_is_a_record_is_not_quoted(tmp_path):
    (tmp_path / "n.csv").write_text("7,77.4242,77.4242\n")
    assert "77" not in told(lambda: perturb_file(AGES, tmp_path / "n.csv", tmp_path / "o.csv")).rpartition("Error: ")[2]


def test_words_of_others_are_told_by_their_kind_and_ours_as_they_are():
    refused = pytest.raises(ValueError, match=r"^the table cannot be read by the libraries at hand \(ValueError\)")
    with refused as error, values_withheld("the table"):
        np.array(["77.4242x"]).astype(float)
    assert error.value.__suppress_context__
    with pytest.raises(KeyboardInterrupt), values_withheld("the table"):
        raise KeyboardInterrupt
