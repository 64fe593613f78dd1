"""Tests of the package as a whole, its documents and its example."""
