"""Noise under a utility constraint: within +-theta with probability 1 - beta, at the least privacy loss."""
