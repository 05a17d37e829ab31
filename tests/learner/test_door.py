"""No value of a record keeps it from being reported; sums that no reports add up to are refused."""

from __future__ import annotations

import datetime
import math
import warnings
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from epsworth.guarantees import Pure
from epsworth.learner import MECHANISMS, Aggregator, Client, LatticeConfig, PrivateValidation, simulate, write_reports
from epsworth.learner.aggregation import MAGIC
from epsworth.learner.mechanism import MOST_USERS, Tally, exact_sum
from epsworth.mechanisms.words import ReplayableWords

every_mechanism = pytest.mark.parametrize("name", sorted(MECHANISMS))
UNUSABLE = [
    ([math.nan, 0.2], 1), ([None, 0.2], 1), (["secret", 0.2], 0), ([[7, 8], 0.2], 0), ([{}, 0.2], 0),
    ([1j, 0.2], 1), ([datetime.date(2000, 1, 1), 0.2], 1), ([np.ones(1), 0.2], 1),
    ([0.3, 0.2], 2), ([0.3, 0.2], None), ([0.3, 0.2], "yes"), ([0.3, 0.2], [1]), ([0.3, 0.2], {}),
    ([0.3, 0.2], math.nan), ([0.3, 0.2], "9" * 5000), ([math.nan, math.inf], object()),
]  # fmt: skip


def config(name="hadamard", **more):
    return LatticeConfig(**{"box": (0, 1), "m": 3, "d": 2, "mechanism": name, "epsilon": 1} | more)


@pytest.mark.parametrize("outside", ["clip", "zero"])
@every_mechanism
def test_an_unusable_record_is_reported_with_a_law_that_does_not_depend_on_it(name, outside):
    """Given the same randomness, the same report: that of a user who states nothing."""
    c = config(name, outside=outside)
    nothing = c.kernel.draw(config(name, outside="zero").users([[7.0, 7.0]], [0]), ReplayableWords(1))
    for x, label in UNUSABLE:
        assert (c.kernel.draw(c.admitted([x], [label]), ReplayableWords(1)) == nothing).all()
        assert Aggregator(c).add(Client(c).report(x, label)) == 1


@every_mechanism
def test_an_infinite_value_lies_outside_the_box(name):
    for outside in ("clip", "zero"):
        c = config(name, outside=outside)
        found, finite = (c.admitted([[0.1, far], [-far, 0.1]], [0, 1]) for far in (math.inf, 1e9))
        assert all((a == b).all() for a, b in zip(found, finite, strict=True))
        huge = c.admitted([[0.1, 10**400], [-(10**400), 0.1]], [0, 1])
        assert all((a == b).all() for a, b in zip(huge, finite, strict=True))


def test_one_unusable_record_changes_no_other(tmp_path):
    c = config()
    X, y = [[0.1, 0.9], [0.4, "?"], [0.7, 0.2]], [0, 1, True]
    usable = c.users([[0.1, 0.9], [0.7, 0.2]], [0, 1])
    for table in (X, np.array(X, dtype=object), pl.DataFrame(np.array(X, dtype=str), schema=["x0", "x1"]).to_numpy()):
        for labels in (y, pl.Series([0, 1, 1]), np.array(["0", "oh", "1"]), pl.Series([0, None, 1]).to_numpy()):
            found = c.admitted(table, labels)
            assert found.outside.tolist() == [False, True, False]
            assert (found.unit[[0, 2]] == usable.unit).all()
            assert found.label[[0, 2]].tolist() == [0, 1]
    assert write_reports(c, X, y, tmp_path / "r.ldp") == 3
    texts = config(classes=("0", "true"))
    assert texts.admitted([[0.1, 0.1]] * 2, [0, "true"]).outside.tolist() == [False, False]
    truths = config(classes=(False, True))
    assert truths.admitted([[0.1, 0.1]] * 3, ["true", "False", "?"]).label.tolist() == [1, 0, 0]


@pytest.mark.parametrize("x", [[0.1], [0.1, 0.2, 0.3], None, 0.3, {"a": 1, "b": 2}, "secret"])
def test_a_record_of_another_shape_is_refused_without_showing_it(x):
    with pytest.raises(ValueError, match="X must have") as refused:
        Client(config()).report(x, 1)
    assert "secret" not in str(refused.value)
    for labels in ([1, 0], 5, "ab", [[0]] * 3):
        with pytest.raises(ValueError, match="y "):
            Client(config()).reports([[0.1, 0.1]], labels)


@pytest.mark.parametrize("given", [Decimal("0.5"), np.float32(0.5), " 0.5 "])
def test_numbers_of_every_kind_are_read(given):
    assert config().admitted([[given, None], [given, 0.5]], [0, 0]).unit[1].tolist() == [0.5, 0.5]


def test_where_records_are_refused_the_promise_is_of_those_who_report():
    c = config(outside="refuse")
    for promise in (c.guarantee, Client(c).guarantee(reports=2)):
        assert str(promise).endswith("of those who report")
        assert isinstance(promise, Pure)
    assert "those who report" not in str(config().guarantee)
    for x, label in [*UNUSABLE, ([2, 0.1], 1)]:
        with pytest.raises(ValueError, match=r"row 0|X must hold numbers|y must be") as refused:
            Client(c).report(x, label)
        assert "secret" not in str(refused.value)


def test_every_user_votes_in_private_validation():
    """A candidate that fails on a record is wrong about it: whether a vote comes tells nothing."""

    def strict(X):
        if np.isnan(X).any():
            raise KeyError("missing")
        return np.ones(len(X))

    validation = PrivateValidation([strict], epsilon=50)
    assert validation.vote([[0.5], [math.nan], [0.1]], [1, 1, 0])[:, 1].tolist() == [1, 0, 0]
    assert validation.vote([[0.5], [0.1]], np.array([1, None], dtype=object))[:, 1].tolist() == [1, 0]


def sums(name, users=60):
    rng = np.random.default_rng(0)
    c = config(name, m=2, d=1)
    return simulate(c, rng.random((users, 1)), rng.integers(2, size=users), rng)


@every_mechanism
def test_sums_that_no_reports_add_up_to_are_refused(name):
    good = sums(name)
    counts, users = good.tally
    assert Aggregator.from_state(good.state()) == good
    bad = [(counts, -users), (counts, users * 0), (counts + (1 << 62), users), (counts - (1 << 62), users)]
    bad += [
        (counts, users + MOST_USERS),
        (counts + (1 << 61) * 2, users + (1 << 61) * 2),
        (counts * 0 + (2**63 - 1), users),
    ]
    bad += [] if name == "slides" else [(counts - counts.max() - 1, users), (counts + users.sum() + 1, users)]
    if name != "slides":  # a count below zero, the sum as it was
        one, other, *rest = counts.ravel().tolist()
        bad.append((np.array([-1, other + one + 1, *rest]).reshape(counts.shape), users))
    for tally in bad:
        forged = Aggregator(good.config)
        forged.tally = Tally(*tally)
        for ask in (lambda f=forged: Aggregator.from_state(f.state()), lambda f=forged: good.merge(f)):
            with pytest.raises(ValueError, match=r"contradict|users; aggregate"):
                ask()
    for odd in (Tally(counts.astype(float), users), Tally(counts[:-1], users), Tally(counts, np.append(users, 0))):
        with pytest.raises(ValueError, match="must be 64-bit whole numbers"):
            Aggregator(good.config, odd)


@pytest.mark.parametrize("name", ["hadamard", "cosine", "krr", "parity", "ternary"])
def test_a_single_vote_too_many_is_seen(name):
    good = sums(name)
    counts = good.tally.counts.copy()
    counts.flat[0] += 1
    with pytest.raises(ValueError, match="contradict"):
        Aggregator(good.config, Tally(counts, good.tally.users))


def test_merging_never_overflows():
    c = config(m=1, d=1)
    half = Aggregator(c, Tally(np.array([[MOST_USERS // 2, 1]]), np.array([MOST_USERS // 2 + 1])))
    with pytest.raises(ValueError, match="aggregate fewer reports together"):
        half.merge(half)
    assert exact_sum(np.array([2**62, 2**62, 2**62, -3])) == 3 * 2**62 - 3
    with pytest.raises(ValueError, match="contradict"):  # as words, four counts of 2^62 add up to nobody
        Aggregator(config(m=2, d=1), Tally(np.full((2, 2), 2**62), np.array([0])))
    wide = config("slides", m=1, d=1)
    sums = Tally(np.full((2, 2), 1 << 61), np.array([1 << 40, 1 << 40]))
    with pytest.raises(ValueError, match="contradict"):
        Aggregator(wide, sums).merge(Aggregator(wide, sums))


@pytest.mark.parametrize("side", [0, 1])
def test_sums_that_were_tampered_with_are_not_merged(side):
    """Together with another's, negative counts can look like sums of reports."""
    pair = [sums("hadamard"), sums("hadamard")]
    tally = pair[side].tally
    pair[side].tally = Tally(tally.counts - [[1, -1]] * len(tally.counts), tally.users)
    pair[side].tally.counts[0] = [-1, tally.counts[0].sum() + 1]
    with pytest.raises(ValueError, match="contradict"):
        pair[0].merge(pair[1])


class Strange:
    """An object all of whose answers fail."""

    def __float__(self):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError

    def __hash__(self):
        raise RuntimeError

    __repr__ = __str__ = __float__


@pytest.mark.parametrize("odd", [np.longdouble("1e4000"), np.ma.masked, Strange(), np.ones(1), None, 10**400, "?"],
                         ids=lambda odd: type(odd).__name__)  # fmt: skip
def test_no_value_makes_a_client_fail_or_warn(odd):
    c = config(m=2, d=2)
    client = Client(c)
    masked = np.ma.array([[0.3, 0.2]], mask=[[True, False]])
    column = np.empty(1, dtype=object)
    column[0] = odd
    with np.errstate(all="raise"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        reports = [client.report([odd, 0.2], 1), client.report([0.1, 0.2], odd), client.reports(masked, [1])]
        reports += [client.reports([[0.1, odd]], column)]
        reports += [client.reports(np.array([[np.longdouble("1e4000"), 0]]), [1])]
    assert not seen
    assert {len(report) for report in reports} == {c.report_size}


def test_documents_that_cannot_be_read_are_refused_in_a_sentence(tmp_path):
    deep = "[" * 100_000
    (tmp_path / "c.json").write_text(deep)
    with pytest.raises(ValueError, match=r"configuration .*nested"):
        LatticeConfig.load(tmp_path / "c.json")
    with pytest.raises(ValueError, match=r"configuration cannot be read: .*nested"):
        Aggregator.from_state(MAGIC + deep.encode() + b"\n")
    with pytest.raises(ValueError, match="not a state"):
        Aggregator.from_state("text")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"box": "wide"}, "box must be one pair of numbers"),
        ({"box": {"a": 1}}, "box must be one pair of numbers"),
        ({"box": [[0, 1], [2]]}, "box must be one pair of numbers"),
        ({"box": [[0, math.nan]]}, "need finite low < high"),
        ({"m": math.nan}, "m must be a whole number"),
        ({"m": 10**5000}, "m must be at most"),
        ({"mechanism": []}, "mechanism must be auto or one of"),
        ({"outside": {}}, "outside must be one of"),
        ({"names": 5}, "names must be a list of texts"),
        ({"names": "ab"}, "names must be a list of texts"),
        ({"names": [None, 1]}, "names must be a list of texts"),
        ({"classes": [0, math.inf]}, "classes must be texts or numbers"),
        ({"classes": None}, "classes must be a list"),
        ({"version": True}, "not an epsworth-cells document"),
        ({"alpha": "1e99999999"}, "alpha must"),
        ({"alpha": "1e-99999999"}, "alpha must"),
        ({"alpha": Decimal("1e99999999")}, "alpha must"),
        ({"alpha": 10**5000}, "alpha must"),
    ],
)  # fmt: skip
def test_entries_of_another_kind_are_refused_by_name(change, message):
    document = {"version": 1, "box": [[0, 1], [0, 1]], "m": 4, "alpha": 1} | change
    with pytest.raises(ValueError, match=message):
        LatticeConfig.from_dict(document)
