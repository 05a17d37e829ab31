"""``epsworth policy``: what a policy file says, and which columns it lets pass."""

from __future__ import annotations

from typing import Annotated

import typer

from epsworth.cli import options, parsing, show

app = parsing.Shell(
    help="Read a policy, and say which columns it lets pass.", no_args_is_help=True, rich_markup_mode="rich"
)


def show_policy(policy: options.PolicyFile) -> None:
    """Print what a policy perturbs, lets pass and leaves out."""
    from epsworth.policy import Policy

    show.console().print(str(Policy.load(policy)), markup=False, soft_wrap=True)


def pass_columns(
    policy: options.PolicyFile,
    columns: Annotated[list[str] | None, typer.Argument(help="Columns to send as they are: a,b or a b.")] = None,
    drop: options.Drop = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text", help="Of the columns that pass: those whose fields may hold commas and quotes in CSV (comments)."
        ),
    ] = None,
) -> None:
    """Let columns pass, or leave them out.

    The policy file is signed anew.
    """
    from dataclasses import replace

    from epsworth.policy import Policy

    passing, dropped, texts = (tuple(options.split_commas(names or [])) for names in (columns, drop, text))
    if not (passing or dropped or texts):
        raise ValueError("no column is named; give those that pass, such as a,b, or --drop c")
    before = Policy.load(policy)
    after = replace(before, passing=before.passing.edited(passing, dropped, texts))
    after.save(policy)
    out = show.console()
    out.print(str(after), markup=False, soft_wrap=True)
    out.print(f"{policy} is written anew, under the fingerprint {after.fingerprint[:12]}: hand it out again.")
    show.suggest_perturb(policy, after)


app.command("show")(options.apart(show_policy))
app.command("pass")(options.apart(pass_columns))
