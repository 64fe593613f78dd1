"""Connect to Scrapy: choose responses and actions, follow pages until done, fetch lost ones."""
