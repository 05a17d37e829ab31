"""Outputs are whole or absent."""

from __future__ import annotations

import os

import pytest

from epsworth.files import OutputError, check_writable, replacing, write_text


def test_text_is_replaced_whole(tmp_path):
    path = tmp_path / "out.json"
    write_text(path, "one")
    write_text(path, "two")
    assert path.read_text() == "two"
    assert os.listdir(tmp_path) == ["out.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


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
