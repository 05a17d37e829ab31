"""Help: short summaries, commands in groups, options in panels; completion; and --quiet."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import typer

from epsworth.cli import app
from epsworth.cli.panels import OUTPUT, PRECISION, QUESTION, REMOTE
from epsworth.report.result import HAVE_PAGES

LONGEST = 55  # letters of a summary: it fits a line of 80 beside its command


def commands(group=None, before=""):
    for name, command in (group or typer.main.get_command(app)).commands.items():
        yield f"{before}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_summaries_are_short(name):
    summary = " ".join(COMMANDS[name].help.split("\n\n")[0].split())
    assert 0 < len(summary) <= LONGEST, summary
    assert summary.endswith(".")


def test_every_command_stands_in_a_group():
    ungrouped = [name for name, one in COMMANDS.items() if " " not in name and not one.rich_help_panel]
    assert ungrouped == []


@pytest.mark.parametrize("name", COMMANDS)
def test_options_stand_in_panels(name):
    command = COMMANDS[name]
    if hasattr(command, "commands"):
        return
    panels = {
        one.name: one.rich_help_panel
        for one in command.params
        if one.param_type_name == "option" and one.name != "help"
    }
    assert set(panels.values()) <= {QUESTION, PRECISION, OUTPUT, REMOTE}
    assert panels.get("json", OUTPUT) == panels.get("report", OUTPUT) == OUTPUT
    assert panels.get("cache", REMOTE) == panels.get("timeout", REMOTE) == REMOTE


def test_one_word_for_one_thing():
    """No command says --unit or --out; the column of persons is --id."""
    words = {word for one in COMMANDS.values() for option in one.params for word in option.opts}
    assert {"--id", "--output"} <= words
    assert not {"--unit", "--out"} & words


def test_help_shows_groups_and_panels(cli):
    code, out, _ = cli("--help")
    assert (code, "Release records" in out, "--install-completion" in out) == (0, True, True)
    code, out, _ = cli("recommend", "--help")
    assert all(f" {panel} " in out for panel in (QUESTION, PRECISION, OUTPUT, REMOTE))


@pytest.mark.parametrize(("words", "found"), [("epsworth priv", "privatize"), ("epsworth perturb --dr", "--dry-run")])
@pytest.mark.cases(1)
def test_the_shell_completes(words, found):
    asked = os.environ | {
        "_EPSWORTH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", "from epsworth.cli import main; main()"], env=asked, capture_output=True, text=True
    )
    assert found in done.stdout.split()


def test_quiet_prints_the_verdict_alone(cli):
    code, out, _ = cli("noise", "--within", "5", "-q")
    assert (code, len(out.splitlines())) == (0, 1)
    assert out.startswith("Take ")


@pytest.mark.parametrize("words", [("recommend", "m.skops", "t.csv", "-s", "a"), ("profile", "t.csv")])
def test_quiet_and_verbose_exclude_each_other(cli, words):
    code, _, err = cli(*words, "-q", "-v")
    assert (code, "give one of them" in err) == (2, True)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_breaks_no_sentence_and_names_arguments_alike(name):
    command = COMMANDS[name]
    if hasattr(command, "commands"):
        return
    assert not [part for part in command.help.split("\n\n") if "\n" in part and not part.startswith("\b")]
    named = [one.metavar for one in command.params if one.param_type_name == "argument"]
    assert all(metavar[:1].isupper() for metavar in named), named


def test_results_that_have_pages_are_those_of_commands_with_that_option():
    for name, command in COMMANDS.items():
        if any(one.name == "report" for one in command.params) and name != "run":
            assert re.search(rf"\b{name}\b", HAVE_PAGES), name
