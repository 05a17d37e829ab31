"""Many columns from one bit per user: rounds of questions about numbers, categories and labels.

``columns``    `Number`, `Category`: how a record is coded, in whole numbers; rows: what a bit may tell
``config``     `TableConfig`, and which rounds, from public numbers
``estimates``  from sums to tables of bins and labels; ``scores``: from tables to a `TableClassifier`; weights
``rounds``     `Round`: what clients get, and how a user answers
``learner``    `TableLearner`: opens and closes rounds
``audits``     `ScoreAudit`, `AuditedClassifier`: what can be certified of it
"""
