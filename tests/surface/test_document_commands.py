"""Documents: every command line names a command that exists, options that it has, no more arguments than it takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from epsworth.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = typer.main.get_command(app)


def lines_of(path: Path) -> list[str]:
    """Return the commands of indented and fenced blocks, without prompts, remarks and what they print."""
    text = path.read_text(encoding="utf-8")
    fenced = re.findall(r"^```(?:bash|console|sh)\b[^\n]*\n(.*?)^```", text, re.M | re.S)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    indented = re.findall(r"^    (.*)$", rest, re.M)
    lines = [line.strip() for line in ("\n".join([*indented, *fenced])).replace("\\\n", " ").splitlines()]
    commands = [part.strip() for line in lines for part in re.split(r"\||&&", re.sub(r"^\$ ", "", line))]
    return [re.split(r" {3,}| #|;", part)[0] for part in commands if re.match(r"(\S*/)?epsworth\b(?! *=)", part)]


FOUND = [(path, line) for path in PAGES for line in lines_of(path)]


def test_there_are_many():
    assert len(FOUND) > 40


@pytest.mark.parametrize(("path", "line"), FOUND, ids=lambda value: value.name if isinstance(value, Path) else value)
def test_commands_in_documents_exist(path, line):
    look_up(line)


@pytest.mark.parametrize(
    "line",
    [
        "epsworth audti policy.toml",
        "epsworth audit --jsn x policy.toml",
        "epsworth learn fit a b c",
        "epsworth learn fot a",
    ],
)
def test_commands_that_do_not_exist_are_noticed(line):
    with pytest.raises(AssertionError):
        look_up(line)


def look_up(line: str) -> None:
    """Fail for a command, an option or an argument that there is not."""
    words = [word for word in shlex.split(re.sub(r"[][]", " ", line))[1:] if word not in ("..", "...", "-")]
    command = COMMANDS
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"no command {words[0]}"
        command = command.commands[words.pop(0)]
    options = {name: one for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
    options |= dict.fromkeys(("-h", "--help"), None)
    room = sum(one.nargs if one.nargs > 0 else 1000 for one in command.params if one.param_type_name == "argument")
    while words:
        word = words.pop(0)
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
            name, equals, _ = word.partition("=")
            assert name in options, f"{command.name} has no option {name}"
            takes = options[name] is not None and not options[name].is_flag and not options[name].count
            if takes and not equals and words:
                words.pop(0)
        else:
            room -= 1
    assert room >= 0, "more arguments than it takes"
