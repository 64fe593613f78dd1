"""The settings that decide whether one page is a near-duplicate of another."""

from typing import NamedTuple

# The paper's k for 64-bit fingerprints (section 2).
PLAIN_DISTANCE_BITS = 3
CONFIRMED_DISTANCE_BITS = 7
# Chosen on two corpora, with the share that names ask for, and reported on the third, in all three
# ways; from .88 to .9 they find and miss the same within a point (docs/study.md).
CONFIRM = 0.9
# With fewer distinct words, simhash has too little to go on; shorter pages are compared exactly
# (docs/study.md).
MIN_FEATURES = 32


class Rule(NamedTuple):
    """The settings that decide.

    Attributes:
        distance: SIMHASH_DISTANCE, 0 to 15 bits.
        confirm: SIMHASH_CONFIRM, 0 to 1; None for plain simhash.
        min_features: a text with fewer distinct features has no fingerprint; asked for plain
            simhash only, which goes by main texts.
    """

    distance: int
    confirm: float | None
    min_features: int = MIN_FEATURES


def default_distance(confirm: float | None) -> int:
    """Get k for a similarity that a match must reach, or for plain simhash where that is None."""
    return PLAIN_DISTANCE_BITS if confirm is None else CONFIRMED_DISTANCE_BITS
