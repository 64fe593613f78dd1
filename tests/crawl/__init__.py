"""Crawls, and tests of the room `crawl` and the middlewares."""
