"""``epsworth convert``: mutual information <-> what an adversary can achieve <-> a comparable epsilon."""

from __future__ import annotations

from typing import Annotated

import typer

from epsworth.cli import options, show
from epsworth.rounding import round_up, show_up


def convert(
    mi: Annotated[str | None, typer.Option(help="Mutual information in nats, such as 1/16.")] = None,
    posterior: Annotated[str | None, typer.Option(help="Success of the adversary; the budget is found.")] = None,
    dp_epsilon: Annotated[str | None, typer.Option(help="Epsilon of the same average success at prior 1/2.")] = None,
    prior: Annotated[str, typer.Option(help="Success without the release.")] = "0.5",
    fpr: Annotated[str, typer.Option(help="False-positive rate for the bound on sure guesses.")] = "0.001",
    json: options.Json = None,
) -> None:
    """Convert PAC budgets into adversaries' success."""
    from epsworth.pac import DPEquivalent, conversion

    options.check_outputs(json, None)
    if sum(value is not None for value in (mi, posterior, dp_epsilon)) != 1:
        raise ValueError("give exactly one of --mi, --posterior and --dp-epsilon")
    blind = options.fraction("--prior", prior)
    if mi is not None:
        nats = options.fraction("--mi", mi)
    elif posterior is not None:
        nats = conversion.budget(options.fraction("--posterior", posterior), blind)
    else:
        nats = DPEquivalent(options.fraction("--dp-epsilon", dp_epsilon or "")).mi
    success = conversion.posterior(nats, blind)
    even = conversion.posterior(nats, 0.5)
    false = options.fraction("--fpr", fpr)
    sure = conversion.tpr_bound(nats, 0.5, false)
    same = conversion.dp_epsilon(even) if even < 1 else None
    found = {
        "mi_nats": nats, "prior": blind, "posterior": success, "fpr": false, "tpr_bound_at_rate_0.5": sure,
        "epsilon_of_the_same_average_success": same,
    }  # fmt: skip
    if show.told(json, lambda: found):
        return
    out = show.console()
    out.print(f"mutual information  {show_up(nats)} nats")
    out.print(f"success             {round_up(100 * success)} % at most, from {100 * blind:g} % without the release")
    out.print(f"sure guesses        {round_up(100 * sure)} % of members at most, with {100 * false:g} % false alarms")
    if same is not None:
        told = f"same average success as epsilon {show_up(same)} of differential privacy"
        out.print(f"{told} at prior 50 %; not the same privacy")
