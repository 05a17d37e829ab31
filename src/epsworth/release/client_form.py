"""A policy as devices read it: JSON with exact texts, and the integers that they recompute and compare."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from epsworth.client.kernels import SHARES
from epsworth.client.reading import FORMAT, LONGEST, WHOLE
from epsworth.mechanisms.krr import krr
from epsworth.mechanisms.two_level import TwoLevelKernel
from epsworth.numerals import EXACT, plain
from epsworth.release.columns import Column
from epsworth.release.grids import Grid
from epsworth.release.policy import Policy, file_digest
from epsworth.release.randomisers import Average, Gain, Randomiser
from epsworth.release.rules import Rule
from epsworth.release.tailoring import Tailoring
from epsworth.space import Feature


def client_form(policy: Policy) -> str:
    """Return what `Policy.for_clients` promises: the content, after its fingerprint."""
    _check(policy)
    text = f'{{"fingerprint": "{policy.fingerprint}", {content(policy)[1:]}'
    if len(text) > LONGEST:
        raise ValueError(
            f"the policy takes {len(text) >> 20} MiB as JSON, and devices read {LONGEST >> 20}; tailor with a smaller "
            "surrogate, or perturb a table"
        )
    return text


def content(policy: Policy) -> str:
    """Return the JSON of which a policy's fingerprint is the SHA-256: all that a device acts on, in its order.

    ``file`` stands for the rest: it is the digest of all that the policy's file says, labels and classifiers among it.
    """
    sample, tailoring = policy.sampling, policy.tailoring
    document: dict[str, Any] = {
        "format": FORMAT,
        **({} if sample is None else {"sample": {"features": sample.features, "unsampled": sample.unsampled}}),
        "features": [_feature(rule) for rule in policy.rules],
        "others": {"pass": list(policy.passing.columns), "drop": list(policy.passing.drop)},
        **({} if tailoring is None else {"tailored": _tailored(tailoring)}),
        "file": file_digest(policy),
    }
    return json.dumps(document, allow_nan=False)  # ASCII, in one line: nothing on its way writes it otherwise


def _check(policy: Policy) -> None:
    """Refuse what devices cannot run."""
    for rule in policy.rules:
        if not isinstance(rule.kernel, TwoLevelKernel):
            raise ValueError(
                f"features.{rule.feature.name}.mechanism: devices draw from pm, sw, their affine forms and krr alone, "
                f"not from {rule.mechanism}; choose one of them, or perturb a table"
            )
        _check_categories(f"features.{rule.feature.name}", rule.feature)
    grids = () if policy.tailoring is None else policy.tailoring.grids
    for grid in grids:
        _check_categories(f"tailored.inputs.{grid.name}", grid.feature)
    named = (*policy.names, *policy.passing.columns, *policy.passing.drop)
    for grid in grids:
        if grid.name not in named:
            raise ValueError(f"pass: lacks {grid.name!r}, at which the policy looks; add it to columns or to drop")


def _check_categories(where: str, feature: Feature) -> None:
    if any(isinstance(value, int) and abs(value) >= WHOLE for value in feature.categories or ()):
        raise ValueError(f"{where}.categories: whole numbers of 2^53 or more are not the same in all languages")


def _tailored(tailoring: Tailoring) -> dict[str, Any]:
    """Return the tables of a tailored policy that a device needs; labels are not among them."""
    return {
        "epsilon": _digits(tailoring.epsilon),
        "inputs": [_input(grid, hidden) for grid, hidden in zip(tailoring.grids, tailoring.sensitive, strict=True)],
        "kernel": _kernel(tailoring.randomiser),
        "representatives": [rows.tolist() for rows in tailoring.representatives],
        "default": list(tailoring.default),
        "draw": tailoring.draw,
        "copy": tailoring.copy.to_dict(),
    }


def _input(grid: Grid, hidden: bool) -> dict[str, Any]:
    feature, entry = grid.feature, {"name": grid.name, "sensitive": hidden}
    if feature.categories is None:
        ends = {"missing": grid.missing, "lower": feature.lower, "upper": feature.upper}
        return entry | ends | {"points": grid.input.places}
    kinds, instead = grid.values.tolist(), [feature.categories.index(one) for one in (grid.missing, grid.outside)]
    return entry | {"missing": kinds[instead[0]], "categories": kinds, "outside": kinds[instead[1]]}


def _kernel(randomiser: Randomiser) -> dict[str, Any]:
    """Return the policy's table, and the integers of randomised response between 2, 3, .. regions."""
    if isinstance(randomiser, Gain):
        return randomiser.to_dict()
    most = max(randomiser.most) if isinstance(randomiser, Average) else randomiser.count
    kernels = [krr(randomiser.stated, regions) for regions in range(2, most + 1)]
    return randomiser.to_dict() | {key: [str(getattr(one, key)) for one in kernels] for key in ("low", "high")}


def _feature(rule: Rule) -> dict[str, Any]:
    """Return a rule and its kernel's integers; what devices cannot run by name alone: ``file`` tells it."""
    kernel, feature = rule.kernel, rule.feature
    if not isinstance(kernel, TwoLevelKernel):
        return {"name": feature.name, "mechanism": kernel.name}
    entry: dict[str, Any] = {"name": feature.name}
    instead = {key: value for key in ("missing", "outside") if (value := getattr(rule, key)) is not None}
    if feature.categories is None:
        entry |= {"lower": feature.lower, "upper": feature.upper}
    else:
        kinds = Column(rule).values.tolist()  # as they are released: NumPy has one kind for a truth among numbers
        entry |= {"categories": kinds}
        instead = {key: kinds[feature.categories.index(value)] for key, value in instead.items()}
    entry |= {"mechanism": kernel.name, "epsilon": _digits(rule.epsilon)}
    if feature.categories is None:
        entry |= {"bits": rule.bits} if kernel.points == 1 << rule.bits else {}
        entry |= {"quantise": rule.points} if rule.points is not None else {}
    entry |= instead | {"points": kernel.points}
    entry |= {key: str(getattr(kernel, key)) for key in ("low", "high", "width")}
    return entry | ({} if kernel.name in SHARES else {"window": "sliding" if kernel.affine else "snapped"})


def _digits(epsilon: Decimal) -> str:
    """Return an epsilon's digits as they are written most briefly: 1, 1.0 and 1E0 are one text."""
    return plain(EXACT.normalize(epsilon))
