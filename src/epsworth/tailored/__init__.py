"""Building what a tailored policy holds: a copy of the classifier, records that stand for its regions, a prior."""
