"""Whatever sensitive columns hold, a tailored release looks the same but for what was drawn, and refuses nothing.

Most tests send records of which one region is within reach: their release is then the same, byte for byte.
"""

from __future__ import annotations

import datetime
import io
import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from epsworth import Perturb, Policy, perturb, perturb_file
from epsworth.policy import Pass, Rule
from epsworth.policy.rules import Sampling
from epsworth.policy.tables import Perturbation
from epsworth.space import Feature
from tailored import ABSURD, RULE, STANDING, Hostile, Shy, policy, tailoring

FIXED = policy("worst")
"""At one hour, age 100 and job b leave, whatever is true."""
AGE = 100.0
USUAL = [3, 99.5, 40]
JOBS = ["a", "c", "b"]


def names_changed(given: Policy) -> Policy:
    """Return a policy of the columns of arrays, all numbers: x0 and x1 sensitive, x2 public."""
    from epsworth.grids import Grid
    from epsworth.tailored.surrogates import IntegerReLU, Layer

    grids = tuple(Grid(Feature(f"x{i}", 0, 100), 4, missing=50) for i in range(3))
    copy = IntegerReLU(
        tuple(grid.input for grid in grids), (Layer(np.array([[0, 0, 0], [1, 0, 0]]), np.array([0, -8]), 0),)
    )
    assert given.tailoring is not None
    from epsworth.tailored.randomisers import Worst

    return Policy(
        (), None,
        replace(
            given.tailoring, labels=(0, 1), grids=grids, copy=copy, randomiser=Worst(Decimal(1), 2), default=(0, 0),
            representatives=(np.array([[3, 3]]), np.empty((0, 2), dtype=np.int64)),
        ),
        Pass(("x2",)),
    )  # fmt: skip


NUMBERS = names_changed(FIXED)


def column(values):
    """Return an array of objects, whatever they are."""
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        found[i] = value
    return found


# ---- arrays


@pytest.mark.parametrize(
    "public", [[1.0, 2.5, 1e300], [1, 2, 3], [1, 2**60 + 1, 3], [1, None, "x"], [float("nan"), 2, 3]]
)
def test_arrays_of_objects_look_the_same(public):
    usual = np.column_stack([column(USUAL), column(USUAL), column(public)])
    first = perturb(NUMBERS, usual)
    for bad in ABSURD:
        hostile = np.column_stack([column([bad] * 3), column([3, bad, 4]), column(public)])
        released = perturb(NUMBERS, hostile)
        assert released.dtype == first.dtype
        assert [list(map(repr, row)) for row in released.tolist()] == [list(map(repr, row)) for row in first.tolist()]
    assert first[:, :2].tolist() == [[20.0, 20.0]] * 3
    assert all(a == b or a != a for a, b in zip(first[:, 2].tolist(), public, strict=True))


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i8", "u8", "g", "O"])
def test_arrays_of_numbers_release_doubles(kind):
    table = np.array([[30, 120, 7], [1, 2, 3]], dtype=kind)
    released = perturb(NUMBERS, table)
    assert released.dtype == np.float64
    assert released.tolist() == [[20.0, 20.0, 7.0], [20.0, 20.0, 3.0]]


def test_whole_numbers_that_doubles_round_stay_themselves():
    released = perturb(NUMBERS, np.array([[1, 2, 2**60 + 1]]))
    assert released.tolist() == [[20.0, 20.0, 2**60 + 1]]


@pytest.mark.parametrize("table", [
    np.array([["30", "x", "a"]]), np.array([[True, False, True]]),
])  # fmt: skip
def test_words_and_truths_have_places_too(table):
    released = perturb(NUMBERS, table)
    assert released.dtype == (object if table.dtype.kind == "U" else float)
    assert released[0, :2].tolist() == [20.0, 20.0]
    assert released[0, 2] == table[0, 2]


@pytest.mark.parametrize("kind", ["M8[s]", "m8[s]", "c16", [("a", "f8")]])
def test_arrays_of_neither_numbers_nor_words_are_refused_by_their_type(kind):
    with pytest.raises(ValueError, match="neither numbers nor words"):
        perturb(NUMBERS, np.zeros((1, 3), dtype=kind))


@pytest.mark.parametrize("kind", ["M8[s]", "c16"])
def test_a_mask_changes_nothing_in_what_is_refused(kind):
    table = np.ma.masked_array(np.zeros((1, 3), dtype=kind), mask=[[True, False, False]])
    with pytest.raises(ValueError, match="neither numbers nor words"):
        perturb(NUMBERS, table)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("kind", "bits"), [("f2", 0x7D00), ("f4", 0x7FA00000), ("f8", 0x7FF4000000000000)])
def test_nothing_is_said_of_signalling_and_tiny_numbers(kind, bits):
    table = np.zeros((1, 3), dtype=kind)
    table.view(f"u{table.itemsize}")[0, 0] = bits
    table[0, 1] = np.finfo(kind).smallest_subnormal
    with np.errstate(all="raise"):
        assert perturb(NUMBERS, table).tolist() == [[20.0, 20.0, 0.0]]
        for frame in (pd.DataFrame, pl.DataFrame, pa.table):
            found = frame({f"x{i}": table[:, i] for i in range(3)})
            assert perturb(NUMBERS, found)["x0"].to_numpy().tolist() == [20.0]


def test_the_true_values_of_a_column_with_a_rule_do_not_show_in_an_array_s_type():
    given = Policy((Rule(Feature("x2", 0, 100, missing=3), "krr:k=3", Decimal("0.5")),), None, NUMBERS.tailoring)
    for value in (7.0, 7, None, "7", 2**60 + 1, True):
        table = np.column_stack([column([1.0]), column([2.0]), column([value])])
        assert perturb(given, table).dtype == np.float64


def test_what_is_masked_is_missing():
    table = np.ma.masked_array([[1.0, 2.0, 3.0]], mask=[[True, True, False]])
    assert perturb(NUMBERS, table).tolist() == [[20.0, 20.0, 3.0]]
    assert Perturbation(NUMBERS).unmasked(table).tolist() == [[None, None, 3.0]]
    assert Perturb(NUMBERS).fit(table).transform(table).tolist() == [[20.0, 20.0, 3.0]]
    table.mask[0, 2] = True
    for door in (lambda: perturb(NUMBERS, table), lambda: Perturb(NUMBERS).fit(table)):
        with pytest.raises(ValueError, match="masked entries"):
            door()


def test_no_records_are_no_fault():
    for found in (perturb(NUMBERS, np.zeros((0, 3))), perturb(NUMBERS, np.zeros((0, 3), dtype=object))):
        assert found.shape == (0, 3)
    for frame in (pd.DataFrame({"age": [], "job": [], "hours": []}), pl.DataFrame(schema=["age", "job", "hours"])):
        assert len(perturb(FIXED, frame)) == 0


# ---- frames


def beside(size):
    """Return public columns of a frame."""
    return {"hours": [1] * size, "id": list(range(size)), "note": ["n"] * size}


HOSTILE = {
    "absurd": (column(ABSURD), column(ABSURD)),
    "late": (column(["x"] * 200 + [[1], 1, True, Hostile()]), column(["a"] * 200 + [{"a"}, 1, True, 1.0])),
    "categories": (pd.Categorical([3, 40, None]), pd.Categorical(["a", "q", None])),
    "nullable": (pd.array([1, None, 3], dtype="Int64"), pd.array(["a", None, "b"], dtype="string")),
    "nullable floats": (pd.array([1, None, 3], dtype="Float32"), pd.array([True, None, False], dtype="boolean")),
    "dates": (pd.to_datetime(["2020-01-01", None, "2021-01-01"]), pd.to_timedelta([1, None, 2])),
    "zones": (pd.to_datetime(["2020-01-01"] * 3, utc=True), pd.period_range("2020", periods=3, freq="D")),
    "sparse": (pd.arrays.SparseArray([0.0, 0.0, 1.0]), pd.interval_range(0, 3)),
    "truths": (np.array([True, False, True]), np.array([1, 2, 3])),
    "arrow": (
        pd.array([Decimal("1.5"), None, Decimal(7)], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        pd.array([[1], None, [2, 3]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    ),
    "complex": (np.array([1j, 2, 3]), np.array([1.5, 2, 3])),
}


def pandas(age, job):
    return pd.DataFrame({"age": age, "job": job, **beside(len(age))}, index=pd.RangeIndex(5, 5 + len(age)))


@pytest.mark.parametrize("kind", HOSTILE)
def test_pandas_frames_look_the_same(kind):
    age, job = HOSTILE[kind]
    size = len(age)
    usual = perturb(FIXED, pandas([40.0] * size, ["a"] * size))
    released = perturb(FIXED, pandas(age, job))
    pd.testing.assert_frame_equal(released, usual, check_exact=True)
    assert (released["age"] == AGE).all()
    assert released["id"].tolist() == list(range(size))
    pd.testing.assert_frame_equal(Perturb(FIXED).fit(pandas(age, job)).transform(pandas(age, job)), usual)


POLARS = {
    "integers": ([1, None, 3], ["a", None, "q"]),
    "truths": ([True, None, False], [1, None, 3]),
    "lists": ([[1], None, []], [[["a"]], None, []]),
    "structs": ([{"a": 1}, None, {"a": 2}], [{"a": "a"}, None, None]),
    "dates": ([datetime.date(2020, 1, 1), None, None], [datetime.datetime(2020, 1, 1), None, None]),
    "times": ([datetime.time(1), None, None], [datetime.timedelta(1), None, None]),
    "bytes": ([b"a", None, b""], [b"b", None, b""]),
    "decimals": ([Decimal("1.5"), None, Decimal("1e20")], [Decimal(1), None, None]),
    "nothing": ([None] * 3, [None] * 3),
    "floats": ([float("nan"), float("inf"), None], [1.5, float("nan"), None]),
}  # fmt: skip


def polars(age, job):
    return pl.DataFrame({"age": age, "job": job, **beside(len(age))})


TYPED = {
    "objects": (pl.Series([Shy(), object(), 3], dtype=pl.Object), pl.Series([{1}, "a", None], dtype=pl.Object)),
    "categorical": (
        pl.Series(["1", "x", None], dtype=pl.Categorical),
        pl.Series(["a", "q", None], dtype=pl.Categorical),
    ),
    "enum": (pl.Series(["a"] * 3, dtype=pl.Enum(["a"])), pl.Series(["b", "z", None], dtype=pl.Enum(["b", "z"]))),
    "wide": (pl.Series([1, 2**100, None], dtype=pl.Int128), pl.Series([1, 2, None], dtype=pl.UInt8)),
}


@pytest.mark.parametrize("kind", [*POLARS, *TYPED])
def test_polars_and_arrow_frames_look_the_same(kind):
    usual = perturb(FIXED, polars([40.0] * 3, ["a"] * 3))
    table = polars(*(POLARS | TYPED)[kind])
    released = perturb(FIXED, table)
    assert released.schema == usual.schema
    assert released.equals(usual)
    if kind in ("objects", "wide"):  # which arrow has not
        return
    table = table.to_arrow()
    released, usual = perturb(FIXED, table), perturb(FIXED, polars([40.0] * 3, ["a"] * 3).to_arrow())
    assert released.schema == usual.schema
    assert released.equals(usual)
    dictionary = pa.table(
        {**{n: table[n] for n in table.column_names}, "job": pa.array(["a", "z", None]).dictionary_encode()}
    )
    assert perturb(FIXED, dictionary).equals(usual)


FAR = {
    "times": pa.array([2**55, None, 0], pa.timestamp("s")),
    "zones": pa.array([0, None, 1], pa.timestamp("us", "Mars/Phobos")),
    "days": pa.array([86_400_000 * 10**10, None, 0], pa.date64()),
    "no texts": pa.Array.from_buffers(
        pa.string(), 3, [None, pa.array([0, 1, 2, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    ),
    "words of times": pa.array([2**55, None, 0], pa.timestamp("s")).dictionary_encode(),
}


@pytest.mark.parametrize("kind", FAR)
@pytest.mark.parametrize("name", ["age", "job"])
def test_values_that_python_cannot_hold_look_the_same(kind, name):
    usual = pa.table({"age": USUAL, "job": JOBS, **beside(3)})
    at = usual.column_names.index(name)
    hostile = usual.set_column(at, name, FAR[kind])
    assert perturb(FIXED, hostile).equals(perturb(FIXED, usual))
    hostile = pd.DataFrame({**usual.to_pydict(), name: pd.Series(pd.arrays.ArrowExtensionArray(FAR[kind]))})
    pd.testing.assert_frame_equal(perturb(FIXED, hostile), perturb(FIXED, usual.to_pandas()))


@pytest.mark.parametrize("far", [pl.Datetime("ms"), pl.Duration("ms"), pl.Date])
def test_times_that_polars_cannot_show_look_the_same(far, capfd):
    usual = pl.DataFrame({"age": list(map(float, USUAL)), "job": JOBS, **beside(3)})
    times = pl.Series([2**31 - 1 if far == pl.Date else 2**62, None, 0]).cast(far)
    for name in ("age", "job"):
        assert perturb(FIXED, usual.with_columns(times.alias(name))).equals(perturb(FIXED, usual))
    assert capfd.readouterr().err == ""


def test_types_of_what_leaves_are_the_policy_s_where_nothing_is_drawn():
    for frame in (polars([40.0] * 3, ["a"] * 3), polars([[1]] * 3, [None] * 3)):
        assert perturb(FIXED, frame.head(0)).schema == perturb(FIXED, frame).schema


# ---- text


LINES = ["3,a,1,7", "99.5,c,1, 8 ", '40,"b",1,"x, ""y"""']
FIELDS = [
    "", "NA", "nan", "inf", "-inf", "1e999", "1_000", " 4 ", '"4"', '"a, b"', "true", "[1]", "x" * 300, "0x10", "é",
    "+5", "-0", '""', '" "', "٣", "'", "=1+1", "\ufeff", "1" * 400,
]  # fmt: skip


def released(tmp_path, content, ending, given=FIXED, words=None):
    source, destination = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    source.write_bytes(content)
    destination.unlink(missing_ok=True)
    receipt = perturb_file(given, source, destination, again=True, words=words)
    return destination.read_bytes(), receipt


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_looks_the_same(tmp_path, end):
    header = "age,job,hours,note"
    usual, _ = released(tmp_path, (end.join([header, *["40,a,1, n "] * len(FIELDS)])).encode(), "csv")
    hostile, _ = released(tmp_path, (end.join([header, *[f"{f},{f},1, n " for f in FIELDS]])).encode(), "csv")
    assert hostile == usual
    assert usual.decode().split(end)[1] == f"{AGE},b,1, n "


def test_csv_keeps_public_columns_to_the_byte(tmp_path):
    given = replace(FIXED, passing=FIXED.passing.edited(text=["note"]))
    content, receipt = released(tmp_path, ("age,job,hours,note\n" + "\n".join(LINES)).encode(), "csv", given)
    assert content.decode().splitlines()[1:] == [f"{AGE},b,1,7", f"{AGE},b,1, 8 ", f'{AGE},b,1,"x, ""y"""']
    assert receipt.columns == ("age", "job")


VALUES = [
    "null", "true", '"40"', '""', "[]", "{}", "[1, [2]]", '{"a": {"age": 1}}', "NaN", "Infinity", "-Infinity", "1e999",
    "-0", "1" * 400, '"\\ud800"', '"a, b"', '"\\"}"', '{"a": 1, "a": 2}', "[" * 3000 + "]" * 3000, "12x", "[1}", "tru",
    '"\\x"', '"\t"', "01", "1.", "-",
]  # fmt: skip


def test_json_lines_look_the_same(tmp_path):
    rest = '"hours": 1, "note" :  "x\\u00e9", "id": 12'
    usual, _ = released(tmp_path, f'{{"age": 40, "job": "a", {rest}}}\n'.encode() * len(VALUES), "jsonl")
    for form in ('{{"age": {0}, "job": {0}, {1}}}\n', '{{{1}, "job": {0}}}\n', '{{"job":{0},{1},"age":{0}}}\n'):
        lines = "".join(form.format(value, rest) for value in VALUES)
        hostile, _ = released(tmp_path, lines.encode(), "jsonl")
        assert hostile == usual
    without, _ = released(tmp_path, f"{{{rest}}}\n".encode() * len(VALUES), "jsonl")
    assert without == usual
    first = usual.decode().splitlines()[0]
    assert first == f'{{"id": 12, "note": "xé", "hours": 1, "age": {AGE}, "job": "b"}}'  # in the policy's order


def test_json_names_are_kept_whatever_they_are(tmp_path):
    odd = replace(FIXED, passing=Pass(("\ud800", "hours")))
    content, _ = released(tmp_path, b'{"age": 1, "\\ud800": 2, "hours": 1}\n', "jsonl", odd)
    assert json.loads(content) == {"\ud800": 2, "hours": 1, "age": AGE, "job": "b"}


def test_public_columns_with_bad_values_are_sent_unchanged(tmp_path):
    for value in ("null", '"six"', "true"):
        content, _ = released(tmp_path, f'{{"age": 1, "job": "b", "hours": {value}}}\n'.encode(), "jsonl")
        assert content.decode().startswith(f'{{"hours": {value}, "age": ')
    content, _ = released(tmp_path, b"age,job,hours\n1,a,six\n1,a,\n", "csv")
    assert [line.split(",")[2] for line in content.decode().splitlines()] == ["hours", "six", ""]


def test_a_member_that_is_twice_there_is_refused_by_its_row_alone(tmp_path):
    with pytest.raises(ValueError, match=r"^data row 0 of in.jsonl holds two members of one name; repair the row$"):
        released(tmp_path, b'{"age": 123456, "age": 2, "hours": 1}\n', "jsonl")


def test_a_rule_keeps_its_member_s_place_beside_a_tailored_policy(tmp_path):
    content, receipt = released(tmp_path, b'{"age": 1, "hours": 3, "id": 7}\n', "jsonl", policy(rules=[RULE]))
    assert list(json.loads(content)) == ["id", "hours", "age", "job"]
    assert receipt.columns == ("hours", "age", "job")


@pytest.mark.parametrize("kind", [*POLARS, "categorical", "enum", "wide"])
@pytest.mark.cases(1)
def test_parquet_looks_the_same(tmp_path, kind):
    def parquet(table):
        held = io.BytesIO()
        table.write_parquet(held)
        return released(tmp_path, held.getvalue(), "parquet")[0]

    usual = parquet(polars([40.0] * 3, ["a"] * 3))
    assert parquet(polars(*(POLARS | TYPED)[kind])) == usual
    assert pl.read_parquet(io.BytesIO(usual)).schema == perturb(FIXED, polars([1.0], ["a"])).schema


# ---- what is said


@pytest.mark.slow
def test_nothing_but_what_was_drawn_differs_where_more_is_within_reach(tmp_path):
    given = policy("gain", draw=True)
    for bad in ABSURD[:-1]:  # half a surrogate pair is no text to pandas
        frame = pd.DataFrame({"age": column([40, bad]), "job": column(["a", bad]), "hours": [6, 6]})
        out = perturb(given, frame)
        assert (
            out.dtypes.astype(str).tolist() == perturb(given, frame.assign(age=1, job="a")).dtypes.astype(str).tolist()
        )
        allowed = {(rows[0] * 100 / 15, "abc"[rows[1]]) for part in STANDING for rows in part.tolist()}
        assert {(round(a, 9), j) for a, j in zip(out["age"], out["job"], strict=True)} <= {
            (round(a, 9), j) for a, j in allowed
        }


@pytest.mark.parametrize("given", [FIXED, policy(rules=[RULE])])
def test_receipts_charge_the_region_once_and_say_what_single_values_mean(tmp_path, given):
    content = b"age,job,hours\n1,a,1\n"
    _, receipt = released(tmp_path, content, "csv", given)
    assert receipt.epsilon == given.guarantee.epsilon
    assert receipt.stated == float(given.total)
    assert receipt.epsilon <= receipt.stated
    says = "The values of age, job stand together for a region of the classifier; each alone means nothing."
    assert says in str(receipt)
    assert receipt.together == ("age", "job")
    plain = Policy((Rule(Feature("age", 0, 100), "pm", Decimal(1)),), passing=Pass(("job", "hours")))
    assert "region" not in str(released(tmp_path, content, "csv", plain)[1])


def test_the_ledger_adds_the_region_s_epsilon_even_where_one_alone_is_within_reach(tmp_path):
    for times in (1, 2):
        _, receipt = released(tmp_path, b"age,job,hours\n1,a,1\n", "csv")
        assert receipt.times_before == times - 1
        assert receipt.epsilon_so_far == pytest.approx(times, rel=1e-9)
        assert receipt.epsilon_so_far >= times * receipt.epsilon


def test_policies_say_what_they_do():
    for kind, words in (("worst", "the worst"), ("average", "on average"), ("gain", "gain")):
        told = str(policy(kind, rules=[RULE]))
        assert "age, job: tailored, epsilon 1 for all of them together" in told
        assert words in told
        assert "single values mean nothing" in told
        header = policy(kind).to_toml().split("version")[0]
        assert all(line.startswith("#") or not line for line in header.splitlines())
        for part in ("Everything in it is public", "region", "alone means nothing", "copy of the classifier"):
            assert part in header
    assert "region" not in Policy((RULE,)).to_toml()


def test_transformers_name_their_columns():
    frame = pd.DataFrame({"age": [1], "job": ["a"], "hours": [1], "id": [2]})
    step = Perturb(FIXED).fit(frame)
    assert step.get_feature_names_out().tolist() == ["age", "job", "hours", "id"]
    assert step.transform(frame).columns.tolist() == ["age", "job", "hours", "id"]
    with pytest.raises(ValueError, match="lacks the column 'hours', which the policy looks at"):
        Perturb(FIXED).fit(frame.drop(columns="hours"))
    with pytest.raises(ValueError, match="sample"):
        Policy((RULE,), Sampling(1), tailoring())


@pytest.mark.parametrize("public", [[1.0, 2.5], [2**53 + 1, 3], ["x", 2]])
@pytest.mark.cases(1)
def test_transformers_of_lists_look_the_same(public):
    def rows(a, b):
        return [[a, b, public[0]], (b, 4, public[1])]

    def frame(a, b):
        return pd.DataFrame({0: column([a, b]), 1: column([b, 4]), 2: public})

    def said(table):
        found = Perturb(NUMBERS).fit(table).transform(table)
        return found.dtype, [list(map(repr, row)) for row in found.tolist()]

    for kind in (rows, frame):
        usual = said(kind(3, 99.5))
        bads = [bad for bad in ABSURD if kind is rows or type(bad) is not Hostile]
        assert all(said(kind(bad, 5)) == said(kind(5.5, bad)) == usual for bad in bads)
    assert said(pd.DataFrame({0: [1j, 2], 1: [1, 2], 2: public})) == usual
    with pytest.raises(ValueError, match="not equally long"):
        Perturb(NUMBERS).fit([[1, 2, 3], [1, 2]])


def test_a_transformer_says_nothing_of_what_it_refuses():
    with pytest.raises(ValueError, match="Complex data not supported") as told:
        Perturb(NUMBERS).fit(np.array([[123456j, 1, 2]]))
    assert "123456" not in str(told.value)


def test_notes_on_a_table_stay_behind():
    """They may tell what a column held."""
    frame = pd.DataFrame({"age": USUAL, "job": JOBS, **beside(3)})
    frame.attrs = {"oldest": 99.5}
    assert perturb(FIXED, frame).attrs == {}
    table = pa.table({"age": USUAL, "job": JOBS, **beside(3)}, metadata={"oldest": "99.5"})
    assert not perturb(FIXED, table).schema.metadata
