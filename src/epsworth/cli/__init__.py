"""The command line: one file per command, each a thin shell - parse, call one function, print, write.

Nothing heavy is imported before a command runs, so ``epsworth --help`` answers at once.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import warnings

import typer

from epsworth import __version__
from epsworth.cli import (
    audit,
    client,
    convert,
    demo,
    gateway,
    init,
    learn,
    ledger,
    mechanisms,
    moves,
    noise,
    options,
    parsing,
    perturb,
    policy,
    predict,
    privatize,
    profile,
    radius,
    recommend,
    report,
    run,
    safe_box,
    split,
    tailor,
    utility,
)
from epsworth.cli.messages import in_options, name_options
from epsworth.cli.running import INTERRUPTED, heed_stops, was_stopped
from epsworth.cli.trust import spelt_out
from epsworth.refusals import raised_in

app = parsing.Shell(
    name="epsworth",
    help="What is an epsilon worth? Which privacy mechanism, at which epsilon, keeps the result useful.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group, commands in {
    "Start": (demo.demo, init.init),
    "What a private epsilon keeps": (
        recommend.recommend, utility.utility, tailor.tailor, split.split, radius.radius, safe_box.safe_box,
        mechanisms.mechanisms, run.run, report.report,
    ),
    "Release records": (perturb.perturb, client.client, gateway.gateway, audit.audit),
    "Other releases, other questions": (
        privatize.privatize, predict.predict, convert.convert, profile.profile, moves.moves, noise.noise,
    ),
}.items():  # fmt: skip
    for command in commands:
        app.command(rich_help_panel=group)(options.apart(command))
app.add_typer(policy.app, name="policy", rich_help_panel="Release records")
app.add_typer(ledger.app, name="ledger", rich_help_panel="Release records")
app.add_typer(learn.app, name="learn", rich_help_panel="Other releases, other questions")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"epsworth {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Run; bad input ends in one sentence and exit status 2, Ctrl-C or SIGTERM in 130 with nothing half-written."""
    warnings.showwarning = _one_line  # type: ignore[assignment]
    _fill_closed_streams()
    if sys.stdout is None:
        _say("standard output is closed; redirect it to a file, or to /dev/null")
        sys.exit(2)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when a reader such as head has seen enough
    heed_stops()
    name_options({})
    try:
        code = app(spelt_out(sys.argv[1:]), prog_name="epsworth", standalone_mode=False) or 0
        if code == INTERRUPTED:  # the parser turns Ctrl-C inside a command into this
            raise KeyboardInterrupt
    except (Exception, KeyboardInterrupt) as error:
        code = _told(error)
    sys.exit(code)


def _told(error: BaseException) -> int:
    """Say what ended a command, and return its exit status; raise again what is an accident."""
    if isinstance(error, (KeyboardInterrupt, typer.Abort)) or was_stopped():
        _say("interrupted; no output was left half-written")
        return INTERRUPTED
    if isinstance(error, (ValueError, TypeError)) and _is_about_input(error):
        _say(str(error))
        return 2
    if isinstance(error, OSError):
        what = error.filename or "reading or writing failed"  # only the call that failed knows which
        room = " and the space left" if error.errno == errno.ENOSPC else ""
        _say(f"{what}: {error.strerror or error}; check the path{room}")
        return 2
    show, exit_code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if show is None or exit_code is None:
        raise error
    show()  # the command-line parser's own errors: what was wrong, and the usage
    return int(exit_code)


def _fill_closed_streams() -> None:
    """Open nothing in place of closed standard streams: a file opened later would be taken for one, and written to."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")  # sentences are lost, exit statuses are not


def _is_about_input(error: BaseException) -> bool:
    """Tell our own sentences (raised in epsworth) from accidents inside other libraries."""
    return raised_in(error).startswith("epsworth")


def _say(sentence: str) -> None:
    told = re.sub(r"\S{400,}", lambda word: f"{word[0][:200]}...", in_options(sentence))  # longer than any path's
    print(f"epsworth: {told}", file=sys.stderr)


def _one_line(message: Warning | str, category: type[Warning], *rest: object) -> None:
    _say(f"warning: {message}")
