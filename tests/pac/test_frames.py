"""Data frames reach functions as data frames; copied, in their own kind, types and categories."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from epsworth.pac import MI, PACPrivatizer, RecordPosterior

N = 24
COLUMNS = {
    "age": np.arange(20, 20 + N),
    "income": np.random.default_rng(0).normal(size=N),
    "member": np.arange(N) % 2 == 0,
    "town": ["Oslo", "Rome", "Lima"] * (N // 3),
}


def pandas_frame():
    frame = pd.DataFrame(COLUMNS, index=[f"row {i}" for i in range(N)])
    return frame.assign(
        town=pd.Categorical(frame.town, categories=["Rome", "Oslo", "Lima", "Bonn"], ordered=True),
        since=pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(N), "D"),
        few=pd.array(np.arange(N), dtype="Int8"),
    )


def polars_frame():
    frame = pl.DataFrame(COLUMNS)
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, N), eager=True)
    return frame.with_columns(pl.col("town").cast(pl.Enum(["Rome", "Oslo", "Lima", "Bonn"])), since=days)


FRAMES = pytest.mark.parametrize("made", [pandas_frame, polars_frame], ids=["pandas", "polars"])


def shape_of(frame):
    return type(frame), list(frame.columns), list(frame.dtypes)


SEEN = []  # of its module: what a function encloses must not change


def told(rows, labels):
    SEEN.append((shape_of(rows), len(rows), type(labels)))
    return [rows["income"].mean(), (rows["town"] == "Oslo").mean(), rows["age"].sum()]


def fit(function, frame, y=None, **given):
    return PACPrivatizer(function, given.pop("budget", MI(0.1)), worlds=16, worlds_seed=0, **given).fit(frame, y)


@FRAMES
@pytest.mark.parametrize("mode", ["exact", "certified"])
def test_a_function_is_given_the_frame_it_was_fitted_on(made, mode):
    frame, seen = made(), SEEN
    seen.clear()
    fitted = fit(told, frame, COLUMNS["member"].astype(int), mode=mode)
    fitted.release()
    assert {one[0] for one in map(repr, seen)} == {repr(seen[0])[0]}
    assert all(shape == shape_of(frame) and kind is np.ndarray for shape, _, kind in seen)
    assert [count for _, count, _ in seen] == [N] + [N // 2] * (len(seen) - 1)
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    if mode == "exact":
        members = fitted.members()
        expected = [COLUMNS["income"][rows].mean() for rows in members]
        np.testing.assert_allclose(fitted.trials_.outputs[:, 0], expected, rtol=1e-12)
        np.testing.assert_array_equal(fitted.trials_.outputs[:, 2], [COLUMNS["age"][rows].sum() for rows in members])


@FRAMES
def test_neither_the_caller_nor_the_function_can_change_the_pool(made):
    frame = made()
    before = frame["income"].to_numpy().copy()

    def in_place(rows):
        found = [float(rows["income"].sum())]
        if isinstance(rows, pd.DataFrame):
            rows.loc[:, "income"] = 0.0
        else:
            rows[0, "income"] = 0.0
        return found

    fitted = fit(in_place, frame, mode="estimated")
    if made is pandas_frame:
        frame.loc[:, "income"] = 7.0
        frame["income"].to_numpy(copy=False)
    else:
        frame[0, "income"] = 7.0
    held = fitted.calibrated_.experiment
    np.testing.assert_array_equal(held.frame["income"].to_numpy(), before)
    assert held.output(np.ones(N, bool))[0] == pytest.approx(before.sum(), abs=1e-12)
    assert fitted.trials_.warned == 0


def test_a_polars_frame_that_lies_on_an_array_is_copied():
    values = np.random.default_rng(0).normal(size=N)
    frame = pl.DataFrame({"x": values})
    fitted = fit(lambda rows: [rows["x"].mean()], frame)
    kept = fitted.calibrated_.experiment.frame["x"].to_numpy().copy()
    values[:] = 7
    np.testing.assert_array_equal(fitted.calibrated_.experiment.frame["x"].to_numpy(), kept)


@FRAMES
def test_rows_are_repeated_where_all_columns_are(made):
    frame = made().drop(columns=["since", "few"]) if made is pandas_frame else made().drop("since")
    twice = pd.concat([frame, frame]) if made is pandas_frame else pl.concat([frame, frame])
    fitted = fit(lambda rows: [len(rows)], twice)
    assert fitted.report()["units"] == N
    assert (fitted.members()[:, :N] == fitted.members()[:, N:]).all()


def test_towns_are_not_near_each_other_because_their_codes_are():
    frame = pd.DataFrame({"town": pd.Categorical([f"town {i}" for i in range(N)])})
    budget = RecordPosterior(0.9, MI(0.1), near=100.0)
    fitted = fit(lambda rows: [(rows.town == "town 3").mean()], frame, budget=budget)
    assert fitted.report()["units"] == N


@FRAMES
def test_what_is_missing_or_may_change_is_refused_by_its_place_and_not_shown(made):
    frame = made()
    if made is pandas_frame:
        hole = frame.assign(town=frame.town.where(np.arange(N) != 3))
        lists = frame.assign(town=[["Alice Smith"]] * N)
    else:
        towns = [None if i == 3 else "Rome" for i in range(N)]
        hole = frame.with_columns(town=pl.Series(towns))
        lists = frame.with_columns(town=pl.Series([["Alice Smith"]] * N))
    with pytest.raises(ValueError, match=r"^row 3, column 'town': the value is missing"):
        fit(len, hole)
    with pytest.raises(ValueError, match=r"^X: the column 'town' holds things that are not numbers, text") as caught:
        fit(len, lists)
    assert "Alice" not in str(caught.value)
    with pytest.raises(ValueError, match="minimum of 4 is required"):
        fit(len, frame[:3])


@FRAMES
def test_an_adapter_and_the_estimators_are_given_numbers(made):
    frame = made()[["age", "income"]]
    fitted = fit("mean", frame)
    np.testing.assert_allclose(fitted.mechanism_.reference, frame.to_numpy().mean(axis=0))
    with pytest.raises(ValueError, match="the column 'town' is not of numbers"):
        fit("mean", made())


def test_a_checkpoint_belongs_to_the_frames_words(tmp_path):
    path, frame = tmp_path / "trials.npz", pandas_frame()
    given = {"checkpoint": path}
    PACPrivatizer(oslo, MI(0.1), worlds=32, worlds_seed=0, **given).fit(frame)
    other = frame.assign(town=frame.town.cat.rename_categories({"Oslo": "Oslo!"}))
    with pytest.raises(ValueError, match="it belongs to other data"):
        PACPrivatizer(oslo, MI(0.1), worlds=32, worlds_seed=0, **given).fit(other)


def oslo(rows):
    return [(rows.town == "Oslo").mean() * 0]
