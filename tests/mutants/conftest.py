"""Tell which mutants took longest."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter):
    took = {
        report.nodeid.partition("[")[2][:-1]: report.duration
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", "") == "call" and "notices_the_mutant[" in report.nodeid
    }
    if took:
        terminalreporter.section("slowest mutants")
        for name in sorted(took, key=took.get, reverse=True)[:10]:
            terminalreporter.line(f"{took[name]:6.1f} s  {name}")
