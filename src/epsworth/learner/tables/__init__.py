"""Many columns from one bit per user: rounds of questions about numbers, categories and labels.

``columns``    `Number`, `Category`: how a record is coded, in whole numbers
``regimes``    which rounds, from public numbers
``config``     `TableConfig`
``walsh``, ``rows``  what a bit may tell
``kernels``    how a user answers; sums of a population
``reading``    what becomes of a table's rows
``estimates``  from sums to tables of bins and labels
``scores``     from tables to a classifier; weights
``rounds``     `Round`: what clients get
``learner``    `TableLearner`: opens and closes rounds
``model``      `TableClassifier`
``audit``      `Audit`: what can be certified of it
"""
