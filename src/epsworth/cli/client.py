"""``epsworth client``: what devices and web pages need to run a policy by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsworth.cli import options, show


def client(
    policy: options.PolicyFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A new folder: module, types, policy, test vectors."),
    ],
    vectors: Annotated[int, typer.Option(help="Records with words and results, to test an installation with.")] = 200,
) -> None:
    """Write what devices need to run a policy.

    JSON, a module for browsers and Node, and test vectors.
    """
    from epsworth.policy import Policy
    from epsworth.policy.client_files import write_client

    rules = Policy.load(policy)
    write_client(rules, output, vectors)
    print(f"{output}: epsworth.mjs with types and package.json, policy.json, vectors.json.")
    print(f"{rules.guarantee}, fingerprint {rules.fingerprint[:12]}")
    show.suggest("audit", policy, why="prove the policy's integers before it is handed out")
