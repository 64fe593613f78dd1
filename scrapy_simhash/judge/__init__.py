"""A page in, a decision out: the process that judges, young pages, the log. No Scrapy."""
