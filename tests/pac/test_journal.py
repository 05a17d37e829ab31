"""The journal of a server: killed, damaged, copied, moved, on a full disk; no answer is taken back."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from epsworth.pac import MI, ResponseServer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions and signals of POSIX")
SETTINGS = {"classes": [0, 1], "fallback": "votes", "per_query": 0.02}


def vote(model):
    """Return a model whose label is a bit of the query's number."""
    return lambda X: (np.asarray(X)[:, 0].astype(int) >> model) & 1


def opened(path, head=None, budget=0.5, models=4):
    members = np.eye(2, dtype=bool)[np.arange(models) % 2]
    return ResponseServer(
        [vote(model) for model in range(models)], members, MI(budget), ledger=path, head=head, **SETTINGS
    )


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a journal with a first line and four answers, and what the server told of it."""
    path = tmp_path / "answers"
    with opened(path) as asked:
        labels = asked.answer([[1], [2], [5], [12]]).tolist()
        told = asked.spent, asked.head, asked._secret, labels
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return path, *told


def test_a_journal_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        opened(tmp_path / "answers").close()
    finally:
        os.umask(before)
    assert (tmp_path / "answers").stat().st_mode & 0o777 == 0o600
    (tmp_path / "answers").chmod(0o640)
    with pytest.raises(ValueError, match="may be read by others"):
        opened(tmp_path / "answers")


def test_every_line_says_what_was_drawn_by_which_numbers(written):
    path, spent, head, secret, labels = written
    lines = [json.loads(line.rpartition(" ")[0]) for line in path.read_text().splitlines()]
    assert lines[0]["secret"] == secret
    assert [line["label"] for line in lines[1:]] == labels
    assert sum(Fraction(line["cost"]) for line in lines[1:]) <= Fraction(spent)
    assert all(line["k"] + sum(line["others"]) == 2**64 for line in lines[1:])
    assert path.read_text().endswith(f" {head}\n")


def test_no_byte_can_change_without_notice(written):
    path, *_ = written
    whole = path.read_bytes()
    for place in {*range(0, len(whole), 7), *range(len(whole) - 70, len(whole))}:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="of the ledger"):
            opened(path)
    path.write_bytes(whole)
    opened(path).close()


def test_a_line_that_was_cut_off_was_never_sent(written):
    """Cut anywhere: what is whole counts, the rest is forgotten; known heads tell that lines are missing."""
    path, spent, head, secret, labels = written
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    for size in sorted(
        {*range(0, len(whole), 11), *(end + by for end in ends for by in (-2, -1, 0) if end + by < len(whole))}
    ):
        path.write_bytes(whole[:size])
        kept = sum(end <= size for end in ends)
        with opened(path) as asked:
            assert asked.charged == max(0, kept - 1)
            assert asked.spent <= spent
            assert list(asked._answers.values()) == labels[: asked.charged]
            assert not kept or asked._secret == secret
            assert path.stat().st_size == (ends[kept - 1] if kept else path.stat().st_size)
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="does not know the line that head names"):
            opened(path, head)
    path.write_bytes(whole)
    opened(path, head).close()


def test_lines_that_are_missing_repeated_or_in_another_order_are_refused(written):
    path, *_ = written
    lines = path.read_bytes().splitlines(keepends=True)
    changed = [lines[:i] + lines[i + 1 :] for i in range(len(lines) - 1)]
    changed += [lines[: i + 1] + lines[i:] for i in range(len(lines))]
    changed += [[*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]] for i in range(len(lines) - 1)]
    changed += [[*lines, b"\n"], [*lines, b"{} 00\n"], [b"\n", *lines], lines[::-1]]
    for given in changed:
        path.write_bytes(b"".join(given))
        with pytest.raises(ValueError, match="of the ledger"):
            opened(path)


def test_an_old_copy_is_found_out_by_the_head_alone(written):
    path, spent, head, *_ = written
    old = path.read_bytes()
    with opened(path, head) as asked:
        asked.answer([[9]])
        newer = asked.head
    path.write_bytes(old)
    with pytest.raises(ValueError, match="it is an older copy"):
        opened(path, newer)
    with opened(path) as asked:  # which nobody could know
        assert asked.spent == spent


@pytest.mark.parametrize(
    "change",
    [
        {"k": 0}, {"k": 2**64}, {"others": [0, 0]}, {"others": [1]}, {"label": 2}, {"label": -1}, {"cost": -1.0},
        {"cost": float("inf")}, {"votes": "00"}, {"votes": "zz"}, {"votes": "00010203"}, {"label": None},
    ],
)  # fmt: skip
def test_lines_that_no_server_wrote_are_refused_though_their_chain_is_whole(written, change):
    import hashlib

    path, *_ = written
    lines, head, made = path.read_text().splitlines(), bytes(32), []
    for number, line in enumerate(lines):
        entry = json.loads(line.rpartition(" ")[0]) | (change if number == 2 else {})
        body = json.dumps(entry, separators=(",", ":"))
        head = hashlib.sha256(head + body.encode()).digest()
        made.append(f"{body} {head.hex()}\n")
    path.write_text("".join(made))
    with pytest.raises(ValueError, match=r"line 3 of the ledger .* is none of such a server"):
        opened(path)


def failing(error, times):
    """Return a function that fails from some call on."""
    calls = [0]

    def fail(*given):
        calls[0] += 1
        if calls[0] > times:
            raise OSError(error, os.strerror(error))

    return fail


@pytest.mark.parametrize("where", ["fsync", "write"])
def test_a_disk_that_fails_closes_the_server_for_good(tmp_path, monkeypatch, where):
    path = tmp_path / "answers"
    asked = opened(path)
    first = asked.answer([[1]]).tolist()
    real = os.write
    with monkeypatch.context() as broken:
        if where == "fsync":
            broken.setattr(os, "fsync", failing(errno.EIO, 0))
        else:
            full = failing(errno.ENOSPC, 1)
            broken.setattr(os, "write", lambda handle, data: (full(), real(handle, data[:20]))[1])  # half a line
        with pytest.raises(ValueError, match=r"could not be written .* nothing was answered"):
            asked.answer([[2]])
    with pytest.raises(ValueError, match="this server is closed"):
        asked.answer([[1]])
    with opened(path) as again:
        assert again.answer([[1]]).tolist() == first
        assert again.charged == 1 + (where == "fsync")  # written, but nobody was told


def test_whatever_happens_between_a_draw_and_the_disk_closes_the_server(tmp_path, monkeypatch):
    asked = opened(tmp_path / "answers")

    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("epsworth.pac.server.ResponseServer._count", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asked.answer([[1]])
    with pytest.raises(ValueError, match="this server is closed"):
        asked.answer([[1]])


def test_an_answer_leaves_after_its_line_is_on_the_disk(tmp_path, monkeypatch):
    """And the folder, which knows the journal's name, before the first one."""
    synced, path = [], tmp_path / "answers"
    real = os.fsync

    def sync(handle):
        real(handle)
        found = os.fstat(handle)
        synced.append("folder" if not os.path.isfile(f"/proc/self/fd/{handle}") else found.st_size)

    monkeypatch.setattr(os, "fsync", sync)
    with opened(path) as asked:
        assert "folder" in synced
        asked.answer([[1], [2]])
        assert synced[-1] == path.stat().st_size


def test_nothing_is_shown_that_is_not_on_the_disk(tmp_path, monkeypatch):
    """Whoever reads beliefs and charges meanwhile, or after a failure, sees no draw that might be drawn again."""
    asked, seen = opened(tmp_path / "answers"), []
    real = os.fsync
    asked.answer([[1]])

    def shown():
        return asked.spent, asked.charged, asked.probabilities.tolist(), asked.head, repr(asked)

    with monkeypatch.context() as watched:
        watched.setattr(os, "fsync", lambda handle: (seen.append(shown()), real(handle)))
        before = shown()
        asked.answer([[2], [5]])
        assert seen == [before]
        watched.setattr(os, "fsync", failing(errno.EIO, 0))
        before = shown()
        with pytest.raises(ValueError, match="nothing was answered"):
            asked.answer([[12]])
    assert before[1] == 3
    assert shown() == before


@pytest.mark.parametrize("how", ["moved", "replaced", "written to"])
def test_a_journal_that_changes_while_in_use_is_left_alone(tmp_path, how):
    path = tmp_path / "answers"
    with opened(path) as asked:
        content = path.read_bytes()
        if how == "written to":
            path.write_bytes(content * 2)
        else:
            path.rename(tmp_path / "elsewhere")
        if how == "replaced":
            path.write_bytes(content)
        with pytest.raises(ValueError, match=r"could not be written|was moved or changed"):
            asked.answer([[1]])
        with pytest.raises(ValueError, match="this server is closed"):
            asked.answer([[1]])


def test_what_is_no_journal_is_refused(tmp_path):
    for name, made in {"folder": Path.mkdir, "pipe": os.mkfifo, "link": lambda path: path.symlink_to("no")}.items():
        made(tmp_path / name)
        with pytest.raises(ValueError, match="the ledger"):
            opened(tmp_path / name)
    with pytest.raises(ValueError, match="cannot open the ledger"):
        opened(tmp_path / "no" / "answers")
    (tmp_path / "text").write_text("anything\n")
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(ValueError, match="line 1 of the ledger"):
        opened(tmp_path / "text")


SERVER = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent)]!r}
from test_journal import opened
with opened(sys.argv[1], budget=50.0, models=12) as asked:
    for query in map(int, sys.argv[2].split(",")):
        label = int(asked.answer([[query]])[0])
        print(query, label, asked.spent.hex(), asked.head, flush=True)
"""


def start(path, queries, said=subprocess.PIPE):
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path), ",".join(map(str, queries))],
        stdout=said, stderr=said, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_one_process_at_a_time_has_a_journal(tmp_path):
    path = tmp_path / "answers"
    with opened(path, budget=50.0, models=12) as asked:
        asked.answer([[1]])
        other = start(path, [2])
        assert "is in use by another server" in other.communicate()[1]
        assert asked.charged == 1
    other = start(path, [2])
    assert other.communicate()[0].startswith("2 ")


def dies(path, number, moment, told):
    """Answer in this process, which is killed at a system call of that number: before, halfway, or after it."""
    calls, real = [0], {name: getattr(os, name) for name in ("write", "fsync", "ftruncate")}

    def last(name):
        def call(handle, *given):
            calls[0] += 1
            at = calls[0] == number
            if at and moment == "half" and name == "write":
                real["write"](handle, given[0][: len(given[0]) // 2])
            if at and moment != "after":
                os.kill(os.getpid(), signal.SIGKILL)
            found = real[name](handle, *given)
            if at:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return call

    for name in real:
        setattr(os, name, last(name))
    asked = opened(path)
    for queries in ([1], [2], [5, 12]):
        labels = asked.answer([[query] for query in queries]).tolist()
        line = json.dumps([queries, labels, asked.spent, asked.head, asked._secret])
        real["write"](told, f"{line}\n".encode())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("moment", ["before", "half", "after"])
@pytest.mark.cases(1)
def test_killed_at_every_system_call_no_answer_is_taken_back(tmp_path, moment):
    for number in range(1, 40):
        path, (said, told) = tmp_path / str(number), os.pipe()
        child = os.fork()
        if child == 0:
            try:
                dies(path, number, moment, told)
            finally:
                os._exit(0)
        os.close(told)
        with os.fdopen(said) as stream:
            lines = [json.loads(line) for line in stream]
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with opened(path, lines[-1][3] if lines else None) as asked:
            for queries, labels, spent, _, secret in lines:
                assert asked.answer([[query] for query in queries]).tolist() == labels
                assert asked._secret == secret
                assert asked.spent >= spent
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert number > 8
    assert len(lines) == 3


@pytest.mark.slow
def test_no_kill_changes_an_answer_or_gives_back_what_it_cost(tmp_path):
    """Killed at random moments: what was told stays told, spent grows, and the next process knows the last head."""
    path, rng = tmp_path / "answers", random.Random(0)
    told, spent, head, answers = {}, 0.0, None, 0
    for _ in range(14):
        queries = [rng.randrange(4096) for _ in range(3000)]
        with (tmp_path / "said").open("w+") as said:
            running = start(path, queries, said)
            while not (tmp_path / "said").stat().st_size and running.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.random() / 10)
            running.kill()
            running.wait()
            said.seek(0)
            lines = said.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith("\n"):
                continue
            query, label, cost, known = line.split()
            assert told.setdefault(query, label) == label
            assert float.fromhex(cost) >= spent
            spent, head, answers = float.fromhex(cost), known, answers + 1
        with opened(path, head, budget=50.0, models=12) as asked:
            assert asked.spent >= spent
            again = asked.answer([[int(query)] for query in told]).tolist()
            assert [str(label) for label in again] == list(told.values())
    assert answers > 100
