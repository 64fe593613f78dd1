"""Import, export and merge."""
