"""Scrapy's own test-suite, without and with the plugin: `python -m tests.scrapy_suite`."""
