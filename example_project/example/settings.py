"""Settings of the example crawl."""

from docsite import HOST

SPIDER_MODULES = ["example.spiders"]

# This line is all that scrapy-simhash needs.
ADDONS = {"scrapy_simhash.Addon": 500}

# Breadth first, so that a page is met before its print view, its copy on the mirror and its
# session addresses: whichever comes first is kept, and the others are its duplicates.
DEPTH_PRIORITY = 1
SCHEDULER_DISK_QUEUE = "scrapy.squeues.PickleFifoDiskQueue"
SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.FifoMemoryQueue"

# Polite to sites of other people; the local site needs no rest.
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 1
DOWNLOAD_SLOTS = {HOST: {"delay": 0, "concurrency": 16, "jitter": 0}}

# The local site, started when the first request for it comes by. The position is anywhere
# before HttpProxyMiddleware (750).
DOWNLOADER_MIDDLEWARES = {"example.localsite.LocalSiteMiddleware": 740}

LOG_LEVEL = "INFO"
