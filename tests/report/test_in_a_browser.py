"""The page in a real browser: silent, alone, quick, usable by keyboard and on a phone, one sheet of paper.

Needs Playwright for Python (``pip install -e ".[browser]"``) and a Chromium on the path; EPSWORTH_AXE names axe-core's
axe.min.js, for the checks of accessibility.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import statistics
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made_documents import MAKERS, document, hostile
from made_pages import HOSTILE, curves, panels
from matplotlib.image import imread
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.report.text import units
from epsworth.rounding import round_down, show_up

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install -e .[browser]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is on the path")
ALONE = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
AROUND = curves(4, 12, 60, accuracy=True, notes=["a note"] * 5)


def surrounded(made):
    return ew.report.report(made, at_least=0.85, panels=panels(made))


MADE = {
    "few": lambda: ew.report.report(curves(4, 12, 60, accuracy=True, weak=True), at_least=0.85),
    "many": lambda: ew.report.report(curves(6, 100, 300, notes=["a note"]), at_least=0.9),
    "around": lambda: surrounded(AROUND),
    "strip": lambda: surrounded(curves(6, 40, 60, features=("age",))),
    "no": lambda: ew.report.report(curves(3, 8, 60), at_least=0.9995),
    "one": lambda: ew.report.report(curves(1, 3, 1, labels=("yes",)), on="worst", at_least=0.6),
    "hostile": lambda: ew.report.report(
        curves(
            7, 6, 30, names=[f"{m}{HOSTILE}" for m in range(7)], features=[HOSTILE, "b" * 300], notes=[HOSTILE] * 20
        ),
        command=HOSTILE,
    ),
}

PLAIN = {name: (lambda name=name: ew.report.report(document(name))) for name in MAKERS} | {
    f"hostile {name}": (lambda name=name: ew.report.report(hostile(document(name)), command=HOSTILE))
    for name in ("noise", "privatize", "profile", "learnt")
}
DOMAIN = ew.Domain.of({"age": (0, 120), "bmi": {"lower": 10, "upper": 60, "points": 21}, "sex": ["f", "m"]})
POLICY = ew.Policy.of("pm", "1.5", DOMAIN, per="feature")
PLAIN |= {
    "policy": lambda: ew.report.report(POLICY),
    "weak policy": lambda: ew.report.report(
        ew.Policy.of("gaussian_clipped:delta=1e-5", "2", ew.Domain.of({"</b>" * 20: (0, 120)}))
    ),
}
WIDE = ew.Policy.of("pm", "1", ew.Domain.of({f"column {i}": (0, 10**i) for i in range(1, 13)}), per="feature")


def tailored():
    rows = pl.DataFrame(np.random.default_rng(0).uniform(size=(200, 2)), schema=["a", "b"])
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(
        rows.to_pandas(), (rows["a"] > rows["b"]).to_numpy()
    )
    domain = {"a": (0, 1), "b": (0, 1)}
    return ew.report.report(ew.tailor(model, rows, sensitive=["a", "b"], epsilon=5, domain=domain, public=True, rng=0))


PLAIN |= {"wide policy": lambda: ew.report.report(WIDE), "tailored": tailored}
EVERY = MADE | PLAIN


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=ALONE)
        yield running
        running.close()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, made in EVERY.items():
        made().save(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in EVERY}


@pytest.fixture
def opened(browser, paths):
    """Open a page; fail where it said or asked anything."""
    contexts, said = [], []

    def open_page(name, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        url = paths[name].as_uri()
        page.on("request", lambda request: said.append(request.url) if request.url != url else None)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def slide(page, name, value):
    page.evaluate(
        "([name, value]) => { const s = document.getElementById(name); s.value = value;"
        " s.dispatchEvent(new Event('input', {bubbles: true})); }",
        [name, value],
    )


def share(value):
    """Return a lower bound as a page shows it."""
    return f"{100 * round_down(value):.1f}\u00a0%"


def test_a_target_is_drawn_once_a_reader_asks_for_one(opened):
    page = opened("hostile")
    target, before = page.locator(".view:not([hidden]) .target").first, whole_text(page)
    drawn = "(one) => getComputedStyle(one).display !== 'none'"
    assert "keeps most" in before[0]
    assert not target.evaluate(drawn)
    slide(page, "target", page.evaluate("document.getElementById('target').max"))
    assert target.evaluate(drawn)
    assert "keeps most" not in whole_text(page)[0]
    page.click("#back")
    assert not target.evaluate(drawn)
    assert whole_text(page) == before


def whole_text(page):
    return page.evaluate(
        "[...document.querySelectorAll('#sentence, #cap, #observer, #served, output, .now, .served, .worst, .facts')]"
        ".map((one) => one.textContent)"
    )


@pytest.mark.parametrize("name", MADE)
def test_the_script_says_at_first_what_the_page_says_without_it(opened, name):
    live, bare = opened(name), opened(name, java_script_enabled=False)
    words = [bare.locator(one).all_text_contents() for one in ("#sentence", "#observer", "#served", ".now", ".worst")]
    assert words == [
        live.locator(one).all_text_contents() for one in ("#sentence", "#observer", "#served", ".now", ".worst")
    ]
    assert bare.locator(".served").all_text_contents() == live.locator(".served").all_text_contents()
    assert live.locator(".facts").all_text_contents() == bare.locator(".facts").all_text_contents()
    places = (
        "[...document.querySelectorAll('.view:not([hidden]) [transform]')].map((one) => one.getAttribute('transform'))"
    )
    first = live.evaluate(places)
    slide(live, "target", live.locator("#target").input_value())
    for a, b in zip(first, live.evaluate(places), strict=True):
        assert re.sub(r"[\d.]+", "", a) == re.sub(r"[\d.]+", "", b)


def test_sliders_change_sentence_curve_and_table_at_once(opened):
    page = opened("many")
    before = whole_text(page)
    points = page.locator(".point.chosen").first.get_attribute("transform")
    times = page.evaluate(
        """async () => {
          const times = [], stop = document.getElementById("stop"), target = document.getElementById("target");
          for (let i = 0; i < 60; i++) {
            const slider = i % 2 ? stop : target;
            slider.value = (Number(slider.value) + 37) % Number(slider.max);
            const began = performance.now();
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            times.push(performance.now() - began);
          }
          return times;
        }"""
    )
    print(f"median {statistics.median(times):.1f} ms of {len(times)}")
    assert statistics.median(times) <= 50
    slide(page, "target", "0")
    slide(page, "stop", "3")
    after = whole_text(page)
    assert all(a != b for a, b in zip(before, after, strict=True) if "%" in a and not a.startswith("50"))
    assert page.locator(".point.chosen").first.get_attribute("transform") != points


def test_what_the_script_recommends_is_what_the_library_does(opened, paths):
    made, page = curves(4, 12, 60, accuracy=True, weak=True), opened("few")
    targets = json.loads(page.locator("#numbers").text_content())["targets"]
    views = [(one, of) for of in ("stability", "accuracy") for one in ("average", "worst")]
    for number, (on, of) in enumerate(views):
        page.locator(f"input[name=view][value='{number}']").check()
        for at in range(0, len(targets), 9):
            slide(page, "target", str(at))
            found = ew.recommend(made, at_least=targets[at] / 1000, on=on, of=of)
            said = page.locator("#sentence").text_content()
            if found.choice is None:
                limit = "at ε\u00a0≤\u00a04"
                assert said.startswith((f"No: nothing in this report {limit} is guaranteed", f"Not {limit}")), (
                    on,
                    of,
                    at,
                )
            else:
                name = found.choice.mechanism + (" (approximate, δ 0.00001)" if found.choice.guarantee.delta else "")
                lower = share(found.choice.lower)
                total = found.choice.guarantee.epsilon
                assert said.startswith(f"Use {name} at ε\u00a0=\u00a0{show_up(total)} per record"), (on, of, at)
                assert f"at least {lower}" in said


def test_every_number_of_every_epsilon_is_the_results(opened):
    made, page = curves(4, 12, 60, accuracy=True, weak=True), opened("few")
    views = [(one, of) for of in ("stability", "accuracy") for one in ("average", "worst")]
    for number, (on, of) in enumerate(views):
        page.locator(f"input[name=view][value='{number}']").check()
        lower, upper = made.select(on, of)
        people = made.population(of)
        sides = [units(lower, 3, upwards=False), units(upper, 3, upwards=True)]
        crowd = [units(people.lower, 3, upwards=False), units(people.upper, 3, upwards=True)]
        for e in range(12):
            slide(page, "stop", str(e))
            rows = page.locator(".now tbody tr").all()
            chosen = []
            for m, row in enumerate(rows):
                cells = row.locator("td").all_text_contents()
                told = [f"{side[m][e] / 10:.1f}\u00a0%" for side in sides]
                assert cells[:3] == [show_up(made.guarantees[m][e].epsilon), *told]
                between = f"{crowd[0][m][e] / 10:.1f}–{crowd[1][m][e] / 10:.1f}\u00a0%"
                assert cells[3] == (between if on == "average" else "–")
                if row.get_attribute("aria-current"):
                    chosen.append(m)
            (m,) = chosen
            every = sorted(made.bounds(of).lower[m, e])
            shares = [every[0], *(every[60 - -(-share * 60 // 100)] for share in (95, 75, 50))]
            assert page.locator(".served tbody td:nth-of-type(1)").all_text_contents() == [share(one) for one in shares]
            least = made.lower[m, e].argsort(kind="stable")[:5]
            assert page.locator(".worst tbody th").all_text_contents() == [str(r) for r in least]
            assert page.locator(".worst tbody td:nth-of-type(1)").all_text_contents() == [
                str(made.labels[r]) for r in least
            ]


def test_a_keyboard_reaches_and_moves_everything(opened):
    page = opened("few")
    order = []
    for _ in range(30):
        page.keyboard.press("Tab")
        order.append(
            page.evaluate("document.activeElement.id || document.activeElement.name || document.activeElement.tagName")
        )
        if order[-1] == "BODY":
            break
    first = [one for one in order if one in ("view", "target", "stop", "prior")]
    assert first == ["view", "target", "stop", "prior"]
    assert "SUMMARY" in order
    assert order.count("BUTTON") == page.locator("button:enabled").count() == 2
    page.locator("#target").focus()
    before = page.locator("#sentence").text_content()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("#sentence").text_content() != before
    assert page.locator("#target").get_attribute("aria-valuetext") == page.locator("#target-shown").text_content()
    assert page.locator("#sentence").get_attribute("aria-live") == "polite"
    page.locator("#stop").focus()
    page.keyboard.press("Home")
    assert page.locator("#back").is_enabled()
    page.locator("#back").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "back"  # and not lost
    assert page.locator("#sentence").text_content() == before


@pytest.mark.parametrize(("name", "colour"), [("few", 0), ("few", 1), ("few", 2), ("profile", 3)])
def test_shapes_along_curves_are_filled(opened, name, colour):
    page = opened(name)
    box = page.locator(f"use.mark.c{colour}:visible").last.bounding_box()
    assert box is not None
    middle = {"x": box["x"] + box["width"] / 2 - 1, "y": box["y"] + box["height"] / 2 - 1, "width": 2, "height": 2}
    pixels = imread(io.BytesIO(page.screenshot(clip=middle, full_page=True)))[..., :3]
    assert np.ptp(pixels.mean(axis=(0, 1))) > 0.2  # of a colour, and neither paper nor ink


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_scrolls_one_way_only(opened, name, width):
    page = opened(name, viewport={"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", EVERY)
def test_paper_takes_one_sheet_with_the_glossary_on_its_back(opened, name):
    page = opened(name)
    sheet = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", sheet)) == 2
    page.emulate_media(media="print")
    assert page.locator(".glossary dd").first.is_visible()
    assert re.search(rb"/MediaBox\s*\[0 0 59[45][.\d]* 84[12]", sheet)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", EVERY)
def test_axe_finds_nothing(browser, paths, name, scheme):
    axe = os.environ.get("EPSWORTH_AXE")
    if not axe:
        pytest.skip("EPSWORTH_AXE is unset: it names axe-core's axe.min.js")
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(paths[name].as_uri())
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.evaluate(Path(axe).read_text())
    kinds = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("(kinds) => axe.run(document, {runOnly: kinds})", kinds)
    context.close()
    assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found["violations"]] == []


def test_files_are_saved_from_the_page(opened):
    page = opened("no", accept_downloads=True)
    with page.expect_download() as waited:
        page.locator("[data-save=whole]").click()
    made = curves(3, 8, 60)
    assert json.loads(Path(waited.value.path()).read_text()) == json.loads(json.dumps(made.to_dict()))
    with page.expect_download() as waited:
        page.locator("[data-save=numbers]").click()
    lines = Path(waited.value.path()).read_text().splitlines()
    assert len(lines) == 1 + 2 * 3 * 8
    assert float(lines[1].split(",")[-2]) == round_down(float(made.average().lower[0, 0]), 4)


def test_the_policy_is_saved_from_the_page(opened, tmp_path):
    page = opened("policy", accept_downloads=True)
    with page.expect_download() as waited:
        page.locator("[data-save=policy]").click()
    waited.value.save_as(tmp_path / "p.toml")
    assert ew.Policy.load(tmp_path / "p.toml") == POLICY


def test_shapes_and_dashes_tell_curves_apart_without_colour(opened):
    page = opened("few")
    dashes = page.evaluate(
        "[...document.querySelectorAll('.view:not([hidden]) use.line')]"
        ".map((one) => getComputedStyle(one).strokeDasharray)"
    )
    assert len(set(dashes)) == len(dashes) == 4
    shapes = page.evaluate("[...document.querySelectorAll('.view:not([hidden]) .label')].map((one) => one.textContent)")
    assert len(shapes) == 4


@pytest.mark.parametrize("name", PLAIN)
def test_sliders_of_plain_pages_say_what_the_page_holds_for_their_stops(opened, name):
    live, bare = opened(name), opened(name, java_script_enabled=False)
    assert (
        live.locator("main p:not(.buttons)").all_text_contents()
        == bare.locator("main p:not(.buttons)").all_text_contents()
    )
    sliders = json.loads(live.locator("#numbers").text_content())["sliders"]
    for slider, told in sliders.items():
        least = int(live.locator(f"#{slider}").get_attribute("min"))
        count = len(next(iter(told["says"].values())))
        for stop in (0, count // 3, count - 1):
            slide(live, slider, str(least + stop))
            for mark, texts in told["says"].items():
                assert live.locator(f"#{mark}").text_content() == texts[stop]
            for mark, places in told["moves"].items():
                assert live.locator(f"#{mark}").get_attribute("transform") == f"translate({places[stop]})"
            assert live.locator(f"#{slider}").get_attribute("aria-valuetext") == told["says"][f"{slider}-shown"][stop]
        live.locator(f"#{slider}").focus()
        live.keyboard.press("Home")
        assert live.locator(f"#{slider}-shown").text_content() == told["says"][f"{slider}-shown"][0]


def test_plain_pages_save_their_result_and_their_tables(opened):
    page = opened("privatize", accept_downloads=True)
    with page.expect_download() as waited:
        page.locator("[data-save=whole]").click()
    assert json.loads(Path(waited.value.path()).read_text()) == document("privatize")
    with page.expect_download() as waited:
        page.locator("[data-save=numbers]").click()
    assert "was this row used?" in Path(waited.value.path()).read_text()
