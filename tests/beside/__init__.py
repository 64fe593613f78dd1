"""Tests beside other plugins, with the real ones."""
