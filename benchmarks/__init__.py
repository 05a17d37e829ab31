"""Speed, as ratios against a named alternative in the same run: ``python -m benchmarks``."""
