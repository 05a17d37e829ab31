"""Names on pages: every mechanism, noise and report has a title, its code in brackets; one's own keeps its name."""

from __future__ import annotations

import pytest
from made_documents import document
from made_pages import Read, curves, table

import epsworth as ew
from epsworth.learner import MECHANISMS
from epsworth.mechanisms.family import LABEL_RESPONSE, TAILORED
from epsworth.report.text import REPORTS, mechanism_name, noise_name

CODES = (*ew.MECHANISMS, LABEL_RESPONSE, TAILORED)


@pytest.mark.parametrize("code", CODES)
def test_every_mechanism_has_a_title(code):
    for words in (code, f"{code}:quantise=9"):
        title = mechanism_name(words).removesuffix(f" ({words})")
        assert title.casefold() == words or title != mechanism_name(words)
        assert title[0].isupper()
        assert title not in CODES


def test_every_report_of_a_learner_has_a_title():
    assert REPORTS.keys() == MECHANISMS.keys()


def test_every_noise_has_a_title():
    made = document("noise")
    for name in (*(row["name"] for row in made["rows"]), *made["left_out"]):
        told = noise_name(name)
        assert told.endswith(f" ({name.replace(' (published)', ', published')})") or told == name.capitalize()


def test_a_page_names_mechanisms_by_their_titles():
    made = curves(4, 3, 12, names=["pm", "krr:k=9", "gaussian_clipped:delta=1e-05", "mine"], weak=True)
    page = ew.report.report(made, at_least=0.6, max_epsilon=40)
    titles = [row[0] for row in table(page.html, "now")[1:]]
    assert titles == [
        "Piecewise (pm)", "Randomised response (krr:k=9)",
        "Gaussian, clipped to the range (gaussian_clipped:delta=1e-05)", "mine (approximate, δ 0.00001)",
    ]  # fmt: skip
    sentence = Read(page.html).ids["sentence"]
    assert any(f"Use {title} at " in sentence for title in titles)


def test_notes_begin_with_the_titles_of_those_that_share_them():
    made = curves(2, 3, 12, names=["pm", "my noise"], notes=["pm: something", "other: pm", "my noise: something"])
    text = Read(ew.report.report(made).html).text
    assert "Note: Piecewise (pm), my noise: something." in text
    assert "Note: other: pm." in text


def test_a_policy_names_its_mechanisms_by_their_titles():
    page = ew.report.report(ew.Policy.of("pm", 1, {"age": (0, 100), "job": ["clerk", "nurse"]}))
    assert [row[2] for row in table(page.html, "data list")[1:]] == ["Piecewise (pm)", "Randomised response (krr)"]
    assert "value of age falls where, by Piecewise (pm)" in page.html


def test_ones_own_mechanism_takes_no_name_of_this_package():
    even = ew.density_mechanism(lambda y, x, epsilon: 1 + 0 * (x + y))
    asked = {"sensitive": 0, "epsilons": [1.0], "rng": 0}
    with pytest.raises(
        ValueError, match=r"^mechanisms: 'pm' is the name of Piecewise, .* give your own one another name$"
    ):
        ew.stability(lambda X: X[:, 0] > 0.5, [[0.8]], mechanisms={"pm": even}, **asked)
    assert ew.stability(lambda X: X[:, 0] > 0.5, [[0.8]], mechanisms={"even": even}, **asked).mechanisms == ("even",)
