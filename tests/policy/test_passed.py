"""Columns that a policy does not perturb: passed by name, dropped by name, or refused; through every door in memory."""

from __future__ import annotations

import json
import re
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import epsworth as ew
from epsworth.gateway.objects import read_objects
from epsworth.gateway.refusals import Refusal
from epsworth.gateway.settings import Settings
from epsworth.gateway.tensors import read_tensors
from epsworth.policy import Pass, Policy, audit_policy, perturb_file, perturb_files
from epsworth.policy.transformer import Perturb
from tailored import policy as tailored

PEOPLE = ew.Domain.of({"age": (0, 100), "job": ["a", "b", "c"]})
PLAIN = Policy.of("pm", "1", PEOPLE, per="feature", bits=4)
POLICY = Policy(PLAIN.rules, passing=Pass(("id", "city"), ("name",), ("city",)))
ROWS = {"name": ["Ada", "Bob"], "age": [31.0, 62.0], "id": [7, 8], "job": ["a", "c"]}
TABLES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": lambda rows: pl.DataFrame(rows).to_arrow()}

names = st.sampled_from("abcdefghAB")  # a column in other letters is another column
lists = st.lists(names, unique=True, max_size=5)


def columns(table):
    return list(getattr(table, "column_names", table.columns))


@given(lists, lists, lists, lists)
def test_what_stays_is_what_is_perturbed_or_passed(table, perturbed, passed, dropped):
    passed = [name for name in passed if name not in perturbed]
    dropped = [name for name in dropped if name not in (*perturbed, *passed)]
    others = Pass(tuple(passed), tuple(dropped))
    if set(table) - {*perturbed, *passed, *dropped}:
        with pytest.raises(ValueError, match="the policy does not name"):
            others.kept(table, perturbed)
    else:
        assert others.kept(table, perturbed) == [name for name in table if name in (*perturbed, *passed)]


def test_a_file_says_it():
    text = POLICY.to_toml()
    assert Policy.from_toml(text).passing == POLICY.passing
    assert Policy.from_toml(text).fingerprint == POLICY.fingerprint != PLAIN.fingerprint
    assert POLICY.to_dict()["pass"] == {"columns": ["id", "city"], "drop": ["name"], "text": ["city"]}
    assert "[pass]" not in PLAIN.to_toml()
    assert Policy.from_toml(PLAIN.to_toml()).passing == Pass()
    assert str(POLICY).endswith("  sent as they are: id, city; left out: name; all other columns are refused")
    assert str(PLAIN).endswith("  all other columns are refused")


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("version = 1", "version = 2"), "version: this library reads version 1, got 2"),
        (("version = 1", "version = true"), "version: this library reads version 1, got True"),
        (('drop = [\n    "name",\n]', 'drop = "name"'), r"pass\.drop: must be a list"),
        (('drop = [\n    "name",\n]', "drop = [7]"), r"pass\.drop: must be a list"),
        (('"name"', '"id"'), "'id' stands twice"),
        (('"name"', '"age"'), "'age' is perturbed by the policy"),
        (('text = [\n    "city",\n]', 'text = ["street"]'), r"pass\.text: 'street' is not in pass\.columns"),
        (("drop = [", "drops = ["), r"pass\.drops: unknown entry"),
        (("[pass]", "[others]"), "others: unknown entry"),
    ],
)
def test_wrong_entries_are_named(edit, says):
    text = "\n".join(line for line in POLICY.to_toml().splitlines() if not line.startswith("fingerprint"))
    assert edit[0] in text
    with pytest.raises(ValueError, match=says):
        Policy.from_toml(text.replace(*edit))


INDICES = [pd.Index([31, 62], name="Age"), pd.Index(["Ada", "Bob"]), pd.RangeIndex(2, name="n"), pd.Index([0.5, 1.5])]
NUMBERED = [pd.RangeIndex(37, 39), pd.RangeIndex(0, 74, 37), pd.RangeIndex(1, -1, -1), pd.Index([31, 62])]


def test_no_table_keeps_more_than_was_declared():
    for kind in TABLES.values():
        released = ew.perturb(POLICY, kind(ROWS))
        assert columns(released) == ["age", "id", "job"]
        assert released["id"].to_numpy().tolist() == [7, 8]
        with pytest.raises(ValueError, match="does not name 'Age'; under"):
            ew.perturb(POLICY, kind(ROWS | {"Age": [31.0, 62.0]}))
    for index in INDICES:
        table = pd.DataFrame(ROWS).set_index(index)
        with pytest.raises(ValueError, match="no plain count of its rows"):
            ew.perturb(POLICY, table)
    for index in NUMBERED:  # of rows that were chosen: they are counted anew
        table = pd.DataFrame(ROWS).set_index(index)
        assert ew.perturb(POLICY, table).index.equals(pd.RangeIndex(2))
        assert table.index is not None


NESTED = [{"Age": 77.42}, [77.42], {}, []]
UNNESTED = [7, 7.5, "a", True, None]


def file_of(policy, path, released):
    perturb_file(policy, path, released, ledger=path.parent / "ledger")
    return released


@pytest.mark.parametrize("value", NESTED)
def test_what_passes_is_single_values(value, tmp_path):
    rows = ROWS | {"id": [7, value]}
    for policy in (POLICY, Policy(PLAIN.rules, passing=Pass(("id", "name")))):
        source = tmp_path / "rows.jsonl"
        lines = [dict(zip(ROWS, row, strict=True)) for row in zip(*rows.values(), strict=True)]
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(ValueError, match=r"row 1.*, id: the member passes, but is not one") as caught:
            file_of(policy, source, tmp_path / "out.jsonl")
        assert "77.42" not in str(caught.value)
        assert not (tmp_path / "out.jsonl").exists()
    columns = [pl.Series([value, value], dtype=pl.Object)]
    if value:
        columns += [pl.Series([value, value])]
    if value == [77.42]:
        columns += [pl.Series([value, value], dtype=pl.Array(pl.Float64, 1))]
    tables = [pl.DataFrame(ROWS).with_columns(column.alias("id")) for column in columns]
    tables += [table.to_arrow() for table in tables[1:]] + [pd.DataFrame(rows)]
    for table in tables:
        with pytest.raises(ValueError, match=r"^id: the column") as caught:
            ew.perturb(POLICY, table)
        assert "77.42" not in str(caught.value)
    for ordered in (False, True):
        pairs = pd.Series(pd.Categorical([(1, 77.42), (2, 77.42)], ordered=ordered))
        with pytest.raises(ValueError, match=r"^id: the column"):
            ew.perturb(POLICY, pd.DataFrame(ROWS).assign(id=pairs))
    for table in tables[1 : len(columns)]:
        table.write_parquet(tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match=r"^id: the column"):
            file_of(POLICY, tmp_path / "rows.parquet", tmp_path / "out.parquet")
    by_place = Policy(Policy.of("pm", "1", ew.Domain.of({1: (0, 100)})).rules, passing=Pass(("x0",)))
    array = np.empty((1, 2), dtype=object)
    array[0, 0], array[0, 1] = value, 31.0
    with pytest.raises(ValueError, match=r"^x0: the column"):
        ew.perturb(by_place, array)


def test_single_values_pass(tmp_path):
    source = tmp_path / "rows.jsonl"
    record = {"age": 31, "job": "a"}
    source.write_text("".join(json.dumps(record | {"id": value}) + "\n" for value in UNNESTED))
    released = file_of(POLICY, source, tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in released] == UNNESTED
    for column in ([None, None], [b"a", b"b"], [date(2020, 1, 1), None], [True, None], ["a", None]):
        for kind in (pl.DataFrame, TABLES["arrow"]):
            assert columns(ew.perturb(POLICY, kind(ROWS | {"id": column}))) == ["age", "id", "job"]
    for ordered in (False, True):
        words = pd.DataFrame(ROWS).assign(id=pd.Categorical(["a", "b"], ordered=ordered))
        assert ew.perturb(POLICY, words)["id"].tolist() == ["a", "b"]
        assert ew.perturb(POLICY, pa.Table.from_pandas(words))["id"].to_pylist() == ["a", "b"]
    assert ew.perturb(POLICY, pd.DataFrame(ROWS | {"id": ["a", None]}, dtype=object))["id"].tolist() == ["a", None]


BOTH = re.escape(
    """the policy does not name 'id'; under [pass], send with columns = ["id"], or leave out with drop = ["id"]"""
)
UNNAMED = {name: column for name, column in ROWS.items() if name != "name"}


@pytest.mark.parametrize("kind", TABLES)
def test_frames_with_a_column_that_nobody_named_are_refused(kind):
    table = TABLES[kind](UNNAMED)
    with pytest.raises(ValueError, match=BOTH):
        ew.perturb(PLAIN, table)
    with pytest.raises(ValueError, match=BOTH):
        Perturb(PLAIN).fit(table if kind != "arrow" else pd.DataFrame(UNNAMED))


def test_records_with_a_member_that_nobody_named_are_refused():
    record = {name: column[0] for name, column in UNNAMED.items()}
    for door in (ew.perturb, Policy.outcomes):
        with pytest.raises(ValueError, match=r"does not name 'id'"):
            door(PLAIN, record)
    with pytest.raises(ValueError, match=BOTH):
        PLAIN.outcomes(record)
    with pytest.raises(ValueError, match="a member 'id' that the policy does not name; leave it out, or name it under"):
        PLAIN.client.perturb(record)
    with pytest.raises(ValueError, match="a member that the policy does not name"):  # this could be a raw value
        PLAIN.client.perturb({"63.7": 1} | record)
    with pytest.raises(Refusal, match="'id' is neither perturbed nor let pass"):
        read_objects([record], Settings(PLAIN, "http://localhost:9"))


def test_arrays_with_a_column_that_nobody_named_are_refused():
    policy = Policy.of("pm", "1", ew.Domain.of({1: (0, 100)}))
    says = re.escape(
        """does not name 'x0'; under [pass], send with columns = ["x0"], or leave out with drop = ["x0"]"""
    )
    for door in (lambda table: ew.perturb(policy, table), Perturb(policy).fit, lambda t: policy.outcomes(t[0])):
        with pytest.raises(ValueError, match=says):
            door(np.zeros((2, 2)))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_with_a_column_that_nobody_named_are_refused_and_nothing_is_written(ending, tmp_path):
    frame, folder, ledger = pl.DataFrame(UNNAMED), tmp_path / "parts", tmp_path / "ledger"
    folder.mkdir()
    source = folder / f"rows.{ending}"
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[ending](source)
    says = BOTH if ending != "jsonl" else "does not name 'id'"
    for one, output in ((source, tmp_path / f"out.{ending}"), (folder, tmp_path / "out")):
        with pytest.raises((ValueError, OSError), match=says):
            (perturb_file if one is source else perturb_files)(PLAIN, one, output, ledger=ledger)
        assert not output.exists() or not any(output.glob(f"*.{ending}"))


def test_receipts_name_what_passed_and_what_was_left_out(tmp_path):
    pl.DataFrame(ROWS).write_csv(tmp_path / "rows.csv")
    receipt = perturb_file(POLICY, tmp_path / "rows.csv", tmp_path / "out.csv", ledger=tmp_path / "ledger")
    assert (receipt.passed, receipt.left_out) == (("id",), ("name",))
    assert "perturbed in age, job; sent as they are: id; left out: name. Pure LDP" in str(receipt)
    pl.DataFrame(ROWS).drop("id", "name").write_csv(tmp_path / "few.csv")
    receipt = perturb_file(POLICY, tmp_path / "few.csv", tmp_path / "less.csv", ledger=tmp_path / "ledger")
    assert (receipt.passed, receipt.left_out) == ((), ())
    assert "sent as they are: none. Pure LDP" in str(receipt)


def test_names_that_look_like_values_are_not_shown():
    with pytest.raises(ValueError, match=r"the column number 4 \(counted from 0") as caught:
        ew.perturb(POLICY, pl.DataFrame(ROWS | {"63.7": [1, 2]}))
    assert "63.7" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (UNNAMED | {"63.7": [1, 2], "\u202eb": [1, 2]}, r"the policy does not name the column '63.7'; leave it out"),
        ({"63.7": [1, 2]}, "lacks the column 'age', which the policy perturbs; it has '63.7'"),
    ],
)
def test_names_of_a_parquet_file_are_names(columns, says, tmp_path):
    pl.DataFrame(columns).drop("id", "name", strict=False).write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=says):
        perturb_file(PLAIN, tmp_path / "rows.parquet", tmp_path / "out.parquet", ledger=tmp_path / "ledger")


def test_arrays_lose_columns():
    policy = Policy(Policy.of("pm", "1", ew.Domain.of({1: (0, 100)})).rules, passing=Pass(("x2",), ("x0",)))
    released = ew.perturb(policy, np.array([["Ada", 31.0, 7], ["Bob", 62.0, 8]], dtype=object))
    assert released.shape == (2, 2)
    assert released[:, 1].tolist() == [7, 8]
    with pytest.raises(ValueError, match="does not name 'x3'"):
        ew.perturb(policy, np.zeros((2, 4)))


def test_an_index_may_be_passed_by_name():
    released = ew.perturb(POLICY, pd.DataFrame(ROWS).set_index("id"))
    assert released.index.tolist() == [7, 8]


def test_pipelines_drop_and_refuse():
    table = pd.DataFrame(ROWS)
    step = Perturb(POLICY).fit(table)
    assert step.get_feature_names_out().tolist() == ["age", "id", "job"] == list(step.transform(table).columns)
    with pytest.raises(ValueError, match="does not name 'Age'; under"):
        Perturb(POLICY).fit(table.assign(Age=1))
    array = np.array([[0.0, 31, 7], [0, 62, 8]])
    by_place = Policy(Policy.of("pm", "1", ew.Domain.of({1: (0, 100)})).rules, passing=Pass(("x2",), ("x0",)))
    step = Perturb(by_place).fit(array)
    assert step.get_feature_names_out().tolist() == ["x1", "x2"]
    assert step.get_feature_names_out(["a", "b", "c"]).tolist() == ["b", "c"]
    assert step.transform(array).shape == (2, 2)


def test_tailored_policies_have_it_too():
    tables = tailored().tailoring
    public = [grid.name for grid in tables.grids if grid.name not in tables.names]
    record = {grid.name: grid.values.tolist()[0] for grid in tables.grids}
    policy = Policy((), None, tables, Pass((), tuple(public)))
    assert Policy.from_toml(policy.to_toml()) == policy
    assert set(ew.perturb(policy, pl.DataFrame([record])).columns) == set(policy.names)
    sent = policy.outcomes(record)
    assert sum(share for _, share in sent) == 1
    assert {name for given, _ in sent for name in given} == set(policy.names)
    with pytest.raises(ValueError, match="does not name 'more'"):
        policy.outcomes(record | {"more": 1})


def test_outcomes_are_those_of_what_leaves():
    record = {name: column[0] for name, column in ROWS.items()}
    found = POLICY.outcomes(record)
    assert all(set(sent) == {"age", "job", "id"} for sent, _ in found)
    assert [share for _, share in found] == [
        share for _, share in PLAIN.outcomes({"age": record["age"], "job": record["job"]})
    ]


def settings():
    return Settings(POLICY, "http://localhost:9")


def released(asked):
    return {name: [column[0]] * asked.rows for name, column in (("age", [50.0]), ("job", ["b"]))}


def test_the_gateway_sends_what_is_public_drops_what_is_dropped_and_refuses_the_rest():
    record = {name: column[0] for name, column in ROWS.items()}
    asked = read_objects({"records": [record]}, settings())
    assert json.loads(asked.body(released(asked))) == {"records": [{"age": 50.0, "job": "b", "id": 7}]}
    with pytest.raises(Refusal, match="Age"):
        read_objects([record | {"Age": 31}], settings())
    inputs = [
        {"name": name, "shape": [1], "datatype": kind, "data": [record[name]]}
        for name, kind in (("name", "BYTES"), ("age", "FP64"), ("id", "INT64"), ("job", "BYTES"))
    ]
    asked = read_tensors({"inputs": inputs}, settings())
    sent = json.loads(asked.body(released(asked)))["inputs"]
    assert [tensor["name"] for tensor in sent] == ["age", "id", "job"]
    with pytest.raises(Refusal, match="Age"):
        read_tensors({"inputs": [*inputs, inputs[1] | {"name": "Age"}]}, settings())
    for unnamed in ([record | {"town": "Delft"}], {"records": [record | {"town": "Delft"}]}):
        with pytest.raises(Refusal, match="'town' is neither perturbed nor let pass by the policy"):
            read_objects(unnamed, settings())
    with pytest.raises(Refusal, match="'town' is neither"):
        read_tensors({"inputs": [*inputs, inputs[0] | {"name": "town"}]}, settings())


@pytest.mark.parametrize(("passing", "leaves"), [(Pass(("id",), ("name",)), True), (Pass((), ("name",)), False)])
def test_the_person_leaves_where_the_policy_passes_it(passing, leaves):
    counted = Settings(Policy(PLAIN.rules, passing=passing), "http://localhost:9", person="id", ledger="people")
    record = {"name": "Ada", "age": 31.0, "job": "a", "id": 7}
    asked = read_objects([record], counted)
    assert asked.people == ["7"]
    assert json.loads(asked.body(released(asked))) == [{"age": 50.0, "job": "b"} | ({"id": 7} if leaves else {})]
    inputs = [
        {"name": name, "shape": [1], "datatype": kind, "data": [record[name]]}
        for name, kind in (("age", "FP64"), ("id", "INT64"), ("job", "BYTES"))
    ]
    sent = json.loads(read_tensors({"inputs": inputs}, counted).body(released(asked)))["inputs"]
    assert [tensor["name"] for tensor in sent] == (["age", "id", "job"] if leaves else ["age", "job"])


@pytest.mark.slow
def test_audits_and_pages_say_it():
    audit = audit_policy(POLICY)
    assert audit.passed, str(audit)
    assert {check.name for check in audit.record} >= {"pass", "undeclared"}
    page = ew.report.report(POLICY)
    assert "Sent as they are: id, city; a column that the policy does not name" in page.html


def test_a_first_line_that_is_a_record_is_not_shown(tmp_path):
    (tmp_path / "in.csv").write_text("Ada,nurse,Paris\nBob,clerk,Rome\n")
    for policy in (PLAIN, POLICY):
        with pytest.raises(ValueError, match="perhaps its first line is no header") as told:
            ew.perturb_file(policy, tmp_path / "in.csv", tmp_path / "out.csv")
        assert "Ada" not in str(told.value)
        with pytest.raises(ValueError, match="perhaps its first line is no header") as told:
            ew.perturb(policy, pd.DataFrame({"Ada": ["Bob"], "nurse": ["clerk"]}))
        assert "Ada" not in str(told.value)
