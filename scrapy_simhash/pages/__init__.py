"""A page's bytes to texts, names, links, features, fingerprint and sketch (paper, section 2).

Pure: no Scrapy, no store, no processes.
"""
