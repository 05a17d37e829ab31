"""``epsworth audit``: prove a policy again from its integers, or refute a sampler by its draws."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsworth.cli import options, services, show

if TYPE_CHECKING:
    from epsworth.policy import Policy
    from epsworth.policy.audit.black_box import Sampler
    from epsworth.policy.audit.policy_audit import ModelAudit

FAULT = 1  # exit status


def audit(
    policy: Annotated[Path | None, typer.Argument(help="Policy file (.toml): every feature exactly.")] = None,
    sampler: Annotated[
        str | None,
        typer.Option(help="module:function from an array of true values to released ones; needs --trust."),
    ] = None,
    inputs: Annotated[str, typer.Option(help="True values for the sampler, separated by commas.")] = "0,0.5,1",
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="What the sampler promises.")] = None,
    delta: Annotated[float, typer.Option(help="What the sampler promises beside epsilon.")] = 0.0,
    draws: Annotated[int, typer.Option(help="From the sampler, per input.")] = 200_000,
    confidence: options.Confidence = 0.999,
    model: Annotated[
        Any,
        typer.Option(
            "--model",
            parser=services.file_or_address,
            metavar="MODEL",
            help="Of a tailored policy: ask this classifier, a file or an http:// address, whether it answers as the "
            "one that was copied. Exit status 1 if not: the policy then keeps its epsilon, but fewer labels.",
        ),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the sampler's module, or load the model's pickle: runs their code.")
    ] = False,
    json: options.Json = None,
) -> None:
    """Audit a policy's promises, or a sampler.

    Exit status 1 if a fault is found.
    """
    options.check_outputs(json, None)
    if model is not None and policy is None:
        raise ValueError("--model is compared with what a policy was made for; give the policy file, too")
    if policy is None and sampler is None:
        raise ValueError("there is nothing to audit; give a policy file, or --sampler module:function")
    if sampler is None and (epsilon is not None or delta):
        raise ValueError("--epsilon and --delta say what a sampler promises; a policy states its own, so drop them")
    from epsworth.policy import Policy, audit_policy, audit_sampler

    if sampler is not None:
        module = sampler.partition(":")[0].replace(".", "/")
        options.check_files({"module of --sampler": f"{module}.py", "--json": json})
    if isinstance(model, Path):
        options.check_files({"--model": model, "--json": json, "policy": policy})
    found: dict[str, Any] = {}
    if policy is not None:
        rules = Policy.load(policy)
        compared = None if model is None else _model(rules, model, trust)
        with options.progress_bar("proving again") as progress:
            found["policy"] = audit_policy(rules, progress=progress)
        if compared is not None:
            found["model"] = compared
    if sampler is not None:
        function = _function(sampler, trust)
        found["sampler"] = audit_sampler(function, _values(inputs), epsilon, delta, draws=draws, confidence=confidence)
    if not show.told(json, lambda: {name: result.to_dict() for name, result in found.items()}):
        for result in found.values():
            typer.echo(str(result))
    if not all(result.passed for result in found.values()):
        raise typer.Exit(FAULT)


def _model(policy: Policy, model: Any, trust: bool) -> ModelAudit:
    """Compare a classifier's answers with those of the one that a policy copied."""
    from epsworth.cli.asking import classifier
    from epsworth.policy.audit.policy_audit import audit_model

    return audit_model(policy, classifier(model, {"trust": trust}))


def _function(words: str, trust: bool) -> Sampler:
    """Import ``module:function``, from the working directory too."""
    if not trust:
        raise ValueError(f"--sampler {words}: importing it runs the code in it; say --trust if you trust it")
    module, colon, name = words.partition(":")
    if not (module and colon and name):
        raise ValueError(f"--sampler must be of the form module:function, got {words!r}")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        function = getattr(import_module(module), name, None)
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        told = repr(error) if isinstance(error, SystemExit) else error
        raise ValueError(f"--sampler {words}: the module cannot be imported ({told}); check its name") from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise ValueError(f"--sampler {words}: the module has no function {name!r}; check its name")
    found: Sampler = function
    return found


def _values(text: str) -> list[float] | list[str]:
    """Read numbers, or categories."""
    words = [word.strip() for word in text.split(",")]
    try:
        return [float(word) for word in words]
    except ValueError:
        return words
