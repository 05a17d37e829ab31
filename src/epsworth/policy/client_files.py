"""What a device gets: the policy as JSON that it recomputes and compares, the client in JavaScript, and vectors."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

from epsworth.client import Client
from epsworth.client.kernels import SHARES
from epsworth.client.reading import FORMAT, LONGEST, WHOLE
from epsworth.files import OutputError, as_if_new, writing
from epsworth.grids import Grid
from epsworth.mechanisms.krr import krr
from epsworth.mechanisms.two_level import TwoLevelKernel
from epsworth.numerals import EXACT, plain, whole
from epsworth.policy.columns import Column
from epsworth.policy.policy import Given, Policy, as_policy, file_digest
from epsworth.policy.rules import Rule
from epsworth.space import Feature
from epsworth.tailored.mechanism import Tailoring
from epsworth.tailored.randomisers import Average, Gain, Randomiser
from epsworth.version import __version__


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


VECTORS = 200
MOST_VECTORS = 100_000
SCRIPTS = ("epsworth.mjs", "epsworth.d.mts")
PACKAGE = {
    "name": "epsworth-client",
    "description": "Perturb one record on the device, as a policy says",
    "type": "module",
    "exports": {
        ".": {"types": "./epsworth.d.mts", "default": "./epsworth.mjs"},
        "./policy.json": "./policy.json",
        "./vectors.json": "./vectors.json",
    },
    "types": "./epsworth.d.mts",
    "sideEffects": False,
    "private": True,
}
WORD = 1 << 64
SPARE = 3
ABSURD = ("31", "", True, False, [31], {"value": 31}, 1e300, -1e300, -0.0, "\ud800", None)
"""What no record should hold in a sensitive column, and none is refused for."""


def client_files(policy: Given, vectors: int = VECTORS) -> dict[str, str]:
    """Return the texts of the client in JavaScript with its types, of the policy and of the vectors, by file name.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> sorted(client_files(Policy.of("pm", 1, Domain.of({"age": (0, 100)})), vectors=5))
    ['epsworth.d.mts', 'epsworth.mjs', 'package.json', 'policy.json', 'vectors.json']
    """
    policy = as_policy(policy)
    count, form = whole("vectors", vectors, most=MOST_VECTORS), policy.for_clients()
    found = {
        "fingerprint": policy.fingerprint,
        "private": False,
        "vectors": list(_vectors(policy, Client(form), count)),
    }
    scripts = {name: files("epsworth.client").joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS}
    texts = {"package.json": json.dumps(PACKAGE | {"version": __version__}, indent=2) + "\n"}
    return scripts | texts | {"policy.json": form, "vectors.json": json.dumps(found, allow_nan=False) + "\n"}


def write_client(policy: Given, folder: str | Path, vectors: int = VECTORS) -> None:
    """Write the files of a client into a new folder, all of them or none."""
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise OutputError(f"cannot write {folder}: it is there already; remove it or choose another folder")
    if not folder.parent.is_dir():
        raise OutputError(
            f"cannot write {folder}: the folder {folder.parent} does not exist; create it or choose another"
        )
    texts = client_files(policy, vectors)
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name[:40]}.", dir=folder.parent))
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}; choose another place") from None
    try:
        with writing(folder):
            for name, text in texts.items():
                (made / name).write_text(text, encoding="utf-8")
            as_if_new(made, 0o777)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _vectors(policy: Policy, client: Client, count: int) -> Iterator[dict[str, Any]]:
    """Yield records, words (as texts: they exceed doubles) and what these release; or that the record is refused."""
    rng = random.Random(policy.fingerprint)  # of public, made up records: nothing of it is a release
    for _ in range(count):
        record, words = _record(policy, rng), _words(policy, rng, client.words)
        told = {"record": record, "words": [str(word) for word in words]}
        try:
            yield told | {"released": dict(client.replay(record, words))}
        except ValueError:
            yield told | {"refused": True}


def _record(policy: Policy, rng: random.Random) -> dict[str, Any]:
    """Return a made up record; what a tailored policy replaces is absent in some, and absurd in others."""
    record = {rule.feature.name: _value(rule.feature, rule.kernel.points, rng) for rule in policy.rules}
    record |= dict.fromkeys(policy.passing.columns, "as it is")
    if (tailoring := policy.tailoring) is None:
        return record
    for grid, hidden in zip(tailoring.grids, tailoring.sensitive, strict=True):
        if grid.name not in policy.names or (hidden and rng.random() < 0.95):
            record[grid.name] = _value(grid.feature, grid.input.places, rng)
        if hidden and rng.random() < 0.1:
            record[grid.name] = rng.choice(ABSURD)
    return record


def _words(policy: Policy, rng: random.Random, count: int) -> list[int]:
    choices = [rng.getrandbits(2) if rng.random() < 0.3 else rng.getrandbits(64) for _ in policy.rules]  # and ties
    draws = [_word(rule, rng) for rule in policy.rules]
    words = draws if policy.sampling is None else choices + draws
    if policy.tailoring is not None:  # a region's, a representative's, and more where that one is drawn anew
        spare = SPARE * policy.tailoring.draw
        for _ in range(count - len(words) + spare):
            words.append(rng.getrandbits(64) if rng.random() < 0.7 else rng.choice([0, WORD - 1]))
        words += [rng.getrandbits(63)] * (spare > 0)  # which is never drawn anew
    return words


def _value(feature: Feature, points: int, rng: random.Random) -> Any:
    """Return a value of a feature: anywhere, at the ends, between two points of the grid, missing, undeclared."""
    kind = rng.random()
    if kind < 0.02:
        return None
    if feature.categories is not None:
        return "an undeclared word" if kind < 0.05 else rng.choice(feature.categories)
    width, steps = feature.upper - feature.lower, points - 1
    if kind < 0.5:
        return rng.uniform(feature.lower - 0.1 * width, feature.upper)
    if kind < 0.6:
        return rng.choice([feature.lower, feature.upper])
    return feature.lower + (rng.randrange(steps) + rng.choice([0, 0.5])) / steps * width


def _word(rule: Rule, rng: random.Random) -> int:
    """Return a word: any, one of the ends, or one beside the level at which the window begins."""
    level = rule.kernel.points * int(rule.kernel.weights(0)[-1])
    return rng.getrandbits(64) if rng.random() < 0.7 else rng.choice([0, level - 1, level, WORD - 1])
