"""Rules on addresses: from stored pages to proven rules, and where an address leads. Pure."""
