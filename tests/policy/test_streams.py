"""Files and standard streams: what passes through, what is refused, what is left when a run dies."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.parquet import write_table

import epsworth as ew
from epsworth import lines
from epsworth.mechanisms.words import ReplayableWords
from epsworth.policy import Ledger, Pass, Policy, perturb_file
from epsworth.policy.files.file_tables import file_table
from epsworth.policy.tables import Perturbation

EPSWORTH = Path(sys.executable).with_name("epsworth")
POLICY = Policy.of("pm", 2, ew.Domain.of({"age": (0, 100), "job": ["a", "b", "c"]}), passing=["id"])
# at epsilon 200 an input is kept but with probability e^-200: what comes out must be what went in, to the byte
KEEPING = replace(
    Policy.of("krr:k=101", 200, ew.Domain.of({"age": (0, 100), "job": ["a", 'b,"', "ü"]}), per="feature"),
    passing=Pass(("note", "other", "x", "n", "é\u2028"), text=("note", "other")),
)

fields = st.text(alphabet=st.sampled_from('ab ,"ü|1.'), max_size=6)
jobs = st.sampled_from(["a", 'b,"', "ü"])
rows = st.lists(st.tuples(fields, st.integers(0, 100), fields, jobs), min_size=1, max_size=8)


def released(kind, content, policy=KEEPING, block=1 << 20):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(lines, "PART", block)
        source, sink = Path(folder, "source"), Path(folder, "sink")
        source.write_bytes(content)
        table = file_table(kind, Perturbation(policy), source)
        table.write(table.seen(), lambda number, digest: None, sink)
        return sink.read_bytes()


@given(rows, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from([1 << 20, 7]))
@pytest.mark.slow
def test_csv_passes_through_text_for_text(records, ending, last_end, block):
    """Byte for byte where fields stand in quotes only if they must; quotes that need not be there go."""
    contents = []
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator=ending, quoting=quoting)
        writer.writerow(["note", "age", "other", "job"])
        writer.writerows([note, age, other, job] for note, age, other, job in records)
        contents.append(out.getvalue() if last_end else out.getvalue().removesuffix(ending))
    assert released("csv", contents[0].encode(), block=block) == contents[0].encode()
    body = contents[0].partition(ending)[2]
    found = released("csv", contents[1].encode(), block=block).decode()
    assert found.partition(ending) == (contents[1].partition(ending)[0], ending, body)


numbers = st.floats(allow_nan=False, allow_infinity=False)
members = st.none() | st.booleans() | numbers | st.text(max_size=4)  # what nests does not pass


@given(st.lists(st.tuples(members, st.integers(0, 100), jobs, st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_json_lines_are_written_anew(records):
    lines = []
    for other, age, job, plain, spaced in records:
        record = {"x": other, "job": job, "n": None, "age": age, "é\u2028": "\u2028"}
        separators = (" ,\t", " : ") if spaced else (",", ":")
        lines.append(json.dumps(record, ensure_ascii=plain, separators=separators))
        lines += [""] if spaced else []
    content = "\n".join(lines).encode()
    for block in (1 << 20, 5):
        found = released("jsonl", content, block=block).decode()
        written = [json.loads(line) for line in content.decode().split("\n") if line]
        turned = [{key: one[key] for key in ("x", "n", "é\u2028", "age", "job")} for one in written]
        assert found == "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in turned)


def test_rows_are_perturbed_and_stay_in_order():
    content = "id,age,job\n" + "".join(f"{i},50,b\n" for i in range(5000))
    out = released("csv", content.encode(), POLICY, block=999).decode().splitlines()
    found = [line.split(",") for line in out[1:]]
    assert [row[0] for row in found] == [str(i) for i in range(5000)]
    assert len({row[1] for row in found}) > 1000
    assert {row[2] for row in found} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the input is empty"),
        ("age,other\n1,2\n", "lacks the column 'job', which the policy perturbs; it has age, other"),
        ("age,job,age\n1,a,2\n", "the header names the column 'age' twice"),
        ("age,job\n1,a\n2\n", "row 1.* has 1 field, the header has 2"),
        ("age,job\n1,a\n2,a,b\n", "row 1.* has 3 fields, the header has 2"),
        ('age,job\n1,a\n2,"a\n', "row 1.*: a quote is opened and never closed"),
        ("age,job\n1,a\nold,b\n", "row 1.*, age: the value is missing, or not a number"),
        ("age,job\n1,a\n,b\n", "row 1.*, age: the value is missing"),
        ("age,job\n1,a\n2,q\n", "row 1.*, job: the value is not a declared category"),
    ],
)
def test_csv_that_is_refused(content, message, tmp_path):
    refused(tmp_path, "in.csv", content, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"age": 1, "job": "a"}\n[1]\n', "row 1.*: the line is not one JSON object"),
        ('{"age": 1, "job": "a"} {}\n', "row 0.*: the line is not one JSON object"),
        ('{"age": 1, "job": "a",}\n', "row 0.*: the line is not one JSON object"),
        ('{"age": 1, "job": \n', "row 0.*: the line is not one JSON object"),
        ('{"age": 1}\n', "row 0.* lacks the member 'job'"),
        ('{"age": 1, "job": "a", "age": 2}\n', "row 0.* holds twice the member 'age'"),
        ('{"age": "1", "job": "a"}\n', "row 0.*, age: the value is missing, or not a number"),
        ('{"age": null, "job": "a"}\n', "row 0.*, age: the value is missing"),
        ('{"age": 1, "job": ["a"]}\n', "row 0.*, job: the value is not a declared category"),
        ('{"age": 1, "job": "a", "s": "\xff"}\n', "not UTF-8"),
    ],
)
def test_json_that_is_refused(content, message, tmp_path):
    refused(tmp_path, "in.jsonl", content, message)


def refused(folder, name, content, message):
    (folder / name).write_bytes(content.encode("latin-1"))
    out = folder / f"out{Path(name).suffix}"
    out.write_text("old")
    with pytest.raises(ValueError, match=message) as error:
        perturb_file(POLICY, folder / name, out)
    assert "\n" not in str(error.value)
    assert out.read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == sorted([name, out.name])  # no ledger, no leftovers


@pytest.mark.slow
def test_parquet_keeps_everything_else(tmp_path):
    n = 300_000
    table = pl.DataFrame(
        {
            "id": pl.arange(n, eager=True),
            "age": pl.Series([30, 40, 50] * (n // 3), dtype=pl.Int32),
            "when": pl.Series([1.5, None, 2.5] * (n // 3)).cast(pl.Datetime),
            "job": pl.Series(["a", "b", "c"] * (n // 3), dtype=pl.Categorical),
        }
    )
    table.write_parquet(tmp_path / "in.parquet", row_group_size=70_001)
    shares = []
    policy = replace(POLICY, passing=Pass(("id", "when")))
    receipt = perturb_file(policy, tmp_path / "in.parquet", tmp_path / "out.parquet", progress=shares.append)
    released = pl.read_parquet(tmp_path / "out.parquet")
    assert released.columns == table.columns
    assert released.drop("age", "job").equals(table.drop("age", "job"))
    assert released["age"].is_between(0, 100).all()
    assert released["age"].n_unique() > 10_000
    assert receipt.rows == n
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    gap = table.with_columns(age=pl.when(pl.col("id") == 2).then(None).otherwise("age"))
    gap.write_parquet(tmp_path / "gap.parquet")
    with pytest.raises(ValueError, match=r"row 2.*, age: the value is missing"):
        perturb_file(policy, tmp_path / "gap.parquet", tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").equals(released)


def test_the_same_records_are_refused_unless_told(tmp_path):
    (tmp_path / "in.csv").write_text("age,job\n1,a\n")
    (tmp_path / "copy.csv").write_text("age,job\n1,a\n")
    first = perturb_file(POLICY, tmp_path / "in.csv", tmp_path / "out.csv")
    assert (first.times_before, first.epsilon_so_far) == (0, pytest.approx(2))
    released = (tmp_path / "out.csv").read_text()
    for name in ("in.csv", "copy.csv"):  # the records count, not the name of their file
        with pytest.raises(ValueError, match=r"left 1 time under this policy .*again=True"):
            perturb_file(POLICY, tmp_path / name, tmp_path / "out2.csv")
        assert perturb_file(POLICY, tmp_path / name, tmp_path / "out.csv") == first  # which is there
    assert (tmp_path / "out.csv").read_text() == released
    second = perturb_file(POLICY, tmp_path / "in.csv", tmp_path / "out2.csv", again=True)
    assert (second.times_before, second.epsilon_so_far) == (1, pytest.approx(4))
    other = Policy.of("sw", 1, ew.Domain.of({"age": (0, 100)}), passing=["job"])
    assert perturb_file(other, tmp_path / "in.csv", tmp_path / "out3.csv").epsilon_so_far == pytest.approx(5)
    assert len(Ledger().runs()) == 3


def test_another_account_cannot_read_the_ledger(tmp_path, monkeypatch):
    """The same records have other digests under another key, and nobody else may read either."""
    (tmp_path / "in.csv").write_text("id,age,job\n7,1,a\n")
    digests = set()
    for account in ("one", "two"):
        monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / account))
        perturb_file(POLICY, tmp_path / "in.csv", tmp_path / f"{account}.csv", person="id")
        for path in (tmp_path / account).iterdir():
            assert path.stat().st_mode & 0o077 == 0, path.name
        with closing(sqlite3.connect(Ledger().path)) as database:
            digests |= set(database.execute("SELECT digest FROM runs"))
    assert len(digests) == 2


def test_receipts_hold_public_facts_only(tmp_path):
    (tmp_path / "in.csv").write_text("id,age,job\nann-of-troy,12.34567,a\nbob-of-troy,98765.4,a\n")
    receipt = perturb_file(POLICY, tmp_path / "in.csv", tmp_path / "out.csv", person="id")
    kept = b"".join(path.read_bytes() for path in Ledger().path.parent.iterdir())
    told = json.dumps(receipt.to_dict()) + str(receipt) + kept.decode("latin-1")
    for secret in (
        "12.34567",
        "98765",
        "of-troy",
        *(tmp_path / "out.csv").read_text().replace("\n", ",").split(",")[3:],
    ):
        assert not secret or len(secret) < 2 or secret not in told
    assert receipt.private
    marked = perturb_file(
        POLICY, tmp_path / "in.csv", tmp_path / "test.csv", person="id", again=True, words=ReplayableWords(1)
    )  # fmt: skip
    assert not marked.private
    assert str(marked).startswith("NOT PRIVATE")


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ("in.csv", "out.parquet", {}, "must be of one kind, got csv and parquet"),
        ("in.csv", "in.csv", {}, "is the input itself"),
        ("none.csv", "out.csv", {}, "there is no such file"),
        ("none/", "out/", {}, "cannot read the table none: there is no such file"),
        ("in.csv", "none/out.csv", {}, "the folder .* does not exist"),
        ("in.txt", "out.csv", {}, r"in.txt has an unknown ending; give .csv, .jsonl, .ndjson, .parquet"),
        ("-", "out.parquet", {}, "parquet cannot be streamed"),
        ("-", "-", {"kind": "xml"}, "the format must be csv, jsonl or parquet, got 'xml'"),
        ("bad.parquet", "out.parquet", {}, "cannot read the table"),
    ],
)
def test_files_that_are_refused(source, target, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("age,job\n1,a\n")
    Path("bad.parquet").write_text("no")
    Path("in.txt").write_text("age,job\n1,a\n")
    with pytest.raises(ValueError, match=message):
        perturb_file(POLICY, source, target, **options)


@pytest.mark.slow
def test_the_command_streams(tmp_path):
    POLICY.save(tmp_path / "policy.toml")
    content = "id,age,job\n" + "".join(f"{i},50,b\n" for i in range(1000))
    for expected in (0, 2):  # the second run of the same stream is refused: nobody kept what it printed
        run = subprocess.run(
            [EPSWORTH, "perturb", "policy.toml", "-", "-"], cwd=tmp_path, input=content, capture_output=True, text=True
        )
        assert run.returncode == expected
        assert len(run.stdout.splitlines()) == (1001 if expected == 0 else 0)
    assert "--again" in run.stderr
    words = [EPSWORTH, "perturb", "policy.toml", "-", "out.csv", "--receipt", "receipt.json", "--again", "--id", "id"]
    run = subprocess.run(words, cwd=tmp_path, input=content, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert (receipt["rows"], receipt["people"]) == (1000, 1000)


def _opened_in(folder: Path, process: int) -> bool:
    """Tell whether a process has a file open that lies, or lay, in a folder."""
    opened = Path(f"/proc/{process}/fd")
    try:
        return any(os.readlink(link).startswith(str(folder)) for link in opened.iterdir())
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_reader_that_leaves_leaves_no_file_behind(tmp_path):
    POLICY.save(tmp_path / "policy.toml")
    spool = tmp_path / "spool"
    spool.mkdir()
    content = "id,age,job\n" + "".join(f"{i},50,b\n" for i in range(100_000))
    run = subprocess.run(
        f"{EPSWORTH} perturb policy.toml - - --id id | head -1", shell=True, cwd=tmp_path, input=content, text=True,
        capture_output=True, env=os.environ | {"TMPDIR": str(spool)},
    )  # fmt: skip
    assert run.stdout == "id,age,job\n"
    assert run.stderr.startswith("epsworth: standard output was closed before everything was written")
    assert run.stderr.count("\n") == 1
    assert not list(spool.iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not open files by their number")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path):
    POLICY.save(tmp_path / "policy.toml")
    spool = tmp_path / "spool"
    spool.mkdir()
    process = subprocess.Popen(
        [EPSWORTH, "perturb", "policy.toml", "-", "out.csv"], cwd=tmp_path, stdin=subprocess.PIPE,
        stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(spool)},
    )  # fmt: skip
    assert process.stdin
    process.stdin.write(b"age,job\n1,a\n")
    process.stdin.flush()
    until = time.monotonic() + 60
    while not _opened_in(spool, process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not list(spool.iterdir())  # without a name: nothing is left, however the process ends
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"interrupted" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.toml", "spool"]
    assert not list(spool.iterdir())


@pytest.mark.parametrize(
    "fault",
    [
        lambda plan: plan.collect().head(2),  # a row is lost
        lambda plan: plan.collect().cast({"age": pl.Float32}),
        lambda plan: (plan.collect(), plan.collect())[1],  # every row is drawn for twice
    ],
    ids=["rows", "types", "draws"],
)
def test_an_engine_that_draws_or_writes_otherwise_releases_nothing(fault, tmp_path, monkeypatch):
    pl.DataFrame({"age": [1.0, 2.0, 3.0], "job": ["a", "b", "c"]}).write_parquet(tmp_path / "in.parquet")
    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", lambda plan, path: write_table(fault(plan).to_arrow(), path))
    with pytest.raises(ValueError, match="the engine did not write the rows that were drawn"):
        perturb_file(POLICY, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]
