"""Which rows a world holds: units, strata, pairs; trials and their resumption."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import combinations, product

import joblib
import numpy as np
import pytest

from epsworth.pac.mechanism import FunctionMechanism
from epsworth.pac.simulation import Experiment, relative_error, simulate, variances_settled
from epsworth.pac.worlds import Listed, Sampler, Units, subset, units_of
from epsworth.parallel import batches_of, in_order

STRATA = np.repeat([0, 1, 2], [9, 6, 5])
ROWS = np.random.default_rng(0).normal(size=(20, 2))


def sampler(rate=0.5, paired=True, groups=None, rows=ROWS, seed=0):
    return Sampler(units_of(rows, STRATA, groups), rate, seed, paired)


def test_pairs_put_every_row_in_exactly_half_of_the_worlds():
    members = sampler().draw(range(64))
    assert (members.sum(axis=0) == 32).all()
    assert (members[0::2] == ~members[1::2]).all()
    assert Listed.of(members).prior == 0.5
    for stratum, size in ((0, 9), (1, 6), (2, 5)):
        held = members[:, stratum == STRATA].sum(axis=1)
        assert set(held) <= {size // 2, (size + 1) // 2}


def test_worlds_depend_on_their_number_and_seed_only():
    whole = sampler().draw(range(40))
    parts = np.concatenate([sampler().draw(range(0, 13)), sampler().draw(range(13, 40))])
    assert (whole == parts).all()
    assert (whole != sampler(seed=1).draw(range(40))).any()


def test_other_rates_keep_their_share_of_every_class():
    members = sampler(rate=0.3, paired=False).draw(range(200))
    for stratum, size in ((0, 9), (1, 6), (2, 5)):
        held = members[:, stratum == STRATA].sum(axis=1)
        assert set(held) <= {max(1, int(0.3 * size)), int(0.3 * size) + 1}
    assert Listed.of(members).prior == np.maximum(members.mean(axis=0), 1 - members.mean(axis=0)).max()


def test_identical_rows_and_groups_go_together():
    rows = ROWS.copy()
    rows[3] = rows[4]
    members = sampler(rows=rows).draw(range(50))
    assert (members[:, 3] == members[:, 4]).all()
    groups = np.arange(20)
    groups[[4, 5, 6]] = 4
    members = sampler(rows=rows, groups=groups).draw(range(50))
    assert all((members[:, 3] == members[:, other]).all() for other in (4, 5, 6))  # chained by the identical row


def test_the_secret_subsample_cannot_be_repeated():
    one = sampler(paired=False)
    fresh = [one.fresh() for _ in range(8)]
    assert any((fresh[0] != other).any() for other in fresh[1:])  # false alarm below 1e-15
    listed = one.draw(range(500))
    assert np.isin(fresh[0].sum(), listed.sum(axis=1))


def test_repeated_worlds_are_counted():
    assert Listed.of(np.array([[1, 0], [1, 0], [0, 1]], dtype=bool)).multiplicity == 2


def experiment(function=lambda X: X.mean(axis=0)):
    return Experiment(FunctionMechanism.prepare(function, ROWS, None), ROWS, None, sampler())


def test_rows_reach_the_function_in_the_pools_order():
    seen = []
    simulate(experiment(lambda X: (seen.append(X.copy()), X.mean(axis=0))[1]), 8)
    position = {tuple(row): i for i, row in enumerate(ROWS)}
    assert all(np.all(np.diff([position[tuple(row)] for row in rows]) > 0) for rows in seen)


def test_failures_become_the_default_and_are_counted():
    def fragile(X):
        if ROWS[0] in X:
            raise RuntimeError("no")
        return np.array([np.nan]) if ROWS[1] in X else np.array([X.sum()])

    one = Experiment(FunctionMechanism(np.array([5.0]), fragile), ROWS, None, sampler())
    trials, members = simulate(one, 64), sampler().draw(range(64))
    np.testing.assert_array_equal(trials.failed, members[:, 0] | members[:, 1])
    assert (trials.outputs[trials.failed] == 5.0).all()


def test_changing_length_is_refused():
    with pytest.raises(ValueError, match="its length must not depend on the rows"):
        simulate(experiment(lambda X: np.unique(X.round(0))), 64)


@pytest.mark.slow
def test_workers_and_interruptions_change_nothing(tmp_path):
    path, shares = tmp_path / "trials.npz", []
    whole = simulate(experiment(_mean), 128)
    np.testing.assert_array_equal(simulate(experiment(_mean), 128, n_jobs=2).outputs, whole.outputs)
    COUNTED.update(calls=0, last=70)
    with pytest.raises(KeyboardInterrupt):
        simulate(experiment(_counting), 128, checkpoint=path)
    assert path.exists()
    COUNTED.update(calls=0, last=None)
    resumed = simulate(experiment(_counting), 128, checkpoint=path, progress=shares.append)
    np.testing.assert_array_equal(resumed.outputs, whole.outputs)
    assert COUNTED["calls"] == 128 - 64 + 1  # 64 saved; one run on the pool
    assert shares == [0.75, 1.0]
    with pytest.raises(ValueError, match="belongs to other data"):
        simulate(experiment(lambda X: X.sum(axis=0)), 128, checkpoint=path)
    with pytest.raises(ValueError, match="does not exist; create it or choose another"):
        simulate(experiment(_mean), 128, checkpoint=tmp_path / "none" / "trials.npz")


COUNTED = {"calls": 0, "last": None}


def _counting(X):
    COUNTED["calls"] += 1
    if COUNTED["calls"] == COUNTED["last"]:
        raise KeyboardInterrupt
    return _mean(X)


def _mean(X):
    return X.mean(axis=0)


@pytest.mark.slow
def test_a_rule_to_stop_sees_what_was_saved_as_if_it_had_just_run(tmp_path):
    """It ends the run at the same batch however often, and wherever, the run was interrupted."""
    path, enough = tmp_path / "trials.npz", lambda outputs: len(outputs) >= 500
    whole = simulate(experiment(_counting), 1024, stop=enough)
    assert len(whole.outputs) == 512
    for last in (None, None, 700, None):
        COUNTED.update(calls=0, last=last)
        found = simulate(experiment(_counting), 1024, stop=enough, checkpoint=path)
        np.testing.assert_array_equal(found.outputs, whole.outputs)
    simulate(experiment(_counting), 1024, checkpoint=path)
    assert len(simulate(experiment(_counting), 1024, stop=enough, checkpoint=path).outputs) == 512
    COUNTED.update(calls=0)
    assert len(simulate(experiment(_counting), 40, checkpoint=path).outputs) == 40
    simulate(experiment(_counting), 1024, checkpoint=path)
    assert COUNTED["calls"] <= 10 + 2  # all 1024 are still there: short runs took none away


def test_a_checkpoint_is_its_owners_only(tmp_path):
    path = tmp_path / "trials.npz"
    path.touch(mode=0o644)
    path.unlink()
    simulate(experiment(_mean), 64, checkpoint=path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_no_checkpoint_is_refused_in_one_sentence_and_kept(tmp_path):
    path = tmp_path / "trials.npz"
    whole = simulate(experiment(_mean), 64, checkpoint=path)
    content = path.read_bytes()
    np.save(tmp_path / "array.npy", np.arange(3))
    damaged = [b"", b"no zip", content[:-30], content[: len(content) // 2], (tmp_path / "array.npy").read_bytes()]
    for other in damaged:
        path.write_bytes(other)
        with pytest.raises(ValueError, match=r"^cannot resume from .*: it is no whole file of trials; remove it"):
            simulate(experiment(_mean), 64, checkpoint=path)
        assert path.read_bytes() == other
    rng, refused = np.random.default_rng(0), 0
    for place in rng.integers(len(content), size=200):  # a flipped bit is refused or harmless
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << int(rng.integers(8)))]) + content[place + 1 :])
        try:
            np.testing.assert_array_equal(simulate(experiment(_mean), 64, checkpoint=path).outputs, whole.outputs)
        except ValueError as error:
            assert str(error).startswith("cannot resume from")  # noqa: PT017
            refused += 1
    assert refused > 100


def _scaled(factor, shift=0):
    return lambda X: (X * factor).mean(axis=0) * 0 + shift * 0


def test_functions_are_known_by_what_they_do_not_by_their_name():
    """All of these are the same on the pool: 0."""
    same = [_scaled(1), _scaled(1)]
    others = [
        _scaled(2), _scaled(1, 3), _scaled(np.zeros(2000)), _scaled(np.eye(1, 2000, 1000)[0]), lambda X: X[0] * 0,
        lambda X: X[1] * 0, lambda X: X.sum(axis=0) * 0, lambda X, a=1: X[0] * 0, lambda X, a=2: X[0] * 0,
        lambda X: (lambda z: z[0] * 0)(X), lambda X: (lambda z: z[1] * 0)(X), partial(_times, factor=1),
        partial(_times, factor=2), lambda X: X[0] * 0 * ("a" in {"a", "b"}),
    ]  # fmt: skip
    marks = [Experiment(FunctionMechanism(np.zeros(2), f), ROWS, None, sampler()).fingerprint() for f in others + same]
    assert marks[-1] == marks[-2]
    assert len(set(marks)) == len(others) + 1

    def unfilled(X):
        return later

    assert Experiment(FunctionMechanism(np.zeros(2), unfilled), ROWS, None, sampler()).fingerprint()
    if not marks:
        later = 1

    def itself(X):
        return X[0] * 0 if len(X) < 0 else itself(X[:0])

    assert Experiment(FunctionMechanism(np.zeros(2), itself), ROWS, None, sampler()).fingerprint()


def _times(X, factor):
    return X[0] * 0


@pytest.mark.slow
def test_batches_and_order():
    assert list(in_order(abs, [-3, 1, -2], n_jobs=2)) == [3, 1, 2]
    assert batches_of(0, 3) == []
    with pytest.raises(ValueError, match="n_jobs must be a whole number"):
        list(in_order(abs, [1], n_jobs=0))


def test_backends_that_cannot_stream_are_used_all_the_same():
    """Those of Ray and multiprocessing return everything at the end."""

    class AtOnce(joblib.parallel.ThreadingBackend):
        supports_return_generator = False

    with joblib.parallel_config(backend=AtOnce(), n_jobs=2):
        assert list(in_order(abs, [-3, 1, -2])) == [3, 1, 2]


def test_stopping_rules():
    """The relative rule does not see the scale of the outputs; the paper's rule does, and stops at the first look."""
    few, many = (np.random.default_rng(1).normal(size=(n, 4)) for n in (40, 20_000))
    assert relative_error(few, 0.25) > 0.05 > relative_error(many, 0.25)
    assert relative_error(1e-9 * few, 0.25) == pytest.approx(relative_error(few, 0.25), rel=1e-6)
    assert variances_settled(1e-5 * few[:20])
    assert not variances_settled(1e3 * few)


@pytest.mark.parametrize(
    ("sizes", "keep", "chance"),
    [([6], [3], 0.5), ([6], [1], 0.5), ([6], [5], 0.5), ([6], [2], 0.3), ([6], [3], 1e-7), ([4, 1, 3], [2, 1, 1], 0.5)],
)
@pytest.mark.cases(1)
def test_subsets_of_fixed_size_are_uniform_whatever_the_coins(sizes, keep, chance):
    """Counts of all subsets of these sizes over 4000 draws (chi-square, 6 deviations; seeded)."""
    sizes, keep = np.array(sizes), np.array(keep)
    words = np.random.PCG64(5).random_raw
    counts = Counter(tuple(np.flatnonzero(subset(words, sizes, keep, chance))) for _ in range(4000))
    parts = [
        combinations(range(end - size, end), k) for end, size, k in zip(np.cumsum(sizes), sizes, keep, strict=True)
    ]
    all_of_them = {sum(parts, ()) for parts in product(*parts)}
    assert set(counts) <= all_of_them
    free = len(all_of_them) - 1
    chi_square = sum((counts[one] - 4000 / (free + 1)) ** 2 for one in all_of_them) * (free + 1) / 4000
    assert chi_square < free + 6 * np.sqrt(2 * free)


def test_large_subsets_are_of_their_size_and_independent():
    """Neighbours, and units 64 apart, are together as often as a uniform half has them (6 deviations; seeded)."""
    sizes, n = np.array([3000, 1, 7001]), 10_002
    words, together = np.random.PCG64(1).random_raw, []
    for _ in range(50):
        half = subset(words, sizes, np.array([1500, 1, 3500]), 0.5)
        assert [part.sum() for part in np.split(half, [3000, 3001])] == [1500, 1, 3500]
        together.append([(half[:-gap] == half[gap:]).mean() for gap in (1, 8, 64)])
    assert np.abs(np.mean(together, axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(50 * n)


def test_strata_may_lie_scattered():
    scattered = Units(np.arange(9), np.array([1, 0, 2, 1, 0, 2, 1, 0, 2]))
    members = Sampler(scattered, 0.4, 3, paired=False).draw(range(300))
    for stratum in range(3):
        assert set(members[:, scattered.stratum == stratum].sum(axis=1)) == {1, 2}  # 1.2 of three
    assert np.abs(members.mean(axis=0) - 0.4).max() < 6 * np.sqrt(0.24 / 300)


def test_identical_rows_are_found_also_where_their_hashes_agree(monkeypatch):
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1e-300]])
    expected = [0, 0, 1, 0, 2]
    assert units_of(rows, np.zeros(5, dtype=int)).of_row.tolist() == expected
    real = np.unique

    def colliding(values, **options):
        return real(np.zeros_like(values) if values.dtype == np.uint64 else values, **options)

    monkeypatch.setattr("epsworth.pac.worlds.np.unique", colliding)
    assert units_of(rows, np.zeros(5, dtype=int)).of_row.tolist() == expected


def test_packed_worlds_are_the_listed_ones():
    one = sampler()
    members, listed = one.draw(range(40)), Listed(one.packed(range(40)), len(one.units))
    units = np.concatenate(list(listed.blocks()), axis=1)
    np.testing.assert_array_equal(units[:, one.units.of_row], members)
    np.testing.assert_array_equal(listed.shares[one.units.of_row], members.mean(axis=0))
