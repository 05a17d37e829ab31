"""Outputs are whole or absent."""

from __future__ import annotations

import errno
import gzip
import os
import threading
from pathlib import Path

import pytest

import epsworth as ew
from epsworth.files import (
    RESULT_BYTES,
    OutputError,
    check_distinct,
    check_readable,
    check_writable,
    reading,
    replacing,
    write_text,
)
from epsworth.policy import Policy
from epsworth.policy.client_files import write_client
from epsworth.policy.files.outputs import appear, hidden
from epsworth.tables import read_table


def test_text_is_replaced_whole(tmp_path):
    path = tmp_path / "out.json"
    write_text(path, "one")
    write_text(path, "two")
    assert path.read_text() == "two"
    assert os.listdir(tmp_path) == ["out.json"]
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "out.json"
    path.write_text("old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_places_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(OutputError, match=r"the folder .* does not exist; create it"):
        check_writable(tmp_path / "none" / "out.json")
    with pytest.raises(OutputError, match="it is a folder; give a file name"):
        check_writable(tmp_path)


def test_paths_that_lead_to_one_file_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("")
    os.link("a", "hard")
    Path("soft").symlink_to("a")
    Path("dangling").symlink_to("none")
    Path("sub").mkdir()
    for one, other in (("a", "hard"), ("a", "soft"), ("a", "sub/../a"), ("none", "./none"), ("none", "dangling")):
        with pytest.raises(ValueError, match="the output is the input itself; give another path"):
            check_distinct(input=one, output=tmp_path / other)
    check_distinct(input="a", output="b", receipt=None, ledger=None)
    check_distinct(input=os.devnull, output=os.devnull)  # nothing is lost there


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(OutputError, match="its links lead in a circle"):
        check_writable(tmp_path / "one")
    with pytest.raises(ValueError, match=r"cannot read the table .*one: Too many levels of symbolic links"):
        check_readable(tmp_path / "one", "table")


def test_a_full_disk_is_named(tmp_path):
    with (
        pytest.raises(OutputError, match=r"cannot write .*a.csv: No space left on device; make room"),
        replacing(tmp_path / "a.csv"),
    ):
        raise OSError(28, "No space left on device")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "age,b\n1,2\n".encode("utf-16"), "is UTF-16 text"),
        ("a.csv", gzip.compress(b"age\n1\n", mtime=0), "is compressed with gzip"),
        ("a.csv.gz", b"age\n1\n", "is not compressed with gzip"),
        ("a.csv.gz", gzip.compress(b"age,b\n1,2\n", mtime=0)[:14], "is damaged or cut short"),
        ("a.csv.gz", gzip.compress("age,b\n1,2\n".encode("utf-16"), mtime=0), "is UTF-16 text"),
        ("a.csv", b"age;b\n31,5;2\n", "separated by semicolons"),
        ("a.csv", b"age,b\n1,\xff\n", "is not UTF-8"),
        ("a.csv", b"age,b\n87,2,3\n", "data row 0, line 2 of a.csv has 3 fields, the header has 2"),
        ("a.parquet", b"age,b\n87,2\n", "of another format than its ending says"),
    ],
)
def test_tables_that_cannot_be_read_are_told_by_what_they_are(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as refused:
        read_table(tmp_path / name)
    assert "87" not in str(refused.value).replace(str(tmp_path), "")
    with pytest.raises(ValueError, match="it is a folder; give a file"):
        read_table(tmp_path)


def test_results_that_would_never_end_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with (tmp_path / "big.json").open("wb") as stream:
        stream.truncate(RESULT_BYTES + 1)
    for path in ("/dev/zero", tmp_path / "pipe.json"):
        with (
            pytest.raises(ValueError, match=r"result file .*: is a device or a pipe"),
            reading(path, "result file", most=RESULT_BYTES),
        ):
            pass
    for read in (ew.Curves.load, ew.report.report):
        with pytest.raises(ValueError, match=r"big\.json: has more than 256 MB"):
            read(tmp_path / "big.json")
        with pytest.raises(ValueError, match="device or a pipe"):
            read(tmp_path / "pipe.json")
    (tmp_path / "a").write_bytes(b"12")
    with reading(tmp_path / "a", "file", most=2) as content:
        assert content == b"12"


def refused(mask):
    raise AssertionError("the umask is every thread's")


def test_the_umask_is_never_set(tmp_path, monkeypatch):
    """Threads that make files all the while get the mode that they always get."""
    before, over, modes = os.umask(0o027), threading.Event(), set()

    def others():
        number = 0
        while not over.is_set():
            (tmp_path / f"other{number}").touch()
            modes.add((tmp_path / f"other{number}").stat().st_mode & 0o777)
            number += 1

    monkeypatch.setattr("os.umask", refused)
    threads = [threading.Thread(target=others) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        for number in range(60):
            write_text(tmp_path / f"out{number}", "one")
        with hidden(tmp_path / "run", "0" * 32) as temporary:
            assert temporary.stat().st_mode & 0o777 == 0o600
            appear(temporary, tmp_path / "run")
        write_client(Policy.of("krr", 1, ew.Domain.of({"a": ["x", "y"]})), tmp_path / "client", 1)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        monkeypatch.undo()
        os.umask(before)
    assert modes == {0o640}
    assert {(tmp_path / f"out{number}").stat().st_mode & 0o777 for number in range(60)} == {0o640}
    assert ((tmp_path / "run").stat().st_mode & 0o777, (tmp_path / "client").stat().st_mode & 0o777) == (0o640, 0o750)
    with replacing(tmp_path / "secret", mode=0o600):
        pass
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
@pytest.mark.parametrize("named", [None, "/somewhere/.hidden"])
@pytest.mark.cases("all")
def test_a_full_or_failing_disk_is_one_sentence_that_names_the_output(tmp_path, number, named):
    path = tmp_path / "out.json"
    says = rf"^cannot write {path}: .*; (make room|check the disk) or choose another place$"
    with pytest.raises(OutputError, match=says), replacing(path):
        raise OSError(number, os.strerror(number), named)
    assert os.listdir(tmp_path) == []
