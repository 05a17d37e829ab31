"""The policy that clients run: public, versioned, readable; one mechanism and one exact epsilon per feature.

Numbers keep the text they were written with: an epsilon of ``0.1`` is one tenth, not the float above it.  A policy's
text is checked before it is parsed, so that reading it takes little, and packed when written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import Any

from numpy.typing import NDArray

from epsworth.client import Client
from epsworth.documents import read_toml
from epsworth.files import check_readable, check_writable, reading, write_text
from epsworth.grids import BITS
from epsworth.guarantees import Approximate, Guarantee, Pure, Unit, compose
from epsworth.mechanisms.family import parse
from epsworth.mechanisms.table import ALIASES
from epsworth.numerals import decimal_below, exact_decimal, exact_sum, short
from epsworth.policy.passed import Pass
from epsworth.policy.reading import VERSION, check_stated, read_pass, read_rules
from epsworth.policy.rules import UNSAMPLED, Rule, Sampling
from epsworth.results import Result, json_form
from epsworth.rounding import show_up
from epsworth.sources import KINDS
from epsworth.space import Domain, Feature, Ranges, as_domain
from epsworth.tailored.document import read_tailoring
from epsworth.tailored.mechanism import Tailoring

LARGEST = 1 << 20  # bytes
LARGEST_TAILORED = 1 << 24  # of a policy that holds a copy of a classifier
DEPTH = 16  # of brackets
LONGEST = 40  # characters of a number
WIDTH = 118  # letters of a line of numbers

# texts that do not end run to the end, so that no letter is looked at twice
_TOKENS = re.compile(
    r"""
    \"{3} (?: [^\\"] | \\. | "{1,2}(?!") )*+ (?: "{3,5} | \Z )
  | '{3} (?: [^'] | '{1,2}(?!') )*+ (?: '{3,5} | \Z )
  | " (?: [^\\"\n] | \\. )*+ "?
  | ' [^'\n]*+ '?
  | \# [^\n]*+
  | (?P<open> [\[{] ) | (?P<close> [\]}] )
  | (?P<number> (?<![\w.-]) [+-]?[0-9][\w.+-]*+ (?! [ \t]* [=.] ) )
  | [\w.+-]++
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_TABLE = re.compile(r"^[ \t]*\[+([^\[\]\n]*)\]+", re.MULTILINE)
_TAILORED = re.compile(r"^\[tailored\b", re.MULTILINE)
_KEY = re.compile(r"^[ \t]*([\w.-]+|\"[^\"\n]*\")[ \t]*=", re.MULTILINE)


def check_no_table(path: str | Path) -> str | Path:
    """Return the path of a policy's file; refuse one that is a table's by its ending.

    Examples
    --------
    >>> check_no_table("table.csv")
    Traceback (most recent call last):
    ValueError: policy table.csv: this is a table, by its ending; a policy is a .toml file, and is named before tables
    """
    if str(path).lower().endswith(tuple(KINDS)):
        raise ValueError(
            f"policy {path}: this is a table, by its ending; a policy is a .toml file, and is named before tables"
        )
    return path


def check_text(text: str) -> None:
    """Refuse a policy's text that is too long, nested too deeply, or holds a number of too many characters.

    Examples
    --------
    >>> check_text("epsilon = " + 41 * "1")
    Traceback (most recent call last):
        ...
    ValueError: epsilon: a number has 41 characters, the most is 40; round it
    """
    most = LARGEST_TAILORED if _TAILORED.search(text) else LARGEST
    if len(text) > most or len(text.encode(errors="replace")) > most:
        raise ValueError(
            f"the policy is longer than {most >> 20} MiB; make one of fewer features, or of a smaller copy"
        )
    depth = 0
    for token in _TOKENS.finditer(text):
        if token["open"]:
            depth += 1
            if depth > DEPTH:
                raise ValueError(
                    f"{_entry(text, token.start())}: brackets are nested more than {DEPTH} deep; flatten it"
                )
        elif token["close"]:
            depth = max(0, depth - 1)
        elif token["number"] and len(token["number"]) > LONGEST:
            size = len(token["number"])
            told = f"a number has {size:,} characters, the most is {LONGEST}; round it"
            raise ValueError(f"{_entry(text, token.start())}: {told}")


def _entry(text: str, at: int) -> str:
    """Return the path of the entry that holds a place, as the text names it."""
    before = text[:at]
    tables, keys = list(_TABLE.finditer(before)), list(_KEY.finditer(before))
    table = tables[-1][1].strip() + "." if tables else ""
    if not keys or (tables and keys[-1].start() < tables[-1].start()):
        return f"line {before.count(chr(10)) + 1}"
    return f"{table}{keys[-1][1]}"[:200]


_COLUMN = re.compile(
    r"\[\n((?: *(?:-?\d+|\[[-\d, ]*\]),\n)+) *\]"
)  # of whole numbers, or of lists of them; no text has line ends


def packed(text: str) -> str:
    """Return TOML with as many whole numbers in a line as fit, not one: a forest's tables have thousands."""
    for _ in range(2):  # the lists in a list, then the list
        text = _COLUMN.sub(lambda found: f"[{fill(' '.join(found[1].split()), WIDTH).rstrip(',')}]", text)
    return text


HEADER = "# An epsworth policy: what every client runs before a record leaves the device. Everything in it is public.\n"
TAILORED = """\
# Clients find the region of their record in the classifier's map by the copy below, draw one at random once, and send
# in place of {names} values that stand for the region that was drawn, or the default where none is within reach.
# That region is all that is released of these columns: a single value alone means nothing, nor do
# averages.
# Whoever holds this file holds a copy of the classifier, or most of it: what it answers can be computed from here,
# and so can inputs that mislead it.  A prior, if there is one, tells shares of its answers.
"""
SHARE_PLACES = 12  # decimals of an epsilon that features share

Amount = str | float | Decimal


@dataclass(frozen=True, repr=False)
class Policy(Result):
    """What clients run: rules for the perturbed features, and what becomes of every other column.

    Claim: a record that passes once leaves at most `guarantee`, whatever its values; the draws come from
    integer weights and the operating system's entropy.

    Parameters
    ----------
    rules : tuple of Rule
        One per feature that is perturbed by itself.
    sampling : Sampling, optional
        Where a record releases some of them only.
    tailoring : Tailoring, optional
        What `epsworth.tailor` puts in.
    passing : Pass, optional
        Which other columns are sent as they are, and which are left out; a table with any that it does not name is
        refused.  By default none is sent.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> policy = Policy.of("pm", 1, Domain.of({"age": (0, 100), "smoker": ["no", "yes"]}))
    >>> print(policy.guarantee)
    pure LDP, epsilon 1 per record
    """

    rules: tuple[Rule, ...]
    sampling: Sampling | None = None
    tailoring: Tailoring | None = None
    passing: Pass = field(default_factory=Pass)

    def __post_init__(self) -> None:
        if not isinstance(self.rules, (tuple, list)) or not all(isinstance(rule, Rule) for rule in self.rules):
            raise TypeError(f"rules must be a sequence of Rule, got {short(self.rules)}; Policy.of makes one")
        object.__setattr__(self, "rules", tuple(self.rules))
        if not self.rules and self.tailoring is None:
            raise ValueError("features: a policy needs at least one")
        for name in self.names:
            if self.names.count(name) > 1:
                raise ValueError(f"features: there are two rules for {name!r}; keep one")
        self.passing.check_beside(self.names)
        if self.sampling is None:
            return
        if self.tailoring is not None:
            raise ValueError("sample: a tailored policy cannot sample its features too; leave out [sample]")
        _check_count(self.sampling.features, len(self.rules))
        if self.sampling.unsampled not in UNSAMPLED:
            raise ValueError(f"sample.unsampled: must be 'missing' or 'scaled', got {short(self.sampling.unsampled)}")
        if self.sampling.unsampled == "scaled":
            for feature in (rule.feature for rule in self.rules):
                if feature.categories is not None or feature.integer:
                    kind = "categories" if feature.categories is not None else "whole numbers"
                    raise ValueError(f"sample.unsampled: {kind} cannot be scaled; use 'missing'")

    @classmethod
    def of(
        cls,
        mechanism: str,
        epsilon: Amount | Mapping[str, Amount],
        domain: Ranges,
        *,
        per: Unit = "record",
        bits: int = BITS,
        sample: int | None = None,
        passing: Sequence[str] = (),
    ) -> Policy:
        """Apply one mechanism to every feature of a domain.

        Parameters
        ----------
        mechanism : str
            For the numeric features; categories take ``krr``.
        epsilon : number, text, or mapping from feature to one
            Of a record, shared evenly by the features that are released; a mapping gives every feature its own.
        domain : Domain, mapping or path
            Public ranges of the features, ``{"age": (0, 100), "smoker": ["no", "yes"]}``, or a file that holds them.
        per : {"record", "feature"}
            With ``"feature"`` a single epsilon is that of every feature, and the record's is their sum.
        sample : int, optional
            Release only this many features of each record.
        passing : sequence of str
            Columns that are sent as they are; see `Pass` for more.
        """
        if not isinstance(mechanism, str) or isinstance(epsilon, Domain):
            raise TypeError("Policy.of takes the words of a mechanism, then epsilon, then the domain; change the order")
        features = as_domain(domain).features
        given = epsilon if isinstance(epsilon, Mapping) else _shares(epsilon, features, per, sample)
        for feature in features:
            if feature.name not in given:
                raise ValueError(f"epsilon: no value for {feature.name!r}; give one per feature, or one for all")
        return cls(
            tuple(
                Rule(f, "krr" if f.categories is not None else mechanism, exact_decimal("epsilon", given[f.name]), bits)
                for f in features
            ),
            None if sample is None else Sampling(sample),
            passing=Pass(passing),  # type: ignore[arg-type]  # checked there
        )

    @cached_property
    def guarantee(self) -> Guarantee:
        """The promise per record: the sum over the features that are released together."""
        promises = [rule.kernel.guarantee for rule in self.rules]
        # any subset loses at most the largest epsilons and the largest deltas
        # columns that their rules release first are charged twice: their region's epsilon comes on top (adaptively)
        region: list[Pure | Approximate] = [] if self.tailoring is None else [Pure(self.tailoring.randomiser.loss)]
        by_epsilon = compose(sorted(promises, key=lambda p: p.epsilon)[-self.released :] + region)
        by_delta = compose(sorted(promises, key=lambda p: p.delta)[-self.released :] + region)
        return Approximate(by_epsilon.epsilon, by_delta.delta, "record") if by_delta.delta else by_epsilon

    @property
    def total(self) -> Decimal:
        """Stated epsilon per record: the exact sum over the features that are released together."""
        of_rules = sorted((rule.epsilon for rule in self.rules), reverse=True)[: self.released]
        return exact_sum(of_rules if self.tailoring is None else [*of_rules, self.tailoring.epsilon])

    @property
    def released(self) -> int:
        """How many features of a record are released."""
        return len(self.rules) if self.sampling is None else self.sampling.features

    @property
    def names(self) -> tuple[str, ...]:
        """The perturbed features: those of the rules, then those that a tailored policy replaces."""
        replaced = () if self.tailoring is None else self.tailoring.names
        return tuple(rule.feature.name for rule in self.rules) + replaced

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything the policy says, which devices compute anew; spellings of one policy have one.

        It is of the text that `for_clients` returns, without the fingerprint itself.
        """
        from epsworth.policy.client_files import content

        return hashlib.sha256(content(self).encode()).hexdigest()

    def outcomes(self, record: Mapping[str, Any] | NDArray[Any]) -> list[tuple[Any, Fraction]]:
        """Return all that one record can send, each with its exact probability: for audits, and for tests.

        Claim: they sum to 1, and whatever the perturbed columns hold, the same can be sent, with probabilities
        that differ by at most e^epsilon of the `guarantee` (a delta aside).

        Parameters
        ----------
        record : mapping, or array of shape ``(d,)``
            From column to value; what a tailored policy replaces may be missing, absent or absurd.  The columns of an
            array are x0, x1, ..

        Returns
        -------
        list of (dict or tuple, Fraction)
            The record as it is sent - a tuple for an array - and how likely that is.

        Raises
        ------
        ValueError
            If the policy samples features, or its rules have more than 65,536 joint outcomes.

        Examples
        --------
        >>> from epsworth import Domain, Policy
        >>> policy = Policy.of("krr", "1", Domain.of({"smoker": ["no", "yes"]}), passing=["id"])
        >>> [(sent["smoker"], round(float(share), 3)) for sent, share in policy.outcomes({"smoker": "no", "id": 7})]
        [('no', 0.731), ('yes', 0.269)]
        """
        from epsworth.policy.audit.black_box import outcomes

        return outcomes(self, record)

    def __repr__(self) -> str:
        """Return the fingerprint and the promise."""
        return f"<Policy {self.fingerprint[:12]}: {self.guarantee}>"

    def __str__(self) -> str:
        """Return the policy in a sentence per feature."""
        lines = [f"policy {self.fingerprint[:12]}: {self.guarantee}"]
        lines += [f"  {rule.feature.name}: {rule.mechanism}, {rule.promise}" for rule in self.rules]
        if self.sampling is not None:
            lines.append(f"  each record releases {self.sampling.features} of {len(self.rules)} features")
        if self.tailoring is not None:
            names, epsilon = ", ".join(self.tailoring.names), show_up(float(self.tailoring.epsilon))
            count, best = len(self.tailoring.labels), self.tailoring.randomiser.best
            lines.append(
                f"  {names}: tailored, epsilon {epsilon} for all of them together: one of {count} regions of the "
                f"classifier, drawn as is best {best}; single values mean nothing"
            )
        lines.append(f"  {self.passing}")
        return "\n".join(lines)

    def _content(self) -> dict[str, Any]:
        sample = {} if self.sampling is None else {"sample": asdict(self.sampling)}
        tailored = {} if self.tailoring is None else {"tailored": self.tailoring.to_dict()}
        rules = {rule.feature.name: rule.to_dict() for rule in self.rules}
        passing = {"pass": told} if (told := self.passing.to_dict()) else {}
        return {"version": VERSION} | sample | ({"features": rules} if rules else {}) | tailored | passing

    def to_dict(self) -> dict[str, Any]:
        """Return what the file says, as JSON has it: the nearest double of each decimal."""
        form: dict[str, Any] = json_form(self._document())
        return form

    def _document(self) -> dict[str, Any]:
        """Return what the file says; numbers that were written with a point are exact decimals."""
        total = {"epsilon": self.total, "delta": self.guarantee.delta, "notion": self.guarantee.notion}
        return {"version": VERSION, "fingerprint": self.fingerprint, "per_record": total} | self._content()

    def to_toml(self) -> str:
        """Return the file's text."""
        import tomli_w

        names = () if self.tailoring is None else self.tailoring.names
        told = TAILORED.format(names=", ".join(map(_one_line, names))) if names else ""
        return HEADER + told + packed(tomli_w.dumps(self._document()))

    def knows(self, names: Iterable[str]) -> bool:
        """Tell whether the policy names any of these columns."""
        return not {*self.names, *self.passing.columns, *self.passing.drop}.isdisjoint(names)

    def for_clients(self) -> str:
        """Return the policy as devices read it: JSON with exact texts, and the integers that they prove anew.

        Raises
        ------
        ValueError
            If a mechanism takes more than one word a draw: devices draw from pm, sw, their affine forms, krr and
            tailored policies.  If a tailored policy is too large, or `passing` leaves out a column that it looks at.

        Examples
        --------
        >>> from epsworth import Domain, Policy
        >>> text = Policy.of("krr", "0.5", Domain.of({"smoker": ["no", "yes"]})).for_clients()
        >>> import json
        >>> json.loads(text)["features"][0]["high"]
        '11482347978973021681'
        """
        from epsworth.policy.client_files import client_form

        return client_form(self)

    @cached_property
    def client(self) -> Client:
        """The policy's own door for single records: what `perturb` does with a mapping.

        Examples
        --------
        >>> from epsworth import Domain, Policy
        >>> Policy.of("krr", 1, Domain.of({"smoker": ["no", "yes"]})).client.words
        1
        """
        return Client(self.for_clients())

    def save(self, path: str | Path) -> None:
        """Write the TOML file, whole or not at all."""
        write_text(check_policy(path), self.to_toml())

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file; an error names the path of the entry inside it."""
        with reading(check_readable(check_no_table(path), "policy"), "policy") as content:
            return cls.from_toml(content.decode())

    @classmethod
    def from_toml(cls, text: str) -> Policy:
        """Read the text of a policy: at most 1 MiB, brackets 16 deep and numbers of 40 characters."""
        check_text(text)
        document = read_toml(text, Decimal)
        tailored = document.get("tailored")
        tailoring = None if tailored is None else read_tailoring(tailored)
        policy = cls(*read_rules(document), tailoring, read_pass(document))
        check_stated(document, policy.total, policy.guarantee, policy.fingerprint)
        return policy


def _one_line(name: str) -> str:
    """Return a name as a comment can hold it."""
    return name if name.isprintable() else json.dumps(name)


def check_policy(path: str | Path) -> Path:
    """Return a path that a policy can be written to; a name that promises another format is refused."""
    path = check_writable(path)
    if path.suffix.lower() not in ("", ".toml"):
        raise ValueError(f"cannot write {path}: a policy is a TOML file; let its name end in .toml")
    return path


def _shares(epsilon: Amount, features: Sequence[Feature], per: Unit, sample: int | None) -> dict[str, Decimal]:
    """Return the epsilon of every feature: the largest of so many decimals that do not add up to more."""
    if not isinstance(per, str) or per not in ("record", "feature"):
        raise ValueError(f"per must be 'record' or 'feature', got {short(per)}; write per=\"record\"")
    share, parts = exact_decimal("epsilon", epsilon), len(features) if sample is None else sample
    _check_count(parts, len(features))
    if per == "record" and parts > 1:
        share = decimal_below(Fraction(share) / parts, SHARE_PLACES)
    return {feature.name: share for feature in features}


def _check_count(k: object, d: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= d:
        raise ValueError(f"sample.features: must be a whole number from 1 to {d}, got {short(k)}")


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


def file_digest(policy: Policy) -> str:
    """Return the SHA-256 of all that a policy's file says, however numbers and mechanisms are spelt in it."""
    content = policy._content()
    for entry in content.get("features", {}).values():
        entry["mechanism"] = canonical(entry["mechanism"])
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


Given = Policy | str | Path


def as_policy(policy: Given, table: object = None) -> Policy:
    """Return a policy, read where a path is given.

    Parameters
    ----------
    policy : Policy or path
    table : object, optional
        What is given beside it, which is no policy unless the two were exchanged.

    Raises
    ------
    TypeError
        If it is neither, or the table is a policy.

    Examples
    --------
    >>> from epsworth import Policy
    >>> as_policy([[0.2, 0.7]], Policy.of("pm", 1, {"age": (0, 100)}))
    Traceback (most recent call last):
    TypeError: policy: the table was given in its place; give the policy first, then the table
    """
    if _names_policy(table) and not _names_policy(policy):
        raise TypeError("policy: the table was given in its place; give the policy first, then the table")
    if isinstance(policy, Policy):
        return policy
    if not isinstance(policy, (str, Path)):
        raise TypeError(f"policy must be a Policy or the path of its file, got {type(policy).__name__}; give one")
    return Policy.load(policy)


def _names_policy(value: object) -> bool:
    """Tell whether a value is a policy, or a path that can be nothing else."""
    return isinstance(value, Policy) or (isinstance(value, (str, Path)) and Path(value).suffix.lower() == ".toml")
