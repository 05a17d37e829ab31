"""Choosing on curves that are known exactly: nothing is assumed to be monotone."""

from __future__ import annotations

import json
import re
from decimal import Decimal, localcontext

import numpy as np
import pytest
from known_curves import exact_curves
from mpmath import mp
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import epsworth as ew
from epsworth.guarantees import Approximate, Probabilistic, Pure
from epsworth.mechanisms import MECHANISMS, family
from epsworth.report.text import observed, share_up
from epsworth.utility.curves import Curves
from epsworth.utility.engines.contraction import outward
from epsworth.utility.engines.linear import Comparison, settled
from epsworth.utility.figures import plot_curves


def of_region(words, epsilons, x, *boxes):
    """Exact stability when the label stays on a union of boxes."""
    return [[sum(float(family(words).build(e).law(x).mass(*box)) for box in boxes)] for e in epsilons]


# Section 6 of the specification: regions on which stability falls as epsilon grows
NOT_MONOTONE = {
    "pm": ("pm", [0.1, 3, 8], 0.31, [(0.3, 1.0)], [0.691, 0.587, 0.994]),
    "sw": ("sw", [0.1, 2, 8], 0.31, [(0.3, 1.0)], [0.691, 0.614, 0.963]),
    "clipped Laplace": (
        "laplace_clipped", [0.1, 6, 12], 0.5, [(0, 0.1), (0.45, 0.55), (0.9, 1)], [0.966, 0.350, 0.459],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_MONOTONE)
def test_curves_that_fall_are_not_bisected(name):
    words, epsilons, x, boxes, printed = NOT_MONOTONE[name]
    rho = of_region(words, epsilons, x, *boxes)
    np.testing.assert_allclose(np.array(rho)[:, 0], printed, atol=6e-4)
    curves = exact_curves([words], epsilons, [rho])
    wish = (printed[0] + max(printed[1:])) / 2 if printed[0] > printed[2] else printed[0] - 0.01
    answer = ew.recommend(curves, at_least=wish, on="worst")
    assert answer.choice.epsilon == epsilons[0]
    assert not answer.choice.holds_above
    assert "not guaranteed at every larger epsilon: do not raise it blindly" in str(answer)


@pytest.mark.parametrize(
    "name", [name for name in MECHANISMS if name != "duchi"]
)  # which never falls into a ball inside
def test_balls_rise_with_epsilon(name):
    """On balls around x every family increases (section 6); an increasing curve holds above."""
    epsilons = np.linspace(0.5, 12, 24)
    rho = of_region(name, epsilons, 0.4, (0.15, 0.65))
    assert (np.diff(np.array(rho)[:, 0]) >= -1e-12).all()
    curves, wish = exact_curves([name], epsilons, [rho]), float(rho[10][0])
    answer = ew.recommend(curves, at_least=wish, on="worst", max_epsilon=12)
    assert answer.choice.epsilon == epsilons[10]
    assert answer.choice.holds_above


def test_the_smallest_total_wins_and_ties_go_to_the_higher_guarantee():
    curves = exact_curves(
        ["a", "b", "c"], [1, 2, 3], [[[0.5], [0.8], [0.95]], [[0.5], [0.92], [0.99]], [[0.5], [0.94], [0.99]]]
    )
    answer = ew.recommend(curves, at_least=0.9)
    assert (answer.choice.mechanism, answer.choice.epsilon) == ("c", 2)
    assert [choice.mechanism for choice in answer.choices] == ["c", "b", "a"]
    assert answer.undecided == ("c",)
    assert answer.ceiling == ew.ceiling(2.0, 2)


def test_mechanisms_that_the_intervals_cannot_tell_apart_are_named():
    rho = [[[0.5], [0.93], [0.95]], [[0.5], [0.92], [0.99]], [[0.5], [0.6], [0.7]]]
    answer = ew.recommend(exact_curves(["a", "b", "c"], [1, 2, 3], rho, width=0.02), at_least=0.9)
    assert answer.choice.mechanism == "a"
    assert answer.undecided == ("a", "b")
    assert "perhaps as good      b" in str(answer)


def test_a_smaller_epsilon_that_may_be_enough_is_named():
    rho = [[[0.5], [0.895], [0.95]], [[0.5], [0.6], [0.99]], [[0.5], [0.89], [0.91]]]
    answer = ew.recommend(exact_curves(["a", "b", "c"], [1, 2, 3], rho, width=0.02), at_least=0.9)
    assert answer.choice.epsilon == 3
    assert "left open            whether epsilon 2 is enough: a and more" in str(answer)


def test_a_weaker_notion_is_chosen_only_where_no_stronger_one_fits():
    promises = (
        tuple(Pure(e, "record") for e in (1, 2)),
        tuple(Approximate(e, 0.1, "record") for e in (1, 2)),
    )
    curves = exact_curves(["pure", "loose"], [1, 2], [[[0.5], [0.8]], [[0.95], [0.99]]], guarantees=promises)
    assert ew.recommend(curves, at_least=0.7).choice.mechanism == "pure"
    assert ew.recommend(curves, at_least=0.9).choice.mechanism == "loose"
    refused = ew.recommend(curves, at_least=0.9, delta=0.0)
    assert not refused.feasible
    assert refused.choices == ()


def test_no_is_an_answer_with_a_reason():
    curves = exact_curves(["a"], [1, 2], [[[0.5], [0.6]]], width=0.01)
    answer = ew.recommend(curves, at_least=0.99, on="worst")
    assert not answer.feasible
    assert answer.choice is None
    assert answer.ceiling is None
    assert answer.epsilon_needed == pytest.approx(np.log(99))
    assert str(answer).startswith("No: nothing here keeps the label of the worst record with probability 99 %")
    assert "a at epsilon 2: 59" in str(answer)
    assert "4.595" in " ".join(answer.notes)
    nearly = ew.recommend(curves, at_least=0.605)
    assert str(nearly).startswith("No: nothing here is sure to keep 60.5 % of the labels at epsilon <= 4")
    assert "leave it open for a (up to 0.61" in " ".join(nearly.notes)
    every = exact_curves(["a"], [1], [[[0.9]]], guarantees=((Approximate(1, 0.1, "record"),),))
    assert "larger delta than you accept" in str(ew.recommend(every, at_least=0.5, delta=0.0))


def test_a_choice_for_one_record_warns():
    curves = exact_curves(["a"], [1, 2], [[[0.5, 0.95], [0.6, 0.99]]])
    with pytest.warns(ew.LeakWarning, match="reveals something about it"):
        assert ew.recommend(curves, at_least=0.9, on=1).choice.epsilon == 1
    assert not ew.recommend(curves, at_least=0.9, on="worst").feasible
    assert not ew.recommend(curves, at_least=0.9, on="average").feasible


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at_least": 0.0}, r"at_least must lie in \(0, 1\]"),
        ({"at_least": 1.1}, r"at_least must lie in \(0, 1\]"),
        ({"at_least": 0.9, "on": "median"}, "on must be 'average', 'worst' or a record number"),
        ({"at_least": 0.9, "on": 7}, "there is no record 7"),
        ({"at_least": 0.9, "of": "accuracy"}, "pass the true labels as y"),
        ({"at_least": 0.9, "of": "speed"}, "of must be"),
        ({"at_least": 0.9, "delta": 2}, "delta must lie"),
        ({"at_least": 0.9, "max_epsilon": 0}, "max_epsilon must be positive and finite"),
        ({"at_least": 0.9, "max_epsilon": np.inf}, "max_epsilon must be positive and finite"),
        ({"at_least": 0.9, "at_most_sure": 0.5}, r"at_most_sure must lie strictly between 0\.5 and 1"),
        ({"at_least": 0.9, "at_most_sure": 0.9, "max_epsilon": 2}, "two ways to say one thing"),
    ],
)
def test_bad_wishes_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ew.recommend(exact_curves(["a"], [1], [[[0.5]]]), **change)


def test_everything_survives_json(tmp_path):
    curves = ew.stability(
        lambda Z: Z[:, 0] <= 0.4, [[0.2], [0.5]], sensitive=0, mechanisms=["pm", "gaussian", "pm:indicator=0.1"],
        epsilons=[1, 2], rng=0, y=[True, False], over="dataset", tolerance=0.2,
    )  # fmt: skip
    curves.save(tmp_path / "c.json")
    again = Curves.load(tmp_path / "c.json")
    assert again.to_dict() == curves.to_dict()
    assert again.guarantees == curves.guarantees
    assert ew.recommend(again, at_least=0.6) == ew.recommend(curves, at_least=0.6)
    json.dumps(ew.recommend(curves, at_least=0.6).to_dict(), allow_nan=False)
    assert "2 epsilons x 2 records" in repr(curves)


@pytest.mark.parametrize("text", ["{}", "[1", '{"format": "epsworth-curves-1"}'])
def test_files_that_are_not_curves_are_refused(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ValueError, match="curves file"):
        Curves.load(tmp_path / "c.json")
    with pytest.raises(ValueError, match="cannot read the curves"):
        Curves.load(tmp_path / "none.json")


def test_the_sentence_rounds_to_the_safe_side():
    curves = exact_curves(["pm"], [2.0], [[[0.45199]]])
    sentence = curves.sentence("pm", 2.0, 0)
    assert "at least 0.451" in sentence
    assert "99.9 % confidence over our sampling" in sentence
    assert "epsilon 2 per record; pure LDP, epsilon 2 per record" in sentence
    for wrong in (("sw", 2.0, 0), ("pm", 3.0, 0), ("pm", 2.0, 5)):
        with pytest.raises(ValueError, match="no"):
            curves.sentence(*wrong)


def test_delta_is_honoured_at_every_epsilon():
    promises = ((Approximate(1, 1e-5, "record"), Approximate(4, 0.4, "record")),)
    curves = exact_curves(["g"], [1, 4], [[[0.5], [0.9]]], guarantees=promises)
    assert ew.recommend(curves, at_least=0.8).choice.epsilon == 4
    assert not ew.recommend(curves, at_least=0.8, delta=1e-3).feasible


def test_the_needed_epsilon_counts_the_admitted_delta():
    """With probability delta a raw record is sent: the ceiling rises, so less epsilon is needed."""
    curves = exact_curves(["i"], [2.0], [[[0.901]]], guarantees=((Approximate(2.0, 0.5, "record"),),))
    assert ew.recommend(curves, at_least=0.9).epsilon_needed < 2.0
    assert "at delta 0.5" in " ".join(ew.recommend(curves, at_least=0.94).notes)


def test_no_ceiling_is_stated_for_accuracy():
    """The ceiling bounds how often labels survive; a classifier that always says yes is accurate for yes."""
    curves = ew.stability(
        lambda Z: Z[:, 0] <= 0.95, [[0.5]], sensitive=0, mechanisms="pm", epsilons=[0.1, 0.2], y=[True], rng=1
    )
    answer = ew.recommend(curves, at_least=0.9, of="accuracy")
    assert answer.feasible
    assert answer.ceiling is None
    assert answer.epsilon_needed == 0
    assert "eiling" not in str(answer) + " ".join(answer.notes)


def test_rivals_are_compared_by_the_total_of_the_record():
    """The same law at half the parameter cannot be told apart at equal total."""
    promises = (
        tuple(Pure(e, "record") for e in (2, 4, 8)),
        tuple(Pure(e / 2, "record") for e in (2, 4, 8)),
    )
    curves = exact_curves(
        ["pm", "half"], [2, 4, 8], [[[0.7], [0.92], [0.98]], [[0.5], [0.7], [0.92]]], guarantees=promises
    )
    answer = ew.recommend(curves, at_least=0.86)
    assert answer.choice.guarantee.epsilon == 4
    assert set(answer.undecided) == {"pm", "half"}


def test_numpy_numbers_are_written_as_numbers():
    curves = exact_curves(["a"], [1], [[[0.95]]])
    with pytest.warns(ew.LeakWarning):
        answer = ew.recommend(curves, at_least=np.float32(0.85), on=np.int64(0))
    json.dumps(answer.to_dict(), allow_nan=False)


UNKNOWN = {"notion": "other", "epsilon": 1, "delta": 0, "unit": "record"}


@pytest.mark.parametrize("damage", [
    {"mechanisms": ["a", "b"]}, {"epsilons_per_record": [1, 2]}, {"labels_possible": []}, {"stability": None},
    {"guarantees_per_record": []}, {"guarantees_per_record": [[UNKNOWN]]},
])  # fmt: skip
def test_damaged_curves_are_refused(tmp_path, damage):
    document = exact_curves(["a"], [1], [[[0.95]]]).to_dict() | damage
    (tmp_path / "c.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"curves file .*damaged"):
        Curves.load(tmp_path / "c.json")


CONSTANT = {
    "dummy": DummyClassifier(strategy="most_frequent"),
    "tree": DecisionTreeClassifier(max_depth=1),
    "forest": RandomForestClassifier(3, random_state=0),
    "bayes": GaussianNB(),
    "linear": LogisticRegression(),
}


@pytest.mark.parametrize("name", CONSTANT)
@pytest.mark.parametrize("mechanisms", ["pm", "laplace_clipped", "krr:k=3", "gaussian_clipped"])
@pytest.mark.cases(1)
def test_a_label_that_cannot_change_is_promised_with_certainty(name, mechanisms):
    """Labels that only change outside the declared range are constant inside it."""
    model = CONSTANT[name].fit([[0.1], [0.4], [8.0], [9.0]], [0, 0, 1, 1])
    curves = ew.stability(model, [[0.2], [0.9]], sensitive=0, mechanisms=mechanisms, epsilons=[0.5, 1], y=[0, 1])
    assert curves.confidence == 1
    assert (curves.lower == 1).all()
    assert (curves.accuracy.upper[:, :, 1] == 0).all() or name == "linear"
    answer = ew.recommend(curves, at_least=1.0, on="worst")
    assert answer.choice.epsilon == 0.5
    assert "smaller epsilons     may be enough, too" in str(answer)


def test_a_label_that_can_change_is_never_promised_with_certainty():
    """Epsilon 700 flips with probability e^-700, which no double tells from 0: rounding, not the tolerance, decides."""
    curves = ew.stability(lambda Z: Z[:, 0] > 0.5, [[0.2]], sensitive=0, mechanisms="krr:k=2", epsilons=[700])
    assert curves.lower.item() < 1
    answer = ew.recommend(curves, at_least=1.0, max_epsilon=700)
    assert not answer.feasible
    assert "smaller tolerance" not in " ".join(answer.notes)
    assert "only rounding" in " ".join(answer.notes)
    tree = DecisionTreeClassifier(max_depth=1).fit([[0.2], [0.8]], [0, 1])
    ceiling = ew.stability(tree, [[0.2]], sensitive=0, mechanisms="label_rr", epsilons=[60])
    assert ceiling.lower.item() < 1


def test_no_number_of_draws_promises_certainty():
    curves = ew.stability(lambda Z: Z[:, 0] > 5, [[0.2]], sensitive=0, mechanisms="pm", epsilons=[1], tolerance=0.05)
    answer = ew.recommend(curves, at_least=1.0)
    assert "no number of draws" in " ".join(answer.notes)
    assert "smaller tolerance" not in " ".join(answer.notes)


def test_an_average_above_the_ceiling_reads_as_no_contradiction():
    """Averages and promises to every input are told in sentences of their own."""
    curves = exact_curves(["pm"], [1, 2], [[[0.7], [0.95]]])
    found = ew.recommend(curves, at_least=0.919)
    assert found.verdict[0] == "Yes: pm at epsilon 2 keeps at least 95 % of the labels."
    assert any("*every* input" in note and "0.880798" in note for note in found.notes)
    assert not any("average" in note and "every* input" in note for note in found.notes)
    assert "at least 91.99 %" in str(ew.recommend(exact_curves(["pm"], [2], [[[0.91995]]]), at_least=0.9199))


def test_no_delta_is_told_where_the_best_mechanism_is_pure():
    promises = (tuple(Pure(e, "record") for e in (1, 2)), tuple(Approximate(e, 1e-5, "record") for e in (1, 2)))
    curves = exact_curves(["pm", "g"], [1, 2], [[[0.5], [0.6]], [[0.4], [0.5]]], guarantees=promises)
    assert "delta" not in str(ew.recommend(curves, at_least=0.9))
    assert "delta" not in " ".join(ew.recommend(curves, at_least=0.9).notes)
    assert "delta" not in " ".join(ew.recommend(curves, at_least=0.55).notes)


def check_certainty(epsilons):
    """Never below the truth, to 60 digits."""
    deltas = np.random.default_rng(1).random(len(epsilons))
    with mp.workdps(60):
        for epsilon, delta in zip(epsilons.tolist(), deltas.tolist(), strict=True):
            sure = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
            assert sure <= ew.ceiling(epsilon, 2) <= sure * (1 + 1e-14)
            assert ew.ceiling(epsilon, 2, delta) >= sure + delta * (1 - sure)


@pytest.mark.slow
def test_the_certainty_of_an_observer_is_rounded_up_for_many_epsilons():
    check_certainty(10 ** np.random.default_rng(0).uniform(-9, 1.6, 100_000))


@pytest.mark.parametrize("epsilon", [0.1, 2.0, 12.0])
def test_what_an_epsilon_protects_is_told_and_rounded_up(epsilon):
    """To three digits, as pages tell it, and with as many more as keep it below 100 %."""
    with localcontext() as context:
        context.prec = 40
        truth = 100 / (1 + (-Decimal(epsilon)).exp())
    curves = exact_curves(["pm"], [epsilon], [[[0.95]]])
    found = ew.recommend(curves, at_least=0.9, max_epsilon=60)
    shown = Decimal(re.search(r"50 % -> at most ([\d.]+) %", str(found))[1])
    assert truth <= shown < 100
    assert shown - truth <= min(Decimal("0.1"), (100 - truth) / 2)
    told = re.search(r"at most ([\d.]+) % sure", " ".join(found.notes))[1]
    assert told == str(shown) == share_up(observed(epsilon, 0.0, 0.5)).split("\xa0")[0]
    check_certainty(epsilon * np.random.default_rng(0).uniform(0.9, 1.1, 500))
    loose = exact_curves(["g"], [epsilon], [[[0.95]]], guarantees=((Approximate(epsilon, 0.5, "record"),),))
    found = ew.recommend(loose, at_least=0.9, max_epsilon=60)
    told = Decimal(re.search(r"at most ([\d.]+) % of the cases", " ".join(found.notes))[1])
    assert told >= truth + (100 - truth) / 2
    nothing = ew.recommend(exact_curves(["pm"], [60], [[[0.95]]]), at_least=0.9, max_epsilon=60)
    assert "next to nothing" in str(nothing)
    assert "next to nothing" in " ".join(nothing.notes)


def test_every_mechanism_that_is_swapped_for_a_feature_is_told():
    """In the notes, in the recommendation, in a budget split; what keeps its name is passed over."""
    settings = {
        "sensitive": [0, 1],
        "domain": {0: {"categories": [0, 1]}, 1: {"lower": 0, "upper": 1, "points": 5}},
        "per": "feature",
        "epsilons": [4.0],
    }
    words = ["pm", "krr", "krr:k=7", "pm:indicator=0.1", "laplace_clipped:quantise=9", "label_rr"]
    model = DecisionTreeClassifier().fit([[0, 0.1], [1, 0.9]], [0, 1])
    curves = ew.stability(model, [[1, 0.5]], mechanisms=words, **settings)
    told = {name: [note for note in curves.notes if note.startswith(f"{name}: x")] for name in words}
    swapped = "x0 is categorical, so k-ary randomised response over its 2 categories perturbs it instead"
    assert told["pm"] == [f"pm: {swapped}"]
    assert told["pm:indicator=0.1"] == [f"pm:indicator=0.1: {swapped}"]
    assert told["krr"] == told["label_rr"] == []
    assert "krr:k=7: x1 declares 5 values, which replace the 7 asked for" in told["krr:k=7"]
    assert "laplace_clipped:quantise=9: x1 declares 5 values, which replace the 9 asked for" in str(told)
    alone = ew.stability(model, [[1, 0.5]], mechanisms="pm", **settings)
    assert swapped in " ".join(ew.recommend(alone, at_least=0.1, max_epsilon=8).notes)
    split = ew.split_budget(model, [[1, 0.5]], sensitive=[0, 1], domain=settings["domain"], total=2.0)
    assert swapped in str(split)


def test_printed_curves_show_guaranteed_numbers_rounded_down():
    """Average and worst case of every mechanism; of a huge grid a few epsilons, both ends among them."""
    rng = np.random.default_rng(0)
    epsilons = np.linspace(0.1, 9, 500)
    curves = exact_curves(["pm", "krr:k=33"], epsilons, rng.random((2, 500, 3)))
    text = str(curves)
    assert len(text.splitlines()) < 20
    assert max(map(len, text.splitlines())) <= 110
    assert "8 of 500 epsilons are shown" in text
    for view, (lower, _) in {"average": curves.average(), "worst": curves.worst()}.items():
        block = text.split(f"stability, {view}")[1].splitlines()
        assert block[1].split()[1:][:: len(block[1].split()) - 2] == ["0.1", "9"]
        for m, line in enumerate(block[2:4]):
            shown = [float(number) for number in line.split()[1:]]
            assert shown[0] == np.floor(lower[m, 0] * 1000) / 1000
            assert shown[-1] == np.floor(lower[m, -1] * 1000) / 1000
    assert "record 0" in str(exact_curves(["pm"], [1.0], [[[0.4519]]]))
    assert "0.451" in str(exact_curves(["pm"], [1.0], [[[0.4519]]]))


def test_every_promise_is_told_of_the_mechanisms_that_keep_it(cli, tmp_path, monkeypatch):
    """Whatever stands first; and where a notion changes along the epsilons, from where on."""
    pure, loose = (
        (Pure(1, "record"), Pure(2, "record")),
        (Approximate(1, 1e-5, "record"), Approximate(2, 1e-5, "record")),
    )
    worse = (Probabilistic(1, 1e-5, "record"), Approximate(2, 1e-5, "record"))
    promised = {"pm": pure, "g": loose, "sw": pure, "h": worse}
    monkeypatch.chdir(tmp_path)
    for names in (["pm", "g", "sw", "h"], ["h", "g", "sw", "pm"]):
        curves = exact_curves(names, [1, 2], [[[0.5], [0.6]]] * 4, guarantees=tuple(promised[name] for name in names))
        first, later = [name for name in names if name in ("pm", "sw")], "at epsilon 2 per record"
        lines = {
            f"{', '.join(first)} at epsilon 1 per record: pure LDP, epsilon 1 per record",
            "g at epsilon 1 per record: approximate LDP, epsilon 1, delta 0.00001 per record",
            "h at epsilon 1 per record: probabilistic LDP, epsilon 1, delta 0.00001 per record",
            f"h {later}: approximate LDP, epsilon 2, delta 0.00001 per record",
        }
        curves.save("c.json")
        code, out, _ = cli("recommend", "c.json", "--at-least", "0.6", "-v")
        assert code == 0
        for text in (str(curves), out):
            assert {line.strip() for line in text.splitlines() if " per record: " in line and " LDP" in line} == lines
        drawn = set(curves.plot().get_legend_handles_labels()[1])
        assert drawn == {"pm", "sw", "g (approximate, δ 0.00001)", "h (approximate, δ 0.00001)"}
    told = exact_curves(["x"], [1, 2, 3, 4, 5, 6, 7, 8], [[[0.5]] * 8], guarantees=(
        tuple(Approximate(e, e / 100, "record") for e in range(1, 9)),
    ))  # fmt: skip
    assert "change 2 more times" in str(told)


def test_no_refusal_speaks_for_mechanisms_of_another_notion():
    """The ceiling and the needed epsilon are those of one delta; a mechanism left out for its delta is not denied."""
    promises = ((Pure(1, "record"),), (Approximate(1, 0.5, "record"),))
    curves = exact_curves(["pm", "g"], [1], [[[0.5]], [[0.85]]], guarantees=promises)
    strict = ew.recommend(curves, at_least=0.8, delta=0.0)
    assert strict.verdict[0] == "No: nothing here keeps 80 % of the labels at epsilon <= 4 per record."
    assert strict.closest.mechanism == "pm"
    told = " ".join(strict.notes)
    assert "Nothing was asked that protects so much of g" not in told  # it is the delta that is not accepted
    assert "at epsilon 1 per record no pure mechanism can promise more than 0.731059" in told
    assert "at least epsilon 1.386 per record of a pure mechanism" in told
    loose = " ".join(ew.recommend(curves, at_least=0.8).notes)
    assert "at epsilon 1 and delta 0.5 per record no mechanism can promise" in loose
    with pytest.raises(ValueError, match=r"epsilon 3 is none of the grid; the curves hold epsilon 1$"):
        curves.sentence("pm", 3, 0)


@pytest.mark.slow
def test_a_plot_of_classifiers_with_other_mechanisms_names_those_of_each(tmp_path):
    alike = [exact_curves([name], [1, 2], [[[0.5], [0.6]]]) for name in ("pm", "sw")]
    plot_curves(dict(zip("ab", alike, strict=True)), tmp_path / "c.svg", on=["average"])
    drawn = (tmp_path / "c.svg").read_text()
    assert drawn.count("<!-- pm -->") == drawn.count("<!-- sw -->") == 1


def test_noise_that_leaves_the_range_is_never_promised_to_keep_a_label():
    """Within the declared range the label cannot change; what unclipped noise sends lies beyond it now and then."""
    model = CONSTANT["linear"].fit([[0.1], [0.4], [8.0], [9.0]], [0, 0, 1, 1])
    curves = ew.stability(model, [[0.2]], sensitive=0, mechanisms=["laplace"], epsilons=[0.1], method="lattice")
    assert curves.upper.item() < 1


def test_a_rival_of_several_that_may_win_takes_certainty_away():
    ahead, close = Comparison(np.array([0.1]), 5.0), Comparison(np.array([1.0]), -0.5)
    assert settled([ahead], 0.0) == 1
    for order in ([ahead, close], [close, ahead]):
        assert settled(order, 0.0) is None
    assert settled([Comparison(np.array([0.1]), 1e-3)], 0.01) is None  # ahead by less than rounding


def test_no_probability_below_one_is_called_certain():
    for value in (1 - 1e-7, 1 - 1e-12, np.nextafter(1, 0)):
        assert outward(np.array(value), 0.0).lower < 1
        assert outward(np.array(1 - value), 0.0).upper > 0


def test_a_yes_has_two_sides():
    """What keeps enough only where it protects too little is told, never recommended."""
    curves = exact_curves(["pm", "sw"], [1, 2, 4, 8], [[[0.5], [0.6], [0.7], [0.95]], [[0.5], [0.6], [0.72], [0.9]]])
    found = ew.recommend(curves, at_least=0.9)
    assert not found.feasible
    assert (found.choice, found.choices, found.beyond.mechanism, found.beyond.epsilon) == (None, (), "pm", 8)
    assert (found.closest.mechanism, found.closest.epsilon, found.max_epsilon) == ("sw", 4, 4)
    assert found.verdict[0].startswith("No: nothing here keeps")
    assert "  it would take        pm at epsilon 8: attacker 50 % -> at most 99.97 %" in found.verdict
    allowed = ew.recommend(curves, at_least=0.9, max_epsilon=8)
    assert (allowed.feasible, allowed.choice.epsilon, allowed.beyond) == (True, 8, None)
    with pytest.raises(ValueError, match="nothing to write into a policy"):
        found.policy()


@pytest.mark.parametrize(("sure", "epsilon"), [(0.74, 1), (0.89, 2), (0.983, 4), (0.98, 2), (0.7, None)])
def test_how_sure_an_attacker_may_get_is_another_way_to_say_it(sure, epsilon):
    curves = exact_curves(["pm"], [1, 2, 4], [[[0.9], [0.93], [0.95]]])
    wanted = {1: 0.9, 2: 0.93, 4: 0.95, None: 0.9}[epsilon]
    found = ew.recommend(curves, at_least=wanted, at_most_sure=sure)
    assert (found.choice.epsilon if found.feasible else None) == epsilon
    if epsilon == 2 and sure == 0.98:
        assert not ew.recommend(curves, at_least=0.95, at_most_sure=sure).feasible
    loose = exact_curves(["g"], [1], [[[0.9]]], guarantees=((Approximate(1, 0.1, "record"),),))
    certain = 1 - (1 - 0.1) / (1 + np.e)  # (e + delta) / (e + 1)
    assert ew.recommend(loose, at_least=0.9, at_most_sure=certain + 1e-9).feasible
    assert not ew.recommend(loose, at_least=0.9, at_most_sure=certain - 1e-9).feasible


def test_a_verdict_fits_a_screen():
    """Six lines of eighty letters, whatever is said."""
    rng = np.random.default_rng(0)
    names = ["pm", "sw", "laplace_clipped", "bounded_laplace", "exponential_tight", "krr"]
    for width in (0.0, 0.05):
        for at_least in (0.55, 0.9, 0.99):
            rho = np.sort(rng.uniform(0.5, 1, (6, 7, 30)), axis=1)
            curves = exact_curves(names, [0.5, 1, 2, 3, 4, 6, 8], rho, width=width)
            for on in ("average", "worst"):
                found = ew.recommend(curves, at_least=at_least, on=on)
                assert len(found.verdict) <= 6
                assert max(map(len, (*found.verdict[1:], found.certainty))) <= 80
                assert len(found.verdict[0]) <= 110


def test_a_no_names_a_policy_made_for_the_model_and_quotes_no_ceiling_for_it():
    """A ceiling is about every input: the average, and the worst of these records, may lie above it."""
    for on, at_least in (("average", 0.9), ("average", 0.999), ("worst", 0.999)):
        found = ew.recommend(exact_curves(["pm"], [1, 4], [[[0.5, 0.7], [0.6, 0.8]]]), at_least=at_least, on=on)
        assert found.verdict[-1] == "  made for this model  tailored at epsilon 4 may keep more: epsworth tailor"
