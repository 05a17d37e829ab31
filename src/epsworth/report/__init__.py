"""Results as pages: one file each, offline, for people who look before they read.

>>> import epsworth as ew
>>> "epsilon" in ew.report.report(ew.Policy.of("pm", 1, {"age": (0, 100)})).html
True
"""

from epsworth.report.page import Heading, Page
from epsworth.report.result import report

__all__ = ["Heading", "Page", "report"]
