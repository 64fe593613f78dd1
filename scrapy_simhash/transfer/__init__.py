"""Move documents between stores, and into them: import, backup, merge."""

# The modules that other rooms may import.
__all__ = ["exchange", "importing", "merging", "sources", "warc"]
