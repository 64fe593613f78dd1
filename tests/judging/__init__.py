"""Tests of the room `judging`."""
