"""Numbers, names and sentences of pages.

Every number is rounded to the safe side: a bound is a whole number of 10^-digits, lower ones rounded down and upper
ones up. Rounding to fewer digits afterwards gives what rounding the result itself would give, so that every number on a
page is that of the result. What comes from a file is hostile: names, labels and notes stay text.
"""

from __future__ import annotations

import html
import math
import operator
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, cast

import numpy as np
from markupsafe import Markup, escape

from epsworth.arrays import Floats
from epsworth.mechanisms.family import titled
from epsworth.results import how_sure
from epsworth.rounding import chance_down, chance_up, show_up
from epsworth.utility.choice import MAX_EPSILON
from epsworth.utility.policies import NAME as POLICY

SPACE = "\u00a0"  # between a number and its unit
PRIORS = (1, 5, 10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 95, 99)  # an attacker's suspicion before, in per cent
EVEN = 50
MARGIN = 1 + 2.0**-46  # more than the few roundings of `observed`

INVISIBLE = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}  # controls, direction marks, surrogates, line separators
NAME_LENGTH, TEXT_LENGTH = 100, 1000  # characters of a name, and of a sentence
MOST_NAMES = 12  # columns in a list
ADDRESS = re.compile(r"(\w+://)([^?#'\"]*@)?([^?#'\"]*)[^'\"]*")  # with a user before it, and a query behind
BEFORE_PATH = re.compile(r"((?:--?[-\w]+=|-\w(?=[^-=]))?(?:\w+=)?)(.*)", re.DOTALL)  # an option, a name
PATH = re.compile(r"(?:~\w*|\.{1,2}|\w:|@)?[/\\].*|.*[/\\](?:[^/\\]*\.\w*[A-Za-z]\w*)?", re.DOTALL)

# ---- numbers


def units(values: Floats, digits: int, *, upwards: bool) -> list[Any]:
    """Return whole numbers of 10^-digits, rounded one way from the digits that the values print as.

    Examples
    --------
    >>> units(np.array([0.4519, 1.0]), 3, upwards=False), units(np.array([[0.4511]]), 3, upwards=True)
    ([451, 1000], [[452]])
    """
    rounding = ROUND_CEILING if upwards else ROUND_FLOOR
    flat = [int(Decimal(repr(v)).scaleb(digits).to_integral_value(rounding)) for v in values.ravel().tolist()]
    return cast("list[Any]", np.array(flat, dtype=object).reshape(values.shape).tolist())


def percent(whole: int, digits: int) -> str:
    r"""Print a share that is a whole number of 10^-digits, in per cent.

    Examples
    --------
    >>> percent(912, 3), percent(1000, 3), percent(5, 3), percent(91234, 5)
    ('91.2\xa0%', '100.0\xa0%', '0.5\xa0%', '91.234\xa0%')
    """
    text = str(whole).rjust(digits - 1, "0")
    cut = len(text) - (digits - 2)
    return f"{text[:cut]}.{text[cut:]}{SPACE}%"


def percent_of(value: float, digits: int = 3, *, upwards: bool = False) -> str:
    """Print one share in per cent, rounded as `units` does."""
    (whole,) = units(np.array([value]), digits, upwards=upwards)
    return percent(whole, digits)


def percent_range(low: int, high: int, digits: int) -> str:
    """Print two such shares, with one sign for both."""
    return f"{percent(low, digits).removesuffix(f'{SPACE}%')}–{percent(high, digits)}"


def share_up(value: float) -> str:
    r"""Print a share in per cent, rounded up, as `chance_up` does.

    Examples
    --------
    >>> share_up(0.999964)
    '99.997\xa0%'
    """
    return f"{chance_up(value)}{SPACE}%"


def share_down(value: float) -> str:
    """Print a share in per cent, rounded down, as `chance_down` does."""
    return f"{chance_down(value)}{SPACE}%"


def approx(value: float) -> str:
    """Print what is no promise, to four digits."""
    return f"{value:.4g}"


def count(value: int) -> str:
    """Print a whole number."""
    return f"{operator.index(value):,}"


def epsilon_is(epsilon: float, digits: int = 6) -> str:
    """Print an epsilon within a sentence."""
    return f"ε{SPACE}={SPACE}{show_up(epsilon, digits)}"


def certainty(confidence: float) -> str:
    """Print how surely something holds."""
    return how_sure(confidence).replace(" %", f"{SPACE}%")


def observed(total: float, delta: float, prior: float) -> float:
    """Return an observer's posterior after one release, as a share rounded outwards.

    Claim: under a pure promise, whoever gave a value a probability of at most ``prior`` gives it at most this much
    afterwards: p / (p + (1 - p) e^-E).  Under an (E, delta) promise, whoever must name the true one of two values, one
    of them held ``prior`` likely, is right with at most this probability.

    Examples
    --------
    >>> round(observed(1.0, 0.0, 0.5), 9), round(observed(1.0, 0.1, 0.99), 9)
    (0.731058579, 0.991)

    Notes
    -----
    With a and b the chances of saying "first" under the first and the second value, a <= e^E b + delta and
    1 - b <= e^E (1 - a) + delta.  p a + (1 - p)(1 - b) is largest in a corner of these: (1, delta), (delta, 1), or
    where both bind, with a = 1 - b = (e^E + delta) / (e^E + 1).
    """
    other, fade = 1 - prior, math.exp(-total)
    posterior = prior / (prior + other * fade)
    if delta > 0:
        posterior = max(prior + other * delta, other + prior * delta, (1 + fade * delta) / (1 + fade))
    return min(1.0, posterior * MARGIN)


def protection_note(total: float, delta: float = 0.0) -> str:
    """Say where a promise per record protects less than what a recommendation accepts by default; else nothing."""
    if observed(total, delta, 0.5) <= observed(MAX_EPSILON, 0.0, 0.5):
        return ""
    accepted = f"ε{SPACE}={SPACE}{show_up(MAX_EPSILON)} per record"
    return f"That protects less than {accepted}, beyond which nothing is recommended unless it is asked for."


# ---- what comes from a file


def printable(text: object, most: int = NAME_LENGTH) -> str:
    r"""Return text in which every character is visible: others are written as codes, and a long text is cut.

    Examples
    --------
    >>> printable("age\u202etxt"), printable("x" * 99, 4)
    ('age⟨U+202E⟩txt', 'xxx…')
    """
    letters = "".join(
        f"⟨U+{ord(letter):04X}⟩" if unicodedata.category(letter) in INVISIBLE else letter
        for letter in str(text)[: most + 1]
    )
    return letters if len(letters) <= most else f"{letters[: most - 1]}…"


def escaped(text: object, most: int = TEXT_LENGTH) -> Markup:
    """Return text for HTML, between tags or within quotes; markup of this package stays.

    Examples
    --------
    >>> str(escaped("</script>")), str(escaped('"'))
    ('&lt;/script&gt;', '&#34;')
    """
    return text if isinstance(text, Markup) else escape(printable(text, most))


def name(text: object, most: int = NAME_LENGTH) -> Markup:
    """Return a name for HTML whose direction of writing does not reach its neighbours."""
    return markup("<bdi>{}</bdi>", printable(text, most))


def names(texts: Sequence[object], most: int = MOST_NAMES, letters: int = NAME_LENGTH) -> Markup:
    """Return the first of some names for HTML, and say how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return markup("{}{}", markup(", ").join(name(one, letters) for one in texts[:most]), more)


def markup(template: str, *texts: object) -> Markup:
    """Return HTML of this package with texts filled in, which are escaped."""
    return Markup(template).format(*map(escaped, texts))


def code(text: object, most: int = NAME_LENGTH) -> Markup:
    """Return a fingerprint for HTML."""
    return markup('<code class="print">{}</code>', printable(text, most))


def without_folders(command: str) -> str:
    """Return a command whose files are named without their folders, and addresses without what may be secret in them.

    A path begins as one, or ends in a folder or in a file with an ending: other words with a slash stay.

    Examples
    --------
    >>> without_folders("epsworth utility '/home/jane doe/m.skops' data/people.csv --json=/tmp/a.json -s km/h,age")
    'epsworth utility m.skops people.csv --json=a.json -s km/h,age'
    >>> without_folders("epsworth utility https://me:password@here:8080/v2?token=1 ./a.csv --tolerance 1/4")
    'epsworth utility https://here:8080/v2 a.csv --tolerance 1/4'
    """
    return re.sub(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""", lambda token: _without_folder(token[0]), command)


def _without_folder(token: str) -> str:
    if "://" in token and "file://" not in token:
        return ADDRESS.sub(r"\1\3", token)
    beginning, word = cast("re.Match[str]", BEFORE_PATH.fullmatch(re.sub("['\"]", "", token))).groups("")
    last = re.split(r"[/\\]", word.rstrip("/\\"))[-1]
    return shlex.quote(f"{beginning}{last}") if last and PATH.fullmatch(word) else token


# ---- titles

KERNELS = {"laplace": "Laplace", "gaussian": "Gaussian", "staircase": "Staircase", "optimal": "Optimal"}
KINDS = {"pb": "boosted", "truncated": "truncated", "discrete": "discrete", "clamped": "clamped"}
REPORTS = {
    "hadamard": "Hadamard bit", "ternary": "Signs of all cells", "krr": "Randomised response",
    "oue": "Optimised unary encoding", "cosine": "Cosine bit", "parity": "Hadamard bit of overlapping cells",
    "slides": "Noisy overlapping cells",
}  # fmt: skip


def mechanism_name(words: str) -> str:
    """Return a mechanism's title with its words in brackets; one that users bring keeps its own name.

    Examples
    --------
    >>> mechanism_name("pm"), mechanism_name("krr:k=33"), mechanism_name("my noise")
    ('Piecewise (pm)', 'Randomised response (krr:k=33)', 'my noise')
    """
    return "this policy" if words == POLICY else _title_and_name(titled(words), words)


def noise_name(name: str) -> str:
    """Return a noise's title with its name in brackets.

    Examples
    --------
    >>> noise_name("pb_discrete_laplace"), noise_name("pb_gaussian (published)"), noise_name("x")
    ('Boosted discrete Laplace (pb_discrete_laplace)', 'Boosted Gaussian (pb_gaussian, published)', 'x')
    """
    *kinds, kernel = name.removesuffix(" (published)").split("_")
    if kernel not in KERNELS or not KINDS.keys() >= set(kinds):
        return name
    title = " ".join([*(KINDS[kind] for kind in kinds), KERNELS[kernel]])
    return _title_and_name(title[0].upper() + title[1:], name.replace(" (published)", ", published"))


def report_name(name: str) -> str:
    """Return the title of a learner's mechanism with its name in brackets."""
    return _title_and_name(REPORTS.get(name, ""), name)


def notes_with_titles(notes: Iterable[str], mechanisms: Sequence[str]) -> list[str]:
    """Return notes with the titles of the mechanisms that they begin with: once where several share one."""
    about: dict[str, list[str]] = {}
    for note in notes:
        words, _, rest = note.partition(": ")
        known = words in mechanisms
        about.setdefault(rest if known else note, []).extend([mechanism_name(words)] if known else [])
    return [f"{', '.join(titles)}: {note}" if titles else note for note, titles in about.items()]


def _title_and_name(title: str, words: str) -> str:
    return words if not title else title if title.casefold() == words else f"{title} ({words})"


# ---- sentences, some of which the page's script fills in by the same names

POINT = f"ε{SPACE}={SPACE}{{total}} per record"
BOUND = "{where} {subject} with probability at least {lower} ({held})"
SENTENCES = {
    "use": f"Use {{name}} at {POINT}: {BOUND}; at least {{target}} was asked for.",
    "most": f"At {POINT} {{name}} keeps most: {BOUND}.",
    "alone": f"At {POINT} {{name}} keeps so much: {BOUND}.",
    "enough": (
        f"At {POINT} {{name}} is guaranteed most: {BOUND}. That is enough for {{target}}; the recommendation is "
        f"{{best}} at ε{SPACE}={SPACE}{{least}}."
    ),
    "short": (
        f"At {POINT} nothing is guaranteed to be enough: {{name}} comes closest, {BOUND}, and {{target}} was asked "
        f"for; the recommendation is {{best}} at ε{SPACE}={SPACE}{{least}}."
    ),
    "costly": (
        f"Not at ε{SPACE}≤{SPACE}{{limit}}: at {POINT} {{name}} is guaranteed most, {BOUND}. That would be enough "
        "for {target}, but protects less than was asked for."
    ),
    "none": (
        f"No: nothing in this report at ε{SPACE}≤{SPACE}{{limit}} is guaranteed to reach {{target}}: {{name}} comes "
        f"closest at {POINT}, {BOUND}."
    ),
    "never": (
        f"At {POINT} nothing is guaranteed to be enough: {{name}} comes closest, {BOUND}, and {{target}} was asked "
        f"for, which nothing in this report at ε{SPACE}≤{SPACE}{{limit}} is guaranteed to reach."
    ),
    "unknown": (
        f"Not known yet: the run ended before anything was guaranteed at {POINT} {{where}}; a longer run would tell."
    ),
    "nothing": "Nothing in this report has a delta as small as was asked for.",
    "pure": "{seen} can raise an attacker's certainty that {what} from {prior} to at most {after}.",
    "certain": (
        "{seen} can make an attacker, who held it {prior} likely, certain that {what}: this protects next to nothing."
    ),
    "weaker": (
        "{seen} lets an attacker who held one answer {prior} likely say {which} rightly in at most {after} of all "
        "cases."
    ),
    "cap": f"No mechanism at {POINT} can promise more than {{cap}} to every input.",
    "free": f"The ceiling is no obstacle: at {POINT} it lies above {{below}}.",
    "enough_word": "guaranteed",
    "open_word": "left open",
    "short_word": "not enough",
}
RECORD = {  # what an attacker wonders about, where one record is released
    "what": "your values are the ones they suspect",
    "which": "which of two records is yours",
    "seen": "One release of your record",
}
REPORT = {"what": "a user's record is the one they suspect", "which": "", "seen": "The user's one report"}
NATS = {
    "pure": (
        "Any question about the secret sub-sample that is answered rightly with probability {prior} blindly is "
        "answered rightly with at most {after} after seeing the release."
    ),
    "certain": (
        "Any question about the secret sub-sample that is answered rightly with probability {prior} blindly may be "
        "answered with certainty after seeing the release: the nats alone promise nothing there."
    ),
}
SUBJECTS = {"stability": "the label stays the same", "accuracy": "the label is the true one"}
QUANTITY_NAMES = {"stability": "labels kept", "accuracy": "labels right"}
CERTAINTY = f"an attacker's certainty at most, from 50{SPACE}%"
ONE_RELEASE = "The ε is for one release of a record: two releases cost twice as much."
SLACK = "With probability δ a release may show more than its ε says."
SURROGATE = "Whoever holds the policy holds a copy of the classifier, or most of it"
CELL = "A certificate speaks of the average over a cell, not of a point in it."
SERVER = (
    "The server sees every report: the ε limits what it says of the record, whoever reads it; each further report of "
    "a user costs ε again."
)
NOT_PRIVATE = "This page is computed from raw {} and is not private itself:"
NO_DATA = "This page holds no data: it is computed from the question alone, and may be shown to anybody."
BLIND_CHANCE = (
    "The chance of being right, not a belief: by always naming the likelier answer it is at least as high without "
    "any release."
)


def fill(text: str, words: Mapping[str, str]) -> str:
    """Fill in names in braces; braces in what is filled in stay."""
    return re.sub(r"\{(\w+)\}", lambda brace: words[brace[1]], text)


def observer(
    posterior: float, delta: float, prior: int, words: Mapping[str, str], sentences: Mapping[str, str] = SENTENCES
) -> str:
    """Say what a promise means to somebody who held a suspicion ``prior`` per cent likely."""
    kind = "certain" if share_up(posterior) == share_up(1.0) else "weaker" if delta > 0 else "pure"
    return fill(sentences[kind], {**words, "prior": f"{prior}{SPACE}%", "after": share_up(posterior)})


# ---- the words of a page, explained

TERMS = {  # by term: how a page uses it, and what it means
    "attacker's certainty": (r"attacker",
        "How probable a suspicion about a person can become for somebody who sees the release. From 50 % means "
        "that the suspicion and its opposite were equally likely before."),
    "accuracy": (r"(?:mean|the) accuracy|label is the true one|labels right",
        "The share of records that get their true label."),
    "average": (r"average", "The mean over all records, or over all cases: single ones may differ."),
    "ceiling": (r"ceiling",
        "What no mechanism can promise at this ε, whoever invents it. It follows from the ε and the number of labels."),
    "cell": (r"\bcells?\b",
        "One of the boxes into which the ranges of the features are cut; all its points share a label."),
    "certificate": (r"certif", "A statement on a cell's label that is wrong with at most the probability told."),
    "confidence, sure": (r"\bsure\b|confidence",
        "How likely bounds that rest on random draws are right; the rest of 100 % is the risk that one is wrong."),
    "δ (delta)": (r"δ", "The probability with which a release may say more of a record than its ε allows."),
    "ε (epsilon)": (r"ε|epsilon",
        "How much a release may say of a record: no output is more than e^ε times as likely from one record as "
        "from another. The smaller it is, the better the record is protected."),
    "label": (r"\blabels?\b", "What the classifier answers for a record, for example yes or no."),
    "label retention": (r"stability|label (?:stays|is kept)|labels? kept|labels stay",
        "The probability that a record gets the same label after it was perturbed as before. It is also called "
        "stability."),
    "margin": (r"\bmargin|signed mean", "How clearly one label outweighs the other in a cell: 0 is undecided."),
    "mechanism": (r"mechanism", "A rule that replaces values by random ones before they leave."),
    "membership advantage": (r"advantage",
        "How much better than blindly the best attack tells whether a row was used: 0 is no better, 1 is certain."),
    "nat": (r"\bnats?\b",
        "The unit of what a release tells of the secret: 0 is nothing; the outcome of a toss-up is about seven "
        "tenths."),
    "noise": (r"\bnoises?\b", "A random number that is added to an answer before it is released."),
    "policy": (r"\bpolicy",
        "The file that devices run: which columns are perturbed, how, and which are sent as they are."),
    "population": (r"[Pp]opulation|people like",
        "All people from whom the records were drawn, not these records alone."),
    "record": (r"\brecords?\b|\brows?\b", "One row of the table, as a rule one person."),
    "split": (r"\bsplit\b", "How the ε of a record is shared out over its perturbed features."),
    "sub-sample": (r"sub-sampl", "The secret part of the pool that was used. A row that lies outside it was not used."),
    "tailored policy": (r"[Tt]ailored",
        "A policy that is made for one classifier: it perturbs a record as a whole, so that its label stays often."),
    "worst record": (r"worst", "The one for which least is guaranteed. What is said of it holds for every record."),
}  # fmt: skip


def terms_in(content: str) -> dict[str, str]:
    """Return what the words of a page's HTML mean."""
    text = html.unescape(re.sub(r"<[^>]*>", " ", content))
    return {term: meaning for term, (pattern, meaning) in TERMS.items() if re.search(pattern, text)}
