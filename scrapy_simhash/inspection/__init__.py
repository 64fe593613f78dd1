"""Inspect past decisions, and try other settings: log, explain, evaluate, report."""
