"""The shuffler where ids stand beside reports: row and roll are checked, ids dropped, and the smallest row decides."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import numpy as np
import pytest

from epsworth.guarantees import shuffled
from epsworth.learner import (
    Aggregator,
    Classifier,
    Client,
    LatticeConfig,
    Number,
    ScoreAudit,
    TableConfig,
    TableLearner,
    aggregate_files,
    assigned_rounds,
    assigned_rows,
    learn_table,
    shuffle_files,
)
from epsworth.learner.client import called
from reproduction import published_lattice  # noqa: F401  "parity"

SEED = "published after all ids were registered"
CONFIG = LatticeConfig(box=(0, 1), m=4, mechanism="hadamard", epsilon=1, rows="hash")
ROWS = 4
IDS = [f"device-{number:03}" for number in range(60)]


def reports_of(config, ids, seed=SEED):
    """Return the report of each id, about its row."""
    X = np.random.default_rng(len(ids)).random((len(ids), len(config.names)))
    rows = assigned_rows(config, ids, seed) if config.rows == "hash" else None
    sent, size = Client(config).reports(X, (X[:, 0] > 0.5).astype(int), rows=rows), config.report_size
    return [sent[start : start + size] for start in range(0, len(sent), size)]


def line(user, report, **beside):
    return json.dumps({"id": user, "report": base64.b64encode(report).decode()} | beside)


def write(path, lines):
    path.write_text("".join(f"{one}\n" for one in lines))
    return path


def lines_of(config, ids, seed=SEED):
    return [line(*pair) for pair in zip(ids, reports_of(config, ids, seed), strict=True)]


def in_file(path, config=CONFIG):
    data, size = path.read_bytes(), config.report_size
    return [data[start : start + size] for start in range(0, len(data), size)]


def collected(folder, lines, *, at_least=2, ids=IDS, config=CONFIG, seed=SEED, name="batch.ldp"):
    arrived = write(folder / "arrived.jsonl", lines)
    return shuffle_files(config, [arrived], folder / name, at_least=at_least, registered=ids, seed=seed)


def test_a_batch_holds_the_reports_and_nothing_of_ids(tmp_path):
    reports = reports_of(CONFIG, IDS)
    found = collected(tmp_path, [line(*pair) for pair in zip(IDS, reports, strict=True)])
    assert (found.reports, found.forwarded, found.refused) == (60, True, {})
    assert found.smallest_row == min(Counter(assigned_rows(CONFIG, IDS, SEED).tolist()).values())
    batch = tmp_path / "batch.ldp"
    assert Counter(in_file(batch)) == Counter(reports)  # as many bytes as reports: nothing beside them
    assert in_file(batch) != reports  # by chance with probability 1e-40
    data, marks = batch.read_bytes(), called(CONFIG, IDS, SEED).marks()
    for user, mark in zip(IDS, marks, strict=True):
        told = (user.encode(), base64.b64encode(user.encode()), hashlib.sha256(user.encode()).digest(), mark)
        assert not any(one in data for one in told)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["arrived.jsonl", "batch.ldp"]
    assert os.listxattr(batch) == []


def test_orders_of_the_file_are_those_that_are_drawn_whatever_arrived_first(tmp_path, monkeypatch):
    """The permutation that is drawn is applied as it is, so every order of four reports comes of one draw of 24."""
    ids = [f"one-{number}" for number in range(40)]
    rows = assigned_rows(CONFIG, ids, SEED).tolist()
    ids = [ids[rows.index(row)] for row in range(ROWS)]
    lines, monkey = lines_of(CONFIG, ids), monkeypatch
    monkey.setattr("epsworth.learner.shuffler.whole", lambda *given, **named: 1)
    seen = []
    for arrival in (lines, lines[::-1]):
        orders = set()
        for order in itertools.permutations(range(ROWS)):
            monkey.setattr("epsworth.learner.shuffler.random_order", lambda words, count, o=order: np.array(o))
            assert collected(tmp_path, arrival, ids=ids).forwarded
            orders.add((tmp_path / "batch.ldp").read_bytes())
        seen.append(orders)
    assert len(seen[0]) == 24
    assert seen[0] == seen[1]


def test_what_is_hostile_is_dropped_and_counted_and_stops_nobody(tmp_path):
    reports = reports_of(CONFIG, IDS)
    rows = assigned_rows(CONFIG, IDS, SEED).tolist()
    other = next(number for number, row in enumerate(rows) if row != rows[0])
    foreign = reports_of(LatticeConfig(box=(0, 1), m=4, mechanism="hadamard", epsilon=2, rows="hash"), IDS)
    cut, broken = reports[1][:-1], bytes([*reports[1][:9], reports[1][9] ^ 1, *reports[1][10:]])
    hostile = [
        line(IDS[0], reports[other]),  # about another row: it does not use the id up
        line("nobody", reports[2]),
        line(IDS[1], cut), line(IDS[1], broken), line(IDS[1], reports[1] + reports[1]), line(IDS[1], b""),
        line(IDS[3], foreign[3]),  # of another epsilon
        '{"id": "device-001"', "[]", "7", '{"report": "AA=="}', '{"id": 7, "report": "AA=="}',
        '{"id": "device-001", "report": "?"}', "[" * 100_000, f'{{"id": "{IDS[6]}", "report": [{"[]," * 40_000}0]}}',
        '{"id": "device-001", "report": 1e999}',
        line(IDS[1], reports[1], time=7), line(IDS[1], reports[1])[:-1] + ', "id": "device-001"}',
    ]  # fmt: skip
    honest = [line(*pair) for pair in zip(IDS, reports, strict=True)]
    mixed = [one for pair in itertools.zip_longest(hostile, honest) for one in pair if one is not None]
    found = collected(tmp_path, [*mixed, "", honest[4], line(IDS[5], reports_of(CONFIG, IDS)[5])])
    assert (found.reports, found.forwarded) == (60, True)
    assert found.refused == {"damaged": 16, "of no registered id": 1, "about another row": 1, "second of an id": 2}
    assert Counter(in_file(tmp_path / "batch.ldp")) == Counter(reports)


def test_reports_that_make_up_two_only_together_are_damaged(tmp_path):
    (one, two), size = reports_of(CONFIG, IDS[:2]), CONFIG.report_size
    both = one + two
    found = collected(tmp_path, [line(IDS[0], both[: size + 1]), line(IDS[1], both[size + 1 :])])
    assert found == (0, False, 0, {"damaged": 2})


def test_bytes_that_are_no_text_are_damaged(tmp_path):
    arrived = tmp_path / "arrived.jsonl"
    arrived.write_bytes(b'{"id": "\xff", "report": "AA=="}\n\x00\x00\n' + "\n".join(lines_of(CONFIG, IDS)).encode())
    found = shuffle_files(CONFIG, [arrived], tmp_path / "b.ldp", at_least=2, registered=IDS, seed=SEED)
    assert (found.reports, found.refused) == (60, {"damaged": 2})


def test_the_smallest_row_decides_whether_a_batch_is_full(tmp_path):
    smallest = min(Counter(assigned_rows(CONFIG, IDS, SEED).tolist()).values())
    lines = lines_of(CONFIG, IDS)
    assert smallest < 60 // ROWS + 1
    held = collected(tmp_path, lines, at_least=smallest + 1)
    assert held == (60, False, smallest, {})
    assert not (tmp_path / "batch.ldp").exists()
    assert collected(tmp_path, lines, at_least=smallest).forwarded
    none = [one for one, row in zip(lines, assigned_rows(CONFIG, IDS, SEED).tolist(), strict=True) if row]
    assert collected(tmp_path, none, name="none.ldp").smallest_row == 0  # a row of nobody
    assert not (tmp_path / "none.ldp").exists()


def test_reports_of_one_row_hide_each_other_alone(tmp_path):
    """A batch keeps what so many reports of one row keep, however many others there are; the smaller, the less."""
    ids = [f"user {number}" for number in range(4000)]
    found = collected(tmp_path, lines_of(CONFIG, ids), ids=ids, at_least=900)
    kept = CONFIG.shuffled(users=found.reports, delta=1e-5, smallest_row=found.smallest_row)
    assert kept.epsilon == shuffled(1.0, users=found.smallest_row, delta=1e-5).epsilon
    assert kept.epsilon > 1.5 * shuffled(1.0, users=found.reports, delta=1e-5).epsilon


def test_sums_of_a_batch_are_those_of_reports_with_ids(tmp_path):
    lines, reports = lines_of(CONFIG, IDS), None
    collected(tmp_path, lines)
    batch = tmp_path / "batch.ldp"
    reports = [base64.b64decode(json.loads(one)["report"]) for one in lines]
    named = Aggregator(CONFIG)
    named.add(reports, users=IDS, seed=SEED)
    sums = aggregate_files(CONFIG, [batch], shuffled=True)
    assert (sums.tally.counts == named.tally.counts).all()
    assert sums.seed == ""
    assert Aggregator.from_state(sums.state()) == sums
    assert Classifier.from_aggregate(sums).aggregate.users == 60
    for wrong, words in (
        (lambda: aggregate_files(CONFIG, [batch]), "files of reports hold no ids"),
        (lambda: sums.add(reports, users=IDS, seed=SEED), "simulated or shuffled"),
        (lambda: named.add(batch.read_bytes(), shuffled=True), "a shuffled batch holds none; aggregate it apart"),
        (lambda: named.merge(sums), "simulated or shuffled"),
        (lambda: sums.merge(sums), "a shuffled batch is in these sums already"),
        (lambda: Aggregator(CONFIG).add(reports, users=IDS, seed=SEED, shuffled=True), "leave out users and seed"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            wrong()


def test_a_batch_counts_once_whatever_it_is_called_and_however_sums_are_joined(tmp_path, monkeypatch):
    lines = lines_of(CONFIG, IDS)
    collected(tmp_path, lines[:30])
    collected(tmp_path, lines[30:], name="other.ldp", ids=IDS[30:])
    batch, other, copy, state = (tmp_path / name for name in ("batch.ldp", "other.ldp", "copy.ldp", "sums.state"))
    copy.write_bytes(batch.read_bytes())
    sums = aggregate_files(CONFIG, [batch, other], shuffled=True)
    assert sums.users == 60
    sums.save(state)
    assert Aggregator.load(state).batches == sums.batches
    assert len(sums.batches) == 2
    for sources in ([batch, other, copy], [state, copy], [copy, state]):
        refused = f"{sources[-1].name}: a shuffled batch is in these sums already: every report counts once; leave it"
        with pytest.raises(ValueError, match=re.escape(refused)):
            aggregate_files(CONFIG, sources, shuffled=True)
    monkeypatch.setattr("epsworth.learner.report_files.PART", 7 * CONFIG.report_size)
    assert aggregate_files(CONFIG, [batch, other], shuffled=True).tally.users == 60
    with pytest.raises(ValueError, match=r"copy\.ldp: a shuffled batch is in these sums already"):
        aggregate_files(CONFIG, [batch, copy], shuffled=True)
    packed, size = batch.read_bytes(), CONFIG.report_size
    reports = (packed[at : at + size] for at in range(0, len(packed), size))
    spaced = tmp_path / "spaced.jsonl"
    spaced.write_text("".join(json.dumps({"report": base64.b64encode(one).decode()}) + "\n\n" for one in reports))
    with pytest.raises(ValueError, match=r"spaced\.jsonl: a shuffled batch is in these sums already"):
        aggregate_files(CONFIG, [batch, spaced], shuffled=True)
    for name in ("empty.jsonl", "blank.jsonl"):
        (tmp_path / name).write_text("\n")
    assert aggregate_files(CONFIG, [tmp_path / "empty.jsonl", tmp_path / "blank.jsonl"], shuffled=True).users == 0


def test_a_state_whose_batches_were_changed_is_refused(tmp_path):
    collected(tmp_path, lines_of(CONFIG, IDS))
    sums = aggregate_files(CONFIG, [tmp_path / "batch.ldp"], shuffled=True)
    (batch,) = sums.batches
    for old, new in ((batch, "0" * 64), ("batches", "botches")):
        with pytest.raises(ValueError, match="cut or changed"):
            Aggregator.from_state(sums.state().replace(old.encode(), new.encode()))


def test_lines_that_hold_anything_else_are_added_up_nowhere(tmp_path):
    drawn = LatticeConfig(box=(0, 1), m=4, epsilon=1)
    text = base64.b64encode(reports_of(drawn, IDS[:1])[0]).decode()
    for beside in ('"x": 1', '"id": 7', '"report": "AA=="'):
        path = write(tmp_path / "r.jsonl", [f'{{"report": "{text}", {beside}}}'])
        with pytest.raises(ValueError, match=r"r\.jsonl: a line is not"):
            aggregate_files(drawn, [path])
        with pytest.raises(ValueError, match=r"r\.jsonl: a line is not"):
            shuffle_files(drawn, [path], tmp_path / "batch.ldp", at_least=2)
    assert aggregate_files(drawn, [write(tmp_path / "r.jsonl", ["", f'{{"report": "{text}"}}', ""])]).users == 1


def test_a_round_takes_those_who_answer_it_and_no_others(tmp_path):
    table = TableConfig([Number(name, 0, 1) for name in "abcde"], (0, 1), epsilon=1, users=100_000, rows="hash")
    asked = TableLearner(table).open()
    ids = [f"user {number}" for number in range(3000)]
    rounds = assigned_rounds(table, ids, SEED)
    own = [one for one, purpose in zip(ids, rounds, strict=True) if purpose == asked.purpose]
    other = next(one for one, purpose in zip(ids, rounds, strict=True) if purpose != asked.purpose)
    lines = lines_of(asked, own)
    forged = line(other, base64.b64decode(json.loads(lines[0])["report"]))
    found = collected(tmp_path, [forged, *lines], ids=ids, config=asked)
    assert found.reports == len(own)
    assert found.refused == {"of no registered id": 1}
    rows = Counter(assigned_rows(asked, own, SEED).tolist())
    assert found.smallest_row == (min(rows.values()) if len(rows) == len(asked.kernel.weights) else 0)


def test_an_audit_and_parity_pass_the_shuffler(tmp_path):
    X = np.random.default_rng(0).random((3000, 5))
    table = TableConfig([Number(name, 0, 1) for name in "abcde"], (0, 1), epsilon=4, users=3000, rows="hash")
    audit = ScoreAudit.of(learn_table(table, X, (X[:, 0] > 0.5).astype(int), 0))
    parity = LatticeConfig(box=(0, 1), m=4, d=1, mechanism="parity", epsilon=1, rows="hash")
    ids = [f"user {number}" for number in range(600)]
    for config in (audit, parity):
        found = collected(tmp_path, lines_of(config, ids), ids=ids, config=config)
        assert (found.reports, found.forwarded, found.refused) == (600, True, {})
        assert found.smallest_row == min(Counter(assigned_rows(config, ids, SEED).tolist()).values())


def test_rows_that_clients_draw_are_taken_with_ids_too(tmp_path):
    drawn = LatticeConfig(box=(0, 1), m=4, mechanism="krr", epsilon=1)
    lines = lines_of(drawn, IDS)
    found = collected(tmp_path, [*lines, lines[7]], config=drawn, seed=None, at_least=60)
    assert found == (60, True, None, {"second of an id": 1})
    assert collected(tmp_path, lines[1:], config=drawn, seed=None, at_least=60, name="b.ldp") == (59, False, None, {})


def test_wrong_questions_are_refused_before_anything_is_read(tmp_path):
    arrived = write(tmp_path / "arrived.jsonl", lines_of(CONFIG, IDS))
    drawn = LatticeConfig(box=(0, 1), m=4, epsilon=1)
    packed = tmp_path / "packed.ldp"
    packed.write_bytes(reports_of(CONFIG, IDS)[0])
    for config, source, given, words in (
        (CONFIG, arrived, {}, "files of reports hold no ids"),
        (CONFIG, arrived, {"registered": IDS}, "seed is missing"),
        (CONFIG, arrived, {"registered": [*IDS, IDS[3]], "seed": SEED}, "users: number 60 is the same as number 3"),
        (CONFIG, arrived, {"registered": ["7.0"], "seed": SEED}, "another spelling of a number"),
        (CONFIG, arrived, {"registered": "ann", "seed": SEED}, "users must be a list of ids"),
        (CONFIG, packed, {"registered": IDS, "seed": SEED}, "reports beside ids are JSON lines"),
        (CONFIG, tmp_path / "none.jsonl", {"registered": IDS, "seed": SEED}, "there is no such file"),
        (drawn, arrived, {"registered": IDS, "seed": SEED}, "seed belongs to rows='hash'"),
        (drawn, arrived, {"seed": SEED}, "seed is for rows='hash'"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            shuffle_files(config, [source], tmp_path / "batch.ldp", at_least=2, **given)
        assert not (tmp_path / "batch.ldp").exists()


def test_a_collector_that_is_killed_leaves_what_was_there(tmp_path):
    write(tmp_path / "arrived.jsonl", lines_of(CONFIG, IDS))
    CONFIG.save(tmp_path / "c.json")
    (tmp_path / "batch.ldp").write_bytes(b"what was there")
    write(tmp_path / "ids.txt", IDS)
    program = """
        import signal, os
        from pathlib import Path
        from epsworth.learner import LatticeConfig, shuffle_files
        real = Path.write_bytes
        def half(path, data):
            real(path, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        Path.write_bytes = half
        shuffle_files(LatticeConfig.load("c.json"), ["arrived.jsonl"], "batch.ldp", at_least=2,
                      registered=Path("ids.txt").read_text().split("\\n")[:-1], seed=%r)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program) % SEED], cwd=tmp_path, check=False)
    assert run.returncode == -signal.SIGKILL
    assert (tmp_path / "batch.ldp").read_bytes() == b"what was there"
    left = [one for one in tmp_path.iterdir() if one.name.startswith(".batch")]
    assert all(user.encode() not in one.read_bytes() for one in left for user in IDS)
    arrived = [tmp_path / "arrived.jsonl"]
    assert shuffle_files(CONFIG, arrived, tmp_path / "batch.ldp", at_least=2, registered=IDS, seed=SEED).forwarded
    assert len(in_file(tmp_path / "batch.ldp")) == 60


def test_the_shell_collects_and_says_what_the_batch_keeps(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CONFIG.save("c.json")
    ids = [f"user {number}" for number in range(1000)]
    write(tmp_path / "ids.txt", ids)
    lines = lines_of(CONFIG, ids)
    write(tmp_path / "arrived.jsonl", [*lines, lines[0], "what"])
    words = ["learn", "shuffle", "c.json", "arrived.jsonl", "-o", "batch.ldp", "--registered", "ids.txt"]
    words += ["--seed", SEED]
    code, out, _ = cli(*words, "--at-least", 200, "--delta", "1e-4", "--fakes", 10)
    assert code == 0
    dropped, forwarded, by_row, central, _, breaks = out.splitlines()
    smallest = min(Counter(assigned_rows(CONFIG, ids, SEED).tolist()).values())
    assert dropped == "Dropped: 1 damaged, 1 second of an id."
    assert forwarded.startswith("1,000 reports forwarded in random order, fingerprint ")
    assert by_row == f"Ids tell rows: the {smallest} reports of the smallest row hide each other alone."
    assert f"only a shuffled batch of {smallest - 10} honest reports of epsilon 1 each" in central
    assert "against the shuffler, or without one: epsilon 1" in central
    assert breaks.startswith("It does not hold if the shuffler and who gets the batch work together")
    assert breaks.endswith("more than 10 of the reports are fakes.")
    code, out, _ = cli("learn", "aggregate", "c.json", "batch.ldp", "--shuffled", "-o", "sums.state")
    assert (code, out[:13]) == (0, "1,000 reports")
    code, _, err = cli("learn", "aggregate", "c.json", "batch.ldp", "-o", "more.state")
    assert (code, "aggregate its batches as --shuffled" in err) == (2, True)
    code, out, _ = cli(*words[:5], "more.ldp", *words[6:], "--at-least", 400)
    assert code == 1
    assert f"Held back: 1,000 reports arrived, {smallest} of them about the smallest row, and 400 were planned" in out
    code, _, err = cli(*words[:5], "more.ldp", *words[6:], "--at-least", 200, "--delta", "1e-4", "--fakes", 199)
    assert (code, "fakes must be below 199" in err) == (2, True)
    assert not (tmp_path / "more.ldp").exists()
