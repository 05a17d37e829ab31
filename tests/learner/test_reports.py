"""Configurations, reports and aggregation: exact laws, exact sums, refusals."""

from __future__ import annotations

import inspect
import itertools
import math
import zlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsworth.client.kernels import exp_below
from epsworth.learner import MECHANISMS, Aggregator, Client, LatticeConfig, simulate
from epsworth.learner.coins import WORD, flip_weight, uniform
from epsworth.learner.mechanism import Users
from epsworth.learner.mechanisms import Hadamard, Ternary, odd_overlap, transform
from epsworth.learner.wire import MANY, SHORT, VERSION, check, pack
from epsworth.mechanisms.rational import stated
from epsworth.mechanisms.words import ReplayableWords
from reproduction.published_lattice import discrete_laplace

ALPHAS = [0.05, 0.25, 1.0, math.log(3), 1.5, 2.0, 4.0, 12.0, 50.0, 200.0]
every_mechanism = pytest.mark.parametrize("name", sorted(MECHANISMS))


def config(name="hadamard", *, m=4, d=2, epsilon=1.0, **more):
    return LatticeConfig(box=(0, 1), m=m, d=d, mechanism=name, epsilon=epsilon, **more)


def data(n, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, (rng.random(n) < X[:, 0]).astype(int)


@pytest.mark.parametrize("epsilon", ALPHAS)
def test_a_flipped_bit_keeps_epsilon_in_integers(epsilon):
    f, bound = flip_weight(stated(epsilon, "epsilon")), exp_below(stated(epsilon, "epsilon"))
    assert Fraction(WORD - f, f) <= bound
    if epsilon < 40:  # the least such weight
        assert Fraction(WORD - f + 1, f - 1) > bound


@pytest.mark.parametrize("epsilon", ALPHAS)
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.cases(1)
def test_ternary_reports_keep_epsilon_by_enumeration(epsilon, cells):
    """All outputs of all users, the one who states nothing included, as products of integer weights."""
    kernel = Ternary(stated(epsilon, "epsilon"), cells, 1, 2)
    right, wrong, noise = kernel.weights
    own = {1: right, 0: WORD - right - wrong, -1: wrong}
    none = {1: noise, 0: WORD - 2 * noise, -1: noise}
    users = [None, *itertools.product(range(cells), (1, -1))]

    def weight(user, output):
        parts = [own[trit * user[1]] if user and cell == user[0] else none[trit] for cell, trit in enumerate(output)]
        return math.prod(parts)

    worst = Fraction(0)
    for output in itertools.product((-1, 0, 1), repeat=cells):
        weights = [weight(user, output) for user in users]
        assert all(w >= 0 for w in weights)
        if max(weights):
            assert min(weights) > 0
            worst = max(worst, Fraction(max(weights), min(weights)))
    assert worst <= exp_below(stated(epsilon, "epsilon"))
    if epsilon < 40:
        assert math.log(worst) == pytest.approx(epsilon, rel=1e-6)  # tight


@pytest.mark.parametrize("epsilon", ALPHAS)
def test_other_reports_keep_epsilon_by_enumeration(epsilon):
    """Krr, oue, hadamard, cosine: the largest ratio of the integer weights that their draws compare words with."""
    bound, exact = exp_below(stated(epsilon, "epsilon")), stated(epsilon, "epsilon")
    krr = MECHANISMS["krr"](exact, 3, 1, 2)
    share = Fraction(WORD - krr.keep, 6 * WORD)
    assert 1 < (Fraction(krr.keep, WORD) + share) / share <= bound
    f = flip_weight(exact)
    # oue: own bit fair, the others f; two users differ in two bits
    half, other = Fraction(1, 2), Fraction(f, WORD)
    ratios = [
        half * (other if b else 1 - other) / ((other if a else 1 - other) * half)
        for a, b in itertools.product((0, 1), repeat=2)
    ]  # fmt: skip
    assert max(ratios) <= bound
    # cosine: the weight of a bit for the extreme values of a coefficient
    low, high = f, f + (1 << 32) * ((WORD - 2 * f) >> 32)
    assert Fraction(high, low) <= bound
    assert Fraction(WORD - low, WORD - high) <= bound


def test_uniform_numbers_are_uniform():
    # a chi-square of 6 degrees below 27.9: false alarm 1e-4
    counts = np.bincount(uniform(7, 70_000, ReplayableWords(1)), minlength=7)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 27.9


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(4, "1"), (8, "0.7"), (1, "3")])
def test_discrete_laplace_follows_its_law(sensitivity, epsilon):
    n, rate = 40_000, float(epsilon) / sensitivity
    drawn = discrete_laplace(sensitivity, Fraction(epsilon), n, ReplayableWords(2))
    for k in range(-3, 4):  # 7 x 3 checks at 4.5 standard errors: false alarm 1.5e-4
        p = math.tanh(rate / 2) * math.exp(-rate * abs(k))
        assert abs((drawn == k).mean() - p) < 4.5 * math.sqrt(p / n)
    g = math.exp(-rate)
    assert drawn.var() == pytest.approx(2 * g / (1 - g) ** 2, rel=0.1)


def chosen_users(kernel_name, n=100_000):
    """A few points that differ in kind: generic, on the lattice, at the upper end, outside."""
    X = np.array([[0.3, 0.62], [0.5, 0.25], [1.0, 0.1], [1.2, 0.5]])
    rows = np.arange(n) % 4
    return config(kernel_name, m=3, outside="zero"), X[rows], (rows < 2).astype(int)


@every_mechanism
def test_reports_are_unbiased_with_the_stated_variance(name):
    """The mean over many users is V, by the estimate from reports; the variance of empty cells is the formula's."""
    n = 4_000 if name == "slides" else 100_000
    c, X, y = chosen_users(name, n)
    kernel = c.kernel
    users = c.users(X, y)
    aggregate = kernel.tally(kernel.draw(users, ReplayableWords(3)))
    exact = simulate(
        config(name, m=3, epsilon=400.0, outside="zero"),
        X,
        y,
        np.random.default_rng(4),
        users=10**7 if name == "cosine" else 10**9,
    )
    truth = exact.config.kernel.estimate(exact.tally)
    scale = math.sqrt((kernel.variance + 1) / n)
    # at most 16 estimates at 5 standard errors: false alarm 1e-5; the slack is the reference's own sampling
    slack = 0.02 if name in ("cosine", "parity", "hadamard") else 0.01
    assert np.abs(kernel.estimate(aggregate) - truth).max() < 5 * scale + slack


@every_mechanism
def test_simulated_sums_have_the_law_of_reports(name):
    """Mean and variance of estimates over replications: aggregated simulation against explicit reports."""
    n, runs = (60, 150) if name == "slides" else (200, 400)
    c, X, y = chosen_users(name, n)
    kernel, users, rng = c.kernel, c.users(X, y), np.random.default_rng(5)
    words = ReplayableWords(6)
    drawn = np.array([kernel.estimate(kernel.tally(kernel.draw(users, words)))[:, 0] for _ in range(runs)])
    fast = np.array([kernel.estimate(kernel.simulate(users, rng))[:, 0] for _ in range(runs)])
    error = np.sqrt((drawn.var(axis=0) + fast.var(axis=0)) / runs)
    assert (np.abs(drawn.mean(axis=0) - fast.mean(axis=0)) < 5 * error + 1e-12).all()  # false alarm 1e-5
    # the mean over 9 to 16 nearly independent variances, each within 10 % (se sqrt(2/400) = 7 %)
    assert drawn.var(axis=0).mean() == pytest.approx(fast.var(axis=0).mean(), rel=0.15)
    if name not in ("parity", "slides"):  # empty cells dominate; the others divide by a random number of users
        assert fast.var(axis=0).mean() * n == pytest.approx(kernel.variance, rel=0.15)


@pytest.mark.parametrize("name", ["hadamard", "ternary", "krr", "oue", "parity", "slides"])
@pytest.mark.cases(1)
def test_variances_of_empty_cells_are_the_formulas(name):
    """1000 runs of at least 48 nearly independent cells: a relative standard error of about 0.7 %; 5 % are allowed.

    Slides: discrete noise of scale b has variance 2 b^2 - 1/6 or so, never more than the formula's.
    """
    c = LatticeConfig(box=(0, 1), m=64, mechanism=name, epsilon=1)
    rng = np.random.default_rng(9)
    held = c.kernel.holders(c.users(np.full((5000, 1), 0.01), np.arange(5000) % 2))
    found = np.array([c.kernel.estimate(c.kernel.simulate_counts(held, rng))[16:, 0] for _ in range(1000)])
    assert found.var(axis=0).mean() * 5000 == pytest.approx(c.kernel.variance, rel=0.05)


@pytest.mark.parametrize("name", ["hadamard", "krr", "oue", "cosine"])
def test_more_than_two_classes_are_estimated_without_bias(name):
    rng = np.random.default_rng(7)
    X, y = rng.random((1000, 1)), np.array(["a", "b", "c"])[rng.integers(3, size=1000)]
    c = LatticeConfig(box=(0, 1), m=4, classes=("a", "b", "c"), mechanism=name, epsilon=1)
    sums = simulate(c, X, y, rng, users=2_000_000)
    if name == "cosine":
        truth = [[np.mean(np.cos(np.pi * k * X[:, 0]) * (y == label)) for label in c.classes] for k in range(5)]
    else:
        cell = np.floor(4 * X[:, 0]).astype(int)
        truth = [[np.mean((cell == j) & (y == label)) for label in c.classes] for j in range(4)]
    # 15 estimates at 5 standard errors, the population's own sampling included
    assert np.abs(c.kernel.estimate(sums.tally) - truth).max() < 5 * math.sqrt((c.kernel.variance + 1) / 2e6)


def test_the_transform_is_the_hadamard_matrix():
    a = np.arange(8)
    matrix = 1 - 2 * odd_overlap(a[:, None], a)
    values = np.random.default_rng(0).integers(-9, 9, 8)
    assert (transform(values) == matrix @ values).all()


@every_mechanism
def test_reports_are_of_one_size_and_survive_the_journey(name):
    X, y = data(37)
    c = config(name)
    client = Client(c)
    single = [client.report(x, label) for x, label in zip(X, y, strict=True)]
    assert {len(report) for report in single} == {c.report_size}
    messages = c.kernel.draw(c.users(X, y), ReplayableWords(0))
    assert (c.kernel.format.decode(c.kernel.format.encode(messages)) == messages).all()
    one, batch = Aggregator(c), Aggregator(c)
    for report in single:
        one.add(report)
    assert batch.add(single) == 37
    assert one == batch
    assert Aggregator.from_state(one.state()) == one


@every_mechanism
def test_merging_is_associative_to_the_bit(name, tmp_path):
    c = config(name)
    a, b, d = (Aggregator(c) for _ in range(3))
    for seed, part in enumerate((a, b, d)):
        part.add(Client(c).reports(*data(20, seed)))
    assert a.merge(b).merge(d) == a.merge(b.merge(d)) == d + b + a
    a.save(tmp_path / "a")
    assert Aggregator.load(tmp_path / "a") == a


def test_a_client_cannot_be_seeded():
    assert list(inspect.signature(Client).parameters) == ["config"]
    assert not {"rng", "seed", "words"} & set(inspect.signature(Client.report).parameters)
    c = config()
    assert len({Client(c).report([0.3, 0.3], 1) for _ in range(50)}) > 10  # 32 messages; false alarm below 1e-15


@every_mechanism
def test_damaged_reports_are_refused_and_nothing_is_added(name):
    c = config(name)
    X, y = data(3)
    good = Client(c).reports(X, y)
    aggregator = Aggregator(c)
    for position in range(0, len(good), 7):
        for flip in (1, 128):
            bad = bytearray(good)
            bad[position] ^= flip
            with pytest.raises(ValueError, match=f"report {position // c.report_size}: "):
                aggregator.add(bytes(bad))
    for bad in (good[:-1], good + b"x", b""):
        with pytest.raises(ValueError, match="cut or is foreign"):
            aggregator.add(bad)
    with pytest.raises(ValueError, match="report 1 has 3 bytes"):
        aggregator.add([good[: c.report_size], b"abc"])
    assert aggregator.users == 0


def test_messages_that_no_client_sends_are_refused():
    for name, message in [("krr", [200]), ("ternary", [255] * 4), ("slides", [2] + [0] * 100)]:
        c = config(name)
        with pytest.raises(ValueError, match="not a message of this mechanism"):
            Aggregator(c).add(pack(c, np.array([message], dtype=np.uint8)))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["ternary", "oue"]), st.integers(1, 13), st.integers(0, 600), st.integers(0, 2**32))
def test_packed_reports_are_counted_as_a_plain_loop_counts(name, m, n, seed):
    """Run lengths around 255, the longest that a byte counts; every number of entries in the last byte."""
    kernel = config(name, m=m, d=1).kernel
    entries = np.random.default_rng(seed).integers(0, 3 if name == "ternary" else 2, (n, kernel.format.entries))
    per_byte = 8 // kernel.format.bits
    messages = np.zeros((n, kernel.format.size), dtype=np.uint8)
    for row, column in itertools.product(range(n), range(kernel.format.entries)):
        place = column % per_byte
        shift = 2 * place if name == "ternary" else 7 - place
        messages[row, column // per_byte] |= int(entries[row, column]) << shift
    found = kernel.tally(kernel.format.decode(messages))
    if name == "ternary":
        assert ([(entries == 0).sum(axis=0), (entries == 2).sum(axis=0)] == found.counts.T).all()
    else:
        assert (found.counts.diagonal(axis1=1, axis2=2).ravel() == entries.sum(axis=0)).all()
    assert found.users.tolist() == [n]
    spare = 8 * kernel.format.size - kernel.format.bits * kernel.format.entries
    if n and spare:
        messages[-1, -1] |= 1 if name == "oue" else 128
        with pytest.raises(ValueError, match=f"report {n - 1}: its bytes are not a message"):
            kernel.format.decode(messages)


def test_trits_of_three_are_refused():
    """3 is no trit: all bytes of four cells, against the digits written out."""
    kernel = config("ternary", m=4, d=1).kernel
    for byte in range(256):
        block = np.array([[byte]], dtype=np.uint8)
        if 3 in (byte & 3, byte >> 2 & 3, byte >> 4 & 3, byte >> 6):
            with pytest.raises(ValueError, match="not a message of this mechanism"):
                kernel.format.decode(block)
        else:
            assert (kernel.format.decode(block) == byte).all()


def test_a_report_is_version_fingerprint_message_and_the_check_of_zlib():
    c = config()
    report = Client(c).report([0.5, 0.5], 1)
    assert report[:9] == bytes([VERSION]) + bytes.fromhex(c.fingerprint()[:16])
    assert report[-4:] == zlib.crc32(report[:-4]).to_bytes(4, "little")
    assert len(report) == c.report_size == 14


def test_no_damaged_byte_and_no_swap_goes_unseen():
    """All changes of one byte, all swaps of two, all pairs of bits: no check of another report of the same length."""
    report = np.frombuffer(Client(config()).report([0.5, 0.5], 1), dtype=np.uint8)[:-4]
    n, bad = report.size, []
    for at in range(n):
        others = np.tile(report, (255, 1))
        others[:, at] ^= np.arange(1, 256, dtype=np.uint8)
        bad.append(others)
    for one, other in itertools.combinations(range(n), 2):
        swapped = report.copy()
        swapped[[one, other]] = report[[other, one]]
        bad += [swapped[None]] if report[one] != report[other] else []
    for pair in itertools.combinations(range(8 * n), 2):
        flipped = report.copy()
        for bit in pair:
            flipped[bit // 8] ^= 1 << bit % 8
        bad.append(flipped[None])
    assert (check(np.concatenate(bad)) != check(report[None])).all()


@given(st.integers(1, 2 * SHORT), st.integers(0, 2 * MANY), st.integers(0, 2**32))
def test_checks_are_those_of_zlib(size, rows, seed):
    table = np.random.default_rng(seed).integers(256, size=(rows, size), dtype=np.uint8)
    assert check(table).tolist() == [zlib.crc32(row.tobytes()) for row in table]
    assert check(table[:, 1:]).tolist() == [zlib.crc32(row[1:].tobytes()) for row in table]


def test_reports_of_another_version_are_refused_in_a_sentence():
    """Those of version 1 had no byte of a version: they are shorter, and begin with a byte of a fingerprint."""
    c = config()
    report = Client(c).report([0.5, 0.5], 1)
    other = bytes([VERSION + 1]) + report[1:]
    for bad, told in (
        (other, f"report 0: it is not in version {VERSION} of the format"),
        (report + other, f"report 1: it is not in version {VERSION} of the format"),
        (report[1:], f"has 14 in version {VERSION} of the format; one was cut or is foreign"),
        (report[1:] * 14, r"report 0: it is not in version|its fingerprint is not"),
    ):
        with pytest.raises(ValueError, match=told) as refused:
            Aggregator(c).add(bad)
        assert "\n" not in str(refused.value)


def test_configurations_do_not_mix():
    a, b = config(epsilon=1), config(epsilon=2)
    report = Client(b).report([0.5, 0.5], 1)
    with pytest.raises(ValueError, match="made for another configuration"):
        Aggregator(a).add(report)
    with pytest.raises(ValueError, match="different configurations cannot be merged"):
        Aggregator(a).merge(Aggregator(b))
    assert config(epsilon="0.5").fingerprint() == config(epsilon=0.5).fingerprint() != a.fingerprint()
    kinds = [{"m": 5}, {"outside": "zero"}, {"classes": (1, 0)}, {"names": ("a", "b")}, {"name": "krr"}]
    assert len({config(**kind).fingerprint() for kind in kinds} | {a.fingerprint()}) == len(kinds) + 1


def test_a_configuration_survives_its_file(tmp_path):
    c = config("krr", epsilon="0.3", classes=("no", "yes"), names=("age", "bmi"))
    c.save(tmp_path / "c.json")
    assert LatticeConfig.load(tmp_path / "c.json") == c
    text = (tmp_path / "c.json").read_text()
    (tmp_path / "c.json").write_text(text.replace('"m": 4', '"m": 5'))
    with pytest.raises(ValueError, match="edited after it was written"):
        LatticeConfig.load(tmp_path / "c.json")
    (tmp_path / "c.json").write_text(text.replace('"m"', '"mm"'))
    with pytest.raises(ValueError, match="'mm': unknown entry"):
        LatticeConfig.load(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 0}, "m must be a whole number of at least 1"),
        ({"m": 2.5}, "m must be a whole number"),
        ({"epsilon": 0}, "epsilon must be positive and finite"),
        ({"epsilon": math.nan}, "epsilon must be positive and finite"),
        ({"epsilon": math.inf}, "epsilon must be positive and finite"),
        ({"name": "laplace"}, "mechanism must be auto or one of hadamard"),
        ({"name": "ternary", "classes": (0, 1, 2)}, "knows two classes, got 3"),
        ({"classes": (1,)}, "at least two different labels"),
        ({"classes": "ab"}, "classes must be a list of labels"),
        ({"outside": "drop"}, "outside must be one of clip, zero, refuse"),
        ({"d": 7}, "cells on 7 features hold nobody; use mechanism='cosine'"),
        ({"m": 4000}, "more than 1e\\+07 cells"),
        ({"names": ("a",)}, "names must be 2 different names"),
    ],
)  # fmt: skip
def test_bad_configurations_are_refused_in_a_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        config(**change)


@pytest.mark.parametrize("box", [[(0, 1), (1, 1)], [(0, math.inf)], [0, 1, 2], []])
def test_bad_boxes_are_refused(box):
    with pytest.raises(ValueError, match="box"):
        LatticeConfig(box=box, m=4, epsilon=1)


def test_missing_values_are_refused_without_showing_others():
    """By simulation always, by a client only where it was configured to refuse."""
    c, X, y = config(outside="refuse"), [[0.5, 0.5], [math.nan, 0.5]], [0, 1]
    for ask in (lambda: Client(c).reports(X, y), lambda: simulate(config(), X, y, np.random.default_rng(0))):
        with pytest.raises(ValueError, match="row 1, x0: the value is missing or no number"):
            ask()


def test_points_outside_the_box_are_clipped_hidden_or_refused():
    X = [[1.5, 0.4], [0.5, 0.5]]
    assert config(outside="clip").users(X, [0, 1]).unit[0].tolist() == [1.0, 0.4]
    users = config(outside="zero").users(X, [0, 1])
    assert users.outside.tolist() == [True, False]
    assert config(outside="zero").kernel.known(users).tolist()[0] == -1
    with pytest.raises(ValueError, match="row 0 lies outside the box"):
        config(outside="refuse").users(X, [0, 1])


@pytest.mark.parametrize("far", [math.inf, -math.inf, 10**400, -(10**400)], ids=["inf", "-inf", "huge", "-huge"])
def test_infinite_values_lie_outside_the_box(far):
    X, y = [[0.5, 0.5], [far, 0.5]], [0, 1]
    assert config(outside="clip").users(X, y).unit.tolist() == [[0.5, 0.5], [float(far > 0), 0.5]]
    assert config(outside="zero").users(X, y).outside.tolist() == [False, True]
    for ask in (lambda c: Client(c).reports(X, y), lambda c: simulate(c, X, y, np.random.default_rng(0))):
        with pytest.raises(ValueError, match="row 1 lies outside the box"):
            ask(config(outside="refuse"))


def test_unknown_labels_and_wrong_shapes_are_refused():
    for y in ([0, 2], [0, math.nan], ["0", "no"], ["0", "１"], ["0", "1_"]):
        with pytest.raises(ValueError, match=r"row \d: its label is not one of the declared classes"):
            config().users([[0.1, 0.1], [0.2, 0.2]], y)
    for X in ([[0.1]], np.array([[0.1]]), [[0.1, 0.2, 0.3]], [0.1, 0.2]):
        with pytest.raises(ValueError, match=r"X must have (shape|2 values)"):
            config().users(X, [0])
    with pytest.raises(ValueError, match="X has 1 rows but y has 2"):
        config().users([[0.1, 0.1]], [0, 1])


def test_composition_is_stated():
    promise = Client(config(epsilon=0.1)).guarantee(reports=3)
    assert promise.unit == "record"
    assert promise.epsilon >= 0.1 * 3
    assert Client(config(epsilon=0.5)).guarantee().epsilon == 0.5
    with pytest.raises(ValueError, match="reports must be a whole number"):
        Client(config()).guarantee(0)


def test_many_features_warn():
    with pytest.warns(UserWarning, match="cells on 5 features"):
        config(d=5, m=2)
    assert LatticeConfig(box=(0, 1), m=2, d=9, epsilon=1).mechanism == "cosine"


def test_rows_do_not_depend_on_the_data():
    """Chi-square of the rows of users at one point, 15 degrees, below 44.3: false alarm 1e-4."""
    kernel = Hadamard(Fraction(1), 4, 2, 2)
    n = 64_000
    users = Users(np.full((n, 2), 0.9), np.ones(n, dtype=np.int64), np.zeros(n, dtype=bool))
    row = np.bincount(kernel.draw(users, ReplayableWords(8)) // 2, minlength=16)
    assert ((row - n / 16) ** 2 / (n / 16)).sum() < 44.3
