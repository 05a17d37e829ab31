"""Engines that bound Pr[label stays], and how one is chosen for every mechanism.

``plan``      which engine answers for which mechanism, and why
``contraction``     laws over all epsilons, contraction of decision tables
``cells``     exact: tree models, up to three sensitive features
``grid``      exact: any classifier, mechanisms whose outputs lie on a grid
``linear``    deterministic bracket: binary linear models
``polygons``  the same: linear models of any number of classes, one or two sensitive features
``quadratic`` deterministic bracket: quadratic scores, one or two sensitive features, by ``slabs``
``branch_and_bound`` branch and bound on boxes, the rest by conditional sampling
``leaves``    boxes of tree models with four to six sensitive features
``propagation``  boxes of networks with up to five: linear bound propagation
``strata``    k-ary randomised response on black boxes: one set of draws for all epsilons
``rays``    the same for unclipped noise on linear models
``sampled``   Monte Carlo with exact intervals: any classifier
``assembly``  running the parts of a plan, and one answer from them
``paper`` the paper's box search, for comparison: a heuristic
"""
