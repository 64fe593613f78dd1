"""Inspect past crawls: explain, report, rules for addresses."""
