"""How exposed each training row is in a private linear model, and which epsilons are worth trying.

Everything here is computed from raw data and is **not private**, unless it says so: never publish a profile, a ranking
or an epsilon chosen from them together with the model as if its guarantee still covered them.
"""

from epsworth.exposure.advice import Window, window
from epsworth.exposure.calibration import norm_bound, sensitivity
from epsworth.exposure.distances import Kernels, kernels, onset, plateau_ends
from epsworth.exposure.glm import ExposureError
from epsworth.exposure.models import fit_base
from epsworth.exposure.neighbours import Neighbours, loo
from epsworth.exposure.objective import ExPost, ExposureWarning, expost_diffprivlib, expost_objective
from epsworth.exposure.output import OutputPerturbation
from epsworth.exposure.profiles import Profile, TypicalProfile, profile, typical_profile
from epsworth.exposure.releasing import Release, release
from epsworth.exposure.reporting import WorstCase, stand_in, worst_case
from epsworth.exposure.retraining import Memorisation, memorisation
from epsworth.exposure.sparse import SparseRows
from epsworth.exposure.steps import Moves, moves
from epsworth.exposure.tables import Encoded, Group, encode, exposed_groups
from epsworth.exposure.trainings import BlackBox, black_box
from epsworth.exposure.transcripts import Transcript, descend, linear_gradients, torch_gradients
from epsworth.exposure.usefulness import Usefulness

__all__ = [
    "BlackBox",
    "Encoded",
    "ExPost",
    "ExposureError",
    "ExposureWarning",
    "Group",
    "Kernels",
    "Memorisation",
    "Moves",
    "Neighbours",
    "OutputPerturbation",
    "Profile",
    "Release",
    "SparseRows",
    "Transcript",
    "TypicalProfile",
    "Usefulness",
    "Window",
    "WorstCase",
    "black_box",
    "descend",
    "encode",
    "exposed_groups",
    "expost_diffprivlib",
    "expost_objective",
    "fit_base",
    "kernels",
    "linear_gradients",
    "loo",
    "memorisation",
    "moves",
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
