"""Precision and recall on labelled pages, and on labelled pairs of a user's own store."""

# The modules that other rooms may import.
__all__ = ["crawling", "evaluation", "labels", "quality", "sampling"]
