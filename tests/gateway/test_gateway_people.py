"""A gateway's ledger: charged on the disk before a draw leaves, exactly, for every worker."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction

import pytest

import epsworth as ew

pytest.importorskip("starlette", reason="a gateway needs the extra gateway")

from epsworth.gateway.people import People
from epsworth.gateway.settings import Settings
from epsworth.gateway.upstream import Answer

ONE = {"age": 31, "bmi": 22, "job": "nurse"}


@pytest.fixture
def ledger(tmp_path):
    return {"person": "who", "ledger": tmp_path / "people.sqlite"}


def test_a_person_has_a_cap_and_no_more_leaves(opened, upstream, ledger):
    client = opened(**ledger, cap="7")
    told = [client.post("/predict", json=[ONE | {"who": "jane"}]).status_code for _ in range(4)]
    assert told == [200, 200, 429, 429]  # 3 + 3 fit into 7
    assert client.post("/predict", json=[ONE | {"who": "joe"}]).status_code == 200
    assert len(upstream.bodies) == 3
    assert b"who" not in b"".join(upstream.bodies)


def test_of_a_request_everybody_is_charged_or_nobody(opened, upstream, ledger, policy):
    client = opened(**ledger, cap="6")
    assert client.post("/predict", json=[ONE | {"who": "jane"}] * 3).status_code == 429
    assert client.post("/predict", json=[ONE | {"who": "jane"}] * 2).status_code == 200
    assert client.post("/predict", json=[ONE | {"who": "joe"}, ONE | {"who": "jane"}]).status_code == 429
    people = People(Settings(policy, "http://m", **ledger))
    assert [people.spent(who)[0] for who in ("jane", "joe")] == [6, 0]


def test_a_refused_request_charges_nobody(opened, ledger, policy):
    client = opened(**ledger, cap="3")
    assert client.post("/predict", json=[ONE | {"who": "jane", "job": "pilot"}]).status_code == 400
    assert client.post("/predict", json=[ONE | {"who": "jane"}]).status_code == 200


@pytest.mark.parametrize("who", [None, "", True, 1.5, [7]])
def test_a_record_of_nobody_is_refused(opened, upstream, ledger, who):
    assert opened(**ledger).post("/predict", json=[ONE | {"who": who}]).status_code == 400
    assert not upstream.bodies


SPELLINGS = [
    "Ann\u2065",
    "Ann\u2800",
    "Ann\U000e0080",
    "Ann\u200b",
    " Ann",
    "An\u00a0n",
    "7.0",
    "Zoe\u0308",
    "\ud800",
    "NA",
    "-0",
]


@pytest.mark.parametrize("who", SPELLINGS)
def test_a_person_has_no_second_spelling(opened, upstream, ledger, who):
    answer = opened(**ledger).post("/predict", json=[ONE | {"who": "jane"}, ONE | {"who": who}])
    assert answer.status_code == 400
    assert "row 1: 'who' " in answer.text
    assert who.isascii() or who not in answer.text
    assert not upstream.bodies


def test_a_record_without_the_declared_person_is_refused(opened, upstream, ledger, record):
    client = opened(**ledger)
    assert client.post("/predict", json=[ONE]).status_code == 400
    assert client.post("/v2/models/m/infer", json={"inputs": record()}).status_code == 400
    assert client.post("/v2/models/m/infer", json={"inputs": record(who="jane")}).status_code == 200
    assert [tensor["name"] for tensor in upstream.last["inputs"]] == ["age", "bmi", "job"]


def test_a_charge_is_on_the_disk_before_a_draw_leaves(opened, upstream, ledger):
    def look():
        with closing(sqlite3.connect(ledger["ledger"])) as file:  # another connection sees what was committed
            (draws,) = file.execute("SELECT sum(draws) FROM charges").fetchone()
        return Answer(200 if draws == len(upstream.bodies) else 500, b"{}", "application/json")

    upstream.answers[:] = [look]
    client = opened(**ledger)
    assert [client.post("/predict", json=[ONE | {"who": 7}]).status_code for _ in range(5)] == [200] * 5


def test_the_number_and_the_word_are_one_person(opened, ledger):
    client = opened(**ledger, cap="3")
    assert [client.post("/predict", json=[ONE | {"who": who}]).status_code for who in (7, "7")] == [200, 429]


def test_the_same_draw_leaves_for_a_person_whatever_the_record_holds(opened, upstream, ledger):
    """False alarm: below 1e-4 (two numbers of 2^16 and a word)."""
    client = opened(**ledger, cap="3", same=True)
    for age in (31, 99, 0):
        assert client.post("/predict", json=[ONE | {"who": "jane", "age": age}]).status_code == 200
    assert client.post("/predict", json=[ONE | {"who": "joe"}, ONE | {"who": "jane"}]).status_code == 200
    assert len(set(upstream.bodies[:3])) == 1
    assert upstream.last[1:] == json.loads(upstream.bodies[0])
    assert upstream.last[0] != upstream.last[1]


def test_a_draw_under_one_policy_does_not_leave_under_another(ledger):
    coarse, fine = (ew.Policy.of("pm", epsilon, ew.Domain.of({"age": (0, 100)})) for epsilon in ("0.1", 9))
    first, second = (People(Settings(one, "http://m", **ledger, same=True)) for one in (coarse, fine))
    assert first.keep([(["jane"], [(31,)])]) == [[(31,)]]
    assert second.keep([(["jane"], [(62,)])]) == [[(62,)]]
    assert [people.keep([(["jane"], [(9,)])]) for people in (first, second)] == [[[(31,)]], [[(62,)]]]
    assert first.spent("jane")[0] == Fraction(91, 10)


def test_two_records_of_one_person_in_one_request_share_the_same_draw(opened, upstream, ledger, policy):
    client = opened(**ledger, same=True)
    assert client.post("/predict", json=[ONE | {"who": "jane"}, ONE | {"who": "jane", "age": 80}]).status_code == 200
    assert upstream.last[0] == upstream.last[1]
    assert People(Settings(policy, "http://m", **ledger)).spent("jane")[0] == 3


def test_workers_share_one_cap(opened, upstream, ledger):
    clients = [opened(**ledger, cap="60") for _ in range(2)]
    with ThreadPoolExecutor(8) as threads:
        told = list(
            threads.map(lambda i: clients[i % 2].post("/predict", json=[ONE | {"who": 1}]).status_code, range(40))
        )
    assert sorted(told) == [200] * 20 + [429] * 20
    assert len(upstream.bodies) == 20


def test_charges_under_another_policy_count_exactly(ledger, policy, cli):
    one = Settings(policy, "http://m", **ledger)
    tenth = Settings(ew.Policy.of("pm", "0.1", ew.Domain.of({"age": (0, 1)})), "http://m", **ledger, cap="3.3")
    assert People(one).charge([["jane"]]) == [True]
    people = People(tenth)
    assert people.charge([["jane"]] * 4) == [True, True, True, False]
    assert people.spent("jane") == (Fraction(33, 10), 0)
    code, out, err = cli("ledger", "spent", "jane", "joe", "--ledger", str(ledger["ledger"]))
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()[1:3]] == [["jane", "3.3", "0"], ["joe", "0", "0"]]
    assert "No release names joe here" in out


def test_deltas_have_a_cap(ledger):
    policy = ew.Policy.of("gaussian_clipped:delta=0.00001", 1, ew.Domain.of({"age": (0, 1)}))
    with pytest.raises(ValueError, match="delta_cap"):
        Settings(policy, "http://m", **ledger, cap="9")
    enough = 2.5 * policy.guarantee.delta
    people = People(Settings(policy, "http://m", **ledger, cap="9", delta_cap=enough))
    assert people.charge([["jane"]] * 3) == [True, True, False]


def test_the_file_tells_nobody_who_the_people_are(opened, ledger):
    client = opened(**ledger)
    assert client.post("/predict", json=[ONE | {"who": "jane-roe-42"}]).status_code == 200
    files = list(ledger["ledger"].parent.glob("people.sqlite*"))
    assert not any(b"jane" in path.read_bytes() for path in files)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)


def test_a_ledger_of_another_key_or_kind_is_refused(ledger, policy, monkeypatch, tmp_path):
    People(Settings(policy, "http://m", **ledger)).close()
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / "other"))
    with pytest.raises(ValueError, match="another key"):
        People(Settings(policy, "http://m", **ledger))
    (tmp_path / "text").write_text("no ledger, but a text that is long enough to be looked at" * 20)
    with pytest.raises(ValueError, match="cannot be opened"):
        People(Settings(policy, "http://m", person="who", ledger=tmp_path / "text"))


def test_nothing_leaves_where_the_ledger_cannot_be_written(opened, upstream, ledger):
    client = opened(**ledger)
    with sqlite3.connect(ledger["ledger"]) as file:
        file.execute("DROP TABLE charges")
    file.close()
    assert client.post("/predict", json=[ONE | {"who": "jane"}]).status_code == 503
    assert not upstream.bodies
