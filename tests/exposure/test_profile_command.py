"""Tables to rows in the unit ball, and the command line."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from epsworth.exposure import ExposureError, encode, fit_base, loo
from epsworth.tables import read_table


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    rng = np.random.default_rng(0)
    age, job = rng.uniform(18, 90, 400), rng.choice(["a", "b", "c"], 400)
    rich = np.where(age + 20 * (job == "a") + rng.normal(scale=10, size=400) > 60, ">50K", "<=50K")
    pl.DataFrame({"age": age, "job": job, "income": rich}).write_csv(folder / "table.csv")
    pl.DataFrame({"age": age, "income": np.full(400, "x")}).write_csv(folder / "constant.csv")
    gaps = pl.DataFrame({"age": [*age[:3], None, *age[4:]], "job": job, "income": rich})
    gaps.write_csv(folder / "gaps.csv")
    gaps.drop("job").fill_null(50).write_csv(folder / "filled.csv")
    return folder


@pytest.fixture
def cli(cli, place, monkeypatch):
    monkeypatch.chdir(place)
    return partial(cli, "profile")


def test_tables_become_rows_in_the_unit_ball():
    table = pl.DataFrame(
        {"age": [20, 30, 70, 40], "job": ["a", None, "b", "a"], "same": [1, 1, 1, 1], "ok": [True, False, True, True]}
    )
    found = encode(table, "ok")
    assert found.names == ("age", "job=(missing)", "job=a", "job=b", "(constant)")
    assert found.y.tolist() == [1, -1, 1, 1]
    assert found.positive == "True"
    lengths = np.linalg.norm(found.X, axis=1)
    assert lengths.max() == pytest.approx(1)
    np.testing.assert_allclose(found.X[:, 1:4].sum(axis=1), found.X[:, 4])
    assert encode(table.to_pandas(), "ok").names == found.names


NUL = chr(0)


@pytest.mark.parametrize(
    ("values", "titles"),
    [
        (["a", "a" + NUL, "a"], ["a", "'a\\x00'"]),
        ([1, "1", 1], ["'1'", "1"]),
        ([True, "True", True], ["'True'", "True"]),
        ([True, 1, "x"], ["1", "True", "x"]),
        ([None, "(missing)", "b"], ["'(missing)'", "(missing)", "b"]),
        ([1, 1.0, "b"], ["1", "b"]),
        ([2**53, 2**53 + 1, "b"], ["9007199254740992", "9007199254740993", "b"]),
        (["NA", "", " "], ["", " ", "NA"]),
    ],
)
@pytest.mark.parametrize("hold", ["polars", "pandas", "array"])
def test_distinct_values_are_distinct_categories(values, titles, hold):
    if hold == "polars":
        table = pl.DataFrame({"a": pl.Series(values, dtype=pl.Object), "t": [0, 1, 1]})
    elif hold == "pandas":
        table = pd.DataFrame({"a": pd.Series(values, dtype=object), "t": [0, 1, 1]})
    else:
        table = np.array([values, ["no", "yes", "yes"]], dtype=object).T
    name = "x0" if hold == "array" else "a"
    found = encode(table, "x1" if hold == "array" else "t")
    assert found.names[:-1] == tuple(f"{name}={title}" for title in titles)
    assert np.count_nonzero(found.X, axis=1).tolist() == [2, 2, 2]
    assert len(np.unique(found.X, axis=0)) == len(titles)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([[1], [2], [3]]), pl.Series([{"a": 1}, {"a": 2}, {"a": 3}]), pl.Series([b"a", b"b", b"c"]),
        pl.Series([[1], [2], [3]], dtype=pl.Array(pl.Int64, 1)), pd.Series([[1], [2], [3]]),
        pd.Series([(1,), (2,), (3,)]),
        pd.Series([{1}, {2}, {3}]), pd.Series([1j, 2j, 3j]), pd.Series([1j, "a", None], dtype=object),
        pa.chunked_array([[[1], [2], [3]]]), pa.chunked_array([[{"a": 1}, None, {"a": 2}]]),
    ],
    ids=lambda column: str(getattr(column, "dtype", getattr(column, "type", None))),
)  # fmt: skip
def test_columns_of_nested_or_complex_values_are_refused_by_name(column):
    of = {pl.Series: pl.DataFrame, pd.Series: pd.DataFrame, pa.ChunkedArray: pa.table}[type(column)]
    for named, sentence in (("a", "column 'a' holds lists"), ("t", "target 't' holds lists")):
        other = {"a": "t", "t": "a"}[named]
        with pytest.raises(ExposureError, match=sentence):
            encode(of({named: column, other: [0, 1, 1]}), "t")


def test_truths_and_numbers_of_a_target_are_two_labels():
    table = pd.DataFrame({"a": [1, 2, 3], "t": pd.Series([True, 1, 0], dtype=object)})
    with pytest.raises(ExposureError, match="must hold two different labels, got 3"):
        encode(table, "t")
    assert encode(table.iloc[1:], "t").y.tolist() == [1, -1]


@pytest.mark.parametrize("entry", ["inf", "-Infinity", "1" * 400, "1e999"])
def test_numbers_that_are_not_finite_are_not_called_missing(tmp_path, entry):
    lines = ["a,t", *(f"{i},{i % 2}" for i in range(60)), f"{entry},1", "3,0"]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    with pytest.raises(ExposureError, match=r"^column 'a', row 60 is not finite, or too large") as caught:
        encode(read_table(tmp_path / "table.csv", {"a": "number or truth"}), "t")
    assert entry not in str(caught.value)
    for table in (
        pl.DataFrame({"a": [1.0, float("inf")], "t": [0, 1]}),
        pd.DataFrame({"a": pd.Series([1, 10**400], dtype=object), "t": [0, 1]}),
    ):
        with pytest.raises(ExposureError, match=r"^column 'a', row 1 is not finite"):
            encode(table, "t")
    with pytest.raises(ExposureError, match=r"^target 't', row 1 is not finite"):
        encode(pl.DataFrame({"a": [1, 2], "t": [0.0, float("inf")]}), "t")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"a": [1.0, 2.0], "t": [1, 1]}, r"target 't' must hold two different labels, got 1; give"),
        ({"a": [1.0, 2.0], "t": ["x", None]}, r"target 't', row 1 has no label"),
        ({"a": [1.0, None], "t": [0, 1]}, r"column 'a', row 1 is missing; fill or drop it first"),
        ({"a": [1.0, 2.0], "u": [0, 1]}, r"target: the table has no column 't'; it has a, u"),
        ({"a": [str(i) for i in range(300)], "t": [0, 1] * 150}, r"column 'a' has 300 different texts; drop it"),
    ],
)
def test_tables_that_cannot_be_encoded(columns, sentence):
    with pytest.raises(ExposureError, match=sentence):
        encode(pl.DataFrame(columns), "t")


@pytest.mark.slow
def test_the_command_answers_and_says_that_it_is_not_private(cli, place):
    code, out, err = cli(
        "table.csv", "--target", "income", "--l2", "0.01", "--seed", "1", "--top", "3", "--json", "out.json",
        "--plot", "out.png",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "Computed from raw data: not private." in out
    assert out.startswith("Window of epsilon: [")
    assert len(out.splitlines()) <= 25  # with the rows that --top asks for
    document = json.loads((place / "out.json").read_text())
    assert document["notice"] == "computed from raw data: not private"
    assert document["eps_low"] < document["eps_high"]
    assert (place / "out.png").stat().st_size > 10_000
    data = encode(pl.read_csv(place / "table.csv"), "income")
    distances = loo(data.X, data.y, fit_base(data.X, data.y, 0.01), 0.01, "exact").distances
    rows = [row["row"] for row in document["most_exposed"]]
    assert rows == np.argsort(-distances)[:3].tolist()
    assert document["most_exposed"][0]["epsilon"] == pytest.approx(distances.max() * 400 * 0.01 / 2, rel=1e-4)
    assert document["profile"]["advantage"][-1] == pytest.approx(document["most_exposed"][0]["advantage"], rel=1e-8)


@pytest.mark.parametrize("command", ["profile", "moves"])
def test_columns_are_left_out_and_gaps_filled_as_told(cli, command):
    run, words = partial(cli.func, command), ("--target", "income", "--json", "-")
    told = [run("gaps.csv", *words, "--missing", "age=50", "--drop", "job"), run("filled.csv", *words)]
    assert [code for code, _, _ in told] == [0, 0], told
    one, other = (json.loads(out) for _, out, _ in told)
    assert one["columns"] == other["columns"] == ["age", "(constant)"]
    key = {"profile": "most_exposed", "moves": "furthest"}[command]
    assert one[key] == other[key]


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--rule", "plateau"), ("--l2", "1"), ("--adv-safe", "0.001")])
def test_the_answer_comes_first_and_fits_a_screen(cli, more):
    code, out, _ = cli("table.csv", "--target", "income", "--seed", "1", *more)
    assert code == 0
    assert out.startswith("Window of epsilon: ")
    assert len(out.splitlines()) <= 20, out
    assert "not private" in out
    assert "most exposed rows" not in out
    code, out, _ = cli("table.csv", "--target", "income", "--seed", "1", *more, "-v")
    assert "most exposed rows" in out


@pytest.mark.slow
def test_text_json_and_plot_name_one_window(cli, place, monkeypatch):
    """The advised one, as printed: it ends where rows start to be exposed; the candidate is in the plot."""
    from matplotlib.figure import Figure

    drawn = []

    def keep(figure, target, **_):
        drawn.append(figure)
        Path(target).touch()

    monkeypatch.setattr(Figure, "savefig", keep)
    for rule, has_advice in (("advantage", True), ("plateau", False)):
        words = ("table.csv", "--target", "income", "--l2", "0.01", "--seed", "1", "--epsilon", "0.3", "--rule", rule)
        code, out, _ = cli(*words, "--json", "out.json", "--plot", "out.png")
        assert code == 0
        document = json.loads((place / "out.json").read_text())
        low, high = document["window"]
        shown = re.search(r"Window of epsilon: \[(.*), (.*)\]", out)
        assert low <= float(shown[1]) <= low * 1.01  # narrowed to three digits
        assert high * 0.99 <= float(shown[2]) <= high
        trade = drawn.pop().axes[1]
        (span,) = trade.patches
        ends = trade.transData.inverted().transform(span.get_extents().get_points())[:, 0]
        np.testing.assert_allclose(ends, [low, high], rtol=1e-6)
        labels = trade.get_legend_handles_labels()[1]
        assert any("candidate" in label and "0.3" in label for label in labels)
        assert any("advised window" in label for label in labels) == has_advice
        assert (high == document["eps_low"]) == has_advice
        assert ("no protection" in document["verdict"]) != has_advice


@pytest.mark.slow
def test_useless_epsilons_are_called_so_in_words(cli, place):
    """Nine tenths are of one label: at epsilon 0.01 the model is worse than always answering it; with one column of
    noise it is no better even without noise, and nothing is advised."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=300)
    label = np.where(x + rng.normal(scale=0.2, size=300) > 1.3, "rare", "common")
    pl.DataFrame({"x": x, "t": label}).write_csv(place / "rare.csv")
    pl.DataFrame({"x": x, "t": rng.permutation(label)}).write_csv(place / "noise.csv")
    words = ("--target", "t", "--l2", "1e-3", "--seed", "1", "--epsilon")
    _, out, _ = cli("rare.csv", *words, "0.01")
    assert re.search(r"At epsilon 0.01 .* accuracy is 0\.[\d]+: useless, not surely better", " ".join(out.split()))
    _, out, _ = cli("rare.csv", *words, "10000")
    assert ": useless" not in " ".join(out.split())
    _, out, _ = cli("noise.csv", *words, "1")
    assert "Window of epsilon: none" in out
    assert "is useless: no better than always answering" in " ".join(out.split())


@pytest.mark.slow
def test_the_command_without_data_reads_none(cli):
    code, out, _ = cli("--coefficients", "109", "--epsilon", "1")
    assert code == 0
    assert "whatever" in out
    for epsilon, accuracy in (("1e12", "100"), ("1e-300", "50"), ("1e308", "100")):
        code, out, err = cli("--coefficients", "2", "--epsilon", epsilon)
        assert f"more than {accuracy} %" in " ".join(out.split())
        assert (code, err) == (0, "")
    code, out, _ = cli("--coefficients", "2", "--json", "-")
    assert json.loads(out)["notice"] == "data-independent"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["table.csv"], "--target is missing"),
        ([], "give a table and --target, or --coefficients"),
        (["constant.csv", "--target", "income"], "must hold two different labels, got 1"),
        (["table.csv", "--target", "nope"], "no column 'nope'; it has age, job, income"),
        (["table.csv", "--target", "income", "--l2", "0"], "l2 must be positive and finite, got 0"),
        (["table.csv", "--target", "income", "--epsilon", "0"], "epsilon must be positive"),
        (["table.csv", "--target", "income", "--rule", "magic"], "rule must be advantage or plateau"),
        (["table.csv", "--target", "income", "--top", "-1"], "--top must not be negative"),
        (["table.csv", "--target", "income", "--seed", "-1"], "--seed must not be negative, got -1"),
        (["table.csv", "--target", "income", "--l2", "1e-300"], "l2 must lie between 1e-10 and 1e+12, got 1e-300"),
        (["table.csv", "--target", "income", "--utility-tol", "nan"], "--utility-tol must be a loss of accuracy in"),
        (["table.csv", "--target", "income", "--adv-safe", "0.95"], "adv_safe must not be above adv_exposed"),
        (["--coefficients", "0"], "--coefficients must be a whole number of at least 1, got 0"),
        (["table.csv", "--target", "income", "--resume", "table.csv"], "the --resume is the model itself"),
        (["--coefficients", "2", "--epsilon", "nan"], "epsilon must be positive"),
        (["--coefficients", "2", "--plot", "x.png"], "--plot needs a table"),
        (
            ["gaps.csv", "--target", "income"],
            "data row 3, line 5 of gaps.csv is missing; fill or drop it first: --drop NAME",
        ),
        (["gaps.csv", "--target", "income", "--missing", "age"], "--missing age: write NAME=VALUE, such as age=0"),
        (["gaps.csv", "--target", "income", "--missing", "job=9"], "job holds texts, and a gap is a text of its own"),
        (["gaps.csv", "--target", "income", "--drop", "income"], "--drop names the column of --target"),
    ],
)
@pytest.mark.cases(1)
def test_bad_input_ends_in_one_sentence(cli, words, sentence):
    code, _, err = cli(*words)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
