"""The policy that clients run: public, versioned, readable; one mechanism and one exact epsilon per feature.

Numbers keep the text they were written with: an epsilon of ``0.1`` is one tenth, not the float above it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from epsworth.documents import read_toml
from epsworth.exact import Kernel, kernel
from epsworth.exact.rational import stated_epsilon
from epsworth.exact.table import ALIASES
from epsworth.files import check_readable, check_writable, reading, write_text
from epsworth.guarantees import Approximate, Guarantee, compose
from epsworth.mechanisms import FAMILIES, GridMechanism, Mechanism
from epsworth.mechanisms.family import parse
from epsworth.numerals import decimal_below, exact_decimal, exact_sum
from epsworth.rounding import show_up
from epsworth.space import Domain, Feature

VERSION = 1
BITS = 16
HEADER = "# An epsworth policy: what every client runs before a record leaves the device. Everything in it is public.\n"
UNSAMPLED = ("missing", "scaled")
SHARE_PLACES = 12  # decimals of a split budget

Unsampled = Literal["missing", "scaled"]


@dataclass(frozen=True)
class Rule:
    """How one feature is released.

    Attributes
    ----------
    feature : Feature
        Its public range or categories.
    mechanism : str
        The words of both doors, such as ``"pm"`` or ``"krr:k=33"``; categories always take ``krr``.
    epsilon : Decimal
        Exact.
    bits : int
        The grids of a numeric feature have 2^bits points.
    missing : object, optional
        What stands for a missing value: a number in the range, or a category.  None refuses it.
    outside : object, optional
        The category that stands for undeclared ones.  None refuses them; numbers are always clamped.
    """

    feature: Feature
    mechanism: str
    epsilon: Decimal
    bits: int = BITS
    missing: Any = None
    outside: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_decimal("epsilon", self.epsilon))
        if not self.epsilon > 0:
            raise ValueError(f"epsilon: must be positive, got {self.epsilon}")
        stated_epsilon(self.epsilon)
        categories = self.feature.categories
        for value in categories or ():
            if not isinstance(value, (str, int, float)):
                raise ValueError(f"categories: must be texts, numbers or booleans, got {value!r}; write it as a text")
        for key in ("missing", "outside"):
            value = getattr(self, key)
            if value is not None and categories is not None and value not in categories:
                raise ValueError(f"{key}: {value!r} is not one of the categories; declare it or choose another")
        if categories is None:
            if self.outside not in (None, "clamp"):
                raise ValueError(f"outside: numbers outside the range are clamped ('clamp'), got {self.outside!r}")
            object.__setattr__(self, "outside", "clamp")
            self._check_missing_number()
        self.kernel  # noqa: B018  refuses what cannot be sampled exactly

    def _check_missing_number(self) -> None:
        if self.missing is None:
            return
        if isinstance(self.missing, bool) or not isinstance(self.missing, (int, float, Decimal)):
            raise ValueError(f"missing: must be a number of the range that stands for it, got {self.missing!r}")
        if not self.feature.lower <= (missing := float(exact_decimal("missing", self.missing))) <= self.feature.upper:
            raise ValueError(
                f"missing: {self.missing} lies outside the range {self.feature.lower:g} to {self.feature.upper:g}"
            )
        object.__setattr__(self, "missing", missing)

    @cached_property
    def kernel(self) -> Kernel:
        """The exact sampler on the feature's public grid."""
        words = parse(self.mechanism)
        try:
            if self.feature.categories is not None:
                if words.name != "krr":
                    raise ValueError(f"{words.name} does not keep categories; use krr")
                return kernel("krr", self.epsilon, k=len(self.feature.categories))
            if words.indicator is not None:
                raise ValueError("the privacy indicator sends raw records; leave it out")
            options = dict(words.options)
            if issubclass(FAMILIES.get(words.name, Mechanism), GridMechanism):  # the same grid as in the analysis
                options = {"k": GridMechanism.k} | options
                options |= {} if self.feature.points is None else {"k": self.feature.points}
            return kernel(words.name, self.epsilon, bits=self.bits, **options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"mechanism: {self.mechanism} cannot be released: {error}") from None

    @property
    def points(self) -> int | None:
        """Grid to which outputs are rounded afterwards (post-processing), or None."""
        return parse(self.mechanism).points

    @property
    def promise(self) -> str:
        """The stated epsilon in words, and beside it what the integers in fact keep, where that differs."""
        kept, stated = self.kernel.guarantee, show_up(float(self.epsilon))
        if kept.delta:
            pure = show_up(self.kernel.loss())
            return f"epsilon {stated} with delta {show_up(kept.delta)} (its integers keep pure epsilon {pure})"
        told = show_up(kept.epsilon)
        return f"epsilon {stated}" + ("" if told == stated else f" (its integers keep {told})")

    def to_dict(self) -> dict[str, Any]:
        """Return the TOML form, without the name."""
        rule = {"mechanism": self.mechanism, "epsilon": self.epsilon}
        rule |= {} if self.feature.categories is not None else {"bits": self.bits}
        return (
            self.feature.to_dict()
            | rule
            | {key: getattr(self, key) for key in ("outside", "missing") if getattr(self, key) is not None}
        )


@dataclass(frozen=True)
class Sampling:
    """Each record releases only ``features`` of the policy's features, chosen uniformly, independently of the data.

    Wang et al. 2019: with k of d features at k-th parts of the budget each.  ``unsampled`` values are left
    ``"missing"``, or the record is ``"scaled"``: centre + (d/k) (y - centre), and the centre itself for the
    unsampled, so that means over all records are, on average, what they would be with every feature released.
    """

    features: int
    unsampled: Unsampled = "missing"


@dataclass(frozen=True, repr=False)
class Policy:
    """What clients run: rules for the perturbed features; every other column passes through.

    Claim: a record that passes once leaves at most `guarantee`, whatever its values; the draws come from
    integer weights and the operating system's entropy.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> policy = Policy.of("pm", 1, Domain.of({"age": (0, 100), "smoker": ["no", "yes"]}))
    >>> print(policy.guarantee)
    pure LDP, epsilon 2 per record
    """

    rules: tuple[Rule, ...]
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        if not self.rules:
            raise ValueError("features: a policy needs at least one")
        for name in self.names:
            if self.names.count(name) > 1:
                raise ValueError(f"features: there are two rules for {name!r}; keep one")
        if self.sampling is None:
            return
        _check_count(self.sampling.features, len(self.rules))
        if self.sampling.unsampled not in UNSAMPLED:
            raise ValueError(f"sample.unsampled: must be 'missing' or 'scaled', got {self.sampling.unsampled!r}")
        if self.sampling.unsampled == "scaled" and any(rule.feature.categories is not None for rule in self.rules):
            raise ValueError("sample.unsampled: categories cannot be scaled; use 'missing'")

    @classmethod
    def of(
        cls,
        mechanism: str,
        epsilon: str | float | Decimal | Mapping[str, str | float | Decimal],
        domain: Domain,
        *,
        bits: int = BITS,
        sample: int | None = None,
    ) -> Policy:
        """Apply one mechanism to every feature of a domain.

        Parameters
        ----------
        mechanism : str
            For the numeric features; categories take ``krr``.
        epsilon : number, text, or mapping from feature to one
            Per feature.
        sample : int, optional
            Release only this many features of each record; ``epsilon`` is still per released feature.
        """
        given = epsilon if isinstance(epsilon, Mapping) else {f.name: epsilon for f in domain.features}
        for feature in domain.features:
            if feature.name not in given:
                raise ValueError(f"epsilon: no value for {feature.name!r}; give one per feature, or one for all")
        return cls(
            tuple(
                Rule(f, "krr" if f.categories is not None else mechanism, exact_decimal("epsilon", given[f.name]), bits)
                for f in domain.features
            ),
            None if sample is None else Sampling(sample),
        )

    @classmethod
    def split(
        cls, mechanism: str, total: str | float | Decimal, domain: Domain, *, sample: int | None = None
    ) -> Policy:
        """Divide one budget evenly among the features of a domain, or among the ``sample`` released ones."""
        parts = len(domain.features) if sample is None else sample
        _check_count(parts, len(domain.features))
        share = decimal_below(Fraction(exact_decimal("total", total)) / parts, SHARE_PLACES)
        return cls.of(mechanism, share, domain, sample=sample)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The promise per record: the sum over the features that are released together."""
        promises = [rule.kernel.guarantee for rule in self.rules]
        # any subset loses at most the largest epsilons and the largest deltas
        by_epsilon = compose(sorted(promises, key=lambda p: p.epsilon)[-self.released :])
        by_delta = compose(sorted(promises, key=lambda p: p.delta)[-self.released :])
        return Approximate(by_epsilon.epsilon, by_delta.delta, "record") if by_delta.delta else by_epsilon

    @property
    def total(self) -> Decimal:
        """Stated epsilon per record: the exact sum over the features that are released together."""
        return exact_sum(sorted((rule.epsilon for rule in self.rules), reverse=True)[: self.released])

    @property
    def released(self) -> int:
        """How many features of a record are released."""
        return len(self.rules) if self.sampling is None else self.sampling.features

    @property
    def names(self) -> tuple[str, ...]:
        """The perturbed features."""
        return tuple(rule.feature.name for rule in self.rules)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything the policy says; spellings of one mechanism have one."""
        content = self._content()
        for entry in content["features"].values():
            entry["mechanism"] = canonical(entry["mechanism"])
        return _digest(content)

    @cached_property
    def fingerprint_as_written(self) -> str:
        """The fingerprint that older versions gave, which told spellings of one mechanism apart."""
        return _digest(self._content())

    def __repr__(self) -> str:
        """Return the fingerprint and the promise."""
        return f"<Policy {self.fingerprint[:12]}: {self.guarantee}>"

    def __str__(self) -> str:
        """Return the policy in a sentence per feature."""
        lines = [f"policy {self.fingerprint[:12]}: {self.guarantee}"]
        lines += [f"  {rule.feature.name}: {rule.mechanism}, {rule.promise}" for rule in self.rules]
        if self.sampling is not None:
            lines.append(f"  each record releases {self.sampling.features} of {len(self.rules)} features")
        return "\n".join(lines)

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {"version": VERSION}
        if self.sampling is not None:
            content["sample"] = {"features": self.sampling.features, "unsampled": self.sampling.unsampled}
        return content | {"features": {rule.feature.name: rule.to_dict() for rule in self.rules}}

    def to_toml(self) -> str:
        """Return the file's text."""
        import tomli_w

        total = {"epsilon": self.total, "delta": self.guarantee.delta, "notion": self.guarantee.notion}
        content = self._content()
        head = {"version": content.pop("version"), "fingerprint": self.fingerprint, "per_record": total}
        return HEADER + tomli_w.dumps(head | content)

    def save(self, path: str | Path) -> None:
        """Write the TOML file, whole or not at all."""
        write_text(check_policy(path), self.to_toml())

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file; an error names the path of the entry inside it."""
        with reading(check_readable(path, "policy"), "policy") as content:
            return cls.from_toml(content.decode())

    @classmethod
    def from_toml(cls, text: str) -> Policy:
        """Read the text of a policy."""
        from epsworth.release.reading import read_policy

        return read_policy(read_toml(text, Decimal))


def check_policy(path: str | Path) -> Path:
    """Return a path that a policy can be written to; a name that promises another format is refused."""
    path = check_writable(path)
    if path.suffix.lower() not in ("", ".toml"):
        raise ValueError(f"cannot write {path}: a policy is a TOML file; let its name end in .toml")
    return path


def _check_count(k: object, d: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= d:
        raise ValueError(f"sample.features: must be a whole number from 1 to {d}, got {k!r}")


def canonical(words: str) -> str:
    """Return a mechanism's words as they are written most briefly, options by name.

    Examples
    --------
    >>> canonical("krr:k=033"), canonical("discrete_gaussian: delta=0.00001, calibration=pure")
    ('krr:k=33', 'gaussian_clipped:calibration=pure,delta=1e-5')
    """
    read = parse(words)
    options = dict(read.options)
    options |= {"quantise": read.points} if read.points is not None else {}
    options |= {"indicator": read.indicator} if read.indicator is not None else {}
    told = [f"{key}={re.sub('e-0', 'e-', str(value))}" for key, value in sorted(options.items())]
    return ":".join(filter(None, (ALIASES.get(read.name, read.name), ",".join(told))))


def _digest(content: dict[str, Any]) -> str:
    plain = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()


_LIKE_A_NUMBER = re.compile(r'"*-?[0-9]+(/[0-9]+)?')


def _plain(value: Any) -> Any:
    """Return numbers as exact texts, so that 1, 1.0 and 1.00 have one fingerprint; the text "1" has another."""
    if isinstance(value, str) and _LIKE_A_NUMBER.fullmatch(value):
        return f'"{value}'  # told from the number, and from a text that begins with the mark itself
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return f"{Fraction(value)}"
    return value
