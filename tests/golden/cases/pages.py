"""Numbers on pages, and of commands that ask about a model in a file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import polars as pl
from golden_results import EXACT, changed, chosen, command, golden, json_of, scaled
from sklearn.tree import DecisionTreeClassifier
from skops.io import dump

import epsworth as ew
from epsworth import report

RANGES = {"age": (0, 100), "bmi": (10, 60)}
NUMBER = re.compile(r"[-+–−±<>≤≥≈~ \u00a0%.,\de∞]*\d[-+–−±<>≤≥≈~ \u00a0%.,\de∞]*")
BOX = ("-s", "age,bmi", "--domain", "ranges.toml")


class Cells(HTMLParser):
    """Cells of tables that hold numbers alone, row by row, and what scripts are given."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.rows, self.data, self._cell, self._script = [], [], None, False
        self.feed(html)
        self.rows = [row for row in self.rows if row]

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = ""
        self._script = tag == "script" and dict(attrs).get("type") == "application/json"

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self._cell is not None:
            if NUMBER.fullmatch(self._cell.strip()):
                self.rows[-1].append(self._cell.strip())
            self._cell = None
        self._script = False

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data
        if self._script:
            self.data.append(data)


def leaves(value):
    """Yield the numbers of a nest, in order."""
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from leaves(entry)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def numbers(page):
    """Return the numbers in tables, and those that the page's script reads."""
    read = Cells(page.html)
    found = [number for text in read.data for number in leaves(json.loads(text))]
    return {"cells": read.rows, "script": found}


def people():
    rng = np.random.default_rng(0)
    return pl.DataFrame({"age": rng.uniform(18, 90, 12).round(1), "bmi": rng.uniform(15, 45, 12).round(1)})


def classifier():
    rng = np.random.default_rng(1)
    table = pl.DataFrame({"age": rng.uniform(0, 100, 200).round(1), "bmi": rng.uniform(10, 60, 200).round(1)})
    return DecisionTreeClassifier(max_depth=3, random_state=0).fit(
        table.to_pandas(), (table["age"] / 100 + table["bmi"] / 60 > 1).to_numpy()
    )


def curves():
    asked = {"sensitive": ["age", "bmi"], "domain": RANGES, "mechanisms": ["pm", "sw", "krr:k=9"]}
    return ew.stability(classifier(), people(), per="feature", epsilons=[1, 2, 4], rng=0, **asked)


@golden(
    "numbers on a page of curves",
    subject="epsworth.report.text.units",
    mutate=changed(lambda found: (np.array(found, dtype=object) + 1).tolist()),
    tolerance=EXACT,
)
def _():
    return {
        "average": numbers(report.report(curves(), at_least=0.7, max_epsilon=8)),
        "worst": numbers(report.report(curves(), at_least=0.6, max_epsilon=8, on="worst")),
    }


@golden(
    "numbers on a page of a policy",
    subject="epsworth.mechanisms.kernel",
    mutate=lambda f: lambda name, e, *a, **k: f(name, "0.9", *a, **k),
    tolerance=EXACT,
)
def _():
    policy = ew.Policy.of("pm", 1, ew.Domain.of(RANGES | {"job": ["clerk", "nurse"]}), per="feature", bits=8)
    return numbers(report.report(policy))


@golden(
    "numbers on pages of other questions",
    subject="epsworth.rounding.show_up",
    mutate=changed("9{}".format),
    tolerance=EXACT,
)
def _(folder):
    found = {}
    lines = [f"{a},{b},{int(a + b > 1)}" for a, b in np.random.default_rng(0).random((60, 2)).round(3).tolist()]
    (folder / "rows.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")
    asked = ("rows.csv", "--target", "label", "--l2", "0.05", "--seed", "1")
    command(folder, "profile", *asked, "--json", "profile.json")
    command(folder, "learn", "plan", "--epsilon", "1", "--margin", "0.02", "--json", "plan.json")
    found["plan"] = numbers(report.report(folder / "plan.json"))
    found["profile"] = numbers(report.report(json.loads((folder / "profile.json").read_text())))
    return found


def prepare(folder):
    """Write the model, the table and the ranges of the commands."""
    dump(classifier(), folder / "model.skops")
    people().write_csv(folder / "people.csv")
    ew.Domain.of(RANGES).save(folder / "ranges.toml")


def of_curves(found):
    """Return what is compared of the curves that a command writes; wording and time are not."""
    return {name: value for name, value in found.items() if name not in ("seconds", "notes", "format")}


def law_of_less(law):
    """Return a mechanism's law at nine tenths of its epsilon."""
    return lambda self, x: law(replace(self, epsilon=0.9 * self.epsilon), x)


@golden("utility on the command line", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _(folder):
    prepare(folder)
    asked = ("model.skops", "people.csv", *BOX, "-m", "pm", "-m", "sw", "--seed", "1")
    found = json_of(folder, "utility", *asked, "-e", "2:6:2")
    assert found.pop("domain") == ew.Domain.load(folder / "ranges.toml").to_dict()
    advice = json_of(folder, "recommend", *asked, "-e", "2,4,8", "--at-least", "0.7")
    names = ("at_least", "feasible", "choice", "choices", "undecided", "ceiling", "labels", "confidence")
    return {
        "utility": of_curves(found),
        "recommend": chosen(advice["recommendation"], *names),
    }


@golden("one record on the command line", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _(folder):
    prepare(folder)
    return {
        "radius": json_of(folder, "radius", "model.skops", "people.csv", "--record", "3", "--norm", "inf"),
        "safe box": json_of(folder, "safe-box", "model.skops", "people.csv", "-r", "5", *BOX, "-e", "8"),
    }


@golden("a split on the command line", subject="epsworth.mechanisms.PM._law", mutate=law_of_less)
def _(folder):
    prepare(folder)
    found = json_of(folder, "split", "model.skops", "people.csv", *BOX, "-e", "4")
    return {name: value for name, value in found.items() if name != "notes"}


@golden("mechanisms on the command line", subject="epsworth.mechanisms.SW._law", mutate=law_of_less)
def _(folder):
    found = json_of(folder, "mechanisms", "-e", "1,2", "--at", "0.3")
    return [chosen(one, "mechanism", "epsilon", "tight_epsilon", "mass", "output") for one in found["mechanisms"]]


@golden(
    "a policy on the command line",
    subject="epsworth.mechanisms.two_level.TwoLevelKernel.mass_of_range",
    mutate=scaled(0.99),
)
def _(folder):
    prepare(folder)
    ew.Policy.of("pm", "0.8", ew.Domain.of(RANGES), per="feature", bits=6).save(folder / "policy.toml")
    found = json_of(folder, "utility", "model.skops", "people.csv", "--policy", "policy.toml")
    audit = json_of(folder, "audit", "policy.toml")["policy"]
    names = ("feature", "epsilon", "points", "quoted", "found", "inputs", "passed")
    return {"utility": of_curves(found), "audit": [chosen(one, *names) for one in audit["features"]]}


@golden("a recommendation that becomes a policy", subject="epsworth.mechanisms.SW._law", mutate=law_of_less)
def _(folder):
    prepare(folder)
    asked = ("model.skops", "people.csv", *BOX, "-m", "sw", "-e", "2:6:0.2", "--at-least", "0.7")
    command(folder, "recommend", *asked, "--policy", "policy.toml")
    return (folder / "policy.toml").read_text().splitlines()


STUDY = """\
model = "model.skops"
table = "people.csv"
domain = "ranges.toml"
sensitive = ["age", "bmi"]
epsilons = [0.50, 1, 2, 4]
per = "feature"
mechanisms = ["pm", "krr:k=9"]
at_least = 0.7
max_epsilon = 8
method = "sampled"
tolerance = 0.1
seed = 1
"""


@golden(
    "a study out of a file",
    subject="epsworth.bounds.clopper_pearson",
    mutate=lambda f: lambda hits, draws, miss: f(hits, draws, miss / 2),
    tolerance=1e-9,
)
def _(folder):
    prepare(folder)
    (folder / "study.toml").write_text(STUDY)
    command(folder, "run", "study.toml", "-o", "result.json")
    found = ew.StudyResult.load(folder / "result.json")
    return {
        "average": found.curves.average(),
        "worst": found.curves.worst(),
        "method": found.curves.method[:, 0],
        "choice": [found.recommendation.choice.mechanism, found.recommendation.choice.epsilon],
        "seed": found.seed,
        "policy": (found.policy or "").splitlines(),
        "page": numbers(report.report(folder / "result.json"))["cells"],
    }
