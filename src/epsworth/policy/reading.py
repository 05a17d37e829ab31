"""Reading a policy's document: every refusal names the path of the entry, what was given, and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from epsworth.client.kernels import MOST_BITS
from epsworth.documents import as_table, check_known, known_table, with_floats
from epsworth.grids import BITS
from epsworth.guarantees import Guarantee
from epsworth.numerals import EXACT, plain
from epsworth.policy.passed import ENTRIES, Pass
from epsworth.policy.rules import Rule, Sampling
from epsworth.space import KEYS, Domain

VERSION = 1
TOP = ("version", "fingerprint", "per_record", "sample", "features", "tailored", "pass")
RULE = ("mechanism", "epsilon", "bits", "outside")


def read_rules(document: Mapping[str, Any]) -> tuple[tuple[Rule, ...], Sampling | None]:
    """Check a parsed document and return the rules of its features, and which of them a record releases."""
    check_known("", document, TOP)
    version = document.get("version")
    if version is None:
        ranges = set(document) == {"features"} and "mechanism" not in str(document["features"])
        told = "this is a file of ranges, not a policy" if ranges else f"version: it is missing, and must be {VERSION}"
        raise ValueError(f"{told}; recommend --policy writes a policy")
    if version != VERSION or isinstance(version, bool):
        raise ValueError(f"version: this library reads version {VERSION}, got {version!r}; write the policy anew")
    features = as_table("features", document.get("features", {}))
    if not features and "tailored" not in document:
        raise ValueError("features: there is none; write one section [features.NAME] per feature")
    return tuple(_rule(name, entry) for name, entry in features.items()), _sampling(document.get("sample"))


def _rule(name: str, entry: object) -> Rule:
    where = f"features.{name}"
    table = as_table(where, entry)
    check_known(where, table, KEYS + RULE)
    table = {key: value if key == "epsilon" else with_floats(value) for key, value in table.items()}
    declared = {key: table[key] for key in KEYS if key in table}
    feature = Domain.from_dict({"features": {name: declared}})[name]
    for key in ("mechanism", "epsilon"):
        if key not in table:
            raise ValueError(f"{where}.{key}: is missing; every feature needs its mechanism and its epsilon")
    if not isinstance(table["mechanism"], str):
        raise ValueError(f"{where}.mechanism: must be a name such as 'pm', got {table['mechanism']!r}")
    bits = table.get("bits", BITS)
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= MOST_BITS:
        raise ValueError(f"{where}.bits: must be a whole number from 1 to {MOST_BITS}, got {bits!r}")
    try:
        return Rule(feature, table["mechanism"], table["epsilon"], bits, table.get("outside"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}.{error}") from None


def _sampling(entry: object) -> Sampling | None:
    if entry is None:
        return None
    table = as_table("sample", entry)
    check_known("sample", table, ("features", "unsampled"))
    if "features" not in table:
        raise ValueError("sample.features: is missing; say how many features each record releases")
    return Sampling(table["features"], table.get("unsampled", "missing"))


def read_pass(document: Mapping[str, Any]) -> Pass:
    """Return what a parsed document says of columns that are not perturbed."""
    return Pass(**known_table("pass", document.get("pass", {}), ENTRIES))


def check_stated(document: Mapping[str, Any], total: Decimal, guarantee: Guarantee, fingerprint: str) -> None:
    """Refuse a file whose parts do not add up: edited by hand, or cut short."""
    stated = as_table("per_record", document.get("per_record", {}))
    check_known("per_record", stated, ("epsilon", "delta", "notion"))
    for key, truth in (("epsilon", total), ("delta", Decimal(repr(guarantee.delta)))):
        number = stated.get(key, truth)
        if isinstance(number, bool) or not isinstance(number, (int, float, Decimal)) or number < truth:
            raise ValueError(f"per_record.{key}: states {_shown(number)}, but the features add up to {_shown(truth)}")
    if stated.get("notion", guarantee.notion) != guarantee.notion:
        raise ValueError(f"per_record.notion: states {stated['notion']!r}, but it is {guarantee.notion!r}")
    if (given := document.get("fingerprint", fingerprint)) != fingerprint:
        raise ValueError(
            f"fingerprint: states {str(given)[:12]}.., but the content's is {fingerprint[:12]}..: it was edited after "
            "it was written; delete the fingerprint line to accept the edit"
        )


def _shown(value: object) -> str:
    return plain(value.normalize(EXACT)) if isinstance(value, Decimal) else repr(value)
