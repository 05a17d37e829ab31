"""The learner from the shell: files, states, refusals."""

from __future__ import annotations

import json
import os

import numpy as np
import polars as pl
import pytest

import epsworth as ew
from epsworth.learner import Aggregator, Classifier, LatticeConfig, aggregate_files, write_reports


@pytest.fixture
def cli(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPSWORTH_STATE", str(tmp_path / "state"))
    rng = np.random.default_rng(0)
    age, hours = rng.uniform(17, 90, 3000), rng.uniform(0, 100, 3000)
    rich = np.where(age + hours > 100, "yes", "no")
    pl.DataFrame({"id": np.arange(3000), "age": age, "hours": hours, "rich": rich}).write_csv("people.csv")

    return lambda words: cli(*words.split())


CONFIG = "learn config c.json -b age=17:90 -b hours=0:100 --epsilon 2 --classes no,yes"


def test_plans_of_huge_numbers_are_short(cli):
    code, out, _ = cli("learn plan --epsilon 1e300 --margin 0.02")
    assert code == 0
    assert max(map(len, out.splitlines())) < 200
    assert "epsilon 1E+300" in out


@pytest.mark.slow
def test_the_whole_way(cli, tmp_path):
    code, out, _ = cli(CONFIG + " --users 3000")
    assert code == 0
    assert "pure LDP, epsilon 2 per record, every report adds as much" in out
    for ending in ("ldp", "jsonl"):
        again = " --again" if ending == "jsonl" else ""
        assert cli(f"learn report c.json people.csv r.{ending} --target rich{again}")[0] == 0
    assert cli("learn aggregate c.json r.ldp -o one.state")[0] == 0
    code, out, _ = cli("learn aggregate c.json r.jsonl one.state -o both.state")
    assert out.startswith("6,000 reports")
    code, out, _ = cli("learn fit both.state model.learner")
    assert "6,000 users" in out
    assert "smoothed over" in out
    code, out, _ = cli("learn predict model.learner people.csv labels.csv --confidence .95")
    assert code == 0
    assert "of 3000 labels certified with confidence 0.95" in out
    found = pl.read_csv("labels.csv")
    assert found.columns == ["label", "cell_label", "p_value", "certified", "fakes"]
    assert set(found["fakes"]) == {0}
    assert (found["label"] == pl.read_csv("people.csv")["rich"]).mean() > 0.85
    assert Classifier.load("model.learner").smoothing == "sure"


@pytest.fixture
def learnt(cli, tmp_path):
    """Write a model, a table with columns in another order and one to spare, and a domain."""
    cli(CONFIG + " --users 3000")
    cli("learn report c.json people.csv r.ldp --target rich")
    cli("learn aggregate c.json r.ldp -o s.state")
    code, _, err = cli("learn fit s.state m.learner --fakes 999999")
    assert (code, "fakes must be fewer than half of the" in err) == (2, True)
    cli("learn fit s.state m.learner")
    pl.read_csv("people.csv").select("hours", "age", "rich")[:20].write_csv("some.csv")
    (tmp_path / "domain.toml").write_text(
        "[features.age]\nlower = 17\nupper = 90\n[features.hours]\nlower = 0\nupper = 100\n"
    )
    return "m.learner some.csv -s age --domain domain.toml --target rich -m sw -e 2,8 --tolerance .05 --seed 1"


@pytest.mark.slow
def test_columns_go_by_name_even_where_the_names_are_x0_and_x1(cli):
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"x0": rng.random(4000), "x1": rng.random(4000) * 100})
    table.with_columns(y=table["x0"] > 0.5).cast({"y": pl.Int64}).write_csv("xy.csv")
    pl.DataFrame({"x0": [0.1, 0.9], "x1": [50.0, 50.0]}).write_csv("right.csv")
    pl.read_csv("right.csv").select("x1", "x0").write_csv("turned.csv")
    cli("learn config x.json -b x0=0:1 -b x1=0:100 --classes 0,1 --epsilon 8 --users 4000")
    cli("learn report x.json xy.csv x.ldp --target y")
    cli("learn aggregate x.json x.ldp -o x.state")
    cli("learn fit x.state x.learner")
    answers = []
    for name in ("right.csv", "turned.csv"):
        code, out, _ = cli(f"utility x.learner {name} -s x0 -m krr -e 1,4 --json -")
        assert code == 0
        answers.append(json.loads(out)["stability"]["lower"])
    assert answers[0] == answers[1]
    model, frame = Classifier.load("x.learner"), pl.read_csv("right.csv").to_pandas()
    with pytest.raises(ValueError, match="select them in this order"):
        model.predict(frame[["x1", "x0"]])


@pytest.mark.slow
def test_reports_of_one_table_add_up_whatever_the_configuration(cli):
    cli(CONFIG + " --cells 4")
    cli(CONFIG.replace("c.json", "other.json") + " --cells 5")
    code, out, _ = cli("learn report c.json people.csv r.ldp --target rich")
    assert "left before" not in out
    code, out, _ = cli("learn report other.json people.csv s.ldp --target rich")
    assert code == 0
    assert "left before: epsilon 4 per record in all" in out
    code, _, err = cli("learn aggregate c.json r.ldp ./r.ldp -o s.state")
    assert code == 2
    assert "named twice" in err
    with open("deep.jsonl", "w") as sink:
        sink.write("[" * 100_000 + "\n")
    code, _, err = cli("learn aggregate c.json deep.jsonl -o s.state")
    assert code == 2
    assert "a line is not" in err


@pytest.mark.slow
def test_a_learnt_model_is_a_model_for_the_other_commands(cli, learnt):
    """No --trust: the file is data.  The features are found by name, as scikit-learn's are."""
    code, out, err = cli("utility " + learnt + " --json - --within-seconds inf")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found.pop("domain") == ew.Domain.load("domain.toml").to_dict()
    model = Classifier.load("m.learner")
    assert model.feature_names_in_.tolist() == ["age", "hours"]
    table = pl.read_csv("some.csv")
    curves = ew.stability(
        model, table.drop("rich"), sensitive=["age"], mechanisms="sw", epsilons=[2.0, 8.0], domain="domain.toml",
        rng=1, tolerance=0.05, y=table["rich"].to_numpy(),
    )  # fmt: skip
    assert found | {"seconds": 0} == json.loads(json.dumps(curves.to_dict())) | {"seconds": 0}
    code, out, _ = cli("recommend " + learnt.replace(" -e 2,8", "") + " --at-least .6")
    assert code == 0
    assert "sw" in out
    with pytest.raises(ValueError, match="X has the columns hours, age, but the configuration's features are age"):
        model.predict(table.select("hours", "age"))


@pytest.mark.slow
def test_a_cut_learnt_model_is_refused_in_a_sentence(cli, learnt, tmp_path):
    whole = (tmp_path / "m.learner").read_bytes()
    (tmp_path / "m.learner").write_bytes(whole[:-8])
    code, _, err = cli("utility " + learnt)
    assert code == 2
    assert "cut or changed" in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_records_do_not_leave_twice_unless_told(cli):
    cli(CONFIG + " --cells 4")
    assert cli("learn report c.json people.csv r.txt --target rich")[0] == 2  # refused: nothing left
    assert cli("learn report c.json people.csv r.ldp --target rich")[0] == 0
    code, _, err = cli("learn report c.json people.csv r2.ldp --target rich")
    assert code == 2
    assert "reported 1 time before" in err
    assert "adds epsilon 2 per record" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (CONFIG, "give one of --cells and --users"),
        (CONFIG.replace("age=17:90", "17:90") + " --cells 4", "--bounds must be name=low:high"),
        (CONFIG + " --cells 4 --mechanism laplace", "mechanism must be auto or one of"),
        (CONFIG + " --users 4000 --mechanism laplace", "mechanism must be auto or one of"),
        (CONFIG.replace("hours", "age") + " --cells 4", "--bounds names 'age' twice"),
        (CONFIG.replace("hours=0:100", "hours=0:100,age=0:1") + " --cells 4", "--bounds names 'age' twice"),
        ("learn config c.json -b , --epsilon 1 --cells 4", "--bounds names no feature"),
        (CONFIG + " --users 0", "users must be a whole number of at least 1, got 0"),
        (CONFIG + " --users=-5", "users must be a whole number of at least 1, got -5"),
        ("learn plan --epsilon 1e-200 --margin .02", "epsilon must exceed 1e-06"),
        ("learn report c.json people.csv r.ldp --target poor", "the table has no column 'poor'"),
        ("learn report c.json people.csv r.txt --target rich", "unknown ending"),
        ("learn report c.json people.csv r.ldp --target rich,id", "the table has no column 'rich,id'"),
        ("learn aggregate c.json none.ldp -o s", "there is no such file"),
        ("learn aggregate c.json people.csv -o s", "unknown ending"),
        ("learn fit c.json m", "not a state of an aggregator"),
        ("learn predict c.json people.csv l.csv", "not a learnt model"),
        ("learn plan --epsilon 1", "exactly two of epsilon, users and margin"),
    ],
)
@pytest.mark.cases(1)
def test_bad_input_ends_in_a_sentence(cli, words, message):
    cli("learn config c.json -b age=17:90 -b hours=0:100 --epsilon 2 --classes no,yes --cells 4")
    code, _, err = cli(words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


ACCIDENTS = [
    (CONFIG.replace("no,yes", ",") + " --users 3000", "--classes must be at least two"),
    (CONFIG.replace("no,yes", "no") + " --users 3000", "--classes must be at least two"),
    (CONFIG.replace("--epsilon 2", "--epsilon 1e99999999") + " --users 3000", "epsilon must"),
    (CONFIG.replace("--epsilon 2", "--epsilon 1e-99999999") + " --cells 4", "epsilon must"),
    (CONFIG.replace("--epsilon 2", "--epsilon nan") + " --cells 4", "epsilon must be positive and finite"),
    (CONFIG.replace("17:90", "nan:90") + " --cells 4", "column 'age': need finite low < high"),
    (CONFIG + " --users 1" + "0" * 400, "users must be at most"),
    (CONFIG + " --cells 1" + "0" * 400, "m must be at most"),
    ("learn aggregate deep.json r.ldp -o s", "nested"),
    ("learn aggregate c.json r.ldp -o c.json", "itself; give another path"),
    ("learn aggregate c.json r.ldp -o ./r.ldp", "itself; give another path"),
    ("learn aggregate c.json r.ldp -o link", "itself; give another path"),
    ("learn aggregate c.json r.ldp link -o s", "named twice"),
    ("learn report c.json people.csv people.csv --target rich", "itself; give another path"),
    ("learn fit s.state s.state", "itself; give another path"),
    ("learn predict m.learner people.csv people.csv", "itself; give another path"),
    ("learn predict m.learner people.csv m.learner", "itself; give another path"),
    ("learn predict m.learner people.csv labels.txt", "tables are written as .csv, .parquet"),
    ("learn plan --epsilon nan --margin .1", "epsilon must"),
    ("learn plan --epsilon 1 --margin nan", "margin must lie"),
    ("learn plan --epsilon 1 --margin .1 --mechanism krr", "m is missing"),
    ("learn plan --epsilon 1 --margin .1 --mechanism auto", "mechanism must be one that certifies"),
]  # fmt: skip


@pytest.mark.slow
def test_no_input_ends_in_an_accident_or_overwrites_another(cli, tmp_path):
    """One sentence, exit status 2, and every file is as it was."""
    cli(CONFIG + " --cells 4")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for name in ("r.ldp", "s.state", "m.learner"):
        (tmp_path / name).write_bytes(b"kept")
    (tmp_path / "link").symlink_to("r.ldp")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for words, message in ACCIDENTS:
        code, _, err = cli(words)
        assert code == 2, words
        assert message in err
        assert err.count("\n") == 1
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before, words


@pytest.mark.slow
def test_labels_are_written_in_the_format_that_their_file_is_named_after(cli, learnt):
    found = {}
    for name, read in (("l.csv", pl.read_csv), ("l.parquet", pl.read_parquet), ("l.jsonl", pl.read_ndjson)):
        code, out, _ = cli(f"learn predict m.learner some.csv {name} --confidence .95")
        assert code == 0
        assert "labels certified with confidence 0.95, assuming nobody forges reports" in out.splitlines()[0]
        assert "All reports are taken to be honest" in out
        found[name] = read(name)
    assert found["l.csv"].equals(found["l.parquet"])
    assert found["l.csv"].equals(found["l.jsonl"])
    os.link("some.csv", "twin.csv")
    code, _, err = cli("learn predict m.learner some.csv twin.csv")
    assert code == 2
    assert "itself; give another path" in err


@pytest.mark.slow
def test_every_row_of_a_table_is_reported_whatever_it_holds(cli):
    """Missing values, texts and undeclared labels: as many reports as rows, and nothing said about any of them."""
    text = "age,hours,rich\n20,5,no\n,5,no\nsecret,50,yes\n30,7,perhaps\n40,1e999,yes\n50,8,\n"
    with open("odd.csv", "w") as sink:
        sink.write(text)
    cli(CONFIG + " --cells 4")
    code, out, err = cli("learn report c.json odd.csv odd.ldp --target rich")
    assert (code, err) == (0, "")
    assert out.startswith("6 reports")
    cli(CONFIG.replace("c.json", "refusing.json") + " --cells 4 --outside refuse")
    code, out, err = cli("learn report refusing.json odd.csv refused.ldp --target rich")
    assert code == 2
    assert "secret" not in out + err
    pl.DataFrame({"age": [30.0], "hours": [3.0], "rich": ["no"]}).write_csv("one.csv")
    assert (
        "epsilon 2 per record of those who report" in cli("learn report refusing.json one.csv one.ldp --target rich")[1]
    )


def test_bounds_may_share_an_option(cli):
    assert cli(CONFIG.replace(" -b hours", ",hours") + " --cells 4")[0] == 0
    made = LatticeConfig.load("c.json")
    assert (made.names, made.box) == (("age", "hours"), ((17, 90), (0, 100)))


@pytest.mark.parametrize(
    ("classes", "column"),
    [
        ("0,1", [0, 1]),
        ("0,1.5", [0.0, 1.5]),
        ("false,true", [False, True]),
        ("True,False", [True, False]),
        ("1,two", ["1", "two"]),
    ],
)
@pytest.mark.cases(1)
def test_classes_are_read_as_columns_are(cli, classes, column):
    pl.DataFrame({"age": [20.0, 80.0], "hours": [1.0, 2.0], "rich": column}).write_csv("two.csv")
    assert cli(CONFIG.replace("no,yes", classes) + " --cells 4")[0] == 0
    code, out, err = cli("learn report c.json two.csv r.ldp --target rich")
    assert (code, err) == (0, "")
    assert out.startswith("2 reports")
    assert LatticeConfig.load("c.json").label_numbers(pl.read_csv("two.csv")["rich"].to_numpy()).tolist() == [0, 1]


@pytest.mark.slow
def test_plans(cli):
    code, out, _ = cli("learn plan --epsilon 1 --margin 0.02")
    assert (code, out[:17]) == (0, "With 72,808 users")
    assert out.splitlines()[1] == "By power: 32,104 users for 0.5, 72,808 users for 0.8, 100,684 users for 0.9."
    code, out, _ = cli("learn plan --epsilon 2 --margin 0.05 --mechanism krr --cells 4 --features 2 --mass .1 --json -")
    assert (code, json.loads(out)["mechanism"]) == (0, "krr")
    code, out, _ = cli("learn plan --users 100 --margin 0.01 --json -")
    assert code == 1
    assert json.loads(out)["feasible"] is False
    assert json.loads(out)["epsilon"] is None
    assert [row["epsilon"] for row in json.loads(out)["by_power"]] == [None, None, None]
    code, out, _ = cli("learn plan --users 100 --epsilon .01 --json -")
    assert code == 1
    assert json.loads(out)["epsilon"] == 0.01
    code, out, _ = cli("learn plan --users 100 --epsilon .01")
    assert code == 1
    assert "No margin is enough: with 100 users at epsilon 0.01 per record no cell" in out


@pytest.mark.slow
def test_processes_and_splits_give_the_same_state(tmp_path, monkeypatch):
    config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    rng = np.random.default_rng(1)
    for name in ("a.ldp", "b.ldp"):
        write_reports(config, rng.random((1001, 1)), rng.integers(2, size=1001), tmp_path / name)
    files = [tmp_path / "a.ldp", tmp_path / "b.ldp"]
    alone = aggregate_files(config, files)
    assert alone == aggregate_files(config, files[::-1], n_jobs=2)
    with monkeypatch.context() as small:
        small.setattr("epsworth.learner.report_files.PART", 100 * config.report_size)
        assert alone == aggregate_files(config, files)
    aggregate_files(config, files[:1]).save(tmp_path / "a.state")
    assert alone == aggregate_files(config, [tmp_path / "a.state", files[1]])
    assert alone.users == 2002
    with files[0].open("ab") as sink:
        sink.write(b"x" * config.report_size)
    with pytest.raises(ValueError, match=r"a\.ldp: report \d+: it is not in version .*good ones"):
        aggregate_files(config, files)
    (tmp_path / "bad.jsonl").write_text('{"rapport": 1}\n')
    with pytest.raises(ValueError, match="a line is not"):
        aggregate_files(config, [tmp_path / "bad.jsonl"])
    with pytest.raises(ValueError, match="n_jobs must be a whole number"):
        aggregate_files(config, files, n_jobs=0)


def test_changed_states_are_refused(tmp_path):
    config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    state = Aggregator(config).state()
    for bad in (state[:-8], state[:-1] + b"x", b"x" + state, state.replace(b'"m": 8', b'"m": 9')):
        with pytest.raises(ValueError, match="state"):
            Aggregator.from_state(bad)
