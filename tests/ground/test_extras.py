"""The core works without polars and matplotlib; what needs them says so in one sentence with the command."""

from __future__ import annotations

import ast
import glob
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import epsworth
from epsworth.extras import MissingExtra, needed
from epsworth.policy import Policy
from epsworth.space import Domain

OPTIONAL = ("polars", "matplotlib")
READERS = {
    "tables.py",
    "csv_text.py",
    "policy/files/parquet_table.py",
}  # behind doors
SOURCES = Path(epsworth.__file__).parent  # where a fault is planted, its copy
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL})); "
READS = 'epsworth: reading a table needs polars, which is not installed: pip install "epsworth[files]"\n'
DRAWS = 'epsworth: drawing a plot needs matplotlib, which is not installed: pip install "epsworth[plot]"\n'
OF_MODELS = {
    "utility model.skops people.csv -s age": READS,
    "split model.skops people.csv -s age --epsilon 4": READS,
    "safe-box model.skops people.jsonl -s age": READS,
}
REFUSED = {
    "init people.csv -s age --draft": READS,
    "perturb policy.toml people.csv out.csv": READS,
    "perturb policy.toml people.parquet out.parquet": READS.replace("reading a table", "releasing a Parquet file"),
    "noise --within 5 --plot noise.png": DRAWS,
    "demo": 'epsworth: the demo needs polars, which is not installed: pip install "epsworth[files,plot]"\n',
}
ANSWERED = ("--help", "mechanisms", "convert --mi 1/16 --prior 0.5")
RUN = """
import contextlib, io, json
from epsworth.cli import main
told = {}
for words in json.loads(sys.argv[1]):
    sys.argv[1:], out, err = words.split(), io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        told[words] = end.code, out.getvalue(), err.getvalue()
print(json.dumps(told))
"""


def without_them(code: str, folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-c", BLOCKED + code, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with what the commands are about."""
    import numpy as np
    import skops.io
    from sklearn.linear_model import LogisticRegression

    folder = tmp_path_factory.mktemp("core")
    skops.io.dump(LogisticRegression().fit(np.array([[0.2], [0.7]]), [0, 1]), folder / "model.skops")
    (folder / "people.csv").write_text("age\n0.25\n0.75\n")
    (folder / "people.jsonl").write_text('{"age": 0.25}\n')
    (folder / "people.parquet").write_bytes(b"PAR1")
    Policy.of("pm", 1, Domain.of({"age": (0, 1)})).save(folder / "policy.toml")
    return folder


@pytest.fixture(scope="module")
def told(place):
    """Return what each command says where neither package is there, and the folder it was run in."""
    return json.loads(without_them(RUN, place, json.dumps([*REFUSED, *ANSWERED]))), place


@pytest.mark.parametrize("command", REFUSED)
@pytest.mark.cases(1)
def test_a_command_without_its_package_says_one_sentence(told, command):
    assert told[0][command] == [2, "", REFUSED[command]]


@pytest.mark.slow
def test_commands_about_models_say_one_sentence_and_noise_answers(place):
    found = json.loads(without_them(RUN, place, json.dumps([*OF_MODELS, "noise --within 5"])))
    for command, sentence in OF_MODELS.items():
        assert found[command] == [2, "", sentence]
    status, out, _ = found["noise --within 5"]
    assert (status, len(out) > 100) == (0, True)


@pytest.mark.parametrize("command", ANSWERED)
def test_a_command_that_needs_neither_answers(told, command):
    status, out, _ = told[0][command]
    assert (status, len(out) > 100) == (0, True)


def test_nothing_was_written(told):
    given = {"model.skops", "people.csv", "people.jsonl", "people.parquet", "policy.toml"}
    assert {path.name for path in told[1].iterdir()} == given


@pytest.mark.slow
def test_json_lines_are_perturbed_without_them(tmp_path):
    code = """
from pathlib import Path
import epsworth as ew
policy = ew.Policy.of("pm", 1, ew.Domain.of({"age": (0, 100)}), passing=["id"])
Path("in.jsonl").write_text('{"age": 3, "id": 7}\\n')
print(ew.perturb_file(policy, "in.jsonl", "out.jsonl", ledger="kept").rows, ew.perturb(policy, {"age": 3}).keys())
"""
    assert without_them(code, tmp_path) == "1 dict_keys(['age'])\n"


@pytest.mark.slow
def test_arrays_are_perturbed_and_judged_without_them(tmp_path):
    code = """
import numpy as np, epsworth as ew
domain = ew.Domain.of({0: (0, 100)})
released = ew.perturb(ew.Policy.of("pm", 1, domain, passing=["x1"]), np.array([[20.0, 7.0], [30.0, 8.0]]))
curves = ew.stability(lambda rows: rows[:, 0] > 50, [[79.0, 1.0]], sensitive=[0], domain=domain, epsilons=[1])
try:
    ew.stability(lambda rows: rows[:, 0] > 50, {"age": [79.0]}, sensitive=["age"], epsilons=[1])
except ImportError as error:
    print(released[:, 1].tolist(), bool((curves.lower <= curves.upper).all()), error)
"""
    assert without_them(code, tmp_path) == (
        "[7.0, 8.0] True a mapping of columns in place of a data frame needs polars, which is not installed: "
        'pip install "epsworth[files]"\n'
    )


@pytest.mark.slow
def test_every_module_is_imported_without_them(tmp_path):
    code = f"""
import importlib, pathlib, warnings
warnings.simplefilter("ignore")
top = pathlib.Path({str(SOURCES)!r})
for path in sorted(top.rglob("*.py")):
    name = ".".join(["epsworth", *path.relative_to(top).with_suffix("").parts]).removesuffix(".__init__")
    if path.name == "__main__.py":
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(name, error.name)
"""
    stopped = [line.split() for line in without_them(code, tmp_path).splitlines()]
    assert {package for _, package in stopped} <= {"starlette", "uvicorn", "aiohttp", "httpx"}  # of other extras


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported anywhere but for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        else:
            yield from imported(node)


@pytest.mark.slow
def test_no_module_imports_them_by_itself():
    files = glob.glob(str(SOURCES / "**/*.py"), recursive=True)  # which follows links, too
    bare = {
        Path(file).relative_to(SOURCES).as_posix()
        for file in files
        for module in imported(ast.parse(Path(file).read_text()))
        if module.partition(".")[0] in OPTIONAL
    }
    assert len(files) > 300
    assert bare <= READERS


@pytest.mark.parametrize("module", ["polars", "matplotlib", "matplotlib.figure"])
def test_a_missing_package_is_one_sentence_with_the_command(monkeypatch, module):
    package = module.partition(".")[0]
    for name in (package, module):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf'^a dance needs {package}, .*: pip install "epsworth\[some\]"$') as found:
        needed(module, "some", "a dance")
    assert isinstance(found.value, ImportError)
    assert isinstance(found.value, ValueError)
    assert found.value.name == package
    assert found.value.__cause__ is None
    assert found.value.__context__ is None


def test_a_broken_package_is_not_called_missing(monkeypatch, tmp_path):
    (tmp_path / "broken_package_of_ours.py").write_text("import absent_package_of_ours")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="absent_package_of_ours") as found:
        needed("broken_package_of_ours", "some", "a dance")
    assert not isinstance(found.value, MissingExtra)


ELSEWHERE = ("scipy", "sklearn", "joblib", "pandas", "pyarrow", "matplotlib")
RELEASE = """
import sys; sys.modules.update(dict.fromkeys(%r))
import os; os.environ["EPSWORTH_STATE"] = os.path.join(os.getcwd(), "state")
from pathlib import Path
import numpy as np
from epsworth import Domain, Policy, perturb
from epsworth.client import Client
from epsworth.policy import Ledger, perturb_file, perturb_files
Policy.of("pm", 2, Domain.of({"age": (0, 100), "job": ["a", "b"]}), bits=8, passing=["id"]).save("policy.toml")
policy = Policy.load("policy.toml")
assert set(perturb(policy, {"age": 31, "job": "a"})) == {"age", "job"}
assert set(Client(policy.for_clients()).perturb({"age": 31, "job": "a"})) == {"age", "job"}
assert perturb(Policy.of("pm", 1, Domain.of({0: (0, 100)}), passing=["x1"]), np.array([[31.0, 2.0]]))[0, 1] == 2
for name in ("one", "two"):
    Path(name + ".csv").write_text("id,age,job\\n1,31,a\\n2,62,b\\n")
Path("lines.jsonl").write_text('{"id": 1, "age": 31, "job": "a"}\\n')
perturb_file(policy, "one.csv", "released.csv", person="id", cap="9")
perturb_file(policy, "lines.jsonl", "released.jsonl", person="id", cap="9")
assert len(Path("released.csv").read_text().splitlines()) == 3
assert Ledger().spent([1, 2, 3]) == [4, 2, 0]
"""


@pytest.mark.slow
def test_a_release_needs_neither_scipy_nor_scikit_learn(tmp_path):
    code = RELEASE % (ELSEWHERE,)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
