"""Move documents between stores, and into them: import, backup, merge."""
