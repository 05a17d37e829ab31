"""The first question: users perturb their features before they query a classifier; how often does the label stay."""
