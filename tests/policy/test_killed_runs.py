"""A run that is killed before any of its lines, and run again: charged once, one version of its bytes, whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import epsworth as ew
from epsworth.policy import Ledger, Policy, perturb_file

POLICY = Policy.of("pm", 2, ew.Domain.of({"age": (0, 100)}), bits=4, passing=["id"])
EPSWORTH = Path(sys.executable).with_name("epsworth")

DYING = """
import json, os, signal, sys, traceback
from pathlib import Path
from epsworth.policy import Policy, perturb_file

folder, every = Path(sys.argv[1]), int(sys.argv[2])
policy = Policy.load(folder / "policy.toml")
ours = ("outputs.py", "ledger.py", "store.py", "people.py", "one_file.py")

def trial(place, last):
    lines = 0
    def local(frame, event, argument):
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return local
    def trace(frame, event, argument):
        path = frame.f_code.co_filename
        return local if "/policy/" in path and os.path.basename(path) in ours else None
    sys.settrace(trace)
    perturb_file(policy, folder / "in.csv", place / "out.csv", person="id", cap=3, ledger=place / "ledger")
    sys.settrace(None)
    return lines

def child(place, last):
    place.mkdir()
    pid = os.fork()
    if not pid:
        try:
            lines = trial(place, last)
            (place / "lines").write_text(str(lines))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(pid, 0)[1]

assert child(folder / "whole", 0) == 0
total = int((folder / "whole" / "lines").read_text())
killed = [last for last in range(1 + total % every, total + 1, every)]
for last in killed:
    status = child(folder / f"at{last}", last)
    assert os.WIFSIGNALED(status), (last, status)
print(json.dumps(killed))
"""


@pytest.fixture
def table(tmp_path):
    POLICY.save(tmp_path / "policy.toml")
    (tmp_path / "in.csv").write_text("id,age\n" + "".join(f"{i},{i % 100}\n" for i in range(300)))
    return tmp_path


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def finished(folder: Path) -> None:
    """Complete what a killed run left; look at what it left, at its charge, and at what stays."""
    left = [path.read_bytes() for path in [*hidden(folder), folder / "out.csv"] if path.exists()]
    receipt = perturb_file(
        POLICY, folder.parent / "in.csv", folder / "out.csv", person="id", cap=3, ledger=folder / "ledger"
    )
    whole = (folder / "out.csv").read_bytes()
    assert all(whole.startswith(part) for part in left)
    assert whole.count(b"\n") == 301
    assert receipt.rows == 300
    store = Ledger(folder / "ledger")
    assert len(store.runs()) == 1
    assert all(POLICY.guarantee.epsilon <= float(spent) <= 2.0001 for spent in store.spent([0, 7, 299]))
    assert hidden(folder) == []


def killed_before_every(table: Path, every: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", DYING, str(table), str(every)], capture_output=True, text=True, timeout=500
    )
    assert run.returncode == 0, run.stderr
    lines = json.loads(run.stdout)
    assert len(lines) > 3
    for last in lines:
        finished(table / f"at{last}")


@pytest.mark.slow
def test_a_run_that_is_killed_before_some_of_its_lines_goes_on(table):
    killed_before_every(table, 60)


@pytest.mark.slow
def test_a_run_that_is_killed_before_many_of_its_lines_goes_on(table):
    killed_before_every(table, 12)


@pytest.mark.slow
def test_a_command_that_is_killed_at_any_moment_goes_on(table):
    """As users do: the command, killed after a random time, given again until it is done."""
    size, chance = 300_000, random.Random(3)
    (table / "in.csv").write_text("id,age\n" + "".join(f"{i},{i % 100}\n" for i in range(size)))
    words = [
        EPSWORTH,
        "perturb",
        "policy.toml",
        "in.csv",
        "out.csv",
        "--id",
        "id",
        "--cap",
        "2",
        "--ledger",
        "ledger",
    ]
    killed, left = 0, []
    for _ in range(8):
        run = subprocess.Popen(words, cwd=table, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 2.0))
        run.send_signal(signal.SIGKILL)
        killed += run.wait() == -signal.SIGKILL
        left += [path.read_bytes() for path in [*hidden(table), table / "out.csv"] if path.exists()]
    assert killed
    run = subprocess.run(words, cwd=table, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    whole = (table / "out.csv").read_bytes()
    assert whole.count(b"\n") == size + 1
    assert all(whole.startswith(part) for part in left)
    assert len(Ledger(table / "ledger").runs()) == 1
    assert hidden(table) == []


@pytest.mark.slow
def test_processes_at_once_make_one_output(table):
    """Eight processes with the same run draw the same bytes; with others, a cap lets three pass."""
    words = [EPSWORTH, "perturb", "policy.toml"]
    more = ["--id", "id", "--cap", "6", "--ledger", "ledger"]
    for number in range(5):
        (table / f"in{number}.csv").write_text(f"id,age\n7,{number}\n")
    runs = [
        subprocess.Popen([*words, f"in{i}.csv", f"out{i}.csv", *more], cwd=table, stderr=subprocess.PIPE)
        for i in [0, 0, 1, 2, 3, 4]
    ]
    told = [run.communicate(timeout=120)[1].decode() for run in runs]
    outputs = list(table.glob("out*.csv"))
    assert len(outputs) == 3, told
    assert len(Ledger(table / "ledger").runs()) == 3
    assert sorted({run.returncode for run in runs}) == [0, 2], told
    assert [float(spent) <= 6 for spent in Ledger(table / "ledger").spent([7])] == [True]
    refused = [text for text, run in zip(told, runs, strict=True) if run.returncode]
    assert all("1 person would exceed the cap" in text for text in refused), told
    assert len(refused) in (2, 3)  # the two of one run succeed or fail together


def test_a_secret_key_is_in_no_text(table):
    perturb_file(POLICY, table / "in.csv", table / "out.csv", ledger=table / "ledger")
    found = b"".join(path.read_bytes() for path in (table / "ledger").iterdir() if path.is_file())
    assert b"0,0" not in found
    assert os.stat(table / "ledger" / "people.key").st_mode & 0o077 == 0
