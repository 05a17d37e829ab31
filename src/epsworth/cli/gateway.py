"""``epsworth gateway``: perturb what is sent to a model elsewhere."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from epsworth.cli import options
from epsworth.cli.running import connections_may_break

NEEDED = ("starlette", "uvicorn", "aiohttp")


def gateway(
    policy: options.PolicyFile,
    upstream: Annotated[
        str, typer.Option(help="Where perturbed requests go: http://host:port, or http://host:port/v2/models/NAME.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any, which the log says.")
    ] = 8800,
    tensor: Annotated[
        list[str] | None,
        typer.Option(
            "--tensor",
            help="NAME=COLUMN,COLUMN: a tensor with one column per feature; NAME alone: requests name them as "
            "parameters.columns. Repeat.",
        ),
    ] = None,
    output: Annotated[
        list[str] | None, typer.Option("--output-tensor", help="Output that requests may ask for by name; repeat.")
    ] = None,
    datatype: Annotated[str, typer.Option(help="FP64 or FP32: in which released numbers leave.")] = "FP64",
    person: Annotated[
        str | None,
        typer.Option(help="Input that says whose record it is; it stays here unless the policy passes it."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="File of what each person lost already, made if absent; epsworth ledger spent --ledger FILE reads it."
        ),
    ] = None,
    cap: Annotated[
        str | None, typer.Option(help="Most epsilon that all draws of one person may add up to; then 429.")
    ] = None,
    delta_cap: Annotated[str | None, typer.Option(help="Most delta, where the policy has one.")] = None,
    same: Annotated[
        bool, typer.Option("--same", help="Draw once per person; later requests leave with the same values.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; they share the ledger and the metrics.")] = 1,
    seconds: Annotated[float, typer.Option(help="Most seconds for one attempt upstream.")] = 10.0,
    retries: Annotated[int, typer.Option(help="Further attempts, with the same bytes.")] = 2,
    most_records: Annotated[int, typer.Option(help="Most records per request.")] = 1000,
    most_requests: Annotated[int, typer.Option(help="Most requests at once per worker; then 503.")] = 256,
    largest_body: Annotated[int, typer.Option(help="Most bytes of a request.")] = 1 << 20,
    health: Annotated[str, typer.Option(help="Path at which upstream says that it is ready.")] = "/v2/health/ready",
    upstream_ca: Annotated[
        Path | None, typer.Option(help="Certificates (.pem) to check upstream by; default: the system's.")
    ] = None,
) -> None:
    """Serve a model elsewhere with perturbed records only.

    What the policy does not cover is refused.

    Runs on the data holder's side, speaks HTTP (put a proxy with TLS before it), and adds the bearer token in
    EPSWORTH_UPSTREAM_TOKEN to what it sends.  /healthz, /readyz and /metrics are its own.  SIGTERM or Ctrl-C lets it
    finish what is under way.
    """
    _check_installed()
    from epsworth.gateway import Settings
    from epsworth.gateway.serving import serve
    from epsworth.numerals import exact_decimal
    from epsworth.policy import Policy

    def number(key: str, text: str | None) -> Decimal | None:
        return None if text is None else exact_decimal(key, text)

    settings = Settings(
        Policy.load(policy),
        upstream,
        tensors=dict(map(_tensor, tensor or ())),
        outputs=tuple(options.split_commas(output or [])),
        datatype=datatype,
        person=person,
        ledger=ledger,
        cap=number("cap", cap),
        delta_cap=number("delta_cap", delta_cap),
        same=same,
        largest_body=largest_body,
        most_records=most_records,
        most_requests=most_requests,
        seconds=seconds,
        retries=retries,
        health=health,
    )
    connections_may_break()
    serve(settings, host=host, port=port, workers=workers, ca=upstream_ca)


def _tensor(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, columns = text.partition("=")
    return name, tuple(column.strip() for column in columns.split(",")) if columns else ()


def _check_installed() -> None:
    from importlib.util import find_spec

    for package in NEEDED:
        if find_spec(package) is None:
            raise ValueError(f'a gateway needs {package}, which is not installed: pip install "epsworth[gateway]"')
