"""The version of this package; whatever is written down with a result names it."""

__version__ = "0.1.0"
