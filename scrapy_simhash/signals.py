"""Signals of the plugin, to connect to like Scrapy's own."""

near_duplicate_found = object()
"""A page was judged a near-duplicate, whatever the action.

Handlers get `response`, `request`, `verdict` (what `request.meta["simhash"]` holds) and `spider`.
"""
