"""Documents and their tables, on disk (`lmdb`) or on a server (`redis`)."""
