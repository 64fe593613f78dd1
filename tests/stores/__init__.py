"""Tests of the room `stores`."""
