"""A classifier from locally privatised data.

``config``       `LatticeConfig`: what clients and server agree on
``client``       `Client`: one user's report
``aggregation``  `Aggregator`: exact sums; `simulate`: the sums of a population
``table``        MECHANISMS: the one table
"""

from epsworth.learner.aggregation import Aggregator, simulate
from epsworth.learner.client import Client
from epsworth.learner.config import LatticeConfig
from epsworth.learner.table import MECHANISMS

__all__ = ["MECHANISMS", "Aggregator", "Client", "LatticeConfig", "simulate"]
