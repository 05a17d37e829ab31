"""The address of a service in place of a model file, and the options that only services have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from epsworth.cli.panels import REMOTE
from epsworth.cli.running import connections_may_break
from epsworth.inputs import is_address

ONLY_SERVICES = {  # parameters of commands -> arguments of `remote`; a --budget of radius is another one
    "most_asked": "budget",
    **{name: name for name in ("cache", "batch", "timeout", "inputs", "output")},
}

Budget = Annotated[
    int | None,
    typer.Option(
        "--budget", rich_help_panel=REMOTE, help="Of a service: the most records to send; stop before there are more."
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        rich_help_panel=REMOTE,
        help="Of a service: keep its answers in this file; run again to go on. As private as the records.",
    ),
]
Batch = Annotated[
    int | None, typer.Option("--batch", rich_help_panel=REMOTE, help="Of a service: records per request (512).")
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", rich_help_panel=REMOTE, help="Of a service: seconds for one try (30).")
]
Inputs = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        rich_help_panel=REMOTE,
        help="Of a service: send one tensor, or columns; default: as its metadata say.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option("--output-tensor", rich_help_panel=REMOTE, help="Of a service: the output that holds the labels."),
]


def file_or_address(text: str) -> Any:
    """Return the path of a file, or an address as it is: a path would lose one of its slashes."""
    return text if is_address(text) else Path(text)


def service(address: str, given: Mapping[str, Any]) -> Any:
    """Return the service behind an address, by the options given."""
    from epsworth.classifiers.service import remote

    connections_may_break()
    try:
        return remote(address, **_given(given))
    except ImportError as error:
        raise ValueError(str(error)) from None


def refuse_for_files(model: object, given: Mapping[str, Any]) -> None:
    """Refuse the options of services where the model is a file, instead of ignoring them."""
    for name in _given(given):
        word = "output-tensor" if name == "output" else name
        raise ValueError(
            f"--{word} is for a service, and {model} is a file; drop it, or give http://HOST/v2/models/NAME"
        )


def _given(given: Mapping[str, Any]) -> dict[str, Any]:
    return {word: given[name] for name, word in ONLY_SERVICES.items() if given.get(name) is not None}
