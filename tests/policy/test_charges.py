"""What a run costs, when it is charged, and in which order things reach the disk."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

import epsworth as ew
from epsworth import lines
from epsworth.client.kernels import exp_below
from epsworth.files import OutputError
from epsworth.mechanisms.table import KERNELS
from epsworth.mechanisms.words import ReplayableWords
from epsworth.policy import Ledger, Policy, perturb_file
from epsworth.policy.files import one_file, parquet_table
from epsworth.policy.files.file_tables import PartWords, file_table
from epsworth.policy.files.one_file import price_of
from epsworth.policy.ledger.store import Tables
from epsworth.policy.tables import Perturbation

AGES = ew.Domain.of({"age": (0, 100)})
POLICY = Policy.of("pm", 2, AGES, bits=4, passing=["id"])
ROUGH = Policy.of("gaussian_clipped:delta=0.1", 1, AGES, bits=4, passing=["id"])


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id,age\n" + "".join(f"{i},{i % 100}\n" for i in range(50)))
    return path


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_nothing_is_charged_for_a_table_that_is_refused(table):
    table.write_text(table.read_text() + "51,old\n")
    with pytest.raises(ValueError, match=r"row 50.*, age: the value is missing, or not a number"):
        perturb_file(POLICY, table, table.with_name("out.csv"))
    assert Ledger().runs() == []


def test_a_person_pays_for_each_of_its_rows_in_any_file_order_and_format(table):
    folder = table.parent
    perturb_file(POLICY, table, folder / "out.csv", person="id", cap=6)
    (folder / "more.jsonl").write_text('{"age": 3, "id": 7}\n{"id": "7", "age": 4}\n{"id": 9, "age": 1}\n')
    receipt = perturb_file(POLICY, folder / "more.jsonl", folder / "more-out.jsonl", person="id")
    assert (receipt.people, receipt.most, receipt.person) == (2, 2, "id")
    assert "2 people (id), at most 2 rows each: epsilon 4 per person" in str(receipt)
    assert [float(spent) for spent in Ledger().spent(["7", 9, 8, 99])] == pytest.approx([6, 4, 2, 0])
    (folder / "last.csv").write_text("age,id\r\n3,7\r\n3,8\r\n")
    with pytest.raises(ValueError, match="1 person would exceed the cap"):
        perturb_file(POLICY, folder / "last.csv", folder / "last-out.csv", person="id")
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
@pytest.mark.parametrize(
    "value", ["7.0", "7e0", "+7", "7\u200b", "\uff17", "7\u2800", "7\u2065", "7\U000e0080", "Zoe\u0308"]
)
def test_another_spelling_of_a_person_is_no_other_person(tmp_path, kind, value, monkeypatch):
    """The row is that of the whole file, in whichever part it stands."""
    monkeypatch.setattr("epsworth.lines.PART", 64)
    source = write(tmp_path / f"in.{kind}", [*map(str, range(40)), "007", value])
    with pytest.raises(
        ValueError, match=r"row 41.*, id: the id (is another spelling|holds a character|is not in)"
    ) as refused:
        perturb_file(POLICY, source, tmp_path / f"out.{kind}", person="id", cap=2)
    assert value not in str(refused.value).partition("the id")[0]
    assert Ledger().runs() == []


def test_a_run_that_was_charged_for_fewer_rows_of_a_person_is_not_told_of_more(table):
    out = table.with_name("out.csv")
    perturb_file(POLICY, table, out, max_rows_per_person=1)
    for more in (2, None):
        with pytest.raises(ValueError, match=r"charged for at most 1 row of a person, not (2|50) .*again=True"):
            perturb_file(POLICY, table, out, max_rows_per_person=more)
    assert float(Ledger().spent([7])[0]) == pytest.approx(2)
    assert perturb_file(POLICY, table, out, max_rows_per_person=2, again=True).most == 2
    assert float(Ledger().spent([7])[0]) == pytest.approx(2 + 4)


def test_a_cap_that_is_first_stated_when_the_run_is_done_holds_from_then_on(table):
    out = table.with_name("out.csv")
    perturb_file(POLICY, table, out, person="id")
    perturb_file(POLICY, table, out, person="id", cap=3)
    assert Ledger().settled()[1] == 3
    with pytest.raises(ValueError, match="50 people would exceed the cap"):
        perturb_file(POLICY, table, out, person="id", again=True)


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({"max_rows_per_person": 10**30}, "max_rows_per_person must be a whole number from 1 to 9223372036854775807"),
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
    assert "(person=): the ledger charges epsilon 100 to everybody" in str(receipt)
    assert float(Ledger().spent(["anybody"])[0]) == pytest.approx(50 * 2)
    again = perturb_file(POLICY, table, table.with_name("out2.csv"), again=True, max_rows_per_person=1)
    assert (again.times_before, again.epsilon_so_far) == (1, pytest.approx(4))
    assert float(Ledger().spent(["anybody"])[0]) == pytest.approx(50 * 2 + 2)


def test_the_same_run_asked_again_is_done(table):
    out = table.with_name("out.csv")
    first = perturb_file(POLICY, table, out, person="id")
    released = out.read_bytes()
    assert perturb_file(POLICY, table, out, person="id") == first
    assert out.read_bytes() == released
    assert len(Ledger().runs()) == 1
    out.write_text("another's")
    with pytest.raises(ValueError, match=r"left 1 time under this policy .*again=True"):
        perturb_file(POLICY, table, out, person="id")
    assert out.read_text() == "another's"
    perturb_file(POLICY, table, out, person="id", again=True)
    assert out.read_bytes() != released
    assert len(Ledger().runs()) == 2


def test_a_run_that_is_stopped_behind_its_move_goes_on_to_the_same_bytes(table, monkeypatch):
    out = table.with_name("out.csv")
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "finish", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            perturb_file(POLICY, table, out, person="id")
    released = out.read_bytes()
    assert [run.state for run in Ledger().runs()] == ["charged"]
    perturb_file(POLICY, table, out, person="id")
    assert (out.read_bytes(), hidden(table.parent)) == (released, [])
    assert [run.state for run in Ledger().runs()] == ["done"]
    assert float(Ledger().spent([7])[0]) == pytest.approx(2)


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


def test_a_table_that_changes_between_its_readings_is_refused(table, monkeypatch):
    monkeypatch.setattr(one_file, "HELD", 0)

    def change(share):
        if share == 0.4:
            table.write_text(table.read_text().replace("1,1\n", "1,2\n"))

    with pytest.raises(
        ValueError, match=r"changed while it was read; .* the run is charged: put the file back .* its key"
    ):
        perturb_file(POLICY, table, table.with_name("out.csv"), progress=change)
    assert (table.with_name("out.csv").exists(), hidden(table.parent)) == (False, [])


def test_a_table_that_is_held_is_drawn_from_what_was_charged(table, monkeypatch):
    """Whatever stands in the file meanwhile: what does not fit into memory is read again, and compared."""
    before = table.read_text()
    monkeypatch.setattr(lines, "PART", 16)

    def change(share):
        if share == 0.4:
            table.write_text(before.replace("49,49\n", "49,50\n"))

    out = table.with_name("out.csv")
    receipt = perturb_file(POLICY, table, out, progress=change)
    assert (receipt.rows, receipt.already_done) == (before.count("\n") - 1, False)
    table.write_text(before)
    assert perturb_file(POLICY, table, out).already_done  # it is the charged table's output
    monkeypatch.setattr(one_file, "HELD", 20)  # the first part alone
    with pytest.raises(ValueError, match="changed while it was read"):
        perturb_file(POLICY, table, table.with_name("other.csv"), again=True, progress=change)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_equal_bytes_are_drawn_whatever_is_held(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART", 64)
    monkeypatch.setattr(parquet_table, "ROWS", 16)
    source = tmp_path / f"table.{kind}"
    frame = pl.DataFrame({"id": range(100), "age": [(7 * i) % 100 for i in range(100)]})
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](source)
    drawn, held = [], []
    for hold in (0, 300, 1 << 20):
        table = file_table(kind, Perturbation(POLICY), source)
        seen = table.seen(hold=hold)
        held.append(len(seen.held) / len(seen.parts))
        assert table.write(seen, lambda number, digest: ReplayableWords(number), tmp_path / "sink") == 100
        drawn.append((tmp_path / "sink").read_bytes())
    assert held[0] == 0 < held[1] < held[2] == 1
    assert drawn[0] == drawn[1] == drawn[2]


def test_threads_at_once_release_the_records_once(table):
    meeting = threading.Barrier(4)

    def run(number):
        meeting.wait(5)
        try:
            perturb_file(POLICY, table, table.with_name(f"out{number}.csv"), person="id", cap=2)
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
        if Path(target).name != "out.csv":  # the ledger's own mark
            return replace(source, target)
        events.append((Path(target).name, os.stat(source).st_ino))
        assert [run.state for run in Ledger().runs()] == ["charged"]
        events.append(("moving", 0))
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", move)
    perturb_file(POLICY, table, table.with_name("out.csv"))
    (at,) = [i for i, (name, _) in enumerate(events) if name == "out.csv"]
    assert ("disk", events[at][1]) in events[:at]  # what moves
    after = events[events.index(("moving", 0)) + 1 :]
    assert after[0] == ("disk", table.parent.stat().st_ino)  # its new name, before the run is done


def test_deltas_add_up(table):
    perturb_file(ROUGH, table, table.with_name("out.csv"), person="id", delta_cap="0.25")
    receipt = perturb_file(ROUGH, table, table.with_name("out2.csv"), person="id", again=True)
    assert 2 * ROUGH.guarantee.delta <= receipt.delta_so_far <= 0.2
    with pytest.raises(ValueError, match="50 people would exceed the cap"):
        perturb_file(ROUGH, table, table.with_name("out3.csv"), person="id", again=True)


def test_no_output_stands_in_the_ledgers_place(table):
    folder = table.parent
    perturb_file(POLICY, table, folder / "out.csv", ledger=folder)
    for name in ("ledger.sqlite3", "people.key"):
        (folder / f"{name}.csv").symlink_to(name)
        with pytest.raises(ValueError, match="itself; give another path"):
            perturb_file(POLICY, table, folder / f"{name}.csv", ledger=folder, again=True)


EXACT = ["0.1", "0.2", "0.3", "0.7", "1", "2.3"]


@pytest.mark.parametrize("mechanism", [*KERNELS, "gaussian_clipped:delta=0.1", "krr:k=2"])
def test_what_is_charged_is_proven_for_the_integers_and_never_more_than_stated(mechanism):
    """Probabilities up to e^charged times each other, bounded from below, and what is beyond is the delta charged."""
    for epsilon in EXACT:
        rule = Policy.of(mechanism, epsilon, AGES, bits=4).rules[0]
        charged, delta = rule.proven
        found = rule.kernel
        assert charged <= Fraction(epsilon)
        assert charged <= Fraction(found.guarantee.epsilon)
        if not delta and charged < Fraction(found.guarantee.epsilon):
            assert found.ratio() <= exp_below(charged)
        elif delta:
            assert max(found.slack(exp_below(charged)), 0) <= delta <= found.stated


def test_the_price_of_a_record_is_that_of_its_features_together():
    """A tenth is charged as one, and not as the float above it."""
    ages = ew.Domain.of({"age": (0, 100), "sick": (0, 1), "job": ["a", "b"]})
    assert price_of(Policy.of("krr:k=2", "0.1", ages, per="feature")) == (Fraction(3, 10), 0)
    assert price_of(Policy.of("krr:k=2", {"age": "0.1", "sick": "0.3", "job": "0.2"}, ages, sample=2))[0] <= Fraction(
        1, 2
    )
    several = Policy.of(
        "gaussian_clipped:delta=0.1", 1, ew.Domain.of({"age": (0, 100), "sick": (0, 1)}), per="feature", bits=4
    )
    epsilon, delta = price_of(several)
    assert epsilon <= several.total
    assert 0 < delta <= Fraction(several.guarantee.delta)


@pytest.mark.parametrize("mechanism", ["krr:k=2", "gaussian_clipped:delta=0.1"])
def test_three_tenths_fit_a_cap_of_as_many(tmp_path, mechanism):
    policy = Policy.of(mechanism, "0.1", AGES, bits=4, passing=["id"])
    for number in range(4):
        path = tmp_path / f"in{number}.csv"
        path.write_text(f"id,age\n7,{number}\n")
        if number == 3:
            with pytest.raises(ValueError, match="1 person would exceed"):
                perturb_file(policy, path, tmp_path / "out3.csv", person="id", cap="0.3")
        else:
            perturb_file(policy, path, tmp_path / f"out{number}.csv", person="id", cap="0.3")
    assert Ledger().spent([7]) == [Decimal("0.3")]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_who_comes_second_with_the_same_run_finds_it_done(tmp_path, kind, monkeypatch):
    """The first is done while the second writes, and removes the second's hidden file."""
    table = pl.DataFrame({"id": [1, 2], "age": [3, 4]})
    source, output = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    {"csv": table.write_csv, "jsonl": table.write_ndjson, "parquet": table.write_parquet}[kind](source)
    begin, first = Ledger.begin, []

    def beaten(ledger, *more):
        run = begin(ledger, *more)
        if not first:
            first.append(run)
            perturb_file(POLICY, source, output, person="id")
        return run

    class Removing(PartWords):
        def __call__(self, index, digest):
            for path in tmp_path.glob(".*.part"):
                path.unlink()
            return super().__call__(index, digest)

    monkeypatch.setattr(Ledger, "begin", beaten)
    monkeypatch.setattr(one_file, "PartWords", lambda *more: Removing(*more) if output.exists() else PartWords(*more))
    assert perturb_file(POLICY, source, output, person="id").rows == 2
    assert len(Ledger().runs()) == 1
    assert hidden(tmp_path) == []


NAMES = [os.fsdecode(b"\xff.csv"), "a\0.csv"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_cannot_be_written_down_are_refused_in_a_sentence(table, name):
    folder = table.parent
    told = r"(no UTF-8; rename it|holds no NUL; (give|choose) another)$"
    with pytest.raises(ValueError, match=told):
        perturb_file(POLICY, folder / name, folder / "out.csv")
    with pytest.raises(ValueError, match=told):
        perturb_file(POLICY, table, folder / name)
    with pytest.raises(ValueError, match=told):
        perturb_file(POLICY, table, folder / "out.csv", ledger=folder / name)
    (folder / "deep").mkdir()
    for sources, out in ([folder / name], "out"), ([table], name), (folder / name, "out"):
        with pytest.raises(ValueError, match=told):
            ew.perturb_files(POLICY, sources, folder / "deep" / out)
    assert Ledger().runs() == []


@pytest.mark.parametrize("many", [False, True])
def test_a_ledger_without_a_name_is_none(table, many, monkeypatch):
    monkeypatch.chdir(table.parent)
    release, out = (ew.perturb_files, "out") if many else (perturb_file, "out.csv")
    with pytest.raises(ValueError, match="the ledger's folder has an empty name"):
        release(POLICY, [table] if many else table, out, ledger="")
    assert os.listdir() == ["in.csv"]


def test_an_output_is_no_file_of_the_ledgers(table):
    folder = table.parent
    perturb_file(POLICY, table, folder / "out.csv", person="id", ledger=folder / "kept")
    (folder / "link.csv").symlink_to(folder / "kept" / "people.key.csv")
    with pytest.raises(OutputError, match="the output would take the place of a file of the ledger"):
        perturb_file(POLICY, table, folder / "link.csv", person="id", ledger=folder / "kept", again=True)
    assert not (folder / "kept" / "people.key.csv").exists()
    assert len(Ledger(folder / "kept").runs()) == 1
