"""Files read twice: what is refused, what is drawn, what passes; no raw value is ever left."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as pyarrow_csv
from pyarrow import parquet

import epsworth as ew
from epsworth import csv_grammar, csv_text, lines
from epsworth.mechanisms.words import ReplayableWords
from epsworth.policy import Pass, Policy, Rule
from epsworth.policy.files import parquet_table
from epsworth.policy.files.file_tables import file_table
from epsworth.policy.ledger.ids import hashes
from epsworth.policy.tables import Perturbation
from epsworth.values import NUMBER

BESIDE = ("c0", "c1", "c2")
AGE = Policy(
    (Rule(ew.Feature("age", 0, 100_000), "pm", Decimal(1), bits=8),), passing=Pass(("note", "id", *BESIDE), text=BESIDE)
)
POLICY = Policy.of("pm", 2, ew.Domain.of({"age": (0, 100), "job": ["a", 'b,"', "ü"]}), passing=["id", "note"])
# at epsilon 200 an input is kept but with probability e^-200: what comes out must be what went in
KEEPING = replace(
    Policy.of("krr:k=101", 200, ew.Domain.of({"age": (0, 100), "job": ["a", 'b,"', "ü"]}), per="feature"),
    passing=Pass(("a", "b", "id", "note"), text=("a", "b", "note")),
)


def replayed(number, digest):
    return ReplayableWords(number)


@pytest.fixture
def release(tmp_path):
    """Return a function that releases a content; the number of rows is checked."""

    def run(content, kind="csv", policy=POLICY, words=lambda number, digest: None, jobs=1, person=None, count=None):
        source, sink = tmp_path / "source", tmp_path / "sink"
        source.write_bytes(content if isinstance(content, bytes) else content.encode())
        table = file_table(kind, Perturbation(policy), source, person)
        seen = table.seen(count)
        assert table.write(seen, words, sink, jobs=jobs) == seen.rows
        return sink.read_bytes()

    return run


# ---- no raw value is left

SECRETS = [str(70_001 + 7 * i) for i in range(12)]
STRAYS = ['"', ",", "\r", "\n", '""', '","', '",', "\r\n", "\0", "\xa0", "\ufeff", "'", "\\", '\\"', ";", "\v", "\x85"]


def hostile(seed):
    """Return a clean table of the ages, into which strays are thrown, and the name of its layout."""
    chance = random.Random(seed)
    row = chance.choice(["x,{},y", '{},"p,q",z', "{}", "{},z", 'p,"q ""r""",{}'])
    end = chance.choice(["\n", "\r\n"])
    fields = next(csv.reader([row]))
    header = ",".join("age" if field == "{}" else f"c{i}" for i, field in enumerate(fields))
    text = header + end + "".join(row.replace("{}", secret) + end for secret in SECRETS)
    for _ in range(chance.randrange(5)):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(STRAYS) + text[place:]
    return text


@pytest.mark.slow
def test_hostile_files_leave_no_raw_value_and_accepted_ones_read_alike(release):
    """500 files: each is refused, or all readers find the same rows in its release, and no age of its input."""
    accepted, told = 0, []
    for seed in range(500):
        text = hostile(seed)
        try:
            out = release(text, policy=AGE)
        except ValueError as refused:
            told.append(str(refused))
            continue
        accepted += 1
        assert not [secret for secret in SECRETS if secret in out.decode()], text
        records = list(csv.reader(io.StringIO(out.decode("utf-8-sig"), newline=""), strict=True))
        by_pandas = pd.read_csv(io.BytesIO(out), dtype=str, keep_default_na=False, skip_blank_lines=False)
        by_polars = pl.read_csv(out, infer_schema=False).fill_null("")
        assert by_pandas.to_numpy().tolist() == [list(row) for row in by_polars.rows()] == records[1:]
        assert list(by_pandas.columns) == by_polars.columns == records[0]
    assert not [text for text in told if any(secret in text for secret in SECRETS)]
    assert accepted > 100
    assert len(told) > 100


@given(st.lists(st.tuples(st.integers(0, 10**9), st.sampled_from(STRAYS)), min_size=1, max_size=5),
       st.sampled_from(["x,{},y", '{},"p,q",{}y', "{}", "{},z"]), st.sampled_from(["\n", "\r\n"]))  # fmt: skip
@pytest.mark.slow
def test_no_stray_byte_lets_a_raw_value_pass(strays, row, end):
    fields = next(csv.reader([row]))
    header = ",".join("age" if field == "{}" else f"c{i}" for i, field in enumerate(fields))
    body = "".join(row.replace("{}", secret, 1).replace("{}", "w") + end for secret in SECRETS)
    for place, stray in strays:
        place %= len(body) + 1
        body = body[:place] + stray + body[place:]
    records = _records(header + end, AGE)
    try:
        found = records.release(records.read(body.encode(), 0), None).decode()
    except ValueError:
        return
    assert not [secret for secret in SECRETS if secret in found]


def _records(header, policy, person=None):
    from epsworth.policy.files.csv_table import CsvRecords

    return CsvRecords(Perturbation(policy), csv_grammar.header(header.encode()), person)


# ---- two engines, many processes, one result

fields = st.text(alphabet=st.sampled_from('ab ,"ü|1.\ufeff'), max_size=6)
numbers = st.one_of(
    st.integers(-5, 120).map(str), st.floats(0, 100).map(repr),
    st.sampled_from([" 7", "7 ", "+7", "7.", ".5", "1e1", "1E+01", "\t3", "1_0", "nan", "inf", "NA", "", "x", "0x1",
                     "٣", "1e999", "-0", "00012", "1e", "infinity", "7,", "1d", "1 0", "--1", "NaN"]),
)  # fmt: skip
rows = st.lists(st.tuples(fields, numbers, fields, st.sampled_from(["a", 'b,"', "ü"])), min_size=1, max_size=8)


@given(rows, st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
@pytest.mark.slow
def test_other_readers_find_what_was_written(records, end, quoting):
    """Python's csv and pyarrow, in every row: the fields that pass, and a public value in place of the others."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end, quoting=quoting).writerows(records)
    policy = replace(POLICY, passing=Pass(("note", "other"), text=("note", "other")))
    found = _records("note,age,other,job" + end, policy, None)
    try:
        part = found.read(out.getvalue().encode(), 3)
    except ValueError:
        return
    released = found.release(part, ReplayableWords(1))
    ages, jobs = (set(map(str, found.perturbation.ruled[name].values.tolist())) for name in ("age", "job"))
    names = ["note", "age", "other", "job"]
    table = pyarrow_csv.read_csv(
        pa.BufferReader(released),
        read_options=pyarrow_csv.ReadOptions(column_names=names),
        parse_options=pyarrow_csv.ParseOptions(ignore_empty_lines=False),
        convert_options=pyarrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    for read in (
        [tuple(row) for row in csv.reader(io.StringIO(released.decode(), newline=""), strict=True)],
        list(zip(*(column.to_pylist() for column in table.columns), strict=True)),
    ):
        assert [(note, other) for note, _, other, _ in read] == [(note, other) for note, _, other, _ in records]
        assert {age for _, age, _, _ in read} <= ages
        assert {job for _, _, _, job in read} <= jobs


@given(st.text(alphabet="0123456789+-.eE _\t٣,naifx", max_size=8))
def test_numbers_are_those_of_the_grammar(text):
    expected = float(text) if NUMBER.fullmatch(text) else None
    if expected in (np.inf, -np.inf):
        expected = None
    found = csv_text.Texts(pl.Series([text])).numbers()
    assert (None if found is None else found.tolist()) == (None if expected is None else [expected])


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.slow
def test_processes_side_by_side_write_what_one_does(kind, release, monkeypatch):
    monkeypatch.setattr(lines, "PART", 2000)
    if kind == "csv":
        content = "id,age,job\n" + "".join(f'{i},{i % 100},"ü"\n' for i in range(1000))
    else:
        content = "".join(json.dumps({"id": i, "age": i % 100, "job": "a"}) + "\n" for i in range(1000))
    one = release(content, kind, words=replayed)
    assert release(content, kind, words=replayed, jobs=2) == one
    assert len(one.splitlines()) == 1000 + (kind == "csv")


def test_parts_are_numbered_and_their_digests_are_keyed(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART", 20)
    source, asked = tmp_path / "source", []
    source.write_text("age,job\n" + "1,a\n" * 20)
    table = file_table("csv", Perturbation(POLICY), source)
    seen = table.seen()
    table.write(seen, lambda number, digest: asked.append((number, digest)), tmp_path / "sink")
    assert asked == list(enumerate(seen.parts))
    assert seen.columns == ("age", "job")
    again = file_table("csv", Perturbation(POLICY), source).seen()
    assert not set(again.parts) & set(seen.parts)  # a key of its own, unless one is given
    given = [file_table("csv", Perturbation(POLICY), source, digest=lambda part: part[:3]).seen() for _ in range(2)]
    assert given[0] == given[1]
    assert (given[0].header, given[0].parts[0], given[0].rows) == (b"age", b"1,a", 20)


CHANGES = {
    "a value": lambda text: text.replace("57", "58"),
    "the header": lambda text: text.replace("id", "note"),
    "a row more": lambda text: text + text.splitlines()[-1] + "\n",
    "a row less": lambda text: text[: text.rfind("\n", 0, -1) + 1],
    "no rows": lambda text: text.splitlines(keepends=True)[0],
    "parts more": lambda text: text + text[text.find("\n") + 1 :],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.cases(1)
def test_a_file_that_changes_between_its_readings_is_not_drawn(kind, change, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART", 200)
    monkeypatch.setattr("epsworth.policy.files.parquet_table.ROWS", 20)
    text = "id,age,job\n" + "".join(f"{i},{i % 100},a\n" for i in range(100))
    source, drawn = tmp_path / "source", []

    def write(text):
        frame = pl.read_csv(text.encode())
        if kind == "csv":
            source.write_text(text)
        elif kind == "jsonl":
            frame.write_ndjson(source)
        else:
            frame.write_parquet(source)

    write(text)
    table = file_table(kind, Perturbation(POLICY), source)
    seen = table.seen()
    write(CHANGES[change](text))
    if kind == "jsonl" and change == "the header":
        write(CHANGES["a value"](text))

    def words(number, digest):
        drawn.append(digest)
        return ReplayableWords(number)

    with pytest.raises(ValueError, match=r"changed while it was read; nothing was written"):
        table.write(seen, words, tmp_path / "sink")
    assert set(drawn) <= set(seen.parts)


# ---- what passes, what is refused


def test_fields_that_pass_keep_their_texts_and_without_quotes_their_bytes(release, monkeypatch):
    content = "\ufeffa,age,b,job\r\n x ,1,,a\r\n,2, \u2028,ü"
    assert release(content, policy=KEEPING) == content.encode()
    monkeypatch.setattr(lines, "PART", 8)
    assert release(content, policy=KEEPING) == content.encode()
    quoted = 'a,age,b,job\n"q","1","","b,"""\n"x, ""y""",2,\ufeff,a\n'
    assert release(quoted, policy=KEEPING) == b'a,age,b,job\nq,1,,"b,"""\n"x, ""y""",2,\xef\xbb\xbf,a\n'


def test_a_mark_at_the_start_of_a_part_stays(release, monkeypatch):
    monkeypatch.setattr(lines, "PART", 10)
    content = "a,age,job\n" + "\ufeffx,1,a\n" * 9
    assert release(content, policy=KEEPING) == content.encode()


def test_long_fields_are_read(release):
    content = f'age,note,job\n1,"{"x, " * 100_000}",a\n'
    assert release(content, policy=KEEPING) == content.encode()


@pytest.mark.parametrize("empty", ["", " ", "\t"])
def test_rows_of_an_empty_category_are_rows_to_every_reader(empty, release):
    policy = Policy.of("krr", 1, ew.Domain.of({"smoker": [empty, "yes"]}))
    out = release(f'smoker\n"{empty}"\n' + "yes\n" * 199, policy=policy)
    readers = (
        [row[0] for row in csv.reader(io.StringIO(out.decode()))][1:],
        pd.read_csv(io.BytesIO(out), keep_default_na=False)["smoker"].tolist(),
        pl.read_csv(io.BytesIO(out)).fill_null("")["smoker"].to_list(),
    )
    assert all(len(found) == 200 and set(found) == {empty, "yes"} for found in readers)


def test_a_category_of_several_lines_does_not_leave_as_csv(release):
    policy = Policy((Rule(ew.Feature("job", categories=("p", "q\nr")), "krr", Decimal(1)),), passing=Pass(("a",)))
    with pytest.raises(ValueError, match="job: a category holds a line break"):
        release("a,job\nx,p\n", policy=policy)


@pytest.mark.parametrize("text", ["inf", "-Infinity", "1_0", "0x1", "٣", "1e", "x", "1 0"])
def test_what_is_no_number_is_refused_by_its_row(text, release):
    with pytest.raises(ValueError, match=r"row 1.*, age: the value is missing, or not a number, and the policy"):
        release(f"age,job\n1,a\n{text},a\n")


@pytest.mark.parametrize("text", ["", "NA", "N/A", "NaN", "nan", "null"])
def test_declared_missing_words_stay_missing(text, release):
    with pytest.raises(ValueError, match=r"row 1.*, age: the value is missing"):
        release(f"age,job\n1,a\n{text},a\n")
    policy = Policy((Rule(ew.Feature("age", 0, 100, missing=7), "krr:k=101", Decimal(200)),), passing=Pass(("job",)))
    assert release(f"age,job\n1,a\n{text},a\n", policy=policy) == b"age,job\n1,a\n7,a\n"


def test_categories_are_read_as_numbers_and_truths_too(release):
    domain = ew.Domain.of({"n": {"categories": [1, 2]}, "t": [True, False]})
    given = Policy.of("krr", 200, domain, per="feature")
    assert release("n,t\n1.0,True\n 2 ,false\n1e0,true\n", policy=given) == b"n,t\n1,true\n2,false\n1,true\n"


@pytest.mark.parametrize("unsampled", ["missing", "scaled"])
def test_sampled_features_are_written_as_frames_are(unsampled, release):
    from epsworth.policy.rules import Sampling

    rules = tuple(Rule(ew.Feature(name, 0, 10), "krr:k=11", Decimal(200)) for name in ("a", "b"))
    out = release("a,b\n" + "3,4\n" * 50, policy=Policy(rules, Sampling(1, unsampled)))
    found = {tuple(line.split(",")) for line in out.decode().splitlines()[1:]}
    assert found == ({("3.0", ""), ("", "4.0")} if unsampled == "missing" else {("1.0", "5.0"), ("5.0", "3.0")})


def test_what_an_engine_says_of_a_fault_is_not_repeated(release, monkeypatch):
    def fails(*args, **kwargs):
        raise pl.exceptions.ComputeError("could not parse 12345")

    monkeypatch.setattr(pl, "read_csv", fails)
    with pytest.raises(ValueError, match="polars does not find the records") as told:
        release("age,job\n1,a\n")
    assert "12345" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


# ---- whose a row is


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("person", ["id", "age"])
def test_units_are_counted_part_by_part(kind, person, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART", 30)
    monkeypatch.setattr("epsworth.policy.files.parquet_table.ROWS", 3)
    frame = pl.DataFrame({"id": [5, -7, 2**62] * 5, "age": [3, 4, 5] * 5, "job": ["a"] * 15})
    source, counted = tmp_path / "source", []
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](source)
    file_table(kind, Perturbation(POLICY), source, person).seen(counted.append)
    assert len(counted) > 2
    assert all(np.asarray(ids).dtype == np.int64 for ids in counted)
    assert np.concatenate(counted).tolist() == frame[person].to_list()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_units_may_be_texts(kind, tmp_path):
    frame = pl.DataFrame({"id": ["7", "x, y", "007"], "age": [3, 4, 5], "job": ["a"] * 3})
    source, counted = tmp_path / "source", []
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](source)
    policy = replace(POLICY, passing=Pass(("id",), text=("id",)))
    file_table(kind, Perturbation(policy), source, "id").seen(counted.append)
    assert counted == [["7", "x, y", "007"]]


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("csv", "id,age,job\n1,1,a\n,1,a\n", "row 1.*, id: the id is empty"),
        ("csv", "id,age,job\nx,1,a\nNA,1,a\n", "row 1.*, id: the id is missing"),
        ("csv", "id,age,job\nx,1,a\n 7,1,a\n", "row 1.*, id: the id is padded by blanks"),
        ("csv", "age,job\n1,a\n", "lacks the column 'id', which says whose a row is"),
        ("jsonl", '{"id": 1, "age": 1, "job": "a"}\n{"age": 1, "job": "a"}', "row 1.* lacks the member 'id'"),
        ("jsonl", '{"id": 1, "age": 1, "job": "a"}\n{"id": null, "age": 1, "job": "a"}', "row 1.*, id: .* missing"),
        ("jsonl", '{"id": 1.0, "age": 1, "job": "a"}', "row 0.*, id: the id is neither a whole number nor a text"),
        ("jsonl", '{"id": true, "age": 1, "job": "a"}', "row 0.*, id: the id is neither"),
        ("jsonl", '{"id": [1], "age": 1, "job": "a"}', "row 0.*, id: the id is neither"),
        ("jsonl", '{"id": NaN, "age": 1, "job": "a"}', "row 0.*, id: the id is neither"),
        ("parquet", {"id": [1, None], "age": [1, 2], "job": ["a", "a"]}, "row 1.*, id: the id is missing"),
        ("parquet", {"id": [1.0], "age": [1], "job": ["a"]}, "id: the id is neither a whole number nor a text"),
    ],
)  # fmt: skip
def test_units_that_are_refused(kind, content, message, release):
    if kind == "parquet":
        held = io.BytesIO()
        pl.DataFrame(content).write_parquet(held)
        content = held.getvalue()
    with pytest.raises(ValueError, match=message):
        release(
            content,
            kind,
            policy=replace(POLICY, passing=Pass((), ("id",))),
            person="id",
            count=lambda ids: hashes(ids, bytes(32)),
        )


# ---- columns that are dropped, or must not be there


def told_about(*args):
    perturbed = Policy.of("krr:k=101", 200, ew.Domain.of({"age": (0, 100)}))
    return replace(perturbed, passing=Pass(*args))


def test_columns_of_csv_are_dropped_and_passed_as_told(release):
    policy = told_about(("id", "note"), ("name",), ("note",))
    content = 'name,age,id,"note"\n"secret, s",1.0,7,"x, y"\n,2,,z\n'
    assert release(content, policy=policy) == b'age,id,"note"\n1,7,"x, y"\n2,,z\n'
    assert release("name,age\nx,3\ny,4\n", policy=policy) == b"age\n3\n4\n"
    with pytest.raises(ValueError, match="does not name 'more'"):
        release("age,more\n1,2\n", policy=policy)


def test_a_quote_that_takes_in_a_neighbour_is_refused_in_columns_that_are_no_texts(release):
    policy = told_about(("name", "city", "zip"), ())
    for bad in ('"bob,37",,90210,x', 'bob,1,"a ""b""",x'):
        with pytest.raises(ValueError, match=r"row 1.*, (name|city): the field holds a comma or a quote") as told:
            release(f"name,age,city,zip\nann,3,c,d\n{bad}\n", policy=policy)
        assert "37" not in str(told.value)


def test_members_of_json_are_dropped_and_passed_as_told(release):
    policy = told_about(("id",), ("name",))
    content = '{"name": "s", "age": 1, "id" : 1.50}\n\n{"id":"x\\u00e9","age":2}\n'
    assert release(content, "jsonl", policy) == '{"id": 1.5, "age": 1}\n{"id": "xé", "age": 2}\n'.encode()
    with pytest.raises(ValueError, match="does not name 'more'"):
        release('{"age": 1, "more": 2}\n', "jsonl", policy)


def test_columns_of_parquet_are_dropped(release):
    policy, held = told_about(("id",), ("name",)), io.BytesIO()
    pl.DataFrame({"name": ["s"], "age": [3], "id": [7]}).write_parquet(held)
    out = release(held.getvalue(), "parquet", policy)
    assert pl.read_parquet(out).to_dict(as_series=False) == {"age": [3.0], "id": [7]}
    assert b"name" not in out


# ---- batches


def test_batches_are_encoded_by_their_values():
    words = ["a", None, "b", "a"]
    kinds = [pl.String, pl.Categorical, pl.Enum(["b", "a"]), pl.Enum(["x", "a", "b"])]
    found = {parquet_table.encoded(pl.DataFrame({"x": pl.Series(words).cast(kind)})) for kind in kinds}
    assert len(found) == 1
    values = [[1, 2], [1, None], [2, 1], [0, None], [1.0, 2.0], [True, False], ["12", ""], ["1", "2"], ["", "12"],
              ["1", None], [b"1", b"2"], [None, None], [[1], [2]], [[1, 2], []], [{"a": 1}, {"a": 2}]]  # fmt: skip
    told = {
        (parquet_table.told_types(f.schema), parquet_table.encoded(f)) for f in (pl.DataFrame({"x": v}) for v in values)
    }
    assert len(told) == len(values)


@pytest.mark.slow
def test_parquet_is_the_same_function_of_words_whatever_its_groups(release, monkeypatch):
    monkeypatch.setattr("epsworth.policy.files.parquet_table.ROWS", 100)
    frame = pl.DataFrame({"age": np.arange(1000) % 100, "job": ["a", "ü"] * 500, "note": range(1000)})
    outs = []
    for size in (70, 1000):
        held = io.BytesIO()
        frame.write_parquet(held, row_group_size=size)
        outs.append(pl.read_parquet(release(held.getvalue(), "parquet", words=replayed)))
    assert outs[0].equals(outs[1])
    assert outs[0]["note"].to_list() == frame["note"].to_list()
    assert outs[0]["age"].n_unique() > 500


@pytest.mark.parametrize("rows", [1, 50, 1000])
def test_polars_and_pyarrow_read_the_same_release(release, rows):
    held = io.BytesIO()
    kinds = {"age": pl.Series(range(rows)) % 100, "job": pl.Series((["a", "ü"] * rows)[:rows], dtype=pl.Categorical)}
    passing = {"id": list(range(rows)), "note": [None if i % 3 else i / 7 for i in range(rows)]}
    pl.DataFrame(kinds | passing).write_parquet(held)
    out = release(held.getvalue(), "parquet", words=replayed)
    by_polars, by_arrow = pl.read_parquet(out), pl.from_arrow(parquet.read_table(io.BytesIO(out)))
    assert by_polars.with_columns(pl.col("job").cast(pl.String)).equals(by_arrow.with_columns(pl.col("job").cast(str)))
    assert by_arrow["note"].to_list() == passing["note"]
