"""Tests of URL rules."""
