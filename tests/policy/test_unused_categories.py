"""A column of categories that passes leaves with the categories that its rows hold, whatever library holds it."""

from __future__ import annotations

import pickle

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import epsworth as ew
from epsworth.policy import Pass, Policy, perturb_file

PLAIN = Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), bits=4, passing=["ward", "city"])
SECOND = Policy(PLAIN.rules, passing=Pass(("city", "ward")))
WORD = "Secretville"
ORDER = ["z", WORD, "a"]
AGE = [31.0, 62.0, 40.0]
HELD = ["a", "z", None]


def dictionary(values=HELD, chunks=1):
    places = pa.array([None if value is None else ORDER.index(value) for value in values])
    made = pa.DictionaryArray.from_arrays(places, pa.array(ORDER), ordered=True)
    return pa.chunked_array([made.slice(at * len(values) // chunks, len(values) // chunks) for at in range(chunks)])


def pandas_of(city, **more):
    return pd.DataFrame({"age": AGE, "city": city} | more)


ARROW = pd.ArrowDtype(dictionary().type)
TABLES = {
    "pandas": pandas_of(pd.Categorical(HELD, ORDER, ordered=True)),
    "pandas by arrow": pandas_of(pd.array(dictionary().combine_chunks(), dtype=ARROW)),
    "polars": pl.DataFrame({"age": AGE, "city": pl.Series(HELD, dtype=pl.Enum(ORDER))}),
    "polars, cut": pl.DataFrame({"age": [*AGE, 1.0], "city": pl.Series([*HELD, WORD], dtype=pl.Categorical)})[:3],
    "arrow": pa.table({"age": AGE, "city": dictionary()}),
    "arrow in chunks": pa.table({"age": AGE, "city": dictionary(chunks=3)}),
}


def rows_of(table):
    return table["city"].to_pylist() if hasattr(table["city"], "to_pylist") else list(table["city"])


@pytest.mark.parametrize("policy", [PLAIN, SECOND], ids=["first version", "others"])
@pytest.mark.parametrize("name", TABLES)
def test_what_no_row_holds_does_not_leave(name, policy):
    sent = ew.perturb(policy, TABLES[name])
    assert [None if pd.isna(value) else value for value in rows_of(sent)] == HELD
    assert WORD.encode() not in pickle.dumps(sent)
    assert WORD not in str(getattr(sent, "schema", "")) + repr(sent)


def test_what_is_held_keeps_its_order_and_kind():
    kind = ew.perturb(PLAIN, TABLES["pandas"])["city"].dtype
    assert (list(kind.categories), kind.ordered) == (["z", "a"], True)
    kind = ew.perturb(PLAIN, TABLES["arrow in chunks"]).schema.field("city").type
    assert kind == dictionary().type
    assert ew.perturb(PLAIN, TABLES["pandas by arrow"])["city"].dtype == ARROW
    assert ew.perturb(PLAIN, TABLES["polars"])["city"].dtype == pl.Enum(["z", "a"])
    words = ew.perturb(PLAIN, TABLES["arrow"])["city"].chunk(0).dictionary.to_pylist()
    assert words == ["z", "a"]


INDEXES = {
    "categories": pd.CategoricalIndex(["a", "z", "a"], ORDER, name="ward"),
    "by arrow": pd.Index(pd.array(dictionary(["a", "z", "a"]).combine_chunks(), dtype=ARROW), name="ward"),
    "levels": pd.MultiIndex.from_product([ORDER, [1, 2]], names=["ward", "city"])[[0, 1, 4]],
    "levels of categories": pd.MultiIndex.from_arrays(
        [pd.CategoricalIndex(["a", "z", "a"], ORDER), [1, 2, 3]], names=["ward", "city"]
    ),
}


@pytest.mark.parametrize("policy", [PLAIN, SECOND], ids=["first version", "others"])
@pytest.mark.parametrize("name", INDEXES)
def test_an_index_is_a_column_too(name, policy):
    table = pd.DataFrame({"age": AGE}, index=INDEXES[name])
    sent = ew.perturb(policy, table)
    assert sent.index.tolist() == INDEXES[name].tolist()
    assert list(sent.index.names) == list(INDEXES[name].names)
    assert WORD.encode() not in pickle.dumps(sent)
    assert WORD.encode() in pickle.dumps(table)  # nor is the given table changed


def test_the_names_of_columns_may_be_categories_too():
    table = pandas_of(["a", "z", "a"])
    table.columns = pd.CategoricalIndex(["age", "city"], categories=["age", "city", WORD])
    assert WORD.encode() not in pickle.dumps(ew.perturb(PLAIN, table))


NESTED = {
    "polars": pl.DataFrame({"age": AGE[:1], "city": pl.Series([["a"]], dtype=pl.List(pl.Enum(ORDER)))}),
    "struct": pl.DataFrame({"age": AGE[:1], "city": pl.Series([{"c": "a"}], dtype=pl.Struct({"c": pl.Enum(ORDER)}))}),
    "arrow": pa.table({"age": AGE[:1], "city": pa.ListArray.from_arrays([0, 1], dictionary().chunk(0))}),
}


@pytest.mark.parametrize("name", NESTED)
def test_categories_inside_of_lists_are_refused(name):
    with pytest.raises(ValueError, match="city: the column passes, and has categories inside of lists"):
        ew.perturb(PLAIN, NESTED[name])


@pytest.mark.parametrize("name", ["polars", "arrow"])
def test_files_of_parquet_do_not_list_them(name, tmp_path):
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    if name == "polars":
        TABLES[name].write_parquet(source)
    else:
        parquet.write_table(TABLES[name], source)
    assert WORD.encode() in source.read_bytes()
    perturb_file(PLAIN, source, target)
    assert WORD.encode() not in target.read_bytes()
    assert pl.read_parquet(target)["city"].cast(pl.String).to_list() == HELD
