"""Precision and recall on labelled pages, and on labelled pairs of a user's own store."""
