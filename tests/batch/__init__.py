"""Tests of the room `batch`."""
