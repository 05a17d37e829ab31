"""Results as pages: one file each, offline, for people who look before they read.

>>> from epsworth import report
>>> "epsworth utility --json" in report.RESULTS
True
"""

from epsworth.report.page import Heading, Page
from epsworth.report.result import RESULTS, report, report_document, report_file

__all__ = ["RESULTS", "Heading", "Page", "report", "report_document", "report_file"]
