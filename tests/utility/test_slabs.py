"""Sections: quadratic scores against quadrature that only asks predict, closed forms, sampling; traps of atoms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler

import epsworth as ew
from epsworth.classifiers.reading import unlike
from epsworth.utility.engines.quadratic import Intervals, Leads, _extremes, bracket, quadratic_for
from readings import said
from strategies import sparing

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
BOUNDED = ["pm", "sw", "laplace_clipped", "bounded_laplace", "gaussian_clipped:delta=0.1"]
UNBOUNDED = ["laplace", "gaussian:delta=0.1"]
EPSILONS = [0.5, 2, 6]
COLUMN = 2

MODELS = {
    "qda": QuadraticDiscriminantAnalysis(),
    "scaled qda": make_pipeline(RobustScaler(), QuadraticDiscriminantAnalysis(priors=[0.2, 0.3, 0.5])),
    "naive bayes": GaussianNB(),
    "scaled naive bayes": make_pipeline(MinMaxScaler(), "passthrough", GaussianNB()),
    "mixture": GaussianMixture(3, random_state=0),
    "tied mixture": GaussianMixture(3, covariance_type="tied", random_state=0),
    "diagonal mixture": make_pipeline(StandardScaler(), GaussianMixture(4, covariance_type="diag", random_state=0)),
    "spherical mixture": GaussianMixture(2, covariance_type="spherical", random_state=0),
    "k-means": KMeans(5, random_state=0, n_init=1),
    "scaled k-means": make_pipeline(StandardScaler(), MiniBatchKMeans(3, random_state=0, n_init=1)),
    "centroids": NearestCentroid(),
    "centroids with priors": NearestCentroid(priors=[0.5, 0.3, 0.2]),
}
every_model = pytest.mark.parametrize("name", MODELS)
some_models = pytest.mark.parametrize("name", sparing(MODELS, keep=(0, 3, 6, 9)))


def fitted(name, classes=3):
    keep = 3 - classes <= SPECIES
    model = MODELS[name]
    if name == "centroids with priors" and classes == 2:
        model = NearestCentroid(priors=[0.7, 0.3])
    if name == "scaled qda" and classes == 2:
        model = make_pipeline(RobustScaler(), QuadraticDiscriminantAnalysis(priors=[0.7, 0.3]))
    return model.fit(IRIS[keep], SPECIES[keep])


def sections_of_predict(keeps, first, span, lattice, halvings=45):
    """Return where u2 keeps the label at each u1, as masks between cuts found by bisection of ``predict`` alone."""
    second = np.linspace(*span, lattice)
    grid = np.stack(np.broadcast_arrays(first[:, np.newaxis], second), axis=-1)
    seen = keeps(grid.reshape(-1, 2)).reshape(len(first), lattice)
    row, at = np.nonzero(seen[:, 1:] != seen[:, :-1])
    low, high, left = second[at], second[at + 1], seen[row, at]
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        same = keeps(np.stack([first[row], middle], axis=-1)) == left
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return row, low, left, seen[:, 0]


def midpoints(keeps, span, lattice, cells=1500):
    """Return edges in u1, and what `sections_of_predict` finds (to 1e-9) at the ends and between them."""
    edges = np.linspace(*span[0], cells + 1)
    first = np.concatenate([span[0], 0.5 * (edges[1:] + edges[:-1])])
    return edges, first, sections_of_predict(keeps, first, span[1], lattice, halvings=25)


def quadrature(laws, span, sections):
    """Return Pr[keeps(Y1, Y2)]: midpoints in u1, the law's own masses in u2."""
    edges, first, (row, cut, left, start) = sections
    ends = laws[0].pmf(np.array(span[0]))
    weights = laws[0].cell_masses(edges)
    weights[[0, -1]] -= ends
    total = laws[1].mass(-np.inf, span[1][1]) * np.ones(len(first))
    inside = np.where(start, total, 0.0)
    # leaving at a cut takes away all beyond it, entering adds it
    np.add.at(inside, row, np.where(left, -1, 1) * (total[row] - laws[1].mass(-np.inf, cut)))
    return float(np.concatenate([ends, weights]) @ inside)


@some_models
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.cases(1)
def test_brackets_hold_what_quadrature_over_predict_gives(name, classes):
    """Independent of how scores are read; three times as many midpoints move it by less than 8e-5."""
    model, sensitive, x = fitted(name, classes), [0, 2], IRIS[70]
    lower, upper = np.array([RANGES[j] for j in sensitive], dtype=float).T
    unit, own = (x[sensitive] - lower) / (upper - lower), model.predict(x[np.newaxis])[0]

    def keeps(values):
        rows = np.repeat(x[np.newaxis], len(values), axis=0)
        rows[:, sensitive] = lower + values * (upper - lower)
        return model.predict(rows) == own

    curves = ew.stability(
        model, x[np.newaxis], sensitive=sensitive, per="feature", epsilons=EPSILONS, domain=RANGES, tolerance=1e-3,
        mechanisms=[*BOUNDED, *UNBOUNDED],
    )  # fmt: skip
    assert (curves.method == "slabs").all()
    assert curves.confidence == 1
    assert (curves.upper - curves.lower).max() <= 1e-3
    bounded = midpoints(keeps, [(0.0, 1.0)] * 2, lattice=96)
    for word, e in [("pm", 2), ("laplace_clipped", 0), ("gaussian_clipped:delta=0.1", 1), ("laplace", 2)]:
        kind, _, delta = word.partition(":delta=")
        laws = [ew.MECHANISMS[kind](EPSILONS[e], **({"delta": float(delta)} if delta else {})).law(u) for u in unit]
        far = 2.5 if word == "laplace" else 0.0  # e^-15 lies beyond
        span = [(u - far, u + far) if far else (0.0, 1.0) for u in unit]
        truth = quadrature(laws, span, midpoints(keeps, span, lattice=400) if far else bounded)
        m = curves.mechanisms.index(word)
        assert curves.lower[m, e, 0] - 1e-4 <= truth <= curves.upper[m, e, 0] + 1e-4


@every_model
@pytest.mark.cases(1)
def test_one_feature_is_exact_to_rounding(name):
    """The ends of the label's intervals by bisection of predict, their masses by the law."""
    model, x = fitted(name), IRIS[63]
    low, high = RANGES[COLUMN]
    settings = {"sensitive": COLUMN, "domain": RANGES, "per": "feature", "epsilons": EPSILONS, "mechanisms": BOUNDED}
    curves = ew.stability(model, x[np.newaxis], **settings)
    assert (curves.method == "slabs").all()
    assert (curves.upper - curves.lower).max() < 1e-8
    own = model.predict(x[np.newaxis])[0]

    def keeps(values):
        rows = np.repeat(x[np.newaxis], len(values), axis=0)
        rows[:, COLUMN] = low + values[:, 1] * (high - low)
        return model.predict(rows) == own

    _, cut, left, start = sections_of_predict(keeps, np.zeros(1), (0.0, 1.0), 4000)
    assert cut.size
    unit, delta = (x[COLUMN] - low) / (high - low), {"gaussian_clipped:delta=0.1": {"delta": 0.1}}
    for m, word in enumerate(BOUNDED):
        for e, epsilon in enumerate(EPSILONS):
            law = ew.MECHANISMS[word.partition(":")[0]](epsilon, **delta.get(word, {})).law(unit)
            beyond = 1 - law.mass(-np.inf, cut)
            truth = start[0] + (np.where(left, -1, 1) * beyond).sum()
            assert curves.lower[m, e, 0] <= truth <= curves.upper[m, e, 0]


@some_models
@pytest.mark.slow
def test_brackets_meet_the_sampled_intervals(name):
    """All mechanisms, both quantities; false-alarm rate 1e-6 per model."""
    model, settings = fitted(name), {"sensitive": [3, 1], "domain": RANGES, "per": "feature", "epsilons": [0.5, 4]}
    settings["mechanisms"] = [*BOUNDED, *UNBOUNDED, "pm:indicator=0.1"]
    rows, y = IRIS[[3, 70, 120]], model.predict(IRIS[[3, 110, 120]])
    y[2] = -1  # a label that the model does not know
    curves = ew.stability(model, rows, y=y, **settings)
    drawn = ew.stability(
        model, rows, y=y, method="sampled", rng=0, tolerance=0.03, confidence=1 - 1e-6, **settings
    )  # fmt: skip
    assert (curves.method == "slabs").all()
    for a, b in ((curves.stability, drawn.stability), (curves.accuracy, drawn.accuracy)):
        assert (a.upper - a.lower).max() <= 0.01
        assert (b.lower <= a.upper).all()
        assert (a.lower <= b.upper).all()
    assert (curves.accuracy.upper[:-1, :, 2] < 1e-11).all()
    assert (curves.labels_possible <= len(np.unique(model.predict(IRIS)))).all()
    assert (curves.labels_possible >= drawn.labels_possible).all()  # holds for these records, seeds and ranges


@pytest.mark.slow
def test_two_centres_equal_the_linear_engine():
    """k-means with two centres is a half-space: closed form for pm and unclipped noise, lattice for the rest."""
    model = KMeans(2, n_init=1, random_state=0).fit(IRIS)
    a, b = model.cluster_centers_
    line = LogisticRegression().fit(IRIS, model.labels_)
    line.coef_, line.intercept_ = (b - a)[np.newaxis], np.array([(a @ a - b @ b) / 2])
    settings = {
        "sensitive": [0, 2],
        "domain": RANGES,
        "per": "feature",
        "epsilons": EPSILONS,
        "mechanisms": [*BOUNDED, *UNBOUNDED],
    }
    rows = IRIS[[0, 57, 98, 120]]
    one = ew.stability(model, rows, tolerance=1e-4, **settings)
    other = ew.stability(line, rows, tolerance=1e-3, **settings)
    assert (one.method == "slabs").all()
    assert (other.method == "lattice").all()
    assert (one.labels == other.labels).all()
    assert (one.upper - one.lower).max() <= 1e-4
    assert (one.lower <= other.upper).all()
    assert (other.lower <= one.upper).all()


def two_centroids(low, high):
    return NearestCentroid().fit([[low - 1.0], [low + 1.0], [high - 1.0], [high + 1.0]], [0, 0, 1, 1])


@pytest.mark.parametrize("at", [0.0, 1.0])
def test_an_atom_on_the_boundary_stays_inside_the_bracket_and_is_sampled(at):
    """predict sends the boundary itself to the first centroid; at an end of the range it carries an atom."""
    model = two_centroids(at - 2, at + 2)
    assert model.predict([[at]]) == [0]
    settings = {"sensitive": 0, "mechanisms": "laplace_clipped", "epsilons": [1.0], "domain": None}
    asked = ew.Problem.of(model, [[0.4]], y=None, **settings)
    leads = quadratic_for(asked).leads(0, asked.labels[0], 1.0)
    atom = np.exp(-(0.4 if at == 0 else 0.6)) / 2
    truth = 1 - atom if at == 0 else 1.0
    lower, upper = (side.item() for side in bracket(leads, [ew.MECHANISMS["laplace_clipped"](1.0).law(0.4)], 0.01))
    assert lower <= truth <= upper
    assert upper - lower == pytest.approx(atom, abs=1e-9)
    curves = ew.stability(model, [[0.4]], rng=0, confidence=1 - 1e-6, **settings)
    assert curves.method.item() == "sampled"
    assert curves.confidence == 1 - 1e-6
    assert curves.lower.item() <= truth <= curves.upper.item()  # false-alarm rate 1e-6


@pytest.mark.parametrize("second", [0, 1])
def test_atoms_at_both_ends_of_both_features_are_counted(second):
    """A corner region of y0 + y1 > 1.5 holds the corner's double atom; the rest by quadrature over one law."""
    model = NearestCentroid().fit([[0, 0], [0.5, 0.5], [1, 1], [1.5, 1.5]], [0, 0, 1, 1])  # middle 0.25 and 1.25
    x = [0.9, 0.8] if second else [0.8, 0.9]
    curves = ew.stability(
        model, [x], sensitive=[0, 1], mechanisms="laplace_clipped", per="feature", epsilons=[2.0], tolerance=1e-4
    )  # fmt: skip
    one, other = (ew.MECHANISMS["laplace_clipped"](2.0).law(u) for u in x)
    edges = np.linspace(0, 1, 200_001)
    masses = one.cell_masses(edges)
    masses[0] -= one.pmf(0.0)
    masses[-1] -= one.pmf(1.0)
    middle = (edges[1:] + edges[:-1]) / 2
    truth = masses @ other.mass(1.5 - middle, 1.0) + one.pmf(1.0) * other.mass(0.5, 1.0)
    assert curves.lower.item() - 1e-6 <= truth <= curves.upper.item() + 1e-6
    assert curves.upper.item() - curves.lower.item() <= 1e-4


def test_records_on_the_boundary_and_the_label_that_predict_gives():
    model = two_centroids(0.0, 1.0)
    curves = ew.stability(model, [[0.5]], sensitive=0, mechanisms=["pm", "gaussian:delta=0.1"], epsilons=[1.0, 3.0])
    assert curves.labels == [0]
    assert (np.abs(curves.lower - 0.5) < 1e-9).all()
    assert (np.abs(curves.upper - 0.5) < 1e-9).all()


def test_unclipped_noise_in_a_disc_is_a_noncentral_chi_square():
    """Example 4's circle: N(x, sigma^2 I) falls into it with a closed-form probability."""
    from scipy.stats import ncx2

    model = GaussianMixture(2, covariance_type="spherical").fit([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [3.0, 1.0]])
    model.means_, model.weights_ = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.5])
    model.precisions_cholesky_ = np.array([1.0, 2.0]) ** -0.5
    x, square = np.array([0.5, 0.5]), 4 * (np.log(2) + 1)  # the circle around (-1, -1)
    epsilons = [0.5, 2.0, 8.0]
    curves = ew.stability(
        model, [x], sensitive=[0, 1], mechanisms="gaussian:delta=0.1", per="feature", epsilons=epsilons, tolerance=1e-4
    )  # fmt: skip
    sigma = np.array([ew.MECHANISMS["gaussian"](e, delta=0.1).law(0.5).var() ** 0.5 for e in epsilons])
    truth = ncx2.cdf(square / sigma**2, 2, ((x + 1) ** 2).sum() / sigma**2)
    assert curves.labels == [0]
    assert (curves.lower[0, :, 0] <= truth).all()
    assert (truth <= curves.upper[0, :, 0]).all()
    assert (curves.upper - curves.lower).max() <= 1e-4


def test_half_planes_of_the_normal_law_in_closed_form():
    """One rival, no curvature, slopes of either sign and zero: Pr[b.u + c > 0] for independent normals."""
    laws = [ew.MECHANISMS["gaussian"](e, delta=0.1).law(x) for e, x in ((2.0, 0.3), (4.0, 0.6))]
    for b in ([1.0, -2.0], [-1.0, 0.0], [0.0, 1.0], [3.0, 0.1]):
        slope = np.array([b])
        leads = Leads(np.zeros((1, 2, 2)), slope, np.array([0.2]), np.array([1e-12]))
        centre = 0.2 + sum(w * law.mean() for w, law in zip(b, laws, strict=True))
        truth = ndtr(centre / np.sqrt(sum(w * w * law.var() for w, law in zip(b, laws, strict=True))))
        found = bracket(leads, laws, 1e-4)
        assert found.lower[0] <= truth <= found.upper[0]
        assert found.upper[0] - found.lower[0] <= 1e-4


def test_intervals_that_touch_are_joined():
    """Lost to one rival on [0, .5] and to another on [.5, 1]: one interval, so an atom at .5 counts once."""
    slab = np.array([0, 0, 1, 1, 2])
    low, high = np.array([0.0, 0.5, 0.0, 0.3, 0.2]), np.array([0.5, 1.0, 0.6, 0.8, 0.2])
    intervals = Intervals(slab, low, high)
    union, both = intervals.covered(1), intervals.covered(2)
    assert (union.slab.tolist(), union.low.tolist(), union.high.tolist()) == ([0, 1, 2], [0, 0, 0.2], [1, 0.8, 0.2])
    assert (both.slab.tolist(), both.low.tolist(), both.high.tolist()) == ([0, 1], [0.5, 0.3], [0.5, 0.6])


def test_extremes_between_cuts_hold_at_every_point_between():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=5), rng.normal(size=(2, 300, 5))
    a[0] = 0.0
    cuts = np.sort(rng.normal(size=(300, 5, 4)), axis=-1)
    smallest, largest = _extremes(a, b, cuts)
    share = np.linspace(0, 1, 201)[:, np.newaxis, np.newaxis, np.newaxis]
    y = cuts[..., :-1] + share * np.diff(cuts)
    values = (a[:, np.newaxis] * y[:, np.newaxis] + b[..., np.newaxis]) * y[:, np.newaxis]
    assert (smallest <= values.min(axis=0) + 1e-12).all()
    assert (largest >= values.max(axis=0) - 1e-12).all()
    np.testing.assert_allclose(smallest, values.min(axis=0), atol=1e-3)
    np.testing.assert_allclose(largest, values.max(axis=0), atol=1e-3)


def points_within(intervals, low, high, rng):
    """Return points of the slabs' rectangles: corners, sides and inside, 16 per interval."""
    shares = rng.choice([0.0, 1.0, *rng.uniform(size=4)], size=(2, 16, intervals.slab.size))
    first = low[intervals.slab] + shares[0] * (high - low)[intervals.slab]
    second = intervals.low + shares[1] * (intervals.high - intervals.low)
    return np.stack([first.ravel(), np.minimum(second, intervals.high).ravel()], axis=-1)


def test_random_quadrics_are_decided_rightly():
    """Four rivals with curvatures of either sign: all lead, or one lags, wherever it is said; little is left open."""
    rng = np.random.default_rng(0)
    laws = [ew.MECHANISMS["laplace_clipped"](2.0).law(0.3), ew.MECHANISMS["bounded_laplace"](5.0).law(0.7)]
    edges = np.sort(np.concatenate([[0, 0, 1, 1], rng.uniform(size=40)]))
    low, high, seen = edges[:-1], edges[1:], 0
    for _ in range(40):
        root = rng.normal(size=(4, 2, 2))
        leads = Leads(root + root.transpose(0, 2, 1), rng.normal(size=(4, 2)), rng.uniform(0, 2, 4), np.full(4, 1e-12))
        kept, lost = leads.decided(low, high, (0.0, 1.0))
        for intervals, right in ((kept, 1), (lost, -1)):
            u = points_within(intervals, low, high, rng)
            values = np.einsum("ni,kij,nj->nk", u, leads.curvature, u) + u @ leads.slope.T + leads.gap
            assert (right * values.min(axis=1) > 0).all()
            assert (intervals.low <= intervals.high).all()
            seen += len(u)
        found = bracket(leads, laws, 1e-3)
        assert found.upper[0] - found.lower[0] <= 1e-3
    assert seen > 10_000


@every_model
@pytest.mark.cases(1)
def test_predict_answers_as_decided_wherever_it_is_decided(name):
    """No tolerance: the classifier itself, on all sides of the decided rectangles, at natural values."""
    model, rng, edges = fitted(name), np.random.default_rng(0), np.linspace(0, 1, 65)
    asked = ew.Problem.of(
        model, IRIS[::10], sensitive=[0, 2], mechanisms="pm", per="feature", epsilons=[1.0], domain=RANGES, y=None
    )
    sections, low, high = quadratic_for(asked), edges[:-1], edges[1:]
    for record in range(15):
        leads = sections.leads(record, asked.labels[record], 1.0)
        for intervals, agree in zip(leads.decided(low, high, (0.0, 1.0)), (True, False), strict=True):
            u = points_within(intervals, low, high, rng)
            if len(u):
                values = [f.from_unit(column) for f, column in zip(asked.features, u.T, strict=True)]
                answers = asked.ask(np.full(len(u), record), values)
                assert ((answers == asked.labels[record]) == agree).all()


@pytest.mark.parametrize("mechanism", [*BOUNDED, *UNBOUNDED])
def test_extreme_epsilons(mechanism):
    """From almost no promise to almost no noise; the latter keeps the label."""
    model = GaussianNB().fit(IRIS, SPECIES)
    epsilons = [1e-6, 1e-3, 60.0, 600.0]
    curves = ew.stability(
        model, IRIS[[0, 70]], sensitive=[0, 2], mechanisms=mechanism, per="feature", epsilons=epsilons, domain=RANGES
    )  # fmt: skip
    assert (curves.method == "slabs").all()
    assert (curves.upper - curves.lower).max() <= 0.01
    assert (curves.lower[0, -1] > 0.95).all()
    assert curves.lower[0, 0].min() < 0.6


def test_scores_that_cancel_widen_the_bracket():
    """Centres at 1e6: scikit-learn compares numbers of 1e12, whose rounding moves the boundary."""
    model = KMeans(2, n_init=1, random_state=0).fit([[1e6 - 1.1], [1e6 - 0.9], [1e6 + 0.9], [1e6 + 1.1]])
    settings = {"sensitive": 0, "domain": {0: (1e6 - 2, 1e6 + 2)}, "mechanisms": "pm", "epsilons": [2.0]}
    law = ew.MECHANISMS["pm"](2.0).law(0.625)
    unit = np.linspace(0, 1, 400_001)
    stays = model.predict((1e6 - 2 + 4 * unit)[:, np.newaxis]) == model.predict([[1e6 + 0.5]])[0]
    kept, lost = unit[stays], unit[~stays]
    asked = ew.Problem.of(model, [[1e6 + 0.5]], y=None, **settings)
    found = bracket(quadratic_for(asked).leads(0, asked.labels[0], 1.0), [law], 0.01)
    assert abs(law.mass(kept.min(), 1.0) - law.mass(0.5, 1.0)) > 1e-6  # not where real numbers would put it
    assert found.lower.item() < law.mass(max(lost.max(), kept.min()), 1.0)
    assert law.mass(min(lost.max(), kept.min()), 1.0) < found.upper.item()
    assert 0.02 < found.upper.item() - found.lower.item() < 0.2  # so much that sampling does better
    assert ew.stability(model, [[1e6 + 0.5]], rng=0, **settings).method.item() == "sampled"


def settings_for(sensitive, **more):
    return {
        "sensitive": sensitive,
        "domain": RANGES,
        "mechanisms": "pm",
        "per": "feature",
        "epsilons": [1.0],
        "tolerance": 0.2,
    } | more


def test_what_sections_cannot_answer_is_sampled_or_asked_on_a_grid():
    model, x = GaussianNB().fit(IRIS, SPECIES), IRIS[[70]]
    assert ew.stability(model, x, rng=0, **settings_for([0, 1, 2])).method.item() == "sampled"
    curves = ew.stability(model, x, rng=0, **settings_for([0, 1], mechanisms=["pm", "krr:k=9"]))
    assert curves.method[:, 0].tolist() == ["slabs", "grid"]
    curved = make_pipeline(PolynomialFeatures(2), GaussianNB()).fit(IRIS, SPECIES)
    clipped = make_pipeline(MinMaxScaler(clip=True), GaussianNB()).fit(IRIS, SPECIES)
    single = GaussianNB().fit(IRIS.astype(np.float32), SPECIES)
    manhattan = NearestCentroid(metric="manhattan").fit(IRIS, SPECIES)
    for other in (curved, clipped, single, manhattan, lambda rows: rows[:, 0] > 5):
        assert ew.stability(other, x, rng=0, **settings_for([0, 1])).method.item() == "sampled"


def test_a_mixture_of_grid_and_continuous_outputs_is_sampled():
    domain = {0: {"lower": 4, "upper": 8, "points": 9}, 2: (1, 7)}
    model = GaussianNB().fit(IRIS, SPECIES)
    settings = {"sensitive": [0, 2], "domain": domain, "per": "feature", "epsilons": [1.0], "tolerance": 0.2, "rng": 0}
    found = ew.stability(model, IRIS[[70]], mechanisms="krr:k=3001", **settings)
    assert found.method.item() != "slabs"


def test_scores_are_checked_against_the_classifier(monkeypatch):
    def predict(self, X):
        return (np.asarray(X)[:, 0] ** 2 > 30) * 1

    settings = {
        "sensitive": [0, 2],
        "mechanisms": "pm",
        "per": "feature",
        "epsilons": [1.0],
        "domain": RANGES,
        "y": None,
    }
    kind = type("GaussianNB", (GaussianNB,), {"predict": predict})  # not what it is called
    assert "has no quadratic scores" in said(
        quadratic_for, ew.Problem.of(kind().fit(IRIS, SPECIES), IRIS[[70]], **settings)
    )
    asked = ew.Problem.of(GaussianNB().fit(IRIS, SPECIES), IRIS[[70]], **settings)
    monkeypatch.setattr(type(asked.classifier.answer), "__call__", predict)
    assert said(quadratic_for, asked) == unlike("scores")


def test_frames_one_cluster_and_labels_as_texts():
    frame = pd.DataFrame(IRIS, columns=["a", "b", "c", "d"])
    model = QuadraticDiscriminantAnalysis().fit(frame, np.array(["x", "y", "z"])[SPECIES])
    domain = {"c": (1, 7), "a": (4, 8)}
    curves = ew.stability(
        model, frame.iloc[[70]][["d", "c", "b", "a"]], sensitive=["c", "a"], domain=domain, mechanisms="pm",
        per="feature", epsilons=[2.0],
    )  # fmt: skip
    plain = ew.stability(
        model, frame.iloc[[70]], sensitive=["a", "c"], domain=domain, mechanisms="pm", per="feature", epsilons=[2.0]
    )
    assert (curves.method.item(), curves.labels) == ("slabs", plain.labels)
    assert curves.lower.item() <= plain.upper.item()
    assert plain.lower.item() <= curves.upper.item()
    single = ew.stability(KMeans(1, n_init=1).fit(IRIS), IRIS[[70]], **settings_for([0, 2]))
    assert single.lower.item() == single.upper.item() == 1


def test_values_within_rounding_of_a_boundary_neither_keep_nor_lose_the_label():
    leads = Leads(np.zeros((1, 2, 2)), np.array([[0.0, 1.0]]), np.array([-0.5]), np.array([0.1]))
    kept, lost = leads.decided(np.zeros(1), np.ones(1), (0.0, 1.0))
    assert kept.low.min() >= 0.6 - 1e-12
    assert lost.high.max() <= 0.4 + 1e-12
    for gap in (0.05, -0.05):  # nowhere zero, so that no root says where
        level = Leads(np.zeros((1, 2, 2)), np.zeros((1, 2)), np.array([gap]), np.array([0.1]))
        kept, lost = level.decided(np.zeros(1), np.ones(1), (0.0, 1.0))
        assert kept.low.size == lost.low.size == 0
