"""``epsworth split``: one epsilon per record, shared out over its features where it does most good."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from epsworth.cli import asking, options, show


@options.takes(options.BUDGETED)
def split(
    context: typer.Context,
    model: options.Model,
    table: options.Table,
    sensitive: options.Sensitive,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Epsilon of the whole record, to be shared out.")],
    domain: options.DomainFile = None,
    domain_from_data: options.DomainFromData = False,
    mechanism: Annotated[str, typer.Option("--mechanism", "-m", help="One mechanism.")] = "pm",
    on: Annotated[str, typer.Option(help="average or worst, over the records.")] = "average",
    target: options.Target = None,
    method: options.Method = "auto",
    confidence: options.Confidence = 0.999,
    tolerance: options.Tolerance = 0.01,
    seed: options.Seed = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    resume: options.ResumeFolder = None,
    json: options.Json = None,
    plot: options.Plot = None,
    policy: options.PolicyOut = None,
    passing: options.Passing = None,
) -> None:
    """Share a record's epsilon out over its features."""
    import epsworth as ew
    from epsworth.utility.attacker import protection

    options.check_outputs(json, plot, policy)
    options.check_policy_out(policy, domain_from_data)
    columns = options.passing_columns(passing, policy)
    if not 0 < epsilon < math.inf:
        raise ValueError(f"--epsilon must be positive and finite, got {epsilon:g}")
    if on not in ("average", "worst"):
        raise ValueError(f"--on must be average or worst, got {on!r}")
    asked = asking.Inputs.of(context.params, model, table)
    asked.check_gaps()
    with options.workers(jobs, cluster) as n_jobs, options.progress_bar("sharing out") as progress:
        found = ew.split_budget(
            asked.model, asked.frame, sensitive=asked.names, total=epsilon, mechanism=mechanism,
            domain=asked.domain, on=on, method=method, confidence=confidence, tolerance=tolerance, rng=seed,  # type: ignore[arg-type]  # checked above
            progress=progress, n_jobs=n_jobs, checkpoint=resume,
        )  # fmt: skip
    if plot is not None:
        from epsworth.drawing import save

        save(found.plot().figure, plot)  # type: ignore[arg-type]  # a panel of a whole figure
    if policy is not None:
        from epsworth.policy import Policy
        from epsworth.space import Domain, unit_domain

        declared = asked.domain or unit_domain(found.features)
        features = Domain(tuple(declared[name] for name in found.features))
        epsilons = dict(zip(found.features, found.epsilons, strict=True))
        handed = options.passing_only(Policy.of(mechanism, epsilons, features, passing=found.passing), columns)
        handed.save(policy)
    if show.told(json, found.to_dict):
        return
    out = show.console()
    out.print(str(found), markup=False, soft_wrap=True)
    out.print(protection(found.guarantee), soft_wrap=True)
    out.print("The split was chosen on these rows: they must be public, or stand for others.")
    if policy is not None:
        show.print_policy(policy, handed)
        show.suggest_perturb(policy, handed, asked.columns)
    else:
        show.suggest(*show.again(), "--policy", "policy.toml", why="write what clients must run")
