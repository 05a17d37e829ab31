"""How exposed each training row is in a private linear model, and which epsilons are worth trying.

Everything here is computed from raw data and is **not private**, unless it says so: never publish a profile, a ranking
or an epsilon chosen from them together with the model as if its guarantee still covered them.
"""

from epsworth.coverage.advice import Window, window
from epsworth.coverage.calibration import norm_bound, sensitivity
from epsworth.coverage.exposure import Kernels, kernels
from epsworth.coverage.fitting import fit_base
from epsworth.coverage.glm import CoverageError
from epsworth.coverage.neighbours import Neighbours, loo
from epsworth.coverage.output import OutputPerturbation
from epsworth.coverage.plateaus import onset, plateau_ends
from epsworth.coverage.profiles import Profile, TypicalProfile, profile, typical_profile
from epsworth.coverage.releasing import Release, release
from epsworth.coverage.usefulness import Usefulness

__all__ = [
    "CoverageError",
    "Kernels",
    "Neighbours",
    "OutputPerturbation",
    "Profile",
    "Release",
    "TypicalProfile",
    "Usefulness",
    "Window",
    "fit_base",
    "kernels",
    "loo",
    "norm_bound",
    "onset",
    "plateau_ends",
    "profile",
    "release",
    "sensitivity",
    "typical_profile",
    "window",
]
