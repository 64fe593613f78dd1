"""Signals of the plugin; connect to them as to Scrapy's own."""

near_duplicate_found = object()
"""A page was judged a near-duplicate, whatever the action.

Handlers, which may be coroutine functions, get `response`, `request`, `verdict` (the value of
`request.meta["simhash"]`) and `spider`. The page goes on when all have returned.
"""
