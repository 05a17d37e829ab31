"""A policy as devices read it: JSON with exact texts, and the integers that they recompute and compare."""

from __future__ import annotations

import json
from typing import Any

from epsworth.client.reading import FORMAT, LONGEST, WHOLE
from epsworth.exact.two_level import TwoLevel, krr
from epsworth.numerals import plain
from epsworth.release.columns import Column
from epsworth.release.grids import Grid
from epsworth.release.policy import Policy
from epsworth.release.randomisers import Average, Gain, Randomiser
from epsworth.release.rules import Rule
from epsworth.release.tailoring import Tailoring


def client_form(policy: Policy) -> str:
    """Return what `Policy.for_clients` promises."""
    sample, tailoring = policy.sampling, policy.tailoring
    document: dict[str, Any] = {
        "format": FORMAT,
        "fingerprint": policy.fingerprint,
        **({} if sample is None else {"sample": {"features": sample.features, "unsampled": sample.unsampled}}),
        "features": [_feature(rule) for rule in policy.rules],
        "others": _others(policy),
        **({} if tailoring is None else {"tailored": _tailored(tailoring)}),
    }
    text = json.dumps(document, indent=1 if tailoring is None else None, allow_nan=False)  # tables have no lines
    if len(text) > LONGEST:
        raise ValueError(
            f"the policy takes {len(text) >> 20} MiB as JSON, and devices read {LONGEST >> 20}; tailor with a smaller "
            "surrogate, or perturb a table"
        )
    return text


def _others(policy: Policy) -> dict[str, list[str]]:
    """Return what passes and what is dropped; where a policy does not say, the public columns that it looks at pass."""
    looked_at = () if policy.tailoring is None else tuple(grid.name for grid in policy.tailoring.grids)
    public = [name for name in looked_at if name not in policy.names]
    if policy.others is None:
        return {"pass": public, "drop": []}
    passed, dropped = policy.others.passed, policy.others.dropped
    for name in public:
        if name not in passed and name not in dropped:
            raise ValueError(f"others: lacks {name!r}, at which the policy looks; add it to pass or to drop")
    return {"pass": list(passed), "drop": list(dropped)}


def _tailored(tailoring: Tailoring) -> dict[str, Any]:
    """Return the tables of a tailored policy that a device needs; labels are not among them."""
    return {
        "epsilon": plain(tailoring.epsilon),
        "inputs": [_input(grid, hidden) for grid, hidden in zip(tailoring.grids, tailoring.sensitive, strict=True)],
        "kernel": _kernel(tailoring.randomiser),
        "representatives": [rows.tolist() for rows in tailoring.representatives],
        "default": list(tailoring.default),
        "draw": tailoring.draw,
        "copy": tailoring.copy.to_dict(),
    }


def _input(grid: Grid, hidden: bool) -> dict[str, Any]:
    entry = {"name": grid.name, "sensitive": hidden, "missing": grid.missing}
    if grid.feature.categories is None:
        return entry | {"lower": grid.feature.lower, "upper": grid.feature.upper, "points": grid.input.places}
    where = f"tailored.inputs.{grid.name}"
    return entry | {"categories": [_category(where, one) for one in grid.values.tolist()], "outside": grid.outside}


def _kernel(randomiser: Randomiser) -> dict[str, Any]:
    """Return the policy's table, and the integers of randomised response between 2, 3, .. regions."""
    if isinstance(randomiser, Gain):
        return randomiser.to_dict()
    most = max(randomiser.most) if isinstance(randomiser, Average) else randomiser.count
    kernels = [krr(randomiser.stated, regions) for regions in range(2, most + 1)]
    return randomiser.to_dict() | {key: [str(getattr(one, key)) for one in kernels] for key in ("low", "high")}


def _feature(rule: Rule) -> dict[str, Any]:
    kernel, feature = rule.kernel, rule.feature
    if not isinstance(kernel, TwoLevel):
        raise ValueError(
            f"features.{feature.name}.mechanism: devices draw from pm, sw, their affine forms and krr alone, not from "
            f"{rule.mechanism}; choose one of them, or perturb a table"
        )
    entry: dict[str, Any] = {"name": feature.name}
    if feature.categories is None:
        entry |= {"lower": feature.lower, "upper": feature.upper}
    else:
        released = Column(rule).values.tolist()  # NumPy has one kind for a truth among numbers
        entry |= {"categories": [_category(f"features.{feature.name}", one) for one in released]}
    entry |= {"mechanism": kernel.name, "epsilon": plain(rule.epsilon)}
    if feature.categories is None:
        entry |= {"bits": rule.bits} if kernel.points == 1 << rule.bits else {}
        entry |= {"quantise": rule.points} if rule.points is not None else {}
    entry |= {key: getattr(rule, key) for key in ("missing", "outside") if getattr(rule, key) is not None}
    return entry | {"points": kernel.points} | {key: str(getattr(kernel, key)) for key in ("low", "high", "width")}


def _category(where: str, value: Any) -> Any:
    if isinstance(value, int) and abs(value) >= WHOLE:
        raise ValueError(f"{where}.categories: whole numbers of 2^53 or more are not the same in all languages")
    return value
