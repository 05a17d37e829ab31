"""`Client`: one record under a policy, on the device that holds it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from epsworth.client.grids import PLAIN, codes, ends, natural, place
from epsworth.client.kernels import MOST_BITS, MOST_POINTS, SHARES, WINDOWS, WORD, TwoLevel, stated
from epsworth.client.reading import DIGEST, EPSILON, FORMAT, fingerprint, number, read, table, texts, whole

TYPE_CHECKING = False  # typing alone would take longer to import than all the rest
if TYPE_CHECKING:
    from fractions import Fraction
    from typing import Any

    from epsworth.client.tailored import Tailored

NEEDED = ("name", "mechanism", "epsilon", "points", "low", "high", "width")
RANGE = ("lower", "upper", "bits", "quantise", "missing", "outside", "window")
WORDS = ("categories", "missing", "outside")
NUMBERS = (int, float, Decimal)
MOST_FEATURES = 4096
WIDTH = re.compile(r"[1-9][0-9]{0,4}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")  # of a column: what a message may show


class NotPrivate(dict):  # type: ignore[type-arg]
    """A record that was drawn with words somebody knows: NOT PRIVATE, for tests alone.

    Examples
    --------
    >>> from epsworth.client import NotPrivate
    >>> NotPrivate({"age": 40.0})
    NOT PRIVATE {'age': 40.0}
    """

    private = False

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__(record)

    def __repr__(self) -> str:
        """Say what it is first."""
        return f"NOT PRIVATE {super().__repr__()}"


class Client:
    """Perturbs records one at a time, with draws fit for release; nothing but Python's standard library.

    Claim: of what is returned for a record, the probabilities for any two values of its features differ by at most the
    policy's promise; of a tailored policy so do those for any two values of its sensitive columns, whatever the public
    ones are.  The integers that are drawn with are recomputed from epsilon, or proven, here, whatever the policy says;
    where it says otherwise it is refused.

    Parameters
    ----------
    policy : str
        JSON, as `Policy.for_clients` returns and ``epsworth client`` writes it.

    Raises
    ------
    ValueError
        If the policy is no such JSON, its fingerprint is not that of its content, or its integers are not those of its
        epsilon.

    Examples
    --------
    >>> from epsworth import Domain, Policy
    >>> from epsworth.client import Client
    >>> client = Client(Policy.of("pm", 1, Domain.of({"age": (0, 100)})).for_clients())
    >>> 0 <= client.perturb({"age": 31})["age"] <= 100
    True
    """

    def __init__(self, policy: str) -> None:
        more = ("sample", "tailored")
        self.fingerprint = fingerprint(policy)
        document = table("policy", read(policy), ("fingerprint", "format", "features", "others", "file"), more)
        if document["format"] != FORMAT:
            raise ValueError(f"format: this client reads {FORMAT}; write the policy anew, or use a newer client")
        if type(document["file"]) is not str or not DIGEST.fullmatch(document["file"]):
            raise ValueError("file: must be 64 hexadecimal digits; write the policy anew")
        given, least = document["features"], 0 if "tailored" in document else 1
        if type(given) is not list or not least <= len(given) <= MOST_FEATURES:
            raise ValueError(f"features: must be a list of {least} to {MOST_FEATURES}; write the policy anew")
        self._features = [_Feature(f"features[{i}]", entry) for i, entry in enumerate(given)]
        self._perturbed = frozenset(feature.name for feature in self._features)
        others = table("others", document["others"], ("pass", "drop"))
        self._passed = frozenset(texts("others.pass", others["pass"]))
        self._dropped = frozenset(texts("others.drop", others["drop"]))
        self._tailored = self._read_tailored(document)
        self._sensitive = frozenset(() if self._tailored is None else self._tailored.sensitive)
        self._known = self._perturbed | self._sensitive | self._passed | self._dropped
        if len(self._known) < len(given) + len(self._sensitive) + len(self._passed) + len(self._dropped):
            raise ValueError("features, tailored, others: a name stands twice; write the policy anew")
        self._looked_at = frozenset(() if self._tailored is None else self._tailored.names)
        self._public = sorted(self._looked_at - self._perturbed - self._sensitive)
        if not self._looked_at <= self._known:
            raise ValueError("tailored.inputs: public ones must be under others.pass or others.drop; write it anew")
        self._kept, self._scaled = self._sample(document)

    def _read_tailored(self, document: dict[str, Any]) -> Tailored | None:
        if "tailored" not in document:
            return None
        if "sample" in document:
            raise ValueError("sample: a tailored policy cannot sample its features too; write the policy anew")
        from epsworth.client.tailored import Tailored

        return Tailored(document["tailored"], _epsilon)

    def _sample(self, document: dict[str, Any]) -> tuple[int, bool]:
        """Return how many features a record releases, and whether numbers are scaled for it."""
        count = len(self._features)
        if "sample" not in document:
            return 0, False
        sample = table("sample", document["sample"], ("features", "unsampled"))
        scaled = sample["unsampled"] == "scaled"
        if not (scaled or sample["unsampled"] == "missing"):
            raise ValueError("sample.unsampled: must be 'missing' or 'scaled'; write the policy anew")
        if scaled and any(feature.categories is not None for feature in self._features):
            raise ValueError("sample.unsampled: categories cannot be scaled; write the policy anew")
        return whole("sample.features", sample["features"], 1, count), scaled

    @property
    def words(self) -> int:
        """How many words of 64 bits a record takes; a tailored one at most, where none is drawn anew."""
        tailored = 0 if self._tailored is None else self._tailored.words
        return len(self._features) * (2 if self._kept else 1) + tailored

    def perturb(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the policy passes of a record, in its order, then the features, drawn afresh, in the policy's.

        Parameters
        ----------
        record : mapping from name to value
            Plain numbers, words, truths and None; nothing that the policy does not name.  Where the policy says what
            stands for missing values, a feature may be absent, and a number may be anything: what is none is missing.
            Where it says what stands for undeclared ones, a category may be anything.  What a tailored policy replaces
            may always be.

        Raises
        ------
        ValueError
            For a member, or a value, that the policy says nothing of; no message shows a value.
        """
        return self._released(record, fresh(self.words))

    def replay(self, record: Mapping[str, Any], words: Iterable[int]) -> NotPrivate:
        """Return what `perturb` returns for given words: NOT PRIVATE, for tests alone.

        Parameters
        ----------
        words : iterable of int
            As many as a record takes, each from 0 to 2^64 - 1: with ``[sample]`` first one per feature, of which the
            smallest (the first of equals) choose what is released; then one draw per feature, in the policy's order.
            A tailored policy then draws a region, where more than one is within reach, and which of its representatives
            is sent, where it says so: it may leave words, and needs more where one is drawn anew.
        """
        given, needed = list(words) if isinstance(words, Iterable) else [], self.words
        fits = len(given) == needed or (self._tailored is not None and len(given) > needed)
        if not fits or not all(type(word) is int and 0 <= word < WORD for word in given):
            raise ValueError(f"words: must be {needed} whole numbers from 0 to 2^64 - 1; give as many")
        return NotPrivate(self._released(record, _told(given)))

    def _released(self, record: Mapping[str, Any], words: Iterator[int]) -> dict[str, Any]:
        values, given, looked_at = self._read(record)
        inputs = [feature.index(given.get(feature.name)) for feature in self._features]  # all of them before a draw
        chosen = self._chosen(words)
        factor = len(self._features) / self._kept if self._scaled else 0.0
        for position, (feature, i) in enumerate(zip(self._features, inputs, strict=True)):
            value = feature.value(feature.kernel.outcome(i, next(words)))
            if chosen is not None:
                if self._scaled:
                    value = feature.spread(value, factor if position in chosen else 0.0)
                elif position not in chosen:
                    value = None
            values[feature.name] = value
        if self._tailored is not None:
            true = self._tailored.places(looked_at)
            seen = self._tailored.seen(true, {name: values[name] for name in self._looked_at & self._perturbed})
            values |= self._tailored.sent(true, seen, words)
        return values

    def _chosen(self, words: Iterator[int]) -> set[int] | None:
        """Return the features that a record releases, None for all: the choice does not look at the record."""
        if not self._kept:
            return None
        ranks = [next(words) for _ in self._features]
        return set(sorted(range(len(ranks)), key=ranks.__getitem__)[: self._kept])  # stable: the first of equals

    def _read(self, record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Return what passes of a record, its features, and what a tailored policy sees of it, each value read once.

        What is not declared is refused, as it could be a raw value.  Only what passes keeps a place: where the record
        held its features, or whether it did, must not show.
        """
        if not isinstance(record, Mapping):
            raise ValueError("the record must be a mapping from name to value; give one record")
        passing: dict[str, Any] = {}
        given: dict[str, Any] = {}
        looked_at: dict[str, Any] = {}
        for name in record:
            if type(name) is not str or name not in self._known:
                named = f" {name!r}" if type(name) is str and NAME.fullmatch(name) else ""
                raise ValueError(
                    f"the record has a member{named} that the policy does not name; leave it out, or name it under "
                    "pass.columns or pass.drop"
                )
            value = None if name in self._dropped and name not in self._looked_at else record[name]
            if name in self._looked_at:
                looked_at[name] = value
            if name in self._perturbed:
                given[name] = value
            elif name in self._passed:
                _check_passing(name, value)
                passing[name] = value
        for feature in self._features:
            if feature.name not in given and not feature.replaces_missing:
                raise ValueError(f"the record lacks {feature.name!r}, which the policy perturbs; send it")
        for name in self._public:
            if name not in looked_at:
                raise ValueError(f"the record lacks {name!r}, which the policy looks at; send it")
        return passing, given, looked_at


class _Feature:
    """One feature: a value to its place, a place to what leaves."""

    __slots__ = ("_codes", "_missing", "_outside", "categories", "kernel", "lower", "name", "quantise", "upper")

    def __init__(self, where: str, given: Any) -> None:
        words = type(given) is dict and "categories" in given
        entry = table(where, given, NEEDED + (() if words else ("lower", "upper")), WORDS if words else RANGE)
        if type(entry["name"]) is not str or type(entry["mechanism"]) is not str:
            raise ValueError(f"{where}: name and mechanism must be texts; write the policy anew")
        self.name: str = entry["name"]
        window = _window(where, entry)
        self.categories: list[Any] | None = None
        self.quantise: int | None = None
        points = whole(f"{where}.points", entry["points"], 2, MOST_POINTS)
        if words:
            self._read_categories(where, entry, points)
        else:
            self._read_range(where, entry, points)
        self.kernel = TwoLevel(entry["mechanism"], _epsilon(f"{where}.epsilon", entry["epsilon"]), points, window)
        for key in ("low", "high", "width"):
            if entry[key] != str(getattr(self.kernel, key)):
                raise ValueError(f"{where}.{key}: is not what epsilon and points give; write the policy anew")

    def _read_categories(self, where: str, entry: dict[str, Any], points: int) -> None:
        self.categories, self._codes = entry["categories"], codes(where, entry["categories"])
        if len(self._codes) != points:
            raise ValueError(f"{where}.categories: must be {points}, as points says; write the policy anew")
        for key in ("missing", "outside"):
            instead = entry.get(key)
            if instead is not None and (type(instead) not in PLAIN or instead not in self._codes):
                raise ValueError(f"{where}.{key}: must be one of the categories; write the policy anew")
        self._missing, self._outside = entry.get("missing"), entry.get("outside")

    def _read_range(self, where: str, entry: dict[str, Any], points: int) -> None:
        self.lower, self.upper = ends(where, entry)
        if "bits" in entry and 1 << whole(f"{where}.bits", entry["bits"], 1, MOST_BITS) != points:
            raise ValueError(f"{where}.points: must be 2^bits; write the policy anew")
        if "quantise" in entry:
            self.quantise = whole(f"{where}.quantise", entry["quantise"], 2, 1 << 53)
        if entry.get("outside", "clamp") != "clamp":
            raise ValueError(f"{where}.outside: must be 'clamp' for numbers; write the policy anew")
        self._missing, self._outside, self._codes = entry.get("missing"), None, {}
        if self._missing is not None and not self.lower <= number(f"{where}.missing", self._missing) <= self.upper:
            raise ValueError(f"{where}.missing: must lie in the range; write the policy anew")

    @property
    def replaces_missing(self) -> bool:
        """Whether the policy says what stands for a missing value."""
        return self._missing is not None

    def index(self, value: Any) -> int:
        """Return the kernel's input for a value: total where the policy says what stands for what it is not.

        What the policy refuses is refused without showing it.  Types are compared: no value's own code runs.
        """
        if _is_missing(value):
            value = self._instead("missing", self._missing)
        if self.categories is not None:
            return self._code(value)
        if type(value) not in NUMBERS:
            if self._missing is None:
                raise ValueError(f"{self.name}: the value is not a number; recode it")
            value = self._missing
        return place(float(value) if type(value) is Decimal else value, self.lower, self.upper, self.kernel.points)

    def _code(self, value: Any) -> int:
        if type(value) in PLAIN and value in self._codes:
            return self._codes[value]
        if self._outside is None and type(value) not in PLAIN:
            raise ValueError(f"{self.name}: the value is no number, word or truth; recode it")
        return self._codes[self._instead("undeclared", self._outside)]

    def _instead(self, what: str, value: Any) -> Any:
        if value is None:
            raise ValueError(f"{self.name}: the value is {what}, and the policy refuses that; repair it")
        return value

    def value(self, y: int) -> Any:
        """Return the public value of an output."""
        if self.categories is not None:
            return self.categories[y]
        steps = self.kernel.points - 1
        if self.quantise is not None:  # the nearest point of the coarser grid
            y, steps = round(y / steps * (self.quantise - 1)), self.quantise - 1
        return natural(y, steps, self.lower, self.upper)

    def spread(self, value: float, factor: float) -> float:
        """Return a number scaled about the centre; with a factor of 0 the centre."""
        middle = (self.lower + self.upper) / 2
        return middle + factor * (value - middle) if factor else middle


def _window(where: str, entry: dict[str, Any]) -> tuple[int, bool] | None:
    """Return the window that is stated of a mechanism that is none of `SHARES`: any width keeps epsilon."""
    known = entry["mechanism"] in (("krr",) if "categories" in entry else SHARES)
    window, width = entry.get("window"), entry["width"]
    if known and window is None:
        return None
    if known or window not in WINDOWS or type(width) is not str or not WIDTH.fullmatch(width):
        raise ValueError(f"{where}.mechanism: must be one of {', '.join(SHARES)}, for categories krr; use a table")
    return int(width), window == "sliding"


def _is_missing(value: Any) -> bool:
    return value is None or (type(value) is float and value != value) or (type(value) is Decimal and value.is_nan())


def _check_passing(name: str, value: Any) -> None:
    """Refuse a value that passes, unless it is one plain one: what is nested could hold anything."""
    if type(value) not in (*PLAIN, type(None)) or (type(value) is float and not math.isfinite(value)):
        raise ValueError(f"{name}: passes, but is no plain number, word or truth; send one value")


def _epsilon(where: str, given: Any) -> Fraction:
    if type(given) is not str or not EPSILON.fullmatch(given):
        raise ValueError(f"{where}: must be a text of digits, such as '0.5'; write the policy anew")
    return stated(given)


def fresh(count: int) -> Iterator[int]:
    """Yield words of the operating system without end."""
    while True:
        drawn = os.urandom(8 * count)
        yield from (int.from_bytes(drawn[i : i + 8], "little") for i in range(0, len(drawn), 8))


def _told(words: list[int]) -> Iterator[int]:
    yield from words
    raise ValueError("words: one was drawn anew, and there are no more; give more")
