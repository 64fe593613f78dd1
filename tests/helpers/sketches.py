"""Sketches of two documents that are as alike as a test wants them, and how alike two are."""

from math import ceil

import numpy as np

from scrapy_simhash.judging.comparison import UNKNOWN_SITES, compare_contents
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.pages.sketch import BINS, sketch_text


def make_sketches(main: float, whole: float) -> tuple[bytes, bytes]:
    """Sketch two documents with these similarities, or up to a bin more.

    Main texts lie in what both have; where that is nothing, their similarity is 0.
    """
    # One shingle a bin: some in both, the others in one after the other.
    shingles = np.arange(BINS, dtype=np.uint64) << np.uint64(56)
    common = ceil(whole * BINS)
    in_both_mains = ceil(main * common)
    numbers = np.arange(BINS)
    first, second = (
        sketch_text(
            shingles[(numbers < common) | (numbers % 2 == side)],
            shingles[(numbers < in_both_mains) | (numbers % 2 == side) & (numbers < common)],
        )
        for side in (0, 1)
    )
    return first, second


def compare_sketches(first: bytes, second: bytes) -> tuple[float, float]:
    """Estimate how similar main and whole texts are, 0 to 1."""
    one, other = (Facts(b"", 0, b"", sketch=sketch) for sketch in (first, second))
    (content,) = compare_contents([(one, other)], [UNKNOWN_SITES])
    return content.main_alike, content.whole
