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
from epsworth.coverage.objective import CoverageWarning, ExPost, expost_diffprivlib, expost_objective
from epsworth.coverage.output import OutputPerturbation
from epsworth.coverage.plateaus import onset, plateau_ends
from epsworth.coverage.profiles import Profile, TypicalProfile, profile, typical_profile
from epsworth.coverage.releasing import Release, release
from epsworth.coverage.reporting import WorstCase, stand_in, worst_case
from epsworth.coverage.tables import Encoded, encode
from epsworth.coverage.trainings import BlackBox, black_box
from epsworth.coverage.transcripts import Transcript, descend, linear_gradients, torch_gradients
from epsworth.coverage.usefulness import Usefulness

__all__ = [
    "BlackBox",
    "CoverageError",
    "CoverageWarning",
    "Encoded",
    "ExPost",
    "Kernels",
    "Neighbours",
    "OutputPerturbation",
    "Profile",
    "Release",
    "Transcript",
    "TypicalProfile",
    "Usefulness",
    "Window",
    "WorstCase",
    "black_box",
    "descend",
    "encode",
    "expost_diffprivlib",
    "expost_objective",
    "fit_base",
    "kernels",
    "linear_gradients",
    "loo",
    "norm_bound",
    "onset",
    "plateau_ends",
    "profile",
    "release",
    "sensitivity",
    "stand_in",
    "torch_gradients",
    "typical_profile",
    "window",
    "worst_case",
]
