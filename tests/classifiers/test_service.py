"""A service as a classifier: what it is asked, what it may answer, what is kept; strangers answer anything."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.classifiers.service.cache import Cache, digests
from epsworth.classifiers.service.protocol import Tensor

pytest.importorskip("httpx", reason="services are asked by httpx: pip install 'epsworth[remote]'")
sys.path.insert(0, str(Path(__file__).parent))
from oip_server import serving

IRIS, SPECIES = load_iris(return_X_y=True)
MODEL = LogisticRegression(max_iter=500).fit(IRIS[:, 2:], SPECIES)
FLOWERS = IRIS[::3, 2:]
QUESTION = {"sensitive": [0], "domain": {0: (1, 7)}, "mechanisms": ["krr"], "epsilons": [1.0, 4.0]}
FAST = {"timeout": 2, "patience": 0.5}
TENSOR = {"name": "x", "datatype": "FP64", "shape": [-1, 2]}
BINARY = "binary_tensor_data"


def species(columns):
    return MODEL.predict(columns[0])


def above(columns):
    return (columns[0][:, 0] > 3).astype(int)


def by_job(columns):
    return np.array(["yes" if age > 50 or job == "bäcker" else "no" for age, job in zip(*columns, strict=True)])


PEOPLE = pl.DataFrame({"age": [20.0, 55.5, None, 33.1], "job": ["bäcker", "smith", "", "smith"]})
WHO = ["yes", "yes", "no", "no"]


@pytest.mark.parametrize("extensions", [(), (BINARY,)])
@pytest.mark.parametrize("inputs", [(), (TENSOR,)])
def test_labels_are_those_of_the_model(inputs, extensions):
    with serving(species, inputs=inputs, extensions=extensions) as server:
        asked = ew.remote(server.url, batch=16)
        assert asked.labels(FLOWERS).tolist() == MODEL.predict(FLOWERS).tolist()
        assert all(("Inference-Header-Content-Length" in one) == bool(extensions) for one in server.headers)


@pytest.mark.parametrize("extensions", [(), (BINARY,)])
def test_columns_are_sent_by_name_with_their_texts(extensions):
    inputs = [
        {"name": "age", "datatype": "FP64", "shape": [-1]},
        {"name": "job", "datatype": "BYTES", "shape": [-1, 1]},
    ]
    with serving(by_job, inputs=inputs, extensions=extensions) as server:
        asked = ew.remote(server.url)
        assert asked.features == ("age", "job")
        assert asked.labels(PEOPLE).tolist() == WHO
        assert asked.labels(PEOPLE.to_pandas()).tolist() == WHO
    with serving(by_job) as server:
        assert ew.remote(server.url).labels(PEOPLE).tolist() == WHO


def test_doubles_arrive_as_they_are():
    odd = np.array([[0.1, -0.0], [5e-324, 1e308], [1 / 3, 2**53]])
    for extensions in ((), (BINARY,)):
        with serving(above, extensions=extensions) as server:
            ew.remote(server.url).labels(odd)
            came = {record for records in server.records for record in records}
            assert came == {tuple(row) for row in odd.tolist()}


def test_an_answer_is_that_of_the_model_itself():
    with serving(species) as server:
        there = ew.stability(ew.remote(server.url), FLOWERS[:5], rng=0, **QUESTION)
        here = ew.stability(lambda records: MODEL.predict(records), FLOWERS[:5], rng=0, **QUESTION)
    assert np.array_equal(there.lower, here.lower)
    assert np.array_equal(there.upper, here.upper)


def test_what_is_known_is_not_asked_again(tmp_path):
    with serving(species) as server:
        first = ew.stability(ew.remote(server.url, cache=tmp_path / "c"), FLOWERS[:5], rng=0, **QUESTION)
        requests = server.requests
        again = ew.stability(ew.remote(server.url, cache=tmp_path / "c"), FLOWERS[:5], rng=0, **QUESTION)
        assert server.requests == requests
        assert np.array_equal(first.lower, again.lower)
        other = ew.remote(server.url, cache=tmp_path / "c", output="y")  # another question
        other.labels(FLOWERS)
        assert server.requests > requests
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600


texts = st.one_of(st.none(), st.text("ab€\0", max_size=3))


@given(st.lists(st.tuples(st.floats(allow_nan=False), texts, texts), min_size=2, max_size=6))
@example([(0.0, "ab", "c"), (0.0, "a", "bc"), (-0.0, None, ""), (0.0, None, ""), (0.0, "", None), (0.0, "", "")])
@pytest.mark.slow
def test_different_records_are_never_taken_for_one(records):
    columns = [np.array([*column, None], dtype=object)[:-1] for column in zip(*records, strict=True)]
    tensors = [Tensor("a", "FP64", columns[0].astype(float)), *(Tensor("b", "BYTES", c) for c in columns[1:])]
    found = digests(tensors)
    for one, first in zip(found, records, strict=True):
        for other, second in zip(found, records, strict=True):
            assert (one == other) == (repr(first) == repr(second))  # -0.0 is not 0.0


# --- interruptions ---

RUN = """
import sys, numpy as np, epsworth as ew
flowers = np.load(sys.argv[2])
service = ew.remote(sys.argv[1], cache=sys.argv[3], batch=16)
curves = ew.stability(service, flowers, rng=0, sensitive=[0], domain={0: (1, 7)},
    mechanisms=["krr"], epsilons=[1.0, 4.0])
np.save(sys.argv[4], [curves.lower, curves.upper])
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    np.save(tmp_path / "flowers.npy", FLOWERS[:5])

    def run(server):
        words = [server.url, *(str(tmp_path / name) for name in ("flowers.npy", "cache", "found.npy"))]
        return subprocess.Popen([sys.executable, "-c", RUN, *words])

    with serving(species) as server:
        child = None

        def kill(handler):
            if server.requests == 9:
                os.kill(child.pid, signal.SIGKILL)

        server.trouble = kill
        child = run(server)
        assert child.wait(60) == -signal.SIGKILL
        assert not (tmp_path / "found.npy").exists()
        before = set().union(*server.records[:8])
        server.records.clear()
        child = run(server)
        assert child.wait(60) == 0
        again = [record for records in server.records for record in records if record in before]
        assert len(set(again)) <= 8  # those that show that it still answers alike
    alone = ew.stability(lambda records: MODEL.predict(records), FLOWERS[:5], rng=0, **QUESTION)
    assert np.array_equal(np.load(tmp_path / "found.npy"), [alone.lower, alone.upper])


@pytest.mark.slow
def test_a_service_that_comes_back_is_asked_again():
    with serving(species) as server:

        def away(handler):
            if server.requests == 2:
                handler.connection.shutdown(socket.SHUT_RDWR)
                return True
            if server.requests == 3:
                return handler.give(b"", 503, Retry_After="1") or True
            if server.requests == 4:
                return handler.give(b'{"outputs": [', 200) or True

        server.trouble = away
        started = time.monotonic()
        assert ew.remote(server.url).labels(FLOWERS).tolist() == MODEL.predict(FLOWERS).tolist()
        assert time.monotonic() - started >= 1  # Retry-After
        assert server.requests == 5


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500])
def test_other_statuses_are_not_tried_again(status):
    with serving(species) as server:
        server.trouble = lambda handler: handler.give(b'{"error": "age 41.5 is odd"}', status) or True
        with pytest.raises(ew.ClassifierError, match=f"HTTP {status}") as refused:
            ew.remote(server.url).labels(FLOWERS)
        assert server.requests == 1
        assert "41.5" not in str(refused.value)


# --- strangers ---


def drip(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


def drip_headers(handler):
    for letter in b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 200:
        handler.wfile.write(bytes([letter]))
        handler.wfile.flush()
        time.sleep(0.1)


def cut(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"outputs"')
    handler.close_connection = True


HOSTILE = {
    "a label too few": (lambda h: h.answer(np.ones(h.n - 1, int), shape=[h.n, 1]), "labels"),
    "no labels": (lambda h: h.answer(np.ones(0, int), shape=[h.n, 1]), "0 labels"),
    "another shape": (lambda h: h.answer(np.ones(h.n, int), shape=[1, h.n, 2]), "shape"),
    "two columns": (lambda h: h.answer(np.ones(h.n, int), shape=[h.n, 2]), "one label per record"),
    "a shape that is none": (lambda h: h.answer(np.ones(h.n, int), shape="n"), "shape none"),
    "NaN": (lambda h: h.answer(np.full(h.n, np.nan)), "NaN instead of a label"),
    "nulls": (lambda h: h.answer(np.ones(h.n, int), data=[None] * h.n), "something else than the INT64"),
    "scores": (lambda h: h.answer(np.linspace(0.1, 0.9, h.n)), "look like scores"),
    "texts for numbers": (lambda h: h.answer(np.ones(h.n, int), data=["1"] * h.n), "something else than the INT64"),
    "truths for numbers": (lambda h: h.answer(np.ones(h.n, int), data=[True] * h.n), "something else"),
    "beyond its kind": (lambda h: h.answer(np.ones(h.n, int), data=[2**63] * h.n), "something else"),
    "an unknown kind": (lambda h: h.answer(np.ones(h.n, int), datatype="\x1b[2J"), r"kind \(unprintable\)"),
    "a kind that is a list": (lambda h: h.answer(np.ones(h.n, int), datatype=[]), "does not know"),
    "two outputs": (lambda h: h.answer([1], outputs=[{"name": "a", "datatype": "INT64"}] * 2), "output="),
    "outputs of floats": (lambda h: h.answer([1], outputs=[{"name": "a", "datatype": "FP32"}] * 2), "output="),
    "no outputs": (lambda h: h.answer([1], outputs=[]), "output="),
    "outputs that are none": (lambda h: h.answer([1], outputs=7), "without outputs"),
    "another request's": (lambda h: h.answer(np.ones(h.n, int), id="other"), "another request"),
    "a page": (lambda h: h.give(b"<html>"), "not JSON"),
    "no object": (lambda h: h.give(b"[]"), "no JSON object"),
    "depth": (lambda h: h.give(b"[" * 100_000), "not JSON"),
    "a long number": (lambda h: h.give(b"1" * 10_000), "not JSON"),
    "a flood": (lambda h: h.give(b" " * (3 << 20)), "bytes"),
    "a bomb": (lambda h: h.give(b"\x1f\x8b", Content_Encoding="gzip"), "compressed"),
    "cut connections": (cut, "cut"),
    "nothing": (lambda h: setattr(h, "close_connection", True), "cut"),
    "a drip": (drip, r"no whole answer within [01]\.\d+ s"),
    "a drip of headers": (drip_headers, r"no whole answer within [01]\.\d+ s"),
    "silence": (lambda h: time.sleep(12), r"no whole answer within [01]\.\d+ s"),
    "503 for ever": (lambda h: h.give(b"", 503), "not available"),
    "an hour's wait": (lambda h: h.give(b"", 429, Retry_After="3600"), "asks to wait 3600 s"),
    "a length beyond": (lambda h: h.give(b"{}", Inference_Header_Content_Length="99"), "shorter than it says"),
    "no length": (lambda h: h.give(b"{}", Inference_Header_Content_Length="-1"), "shorter than it says"),
    "bytes left over": (lambda h: h.give(b'{"outputs": []}xyz', Inference_Header_Content_Length="15"), "longer"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.cases(1)
def test_a_hostile_service_gets_one_sentence_in_time(name):
    trouble, told = HOSTILE[name]
    with serving(above) as server:
        server.trouble = lambda handler: trouble(handler) or True
        asked = ew.remote(server.url, **FAST)
        started = time.monotonic()
        with pytest.raises(ew.ClassifierError, match=told) as refused:
            asked.labels(FLOWERS[:5])
        assert time.monotonic() - started < FAST["patience"] + 3  # silence lasts longer
    assert "\n" not in str(refused.value)
    assert str(refused.value).isprintable()


def test_what_failed_is_told_and_not_that_patience_ended_after_it():
    with serving(above) as server:
        server.trouble = lambda handler: cut(handler) or True
        server.slow_ready = 3.0
        with pytest.raises(ew.ClassifierError, match="the connection was cut"):
            ew.remote(server.url, timeout=5, patience=1.5).labels(FLOWERS[:5])


@pytest.mark.parametrize("name", ["silence", "a drip", "a drip of headers", "a flood"])
@pytest.mark.cases(1)
def test_strangers_have_little_time_and_room(name):
    trouble, told = HOSTILE[name]
    with serving(above) as server:
        server.trouble = lambda handler: trouble(handler) or True
        asked = ew.remote(server.url, timeout=9, patience=1.5)  # for the greeting, too, on a busy machine
        started = time.monotonic()
        with pytest.raises(ew.ClassifierError, match=told):
            asked.labels(FLOWERS[:5])
        assert time.monotonic() - started < 7  # not a timeout of nine


def test_a_redirection_is_not_followed():
    with serving(species) as elsewhere, serving(species) as server:
        server.trouble = lambda handler: handler.give(b"", 307, Location=f"{elsewhere.url}/infer") or True
        with pytest.raises(ew.ClassifierError, match="not followed"):
            ew.remote(server.url).labels(FLOWERS)
        assert elsewhere.requests == 0


def test_floats_are_labels_only_where_their_output_is_named():
    with serving(lambda columns: above(columns).astype(float)) as server:
        with pytest.raises(ew.ClassifierError, match=r"'y' of the kind FP64, which may be scores.*output="):
            ew.remote(server.url).labels(FLOWERS)
        assert ew.remote(server.url, output="y").labels(FLOWERS).tolist() == above([FLOWERS]).tolist()
    with serving(lambda columns: columns[0][:, 0] / 7) as server, pytest.raises(ew.ClassifierError, match="broken"):
        ew.remote(server.url, output="y").labels(FLOWERS)


def test_scores_are_refused_though_they_are_whole():
    with serving(lambda columns: np.arange(len(columns[0]))) as server, pytest.raises(ew.ClassifierError):
        ew.remote(server.url).labels(np.random.default_rng(0).normal(size=(500, 2)))


# --- unsteady services ---

chance = random.Random(0)


@pytest.mark.parametrize(
    "answer",
    [
        lambda columns: [chance.getrandbits(1) for _ in columns[0]],
        lambda columns: (columns[0][:, 0] > np.median(columns[0][:, 0])).astype(int),
        lambda columns: np.full(len(columns[0]), len(columns[0]) > 1, dtype=int),
    ],
    ids=["random", "by the batch", "alone or not"],
)
def test_an_unsteady_service_is_refused(answer):
    # false alarm of the random one: 150 records take 11 requests, with 1 + 9 * 8 known ones among them, 2^-73
    with serving(answer) as server, pytest.raises(ew.ClassifierError, match="different labels for the same record"):
        ew.remote(server.url, batch=16).labels(IRIS[:, :2])


def test_a_model_that_was_replaced_is_not_mixed_with_its_successor(tmp_path):
    with serving(species) as server:
        ew.remote(server.url, cache=tmp_path / "c").labels(FLOWERS)
        server.answer = lambda columns: 2 - species(columns)
        with pytest.raises(ew.ClassifierError, match="different labels for the same record"):
            ew.remote(server.url, cache=tmp_path / "c").labels(np.vstack([FLOWERS, FLOWERS + 0.01]))
        found = ew.remote(server.url, cache=tmp_path / "c").labels(FLOWERS)  # nothing of the first is kept
        assert found.tolist() == (2 - MODEL.predict(FLOWERS)).tolist()


def test_another_version_of_a_model_is_not_mixed_with_it(tmp_path):
    with serving(species) as server:
        server.trouble = lambda handler: handler.answer(np.zeros(handler.n, int), model_version="1") or True
        ew.remote(server.url, cache=tmp_path / "c").labels(FLOWERS)
        server.trouble = lambda handler: handler.answer(np.zeros(handler.n, int), model_version="2") or True
        with pytest.raises(ew.ClassifierError, match="another version"):
            ew.remote(server.url, cache=tmp_path / "c").labels(FLOWERS + 0.01)


# --- budgets ---


@pytest.mark.slow
def test_a_budget_is_never_exceeded(tmp_path):
    with serving(species) as server:
        for budget in (30, 60):
            server.records.clear()
            asked = ew.remote(server.url, budget=budget, batch=7, cache=tmp_path / "c")
            asked.labels(IRIS[:10, 2:])
            with pytest.raises(ew.ClassifierError, match=f"the budget of {budget} queries"):
                asked.labels(IRIS[:, 2:])
            with pytest.raises(ew.ClassifierError, match=f"the budget of {budget} queries"):
                list(map(asked.labels, IRIS[10:, np.newaxis, 2:]))
            assert sum(map(len, server.records)) == asked.answer.asked <= budget


@pytest.mark.slow
def test_a_try_that_failed_counts():
    with serving(species) as server:
        server.trouble = lambda handler: handler.give(b"", 503) or True
        asked = ew.remote(server.url, budget=3)
        with pytest.raises(ew.ClassifierError, match="the budget of 3 queries"):
            asked.labels(FLOWERS[:1])
        assert server.requests == 3


# --- secrets, files, arguments ---


def test_no_secret_is_shown(monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("EPSWORTH_REMOTE_TOKEN", "s3cret")
    caplog.set_level(logging.DEBUG)
    with serving(species) as server:
        asked = ew.remote(server.url, cache=tmp_path / "c")
        asked.labels(FLOWERS[:3])
        assert server.headers[0]["Authorization"] == "Bearer s3cret"
        kept = pickle.dumps(asked)
        assert pickle.loads(kept).labels(FLOWERS[:3]).tolist() == MODEL.predict(FLOWERS[:3]).tolist()
        mine = ew.remote(server.url, headers={"Authorization": "Basic s3cret"})
        mine.labels(FLOWERS[:1])
        assert server.headers[-1]["Authorization"] == "Basic s3cret"
        with pytest.raises(pickle.PicklingError, match="not pickled"):
            pickle.dumps(mine)
        server.trouble = lambda handler: handler.give(b"", 401) or True
        with pytest.raises(ew.ClassifierError) as refused:
            mine.labels(FLOWERS)
    texts = [caplog.text, repr(asked), repr(mine), repr(mine.answer.transport), str(refused.value)]
    assert not any("s3cret" in text for text in texts)
    assert b"s3cret" not in kept + (tmp_path / "c").read_bytes()
    with pytest.raises(ValueError, match="one line") as refused:
        ew.remote(server.url, headers={"Authorization": "s3cret\r\nX: y"})
    assert "s3cret" not in str(refused.value)


def test_services_that_share_a_file_know_their_own_answers_only(tmp_path):
    one, other = (Cache(tmp_path / "c", service) for service in ("one", "other"))
    one.keep({b"both": "yes", b"first": "yes"}, "BYTES", None)
    other.keep({b"both": "no"}, "BYTES", None)
    assert one.known([b"both", b"first"]) == {b"both": "yes", b"first": "yes"}
    assert other.known([b"both", b"first"]) == {b"both": "no"}
    other.drop()
    assert Cache(tmp_path / "c", "one").known([b"both"]) == {b"both": "yes"}


def test_files_that_are_no_cache_are_refused(tmp_path):
    (tmp_path / "text").write_text("no database, though somewhat long" * 100)
    (tmp_path / "text").chmod(0o600)
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o644)
    with serving(species) as server:
        for name, told in {
            "text": "not a database",
            "open": "chmod 600",
            ".": "check the path",
            "no/c": "check",
        }.items():
            with pytest.raises(ew.ClassifierError, match=told):
                ew.remote(server.url, cache=tmp_path / name)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://h/v2/models/", "must be http://HOST/v2/models/NAME"),
        ("http://h/v1/models/m", "must be"),
        ("ftp://h/v2/models/m", "must be"),
        ("http://h:99999/v2/models/m", "must be"),
        ("http://h/v2/models/m?key=1", "must be"),
        ("http:///v2/models/m", "must be"),
        ("http://me:word@h/v2/models/m", "no user or password"),
    ],
)
def test_addresses_are_checked(url, told):
    with pytest.raises(ValueError, match=told) as refused:
        ew.remote(url)
    assert "word@" not in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [{"batch": 0}, {"budget": 0}, {"timeout": 0}, {"patience": float("inf")}, {"inputs": "rows"}, {"output": "z"}],
)
def test_arguments_are_checked(wrong):
    with serving(species, outputs=[{"name": "y"}]) as server, pytest.raises(ValueError, match=next(iter(wrong))):
        ew.remote(server.url, **wrong)


@pytest.mark.parametrize(
    "inputs", [[7], [{"name": "x"}], [TENSOR, TENSOR], [{**TENSOR, "shape": [-1, 3, 3]}], [{**TENSOR, "datatype": []}]]
)
def test_metadata_are_a_strangers_too(inputs):
    with serving(species, inputs=inputs) as server, pytest.raises(ew.ClassifierError, match="input"):
        ew.remote(server.url)


def test_values_that_a_kind_does_not_hold_are_refused():
    with serving(above, inputs=[{**TENSOR, "datatype": "INT64"}]) as server, pytest.raises(ValueError, match="INT64"):
        ew.remote(server.url).labels(np.array([[1.5, 2.0]]))
    with serving(above) as server, pytest.raises(ValueError, match="infinite"):
        ew.remote(server.url).labels(np.array([[np.inf, 2.0]]))
    with serving(above, inputs=[TENSOR]) as server, pytest.raises(ValueError, match="holds texts"):
        ew.remote(server.url).labels(PEOPLE)
    with serving(above, inputs=[TENSOR]) as server, pytest.raises(ValueError, match="holds texts"):
        ew.remote(server.url).labels(np.array([["3_0", 2.0]], dtype=object))  # which NumPy reads as 30


def test_an_address_without_a_service_is_told_soon():
    with serving(species) as server:
        url = server.url
    started = time.monotonic()
    with pytest.raises(ew.ClassifierError, match="no connection"):
        ew.remote(url, patience=1.0)
    assert time.monotonic() - started < 2


def test_without_httpx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ImportError, match=r"epsworth\[remote\]"):
        ew.remote("http://127.0.0.1:1/v2/models/m")


# --- the command line ---


@pytest.mark.slow
def test_a_policy_is_tailored_to_a_service(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(IRIS[:, 2:], schema=["length", "width"]).write_csv("flowers.csv")
    Path("ranges.toml").write_text("[features.length]\nlower = 1\nupper = 7\n")
    rest = ["flowers.csv", "-s", "length", "--domain", "ranges.toml", "-e", "4", "--inputs", "tensor", "--public"]
    with serving(species) as server:
        asked = ("tailor", server.url, *rest, "--cache", "kept", "--seed", "1")
        status, out, err = cli(*asked, "--policy", "p.toml", "--json", "-")
        assert (status, err) == (0, "")
        assert json.loads(out)["tailored"]["kept"] > 0.5
        assert len(ew.Policy.load("p.toml").tailoring.labels) == 3
        requests = server.requests
        assert cli(*asked, "--json", "-")[:2] == (0, out)  # the cache answers
        assert server.requests == requests
        status, _, told = cli("tailor", server.url, *rest, "--budget", "20", "--policy", "q.toml")
        assert status == 2
        assert "the budget of 20 queries" in told
        assert not Path("q.toml").exists()


@pytest.mark.slow
def test_the_command_line_takes_an_address(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(FLOWERS[:4], schema=["length", "width"]).write_csv("flowers.csv")
    Path("ranges.toml").write_text("[features.length]\nlower = 1\nupper = 7\n")
    rest = ["flowers.csv", "-s", "length", "--domain", "ranges.toml", "-m", "krr", "-e", "4", "--inputs", "tensor"]
    with serving(species) as server:
        status, out, _ = cli("utility", server.url, *rest, "--cache", "kept", "--batch", "32", "--json", "-")
        assert status == 0
        curves = json.loads(out)
        here = ew.stability(
            lambda r: MODEL.predict(r), FLOWERS[:4], sensitive=0, domain={0: (1, 7)}, mechanisms="krr", epsilons=[4]
        )
        assert curves["stability"] == here.to_dict()["stability"]
        assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN  # a service that hangs up ends nothing
        requests = server.requests
        status, out, _ = cli("recommend", server.url, *rest, "--cache", "kept", "--at-least", "0.5")
        assert (status, server.requests) == (0, requests)
        status, _, told = cli("utility", server.url, *rest, "--budget", "20")
        assert status == 2
        assert "the budget of 20 queries" in told
        status, _, told = cli("utility", server.url, *rest, "--cache", "flowers.csv")
        assert status == 2
        assert "not" in told or "others may read" in told
    status, _, told = cli("utility", "model.skops", *rest[:3], "--budget", "20")
    assert status == 2
    assert "--budget is for a service" in told
    status, _, told = cli("recommend", "http://h/v2/models/m")
    assert status == 2
    assert "needs a table" in told
