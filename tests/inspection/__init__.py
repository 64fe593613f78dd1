"""Tests of the room `inspection`."""
