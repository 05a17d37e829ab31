"""What a run costs, when it is charged, and in which order things reach the disk."""

from __future__ import annotations

import json
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import epsworth as ew
from epsworth.files import OutputError
from epsworth.release import Ledger, Policy, perturb_file
from epsworth.release.earlier_ledger import LEDGER

AGES = ew.Domain.of({"age": (0, 100)})
POLICY = Policy.of("pm", 2, AGES, bits=4)
ROUGH = Policy.of("gaussian_clipped:delta=0.1", 1, AGES, bits=4)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id,age\n" + "".join(f"{i},{i % 100}\n" for i in range(50)))
    return path


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_nothing_is_charged_for_a_table_that_is_refused(table):
    table.write_text(table.read_text() + "51,old\n")
    with pytest.raises(ValueError, match="row 50, age: the field is not a number"):
        perturb_file(POLICY, table, table.with_name("out.csv"))
    assert Ledger().runs() == []


def test_a_person_pays_for_each_of_its_rows_in_any_file_order_and_format(table):
    folder = table.parent
    perturb_file(POLICY, table, folder / "out.csv", unit="id", cap=6)
    (folder / "more.jsonl").write_text('{"age": 3, "id": 7}\n{"id": "7", "age": 4}\n{"id": 9, "age": 1}\n')
    receipt = perturb_file(POLICY, folder / "more.jsonl", folder / "more-out.jsonl", unit="id")
    assert (receipt.people, receipt.most, receipt.unit) == (2, 2, "id")
    assert "2 people (id), at most 2 rows of one: epsilon 4 per person" in str(receipt)
    assert [float(spent) for spent in Ledger().spent(["7", 9, 8, 99])] == pytest.approx([6, 4, 2, 0])
    (folder / "last.csv").write_text("age,id\r\n3,7\r\n3,8\r\n")
    with pytest.raises(ValueError, match="1 unit would exceed the cap"):
        perturb_file(POLICY, folder / "last.csv", folder / "last-out.csv", unit="id")
    assert not (folder / "last-out.csv").exists()


def write(path: Path, ids: list[str]) -> Path:
    """Write a table of these ids, as texts where the format knows any."""
    if path.suffix == ".csv":
        path.write_text("id,age\n" + "".join(f"{one},3\n" for one in ids))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"id": one, "age": 3}) + "\n" for one in ids))
    else:
        pl.DataFrame({"id": ids, "age": [3.0] * len(ids)}).write_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("value", ["7.0", "7e0", "+7", "7\u200b", "\uff17"])
def test_another_spelling_of_a_person_is_no_other_person(tmp_path, kind, value, monkeypatch):
    """The row is that of the whole file, in whichever part it stands."""
    monkeypatch.setattr("epsworth.release.lines.PART", 64)
    source = write(tmp_path / f"in.{kind}", [*map(str, range(40)), "007", value])
    with pytest.raises(ValueError, match=r"row 41, id: the unit (is another spelling|holds a character)") as refused:
        perturb_file(POLICY, source, tmp_path / f"out.{kind}", unit="id", cap=2)
    assert value not in str(refused.value).partition("the unit")[0]
    assert Ledger().runs() == []


def test_a_run_that_was_charged_for_fewer_rows_of_a_person_is_not_told_of_more(table):
    out = table.with_name("out.csv")
    perturb_file(POLICY, table, out, most=1)
    for more in (2, None):
        with pytest.raises(ValueError, match=r"charged for at most 1 row of a unit, not (2|50) .*again=True"):
            perturb_file(POLICY, table, out, most=more)
    assert float(Ledger().spent([7])[0]) == pytest.approx(2)
    assert perturb_file(POLICY, table, out, most=2, again=True).most == 2
    assert float(Ledger().spent([7])[0]) == pytest.approx(2 + 4)


def test_a_cap_that_is_first_stated_when_the_run_is_done_holds_from_then_on(table):
    out = table.with_name("out.csv")
    perturb_file(POLICY, table, out, unit="id")
    perturb_file(POLICY, table, out, unit="id", cap=3)
    assert Ledger().settled()[1] == 3
    with pytest.raises(ValueError, match="50 units would exceed the cap"):
        perturb_file(POLICY, table, out, unit="id", again=True)


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({"most": 10**30}, "most must be a whole number from 1 to 9223372036854775807"),
        ({"cap": "1_0"}, "cap: must be a finite number, got '1_0'"),
        ({"cap": "\u0663"}, "cap: must be a finite number"),
    ],
)
def test_numbers_that_are_none_are_refused(table, terms, sentence):
    with pytest.raises(ValueError, match=sentence):
        perturb_file(POLICY, table, table.with_name("out.csv"), **terms)
    assert Ledger().runs() == []


def test_without_a_unit_everybody_is_charged_for_every_row(table):
    receipt = perturb_file(POLICY, table, table.with_name("out.csv"))
    assert "the ledger charges the run to everybody" in str(receipt)
    assert float(Ledger().spent(["anybody"])[0]) == pytest.approx(50 * 2)
    again = perturb_file(POLICY, table, table.with_name("out2.csv"), again=True, most=1)
    assert (again.times_before, again.epsilon_so_far) == (1, pytest.approx(4))
    assert float(Ledger().spent(["anybody"])[0]) == pytest.approx(50 * 2 + 2)


def test_the_same_run_asked_again_is_done(table):
    out = table.with_name("out.csv")
    first = perturb_file(POLICY, table, out, unit="id")
    released = out.read_bytes()
    assert perturb_file(POLICY, table, out, unit="id") == first
    assert out.read_bytes() == released
    assert len(Ledger().runs()) == 1
    out.write_text("another's")
    with pytest.raises(ValueError, match=r"left 1 time under this policy .*--again"):
        perturb_file(POLICY, table, out, unit="id")
    assert out.read_text() == "another's"
    perturb_file(POLICY, table, out, unit="id", again=True)
    assert out.read_bytes() != released
    assert len(Ledger().runs()) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device"), RuntimeError])
def test_a_run_that_ends_by_an_error_goes_on_and_is_charged_once(table, error, monkeypatch):
    shares = []

    def fail(share):
        shares.append(share)
        if share > 0.5:
            raise error

    out = table.with_name("out.csv")
    with pytest.raises((OutputError, KeyboardInterrupt, RuntimeError)):
        perturb_file(POLICY, table, out, progress=fail)
    assert (out.exists(), hidden(table.parent)) == (False, [])
    assert [run.state for run in Ledger().runs()] == ["charged"]
    perturb_file(POLICY, table, out)
    assert [run.state for run in Ledger().runs()] == ["done"]


def test_a_table_that_changes_between_its_readings_is_refused(table):
    def change(share):
        if share == 0.4:
            table.write_text(table.read_text().replace("1,1\n", "1,2\n"))

    with pytest.raises(ValueError, match="changed while it was read"):
        perturb_file(POLICY, table, table.with_name("out.csv"), progress=change)
    assert (table.with_name("out.csv").exists(), hidden(table.parent)) == (False, [])


def test_threads_at_once_release_the_records_once(table):
    meeting = threading.Barrier(4)

    def run(number):
        meeting.wait(5)
        try:
            perturb_file(POLICY, table, table.with_name(f"out{number}.csv"), unit="id", cap=2)
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(run, range(4)))
    assert len(list(table.parent.glob("out*.csv"))) == told.count(None) == 1
    assert all("left 1 time" in text for text in told if text)


def test_nothing_moves_before_it_is_on_the_disk(table, monkeypatch):
    """Were the power cut: the output's content precedes its name, and its charge, which is committed, both."""
    events, fsync, replace = [], os.fsync, os.replace

    def sync(handle):
        events.append(("disk", os.fstat(handle).st_ino))
        fsync(handle)

    def move(source, target):
        events.append((Path(target).name, os.stat(source).st_ino))
        assert [run.state for run in Ledger().runs()] == ["charged"]
        events.append(("moving", 0))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", move)
    perturb_file(POLICY, table, table.with_name("out.csv"))
    (at,) = [i for i, (name, _) in enumerate(events) if name == "out.csv"]
    assert ("disk", events[at][1]) in events[:at]  # what moves
    after = events[events.index(("moving", 0)) + 1 :]
    assert after[0] == ("disk", table.parent.stat().st_ino)  # its new name, before the run is done


def test_runs_of_an_earlier_version_are_charged_before_more_leave(table, cli):
    """Its ledger stands beside the outputs, and knows no people."""
    line = {"records": "ab", "policy": "cd", "epsilon": 1.5, "rows": 3, "delta": 0.0, "notion": "pure", "run": "ef"}
    earlier = table.with_name(LEDGER)
    earlier.write_text(json.dumps(line) + "\n")
    with pytest.raises(ValueError, match=f"epsworth ledger import {re.escape(str(earlier))}"):
        perturb_file(POLICY, table, table.with_name("out.csv"), unit="id", cap=7)
    assert cli("ledger", "import", str(earlier))[0] == 0
    perturb_file(POLICY, table, table.with_name("out.csv"), unit="id", cap=7)
    assert float(Ledger().spent([7])[0]) == pytest.approx(3 * 1.5 + 2)
    earlier.write_text("[1]\n")
    with pytest.raises(ValueError, match="nobody knows what left before"):
        perturb_file(POLICY, table, table.with_name("out2.csv"), again=True)


def test_deltas_add_up(table):
    perturb_file(ROUGH, table, table.with_name("out.csv"), unit="id", delta_cap="0.25")
    receipt = perturb_file(ROUGH, table, table.with_name("out2.csv"), unit="id", again=True)
    assert 2 * ROUGH.guarantee.delta <= receipt.delta_so_far <= 0.2
    with pytest.raises(ValueError, match="50 units would exceed the cap"):
        perturb_file(ROUGH, table, table.with_name("out3.csv"), unit="id", again=True)


def test_no_output_stands_in_the_ledgers_place(table):
    folder = table.parent
    perturb_file(POLICY, table, folder / "out.csv", ledger=folder)
    for name in ("ledger.sqlite3", "units.key", "ledger.made"):
        (folder / f"{name}.csv").symlink_to(name)
        with pytest.raises(ValueError, match="itself; give another path"):
            perturb_file(POLICY, table, folder / f"{name}.csv", ledger=folder, again=True)
