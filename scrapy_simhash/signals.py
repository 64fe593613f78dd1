"""Signals of the plugin; connect to them as to Scrapy's own."""

near_duplicate_found = object()
"""A page was judged a near-duplicate, whatever the action.

Handlers, which may be coroutine functions, get `response`, `request`, `verdict` (the value of
`request.meta["simhash"]`) and `spider`. The page goes on when all have returned.
"""

sink_found = object()
"""A crawl met a wall: a page that answers unlike addresses, such as a login or "not found" page.

Sent once a crawl for each wall, with the first page whose verdict has `sink`; handlers are those of
`near_duplicate_found`. The verdict's `match_url` is the page that showed the wall first.
"""
