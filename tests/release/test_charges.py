"""Whatever lies on the disk is charged, once; nothing leaves twice unnoticed, however runs overlap or die."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

import epsworth as ew
from epsworth.release import Policy, keyed, outputs, perturb_file
from epsworth.release.ledger import LEDGER, Entry, Ledger, state_folder
from epsworth.release.streams import charge_of
from epsworth.rounding import show_up, sum_above

AGES = ew.Domain.of({"age": (0, 100)})
POLICY = Policy.of("pm", 2, AGES, bits=4)
ROUGH = Policy.of("gaussian_clipped:delta=0.1", 1, AGES, bits=4)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("age\n1\n")
    return path


def lines(folder: Path) -> list[dict]:
    path = folder / LEDGER
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def outcomes(table: Path, runs: int, **options) -> list[bool]:
    """Start so many runs of the same records at once; return which released something."""

    def run(number):
        try:
            perturb_file(POLICY, table, table.with_name(f"out{number}.csv"), **options)
        except ValueError:  # another was first
            assert not table.with_name(f"out{number}.csv").exists()
        return table.with_name(f"out{number}.csv").exists()

    with ThreadPoolExecutor(runs) as pool:
        return list(pool.map(run, range(runs)))


def test_runs_at_once_release_the_records_once(table, monkeypatch):
    meeting, put = threading.Barrier(4), Ledger.put

    def meet(share):  # all that draw wait for each other: who asks the ledger before the draws alone lets all pass
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(0.1)

    def slow(self, entry):  # between the question and the entry
        time.sleep(0.02)
        put(self, entry)

    monkeypatch.setattr(Ledger, "put", slow)
    assert sum(outcomes(table, 4, progress=meet)) == 1
    assert len(lines(table.parent)) == 1
    assert hidden(table.parent) == []


@pytest.mark.parametrize("step", [1, 2], ids=["the run is entered", "the output appears"])
def test_no_two_runs_are_between_the_question_and_the_entry(step, table, monkeypatch):
    """Two that may both go on; each waits there for the other, who must not come."""
    meeting, own, met, put = threading.Barrier(2), threading.local(), [], Ledger.put

    def meet(self, entry):
        own.steps = getattr(own, "steps", 0) + 1
        if own.steps == step:
            with contextlib.suppress(threading.BrokenBarrierError):
                met.append(meeting.wait(0.25))
        put(self, entry)

    monkeypatch.setattr(Ledger, "put", meet)
    outcomes(table, 2, again=True)
    assert met == []


@pytest.mark.slow
def test_processes_at_once_release_the_records_once(table):
    POLICY.save(table.with_name("policy.toml"))
    command = [Path(sys.executable).with_name("epsworth"), "perturb", "policy.toml", "in.csv"]
    for number in range(3):
        table.write_text(f"age\n{number}\n")
        runs = [
            subprocess.Popen([*command, f"out{number}-{i}.csv"], cwd=table.parent, stderr=subprocess.PIPE)
            for i in range(4)
        ]
        for run in runs:
            run.communicate(timeout=60)
        assert sorted(run.returncode for run in runs) == [0, 2, 2, 2]
        assert len(list(table.parent.glob(f"out{number}-*.csv"))) == 1
    assert len(lines(table.parent)) == 3


DYING = """
import os, signal, sys
from pathlib import Path
from epsworth.release import Policy
from epsworth.release.keyed import fingerprint_of
from epsworth.release.outputs import charged
from epsworth.release.streams import charge_of

folder = Path(sys.argv[1])
policy = charge_of(Policy.load(folder / "policy.toml"))
with charged(folder / "one.csv", policy, fingerprint_of(folder / "in.csv"), again=False) as one:
    with charged(folder / "two.csv", policy, None, again=False) as two:
        for output in (one, two):
            output.temporary.write_text("half a rel")
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal on this system")
def test_what_a_killed_run_leaves_is_charged_and_goes_with_the_next_run(table):
    folder = table.parent
    POLICY.save(folder / "policy.toml")
    assert subprocess.run([sys.executable, "-c", DYING, folder]).returncode == -signal.SIGKILL
    assert len(hidden(folder)) == 2
    assert all((folder / name).stat().st_mode & 0o077 == 0 for name in hidden(folder))
    known, unknown = lines(folder)
    assert (known["rows"], unknown["rows"], unknown["records"]) == (None, None, None)
    with outputs.charged(folder / "live.csv", charge_of(POLICY), "others", again=False) as live:
        live.temporary.write_text("age\n5\n")
        with pytest.raises(
            ValueError, match=r"left 1 time under this policy \(a run that was stopped half-way counts\)"
        ):
            perturb_file(POLICY, table, folder / "out.csv")
        assert hidden(folder) == [live.temporary.name]  # the leftovers are gone, what a living process writes is not
        live.whole("others", 1)
    assert (folder / "live.csv").read_text() == "age\n5\n"
    assert not (folder / "one.csv").exists()
    receipt = perturb_file(POLICY, table, folder / "out.csv", again=True)
    assert (receipt.times_before, receipt.epsilon_so_far) == (1, sum_above([POLICY.guarantee.epsilon] * 3))
    assert hidden(folder) == []


def test_a_run_that_is_killed_at_any_moment_leaves_the_old_output_or_the_whole_new_one(table, monkeypatch):
    """What a kill would leave: the disk after each block, and before and after each move of a file."""
    out, seen, replace = table.with_name("out.csv"), [], os.replace
    out.write_text("old")

    def look(share=0.0):
        seen.append(out.read_text())

    def move(source, target):
        look()
        replace(source, target)
        look()

    monkeypatch.setattr(os, "replace", move)
    monkeypatch.setattr("epsworth.release.lines.PART", 1000)
    table.write_text("age\n" + "1\n" * 3000)
    perturb_file(POLICY, table, out, progress=look)
    assert len(seen) > 12
    assert set(seen[:-1]) == {"old"}
    assert len(seen[-1].splitlines()) == 3001


def test_leftovers_are_told_from_a_parquet_file_that_is_being_written(table):
    folder = table.parent
    pl.DataFrame({"age": [1.0, 2.0]}).write_parquet(folder / "in.parquet")
    seen = []

    def look(share):
        outputs._remove_leftovers(folder)
        seen.extend(hidden(folder))

    perturb_file(POLICY, folder / "in.parquet", folder / "out.parquet", progress=look)
    assert seen
    assert pl.read_parquet(folder / "out.parquet").height == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_run_that_ends_by_an_error_takes_its_entry_back(table, error):
    def fail(share):
        assert len(lines(table.parent)) == 1  # charged before anything is drawn
        raise error

    with pytest.raises(error):
        perturb_file(POLICY, table, table.with_name("out.csv"), progress=fail)
    assert [path.name for path in table.parent.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_without_a_whole_line_nothing_leaves(table, call, monkeypatch):
    out = table.with_name("out.csv")
    out.write_text("old")
    keyed.Fingerprint()  # the key is there

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"epsworth.release.ledger.os.{call}", full)
    with pytest.raises(ValueError, match=r"ledger .* cannot be written \(No space left on device\), so nothing may"):
        perturb_file(POLICY, table, out)
    assert out.read_text() == "old"
    assert sorted(path.name for path in table.parent.iterdir()) == ["in.csv", "out.csv"]


def test_short_writes_of_the_system_do_not_shorten_the_ledger(table, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, block: write(handle, block[: len(block) // 2]))
    perturb_file(POLICY, table, table.with_name("out.csv"))
    assert Ledger(table.parent).entries()[0].rows == 1


def test_a_move_that_fails_stays_charged(table, monkeypatch):
    replace = os.replace

    def fail(source, target):
        if str(target).endswith("out.csv"):
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        perturb_file(POLICY, table, table.with_name("out.csv"))
    assert [line["rows"] for line in lines(table.parent)] == [1]
    assert hidden(table.parent) == []


def test_a_table_that_changes_while_it_is_read_is_refused(table):
    with pytest.raises(ValueError, match="changed while it was read; nothing was written"):
        Changing(table).run()
    assert [path.name for path in table.parent.iterdir()] == ["in.csv"]


class Changing:
    """The table is another one between its fingerprint and its rows."""

    def __init__(self, table):
        self.table = table

    def run(self):
        with pytest.MonkeyPatch.context() as patch:
            made = outputs._make

            def make(*arguments):
                self.table.write_text("age\n2\n")
                return made(*arguments)

            patch.setattr(outputs, "_make", make)
            perturb_file(POLICY, self.table, self.table.with_name("out.csv"))


def test_entries_keep_epsilon_delta_and_notion_and_sums_are_rounded_up(table):
    spent = [perturb_file(policy, table, table.with_name("out.csv"), again=True) for policy in [POLICY, ROUGH] * 3]
    for line, policy in zip(lines(table.parent), [POLICY, ROUGH] * 3, strict=True):
        promise = policy.guarantee
        assert (line["epsilon"], line["delta"], line["notion"]) == (promise.epsilon, promise.delta, promise.notion)
    exact = 3 * (Fraction(POLICY.guarantee.epsilon) + Fraction(ROUGH.guarantee.epsilon))
    assert Fraction(spent[-1].epsilon_so_far) >= exact > Fraction(spent[-1].epsilon_so_far) * (1 - Fraction(1, 2**52))
    assert spent[-1].delta_so_far == pytest.approx(3 * ROUGH.guarantee.delta, rel=1e-15)
    assert f"delta {show_up(spent[-1].delta_so_far)} per record in all" in str(spent[-1])
    assert sum_above([0.1] * 10) > 1  # the doubles exceed a tenth


def test_a_line_without_its_delta_has_the_policys_own_or_the_largest(table):
    ledger = Ledger(table.parent)
    for policy in (ROUGH, POLICY):
        perturb_file(policy, table, table.with_name("out.csv"), again=True)
    old = [{key: line[key] for key in ("records", "policy", "rows", "epsilon")} for line in lines(table.parent)]
    ledger.path.write_text("".join(json.dumps(line) + "\n" for line in old))
    records = old[0]["records"]
    known = ledger.spent(charge_of(ROUGH), records, again=True)
    assert (known.times, known.delta) == (1, 1.0)  # the other policy's delta is not known
    ledger.path.write_text(json.dumps(old[0]) + "\n")
    assert ledger.spent(charge_of(ROUGH), records, again=True).delta == ROUGH.guarantee.delta
    assert perturb_file(POLICY, table, table.with_name("out.csv"), again=True).delta_so_far == 1.0


@pytest.mark.parametrize(
    "line",
    ["", '{"records": "a"}', '{"records": "a", "policy": "b", "rows": "x", "epsilon": 1}',
     '{"records": "a", "policy": "b", "rows": true, "epsilon": 1}',
     '{"records": "a", "policy": "b", "rows": -1, "epsilon": 1}',
     "[1]", "[" * 10_000, '{"records": "a", "policy": "b", "rows": 1, "epsilon": NaN}',
     '{"records": "a", "policy": "b", "rows": 1, "epsilon": -1}', '{"records": 1, "policy": "b", "epsilon": 1}',
     '{"records": "a", "policy": "b", "epsilon": 1, "delta": 2}', '{"records": "a", "policy": "b", "epsilon": true}'],
)  # fmt: skip
def test_a_ledger_that_is_not_understood_is_refused(table, line):
    (table.parent / LEDGER).write_text(line + "\n")
    if line == "":
        assert perturb_file(POLICY, table, table.with_name("out.csv")).times_before == 0
        return
    with pytest.raises(ValueError, match="nobody knows what left before"):
        perturb_file(POLICY, table, table.with_name("out.csv"), again=True)
    assert (table.parent / LEDGER).read_text() == line + "\n"


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_length_is_refused(table, size):
    state_folder().mkdir(exist_ok=True)
    (state_folder() / keyed.KEY).write_bytes(b"k" * size)
    with pytest.raises(ValueError, match=f"ledger's key .* has {size} bytes instead of 32"):
        perturb_file(POLICY, table, table.with_name("out.csv"))
    assert [path.name for path in table.parent.iterdir()] == ["in.csv"]


def test_all_first_runs_share_one_key(table, monkeypatch):
    urandom = os.urandom

    def slow(count):
        time.sleep(0.02)
        return urandom(count)

    monkeypatch.setattr(os, "urandom", slow)
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(keyed.fingerprint_of, [table] * 6))) == 1
    assert [path.name for path in state_folder().iterdir()] == [keyed.KEY]


def test_an_entry_survives_its_line():
    entry = Entry.of(charge_of(ROUGH), "records", "run")
    assert Entry.read(entry.line) == entry


def test_nothing_moves_before_it_is_on_the_disk(table, monkeypatch):
    """Were the power cut: the output's content, and the ledger that charges it, precede the output's name."""
    keyed.Fingerprint()  # the key is there
    events, fsync, replace = [], os.fsync, os.replace

    def sync(handle):
        events.append(("disk", os.fstat(handle).st_ino))
        fsync(handle)

    def move(source, target):
        events.append((Path(target).name, os.stat(source).st_ino))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", move)
    perturb_file(POLICY, table, table.with_name("out.csv"))
    moves = [i for i, (name, _) in enumerate(events) if name != "disk"]
    assert [events[i][0] for i in moves] == [LEDGER, LEDGER, "out.csv"]
    for before, at in zip([0, *moves], moves, strict=False):
        assert ("disk", events[at][1]) in events[before:at]  # what moves
        assert events[at + 1 :][:1] == [("disk", table.parent.stat().st_ino)]  # its new name


PIPES = [LEDGER, ".epsworth-ledger.lock", "policy.toml", "state/ledger.key", "state/.ledger.key.lock"]


@pytest.mark.parametrize(
    ("make", "name"),
    [*(("mkfifo", name) for name in PIPES), *(("mkdir", name) for name in [*PIPES, ".epsworth-ledger.new"])],
)
def test_a_pipe_or_folder_in_the_place_of_our_files_is_told(name, make, table, monkeypatch):
    folder = table.parent
    monkeypatch.setenv("EPSWORTH_STATE", str(folder / "state"))
    (folder / "state").mkdir()
    getattr(os, make)(folder / name)

    def run():
        policy = Policy.load(folder / name) if name == "policy.toml" else POLICY
        perturb_file(policy, table, folder / "out.csv")

    with pytest.raises(ValueError, match=rf"(ledger|policy|key|folder) .*{Path(name).stem}|cannot be locked") as told:
        run()
    assert "\n" not in str(told.value)
    assert not (folder / "out.csv").exists()
    assert [hid for hid in hidden(folder) if not name.endswith(hid)] == []
