"""Engines that bound Pr[label stays], and how one is chosen for every mechanism.

``engine``      what every engine is, is asked with and returns; the one loop over records and labels
``table``       ENGINES, in the order in which ``auto`` tries them, and which one answers for which mechanism
``run``         running the parts of a plan, each with its share of the risk, in ``pieces``, kept in a ``checkpoint``
``results``     curves from what engines return

An engine is one class in one file: ``label``, ``constant``, ``grid``, ``cells``, ``tree_boxes``, ``linear``,
``polygons``, ``quadratic``, ``propagation``, ``strata``, ``rays``, ``sampled``.

What they share: ``contraction`` (laws over all epsilons, outward rounding), ``probing`` (does a classifier answer as
was read?), ``categories``, ``draws``, ``branch_and_bound``.  Trees: ``partition``, ``votes``, ``sweep``, ``fronts``,
and ``loops`` that numba compiles.  Linear models: ``sums``, by ``closed_forms`` and ``fourier`` of ``parts`` of laws.
"""
