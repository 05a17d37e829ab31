"""Malformed and extreme arguments: a sentence each, never a traceback of another library, a hang or a silent nan."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exposure_worlds import world

from epsworth.exposure import (
    ExposureError,
    OutputPerturbation,
    black_box,
    descend,
    encode,
    expost_objective,
    fit_base,
    kernels,
    linear_gradients,
    loo,
    moves,
    onset,
    plateau_ends,
    profile,
    sensitivity,
    stand_in,
    typical_profile,
    window,
    worst_case,
)

NAN = math.nan
X, Y = world(60, 3)
F = fit_base(X, Y, 0.1)
FOUND = loo(X, Y, F, 0.1)
RNG = np.random.default_rng(0)
MASKED = np.ma.array(X, mask=np.arange(180).reshape(60, 3) == 100)
MODELS = RNG.normal(size=(50, 3))


def descent(**changed):
    given = {"steps": 2, "learning_rate": 0.1, "clip": 1.0, "noise": 1.0, "rng": RNG}
    return descend(linear_gradients(X, Y), changed.pop("start", np.zeros(3)), **{**given, **changed})


BAD = {
    "rng": lambda: window(X, Y, 0.1, rng="5"),
    "rng must": lambda: typical_profile(FOUND, 1.0, rng="5"),
    "rng must be": lambda: stand_in(10, 2, rng="5"),
    "rng must be a": lambda: descent(rng="5"),
    "neighbours must be what loo": lambda: typical_profile(moves(X, Y, F, 0.1), 1.0, rng=RNG),
    "neighbours must be": lambda: profile(moves(X, Y, F, 0.1), [0.0, 0.0, 0.0], rate=1.0),
    "draws": lambda: window(X, Y, 0.1, rng=RNG, draws=0),
    "draws must": lambda: typical_profile(FOUND, 1.0, rng=RNG, draws=0),
    "draws must be": lambda: window(X, Y, 0.1, rng=RNG, draws=10**12),
    "n must be a whole number": lambda: window(X, Y, 0.1, n=0),
    "n must be": lambda: sensitivity(0, 0.1),
    "held_out must have the columns of X, 3, got 2": lambda: window(X, Y, 0.1, rng=RNG, held_out=(X[:, :2], Y)),
    "held_out must be a pair": lambda: window(X, Y, 0.1, rng=RNG, held_out=X),
    "held_out: X, row 0": lambda: window(X, Y, 0.1, rng=RNG, held_out=(X + NAN, Y)),
    "tolerance": lambda: window(X, Y, 0.1, tolerance=NAN),
    "tolerance must": lambda: window(X, Y, 0.1, tolerance=-0.1),
    "adv_safe must not be above adv_exposed": lambda: window(X, Y, 0.1, adv_safe=0.95),
    "adv_safe must lie": lambda: window(X, Y, 0.1, adv_safe=NAN),
    "confidence": lambda: window(X, Y, 0.1, confidence="high"),
    "l2 must lie between": lambda: fit_base(X, Y, 1e-300),
    "l2 must be positive": lambda: fit_base(X, Y, "1"),
    "l2": lambda: window(X, Y, 1e300),
    "X, row 33 holds a missing": lambda: fit_base(MASKED, Y, 0.1),
    "y, row 1 has no label": lambda: fit_base(X, np.ma.array(Y, mask=np.arange(60) == 1), 0.1),
    "X must be numbers": lambda: fit_base([[1.0], [0.5, 1.0]], [0, 1], 0.1),
    "X must be": lambda: fit_base(X * 1j, Y, 0.1),
    "y must be numbers": lambda: fit_base(X, Y * 1j, 0.1),
    "f must hold 3 finite": lambda: loo(X, Y, np.ma.array(F, mask=[0, 1, 0]), 0.1),
    "tol must": lambda: loo(X, Y, F, 0.1, tol=NAN),
    "top must": lambda: loo(X, Y, F, 0.1, tol=0.1, top=-3),
    "model holds a missing": lambda: profile(FOUND, [0.1, NAN, 0.1], 1.0),
    "model must have shape": lambda: profile(FOUND, [0.1], 1.0),
    "d must be at least 1 and rate positive": lambda: profile(FOUND, F, NAN),
    "noise holds a missing": lambda: OutputPerturbation(2, 1.0).losses([[0.1, 0.1]], [NAN, 1.0]),
    "distance holds a missing": lambda: OutputPerturbation(2, 1.0).ball([NAN], 1.0),
    "radius": lambda: OutputPerturbation(2, 1.0).ball([0.1], math.inf),
    "d must be": lambda: OutputPerturbation(2.5, 1.0),
    "models holds a missing": lambda: black_box(MODELS, MODELS, MODELS[:1] + NAN),
    "with_row holds a missing": lambda: black_box(MODELS + NAN, MODELS, MODELS[:1]),
    "radius must": lambda: black_box(MODELS, MODELS, MODELS[:1], radius=NAN),
    "start holds a missing": lambda: descent(start=[NAN, 0, 0]),
    "gradients": lambda: descend(
        lambda f: np.full((3, 2), NAN), [0, 0], steps=1, learning_rate=1, clip=1, noise=1, rng=RNG
    ),
    "steps must": lambda: descent(steps=2.5),
    "noise must": lambda: descent(noise=math.inf),
    "l2 must be finite": lambda: descent(l2=NAN),
    "reg must": lambda: expost_objective(X, Y, F, reg=NAN, noise_scale=1.0),
    "noise_scale": lambda: expost_objective(X, Y, F, reg=1.0, noise_scale=0.0),
    "ratio holds a missing": lambda: onset(np.arange(9), [NAN] * 9),
    "d must be a whole": lambda: plateau_ends(0),
    "d must": lambda: kernels([2]),
    "d must be a whole number of at least 1 and at most": lambda: kernels(10**12),
    "epsilon must be positive": lambda: worst_case("1", 2),
    "u must hold": lambda: kernels(2).adv(np.ma.array([1.0, 2.0], mask=[False, True])),
    "u must hold finite": lambda: kernels(2).kl([1.0, NAN]),
    "t holds a missing": lambda: kernels(2).survival(1.0, NAN),
    "epsilon must not be negative": lambda: kernels(2).delta(1.0, NAN),
    "delta must lie": lambda: kernels(2).epsilon(1.0, NAN),
    "an advantage must lie": lambda: kernels(2).inverse_adv(NAN),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sentence", BAD)
def test_bad_arguments_end_in_a_sentence(sentence):
    with pytest.raises(ExposureError, match=f"^{sentence}"):
        BAD[sentence]()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_rows_scaled_to_length_one_in_any_precision_are_accepted(kind):
    rows = np.random.default_rng(2).normal(size=(500, 50)).astype(kind)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.where(rows[:, 0] > 0, 1, 0)
    assert kind is np.float64 or np.linalg.norm(rows.astype(float), axis=1).max() > 1 + 1e-8
    f = fit_base(rows, labels, 0.1)
    assert loo(rows, labels, f, 0.1).distances.max() <= sensitivity(500, 0.1)


def test_numbers_of_any_size_are_encoded():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"huge": [1e308, -1e308, 0.0], "tiny": [1e-310, 2e-310, 0.0], "t": [0, 1, 1]})
    found = encode(table, "t")
    assert found.names == ("huge", "tiny", "(constant)")
    assert np.isfinite(found.X).all()
    np.testing.assert_allclose(found.X[:, 0] / found.X[:, 2], [1.5**0.5, -(1.5**0.5), 0], atol=1e-12)
