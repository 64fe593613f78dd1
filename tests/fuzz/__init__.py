"""Fuzzing of the pure part; see `fuzz_page`."""
