"""A classifier from locally privatised data, with a certificate for each label.

A record is encoded, randomised on the device, and reports are aggregated (Wang, Blocki, Li & Jha 2017):

``encoding``      entries, labels and cells, read as integers; ``coins``: draws from integers
``wire``          reports as bytes
``mechanism``     what every mechanism offers; ``mechanisms``: MECHANISMS, the choice by variance, how many cells
``config``        `LatticeConfig`: what clients and server agree on, and what it keeps behind a shuffler
``client``        `Client`: one user's report, and which row it is about, by hash
``aggregation``   `Aggregator`: exact sums; `simulate`: the sums of a population
``report_files``  tables reported to files, files aggregated in bounded memory
``shuffler``      full batches of checked reports in random order
``model``         `Classifier`: labels from an aggregate
``certificates``  what is sure about a label; ``tails``: p-values, power; ``fakes``: reports that no client made
``planning``      `plan`: users, epsilon, margin; `expected_accuracy`
``validation``    `PrivateValidation`: accuracy by randomised response
``figures``       what was learnt, for JSON, pages and pictures
``tables``        `TableLearner`: many columns of any kind, in rounds
``estimator``     `LDPClassifier`: all of it as a scikit-learn estimator, for experiments

>>> from epsworth import learner
>>> sorted(learner.MECHANISMS)[:3]
['cosine', 'hadamard', 'krr']
"""

from importlib import import_module
from typing import TYPE_CHECKING

from epsworth.learner.aggregation import Aggregator, simulate
from epsworth.learner.certificates import Certificates, Holder
from epsworth.learner.client import Client, assigned_rounds, assigned_rows
from epsworth.learner.config import LatticeConfig
from epsworth.learner.mechanisms import MECHANISMS
from epsworth.learner.model import Classifier
from epsworth.learner.planning import Plan, expected_accuracy, plan, rate
from epsworth.learner.report_files import aggregate_files, report_file, write_reports
from epsworth.learner.shuffler import Batch, shuffle_files
from epsworth.learner.tables.audits import AuditedClassifier, ScoreAudit
from epsworth.learner.tables.columns import Category, Number
from epsworth.learner.tables.config import TableConfig
from epsworth.learner.tables.learner import TableLearner, learn_table
from epsworth.learner.tables.rounds import Round
from epsworth.learner.tables.scores import TableClassifier
from epsworth.learner.validation import Accuracies, PrivateValidation

if TYPE_CHECKING:
    from epsworth.learner.estimator import LDPClassifier

__all__ = [
    "MECHANISMS",
    "Accuracies",
    "Aggregator",
    "AuditedClassifier",
    "Batch",
    "Category",
    "Certificates",
    "Classifier",
    "Client",
    "Holder",
    "LDPClassifier",
    "LatticeConfig",
    "Number",
    "Plan",
    "PrivateValidation",
    "Round",
    "ScoreAudit",
    "TableClassifier",
    "TableConfig",
    "TableLearner",
    "aggregate_files",
    "assigned_rounds",
    "assigned_rows",
    "expected_accuracy",
    "learn_table",
    "plan",
    "rate",
    "report_file",
    "shuffle_files",
    "simulate",
    "write_reports",
]


def __getattr__(name: str) -> object:
    if name == "LDPClassifier":
        return import_module("epsworth.learner.estimator").LDPClassifier
    raise AttributeError(f"module 'epsworth.learner' has no attribute {name!r}")
