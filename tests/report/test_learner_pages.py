"""The learner's pages: the plan and what goes with it; the learnt map and its certificates."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import numpy as np
import pytest
from made_documents import chances, document, learnt, learnt_table
from made_pages import Read
from test_noise_page import number, rows_of, said, walk

from epsworth.learner import plan
from epsworth.learner.figures import MOST_CELLS, fewer, told_of, told_of_table
from epsworth.report import report
from epsworth.report.charts import FILLED, OTHER, UNSURE, certificate_map

LEARNT = ("learnt", "learnt one", "learnt three", "learnt series", "learnt lattice")


@pytest.mark.slow
def test_every_number_of_a_plan_is_planned():
    made = document("plan")
    page = report(made)
    rows = rows_of(page, "users by epsilon")
    epsilons = [Decimal(row[0]) for row in rows]
    users = [Decimal(cell.replace(",", "")) for row in rows for cell in row[1:]]
    halves = [Decimal("0.05"), Decimal("0.2")]
    walk(page, made, [*epsilons, *users, *halves, *chances(made["epsilon"])])
    for row in rows[::3]:
        for margin, cell in zip((0.05, 0.1, 0.2), row[1:], strict=True):
            assert int(cell.replace(",", "")) == plan(epsilon=float(row[0]), margin=margin, fakes=0).users
    assert Read(page.html).ids["fact-users"] == f"{made['users']:,}"
    assert "assuming nobody forges reports" in Read(page.html).ids["sentence"]


@pytest.mark.parametrize("asked", [{"users": 100, "margin": 0.001}, {"users": 10, "epsilon": 0.01}])
def test_a_plan_that_nothing_keeps_has_a_page(asked):
    found = plan(**asked, fakes=0)
    page = report(found.to_dict())
    assert Read(page.html).ids["sentence"] == str(found).replace(
        " by hadamard reports,", " by Hadamard bit (hadamard),"
    )
    assert 'class="decision no"' in page.html


@pytest.mark.parametrize("name", LEARNT)
@pytest.mark.cases(1)
def test_every_number_of_what_was_learnt_is_the_results(name):
    made = document(name)
    page = report(made)
    box, side = made["box"], made["side"]
    steps = np.arange(side) / (side - 1) if made["overlapping"] else (np.arange(side) + 0.5) / max(side, 1)
    middles = [low + step * (high - low) for low, high in box for step in steps.tolist()]
    left = [] if made["certified"] is None else [made["cells"] - made["certified"]]
    derived = [Decimal(repr(one)) for one in [*middles, *left, *(100 * c["confidence"] for c in made["by_confidence"])]]
    walk(page, made, [*derived, *chances(made["epsilon"])])
    for row, own in zip(rows_of(page, "cells by label"), made["labels"], strict=True):
        assert row[:2] == [own["label"], str(own["cells"])]
    if made["certified"] is not None:
        assert Read(page.html).ids["fact-certified"] == f"{made['certified']} of {made['cells']}"
        assert "certified, assuming nobody forges reports: each" in Read(page.html).ids["sentence"]
        for row, own in zip(rows_of(page, "cells certified"), made["by_confidence"], strict=True):
            assert number(row[0]) <= 100 * own["confidence"]
            assert row[1] == str(own["certified"])
    else:
        assert "none of them carries a certificate" in Read(page.html).ids["sentence"]


@pytest.mark.parametrize(("name", "asked"), [("learnt", {}), ("learnt one", {"d": 1, "m": 9})])
def test_the_map_is_the_models(name, asked):
    made, model = document(name), learnt(**asked)
    side, ends = made["side"], np.array(made["box"])
    grid = np.stack(np.meshgrid(*[(np.arange(side) + 0.5) / side] * len(ends), indexing="ij"), axis=-1)
    points = ends[:, 0] + grid.reshape(-1, len(ends)) * (ends[:, 1] - ends[:, 0])
    sure = model.certificate(points, confidence=0.95, fakes=0)
    classes = np.array(made["classes"])
    assert classes[made["map"]["label"]].tolist() == model.predict(points).tolist()
    assert classes[made["map"]["cell_label"]].tolist() == sure.label.tolist()
    assert made["map"]["certified"] == sure.certified.tolist()
    assert made["certified"] == sure.certified.sum()
    for one in made["by_confidence"]:
        assert one["certified"] <= model.certificate(points, confidence=one["confidence"], fakes=0).certified.sum()
    drawn = {f"{x:.4g}, {y:.4g}" if len(ends) > 1 else f"{x:.4g}" for x, y in points[:, [0, -1]].tolist()}
    words = {row[0]: row[1:] for row in rows_of(report(made), "every cell")}
    assert set(words) == drawn
    for own, (label, certificate) in zip(sure.certified, words.values(), strict=True):
        assert (certificate != "left open") == own
        assert label in made["classes"]


def test_what_is_not_certified_is_never_drawn_as_if_it_were():
    """Cells filled in full are those certified; all others are pale, and hatched by their label."""
    kinds = [FILLED, FILLED, UNSURE, OTHER]
    picture = certificate_map("a map", ["a", "b"], [(0, 1), (0, 1)], 2, [0, 1, 0, 1], kinds).svg()
    paths = re.findall(r'<path class="([^"]*)" d="([^"]*)"', picture)
    full = [d for kind, d in paths if kind.startswith("cell k") and "pale" not in kind]
    pale = [d for kind, d in paths if "pale" in kind]
    hatched = "".join(d for kind, d in paths if kind.startswith("hatch"))
    area = [sum(map(int, re.findall(r"h(\d+)v1", d))) for d in (*full, *pale)]
    assert len(full) == len(pale) == 2
    assert len(set(area)) == 1  # a quarter each
    assert hatched.count("M") == 3 * area[0]  # one stroke on each of its parts, and a cross
    made = document("learnt")
    made |= {"certified": 0, "differing": 0}
    made["map"] |= {"certified": [False] * 25, "adjusted": [1.0] * 25}
    for one in [*made["labels"], *made["by_confidence"]]:
        one["certified"] = 0
    for one in made["clearest"]:
        one |= {"certified": False, "adjusted": 1.0}
    page = report(made)
    assert {row[2] for row in rows_of(page, "every cell")} == {"left open"}
    drawn = page.html.split('aria-label="The label of every cell')[1].split("</svg>")[0]
    assert all("pale" in kind for kind in re.findall(r'class="cell ([^"]*)"', drawn))


def test_many_cells_are_counted_and_few_are_listed():
    model = learnt(d=2, m=70, users=400_000)
    told = told_of(model, fakes=0)
    assert told["map"] is None
    assert told["cells"] == 4900 <= MOST_CELLS
    page = report(json.loads(json.dumps(told)))
    assert "The learnt map" not in page.html
    assert "The clearest cells" in page.html
    largest = told_of(learnt(d=2, m=64, users=400_000), fakes=0)
    assert len(report(json.loads(json.dumps(largest))).html.encode()) <= 250_000


def test_a_table_tells_what_a_gap_says_and_how_few_reports_came():
    from epsworth.learner import Category, TableConfig, TableLearner
    from epsworth.learner.tables.learner import _learnt as learn

    columns = [Category("job", ("none", "clerk"), missing=True), Category("sex", (0, 1))]
    rng, y = np.random.default_rng(3), np.arange(3000) % 2
    X = np.column_stack([np.where(y == 1, None, rng.choice(["none", "clerk"], 3000)), rng.integers(0, 2, 3000)])
    learner = TableLearner(TableConfig(columns, (0, 1), epsilon=8, users=60_000, rounds="linear"))
    learn(learner, learner.config.checked(X, y), rng, 3000)
    told = told_of_table(learner)
    job, sex = told["columns"]
    assert (job["gap"][0] > 1, job["moves"] > job["gap"][0], sex["gap"]) == (True, True, None)
    page = report(json.loads(json.dumps(told)))
    assert [row[0] for row in rows_of(page, "Table of job")] == ["none", "clerk", "a gap"]
    assert told["fewer"].startswith("3,000 of the 60,000 reports that the configuration expects for tables came: ")
    assert told["fewer"] in Read(page.html).ids["sentence"]
    assert fewer(learnt_table()) is None


@pytest.mark.slow
def test_the_commands_write_the_pages_of_their_json(cli, tmp_path, monkeypatch):
    from epsworth.learner import Aggregator

    monkeypatch.chdir(tmp_path)
    Aggregator(learnt().config, learnt().aggregate.tally).save("s.state")
    words = ("s.state", "m.learner", "--confidence", "0.9", "--json", "a.json", "--report", "a.html")
    code, out, _ = cli("learn", "fit", *words)
    assert (code, out.splitlines()[-1]) == (0, "Page: a.html")
    assert json.loads((tmp_path / "a.json").read_text())["confidence"] == 0.9
    assert cli("report", "a.json", "-o", "b.html")[0] == 0
    one, two = (Read((tmp_path / name).read_text()) for name in ("a.html", "b.html"))
    assert one.ids["sentence"] == two.ids["sentence"]
    assert "90\u00a0% confidence" in one.ids["sentence"]
    code, _, err = cli("learn", "fit", "s.state", "n.learner", "--confidence", "1.5")
    assert code == 2
    assert "confidence" in err
    assert not (tmp_path / "n.learner").exists()
    words = ("-e", "2", "--margin", "0.1", "--json", "p.json", "--report", "p.html")
    assert cli("learn", "plan", *words)[0] == 0
    assert cli("report", "p.json", "-o", "q.html")[0] == 0
    assert "users for a margin of 0.1" in said(type("Page", (), {"html": (tmp_path / "q.html").read_text()}))
