"""The ledger: what each person lost in all runs; every run is charged before it is drawn.

``ledger``  `Ledger`: begin a run, finish it, tell what was lost
``costs``   what a run asks for, what it costs, and amounts in whole numbers
``people``  rows and sums per person, by keyed hash
``ids``     which texts are ids, and their hashes
``store``   one SQLite database and one key, in a folder
"""

from epsworth.policy.ledger.costs import Amount, ChargeRequest, Identity, Run, RunTerms
from epsworth.policy.ledger.ids import check_id_column, count_ids
from epsworth.policy.ledger.ledger import Ledger
from epsworth.policy.ledger.people import RowCounts
from epsworth.policy.ledger.store import is_ledger

__all__ = [
    "Amount",
    "ChargeRequest",
    "Identity",
    "Ledger",
    "RowCounts",
    "Run",
    "RunTerms",
    "check_id_column",
    "count_ids",
    "is_ledger",
]
