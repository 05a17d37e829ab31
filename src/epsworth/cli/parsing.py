"""Commands whose options are given once, and whose parser refuses in one sentence."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from epsworth.numerals import short


class Command(TyperCommand):
    """A command that refuses what it cannot read in one sentence, also an option that is given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line."""
        with _in_one_sentence(self, ctx, args):
            return super().parse_args(ctx, args)


class Group(TyperGroup):
    """Commands under one word, which are looked up as they are read."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words before the command's name."""
        with _in_one_sentence(self, ctx, args):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names."""
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            raise ValueError(
                f"there is no command {short(args[0])} of {ctx.command_path}; {_nearest(ctx, args, known)}"
            )
        return super().resolve_command(ctx, args)


class Shell(typer.Typer):
    """A `typer.Typer` all of whose commands are of the classes above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Register a command."""
        return super().command(name, cls=Command, **settings)


def checked_jobs(jobs: int | None) -> int | None:
    """Return a number of workers; refuse what is none."""
    if jobs == 0:
        raise ValueError("--jobs must be a number of workers, or -1 for all cores, got 0")
    return jobs


@contextmanager
def _in_one_sentence(command: Any, ctx: Any, args: list[str]) -> Iterator[None]:
    """Refuse options that are given twice, and say what the parser refuses in a sentence of our own."""
    given, rest = {}, []
    words = list(args)  # the parser empties its list
    try:
        if words and not ctx.resilient_parsing:
            given, rest, order = command.make_parser(ctx).parse_args(args=words)
            _check_once(order, given)
        yield
    except typer.Exit:
        raise
    except Exception as error:
        if not hasattr(error, "ctx") or type(error).__name__ == "NoArgsIsHelpError":
            raise
        raise ValueError(_sentence(error, command, ctx, given, rest)) from None


def _check_once(order: list[Any], given: dict[str, Any]) -> None:
    if given.get("help"):
        return
    for option, times in Counter(order).items():
        single = option.param_type_name == "option" and not (option.multiple or option.is_flag or option.count)
        if single and times > 1:
            raise ValueError(f"{_word(option)} is given {'twice' if times == 2 else f'{times} times'}; give it once")


def _sentence(error: Any, command: Any, ctx: Any, given: dict[str, Any], rest: list[str]) -> str:
    path, kind = ctx.command_path, type(error).__name__
    option, param = str(getattr(error, "option_name", "")), getattr(error, "param", None)
    words = {word: one for one in command.get_params(ctx) for word in (*one.opts, *one.secondary_opts)}
    if kind == "NoSuchOption":
        return f"there is no option {short(option)} of {path}; {_nearest(ctx, [option], list(words))}"
    if option:
        return f"{option} takes no value; drop it" if words[option].is_flag else f"{option} lacks a value; add it"
    if kind == "MissingParameter":
        return f"{_word(param)} is missing, and {path} needs it; {path} --help says what it is"
    if param is not None:
        value = given.get(param.name)
        return f"{_word(param)} must be {_allowed(command, param)}, got {short(value)}; {path} --help says more"
    if rest:
        takes = " and ".join(_word(one) for one in command.get_params(ctx) if one.param_type_name == "argument")
        return f"{path} takes {takes or 'no argument'}, and then there is {short(rest[0])}; drop it, or name its option"
    return f"{str(error.message).rstrip('.')}; {path} --help says what is allowed"


def _word(parameter: Any) -> str:
    """Return an option as it is written in full, or an argument as the usage shows it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar).upper()
    return str(max(parameter.opts, key=len))


def _allowed(command: Any, parameter: Any) -> str:
    """Say which values an option takes, by the annotation of the command's own parameter."""
    annotation = inspect.signature(command.callback).parameters[parameter.name].annotation
    kind, *more = get_args(annotation) or (annotation,)
    kinds = {kind, *get_args(kind)}
    if not kinds & {int, float}:
        return "of the form that its help shows"
    lower, upper = (next((getattr(info, end, None) for info in more), None) for end in ("min", "max"))
    between = "" if lower is None else f" of at least {lower}" if upper is None else f" from {lower} to {upper}"
    return f"a number{between}, as in 0.9" if float in kinds else f"a whole number{between}"


def _nearest(ctx: Any, given: list[str], known: list[str]) -> str:
    near = get_close_matches(given[0], known, 1)
    return f"did you mean {near[0]}?" if near else f"{ctx.command_path} --help lists them"
