"""Inspect past decisions: log, explain, report."""
