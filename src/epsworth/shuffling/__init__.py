"""Privacy amplification by shuffling: bounds on what a batch of reports tells.

``binomials``  tails and expected excesses, each with the side on which it errs
``clones``     one bound for every randomiser, and its inverse: which local epsilon is allowed
``blankets``   smaller bounds for mechanisms whose law is known
``floors``     what no analysis can get below
``rounds``     several batches with a report of everybody in each

Numbers in, numbers out: `epsworth.guarantees.shuffled` checks arguments and returns a promise.
Every setting is the same: ``users`` honest reports, the target's among them, of one randomiser that keeps the local
epsilon; a shuffler drops names and order; neighbours replace one record.
"""
