"""Engines that bound Pr[label stays], and how one is chosen for every mechanism.

``engine``    what every engine is, is asked with and returns; the one loop over records and labels
``run``       ENGINES, in the order in which ``auto`` tries them; the parts of a plan, and curves from their results
``pieces``    ranges of records, done by workers, kept in a ``checkpoint``

Engines: ``label``, ``grid``, ``cells``, ``tree_boxes``, ``linear``, ``quadratic``, ``propagation``, ``strata``,
``rays``, ``sampled``.

What they share: ``contraction`` (laws over all epsilons, outward rounding) and ``branch_and_bound``.  For trees:
``trees``, ``fronts``, and ``loops`` that numba compiles.  For linear models: ``sums``, of ``parts`` of laws.
"""
