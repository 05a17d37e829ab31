"""A policy as devices read it: JSON with exact texts, and the integers that they recompute and compare."""

from __future__ import annotations

import json
from typing import Any

from epsworth.client.reading import FORMAT, WHOLE
from epsworth.exact.two_level import TwoLevel
from epsworth.numerals import plain
from epsworth.release.policy import Policy
from epsworth.release.rules import Rule


def client_form(policy: Policy) -> str:
    """Return what `Policy.for_clients` promises."""
    if policy.tailoring is not None:
        raise ValueError("the policy is tailored, which devices do not run yet; perturb a table with it")
    sample = policy.sampling
    document: dict[str, Any] = {
        "format": FORMAT,
        "fingerprint": policy.fingerprint,
        **({} if sample is None else {"sample": {"features": sample.features, "unsampled": sample.unsampled}}),
        "features": [_feature(rule) for rule in policy.rules],
        "others": {
            "pass": [] if policy.others is None else list(policy.others.passed),
            "drop": [] if policy.others is None else list(policy.others.dropped),
        },
    }
    return json.dumps(document, indent=1, allow_nan=False)


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
        entry |= {"categories": [_category(feature.name, one) for one in feature.categories]}
    entry |= {"mechanism": kernel.name, "epsilon": plain(rule.epsilon)}
    if feature.categories is None:
        entry |= {"bits": rule.bits} if kernel.points == 1 << rule.bits else {}
        entry |= {"quantise": rule.points} if rule.points is not None else {}
    entry |= {key: getattr(rule, key) for key in ("missing", "outside") if getattr(rule, key) is not None}
    return entry | {"points": kernel.points} | {key: str(getattr(kernel, key)) for key in ("low", "high", "width")}


def _category(name: str, value: Any) -> Any:
    if isinstance(value, int) and abs(value) >= WHOLE:
        raise ValueError(f"features.{name}.categories: whole numbers of 2^53 or more are not the same in all languages")
    return value
