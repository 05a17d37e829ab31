"""Wrong command lines and wrong files: exit status 2, one sentence of our own, nothing printed and nothing written."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest
from skops.io import dump

import epsworth as ew
from hospital import domain_text, hospital, logistic

ROWS = 40
DOMAIN = {"age": {"lower": 0, "upper": 120, "integer": True, "missing": 50}, "job": ["clerk", "nurse"]}
RAW = re.compile(
    r"Traceback|Error\b|NoneType|object has no|keyword|\.py\b|unhashable|subscriptable|positional|Errno|codec"
    r"|invalid literal|could not convert|BadZip|Input should|unable to parse|Usage:|parameter of"
)
ASKED = ("model.skops", "test.csv", "-s", "age,bmi", "--domain", "ranges.toml")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a model, tables, ranges, a policy and curves."""
    folder = tmp_path_factory.mktemp("wrong")
    data = hospital(rows=300, gaps=False)
    model = logistic(data)
    dump(model, folder / "model.skops")
    table = data.test[:ROWS]
    table.to_csv(folder / "test.csv", index=False)
    table.assign(age=table["age"].mask(np.arange(ROWS) % 9 == 3)).to_csv(folder / "gaps.csv", index=False)
    table[["age", "bmi"]].assign(label=data.y_test[:ROWS]).to_csv(folder / "labelled.csv", index=False)
    (folder / "ok.csv").write_text("age,job,zone\n30,clerk,a\n40,nurse,b\n")
    (folder / "ranges.toml").write_text(domain_text())
    ew.Policy.of("pm", 2, DOMAIN, passing=["zone"]).save(folder / "policy.toml")
    asked = {"sensitive": ["age"], "mechanisms": ["krr:k=5"], "epsilons": [1.0, 2.0], "domain": {"age": (0, 110)}}
    curves = ew.stability(model, table[:5], **asked, rng=0).to_dict()
    (folder / "curves.json").write_text(json.dumps(curves))
    return folder


@pytest.fixture
def refused(cli, place, monkeypatch):
    """Run a command that must be refused; return its sentence."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("EPSWORTH_STATE", str(place / "state"))

    def run(*words):
        before = _contents(place)
        code, out, err = cli(*words)
        assert (code, out) == (2, ""), (code, out, err)
        assert err.startswith("epsworth: ")
        assert (err.count("\n"), err[-1]) == (1, "\n"), err
        assert not RAW.search(err), err
        assert _contents(place) == before
        return err

    return run


def _contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


PARSED = [
    ("bogus", "there is no command 'bogus' of epsworth; epsworth --help lists them"),
    ("recomend model.skops test.csv", "there is no command 'recomend' of epsworth; did you mean recommend?"),
    ("policy bogus", "there is no command 'bogus' of epsworth policy"),
    ("recommend", "SOURCE is missing, and epsworth recommend needs it"),
    ("predict model.skops", "TABLE is missing, and epsworth predict needs it"),
    ("report u.json", "--output is missing, and epsworth report needs it"),
    ("tailor * -m pm", "there is no option '-m' of epsworth tailor"),
    ("tailor *", "--epsilon is missing, and epsworth tailor needs it"),
    ("utility * --tolerence 1", "there is no option '--tolerence' of epsworth utility; did you mean --tolerance?"),
    ("recommend * --at-least 90%", "--at-least must be a number, as in 0.9, got '90%'"),
    ("recommend * --max-epsilon x", "--max-epsilon must be a number, as in 0.9, got 'x'"),
    ("recommend * --jobs 1.5", "--jobs must be a whole number, got '1.5'"),
    ("recommend * --seed x", "--seed must be a whole number, got 'x'"),
    ("gateway policy.toml --upstream http://a --port 99999", "must be a whole number from 0 to 65535, got '99999'"),
    ("recommend * --seed", "--seed lacks a value"),
    ("recommend * --recheck=3", "--recheck takes no value"),
    ("mechanisms x", "epsworth mechanisms takes no argument, and then there is 'x'"),
    ("recommend * --trust x", "epsworth recommend takes SOURCE and TABLE, and then there is 'x'"),
    ("recommend * -e 1 -e 2", "--epsilon is given twice; give it once"),
    ("perturb policy.toml ok.csv o.csv --cap 1 --cap 2 --cap 3", "--cap is given 3 times; give it once"),
    ("ledger runs --ledger a --ledger b", "--ledger is given twice; give it once"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "says"), PARSED)
@pytest.mark.cases(11)
def test_a_command_line_that_the_parser_refuses(refused, line, says):
    assert says in refused(*_words(line))


def _words(line):
    return [word for part in shlex.split(line) for word in (ASKED if part == "*" else [part])]


COMMANDS = [
    ("recommend test.csv model.skops -s age --domain ranges.toml", "the model test.csv has the ending .csv"),
    ("recommend policy.toml test.csv -s age", "the model policy.toml has the ending .toml; give one of"),
    ("recommend * --delta 1", "--delta must lie in [0, 1), got 1; without it any is accepted"),
    ("recommend * -m pm:", "mechanism 'pm:': no option follows the colon"),
    ("recommend * -m krr:j=3", "mechanism 'krr:j=3': unknown option 'j'; krr takes k"),
    ("recommend * --pass nosuch --policy q.toml", "--pass: the table has no column 'nosuch'; it has age"),
    ("recommend * --missing zzz=3", "--missing zzz=3: zzz is not perturbed; NAME is one of age, bmi"),
    ("recommend * --policy out.csv", "cannot write out.csv: a policy is a TOML file"),
    ("recommend * --json test.csv", "test.csv: the --json is the table itself; give another path"),
    ("recommend * --policy one.toml --study one.toml", "one.toml: the --study is the --policy itself"),
    ("recommend * --within-seconds 0", "--within-seconds must be positive and finite, got 0"),
    ("recommend * --jobs 0", "--jobs must be a number of workers, or -1 for all cores, got 0"),
    ("recommend * --budget 5", "--budget is for a service, and model.skops is a file"),
    ("recommend * --on 1.5", "--on must be average, worst or a record number from 0, got '1.5'"),
    ("profile gaps.csv --target sex", "column 'age', data row 3, line 5 of gaps.csv is missing; fill or drop it first"),
    ("report policy.toml -o p.html --on worst --of accuracy", "is asked of this result: leave out --on, --of\n"),
    ("recommend * --sep xx", "sep must be a comma, a semicolon, a tab or a bar, got 'xx'"),
    ("recommend curves.json -s age", "--sensitive asks a new question, but saved curves were given"),
    ("recommend model.skops test.csv -s '' --domain ranges.toml", "sensitive is empty; name at least one column"),
    ("recommend model.skops gaps.csv -s age", "Declare the public ranges by --domain, in a file that"),
    ("utility * --target ward", "--target: the model reads 'ward', so it holds no labels"),
    ("utility model.skops test.csv --policy ranges.toml", "policy ranges.toml: this is a file of ranges, not a policy"),
    ("split * -e 0", "--epsilon must be positive and finite, got 0"),
    ("tailor * -e 1,2", "--epsilon: must be a finite number, got '1,2'"),
    ("init test.csv -s zzz --draft -o new.toml", "--sensitive: the table has no column 'zzz'"),
    ("init test.csv -s age --draft -o ranges.toml", "ranges.toml exists; name another file with --output"),
    ("perturb ok.csv policy.toml o.csv", "policy ok.csv: this is a table, by its ending; a policy is a .toml file"),
    ("perturb policy.toml ok.csv o.csv --jobs 0", "--jobs must be a number of workers, or -1 for all cores, got 0"),
    ("perturb policy.toml ok.csv o.parquet", "input and output must be of one kind, got csv and parquet"),
    ("perturb policy.toml ok.csv o.csv --workers 2", "--workers and --cluster share the files of a folder"),
    ("policy show ok.csv", "policy ok.csv: this is a table, by its ending"),
    ("report ranges.toml -o a.html", "policy ranges.toml: this is a file of ranges, not a policy"),
    ("run ranges.toml", "study file ranges.toml: unknown entry 'features'"),
    ("noise --within 0", "--within must be positive and finite, got '0'"),
    ("privatize kmeans test.csv --mi 1/4 --columns visits --set n_clusters=abc", "--set n_clusters: kmeans takes"),
    ("learn plan", "give exactly two of epsilon, users and margin"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "says"), COMMANDS)
@pytest.mark.cases(17)
def test_a_command_line_that_cannot_be_answered(refused, line, says):
    assert says in refused(*_words(line))


LARGE = "lower = 0\nupper = 120\n"
RANGES = [
    (b"\xff\xfe\x00", "is not UTF-8 text; convert it to UTF-8 first"),
    ("", 'no "features" table; write one section [features.NAME] per feature'),
    ("[features", "Expected ']' at the end of a table declaration"),
    ("[features]\nage = 3\n", "features.age: expected a table with lower and upper, or categories, got 3"),
    ("[features.age]\nlower = 9\nupper = 5\n", "features.age: upper (5) is not above lower (9)"),
    ("[features.age]\nlower = nan\nupper = 5\n", "features.age.lower: must be a finite number"),
    ("[features.age]\nlower = true\nupper = 5\n", "features.age: lower must be a finite number, got True"),
    (f"[features.age]\n{LARGE}integr = true\n", "features.age.integr: unknown entry; a feature has lower, upper"),
    (f"[features.age]\n{LARGE}missing = 500\n", "features.age: missing is 500, outside the range 0 to 120"),
    (f"[features.age]\n{LARGE}points = 1\n", "features.age: points must be a whole number of at least 2, got 1"),
    ("[features.age]\ncategories = ['a', 'a']\n", "features.age: categories must be at least two different values"),
]  # fmt: skip
DOCUMENTS = [
    ("ranges.json", b"\xff\xfe\x00", "is not UTF-8 text; convert it to UTF-8 first"),
    ("ranges.json", "{", "holds no JSON"),
    ("ranges.json", "[]", "the document is not a table; write one section [features.NAME] per feature"),
    ("ranges.json", "[" * 50_000, "the document is nested more than 32 deep"),
    ("curves.json", "null", "this is not an epsworth-curves-1 document"),
    ("curves.json", b"\xff{}", "holds no JSON but binary, or text that is not UTF-8"),
    ("curves.json", ("epsilons_per_record", [1.0]), "damaged or incomplete"),
    ("curves.json", ("stability", None), "damaged or incomplete"),
]  # fmt: skip
TABLES = [
    ("test.csv", "", "is empty; give a header and at least one row"),
    ("test.csv", "age;bmi\n1;2\n", "are separated by semicolons; say so: --sep ';'"),
    ("test.csv", "age,age\n1,2\n", "the header names the column 'age' twice; rename one"),
    ("test.csv", "\nage,bmi\n1,2\n", "test.csv begins with a blank line; delete it"),
    ("test.csv", '{"age": 1}\n', "test.csv looks like JSON lines; name it .jsonl"),
    ("test.csv", "age,bmi\n1\n", "data row 0, line 2 of test.csv has 1 field, the header has 2; repair the row"),
    ("test.csv", b"age,bmi\n1,\xff\n", "UTF-8"),
    ("test.jsonl", '{"age": 1}\n{bad\n', "line 2: it is not a JSON object; write one object per line"),
    ("test.parquet", "PAR1", "it is damaged, or of another format than its ending says"),
]  # fmt: skip
POLICIES = [
    (lambda text: text.replace("120", "121"), "it was edited after it was written; delete the fingerprint line"),
    (lambda text: "", "version: it is missing, and must be 1"),
    (lambda text: _unsigned(text).replace('"pm"', '"pmm"'), "features.age.mechanism: pmm cannot be released"),
    (lambda text: text.encode("utf-16"), "is not UTF-8 text; convert it to UTF-8 first"),
]
MODELS = [
    (lambda content: b"", "the file is empty; save the model again"),
    (lambda content: content[:1000], "is not a skops file, or not a whole one; save it with skops.io.dump"),
    (lambda content: b"PK\x03\x04junk", "is not a skops file, or not a whole one; save it with skops.io.dump"),
]


def _unsigned(text):
    return re.sub(r"fingerprint.*\n", "", text)


def _write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(("content", "says"), RANGES)
@pytest.mark.cases("all")
def test_a_wrong_file_of_ranges(refused, tmp_path, content, says):
    file = _write(tmp_path / "wrong.toml", content)
    told = refused("recommend", "model.skops", "test.csv", "-s", "age", "--domain", file)
    assert told.startswith(f"epsworth: domain file {file}: ")
    assert says in told


@pytest.mark.parametrize(("name", "content", "says"), DOCUMENTS)
@pytest.mark.cases("all")
def test_a_wrong_document(refused, place, tmp_path, name, content, says):
    if isinstance(content, tuple):
        content = json.dumps(json.loads((place / name).read_text()) | dict([content]))
    file = _write(tmp_path / name, content)
    ranges = ("model.skops", "test.csv", "-s", "age", "--domain", file)
    told = refused("recommend", *([file] if name == "curves.json" else ranges))
    assert file in told
    assert says in told


@pytest.mark.parametrize(("name", "content", "says"), TABLES)
@pytest.mark.cases("all")
def test_a_wrong_table(refused, tmp_path, name, content, says):
    file = _write(tmp_path / name, content)
    told = refused("recommend", "model.skops", file, *ASKED[2:])
    assert name in told
    assert says in told


def test_a_path_of_thousands_of_letters_is_not_repeated(refused):
    told = refused("recommend", f"{'x' * 5000}.skops", "test.csv", "-s", "age")
    assert "xxx..." in told
    assert len(told) < 500


@pytest.mark.parametrize(("edit", "says"), POLICIES)
@pytest.mark.cases("all")
def test_a_wrong_policy(refused, place, tmp_path, edit, says):
    file = _write(tmp_path / "wrong.toml", edit((place / "policy.toml").read_text()))
    told = refused("perturb", file, "ok.csv", "o.csv")
    assert told.startswith(f"epsworth: policy {file}: ")
    assert says in told


@pytest.mark.parametrize(("edit", "says"), MODELS)
@pytest.mark.cases("all")
def test_a_wrong_model(refused, place, tmp_path, edit, says):
    file = _write(tmp_path / "wrong.skops", edit((place / "model.skops").read_bytes()))
    told = refused("recommend", file, *ASKED[1:])
    assert f"the model {file}" in told
    assert says in told
