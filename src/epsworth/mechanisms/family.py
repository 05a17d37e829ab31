"""Mechanisms by the words that both doors use: ``"pm"``, ``"krr:k=33"``, ``"pm:indicator=0.1"``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial

from epsworth.mechanisms.density import DensityMechanism
from epsworth.mechanisms.indicator import PrivacyIndicator
from epsworth.mechanisms.label import LabelResponse
from epsworth.mechanisms.mechanism import Mechanism, grid_size
from epsworth.mechanisms.promise import check_promise
from epsworth.mechanisms.quantised import Quantised
from epsworth.mechanisms.table import MECHANISMS
from epsworth.numerals import short
from epsworth.rounding import show_down, show_up

Release = Mechanism | PrivacyIndicator | LabelResponse
LABEL_RESPONSE = "label_rr"
SAME_EPSILON = 1e-9
TAILORED = "tailored"  # made for one classifier, of whole records: no family of mechanisms of features
OTHERS = {LABEL_RESPONSE: LabelResponse.title, TAILORED: "Tailored to the classifier"}  # titles, beside the families'
Build = Callable[[float], Release]


@dataclass(frozen=True)
class Family:
    """A name and a function epsilon -> mechanism."""

    name: str
    build: Build


@dataclass(frozen=True)
class Words:
    """A mechanism's words, taken apart.

    Attributes
    ----------
    options : dict
        The family's own (``k``, ``delta``, ``calibration``).
    points : int, optional
        Grid to which outputs are rounded (``quantise``).
    indicator : float, optional
        Probability of sending the raw record.
    """

    name: str
    options: dict[str, str | int | float]
    points: int | None = None
    indicator: float | None = None


def parse(words: str) -> Words:
    """Take a mechanism's words apart: a name, then options after a colon.

    Examples
    --------
    >>> parse("krr:k=11")
    Words(name='krr', options={'k': 11}, points=None, indicator=None)
    """
    if not isinstance(words, str):
        raise TypeError(
            f"a mechanism is given by name, got {short(words)}; pass others in a mapping {{name: function of epsilon}}"
        )
    name, colon, tail = words.partition(":")
    if colon and not tail:
        raise ValueError(f"mechanism {words!r}: no option follows the colon; leave it off, or add one, as in krr:k=11")
    pairs = [_option(words, part) for part in tail.split(",")] if tail else []
    options = dict(pairs)
    if len(options) < len(pairs):
        raise ValueError(f"mechanism {words!r} gives an option twice; keep one")
    indicator, points = options.pop("indicator", None), options.pop("quantise", None)
    if isinstance(indicator, str):
        raise ValueError(f"mechanism {words!r}: indicator must be a probability, got {short(indicator)}")
    return Words(
        name,
        options,
        None if points is None else grid_size(points),  # type: ignore[arg-type]  # checked there
        None if indicator is None else float(indicator),
    )


def is_tailored(words: object) -> bool:
    """Tell whether words are those of a tailored mechanism.

    Examples
    --------
    >>> is_tailored("tailored:wish=average"), is_tailored("pm")
    (True, False)
    """
    return isinstance(words, str) and words.partition(":")[0] == TAILORED


def titled(words: str) -> str:
    """Return the title of a mechanism of this package; nothing for the name of one that users bring.

    Examples
    --------
    >>> titled("pm"), titled("krr:k=11"), titled("my noise")
    ('Piecewise', 'Randomised response', '')
    """
    name = words.partition(":")[0]
    return MECHANISMS[name].title if name in MECHANISMS else OTHERS.get(name, "")


def family(words: str) -> Family:
    """Read a mechanism's words: a name of `MECHANISMS`, then options after a colon.

    Options are the family's own (``k``, ``delta``, ``calibration``) and, for every family,
    ``quantise``: the number of grid points to round outputs to (`Quantised`), and ``indicator``: the
    probability of sending the raw record (`PrivacyIndicator`).  ``label_rr`` stands for `LabelResponse`.

    Examples
    --------
    >>> family("krr:k=11").build(2.0)
    KRR(epsilon=2.0, k=11)
    """
    if words == LABEL_RESPONSE:
        return Family(words, LabelResponse)
    _check_one(words)
    read = parse(words)
    if read.name == TAILORED:
        raise ValueError(
            f"mechanism {words!r} is made for one classifier and randomises whole records, no features: compare it by "
            "ew.stability, make its policy by ew.tailor (epsworth tailor), and name another mechanism here"
        )
    if read.name not in MECHANISMS:
        close = difflib.get_close_matches(read.name, MECHANISMS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "choose one of them"
        raise ValueError(
            f"unknown mechanism {short(read.name)}; the families are {', '.join(MECHANISMS)}, label_rr; {hint}"
        )
    kind = MECHANISMS[read.name]
    allowed = [f.name for f in fields(kind) if f.name != "epsilon"]
    for option in read.options:
        if option not in allowed:
            raise ValueError(
                f"mechanism {words!r}: unknown option {option!r}; "
                f"{read.name} takes {', '.join([*allowed, 'quantise', 'indicator'])}"
            )

    def build(epsilon: float) -> Release:
        mechanism = kind(epsilon, **read.options)
        mechanism = mechanism if read.points is None else Quantised(mechanism, read.points)
        return mechanism if read.indicator is None else PrivacyIndicator(mechanism, read.indicator)

    return Family(words, build)


def families(mechanisms: str | Iterable[str] | Mapping[str, Build]) -> tuple[Family, ...]:
    """Read a question's mechanisms: words, several words, or a mapping from names to functions of epsilon."""
    if isinstance(mechanisms, str):
        mechanisms = [mechanisms]
    if isinstance(mechanisms, Mapping):
        if any(not callable(build) for build in mechanisms.values()):
            raise TypeError("mechanisms: a mapping holds functions of epsilon by name; write names alone as a list")
        if not all(isinstance(name, str) and name for name in mechanisms):
            raise TypeError("mechanisms: every function of epsilon needs a name, a text; name each of them")
        chosen = [Family(name, partial(_brought, name, build)) for name, build in mechanisms.items()]
    else:
        if not isinstance(mechanisms, Iterable) or isinstance(mechanisms, type) or getattr(mechanisms, "ndim", 1) != 1:
            raise TypeError(
                f"mechanisms must be names, or a mapping from names to functions of epsilon, got {short(mechanisms)}"
            )
        chosen = [family(words) for words in mechanisms]
    names = [f.name for f in chosen]
    if not chosen:
        raise ValueError(f"mechanisms is empty; choose at least one of {', '.join(MECHANISMS)}")
    if len(set(names)) < len(names):
        raise ValueError(f"mechanisms names one twice: {', '.join(names)}; list each once")
    return tuple(chosen)


def _brought(name: str, build: Build, epsilon: float) -> Release:
    """Return a mechanism that somebody brings, once its promise is checked; those of this package keep theirs."""
    release = build(epsilon)
    if is_brought(release):
        if titled(name):
            raise ValueError(
                f"mechanisms: {name!r} is the name of {titled(name)}, a mechanism of this package; give your own one "
                "another name"
            )
        check_promise(name, unwrapped(release))
    own = unwrapped(release)
    promised = own.guarantee.epsilon if isinstance(own, Mechanism) else epsilon
    if promised > epsilon * (1 + SAME_EPSILON):
        raise ValueError(
            f"mechanisms: {name!r} promises epsilon {show_up(promised)} where {show_down(epsilon)} was asked for; "
            "build it for the epsilon that it is called with"
        )
    return release


def is_brought(release: Release) -> bool:
    """Tell a mechanism of somebody else's from those of this package."""
    mechanism = unwrapped(release)
    return isinstance(mechanism, DensityMechanism) or type(mechanism).__module__.split(".")[0] != "epsworth"


def unwrapped(release: Release) -> Release:
    """Return the mechanism without what rounds its outputs or sends raw records."""
    while isinstance(release, (PrivacyIndicator, Quantised)):
        release = release.mechanism
    return release


def _check_one(words: object) -> None:
    """Refuse several mechanisms in one text: after a colon commas separate options, so that these cannot be told."""
    parts = words.split(",") if isinstance(words, str) else []
    begun = [part.partition(":")[0].strip() in (*MECHANISMS, LABEL_RESPONSE, TAILORED) for part in parts]
    if len(parts) > 1 and (all(begun) or any(begun[1:])):
        raise ValueError(
            f"{words!r} lists several mechanisms, and commas separate options, too: give each by itself (repeat -m)"
        )


def _option(words: str, part: str) -> tuple[str, str | int | float]:
    key, equals, text = part.partition("=")
    if not equals or not key.strip() or not text.strip():
        raise ValueError(f"mechanism {words!r}: {part!r} is not of the form option=value, as in krr:k=33")
    for kind in (int, float):
        try:
            return key.strip(), kind(text)
        except ValueError:
            continue
    return key.strip(), text.strip()


def quantised(release: Release, points: int) -> Release:
    """Round a mechanism's continuous output to a grid; grid mechanisms stay as they are."""
    if isinstance(release, PrivacyIndicator):
        inner = quantised(release.mechanism, points)
        return replace(release, mechanism=inner)  # type: ignore[arg-type]
    if isinstance(release, LabelResponse):
        return release
    return release if release.points is not None else Quantised(release, points)
