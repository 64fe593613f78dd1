"""What decides about two documents, and what of it the log keeps."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

# The paper's k for 64-bit fingerprints (section 2), which decides in plain simhash; and within
# which candidates are found whose words are compared.
PLAIN_DISTANCE_BITS = 3
WORDS_DISTANCE_BITS = 7
# With fewer distinct words, simhash has too little to go on; shorter pages are compared exactly
# (docs/design.md).
MIN_FEATURES = 32


# By the name of the rule: SIMHASH_RULE, which a store has, too.
DEFAULT_DISTANCE_BITS = {"words": WORDS_DISTANCE_BITS, "plain": PLAIN_DISTANCE_BITS}


class Rule(NamedTuple):
    """The settings that decide.

    Attributes:
        distance: SIMHASH_DISTANCE, 0 to 15 bits.
        name: SIMHASH_RULE: with `plain` the distance alone decides, as in the paper; with `words`
            `judging.rule` does.
        min_features: a text with fewer distinct features has no fingerprint; asked for plain
            simhash only, which goes by main texts.
    """

    distance: int
    name: str = "words"
    min_features: int = MIN_FEATURES


class Relation(StrEnum):
    """How the titles, or the headings, of two pages are related."""

    SAME = "same"
    """They say the same words."""
    SILENT = "silent"
    """One is missing."""
    DIFFER = "differ"
    """They do not."""


class Deciding(StrEnum):
    """What decides about two documents, in words for people."""

    SCOPE = "in different scopes: never compared"
    DIGEST = "too little text for a simhash: compared exactly"
    DISTANCE = "plain simhash"
    NO_WORDS = f"no words of one of them: within {PLAIN_DISTANCE_BITS} bits the distance decides"
    WORDS = "words and names"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What decided about two documents.

    Attributes:
        deciding: what decides.
        distance: bits between their fingerprints.
        within: how many bits may lie between two candidates.
        named: one was found by its name; `keys`: by so many rare triples.
        equal: their digests are equal.

        known: their sites are known; this and what follows only where words decide.
        title, heading: how their names are related.
        main_alike: share of either main text that is on both, 0 to 1; the smaller one of the two.
        other_number: each main text says a number that neither the other page nor an address has.
    """

    deciding: Deciding
    distance: int
    within: int
    named: bool = False
    keys: int = 0
    equal: bool = False
    known: bool = False
    title: Relation = Relation.SILENT
    heading: Relation = Relation.SILENT
    main_alike: float = 0.0
    other_number: bool = False
