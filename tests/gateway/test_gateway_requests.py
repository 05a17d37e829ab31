"""What passes a gateway, in which form, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

import epsworth as ew
from epsworth.policy import Rule

pytest.importorskip("starlette", reason="a gateway needs the extra gateway")

INFER = "/v2/models/adult/infer"


def test_a_request_leaves_perturbed_and_its_answer_comes_back_unchanged(opened, upstream, record):
    client = opened()
    answer = client.post(INFER, json={"inputs": record()})
    assert (answer.status_code, answer.content) == (200, upstream.answers[0].content)
    assert upstream.urls == ["http://model:8080" + INFER]
    age, bmi, job = upstream.last["inputs"]
    assert (age["name"], age["shape"], age["datatype"]) == ("age", [1], "FP64")
    assert 0 <= age["data"][0] <= 100
    assert 10 <= bmi["data"][0] <= 60
    assert job["datatype"] == "BYTES"
    assert job["data"][0] in ("clerk", "nurse", "other")


def test_released_values_lie_on_the_public_grid(opened, upstream, record, policy):
    client = opened()
    for _ in range(20):
        client.post(INFER, json={"inputs": record(age=31.234567)})
        steps = upstream.last["inputs"][0]["data"][0] / 100 * (policy.rules[0].kernel.points - 1)
        assert abs(steps - round(steps)) < 1e-6


def test_columns_of_one_tensor(opened, upstream, column):
    domain = ew.Domain.of({"age": (0, 100), "bmi": (10, 60)})
    policy = ew.Policy.of("pm", 2, domain, passing=["sex"])
    client = opened(policy=policy, tensors={"x": ("age", "sex", "bmi")})
    tensor = {"name": "x", "shape": [2, 3], "datatype": "INT64", "data": [[31, 0, 22], [64, 1, 30]]}
    assert client.post(INFER, json={"inputs": [tensor]}).status_code == 200
    left = upstream.last["inputs"][0]
    assert (left["shape"], left["datatype"], left["data"][1::3]) == ([2, 3], "FP64", [0, 1])
    assert client.post(INFER, json={"inputs": [tensor | {"data": [31, 0, 22, 64, 1, 30]}]}).status_code == 200
    assert client.post(INFER, json={"inputs": [tensor | {"parameters": {"columns": ["bmi"]}}]}).status_code == 400


def test_requests_may_name_the_columns_of_a_declared_tensor(opened, upstream):
    client = opened(tensors={"x": ()}, policy=ew.Policy.of("pm", 2, ew.Domain.of({"age": (0, 9), "bmi": (0, 9)})))
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    assert "columns" in client.post(INFER, json={"inputs": [tensor]}).json()["error"]
    named = tensor | {"parameters": {"columns": ["bmi", "age"], "note": "31.25"}}
    assert client.post(INFER, json={"inputs": [named]}).status_code == 200
    assert "parameters" not in upstream.last["inputs"][0]
    more = tensor | {"shape": [1, 3], "data": [1, 2, 3], "parameters": {"columns": ["bmi", "age", "zip"]}}
    assert client.post(INFER, json={"inputs": [more]}).status_code == 400


@pytest.mark.parametrize("container", [None, "records", "instances", "dataframe_records"])
def test_records_that_are_objects(opened, upstream, container):
    client = opened()
    records = [{"sex": "f", "age": 31, "bmi": 22, "job": "nurse"}, {"job": "clerk", "age": 64, "bmi": 30}]
    answer = client.post("/predict", json=records if container is None else {container: records})
    assert answer.status_code == 200
    left = upstream.last if container is None else upstream.last[container]
    assert [list(record) for record in left] == [["age", "bmi", "job", "sex"], ["age", "bmi", "job"]]
    assert left[0]["sex"] == "f"


def test_a_policy_that_samples_leaves_the_rest_null(opened, upstream):
    policy = ew.Policy.of("pm", 2, ew.Domain.of({"age": (0, 100), "job": ["a", "b"]}), sample=1)
    client = opened(policy=policy)
    assert client.post("/predict", json=[{"age": 31, "job": "a"}] * 50).status_code == 200
    assert all(sum(value is None for value in record.values()) == 1 for record in upstream.last)


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        (lambda r, c: [*r(), c("zip", "90210")], "zip"),
        (lambda r, c: [*r(), c("age", 4.0)], "age"),
        (lambda r, c: r()[:2], "job"),
        (lambda r, c: [*r()[:2], c("job", "pilot", kind="BYTES")], "job"),
        (lambda r, c: [c("age", None), *r()[1:]], "age"),
        (lambda r, c: [c("age", "31"), *r()[1:]], "age"),
        (lambda r, c: [c("age", True), *r()[1:]], "age"),
        (lambda r, c: [c("age", [31, 32]), *r()[1:]], "age"),
        (lambda r, c: [c("age", {"x": 1}), *r()[1:]], "age"),
        (lambda r, c: [c("age", 31.0, datatype="FP7"), *r()[1:]], "age"),
        (lambda r, c: [c("age", 31.0, 32.0), *r()[1:]], "records"),
        (lambda r, c: [c("age", 31.0, shape=[1, 2]), *r()[1:]], "age"),
        (lambda r, c: [c("age", 31.0, shape=[-1]), *r()[1:]], "age"),
        (lambda r, c: [c("age", 31.0, shape=[True]), *r()[1:]], "age"),
        (lambda r, c: [c("age", 31.0, more=1), *r()[1:]], "more"),
        (
            lambda r, c: [{"name": "age", "shape": [1], "datatype": "FP64", "parameters": {"binary_data_size": 8}}],
            "age",
        ),
        (lambda r, c: [], "inputs"),
        (lambda r, c: ["age"], "inputs"),
    ],
)
def test_what_the_policy_does_not_cover_is_refused(opened, upstream, record, column, inputs, names):
    answer = opened().post(INFER, json={"inputs": inputs(record, column)})
    assert 400 <= answer.status_code < 500
    assert names in answer.json()["error"]
    assert not upstream.bodies


ODD = [None, True, 0, 1.5, "", "x", [], {}, ["FP64"], {"FP64": 1}, [["age"]], [{}], [None], ["\ud800"]]


@pytest.mark.parametrize("member", ["name", "shape", "datatype", "data", "columns"])
def test_members_of_another_kind_are_refused_by_name(opened, upstream, member):
    domain = ew.Domain.of({"age": (0, 100), "bmi": (10, 60)})
    client = opened(policy=ew.Policy.of("pm", 2, domain), tensors={"t": ()})
    for odd in ODD:
        tensor = {"name": "t", "shape": [1, 2], "datatype": "FP64", "data": [31, 22]}
        tensor["parameters"] = {"columns": ["age", "bmi"]}
        (tensor["parameters"] if member == "columns" else tensor)[member] = odd
        answer = client.post(INFER, json={"inputs": [tensor]})
        assert answer.status_code in (400, 415), odd
        assert member != "datatype" or "datatype" in answer.json()["error"]
    assert not upstream.bodies


@pytest.mark.parametrize("odd", ODD)
def test_no_member_makes_the_gateway_fail(opened, upstream, record, odd):
    """Whatever a member holds, the request is refused or forwarded without it."""
    client = opened(outputs=("proba",))
    for more in (
        {"outputs": odd},
        {"outputs": [odd]},
        {"outputs": [{"name": odd}]},
        {"inputs": odd},
        {"inputs": [odd]},
    ):
        left_out = more == {"outputs": None}
        assert client.post(INFER, json={"inputs": record()} | more).status_code == (200 if left_out else 400)
    upstream.bodies.clear()
    for parameters in (odd, {"content_type": odd}):
        inputs = record()
        inputs[0]["parameters"] = parameters
        assert client.post(INFER, json={"inputs": inputs, "parameters": parameters, "id": odd}).status_code == 200
        assert "parameters" not in json.dumps(upstream.last)
    for body in (odd, [odd], {"records": odd}, {"records": [odd]}):
        assert client.post("/predict", json=body).status_code == 400
    for name in ("age", "job", "sex"):
        told = client.post("/predict", json=[{"age": 31, "bmi": 22, "job": "nurse"} | {name: odd}])
        assert told.status_code in (200, 400)


@pytest.mark.parametrize("more", [{"model": "x"}, {"outputs": [{"name": "proba"}]}, {"outputs": "proba"}])
def test_members_that_nobody_declared_are_refused(opened, upstream, record, more):
    assert opened().post(INFER, json={"inputs": record()} | more).status_code == 400
    assert not upstream.bodies


def test_declared_outputs_and_known_content_types_pass(opened, upstream, record):
    client = opened(outputs=("proba",))
    request = {"inputs": record(), "outputs": [{"name": "proba", "parameters": {"x": 1}}], "id": "person-7"}
    assert client.post(INFER, json=request | {"parameters": {"content_type": "pd", "who": "me"}}).status_code == 200
    assert upstream.last["outputs"] == [{"name": "proba"}]
    assert upstream.last["parameters"] == {"content_type": "pd"}
    assert "id" not in upstream.last


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[", b"\xff", b"null", b"[]", b"{}", b'{"records": []}', b'[{"age": 1, "age": 2}]', b"[" * 5000, b"[1]",
        b'[{"age": NaN, "bmi": 22, "job": "nurse"}]', b'{"records": [{}], "more": 1}',
        b'[{"age": 31, "bmi": 22, "job": "nurse", "sex": {"age": 31}}]',
        b'[{"age": 31, "bmi": 22, "job": "nurse", "sex": 1e999}]',
    ],
)  # fmt: skip
def test_bodies_that_readers_could_read_differently_are_refused(opened, upstream, body):
    answer = opened().post("/predict", content=body)
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    assert not upstream.bodies


def test_numbers_beyond_the_range_are_clamped_however_long(opened, upstream):
    client = opened()
    for age in ("1e400", "-" + "9" * 4000, "1" + "0" * 400):
        body = f'[{{"age": {age}, "bmi": 22, "job": "nurse"}}]'
        assert client.post("/predict", content=body.encode()).status_code == 200
        assert 0 <= upstream.last[0]["age"] <= 100


def test_values_that_are_missing_or_undeclared_follow_the_policy(opened, upstream, policy):
    text = policy.to_toml().replace("[features.age]", "[features.age]\nmissing = 40")
    text = text.replace("[features.job]", '[features.job]\nmissing = "other"\noutside = "other"')
    told = ew.Policy.from_toml("\n".join(line for line in text.splitlines() if not line.startswith("fingerprint")))
    client = opened(policy=told)
    assert client.post("/predict", json=[{"age": None, "bmi": 22, "job": "pilot"}]).status_code == 200
    assert client.post("/predict", json=[{"age": 31, "bmi": None, "job": None}]).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/octet-stream"},
        {"inference-header-content-length": "7"},
        {"content-encoding": "gzip"},
    ],
)
def test_binary_and_compressed_bodies_are_refused(opened, upstream, headers):
    assert (
        opened().post(INFER, content=b"{}", headers={"content-type": "application/json"} | headers).status_code == 415
    )
    assert not upstream.bodies


def test_limits(opened, upstream, record):
    client = opened(most_records=2, largest_body=2000)
    one = {"age": 31, "bmi": 22, "job": "nurse"}
    assert client.post("/predict", json=[one] * 3).status_code == 413
    assert client.post("/predict", content=b" " * 2001).status_code == 413
    assert client.post("/predict", json=[one] * 2).status_code == 200


def test_addresses(opened, upstream, record):
    client = opened(upstream="http://model:8080/v2/models/adult")
    body = {"inputs": record()}
    assert client.post("/v2/models/adult/versions/3/infer", json=body).status_code == 200
    assert upstream.urls[-1] == "http://model:8080/v2/models/adult/versions/3/infer"
    for path in (
        "/v2/models/other/infer",
        "/v2/models/adult/infer?age=31",
        "/v2/models/adult%2031/infer",
        "/v2/models/../infer",
    ):
        assert client.post(path, json=body).status_code in (400, 404)
    assert len(upstream.urls) == 1
    assert client.get("/v2/models/adult").status_code == 200
    assert upstream.bodies[-1] is None
    assert client.get("/v2/models/adult?who=me").status_code == 400


def test_nothing_raw_reaches_upstream_logs_errors_or_metrics(opened, upstream, record, capfd):
    client = opened()
    secrets = ["31.2598761", "22.7391824", "nurse-9753", "Jane-Roe-42", "cookie-5511", "trace-8822", "203.0.113.9"]
    headers = {"cookie": secrets[4], "traceparent": secrets[5], "x-forwarded-for": secrets[6], "referer": secrets[3]}
    inputs = record(age=float(secrets[0]), bmi=float(secrets[1]), sex="f")
    request = {"id": secrets[3], "parameters": {"who": secrets[3]}, "inputs": inputs}
    request["inputs"][0]["parameters"] = {"who": secrets[3]}
    told = [client.post(INFER, json=request, headers=headers)]
    wrong = json.loads(json.dumps(request))
    wrong["inputs"][2]["data"] = [secrets[2]]
    told.append(client.post(INFER, json=wrong, headers=headers))
    told.append(client.post("/predict", json=[{"age": secrets[2], "bmi": 1, "job": "nurse"}], headers=headers))
    told.append(client.post("/predict", content=f'{{"{secrets[2]}'.encode(), headers=headers))
    told.append(client.get("/metrics"))
    assert [answer.status_code for answer in told] == [200, 400, 400, 400, 200]
    out = capfd.readouterr()
    sent = b"".join(body or b"" for body in upstream.bodies).decode() + str(upstream.headers) + str(upstream.urls)
    everything = sent + out.out + out.err + "".join(answer.text + str(answer.headers) for answer in told)
    assert [secret for secret in secrets if secret in everything] == []
    assert set(upstream.headers[0]) == {"Accept", "Accept-Encoding", "User-Agent", "Content-Type"}
    lines = [json.loads(line) for line in out.err.splitlines()]
    assert [line["event"] for line in lines] == ["answered", "refused", "refused", "refused"]
    assert lines[1]["field"] == "job"


def test_metrics_count_by_reason_and_feature(opened, upstream, record):
    client = opened()
    client.post(INFER, json={"inputs": record()})
    client.post(INFER, json={"inputs": record(job="pilot")})
    client.post(INFER, json={"inputs": record(zip="90210")})
    told = client.get("/metrics").text
    for line in (
        'requests_total{outcome="answered"} 1',
        'requests_total{outcome="refused"} 2',
        'refusals_total{reason="value",field="job"} 1',
        'refusals_total{reason="undeclared",field=""} 1',
        "records_total 1",
        "attempts_total 1",
        "under_way 0",
        "upstream_seconds_count 1",
        "epsworth_gateway_seconds_count 3",
    ):
        assert line in told
    assert "zip" not in told


HOSTILE = [31, "31", "", True, None, [31], [[1, 2]], {}, {"a": [31]}, 1e400, -1e400, 10**400, "x" * (1 << 16)]


def test_no_value_is_refused_that_has_a_substitute(opened, upstream, column):
    """Words are drawn as ever; the kernel of one category keeps it but with probability e^-200."""
    jobs = ew.Feature("job", categories=("clerk", "other"))
    policy = ew.Policy(
        (
            Rule(ew.Feature("age", 0, 100, missing=40), "krr:k=101", Decimal(200)),
            Rule(replace(jobs, missing="clerk"), "krr", Decimal(200), outside="other"),
        )
    )
    client = opened(policy=policy)
    body = json.dumps([{"age": value, "job": value} for value in HOSTILE] + [{}]).replace("Infinity", "1e400")
    assert client.post("/predict", content=body.encode()).status_code == 200
    ages, jobs = zip(*((one["age"], one["job"]) for one in upstream.last), strict=True)
    assert ages == (31.0, 40.0, 40.0, 40.0, 40.0, 40.0, 40.0, 40.0, 40.0, 100.0, 0.0, 100.0, 40.0, 40.0)
    assert jobs == ("other",) * 4 + ("clerk",) + ("other",) * 8 + ("clerk",)
    flat = [value for value in HOSTILE if value != [31]] + [[31, 32]]
    request = {"inputs": [column("age", *flat), column("job", *flat, kind="BYTES")]}
    body = json.dumps(request).replace("Infinity", "1e400")
    assert client.post("/v2/models/m/infer", content=body.encode()).status_code == 200
    assert upstream.last["inputs"][0]["data"] == [31.0, *[40.0] * 7, 100.0, 0.0, 100.0, 40.0, 40.0]
