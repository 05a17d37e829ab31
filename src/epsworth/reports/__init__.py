"""Results as pages: one file each, offline, for people who look before they read.

>>> from epsworth import reports
>>> "epsworth utility --json" in reports.RESULTS
True
"""

from epsworth.reports.others import report_document
from epsworth.reports.page import Page
from epsworth.reports.parts import Heading
from epsworth.reports.result import RESULTS, report, report_file

__all__ = ["RESULTS", "Heading", "Page", "report", "report_document", "report_file"]
