"""Engines that bound Pr[label stays], and how one is chosen for every mechanism.

``engine``      what every engine is, is asked with and returns; the one loop over records and labels
``table``       ENGINES, in the order in which ``auto`` tries them
``plan``        which engine answers for which mechanism, and why
``assembly``    running the parts of a plan, each with its share of the risk, and one answer from them

What engines share: ``probing`` (does a classifier answer as was read?), ``contraction`` (laws over all epsilons,
decision tables), ``brackets``, ``verdicts`` (on boxes); readings of trees (``partition``, ``leaves``), linear models
(``linear``) and quadratic scores (``quadratic``, bounded by ``slabs``).
"""
