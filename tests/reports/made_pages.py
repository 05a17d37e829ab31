"""Curves for pages: made, not computed, so that they are large, odd or hostile at will."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np

from epsworth.guarantees import Approximate, Pure
from epsworth.utility.curves import Curves
from epsworth.utility.quantities import Bounds

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
