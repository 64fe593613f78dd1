"""Tests of the room `detector`."""
