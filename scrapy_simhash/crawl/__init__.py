"""Connect to Scrapy: choose responses and actions, and follow each page until it came through."""
