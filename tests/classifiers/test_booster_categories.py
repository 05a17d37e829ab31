"""XGBoost and LightGBM with categories: any table, file and order of levels is answered as by their own ``predict``.

That is asked about a pandas frame in the training's categories, or, for curves, about every value that can be released.
"""

from __future__ import annotations

import functools
import itertools
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

import epsworth as ew
from epsworth.classifiers import ClassifierError, load_model
from epsworth.grids import Grid
from epsworth.records import as_records
from epsworth.space import Feature
from epsworth.tailored.distillation import certificate_of, copy_of
from epsworth.tailored.surrogates import Trees
from readings import tree_model

xgboost = pytest.importorskip("xgboost", "3.1", reason="files of XGBoost hold levels from 3.1 on")
lightgbm = pytest.importorskip("lightgbm", "4.7")

REGIONS, CODES = ["DE", "FR", "IT", "ES", "AT"], [30, 10, 20]  # in no order of their own
RNG = np.random.default_rng(0)
SIZE = 600
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(18, 90, SIZE),
        "region": pd.Categorical(np.where(RNG.random(SIZE) < 0.1, None, RNG.choice(REGIONS, SIZE)), REGIONS),
        "code": pd.Categorical(np.where(RNG.random(SIZE) < 0.1, None, RNG.choice(CODES, SIZE)), CODES),
        "hours": RNG.integers(0, 80, SIZE),
    }
)
TRUTH = (TABLE.age > 50) ^ TABLE.region.isin(["FR", "ES"]) ^ (TABLE.code == 10)
LEVELS = {"region": tuple(REGIONS), "code": tuple(CODES)}
DOMAIN = {"age": (18, 90), "region": REGIONS[::-1], "code": sorted(CODES)}
WHOLE = TABLE.dropna()[:6]


def xgb(**more):
    return xgboost.XGBClassifier(**({"n_estimators": 8, "max_depth": 4, "n_jobs": 1} | more), enable_categorical=True)


def lgbm(**more):
    settings = {"n_estimators": 8, "n_jobs": 1, "verbose": -1, "min_data_per_group": 5, "cat_smooth": 1}
    return lightgbm.LGBMClassifier(**(settings | more))


MODELS = {
    "xgboost": xgb,
    "xgboost one level at a time": functools.partial(xgb, max_cat_to_onehot=50),
    "xgboost dart": functools.partial(xgb, booster="dart", rate_drop=0.2),
    "lightgbm": lgbm,
    "lightgbm forest": functools.partial(lgbm, boosting_type="rf", subsample=0.6, subsample_freq=1),
}
both = pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
every_model = pytest.mark.parametrize("name", MODELS)


@functools.cache
def fitted(name, classes=2):
    truth = TRUTH.astype(int) + (TABLE.code == 20) * (classes > 2)
    return MODELS[name]().fit(TABLE, truth)


@functools.cache
def tables():
    """Return the table in other kinds, orders and types."""
    plain = TABLE.assign(region=TABLE.region.astype(object), code=TABLE.code.astype("Int64"))
    frame = pl.from_pandas(plain)
    arrow = frame.to_arrow()
    texts = frame.with_columns(pl.col("code").cast(pl.String))
    return {
        "pandas": TABLE,
        "another order": TABLE.assign(
            region=TABLE.region.cat.set_categories(["nowhere", *REGIONS[::-1]]),
            code=TABLE.code.cat.reorder_categories(sorted(CODES)),
        ),
        "objects": TABLE.astype({"region": object, "code": object}),
        "numbers with gaps": plain.astype({"code": float, "hours": "Int64"}),
        "other columns": TABLE[["hours", "code", "region", "age"]].assign(more=0),
        "polars": frame,
        "polars categories": frame.with_columns(pl.col("region").cast(pl.Categorical)),
        "polars enum": frame.with_columns(pl.col("region").cast(pl.Enum(sorted(REGIONS)))),
        "polars texts": texts,
        "arrow": arrow,
        "arrow dictionaries": arrow.set_column(1, "region", arrow["region"].dictionary_encode()),
        "arrow views": texts.to_arrow(compat_level=pl.CompatLevel.newest()),
    }


@both
@pytest.mark.parametrize("classes", [2, 3])
def test_every_table_is_answered_as_by_predict(name, classes):
    model = fitted(name, classes)
    asked, own = ew.as_classifier(model), model.predict(TABLE)
    assert asked.inside is model
    assert asked.levels == LEVELS
    for kind, table in tables().items():
        np.testing.assert_array_equal(asked.labels(table), own, err_msg=kind)


@both
def test_files_and_boosters_answer_as_the_model(name, tmp_path):
    model = fitted(name)
    booster = model.get_booster() if name == "xgboost" else model.booster_
    loaded = [booster]
    for file in ("m.json", "m.ubj") if name == "xgboost" else ("m.txt",):
        booster.save_model(tmp_path / file)
        loaded.append(load_model(tmp_path / file))
    for one, kind in itertools.product(loaded, ("another order", "polars texts")):
        asked = ew.as_classifier(one)
        assert asked.levels == LEVELS
        np.testing.assert_array_equal(asked.labels(tables()[kind]), model.predict(TABLE))
        assert tree_model(asked.inside) is not None


@both
def test_numbers_in_arrays_are_codes_and_texts_are_levels(name):
    model = fitted(name)
    codes = np.column_stack([TABLE.age, TABLE.region.cat.codes, TABLE.code.cat.codes, TABLE.hours]).astype(float)
    codes[codes < 0] = np.nan
    assert (ew.as_classifier(model).labels(codes) == model.predict(TABLE)).all()
    mixed = codes.astype(object)
    mixed[:, 1] = TABLE.region.astype(object)
    assert (ew.as_classifier(model).labels(mixed) == model.predict(TABLE)).all()


def unknown():
    """Return records with a region that no model was fitted on."""
    return TABLE[:40].assign(region=TABLE.region[:40].cat.rename_categories({"FR": "XX"}))


def test_unknown_levels_are_missing_to_lightgbm():
    model, asked = fitted("lightgbm"), ew.as_classifier(fitted("lightgbm"))
    own = model.predict(unknown())
    assert (own != model.predict(TABLE[:40])).any()
    for table in (unknown(), pl.from_pandas(unknown().astype({"region": object, "code": float}))):
        np.testing.assert_array_equal(asked.labels(table), own)


def test_unknown_levels_are_refused_as_xgboost_does():
    with pytest.raises(xgboost.core.XGBoostError, match="not in the training set"):
        fitted("xgboost").predict(unknown())
    settings = {"sensitive": "age", "domain": DOMAIN, "mechanisms": "pm", "epsilons": [1.0]}
    for table in (unknown(), pl.from_pandas(unknown().astype({"region": object, "code": float}))):
        with pytest.raises(
            ClassifierError, match="column 'region' holds a level that the model was not fitted on"
        ) as e:
            ew.stability(fitted("xgboost"), table, **settings)
        assert "XX" not in str(e.value)


@both
def test_texts_read_as_numbers_become_their_levels_or_are_refused(name):
    """A reader drops zeros: 1 may stand for "01", and a number stands for no word."""
    zones = pd.DataFrame({"zone": pd.Categorical(["2", "1", "10"] * 60), "x": np.arange(180.0)})
    model = {"xgboost": xgb, "lightgbm": lgbm}[name](n_estimators=3).fit(zones, zones.zone == "2")
    read = zones.assign(zone=zones.zone.astype(int))
    for table in (read, pl.from_pandas(read), read.astype({"zone": float}), zones.astype({"zone": str})):
        np.testing.assert_array_equal(ew.as_classifier(model).labels(table), model.predict(zones))
    padded = zones.assign(zone=zones.zone.cat.rename_categories({"2": "02"}))
    model = {"xgboost": xgb, "lightgbm": lgbm}[name](n_estimators=3).fit(padded, zones.zone == "2")
    np.testing.assert_array_equal(ew.as_classifier(model).labels(padded.astype({"zone": str})), model.predict(padded))
    for first in ([], ["02"]):  # whatever was asked before
        asked = ew.as_classifier(model)
        asked.labels(pl.DataFrame({"zone": ["1", *first], "x": [1.0] * (1 + len(first))}))
        with pytest.raises(ClassifierError, match="'zone' holds numbers where the model knows texts"):
            asked.labels(read)
    asked = ew.as_classifier(fitted(name))
    for kind in ("pandas", "polars enum"):
        table = tables()[kind]
        number = table.assign(region=1) if kind == "pandas" else table.with_columns(region=pl.lit(1))
        with pytest.raises(ClassifierError, match="'region' holds numbers"):
            asked.labels(number)
        text = table.assign(age="x") if kind == "pandas" else table.with_columns(age=pl.lit("x"))
        with pytest.raises(ClassifierError, match="'age' does not hold numbers"):
            asked.labels(text)


TOWNS = ["Zürich", "Bern", "Genève", "Uri"]


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("words", [TOWNS, ["日本", "中国", "a"], ["é", "ü", "ö"]])
def test_files_with_levels_beyond_ascii_answer_as_the_model_in_memory(tmp_path, words, ending):
    levels = sorted(words)
    town = np.array(words, dtype=object)[RNG.integers(len(words), size=240)]
    truth, table = np.isin(town, words[:2]), pd.DataFrame({"town": pd.Categorical(town, levels), "x": np.arange(240.0)})
    arrow = pa.table({"town": pa.array(town.tolist()).dictionary_encode(), "x": table.x.to_numpy()})
    enumerated = pl.DataFrame({"town": pl.Series(town.tolist(), dtype=pl.Enum(levels)), "x": table.x.to_numpy()})
    for given in (table, arrow, enumerated):
        model = xgb(n_estimators=3).fit(given, truth)
        model.save_model(tmp_path / f"m.{ending}")
        loaded, kept = ew.as_classifier(load_model(tmp_path / f"m.{ending}")), ew.as_classifier(model)
        assert loaded.levels == kept.levels
        for asked in (table, enumerated) if given is table else (table, arrow, enumerated):
            if given is not table or asked is table:
                np.testing.assert_array_equal(loaded.labels(asked), truth)
                np.testing.assert_array_equal(kept.labels(asked), truth)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_levels_beyond_ascii_are_whole_or_refused(kind):
    """XGBoost 3.2 keeps those of pandas as "Züric", "hBer", "nGenè" and "veU"."""
    town = np.array(TOWNS, dtype=object)[np.arange(240) % 4]
    table = pd.DataFrame({"town": pd.Categorical(town, TOWNS), "x": np.arange(240.0)})
    given = pl.from_pandas(table).with_columns(pl.col("town").cast(pl.Enum(TOWNS))) if kind == "polars" else table
    truth = np.isin(town, ["Bern", "Uri"])
    asked = ew.as_classifier(xgb(n_estimators=3).fit(given, truth))
    whole = town != "Uri" if kind == "pandas" else np.full(240, True)
    texts = table.astype({"town": object})
    np.testing.assert_array_equal(asked.labels(texts[whole]), asked.inside.predict(given)[whole])
    np.testing.assert_array_equal(asked.labels(texts[whole]), truth[whole])
    np.testing.assert_array_equal(asked.labels(table), truth)  # whose own order tells what is cut
    if kind == "pandas":
        with pytest.raises(ClassifierError, match="levels are cut: XGBoost counts letters beyond ASCII wrongly"):
            asked.labels(texts)
    model = lgbm(n_estimators=3).fit(table, truth)
    np.testing.assert_array_equal(ew.as_classifier(model).labels(texts), model.predict(table))


def test_levels_whose_columns_lightgbm_does_not_tell():
    """Ordered levels count as numbers, and named categories replace those of the table."""
    sizes = TABLE.assign(size=pd.Categorical(RNG.choice(["S", "L", "M"], SIZE), ["S", "M", "L"], ordered=True))
    model = lgbm().fit(sizes, TRUTH ^ (sizes["size"] == "L"))
    asked, texts = ew.as_classifier(model), sizes.astype({"region": object, "code": object, "size": object})
    assert asked.levels == LEVELS | {"size": ("S", "M", "L")}
    np.testing.assert_array_equal(asked.labels(texts), model.predict(sizes))
    few = TABLE.assign(hours=TABLE.hours % 2)  # codes of a level, for all that the model tells
    assert ew.as_classifier(lgbm().fit(few, TRUTH)).levels == LEVELS  # it tells its own categories
    model = lgbm().fit(few, TRUTH, categorical_feature=["hours"])
    asked = ew.as_classifier(model)
    assert asked.levels == {}
    for table in (few, few.assign(region=few.region.cat.reorder_categories(REGIONS[::-1]))):
        np.testing.assert_array_equal(asked.labels(table), model.predict(few))
    with pytest.raises(ClassifierError, match="fitted on 2 columns of categories and does not say on which"):
        asked.labels(few.astype({"region": object}))
    settings = {"domain": DOMAIN, "mechanisms": "krr:k=9", "epsilons": [1.0]}
    few = few.loc[WHOLE.index]
    assert (ew.stability(model, few, sensitive="age", method="cells", **settings).method == "cells").all()
    with pytest.raises(ValueError, match="keeps no order of the sensitive feature 'code'"):
        ew.stability(model, few, sensitive="code", method="cells", **settings)


def test_codes_keep_no_order():
    """20 stands behind 10 and 30 among the levels, which a model may split as numbers."""
    ordered = TABLE.assign(code=TABLE.code.cat.as_ordered())
    settings = {"sensitive": "code", "domain": DOMAIN, "mechanisms": "krr", "epsilons": [1.0]}
    for model in (fitted("xgboost"), fitted("lightgbm"), lgbm().fit(ordered, TRUTH)):
        with pytest.raises(ValueError, match="keeps no order of the sensitive feature 'code'"):
            ew.stability(model, WHOLE, method="cells", **settings)
        assert (ew.stability(model, WHOLE, **settings).method == "grid").all()


def test_levels_that_may_be_read_in_two_ways_are_refused():
    """What is kept of pandas' "éc", "ba", "cb", "zz" would read "é", "cb", .. of polars."""
    words = ["éc", "ba", "cb", "zz"]
    table = pd.DataFrame({"word": pd.Categorical(np.array(words)[np.arange(240) % 4], words), "x": np.arange(240.0)})
    asked = ew.as_classifier(xgb(n_estimators=3).fit(table, table.word == "cb"))
    np.testing.assert_array_equal(asked.labels(table), table.word == "cb")
    with pytest.raises(ClassifierError, match="the levels of the column 'word' in the model are cut"):
        asked.labels(table.astype({"word": object}))


def test_other_models_name_no_levels():
    codes = np.column_stack([TABLE.age, TABLE.hours % 4])
    numbers = xgb(feature_types=["q", "c"]).fit(codes, TRUTH)
    for model in (LogisticRegression().fit(codes, TRUTH), numbers, lgbm().fit(codes, TRUTH, categorical_feature=[1])):
        assert ew.as_classifier(model).levels == {}
        assert ew.as_classifier(lambda X: X[:, 0] > 1).levels == {}


@every_model
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.cases("all")
def test_splits_on_categories_are_read(name, classes):
    """The trees' own sums are the model's margins, for every pair of levels, gaps among them."""
    model = fitted(name, classes)
    found = tree_model(model)
    pairs = list(itertools.product([*REGIONS, None], [*CODES, None], np.linspace(18, 90, 9)))
    region, code, age = zip(*pairs, strict=True)
    table = pd.DataFrame({"age": age, "region": pd.Categorical(region, REGIONS), "code": pd.Categorical(code, CODES)})
    table["hours"] = 40
    how = {"raw_score": True} if "lightgbm" in name else {"output_margin": True}
    margins = model.predict(table, **how).reshape(len(table), -1)
    np.testing.assert_allclose(found.scores(found.before(table)), margins, atol=1e-5)
    assert len(np.unique(margins.round(6), axis=0)) > 20


@both
def test_codes_without_names_are_read_as_the_libraries_read_them(name):
    """Broken and negative codes too."""
    codes = np.column_stack([RNG.uniform(0, 1, SIZE), RNG.integers(0, 9, SIZE)])
    truth = (codes[:, 0] > 0.5) ^ np.isin(codes[:, 1], [1, 4, 6])
    if name == "xgboost":
        model = xgb(feature_types=["q", "c"]).fit(codes, truth)
        how = {"output_margin": True}
    else:
        model, how = lgbm().fit(codes, truth, categorical_feature=[1]), {"raw_score": True}
    odd = np.array([-2, -1, -0.5, 0, 0.99999999999, 1, 3.7, 4, 6.5, 8, 40, 2.0**24, 1e30, np.nan, np.inf])
    probes = np.array(list(itertools.product([0.2, 0.7], odd)))
    probes = probes if name == "lightgbm" else probes[np.isfinite(probes[:, 1]) | np.isnan(probes[:, 1])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that arrays have no names
        own = model.predict(probes, **how)
    found = tree_model(model)
    np.testing.assert_allclose(found.scores(found.before(probes))[:, 0], own, atol=1e-5)
    found = ew.stability(model, codes[:3], sensitive=0, domain={0: (0, 1)}, mechanisms="pm", epsilons=[1.0])
    assert (found.method == "cells").all()


def test_categories_of_a_table_are_no_codes_of_a_model_without_names():
    """XGBoost goes by the table's own codes there, 4 is the code of 0; what it answers is not read."""
    codes = pd.DataFrame({"age": RNG.uniform(0, 1, SIZE), "code": RNG.integers(0, 5, SIZE)})
    truth = (codes.age > 0.5) ^ np.isin(codes.code, [1, 4])
    model = xgb(feature_types=["q", "c"]).fit(codes.to_numpy(), truth)
    table = codes[:5].assign(code=pd.Categorical(codes.code[:5], [4, 3, 2, 1, 0]))
    np.testing.assert_array_equal(ew.as_classifier(model).labels(table), model.predict(table))
    settings = {"sensitive": "age", "domain": {"age": (0, 1)}, "mechanisms": "krr:k=5", "epsilons": [1.0]}
    assert (ew.stability(model, codes[:5], method="cells", **settings).method == "cells").all()
    with pytest.raises(ValueError, match="a step before the trees failed"):
        ew.stability(model, table, method="cells", **settings)


def enumerated(model, record, epsilon, released):
    """Return how often a record keeps its label, by predict's own labels of all that may be released of it.

    ``released``: of each feature, the natural values and their probabilities.
    """
    names, choices = list(released), [list(zip(*released[name], strict=True)) for name in released]
    rows, weights = [], []
    for combination in itertools.product(*choices):
        rows.append([value for value, _ in combination])
        weights.append(np.prod([share for _, share in combination]))
    table = record.iloc[[0] * len(rows)].reset_index(drop=True)
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        kinds = {"region": REGIONS, "code": CODES}.get(name)
        table[name] = pd.Categorical(column, kinds) if kinds else column
    return np.sum(np.array(weights)[model.predict(table) == model.predict(record)[0]])


def krr(levels, own, epsilon):
    law = ew.MECHANISMS["krr"](epsilon, k=len(levels)).law(levels.index(own) / (len(levels) - 1))
    return levels, law.pmf(np.linspace(0, 1, len(levels)))


@both
@pytest.mark.parametrize("kind", ["pandas", "another order", "polars categories", "few levels"])
@pytest.mark.parametrize("sensitive", [["age"], ["region"], ["code", "age"], ["age", "region"]])
@pytest.mark.cases(4)
def test_curves_equal_enumeration(name, kind, sensitive):
    """Randomised response on nine ages and on categories: all that may be released is asked of predict itself."""
    model, epsilons, ages = fitted(name), [0.5, 3.0], np.linspace(18, 90, 9)
    table = tables()["polars" if kind == "few levels" else kind]
    some = WHOLE.index.tolist()
    table = table[some] if isinstance(table, pl.DataFrame) else table.loc[some]
    if kind == "few levels":  # an enumeration without some of those that may be released
        table = table.with_columns(pl.col("region").cast(pl.Enum(WHOLE.region.unique().tolist())))
    found = ew.stability(
        model, table, sensitive=sensitive, domain=DOMAIN, mechanisms="krr:k=9", per="feature", epsilons=epsilons, rng=0
    )
    assert found.confidence == 1
    assert (found.upper - found.lower).max() < 1e-11
    for (e, epsilon), (i, at) in itertools.product(enumerate(epsilons), enumerate(some)):
        record = TABLE.loc[[at]]
        law = ew.MECHANISMS["krr"](epsilon, k=9).law((record.age.item() - 18) / 72)
        released = {"age": (ages.tolist(), law.pmf(np.linspace(0, 1, 9)))} if "age" in sensitive else {}
        for held in {"region", "code"} & set(sensitive):
            released[held] = krr(list(DOMAIN[held]), record[held].item(), epsilon)
        truth = enumerated(model, record, epsilon, released)
        assert found.lower[0, e, i] - 1e-12 <= truth <= found.upper[0, e, i] + 1e-12


@both
@pytest.mark.parametrize("sensitive", [["age"], ["age", "region"]])
@pytest.mark.cases(1)
def test_curves_of_continuous_mechanisms_hold_what_predict_answers(name, sensitive):
    """The exact engine, also beside gaps; 20,000 draws. False-alarm rate 1e-6 a comparison, of which there are 36."""
    model, rng, draws = fitted(name), np.random.default_rng(1), 20_000
    rows = TABLE[TABLE.region.notna()][:3] if "region" in sensitive else TABLE[TABLE.region.isna()][:3]
    found = ew.stability(
        model, rows, sensitive=sensitive, domain=DOMAIN, mechanisms=["pm", "laplace"], per="feature", epsilons=[2.0]
    )
    assert (found.method == "cells").all()
    for (m, mechanism), i in itertools.product(enumerate(["pm", "laplace"]), range(len(rows))):
        record = rows.iloc[[i]]
        ages = ew.MECHANISMS[mechanism](2.0).law((record.age.item() - 18) / 72).sample(draws, rng)
        copies = record.iloc[np.zeros(draws, dtype=int)].assign(age=18 + 72 * ages)
        if "region" in sensitive:
            levels, shares = krr(REGIONS, record.region.item(), 2.0)
            copies["region"] = pd.Categorical(rng.choice(levels, draws, p=shares / shares.sum()), REGIONS)
        kept = int((model.predict(copies) == model.predict(record)[0]).sum())
        sure = binomtest(kept, draws).proportion_ci(1 - 1e-6)
        assert sure.low <= found.upper[m, 0, i]
        assert found.lower[m, 0, i] <= sure.high
        assert found.upper[m, 0, i] - found.lower[m, 0, i] < 1e-10


@both
def test_copies_for_clients_answer_as_predict(name):
    """Trees over words: what a client computes where a policy is tailored to the model."""
    model = fitted(name, 3)
    grids = [
        Grid(Feature("age", 18, 90), bits=10, missing=40),
        Grid(Feature("region", categories=tuple(REGIONS[::-1])), missing="FR", outside="FR"),
        Grid(Feature("code", categories=tuple(CODES)), missing=30, outside=30),
        Grid(Feature("hours", 0, 80), bits=6, missing=0),
    ]
    records = as_records(WHOLE)
    copy = copy_of(model, grids, records)
    assert isinstance(copy, Trees), copy
    rng = np.random.default_rng(2)
    places = np.column_stack([rng.integers(grid.input.places, size=800) for grid in grids])
    table = pd.DataFrame({grid.name: grid.values[places[:, j]] for j, grid in enumerate(grids)})
    own = model.predict(
        table.assign(region=pd.Categorical(table.region, REGIONS), code=pd.Categorical(table.code, CODES))
    )
    certain = certificate_of(model, grids, records, copy)(places)
    assert (model.classes_[copy(places)] == own)[certain].all()
    assert certain.mean() > 0.95


@both
@pytest.mark.cases(1)
def test_the_command_asks_about_csv_files(cli, tmp_path, monkeypatch, name):
    """Levels as texts, numbers and gaps; the answer is that of Python about the frame itself."""
    monkeypatch.chdir(tmp_path)
    model = fitted(name)
    booster = model.get_booster() if name == "xgboost" else model.booster_
    file = "cat.json" if name == "xgboost" else "cat.txt"
    booster.save_model(file)
    TABLE[:12].to_csv("reg.csv", index=False)
    (tmp_path / "age.toml").write_text("[features.age]\nlower = 18\nupper = 90\n")
    code, out, err = cli(
        "utility", file, "reg.csv", "-s", "age", "--domain", "age.toml", "-e", "2", "-m", "pm", "--json", "-"
    )
    assert (code, err.count("Error")) == (0, 0), err
    told = json.loads(out)
    want = ew.stability(model, TABLE[:12], sensitive="age", domain=DOMAIN, mechanisms="pm", epsilons=[2.0])
    assert set(told["method"][0]) == {"cells"}
    np.testing.assert_allclose(told["stability"]["lower"], want.lower, atol=1e-12)
    assert TABLE[:12].region.isna().any()
    assert len(set(want.lower.ravel().round(6).tolist())) > 2
    unknown()[:12].to_csv("reg.csv", index=False)
    code, out, err = cli("utility", file, "reg.csv", "-s", "age", "--domain", "age.toml", "-e", "2", "-m", "pm")
    assert code == (2 if name == "xgboost" else 0)
    assert "XX" not in err
    assert ("'region' holds a level that the model was not fitted on" in err) == (name == "xgboost")
