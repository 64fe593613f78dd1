"""Fill stores without a crawl: the command `import`, and what it reads."""
