"""What stands between a stream or a file and its release: nothing early, nothing overwritten, nothing beside."""

from __future__ import annotations

import gzip
import html
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import epsworth as ew
from epsworth import lines
from epsworth.files import OutputError
from epsworth.policy import Ledger, Pass, Policy, Rule, audit_policy, audit_sampler, perturb_file
from epsworth.policy.files.csv_table import CsvTable
from epsworth.results import Result
from epsworth.tables import read_table

POLICY = Policy((Rule(ew.Feature("age", 0, 100), "pm", Decimal(1), bits=8),), passing=Pass(("note",)))


class Bytes:
    def __init__(self, content=b""):
        self.buffer = io.BytesIO(content)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    POLICY.save("policy.toml")
    (tmp_path / "in.csv").write_text("age,note\n31,a\n")
    return tmp_path


def streamed(monkeypatch, content, kind="csv"):
    monkeypatch.setattr(sys, "stdin", Bytes(content))
    monkeypatch.setattr(sys, "stdout", Bytes())
    return sys.stdout.buffer


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [("csv", b"note,age\n" + b"x,31\n" * 500, b'5" pipe,40\n'), ("jsonl", b'{"age": 31}\n' * 500, b'{"age": 31\n')],
)
def test_nothing_reaches_standard_output_before_the_whole_input_was_checked(kind, good, bad, place, monkeypatch):
    monkeypatch.setattr(lines, "PART", 100)
    sink = streamed(monkeypatch, good + bad)
    with pytest.raises(ValueError, match="row 500"):
        perturb_file(POLICY, "-", "-", kind=kind)
    assert sink.getvalue() == b""
    sink = streamed(monkeypatch, good)
    receipt = perturb_file(POLICY, "-", "-", kind=kind)
    assert receipt.rows == 500
    assert len(sink.getvalue().splitlines()) == 500 + (kind == "csv")


def test_a_full_disk_is_blamed_on_the_output_that_it_holds(place, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data, /):
            raise OSError(28, "No space left on device")

    streamed(monkeypatch, b"age\n1\n")
    sys.stdout.buffer = Full()
    with pytest.raises(OutputError, match="cannot write standard output: No space left on device"):
        perturb_file(POLICY, "-", "-")
    monkeypatch.setattr(CsvTable, "write", lambda *args, **kwargs: Full().write(b""))
    with pytest.raises(OutputError, match=r"cannot write .*out.csv: No space left on device"):
        perturb_file(POLICY, "in.csv", "out.csv")
    assert sorted(os.listdir()) == ["in.csv", "policy.toml"]


PAIRS = {
    "the receipt is the input": ("in.csv", "out.csv", "./in.csv"),
    "the receipt is the output": ("in.csv", "out.csv", "sub/../out.csv"),
    "the receipt is the policy": ("in.csv", "out.csv", "policy.toml"),
    "the receipt is the ledger's database": ("in.csv", "out.csv", "state/ledger.sqlite3"),
    "the receipt is the ledger's log": ("in.csv", "out.csv", "state/ledger.sqlite3-wal"),
    "the receipt is the ledger's key": ("in.csv", "out.csv", "state/people.key"),
    "the output is the input": ("in.csv", "soft.csv", None),
    "the output is the input itself": ("in.csv", "hard.csv", None),
    "the output is the policy": ("in.csv", "policy.csv", None),
    "the output is the ledger's database": ("in.csv", "ledger.csv", None),
}


@pytest.mark.parametrize("message", PAIRS)
@pytest.mark.cases(1)
def test_no_output_takes_the_place_of_another_file(message, place, cli, monkeypatch):
    source, target, receipt = PAIRS[message]
    monkeypatch.setenv("EPSWORTH_STATE", str(place / "state"))
    (place / "ledger.csv").symlink_to("state/ledger.sqlite3")
    (place / "sub").mkdir()
    (place / "in.jsonl").write_text('{"age": 31}\n')
    (place / "soft.csv").symlink_to("in.csv")
    os.link("in.csv", "hard.csv")
    os.link("policy.toml", "policy.csv")
    Ledger()
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    code, _, told = cli("perturb", "policy.toml", source, target, *(("--receipt", receipt) if receipt else ()))
    assert Ledger().runs() == []
    assert (code, told.count("\n")) == (2, 1)
    assert f": {message.removesuffix(' itself')} itself; give another path" in told.replace("--", "")
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


def test_the_library_does_not_overwrite_either(place):
    (place / "ledger.csv").symlink_to("kept/ledger.sqlite3")
    for target in ("ledger.csv", "./in.csv"):
        with pytest.raises(ValueError, match="itself; give another path"):
            perturb_file(POLICY, "in.csv", target, ledger="kept")
    assert Ledger("kept").runs() == []


@pytest.mark.slow
def test_a_file_redirected_to_standard_input_is_not_overwritten(place):
    run = [sys.executable, "-m", "epsworth.cli", "perturb", "policy.toml", "-", "in.csv"]
    run[1:3] = ["-c", "import sys; from epsworth.cli import main; sys.argv[0] = 'epsworth'; main()"]
    with open("in.csv", "rb") as source:
        done = subprocess.run(run, stdin=source, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the output is the input itself" in done.stderr
    assert (place / "in.csv").read_text() == "age,note\n31,a\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.csv", "age,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("in.csv", "age,b\n1,2\n".encode("utf-16-le"), "UTF-16"),
        ("in.csv", b"\x1f\x8b\x08rest", "compressed with gzip"),
        ("in.jsonl", b"PK\x03\x04rest", "a zip archive"),
        ("in.csv", b"PAR1rest", "a Parquet file"),
        ("in.csv", b"age,note\n1,\xff\n", "not UTF-8"),
        ("in.csv", b"age;b\n1;2\n", "separated by semicolons"),
    ],
)
def test_what_is_not_a_table_is_told_by_its_name(name, content, message, place):
    (place / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        perturb_file(POLICY, name, name.replace("in", "out"))


def test_what_cannot_be_read_is_told_by_its_name(place):
    (place / "folder.csv").mkdir()
    (place / "one.csv").symlink_to("two.csv")
    (place / "two.csv").symlink_to("one.csv")
    os.mkfifo("pipe.csv")
    for name, message in {"folder": "it is a folder", "one": "symbolic links", "pipe": "a device or a pipe"}.items():
        with pytest.raises(ValueError, match=f"cannot read the table {name}.csv: .*{message}"):
            perturb_file(POLICY, f"{name}.csv", "out.csv")
    with pytest.raises(OutputError, match="its links lead in a circle"):
        perturb_file(POLICY, "in.csv", "one.csv")


def test_parquet_leaves_no_index_and_no_notes_behind(place):
    frame = pd.DataFrame({"age": [31, 40], "note": [1, 2]})
    frame.attrs["first"] = "my-disease"
    frame.to_parquet("notes.parquet")
    perturb_file(POLICY, "notes.parquet", "out.parquet")
    assert b"disease" not in (place / "out.parquet").read_bytes()
    for ages in ([31, 40], [40, 31, 77]):  # the first index is kept as a range in the file's notes
        pd.DataFrame({"age": ages}).set_index("age", drop=False).to_parquet("index.parquet")
        with pytest.raises(ValueError, match=r"index is named 'age'|does not name '__index_level_0__'"):
            perturb_file(POLICY, "index.parquet", "out2.parquet")
    pl.DataFrame({"age": pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2))}).write_parquet("nested.parquet")
    with pytest.raises(ValueError, match=r"row 0.*, age: the value is missing, or not a number"):
        perturb_file(POLICY, "nested.parquet", "out2.parquet")
    assert not (place / "out2.parquet").exists()


def test_a_release_tells_rows_and_no_values(place, cli):
    for name, line in {"a.csv": 'age,note\n5,x\n87.2601"b,y\n', "a.jsonl": '{"age": 5}\n{"age": "87.2601"}\n'}.items():
        (place / name).write_text(line)
        code, _, told = cli("perturb", "policy.toml", name, name.replace("a.", "b."))
        assert (code, told.count("\n")) == (2, 1)
        assert "row 1" in told
        assert "87" not in told


NAMES = ["x[1].parquet", "x*.parquet", "x?.parquet", "{x,y}.parquet", "~.parquet", "~/a.parquet", "x%31.parquet"]
NAMES += ["http:/host/x.parquet", "s3:/x.parquet", "age=5/x.parquet", "file:/x.parquet"]


@pytest.mark.parametrize(
    "name", [*NAMES, "http:/host/x.parquet", "s3:/x.parquet", "age=5/x.parquet", "file:/x.parquet"]
)
@pytest.mark.cases(1)
def test_a_files_name_is_read_to_the_letter(name, place):
    """Beside it lie the files that a pattern would find: their records must not leave under this one's name."""
    policy = Policy.of("krr:k=101", 200, ew.Domain.of({"age": (0, 100)}))  # keeps values, but with chance e^-200
    for other in ("x1.parquet", "y.parquet"):
        pl.DataFrame({"age": [1.0]}).write_parquet(other)
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    with open(name, "wb") as file:
        pl.DataFrame({"age": [31.0, 32.0]}).write_parquet(file)
    given = name.replace(":/", "://")
    perturb_file(policy, given, f"out-{name[0]}[1]*.parquet")
    with open(f"out-{name[0]}[1]*.parquet", "rb") as file:
        assert pl.read_parquet(file)["age"].to_list() == [31.0, 32.0]
    assert read_table(given)["age"].to_list() == [31.0, 32.0]


@pytest.mark.parametrize("name", ["x[1].csv", "x*.csv", "x[1].csv.gz", "~.csv"])
def test_a_table_of_text_is_read_by_the_letters_of_its_name(name, place):
    for other in ("x1.csv", "x2.csv"):
        (place / other).write_text("age\n1\n")
    content = b"age\n31\n"
    (place / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read_table(name)["age"].to_list() == [31]


def test_a_column_may_have_the_name_that_rows_are_counted_by(place):
    pl.DataFrame({"epsworth: row": [5, 6], "age": [31.0, 32.0]}).write_parquet("in.parquet")
    policy = replace(POLICY, passing=Pass(("epsworth: row",)))
    perturb_file(policy, "in.parquet", "out.parquet")
    assert pl.read_parquet("out.parquet")["epsworth: row"].to_list() == [5, 6]


@pytest.mark.parametrize(
    ("closed", "words", "told"),
    [
        (0, "perturb policy.toml - out.csv", "standard input is closed"),
        (1, "mechanisms", "standard output is closed"),
        (2, "perturb policy.toml none.csv -", ""),
    ],
)
@pytest.mark.slow
def test_a_closed_standard_stream_is_told(closed, words, told, place):
    run = [sys.executable, "-c", "import sys; from epsworth.cli import main; sys.argv[0] = 'epsworth'; main()"]
    done = subprocess.run(
        [*run, *words.split()], capture_output=True, text=True, stdin=subprocess.DEVNULL,
        preexec_fn=lambda: os.close(closed),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == bool(told)
    assert sorted(os.listdir()) == ["in.csv", "policy.toml"]


def test_streams_without_bytes_are_told(place, monkeypatch):
    """Notebooks have such, and some services none at all."""
    for stream, what in ((None, "closed"), (io.StringIO("age\n1\n"), "texts alone")):
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(ValueError, match=f"standard input is .*{what}"):
            perturb_file(POLICY, "-", "out.csv")
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(ValueError, match=f"standard output is .*{what}"):
            perturb_file(POLICY, "in.csv", "-")
    assert sorted(os.listdir()) == ["in.csv", "policy.toml"]


@pytest.mark.slow
def test_results_are_printed_shown_and_saved_alike(place):
    receipt = perturb_file(POLICY, "in.csv", "out.csv")
    audit = audit_policy(POLICY)
    drawn = audit_sampler(lambda x: x + np.random.default_rng(0).laplace(size=x.shape), [0.0, 1.0], 1.0, draws=1000)
    for result in (receipt, audit, drawn, POLICY):
        assert isinstance(result, Result)
        assert html.escape(str(result)) in result._repr_html_()
        assert re.search(r"epsilon (is at least )?\d", str(result))
    for result in (receipt, audit, drawn):
        result.save("result.json")
        assert (place / "result.json").read_text() == json.dumps(result.to_dict(), allow_nan=False) + "\n"
    assert Policy.load("policy.toml").to_dict() == POLICY.to_dict()


@pytest.mark.parametrize("name", ["^a.*$", "^.*$", "*"])
@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["x", "y"])], ids=["text", "categorical", "enum"])
@pytest.mark.cases(1)
def test_a_columns_name_is_read_to_the_letter(name, kind, place):
    """Some functions of engines take such names for patterns: they would release other columns, or none."""
    policy = Policy.of(
        "krr:k=101", 200, ew.Domain.of({name: ["x", "y"], "z": (0, 100)}), per="feature"
    )  # keeps, but for e^-200
    policy = replace(policy, passing=Pass(columns=("abc",), drop=("secret", "another")))
    table = pl.DataFrame({"abc": [1, 2], "secret": [7, 8], name: pl.Series(["x", "y"], dtype=kind), "z": [3, 4]})
    expected = {"abc": [1, 2], name: ["x", "y"], "z": [3.0, 4.0]}
    assert ew.perturb(policy, table).to_dict(as_series=False) == expected
    assert ew.perturb(policy, table.to_pandas()).to_dict("list") == expected
    for write, ending in ((table.write_parquet, "parquet"), (table.write_csv, "csv"), (table.write_ndjson, "jsonl")):
        write(f"in.{ending}")
        perturb_file(policy, f"in.{ending}", f"out.{ending}", person=None)
        assert read_table(f"out.{ending}").to_dict(as_series=False) == expected
