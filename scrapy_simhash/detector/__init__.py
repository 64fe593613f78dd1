"""A page in, a decision out: processes, threads, the log. No Scrapy."""
