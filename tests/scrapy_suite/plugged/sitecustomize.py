"""Puts the plugin into each process of Scrapy's tests that has this folder on its PYTHONPATH."""

import os

from scrapy.settings import default_settings

default_settings.ADDONS = {"scrapy_simhash.Addon": 500}
default_settings.SIMHASH_PROCESSES = 0  # each crawl would take a second to start one
default_settings.SIMHASH_STORE = f"{os.environ['SIMHASH_SUITE']}/process-{os.getpid()}"
