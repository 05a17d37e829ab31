"""At most so many rows of a person: which leave, what they cost, and what a run with another number is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import epsworth as ew
from epsworth import lines
from epsworth.policy import Ledger, perturb_file, perturb_files
from epsworth.policy.files import one_file
from epsworth.policy.ledger.ids import hashes
from epsworth.policy.ledger.people import RowCounts

POLICY = ew.Policy.of("pm", 2, ew.Domain.of({"age": (0, 100)}), bits=4, passing=["id", "visit"])
ROWS = [(f"p{i * i % 7}", i, i % 100) for i in range(60)]
KEY = bytes(32)


def first(rows, most):
    """Return the visits that leave, by a loop."""
    seen, found = Counter(), []
    for who, visit, _ in rows:
        seen[who] += 1
        if seen[who] <= most:
            found.append(visit)
    return found


def written(path: Path) -> Path:
    if path.suffix == ".csv":
        path.write_text("id,visit,age\n" + "\n".join(f"{a},{b},{c}" for a, b, c in ROWS))  # no end of the last line
    elif path.suffix == ".jsonl":
        path.write_text("\n\n".join(json.dumps({"id": a, "visit": b, "age": c}) for a, b, c in ROWS))
    else:
        pl.DataFrame(ROWS, schema=["id", "visit", "age"], orient="row").write_parquet(path)
    return path


def visits(path: Path) -> list[int]:
    kinds = {".csv": pl.read_csv, ".jsonl": pl.read_ndjson, ".parquet": pl.read_parquet}
    return kinds[path.suffix](path)["visit"].to_list()


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 5))
def test_the_first_rows_of_each_are_kept_in_any_parts(ids, most):
    counts = RowCounts(most=most)
    for at in range(0, len(ids), 7):
        counts.add(hashes(ids[at : at + 7], KEY))
    kept = counts.kept()
    rows = [(who, place, 0) for place, who in enumerate(ids)]
    expected = first(rows, most)
    assert (list(range(len(ids))) if kept is None else [i for i, stays in enumerate(kept) if stays]) == expected
    assert counts.rows == len(expected)
    assert sorted(counts.sorted()[1].tolist()) == sorted(min(most, of) for of in Counter(ids).values())


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("part", [64, 1 << 20])
def test_a_person_leaves_and_pays_with_so_many_rows(tmp_path, monkeypatch, ending, part):
    monkeypatch.setattr(lines, "PART", part)
    source, out = written(tmp_path / f"in.{ending}"), tmp_path / f"out.{ending}"
    receipt = perturb_file(POLICY, source, out, person="id", cap=6, max_rows_per_person=3)
    assert visits(out) == first(ROWS, 3)
    assert (receipt.rows, receipt.rows_left_out, receipt.most, receipt.people) == (12, 48, 3, 4)
    assert "Left out: 48 rows over the limit per person" in str(receipt)
    assert [float(spent) for spent in Ledger().spent(["p0", "p1", "p3"])] == pytest.approx([6, 6, 0])


def test_processes_draw_the_same_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART", 64)
    source = written(tmp_path / "in.csv")
    perturb_file(POLICY, source, tmp_path / "out.csv", person="id", max_rows_per_person=2, jobs=2)
    assert visits(tmp_path / "out.csv") == first(ROWS, 2)


def test_a_stopped_run_goes_on_and_one_of_another_number_is_another_run(tmp_path, monkeypatch):
    source, out = written(tmp_path / "in.csv"), tmp_path / "out.csv"
    with monkeypatch.context() as patch:
        patch.setattr(one_file, "execute_run", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            perturb_file(POLICY, source, out, person="id", max_rows_per_person=2)
    for other in (3, None):
        with pytest.raises(ValueError, match="left"):
            perturb_file(POLICY, source, out, person="id", max_rows_per_person=other)
    perturb_file(POLICY, source, out, person="id", max_rows_per_person=2)
    assert float(Ledger().spent(["p1"])[0]) == pytest.approx(4)
    released = out.read_bytes()
    assert perturb_file(POLICY, source, out, person="id", max_rows_per_person=2).already_done
    assert out.read_bytes() == released


def test_several_files_and_numbers_that_are_none_are_refused(tmp_path):
    (tmp_path / "parts").mkdir()
    source = written(tmp_path / "parts" / "in.csv")
    with pytest.raises(ValueError, match="chooses among the rows of one table, and these are several; put them into"):
        perturb_files(POLICY, tmp_path / "parts", tmp_path / "outs", person="id", max_rows_per_person=2)
    for wrong in (0, -1, 1.5, True, "2.5", float("nan")):
        with pytest.raises(ValueError, match="max_rows_per_person must be a whole number"):
            perturb_file(POLICY, source, tmp_path / "out.csv", person="id", max_rows_per_person=wrong)
    assert Ledger().runs() == []


def test_the_command_and_its_dry_run_say_how_many_are_left_out(tmp_path, cli):
    POLICY.save(tmp_path / "policy.toml")
    source, out = written(tmp_path / "in.csv"), tmp_path / "out.csv"
    words = ("perturb", *map(str, (tmp_path / "policy.toml", source, out)), "--id", "id")
    code, out, _ = cli(*words, "--max-rows-per-person", "3", "--cap", "6", "--dry-run")
    assert (code, "12, of 4 people (id), at most 3 of one; 48 more are left out" in out) == (0, True), out
    code, out, _ = cli(*words, "--max-rows-per-person", "3", "--cap", "6")
    assert (code, "12 rows" in out, "Left out: 48 rows" in out) == (0, True, True), out
