"""Releases in processes of their own, for the tests of the ledger; some are killed before a line of its code."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np

from epsworth.policy.ledger import ChargeRequest, Identity, Ledger, RowCounts, RunTerms

WATCHED = ("ledger.py", "store.py", "costs.py", "people.py")


def release(folder: Path, name: str, *, cap: str | None = None) -> str:
    """Charge a run of people 0 to 4, "draw" its output from its key, and end it."""
    ledger, counts = Ledger(folder / "ledger"), RowCounts()
    counts.add(ledger.hashes(np.array([0, 1, 2, 3, 4, 4])))
    digest = hashlib.blake2b(name.encode(), key=ledger.digest_key, digest_size=32).digest()
    terms = ChargeRequest("policy", Fraction(1), Fraction(0), rows=6, terms=RunTerms("id", cap))
    run = ledger.begin(terms, Identity("policy 1", digest, name), counts)
    if run.state == "done":
        return run.state
    output, part = folder / name, folder / f"{name}.{os.getpid()}.part"
    part.write_bytes(hashlib.blake2b(digest, key=run.key).digest())
    sha256 = hashlib.sha256(part.read_bytes()).hexdigest()
    assert ledger.finish(run, sha256, lambda: os.replace(part, output))
    return run.state


def traced(folder: Path, last: int) -> int:
    """Run to the end, or die before so many lines; return how many there were."""
    lines = 0

    def watch(frame, event, argument):
        nonlocal lines
        if os.path.basename(frame.f_code.co_filename) not in WATCHED:
            return None
        if event == "line":
            lines += 1
            if lines == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return watch

    sys.settrace(watch)
    release(folder, "out")
    sys.settrace(None)
    return lines


def forked(action, *arguments) -> int:
    """Run in a process of its own; return how it ended."""
    if not (child := os.fork()):
        try:
            action(*arguments)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def killed_before(folder: Path, line: int) -> str:
    """Kill a run before a line, complete it, and return what is wrong with what is left."""
    folder.mkdir()
    if forked(traced, folder, line) != signal.SIGKILL:
        return "it was not killed"
    database = folder / "ledger" / "ledger.sqlite3"
    if list(folder.glob("out*")) and not (database.exists() and Ledger(database.parent).runs()):
        return "drawn and not charged"
    if forked(release, folder, "out"):
        return "it was not completed"
    ledger, output = Ledger(folder / "ledger"), (folder / "out").read_bytes()
    with closing(sqlite3.connect(ledger.path)) as file:
        keys = file.execute("SELECT COUNT(*) FROM keys").fetchone()[0]
    names = [path.name for path in (folder / "ledger").iterdir()]
    found = {
        "charged once": [run.state for run in ledger.runs()] == ["done"],
        "everybody is charged": ledger.spent(range(6)) == [1, 1, 1, 1, 2, 0],
        "whole": len(output) == 64 and all(part.read_bytes() in (output, b"") for part in folder.glob("out.*.part")),
        "no key": keys == 0,
        "nothing is left": not any(name[0] == "." for name in names),
    }
    return ", ".join(f"not {what}" for what, holds in found.items() if not holds)


def sweep(folder: Path, few: int) -> None:
    """Kill before all lines, or a few of them; print how many there are, and the complaints."""
    (folder / "counting").mkdir()
    lines = traced(folder / "counting", 0)
    chosen = range(1, lines + 1) if not few else [number * lines // (few + 1) for number in range(1, few + 1)]
    print(json.dumps([lines, {line: told for line in chosen if (told := killed_before(folder / str(line), line))}]))


def main() -> None:
    """Kill runs (``folder``, "sweep", how many), or do one."""
    folder, name, number = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if name == "sweep":
        return sweep(folder, int(number))
    try:
        print(release(folder, name, cap=number))
    except ValueError as error:
        print(error)


if __name__ == "__main__":
    main()
