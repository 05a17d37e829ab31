"""Documents: their blocks run, their commands exist, their links lead somewhere, their tables are tables."""

from __future__ import annotations

import importlib.util
import re
import shlex
import warnings
from pathlib import Path

import pytest
import typer

from epsworth import ceiling
from epsworth.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}
WITH_PYTHON = [path for path, text in TEXTS.items() if re.search(r"^```python(?! title)", text, re.M)]
# to run; their examples stand in docstrings, too
COSTLY = {ROOT / "docs" / name for name in ("noise.md", "pac.md", "audit.md")}
COMMANDS = typer.main.get_command(app)


@pytest.mark.cases("all")
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow) if path in COSTLY else path for path in WITH_PYTHON],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_python_blocks_in_documents_run(path, tmp_path, monkeypatch):
    """The blocks of one document run in order, in one namespace; some need packages that may be missing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    space: dict[str, object] = {}
    for needs, block in re.findall(r"```python(?: needs=(\S+))?\n(.*?)```", TEXTS[path], re.S):
        if all(importlib.util.find_spec(package) for package in needs.split(",") if package):
            with warnings.catch_warnings():
                if needs:
                    warnings.simplefilter("ignore")  # of other people's packages
                exec(compile(block, str(path), "exec"), space)


def prose(text: str) -> str:
    """Return what stands outside fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


# commands


def commands_in(text: str) -> list[str]:
    """Return the commands of indented and fenced blocks, without prompts, remarks and what they print."""
    fenced = re.findall(r"^```(?:bash|console|sh)\b[^\n]*\n(.*?)^```", text, re.M | re.S)
    indented = re.findall(r"^    (.*)$", prose(text), re.M)
    lines = [line.strip() for line in ("\n".join([*indented, *fenced])).replace("\\\n", " ").splitlines()]
    commands = [part.strip() for line in lines for part in re.split(r"\||&&", re.sub(r"^\$ ", "", line))]
    return [re.split(r" {3,}| #|;", part)[0] for part in commands if re.match(r"(\S*/)?epsworth\b(?! *=)", part)]


def why_not(line: str) -> str | None:
    """Return which command, option or argument of a line there is not."""
    words = [word for word in shlex.split(re.sub(r"[][]", " ", line))[1:] if word not in ("..", "...", "-")]
    command = COMMANDS
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"no command {words[0]}"
        command = command.commands[words.pop(0)]
    options = {name: one for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
    options |= dict.fromkeys(("-h", "--help"), None)
    room = sum(one.nargs if one.nargs > 0 else 1000 for one in command.params if one.param_type_name == "argument")
    while words:
        word = words.pop(0)
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
            name, equals, _ = word.partition("=")
            if name not in options:
                return f"{command.name} has no option {name}"
            takes = options[name] is not None and not options[name].is_flag and not options[name].count
            if takes and not equals and words:
                words.pop(0)
        else:
            room -= 1
    return "more arguments than it takes" if room < 0 else None


def test_messages_that_are_explained_are_still_said():
    """Of every message the longest part that holds no value stands in the sources."""
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    sources = re.sub(r'"\s*\n?\s*f?"', "", sources)  # one literal after another
    messages = re.findall(r"^- \*(.+?)\*: ", TEXTS[ROOT / "docs" / "troubleshooting.md"], re.M)
    parts = [max(re.split(r" ?\.\. ?|,", message), key=len).strip() for message in messages]
    assert len(parts) > 10
    assert [part for part in parts if part not in sources] == []


def test_commands_in_documents_exist():
    found = [(path.name, line, why_not(line)) for path, text in TEXTS.items() for line in commands_in(text)]
    assert len(found) > 40
    assert [one for one in found if one[2]] == []
    for line in ("audti policy.toml", "audit --jsn x policy.toml", "learn fit a b c", "learn fot a"):
        assert why_not(f"epsworth {line}")


def test_certainties_in_the_guide_are_rounded_up():
    page = TEXTS[ROOT / "docs" / "choose.md"]
    found = (re.search(rf"^\| {row}.*$", page, re.M)[0] for row in ("E per record", "at most this sure"))
    epsilons, certainties = (re.findall(r"[\d.]+", row) for row in found)
    assert len(epsilons) > 5
    for epsilon, stated in zip(epsilons, certainties, strict=True):
        unit = 0.1 ** len(stated.partition(".")[2])
        assert float(stated) - unit < 100 * ceiling(float(epsilon), 2) <= float(stated)


# links and tables


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub and the site give to a page's headings."""
    titles = re.findall(r"^#{1,4} (.+?)\s*$", prose(TEXTS.get(path) or path.read_text(encoding="utf-8")), re.M)
    titles = [re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_and_anchors_lead_somewhere():
    lost, seen = [], 0
    for path, text in TEXTS.items():
        for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(text))):
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if not there.exists() or (anchor and anchor not in anchors(there)):
                lost.append((path.name, target))
            seen += 1
    assert lost == []
    assert seen > 100


def test_every_page_of_the_site_is_in_its_tree():
    """What Sphinx checks again; here without it."""
    docs = ROOT / "docs"
    listed = {"index"}
    for page in docs.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", TEXTS.get(page, ""), re.M | re.S):
            entries = [re.sub(r".*<(.*)>", r"\1", line.strip()) for line in block.splitlines() if line[:1] not in ":"]
            for entry in filter(None, entries):
                found = page.parent.glob(f"{entry}.md") if "*" in entry else [page.parent / f"{entry}.md"]
                listed |= {str(one.relative_to(docs).with_suffix("")) for one in found}
    assert {str(page.relative_to(docs).with_suffix("")) for page in docs.rglob("*.md")} - listed == set()


def test_every_row_of_a_table_belongs_to_a_table():
    """A header, a line of dashes, rows without a gap and of one length: else Markdown shows bars."""
    broken, seen = [], 0
    for path, text in TEXTS.items():
        for block in re.findall(r"(?:^\|.*\n?)+", prose(text), flags=re.M):
            rows = block.splitlines()
            columns = {len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in rows}
            if len(rows) < 3 or not re.fullmatch(r"\|(?: *:?-+:? *\|)+", rows[1]) or len(columns) > 1:
                broken.append((path.name, rows[0]))
            seen += 1
    assert broken == []
    assert seen > 5
