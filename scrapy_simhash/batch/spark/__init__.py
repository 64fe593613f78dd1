"""Batch processing of billions of pages on Spark."""

# The module that other rooms may import.
__all__ = ["tasks"]
