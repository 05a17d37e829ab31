"""``epsworth convert``: mutual information <-> an adversary's success <-> epsilon; local <-> shuffled epsilon."""

from __future__ import annotations

from typing import Annotated

import typer

from epsworth.cli import options, show, shuffling
from epsworth.rounding import round_up, show_down, show_up


def convert(
    mi: Annotated[str | None, typer.Option(help="Mutual information in nats, such as 1/16.")] = None,
    posterior: Annotated[str | None, typer.Option(help="Success of the adversary; the budget is found.")] = None,
    dp_epsilon: Annotated[str | None, typer.Option(help="Epsilon of the same average success at prior 1/2.")] = None,
    prior: Annotated[str, typer.Option(help="Success without the release.")] = "0.5",
    fpr: Annotated[str, typer.Option(help="False-positive rate for the bound on sure guesses.")] = "0.001",
    shuffle: Annotated[
        int | None, typer.Option(metavar="N", help="So many reports, one of everybody, pass a trusted shuffler.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="With --shuffle: of one report; the central one is found.")
    ] = None,
    central_epsilon: Annotated[
        float | None, typer.Option(help="With --shuffle: of the shuffled batch; that of one report is found.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="With --shuffle: well below one over the reports.")] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="With --shuffle: any (default), krr, oue, ternary or hadamard.")
    ] = None,
    symbols: Annotated[int | None, typer.Option(help="With --shuffle: symbols of krr, or classes of hadamard.")] = None,
    rounds: Annotated[
        int | None, typer.Option(help="With --shuffle: everybody reports in so many batches; default: 1.")
    ] = None,
    fakes: Annotated[
        int | None, typer.Option(help="With --shuffle: so many of the reports may be fakes; default: 0.")
    ] = None,
    json: options.Json = None,
) -> None:
    """Convert a PAC budget, or a local epsilon if shuffled.

    By --mi, --posterior or --dp-epsilon into adversaries' success; by --shuffle into the epsilon of shuffled reports.
    """
    options.check_outputs(json, None)
    asked = shuffling.ShuffleOptions(shuffle, epsilon, central_epsilon, delta, mechanism, symbols, rounds, fakes)
    if asked.given:
        if any(value is not None for value in (mi, posterior, dp_epsilon)):
            raise ValueError("--shuffle stands alone; leave out --mi, --posterior and --dp-epsilon")
        central = asked.central()
        if not show.told(json, central.to_dict):
            if central_epsilon is not None:
                print(f"A local epsilon of {show_down(central.local_epsilon)} suffices for {central_epsilon:g}.")
            shuffling.print_central(central)
        return
    from epsworth.pac import DPEquivalent, conversion

    if sum(value is not None for value in (mi, posterior, dp_epsilon)) != 1:
        raise ValueError("give exactly one of --mi, --posterior, --dp-epsilon and --shuffle")
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
