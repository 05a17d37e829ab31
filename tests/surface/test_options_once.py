"""Every option of one value is given once, at every command that there is, or will be."""

from __future__ import annotations

import pytest
import typer

from epsworth.cli import app


def commands_of(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands_of(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.cases("all")
def test_no_option_of_one_value_is_taken_twice(name):
    command = COMMANDS[name]
    options = [one for one in command.params if one.param_type_name == "option" and not (one.multiple or one.is_flag)]
    for option in options:
        for words in ([option.opts[0], "1", option.opts[-1], "1"], [f"{max(option.opts, key=len)}=1"] * 2):
            with pytest.raises(ValueError, match="is given twice; give it once") as told:
                command.make_context(name, list(words))
            assert str(told.value).startswith(max(option.opts, key=len))
