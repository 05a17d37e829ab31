"""Curves for pages: made, not computed, so that they are large, odd or hostile at will."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np

from epsworth.guarantees import Approximate, Pure
from epsworth.space import Domain
from epsworth.utility.boxes import SafeBox
from epsworth.utility.curves import Curves
from epsworth.utility.panels import DecisionMap, Grouping, Panels, served
from epsworth.utility.quantities import Bounds
from epsworth.utility.splitting import Split

HOSTILE = "</script><script>alert(1)</script>\"'&{lower}\u202e\u0000\u2028\ud800<!--"


def curves(
    mechanisms=4, epsilons=9, records=40, *, seed=0, accuracy=False, names=None, features=("age", "bmi"), notes=(),
    width=0.02, labels=("no", "yes"), weak=False, confidence=0.999, **rest,
):  # fmt: skip
    """Return curves that rise towards 1, each mechanism at its own pace."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(0.5, 8, epsilons)
    pace = rng.uniform(0.15, 0.8, (mechanisms, 1, 1)) * rng.uniform(0.6, 1.4, (1, 1, records))
    truth = 1 - 0.5 * np.exp(-pace * grid[None, :, None])

    def bounds(share):
        lower = np.clip(share * truth - width * rng.uniform(size=truth.shape), 0, 1)
        return Bounds(lower, np.clip(lower + width, 0, 1))

    named = names or [f"mechanism{m}" for m in range(mechanisms)]
    promises = [[Pure(float(len(features) * e), "record") for e in grid] for _ in range(mechanisms)]
    if weak:
        promises[-1] = [Approximate(float(len(features) * e), 1e-5, "record") for e in grid]
    return Curves(
        mechanisms=tuple(named), epsilons=grid, features=tuple(features), stability=bounds(1.0),
        accuracy=bounds(0.9) if accuracy else None, guarantees=tuple(map(tuple, promises)),
        tight_epsilons=np.array([[promise.epsilon for promise in row] for row in promises]),
        labels=np.array(labels)[rng.integers(0, len(labels), records)], labels_possible=np.full(records, 2),
        method=np.full((mechanisms, records), "sampled"), over="records", confidence=confidence, tolerance=0.01,
        queries=12345, seconds=1.25, notes=tuple(notes), spent=1 - confidence if confidence < 1 else 0.0, **rest,
    )  # fmt: skip


def unknown_people(made):
    """Return what a file holds of people of whom nothing is known: bounds for many records take a minute to compute."""
    shape = made.stability.lower.shape[:2]
    nothing = {"lower": np.zeros(shape).tolist(), "upper": np.ones(shape).tolist()}
    of = {"confidence": 0.99, "records": len(made.labels), "spent": 0.01} | nothing
    return dict.fromkeys(("stability", "accuracy")[: 1 + (made.accuracy is not None)], of)


class Read(HTMLParser):
    """What a page says to a reader, and what it holds."""

    VOID = ("meta", "input", "br")

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.ids, self._open = [], [], [], {}, []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *one) for one in attrs]
        if tag not in self.VOID:
            self._open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        inside = {tag for tag, _ in self._open}
        for _, name in self._open:
            if name:
                self.ids[name] = self.ids.get(name, "") + data
        if not inside & {"script", "style"}:
            self.texts.append(data)

    @property
    def text(self):
        """Everything that is shown."""
        return " ".join(self.texts)

    @property
    def numbers(self):
        """What the script reads."""
        return json.loads(self.ids["numbers"])


def table(html, kind):
    """Return the rows of a table as lists of texts."""
    found = re.search(rf'<table class="{kind}[^>]*>.*?</table>', html, re.S)[0]
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)(?=<t[hd]|</t|$)", row, re.S)]
        for row in re.split(r"<tr", found)[1:]
    ]


def sexes(made, of, m, e):
    """Return what every other record keeps at one point, as a file holds it."""
    kept = served(("f", "m"), np.arange(len(made.labels)) % 2, made.bounds(of).lower[m, e])
    return Grouping.held("sex", of, kept)


def panels(made, record=3, *, split=True, point=(0, -1)):
    """Return panels that fit made curves: regions split by a slanted line, masses in a heap."""
    names = tuple(map(str, made.features))[:2]
    size = 64 if len(names) == 2 else 200
    own = str(made.labels[record])
    kinds = tuple(sorted(set(map(str, made.labels.tolist()))))
    first, other = kinds.index(own), (kinds.index(own) + 1) % len(kinds)
    place = np.add.outer(np.arange(size), 0.3 * np.arange(size) if len(names) == 2 else [0.0])
    cells = np.where(place < 0.6 * size, first, other).astype(np.int64).reshape((size,) * len(names))
    ranges = dict.fromkeys(names, (0, 100))
    drawn = DecisionMap(
        features=names, edges=tuple(np.linspace(0, 100, size + 1) for _ in names), own=(33.0,) * len(names),
        labels=kinds, label=first, cells=cells,
    )  # fmt: skip
    box = SafeBox(
        label=own, features=names, lower=(20.00001,) * len(names), upper=(45.99999,) * len(names),
        whole=(False,) * len(names), mechanism="pm", epsilon=2.0, flips_at_most=0.0, mass=0.61239, guaranteed=0.61238,
        confidence=1.0, best=True,
    )  # fmt: skip
    shared = Split(
        mechanism="pm", total=4.0, on="average", features=("age", "bmi"), epsilons=(3.0, 1.0), lower=0.7529,
        upper=0.7535, even_lower=0.7019, even_upper=0.7021, guarantee=Pure(4.0, "record"), confidence=0.999,
    )  # fmt: skip
    return Panels(
        record=record, records=len(made.labels), mechanism=made.mechanisms[point[0]],
        epsilon_per_record=made.guarantees[point[0]][point[1]].epsilon, map=drawn,
        box=box, values=(33.0,) * len(names), split=shared if split and names == ("age", "bmi") else None,
        split_records=20 if split and names == ("age", "bmi") else 0, domain=Domain.of(ranges), model="a forest",
        seed=7,
        groups=tuple(sexes(made, of, *point) for of in ("stability", "accuracy")[: 1 + (made.accuracy is not None)]),
    )  # fmt: skip
