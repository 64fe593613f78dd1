"""Batch processing of billions of pages on Spark."""
