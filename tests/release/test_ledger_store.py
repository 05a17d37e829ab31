"""Every run is charged once, before anything can be drawn; no unit exceeds its cap, and no past is forgotten."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
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

from epsworth.release import ledger as ledger_module
from epsworth.release import unit_files
from epsworth.release.ledger import Ledger
from epsworth.release.ledger_folder import DATABASE, KEY, MADE
from epsworth.release.ledger_terms import ONE, Identity, Run, Terms, amount_above
from epsworth.release.units import UnitCounts

HALF = Fraction(1, 2)
SHA = "ab" * 32


def counted(ledger: Ledger, ids) -> UnitCounts:
    counts = UnitCounts()
    counts.add(ledger.hashes(ids))
    return counts


def begun(ledger: Ledger, number: int, ids=None, *, target: str = "out", **terms) -> Run:
    """Begin a run of its own records."""
    rows = terms.pop("rows", 1 if ids is None else len(ids))
    unit = terms.pop("unit", None if ids is None else "id")
    price = Fraction(terms.pop("epsilon", HALF)), Fraction(terms.pop("delta", 0))
    return ledger.begin(
        Terms(terms.pop("policy", "policy"), *price, rows, unit, **terms),
        Identity("policy 1", bytes([number]) * 32, target),
        None if ids is None else counted(ledger, ids),
    )


def ended(ledger: Ledger, run: Run) -> Run:
    ledger.seal(run, SHA)
    assert ledger.done(run)
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


@given(RUNS, st.none() | st.integers(4, 40), st.sampled_from([2, 8]))
@settings(max_examples=25)
@example([([1, 1, 2], 2, "1e-6", None)] * 5, None, 2)
@example([([1, 1, 2], 2, "1e-6", None), ([3], 1, "0", 2), ([1, 3], 1, "0", None), ([1], 1, "0", None)], 5, 8)
@pytest.mark.slow
def test_sums_and_refusals_are_those_of_a_naive_model(tmp_path_factory, runs, cap, files):
    """Amounts in eighths of epsilon, exactly; delta rounds up to 1e-12."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_module, "MOST_FILES", files)
        patch.setattr(unit_files, "PIECE", 3)
        ledger = Ledger(tmp_path_factory.mktemp("ledger"))
        lost, everybody = Counter(), 0
        deltas, deltas_everybody = Counter(), 0
        for number, (ids, eighths, delta, most) in enumerate(runs):
            rows = Counter(ids or [])
            asked = {"epsilon": Fraction(eighths, 8), "delta": Fraction(delta), "most": most, "cap": None}
            if cap is not None:
                asked["cap"] = Decimal(cap) / 8
            if ids is not None and most is not None and max(rows.values(), default=0) > most:
                with pytest.raises(ValueError, match="units with more"):
                    begun(ledger, number, ids, **asked)
                continue
            own = {unit: count * eighths for unit, count in rows.items()}
            common = everybody + (0 if ids is not None else eighths * (most or 5))
            after = {unit: lost[unit] + own.get(unit, 0) + common for unit in (own if ids is not None else lost)}
            over = cap is not None and (common > cap or any(total > cap for total in after.values()))
            if ids is None:
                asked["rows"] = 5
            if over:
                count = sum(total > cap for total in after.values())
                with pytest.raises(ValueError, match="everybody" if common > cap else f"^{count} unit"):
                    begun(ledger, number, ids, **asked)
                continue
            run = begun(ledger, number, ids, **asked)
            lost.update(own)
            everybody = common
            amount = -(-Fraction(delta) * 10**12 // 1) if delta == "0" else {"1e-6": 10**6, "3e-13": 1}[delta]
            deltas.update({unit: count * int(amount) for unit, count in rows.items()})
            deltas_everybody += 0 if ids is not None else int(amount) * (most or 5)
            if ids and cap is not None:
                assert run.epsilon_so_far * 8 >= max(after.values())
        assert ledger.spent(range(8)) == [Decimal(lost[unit] + everybody) / 8 for unit in range(8)]
        told = [Fraction(amount) * 10**12 for amount in ledger.spent_delta(range(8))]
        assert told == [deltas[unit] + deltas_everybody for unit in range(8)]


def test_amounts_round_up_and_caps_down(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7], epsilon=Fraction(1, 3), cap=Decimal("0.6666666666679"))
    assert ledger.spent([7, 8]) == [Decimal("0.333333333334"), 0]
    with pytest.raises(ValueError, match="1 unit would exceed"):  # twice 0.333333333334 is more than 0.666666666667
        begun(ledger, 2, [7], epsilon=Fraction(1, 3))
    begun(ledger, 3, [8], epsilon=Fraction(1, 3))


def test_delta_has_a_cap_of_its_own(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7, 8, 8], delta=Fraction(1, 10**6), delta_cap=Decimal("2.5e-6"))
    assert ledger.spent_delta([7, 8]) == [Decimal("0.000001"), Decimal("0.000002")]
    with pytest.raises(ValueError, match=r"^1 unit would exceed"):
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
    for other in ({"cap": Decimal(4)}, {"unit": "name"}):
        with pytest.raises(ValueError, match=r"holds every run to (cap 3|unit 'id')"):
            begun(ledger, 2, [7], **other)
    begun(ledger, 2, [7], cap=Decimal("3.0"), delta_cap=Decimal("0.5"))
    assert ledger.settled() == ("id", 3, Decimal("0.5"))
    assert Ledger(tmp_path).settled() == ("id", 3, Decimal("0.5"))
    for cap in (Decimal("nan"), Decimal(0), Decimal(-1), Decimal("1e30")):
        with pytest.raises(ValueError, match=r"^cap"):
            begun(ledger, 3, [7], cap=cap)
    with pytest.raises(ValueError, match="no units are counted"):
        begun(ledger, 3, unit="id")
    with pytest.raises(ValueError, match="no column is named"):
        begun(Ledger(tmp_path / "other"), 3, [7], unit=None)


def test_units_that_would_exceed_are_counted_and_not_named(tmp_path):
    ledger = Ledger(tmp_path)
    begun(ledger, 1, ["secret", "hidden", "other"], cap=Decimal("0.5"))
    with pytest.raises(ValueError, match=r"^2 units would exceed") as refused:
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
    with pytest.raises(ValueError, match="no whole output"):
        ledger.done(first)
    ended(ledger, second)
    ended(ledger, first)  # the other process, which wrote the same
    with pytest.raises(ValueError, match="differs from what it was"):
        ledger.seal(first, "cd" * 32)
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
        with pytest.raises(ValueError, match=r"at most 1 row of a unit, not 2 .*let it end as it was charged"):
            begun(ledger, 1, rows=9, most=2, cap=7, again=again)
    assert ledger.settled()[1] is None
    resumed = begun(ledger, 1, rows=9, most=1, cap="0.75")
    assert (resumed.state, resumed.id, ledger.settled()[1]) == ("resumed", first.id, Decimal("0.75"))
    with pytest.raises(ValueError, match="everybody would exceed the cap"):
        begun(ledger, 2, rows=1)
    with pytest.raises(ValueError, match="most must be a whole number from 1 to"):
        begun(ledger, 3, rows=1, most=10**30)


@pytest.mark.slow
def test_of_a_run_that_is_done_no_key_is_left(tmp_path):
    """More keys at once than a page of the database holds, ended in another order."""
    ledger = Ledger(tmp_path)
    reader = sqlite3.connect(tmp_path / DATABASE)  # or the last to close would remove the log
    reader.execute("SELECT * FROM about").fetchall()
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
    monkeypatch.setattr("epsworth.release.ledger_folder.PATIENCE", 0.1)
    ledger = Ledger(tmp_path)
    run = begun(ledger, 1)
    reader = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM runs").fetchall()
    ledger.seal(run, SHA)
    assert not ledger.done(run)
    assert run.key in bytes_of(tmp_path)
    reader.execute("COMMIT")
    Ledger(tmp_path)
    assert run.key not in bytes_of(tmp_path)
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
    """A run costs its busiest unit 2 of 6."""
    started = [
        subprocess.Popen(
            [sys.executable, ledger_child.__file__, str(tmp_path), f"out{number}", "6"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(8)
    ]  # fmt: skip
    told = [process.communicate(timeout=120) for process in started]
    words = Counter(out.strip() or err for out, err in told)
    assert words == {"new": 3, "1 unit would exceed the cap; release less, or leave out who has nothing left": 5}
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
        *(spoilt("*.u64", how) for how in (missing, emptied, cut, edited)),
    ],
)
def test_what_was_lost_or_altered_is_refused(kept, tmp_path, file, how):
    how(next(tmp_path.glob(file)))
    with pytest.raises(ValueError, match=r"restore|SQLite"):  # unread units are known by their length alone
        begun(Ledger(tmp_path), 3, [7, 9])
    with pytest.raises(ValueError, match=r"restore|SQLite"):
        Ledger(tmp_path).spent([7])


def edit(folder: Path, *statements: str) -> None:
    """Change a database as one who has no key can."""
    file = sqlite3.connect(folder / DATABASE)
    for statement in statements:
        file.execute(statement)
    file.commit()
    file.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET epsilon = 1",
        "DELETE FROM runs WHERE serial = 2",
        "DELETE FROM runs",
        "UPDATE runs SET serial = 9 WHERE serial = 2",
        "UPDATE runs SET state = 'imported' WHERE serial = 1",
        "UPDATE runs SET sha256 = NULL WHERE serial = 1",
        f"UPDATE runs SET sha256 = '{'cd' * 32}' WHERE serial = 2",
        "UPDATE about SET cap = NULL",
        "DELETE FROM about",
        "DELETE FROM files",
        "UPDATE files SET epsilon = 1",
        "INSERT INTO files SELECT * FROM files WHERE name = (SELECT MIN(name) FROM files)",
        "DROP TABLE runs",
        "DROP TABLE files",
        "CREATE TRIGGER kind AFTER INSERT ON runs BEGIN DELETE FROM files; END",
        "CREATE VIEW runs_of_mine AS SELECT * FROM runs",
        "CREATE UNIQUE INDEX one ON runs (digest)",
        "INSERT INTO keys SELECT id, zeroblob(32), zeroblob(16) FROM runs",
    ],
)
@pytest.mark.cases(1)
def test_a_database_that_was_edited_is_refused(kept, tmp_path, statement):
    edit(tmp_path, statement)
    for ledger in (Ledger, lambda folder: kept.runs()):  # opened anew, and by whom it was open
        with pytest.raises(ValueError, match="is not what was kept"):
            ledger(tmp_path)


def test_a_run_that_is_done_draws_from_no_key_of_another(kept, tmp_path):
    """A key that somebody put there would draw anew, and the charge was for what left."""
    run = begun(kept, 3, [11])
    stolen = "INSERT INTO keys SELECT {}, key, mark FROM keys"
    for statement in (stolen.format("(SELECT id FROM runs WHERE serial = 1)"), "UPDATE keys SET key = zeroblob(32)"):
        saved = {path: path.read_bytes() for path in tmp_path.iterdir()}
        edit(tmp_path, "UPDATE runs SET state = 'charged', sha256 = NULL WHERE serial = 1", statement)
        with pytest.raises(ValueError, match="is not what was kept"):
            Ledger(tmp_path)
        for path, content in saved.items():
            path.write_bytes(content)
    assert begun(kept, 3, [11]).key == run.key


def test_a_key_that_was_put_there_is_refused(tmp_path):
    """Whoever knows a run's key knows its draws: another's, and one of zeros."""
    ledger = Ledger(tmp_path)
    begun(ledger, 1, [7])
    edit(tmp_path, "UPDATE keys SET key = zeroblob(32)")
    with pytest.raises(ValueError, match="is not what was kept"):
        begun(ledger, 1, [7])


@pytest.mark.parametrize("how", ["a new run", "a run that goes on"])
def test_what_was_fixed_before_is_not_brought_back(tmp_path, how):
    """The row of the time without a cap, put in the place of that with one, with the newest run's, too."""
    ledger = Ledger(tmp_path)
    first = begun(ledger, 1, [7])
    file = sqlite3.connect(tmp_path / DATABASE)
    old = {table: file.execute(f"SELECT * FROM {table}").fetchall() for table in ("about", "runs")}
    begun(ledger, *((2, [8]) if how == "a new run" else (1, [7])), cap=Decimal("0.5"))
    with pytest.raises(ValueError, match="1 unit would exceed"):
        begun(ledger, 3, [7])
    for tables in (["about"], ["about", "runs"]):
        for table in tables:
            file.executemany(
                f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(old[table][0]))})", old[table]
            )
        file.commit()
        with pytest.raises(ValueError, match="is not what was kept"):
            Ledger(tmp_path)
    file.close()
    assert first.key


def test_files_that_cover_a_run_twice_are_refused(tmp_path, monkeypatch):
    """Rows and files that were true before, so many that their numbers add up: runs 2 and 4 are forgotten."""
    monkeypatch.setattr(ledger_module, "MOST_FILES", 2)
    ledger, files, rows = Ledger(tmp_path), {}, {}
    for number in range(1, 5):  # 1 and 2 alone, 1 to 3 together, 4 alone
        begun(ledger, number, [7])
        files |= {path.name: path.read_bytes() for path in tmp_path.glob("*.u64")}
        with closing(sqlite3.connect(tmp_path / DATABASE)) as file:
            rows |= {row[0]: row for row in file.execute("SELECT * FROM files")}
    names = [begun(ledger, number, [7]).id.hex() + ".u64" for number in range(1, 5)]
    assert [rows[name][-2] for name in names] == [1, 1, 3, 1]
    edit(tmp_path, "DELETE FROM files")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as file:
        file.executemany(f"INSERT INTO files VALUES ({', '.join('?' * 9)})", [rows[names[0]], rows[names[2]]])
        file.commit()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="is not what was kept"):
        Ledger(tmp_path)


def test_an_older_copy_of_the_database_is_refused(tmp_path):
    ledger = Ledger(tmp_path)
    ended(ledger, begun(ledger, 1, [7]))
    older, mark = (tmp_path / DATABASE).read_bytes(), (tmp_path / MADE).read_bytes()
    ended(ledger, begun(ledger, 2, [7]))
    (tmp_path / DATABASE).write_bytes(older)
    with pytest.raises(
        ValueError, match=r"its mark ledger\.made is of other runs than its database, as beside an older"
    ):
        Ledger(tmp_path)
    assert len(list(tmp_path.glob("*.u64"))) == 2  # and nothing is tidied away
    (tmp_path / MADE).write_bytes(mark)
    with pytest.raises(ValueError, match=r"does not know the run of [0-9a-f]{32}\.u64, as an older copy"):
        Ledger(tmp_path)
    assert len(list(tmp_path.glob("*.u64"))) == 2


@pytest.mark.parametrize("how", [missing, emptied, cut, zeros])
def test_a_ledger_without_its_whole_mark_is_refused(kept, tmp_path, how):
    how(tmp_path / MADE)
    with pytest.raises(ValueError, match=r"its mark ledger\.made is .* restore the whole folder"):
        Ledger(tmp_path)


def test_the_mark_holds_whether_a_charge_came_to_its_end_or_not(kept, tmp_path):
    """Who is killed between mark and charge leaves a mark of both; the next makes it that of the one."""
    before = (tmp_path / MADE).read_bytes()

    def charge_half():
        with kept._place.alone() as tables:
            tables.charge(tables.lines()[0]._replace(serial=3, id=bytes(16), unit=None), bytes(32))
            kept._place._write_mark(before[:16] + tables.past())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        charge_half()
    assert (tmp_path / MADE).read_bytes() != before
    assert len(Ledger(tmp_path).runs()) == 2
    assert (tmp_path / MADE).read_bytes() == before


def test_only_what_the_ledger_made_and_needs_no_more_is_removed(kept, tmp_path):
    """Files of runs that were put together, and of runs that were never charged; no other, whatever its name."""
    units = sorted(path.name for path in tmp_path.glob("*.u64"))
    stray, others = tmp_path / f"{'0f' * 16}.u64.new", ("mine.u64", f"{'0F' * 16}.u64", "x.u64.new", f".{KEY}.mine")
    for name in (stray.name, *others):
        (tmp_path / name).write_bytes(bytes(8))
    Ledger(tmp_path)
    assert not stray.exists()
    assert all((tmp_path / name).exists() for name in others)
    assert set(units) <= {path.name for path in tmp_path.iterdir()}
    (tmp_path / units[0]).rename(tmp_path / f"{units[0]}.new")  # killed before it had its name
    assert Ledger(tmp_path).spent([7, 9]) == [HALF, HALF]
    assert (tmp_path / units[0]).exists()


def test_files_that_were_put_together_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "MOST_FILES", 2)
    ledger = Ledger(tmp_path)
    for number in range(5):
        begun(ledger, number, [7, number])
    assert len(list(tmp_path.glob("*.u64*"))) == 1
    assert Ledger(tmp_path).spent([7, 3]) == [Decimal("2.5"), HALF]


OWN = [DATABASE, f"{DATABASE}-wal", f"{DATABASE}-journal", KEY, f".{KEY}.00", MADE, f".{MADE}.new", "LEDGER.made"]


@pytest.mark.parametrize("name", [*OWN, f"{'0f' * 16}.u64", "any.u64", "any.u64.new"])
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
    for number, name in enumerate((KEY, DATABASE, MADE, f"{DATABASE}-wal")):
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
    assert "so nothing may leave; see to the folder's rights and space" in told.stderr.splitlines()[-1]
    ledger = Ledger(tmp_path)
    assert ledger.runs() == []
    assert list(tmp_path.glob("*.u64")) == []
    begun(ledger, 1, np.arange(100_000))


def test_a_ledger_that_others_keep_is_told(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path)
    monkeypatch.setattr("epsworth.release.ledger_folder.PATIENCE", 0.05)
    other = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ValueError, match="other processes kept it"):
        begun(ledger, 1, [7])
    other.close()


def test_a_fresh_key_that_a_killed_process_left_is_used_or_removed(tmp_path):
    tmp_path.joinpath(f".{KEY}.0011223344556677").write_bytes(bytes(32))
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
