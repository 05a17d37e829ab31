"""Noise under a utility constraint: within +-theta with a given confidence, at the least privacy loss.

``allowed``      what arguments may be
``regions``      where answers must land; true answers on a public list, and which pairs of them are compared
``profiles``     exact hockey-stick and Renyi divergences of boosted kernels
``mechanism``    what every noise offers; boosted and clamped kernels
``staircase``, ``lattice``   the other noises
``objective``    what is to be small, of one release or of several
``tuning``       which kernel, which boost
``optimum``      the best noise within an absolute error, and floors that nobody passes
``cells``        what such noise looks like; ``program``: of one release; ``levels``: of several
``relative``     the best mechanism under a relative error
``release``      draws fit for release
``choice``, ``ranking``   a row and which to take, and the ranked list; ``figures``: plots of it
``questions``    one noise, its delta and Renyi divergence; inverse uses
``local``        PB-GRR for the local model, its estimators; splitting the users instead
``published``    the accounting of Jiang et al. 2025, for comparison
"""

from epsworth.noise.choice import Choice
from epsworth.noise.local import (
    Channel,
    Grouped,
    Responses,
    channel,
    groups,
    on_simplex,
    pb_grr,
    split_users,
    windows,
)
from epsworth.noise.optimum import Optimum, optimal_noise
from epsworth.noise.published import published_delta, published_epsilon, published_renyi
from epsworth.noise.questions import (
    best_confidence,
    boosted,
    delta,
    most_releases,
    narrowest_interval,
    renyi,
)
from epsworth.noise.ranking import Ranking, cheapest
from epsworth.noise.release import AnswerTable, LatticeRelease, release_of

__all__ = [
    "AnswerTable",
    "Channel",
    "Choice",
    "Grouped",
    "LatticeRelease",
    "Optimum",
    "Ranking",
    "Responses",
    "best_confidence",
    "boosted",
    "channel",
    "cheapest",
    "delta",
    "groups",
    "most_releases",
    "narrowest_interval",
    "on_simplex",
    "optimal_noise",
    "pb_grr",
    "published_delta",
    "published_epsilon",
    "published_renyi",
    "release_of",
    "renyi",
    "split_users",
    "windows",
]
