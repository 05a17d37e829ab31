"""Every run is charged once, before anything can be drawn; nobody exceeds its cap, and no past is forgotten."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import ledger_child
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epsworth.policy.ledger import ChargeRequest, Identity, Ledger, RowCounts, Run, RunTerms, people
from epsworth.policy.ledger.costs import ONE, amount_above
from epsworth.policy.ledger.store import DATABASE, KEY

HALF = Fraction(1, 2)
SHA = "ab" * 32


def counted(ledger: Ledger, ids) -> RowCounts:
    counts = RowCounts()
    counts.add(ledger.hashes(ids))
    return counts


def begun(ledger: Ledger, number: int, ids=None, *, target: str = "out", **terms) -> Run:
    """Begin a run of its own records."""
    rows = terms.pop("rows", 1 if ids is None else len(ids))
    person = terms.pop("person", None if ids is None else "id")
    price = Fraction(terms.pop("epsilon", HALF)), Fraction(terms.pop("delta", 0))
    stated = RunTerms(
        person, *(terms.pop(name, None) for name in ("cap", "delta_cap", "most")), terms.pop("again", False)
    )
    return ledger.begin(
        ChargeRequest(terms.pop("policy", "policy"), *price, rows, stated, **terms),
        Identity("policy 1", bytes([number]) * 32, target),
        None if ids is None else counted(ledger, ids),
    )


def ended(ledger: Ledger, run: Run) -> Run:
    assert ledger.finish(run, SHA)
    return run


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.name != KEY)


# what is charged

RUNS = st.lists(
    st.tuples(
        st.none() | st.lists(st.integers(0, 6), max_size=8),
        st.integers(1, 4),
        st.sampled_from(["0", "1e-6", "3e-13"]),
        st.none() | st.integers(1, 3),
    ),
    max_size=14,
)


@given(RUNS, st.none() | st.integers(4, 40), st.sampled_from([60, 63]))
@settings(max_examples=25)
@example([([1, 1, 2], 2, "1e-6", None)] * 5, None, 2)
@example([([1, 1, 2], 2, "1e-6", None), ([3], 1, "0", 2), ([1, 3], 1, "0", None), ([1], 1, "0", None)], 5, 60)
@pytest.mark.slow
def test_sums_and_refusals_are_those_of_a_naive_model(tmp_path_factory, runs, cap, bits):
    """Amounts in eighths of epsilon, exactly; delta rounds up to 1e-12."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "SHIFT", np.uint64(bits))  # some share a row of the database
        patch.setattr(people, "AT_ONCE", 1)
        ledger = Ledger(tmp_path_factory.mktemp("ledger"))
        lost, everybody = Counter(), 0
        deltas, deltas_everybody = Counter(), 0
        for number, (ids, eighths, delta, most) in enumerate(runs):
            rows = Counter(ids or [])
            asked = {"epsilon": Fraction(eighths, 8), "delta": Fraction(delta), "most": most, "cap": None}
            if cap is not None:
                asked["cap"] = Decimal(cap) / 8
            if ids is not None and most is not None and max(rows.values(), default=0) > most:
                with pytest.raises(ValueError, match="people with more"):
                    begun(ledger, number, ids, **asked)
                continue
            own = {person: count * eighths for person, count in rows.items()}
            common = everybody + (0 if ids is not None else eighths * (most or 5))
            after = {
                person: lost[person] + own.get(person, 0) + common for person in (own if ids is not None else lost)
            }
            over = cap is not None and (common > cap or any(total > cap for total in after.values()))
            if ids is None:
                asked["rows"] = 5
            if over:
                beyond = [person for person, total in after.items() if total > cap]
                told = f"^{len(beyond)} (person|people) would exceed the cap"
                if ids is not None and common <= cap:
                    most_rows = max(rows[person] for person in beyond)
                    fitting = min((cap - after[person] + own[person]) // eighths for person in beyond)
                    told += f", with up to {most_rows} rows? each, of which {fitting or 'none'} would fit;"
                with pytest.raises(ValueError, match="everybody" if common > cap else told):
                    begun(ledger, number, ids, **asked)
                continue
            run = begun(ledger, number, ids, **asked)
            lost.update(own)
            everybody = common
            amount = -(-Fraction(delta) * 10**12 // 1) if delta == "0" else {"1e-6": 10**6, "3e-13": 1}[delta]
            deltas.update({person: count * int(amount) for person, count in rows.items()})
            deltas_everybody += 0 if ids is not None else int(amount) * (most or 5)
            if ids and cap is not None:
                assert run.epsilon_so_far * 8 >= max(after.values())
        assert ledger.spent(range(8)) == [Decimal(lost[person] + everybody) / 8 for person in range(8)]
        told = [Fraction(amount) * 10**12 for amount in ledger.spent_delta(range(8))]
        assert told == [deltas[person] + deltas_everybody for person in range(8)]


def test_amounts_round_up_and_caps_down(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7], epsilon=Fraction(1, 3), cap=Decimal("0.6666666666679"))
    assert ledger.spent([7, 8]) == [Decimal("0.333333333334"), 0]
    with pytest.raises(ValueError, match="1 person would exceed"):  # twice 0.333333333334 is more than 0.666666666667
        begun(ledger, 2, [7], epsilon=Fraction(1, 3))
    begun(ledger, 3, [8], epsilon=Fraction(1, 3))


def test_delta_has_a_cap_of_its_own(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7, 8, 8], delta=Fraction(1, 10**6), delta_cap=Decimal("2.5e-6"))
    assert ledger.spent_delta([7, 8]) == [Decimal("0.000001"), Decimal("0.000002")]
    with pytest.raises(ValueError, match=r"^1 person would exceed"):
        begun(ledger, 2, [7, 8], delta=Fraction(1, 10**6))
    assert ledger.settled() == ("id", None, Decimal("0.0000025"))


def test_prices_that_would_wrap_are_refused(tmp_path):
    ledger = Ledger(tmp_path)
    with pytest.raises(ValueError, match="4,600,000"):
        begun(ledger, 1, [7], epsilon=5 * 10**6)
    with pytest.raises(ValueError, match="4,600,000"):
        begun(ledger, 1, [7, 7], epsilon=3 * 10**6)
    begun(ledger, 1, [7], epsilon=4 * 10**6)
    with pytest.raises(ValueError, match="4,600,000"):
        begun(ledger, 2, [7], epsilon=4 * 10**6)
    begun(ledger, 3, rows=10**9, epsilon=1)  # everybody's amounts are Python's integers
    assert ledger.spent([7]) == [1_004_000_000]


def test_column_and_caps_are_fixed_once_stated(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7], cap=Decimal(3))
    for other in ({"cap": Decimal(4)}, {"person": "name"}):
        with pytest.raises(ValueError, match=r"holds every run to (cap 3|person 'id')"):
            begun(ledger, 2, [7], **other)
    begun(ledger, 2, [7], cap=Decimal("3.0"), delta_cap=Decimal("0.5"))
    assert ledger.settled() == ("id", 3, Decimal("0.5"))
    assert Ledger(tmp_path).settled() == ("id", 3, Decimal("0.5"))
    for cap in (Decimal("nan"), Decimal(0), Decimal(-1), Decimal("1e30")):
        with pytest.raises(ValueError, match=r"^cap"):
            begun(ledger, 3, [7], cap=cap)


def test_units_that_would_exceed_are_counted_and_not_named(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, ["secret", "hidden", "other"], cap=Decimal("0.5"))
    with pytest.raises(ValueError, match=r"^2 people would exceed") as refused:
        begun(ledger, 2, ["secret", "hidden", "fourth"])
    assert "secret" not in str(refused.value)
    begun(ledger, 3, ["fourth"])  # nothing was charged
    assert ledger.spent(["secret", "fourth"]) == [Decimal("0.5")] * 2


# one run, once


def test_a_run_goes_on_under_its_key_until_it_is_done(tmp_path):
    ledger = Ledger(tmp_path)
    first = begun(ledger, 1, [7])
    second = begun(Ledger(tmp_path), 1, [7])
    assert (first.state, second.state, second.key, second.id) == ("new", "resumed", first.key, first.id)
    ended(ledger, second)
    ended(ledger, first)  # the other process, which wrote the same
    moved = []
    with pytest.raises(ValueError, match="differs from what it was"):
        ledger.finish(first, "cd" * 32, lambda: moved.append(1))
    assert moved == []
    third = begun(ledger, 1, [7])
    assert (third.state, third.key, third.sha256) == ("done", None, SHA)
    assert ledger.spent([7]) == [HALF]
    fourth = begun(ledger, 1, [7], again=True)
    assert (fourth.state, fourth.times_before) == ("new", 1)
    assert fourth.key not in (None, first.key)
    assert ledger.spent([7]) == [1]
    assert [(run.state, run.rows) for run in ledger.runs()] == [("done", 1), ("charged", 1)]


def test_the_same_records_elsewhere_are_refused_unless_told(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7])
    with pytest.raises(ValueError, match=r"left 1 time under this policy \(a run that was stopped half-way counts: "):
        begun(ledger, 1, [7], target="other")
    begun(ledger, 1, [7], target="other", policy="another")
    assert begun(ledger, 1, [7], target="third", again=True).times_before == 1
    assert ledger.spent([7]) == [Decimal("1.5")]


def test_a_run_at_another_price_does_not_go_on(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7])
    with pytest.raises(ValueError, match="another price"):
        begun(ledger, 1, [7], epsilon=1)


def test_a_cap_above_what_runs_without_ids_charged_everybody_is_kept_to(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, rows=4)
    with pytest.raises(ValueError, match="charged everybody more than this cap leaves; raise the cap, or take another"):
        begun(ledger, 2, [7], cap=1)
    assert begun(ledger, 2, [7], cap="2.5").state == "new"
    assert begun(Ledger(tmp_path / "another"), 2, [7], cap=1).state == "new"


def test_secrets_are_neither_shown_nor_pickled(tmp_path):
    ledger = Ledger(tmp_path)
    run = begun(ledger, 1, [7])
    for secret in (run.key, ledger.key, ledger.digest_key):
        for shown in (repr(run), str(run), repr(ledger), repr(ledger.runs())):
            assert repr(secret)[2:-1] not in shown
            assert secret.hex() not in shown
        assert secret not in pickle.dumps(ledger)
    assert len({run.key, ledger.key, ledger.digest_key}) == 3
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(run)
    assert pickle.loads(pickle.dumps(ledger)).key == ledger.key
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / DATABASE).stat().st_mode & 0o777 == 0o600


def test_what_is_stated_of_a_run_that_goes_on_is_kept(tmp_path):
    ledger = Ledger(tmp_path)
    first = begun(ledger, 1, rows=9, most=1)
    for again in (False, True):
        with pytest.raises(ValueError, match=r"at most 1 row of a person, not 2 .*let it end as it was charged"):
            begun(ledger, 1, rows=9, most=2, cap=7, again=again)
    assert ledger.settled()[1] is None
    resumed = begun(ledger, 1, rows=9, most=1, cap="0.75")
    assert (resumed.state, resumed.id, ledger.settled()[1]) == ("resumed", first.id, Decimal("0.75"))
    with pytest.raises(ValueError, match="everybody would exceed the cap"):
        begun(ledger, 2, rows=1)
    with pytest.raises(ValueError, match="max_rows_per_person must be a whole number from 1 to"):
        begun(ledger, 3, rows=1, most=10**30)


@pytest.mark.slow
def test_of_a_run_that_is_done_no_key_is_left(tmp_path):
    """More keys at once than a page of the database holds, ended in another order."""
    ledger = Ledger(tmp_path)
    reader = sqlite3.connect(tmp_path / DATABASE)  # or the last to close would remove the log
    reader.execute("SELECT * FROM meta").fetchall()
    runs = [begun(ledger, number) for number in range(120)]
    before = bytes_of(tmp_path)
    assert all(run.key in before for run in runs)
    for run in (*runs[1::2], *runs[::4]):
        ended(ledger, run)
    after = bytes_of(tmp_path)
    assert (tmp_path / f"{DATABASE}-wal").stat().st_size == 0
    assert not any(run.key in after for run in (*runs[1::2], *runs[::4]))
    assert all(run.key in after for run in runs[2::4])
    reader.close()


def test_a_log_that_is_read_is_emptied_by_whoever_opens_the_ledger_next(tmp_path, monkeypatch):
    monkeypatch.setattr("epsworth.policy.ledger.store.PATIENCE", 0.1)
    ledger = Ledger(tmp_path)
    run = begun(ledger, 1)
    reader = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM runs").fetchall()
    assert not ledger.finish(run, SHA)
    assert run.key in bytes_of(tmp_path)
    reader.execute("COMMIT")
    Ledger(tmp_path)
    assert run.key not in bytes_of(tmp_path)
    reader.close()


def test_a_charge_is_on_the_disk_before_anything_is_drawn(tmp_path, monkeypatch):
    """In the database; or, while somebody reads the log, in the log, by a transaction that waits for the disk."""
    ledger, statements = Ledger(tmp_path), []
    log = tmp_path / f"{DATABASE}-wal"
    begun(ledger, 1)
    assert not log.exists() or log.stat().st_size == 0
    reader = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM runs").fetchall()

    def tracing(*given, **options):
        connection = CONNECT(*given, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", tracing)
    begun(ledger, 2)
    after = statements[statements.index("COMMIT") :]
    assert after[-2:] == ["PRAGMA synchronous = FULL", "UPDATE meta SET version = version"]
    assert log.stat().st_size > 0
    reader.close()


# what is killed, and what runs at once


def swept(folder: Path, few: int) -> tuple[int, dict[str, str]]:
    told = subprocess.run(
        [sys.executable, "-W", "ignore", ledger_child.__file__, str(folder), "sweep", str(few)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    lines, complaints = json.loads(told.stdout)
    return lines, complaints


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.slow
def test_a_run_that_is_killed_is_charged_once_and_completed(tmp_path):
    lines, complaints = swept(tmp_path, 25)
    assert lines > 300
    assert complaints == {}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_run_that_is_killed_before_any_line_is_charged_once_and_completed(tmp_path):
    memory = Path("/dev/shm")  # where waiting for the disk takes no time: there are a thousand runs
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        assert swept(Path(folder), 0)[1] == {}


@pytest.mark.slow
def test_of_eight_processes_at_once_no_more_are_charged_than_the_cap_allows(tmp_path):
    """A run costs its busiest person 2 of 6."""
    started = [
        subprocess.Popen(
            [sys.executable, ledger_child.__file__, str(tmp_path), f"out{number}", "6"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(8)
    ]  # fmt: skip
    told = [process.communicate(timeout=120) for process in started]
    words = Counter(out.strip() or err for out, err in told)
    refusal = "1 person would exceed the cap, with up to 2 rows each, of which none would fit"
    assert words == {"new": 3, f"{refusal}; release less, or leave out who has nothing left": 5}
    assert len(list(tmp_path.glob("out*"))) == 3
    assert Ledger(tmp_path / "ledger").spent([4, 0]) == [6, 3]


def test_threads_take_turns(tmp_path):
    ledger = Ledger(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ended(ledger, begun(ledger, number, [7, number])), range(20, 36)))
    assert ledger.spent([7, 20, 35]) == [8, HALF, HALF]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_while_another_thread_charges_waits_for_it(tmp_path):
    ledger = Ledger(tmp_path)
    stop = threading.Event()

    def charging():
        while not stop.is_set():
            ledger.spent([1])

    thread = threading.Thread(target=charging)
    thread.start()
    children = []
    for number in range(6):
        if not (pid := os.fork()):
            try:
                begun(ledger, number, [7])
                os._exit(0)
            finally:
                os._exit(1)
        children.append(pid)
    stop.set()
    thread.join()
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 6
    assert ledger.spent([7]) == [3]


# what is lost, altered, or cannot be kept


def spoilt(file: str, how):
    return pytest.param(file, how, id=f"{file} {how.__name__}")


def missing(path):
    path.unlink()


def emptied(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[:-8])


def edited(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


@pytest.fixture
def kept(tmp_path):
    """A ledger with a run of each kind."""
    ledger = Ledger(tmp_path)
    ended(ledger, begun(ledger, 1, [7, 8], cap=Decimal("0.7")))
    ended(ledger, begun(ledger, 2, [9, 10]))
    return ledger


@pytest.mark.parametrize(
    ("file", "how"),
    [
        *(spoilt(KEY, how) for how in (missing, emptied, cut, edited)),
        *(spoilt(DATABASE, how) for how in (missing, emptied, cut, zeros)),
    ],
)
def test_what_was_lost_or_altered_is_refused(kept, tmp_path, file, how):
    how(next(tmp_path.glob(file)))
    with pytest.raises(ValueError, match=r"restore|SQLite"):
        begun(Ledger(tmp_path), 3, [7, 9])
    with pytest.raises(ValueError, match=r"restore|SQLite"):
        Ledger(tmp_path).spent([7])


@pytest.fixture
def days(tmp_path):
    """A ledger on Monday and on Tuesday, with a run more; and another ledger."""
    ledger = Ledger(tmp_path / "kept")
    ended(ledger, begun(ledger, 1, [7, 8]))
    shutil.copytree(tmp_path / "kept", tmp_path / "monday")
    ended(ledger, begun(ledger, 2, [7, 9]))
    shutil.copytree(tmp_path / "kept", tmp_path / "tuesday")
    ended(Ledger(tmp_path / "another"), begun(Ledger(tmp_path / "another"), 1, [7, 8]))
    return tmp_path


def restored(days: Path, parts: dict[str, str]) -> Path:
    """Put the files of a pattern back from the copy of a day, for each pattern."""
    folder = days / "restored"
    folder.mkdir()
    for pattern, day in parts.items():
        for path in (days / day).glob(pattern):
            shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({DATABASE: "tuesday", KEY: "another"}, r"its key people\.key is not the one that it was written with"),
        ({DATABASE: "another", KEY: "tuesday"}, r"its key people\.key is not the one that it was written with"),
        ({DATABASE: "tuesday"}, r"its key people\.key is missing"),
        ({KEY: "tuesday"}, "its database was lost or emptied"),
    ],
)
@pytest.mark.cases(10)
def test_files_that_do_not_belong_together_are_refused(days, parts, told):
    """As half a restore leaves them; nothing is tidied away, and the command says the same."""
    folder = restored(days, parts)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=f"{told}.*; restore") as refused:
        Ledger(folder)
    assert str(refused.value).count("\n") == 0
    assert before == {name: (folder / name).read_bytes() for name in before}
    whole = {DATABASE: "tuesday", KEY: "tuesday"}
    shutil.rmtree(folder)
    assert Ledger(restored(days, whole)).spent([7, 8, 9]) == [1, HALF, HALF]


def test_a_database_of_something_else_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / DATABASE)) as file:
        file.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(ValueError, match="its database is no ledger's"):
        Ledger(tmp_path)


# what a head covers


def edit(folder: Path, *statements: str) -> None:
    """Change a database as its owner can."""
    with closing(sqlite3.connect(folder / DATABASE)) as file:
        for statement in statements:
            file.execute(statement)
        file.commit()


def test_a_head_holds_while_the_ledger_grows(tmp_path):
    ledger, heads = Ledger(tmp_path), []
    for number in range(1, 9):
        heads.append(ledger.head())
        run = begun(ledger, number, None if number % 4 == 3 else [7, number], delta=Fraction(1, 10**6))
        if number % 2:
            ended(ledger, run)
    assert [head.partition("-")[0] for head in heads] == [str(number) for number in range(8)]
    assert len(set(heads)) == 8
    for head in (*heads, ledger.head()):
        ledger.verify(head)
        Ledger(tmp_path).verify(head)
    before = ledger.head()
    ended(ledger, begun(ledger, 8, [7, 8], delta=Fraction(1, 10**6)))  # the output of a run is not what it covers
    assert ledger.head() == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET epsilon = 1 WHERE serial = 1",
        "UPDATE meta SET everybody_epsilon = '5'",
        "UPDATE runs SET person = NULL WHERE serial = 2",
        "UPDATE runs SET head = zeroblob(32) WHERE serial = 1",
        "UPDATE runs SET digest = zeroblob(32) WHERE serial = 1",
        "DELETE FROM runs WHERE serial = 2",
        "UPDATE runs SET serial = 9 WHERE serial = 2",
        "UPDATE people SET sums = zeroblob(24)",
        "DELETE FROM people WHERE bucket = (SELECT MAX(bucket) FROM people)",
    ],
)
@pytest.mark.cases(9)
def test_a_head_notices_what_the_owner_edits(kept, tmp_path, statement):
    """Which passes when the ledger is opened, as the page on it says."""
    head = kept.head()
    edit(tmp_path, statement)
    ledger = Ledger(tmp_path)
    with pytest.raises(ValueError, match="is not the one of this head: "):
        ledger.verify(head)


def test_a_head_notices_an_older_copy_and_another_past(days):
    """A whole folder that is put back is whole: nothing but a head tells that it is older."""
    head = Ledger(days / "tuesday").head()
    monday = Ledger(days / "monday")
    with pytest.raises(ValueError, match="holds 1 runs, but the head covers 2: runs are missing"):
        monday.verify(head)
    begun(monday, 2, [7, 9])
    with pytest.raises(ValueError, match="its first 2 runs are others than those that the head covers"):
        monday.verify(head)
    Ledger(days / "kept").verify(head)


@pytest.mark.parametrize("head", ["", "1", "0-00", "-1-" + 64 * "0", "0-" + 64 * "G", "\u0661-" + 64 * "0", None])
def test_what_is_no_head_is_told(kept, head):
    with pytest.raises(ValueError, match="the head must be a number of runs"):
        kept.verify(head)


def test_sums_that_were_overwritten_are_noticed_by_the_check_of_a_head(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7, 8])
    begun(ledger, 2, rows=3)
    head = ledger.head()
    edit(tmp_path, "UPDATE people SET sums = CAST(substr(sums, 1, 23) || x'01' AS BLOB)")
    with pytest.raises(ValueError, match="what people lost is not what its runs were charged"):
        ledger.verify(head)


# what a run costs


def steps(ledger: Ledger, number: int, monkeypatch) -> int:
    """Begin a run, and return how many instructions the database took."""
    count = 0

    def one_more():
        nonlocal count
        count += 1
        return 0

    def counting(*given, **options):
        connection = CONNECT(*given, **options)
        connection.set_progress_handler(one_more, 1)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", counting)
        ended(ledger, begun(ledger, number, [7 * number, 7 * number + 1]))
    return count


CONNECT = sqlite3.connect


@pytest.mark.slow
def test_one_more_run_reads_none_of_those_before_it(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path)
    begun(ledger, 0, [-1], cap="0.6")  # from the second run on, people are looked up
    early = [steps(ledger, number, monkeypatch) for number in range(1, 11)]
    for number in range(11, 180):
        begun(ledger, number, [7 * number])
    late = [steps(ledger, number, monkeypatch) for number in range(180, 200)]
    assert max(late) < 1.5 * max(early)
    others = Ledger(tmp_path / "others")
    repeats = [begun(others, 1, rows=1, target=f"out{number}", again=True) for number in range(30)]
    assert [run.times_before for run in repeats] == list(range(30))
    assert repeats[-1].epsilon_so_far == 15
    assert begun(others, 1, rows=1, target="out3").times_before == 29


OWN = [DATABASE, f"{DATABASE}-wal", f"{DATABASE}-journal", KEY, f".{KEY}.00", f".{KEY}.new", "PEOPLE.key"]


@pytest.mark.parametrize("name", OWN)
def test_no_output_has_a_name_of_the_ledgers_in_its_folder(kept, tmp_path, name):
    with pytest.raises(ValueError, match="output would take the place of a file of the ledger"):
        kept.check_apart("output", tmp_path / name)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "there")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "link.csv").symlink_to(tmp_path / name)
    with pytest.raises(ValueError, match="output would take the place of a file of the ledger"):
        kept.check_apart("output", tmp_path / "elsewhere" / "link.csv")
    kept.check_apart("output", tmp_path / "there" / name)
    kept.check_apart("output", tmp_path / "released.csv")
    kept.check_apart("output", tmp_path / "nowhere" / name)


def test_links_and_pipes_are_refused(tmp_path):
    for number, name in enumerate((KEY, DATABASE, f".{KEY}.new", f"{DATABASE}-wal")):
        for kind in ("link", "pipe"):
            folder = tmp_path / f"{number}{kind}"
            Ledger(folder)
            (folder / name).unlink(missing_ok=True)
            if kind == "link":
                (folder / name).symlink_to(tmp_path / "elsewhere")
            else:
                os.mkfifo(folder / name)
            with pytest.raises(ValueError, match="is a link, a pipe or a folder"):
                Ledger(folder)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"cannot be kept .Not a directory"):
        Ledger(tmp_path / "file" / "ledger")
    with pytest.raises(ValueError, match=r"a ledger is a folder, and .*file is a file; name another place"):
        Ledger(tmp_path / "file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="whoever runs this may write anywhere")
def test_a_folder_that_is_read_only_is_told(kept, tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ValueError, match="so nothing may leave"):
            begun(kept, 3, [7])
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.slow
def test_a_disk_that_is_full_charges_nothing(tmp_path):
    """A limit on the size of files is the same to whoever writes."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000));"
        "sys.path.insert(0, sys.argv[2]);"
        "from pathlib import Path; import test_ledger_store as t;"
        "t.begun(t.Ledger(Path(sys.argv[1])), 1, t.np.arange(100_000))"
    )
    Ledger(tmp_path)
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)], capture_output=True, text=True
    )
    last = told.stderr.splitlines()[-1]
    assert "so nothing may leave: it cannot be written or read (" in last
    assert last.endswith("see to the folder's rights and space")
    ledger = Ledger(tmp_path)
    assert ledger.runs() == []
    begun(ledger, 1, np.arange(100_000))


def test_a_ledger_that_others_keep_is_told(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path)
    monkeypatch.setattr("epsworth.policy.ledger.store.PATIENCE", 0.05)
    other = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ValueError, match="other processes kept it"):
        begun(ledger, 1, [7])
    other.close()


def test_a_fresh_key_that_a_killed_process_left_is_used_or_removed(tmp_path):
    tmp_path.joinpath(f".{KEY}.new").write_bytes(bytes(32))
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7])
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert ledger.key != bytes(32)


# what came before


def test_digests_are_keyed(tmp_path):
    one, other = (Ledger(tmp_path / name) for name in "ab")
    assert one.digest_key != other.digest_key
    assert hashlib.blake2b(b"x", key=one.digest_key).digest() != hashlib.blake2b(b"x", key=one.key).digest()


@given(st.fractions(0, 4_600_000) | st.fractions(0, 10))
def test_amounts_are_never_below_what_is_charged(value):
    amount = amount_above("epsilon", value)
    assert Fraction(amount - 1, ONE) < value <= Fraction(amount, ONE)


@pytest.mark.parametrize(
    ("column", "value"),
    [("key_check", "x"), ("key_check", -1), ("everybody_epsilon", "x"), ("everybody_epsilon", "-1"), ("cap", "x"),
     ("cap", b"7777777"), ("cap", -1), ("delta_cap", "x"), ("person", b"x")],
)  # fmt: skip
@pytest.mark.cases("all")
def test_what_is_fixed_is_read_as_amounts_and_names_or_refused(tmp_path, column, value):
    ended(ledger := Ledger(tmp_path), begun(ledger, 1, [7], cap=3))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute(f"UPDATE meta SET {column} = ?", (value,))
    with pytest.raises(ValueError, match=r"do not belong together|damaged"):
        begun(Ledger(tmp_path), 2, [8], cap=3)
