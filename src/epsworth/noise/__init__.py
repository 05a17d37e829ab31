"""Noise under a utility constraint: within +-theta with a given confidence, at the least privacy loss.

``answers``      true answers on a public list or lattice: rounding, and what it can reach
``regions``      where answers must land, which pairs of answers are compared
``profiles``     exact hockey-stick and Renyi divergences of boosted kernels
``mechanism``    what every noise offers; boosted kernels
``staircase``, ``lattice``, ``clamped``   the other noises
``optimum``      the best noise there is, and floors that nobody passes; ``objective``: what is to be small
``cells``        what such noise looks like; ``program``: of one release; ``levels``: of several
``composition``  several releases
``tuning``       which kernel, which boost
``choice``, ``ranking``   a row, and the ranked list
``questions``    one noise, its delta and Renyi divergence; inverse uses
``allowed``      what arguments may be
``figures``      plots
``local``        PB-GRR for the local model, its estimators; ``item_regions``; ``baseline``: splitting the users instead
``published``    the accounting of Jiang et al. 2025, for comparison
``release``      draws fit for release
"""

from epsworth.noise.answer_table import AnswerTable
from epsworth.noise.baseline import split_users
from epsworth.noise.choice import Choice
from epsworth.noise.item_regions import groups, windows
from epsworth.noise.local import (
    Channel,
    Grouped,
    Responses,
    channel,
    on_simplex,
    pb_grr,
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
from epsworth.noise.release import LatticeRelease, release_of

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
