"""Signals of the plugin, to connect to like Scrapy's own."""

near_duplicate_found = object()
"""A page was judged a near-duplicate, whatever the action.

Handlers, coroutine functions among them, get `response`, `request`, `verdict` (what
`request.meta["simhash"]` holds) and `spider`. The page goes on when all have returned.
"""
