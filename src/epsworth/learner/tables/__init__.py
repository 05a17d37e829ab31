"""Many columns from one bit per user: rounds of questions about numbers, categories and labels.

``columns``    `Number`, `Category`: how a record is coded, in whole numbers; rows: what a bit may tell
``config``     `TableConfig`, and which rounds, from public numbers
``estimates``  from sums to tables of bins and labels; ``scores``: from tables to a classifier; weights
``rounds``     `Round`, `ScoreAudit`: what clients get, and how a user answers
``learner``    `TableLearner`: opens and closes rounds; ``model``: `TableClassifier`
``audited``    `AuditedClassifier`: what can be certified of it
"""
