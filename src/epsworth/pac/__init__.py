"""PAC privacy: release the output of any algorithm with the least noise for a budget of mutual information.

The secret is *which half of a pool of records was used*.  `PACPrivatizer` simulates the algorithm on many halves
("worlds"), measures how much its output moves, and adds just enough Gaussian noise.

>>> from epsworth import pac
>>> round(pac.posterior(pac.MI(1 / 16).mi, prior=0.5), 3)
0.675

References
----------
Xiao & Devadas 2023; Sridhar, Xiao & Devadas 2024 (corrected: see docs/pac.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsworth.pac.allocation import allocate
    from epsworth.pac.attacks import Attack, lira, pool_test
    from epsworth.pac.budgets import MI, DPEquivalent, Posterior, RecordPosterior
    from epsworth.pac.conversion import budget, dp_epsilon, dp_posterior, generalised_prior, posterior, tpr_bound
    from epsworth.pac.exposure import Exposure
    from epsworth.pac.forest import FixedForest
    from epsworth.pac.ledger import Ledger
    from epsworth.pac.mechanism import Mechanism
    from epsworth.pac.privatizer import PACPrivatizer
    from epsworth.pac.release import Release
    from epsworth.pac.server import ResponseServer, WorldModels
    from epsworth.pac.unsupervised import procrustes
    from epsworth.pac.utility import FoundBudget, Utility

_HOMES = {
    "allocation": ["allocate"],
    "attacks": ["Attack", "lira", "pool_test"],
    "budgets": ["MI", "DPEquivalent", "Posterior", "RecordPosterior"],
    "conversion": ["budget", "dp_epsilon", "dp_posterior", "generalised_prior", "posterior", "tpr_bound"],
    "exposure": ["Exposure"],
    "forest": ["FixedForest"],
    "ledger": ["Ledger"],
    "mechanism": ["Mechanism"],
    "privatizer": ["PACPrivatizer"],
    "release": ["Release"],
    "server": ["ResponseServer", "WorldModels"],
    "unsupervised": ["procrustes"],
    "utility": ["FoundBudget", "Utility"],
}

__all__ = [
    "MI", "Attack", "DPEquivalent", "Exposure", "FixedForest", "FoundBudget", "Ledger", "Mechanism", "PACPrivatizer",
    "Posterior", "RecordPosterior", "Release", "ResponseServer", "Utility", "WorldModels", "allocate", "budget",
    "dp_epsilon", "dp_posterior", "generalised_prior", "lira", "pool_test", "posterior", "procrustes", "tpr_bound",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'epsworth.pac' has no attribute {name!r}")
    value = getattr(import_module(f"epsworth.pac.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
