"""Find the fingerprints near a given one: table designs, probes, what they cost.

Section 3 of the paper. Arrays in, arrays out: `stores` keeps the tables on disk.
"""
