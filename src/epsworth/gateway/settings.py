"""What a gateway is told: the policy, who is who, how much is too much.  Checked once, before it listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from epsworth.numerals import exact_decimal
from epsworth.policy.policy import Policy, as_policy

DATATYPES = ("FP64", "FP32")


@dataclass(frozen=True)
class Settings:
    """How a gateway treats requests.

    Claim: of a request, upstream receives the released values of the policy's features, those of the columns
    that it lets pass, and names that stand here; nothing else.

    Parameters
    ----------
    policy : Policy or path
        What is perturbed, and what passes; what it drops is taken and does not leave.
    upstream : str
        Where perturbed requests go: ``http://host:port``, or one model of it, ``http://host:port/v2/models/NAME``.
    tensors : mapping from name to tuple of str
        Names of tensors with two dimensions, and their columns; none: requests name them (``parameters.columns``).
    outputs : tuple of str
        Names of outputs that a request may ask for.
    datatype : {"FP64", "FP32"}
        In which released numbers leave, whatever the request's were: those could depend on the values.
    person : str, optional
        The input that says whose record it is.  It does not leave, unless the policy lets it pass.
    ledger : path, optional
        Where people's charges stand.
    cap, delta_cap : Decimal, optional
        The most that all draws of one person may add up to.
    same : bool
        Draw once per person; every later request leaves with the same values, whatever it holds.
    """

    policy: Policy
    upstream: str
    tensors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    datatype: str = "FP64"
    person: str | None = None
    ledger: Path | None = None
    cap: Decimal | None = None
    delta_cap: Decimal | None = None
    same: bool = False
    largest_body: int = 1 << 20
    most_records: int = 1000
    most_requests: int = 256
    seconds: float = 10.0
    retries: int = 2
    health: str = "/v2/health/ready"

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", as_policy(self.policy))
        if self.policy.tailoring is not None:
            raise ValueError(
                "policy: it is a tailored one, whose columns are released together; a gateway perturbs each input by "
                "itself: let clients run it (epsworth perturb), or give a policy of rules alone"
            )
        check_upstream(self.upstream)
        for key in ("cap", "delta_cap"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, exact_decimal(key, getattr(self, key)))
                if not getattr(self, key) > 0:
                    raise ValueError(f"{key}: must be positive, got {getattr(self, key)}")
        if self.person in self.policy.names:
            raise ValueError(f"person: {self.person!r} is perturbed by the policy; name the input that says who it is")
        if self.datatype not in DATATYPES:
            raise ValueError(f"datatype: must be {' or '.join(DATATYPES)}, got {self.datatype!r}")
        if not self.health.startswith("/"):
            raise ValueError(f"health: must be a path that starts with /, got {self.health!r}")
        self._check_numbers()
        self._check_ledger()
        for name, columns in self.tensors.items():
            self._check_columns(name, columns)

    def _check_numbers(self) -> None:
        for key in ("largest_body", "most_records", "most_requests"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key}: must be at least 1, got {getattr(self, key)}")
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds: must be above 0 and at most 3600, got {self.seconds}")
        if not 0 <= self.retries <= 10:
            raise ValueError(f"retries: must be 0 to 10, got {self.retries}")

    def _check_ledger(self) -> None:
        if (self.person is None) != (self.ledger is None):
            raise ValueError("person and ledger go together: name the input that says whose record it is, and a file")
        if self.person is None and (self.same or self.cap is not None or self.delta_cap is not None):
            raise ValueError("a cap, and drawing once, are per person: name the input that says who it is (person)")
        if self.cap is None and self.delta_cap is not None:
            raise ValueError("delta_cap: goes with a cap; give both")
        if self.cap is not None:
            if self.policy.guarantee.delta and self.delta_cap is None:
                raise ValueError("delta_cap: the policy has a delta, which adds up, too; give the most it may reach")
            if self.policy.total > self.cap:
                raise ValueError(
                    f"cap: one record costs epsilon {self.policy.total}, more than {self.cap}; raise the cap "
                    f"to at least that, or take a policy whose epsilon is at most {self.cap}"
                )

    def _check_columns(self, name: str, columns: tuple[str, ...]) -> None:
        if not name or name in self.policy.names or name in self.public:
            raise ValueError(f"tensors: {name!r} is the name of one input; a tensor of columns needs its own")
        for column in columns:
            if columns.count(column) > 1:
                raise ValueError(f"tensors: {name!r} names the column {column!r} twice; keep one")
            if not self.covers(column):
                raise ValueError(
                    f"tensors: the column {column!r} of {name!r} is neither perturbed nor let pass by the policy"
                )

    def covers(self, name: str) -> bool:
        """Tell whether an input of that name may stand in a request."""
        return name in self._inputs

    @cached_property
    def _inputs(self) -> frozenset[str]:
        person = [] if self.person is None else [self.person]
        return frozenset((*self.policy.names, *self.public, *self.policy.passing.drop, *person))

    @property
    def public(self) -> tuple[str, ...]:
        """The inputs that pass as they are; any input that the policy does not name is refused."""
        return self.policy.passing.columns

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The perturbed features, in the policy's order."""
        return self.policy.names

    @cached_property
    def may_lack(self) -> frozenset[str]:
        """The features that a record may lack: the policy says what stands for a missing value."""
        return frozenset(rule.feature.name for rule in self.policy.rules if rule.missing is not None)

    @cached_property
    def datatypes(self) -> dict[str, str]:
        """In which datatype each feature leaves in a tensor of its own: a matter of the policy alone."""
        kinds = {r.feature.name: {type(c) for c in r.feature.categories or (0.0,)} for r in self.policy.rules}
        words = {str: "BYTES", bool: "BOOL", int: "INT64", float: self.datatype}
        return {name: words[kind.pop()] if len(kind) == 1 else "BYTES" for name, kind in kinds.items()}

    @cached_property
    def words(self) -> frozenset[str]:
        """The features whose categories are not all numbers: they need a tensor of their own."""
        rules = self.policy.rules
        return frozenset(r.feature.name for r in rules if any(isinstance(c, str) for c in r.feature.categories or ()))

    @property
    def base(self) -> str:
        """The upstream's address without a path of one model."""
        return self.upstream.rstrip("/").split("/v2/models/")[0]

    @property
    def model(self) -> str | None:
        """The one path that is served, or None for all models."""
        whole = self.upstream.rstrip("/")
        return whole[len(self.base) :] if "/v2/models/" in whole else None


def check_upstream(url: str) -> None:
    """Refuse what is no address of a service."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(
            "upstream: must be http://host:port or https://host, with a path if need be; it is no such URL"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            "upstream: must not hold a user, a password, a query or a fragment; give a token by EPSWORTH_UPSTREAM_TOKEN"
        )
