"""Tests of what stands on the ground floor, and of the settings."""
