"""All that decides about two documents: the settings, and by what they were compared."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

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


class Relation(StrEnum):
    """How two names are related, or all names of two pages."""

    SAME = "same"
    """Their subjects are equal."""
    SILENT = "silent"
    """They tell nothing: one is missing, or both are the site's."""
    MORE = "one says more"
    """One has words that the other lacks."""
    LITTLE_MORE = "one says a little more"
    """One has signs that the other lacks, or no subject at all."""
    DIFFER = "differ"
    """Either has what the other lacks."""
    MIXED = "one is the same, one is not"
    """Of all names: title and heading disagree, and the one that is the same is named in the other
    one."""


class Deciding(StrEnum):
    """What decides about two documents, in words for people."""

    SCOPE = "in different scopes: never compared"
    KINDS = "a file and a page: never compared"
    FILE = "files that are no HTML pages: compared by a digest of their bytes"
    DIGEST = "too little text for a simhash: compared exactly"
    DISTANCE = "plain simhash"
    NO_SKETCH = f"no sketch of one of them: within {PLAIN_DISTANCE_BITS} bits the distance decides"
    TEXTS = "texts and names"


class Place(StrEnum):
    """How the addresses of two documents are related."""

    FOLDER = "two files of one folder"
    ADDRESS = "one address"
    HOST = "one host"
    NOWHERE = "no hosts"
    HOSTS = "two hosts"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that decides about two documents, by which `decide` repeats a decision of the log.

    Attributes:
        deciding: what decides.
        distance: bits between their nearest fingerprints.
        within: how many bits may lie between two candidates.
        named: one was found by its name; `keys`: by so many rare triples.
        equal: their digests are equal.
        short: one of them has too little text for a simhash.

        confirm: SIMHASH_CONFIRM; this and what follows only where texts and names decide.
        known: their sites are known.
        title, heading, together: how their names are related.
        place: how their addresses are.
        data_bits: bits between the fingerprints of what browsers may draw them from; 0 without.
        shells: both are made of scripts; `two_shells`: and name two addresses as their own.
        neighbours: they lie in one folder, or the one goes on where the other ends.
        renamed: words of both titles and of both headings differ, be they the site's or not.
        alone: bins of the page that has fewer for itself; `own`: bins of both, weighed; `both_own`:
            those of the page that has fewer; of equal main texts, those that no other page has.
        objection: why their own words tell them apart; "" if they do not, or were not compared.
        copy: why they show that both are one page, whatever the rest says; "" if they do not.
        common: the weight of what either has within the common part, as `Content.within`.

    The others are those of `Content`.
    """

    deciding: Deciding
    distance: int
    within: int
    named: bool = False
    keys: int = 0
    equal: bool = False
    short: bool = False
    confirm: float = 0.0
    known: bool = False
    title: Relation = Relation.SILENT
    heading: Relation = Relation.SILENT
    together: Relation = Relation.SILENT
    place: Place = Place.NOWHERE
    data_bits: int = 0
    shells: bool = False
    two_shells: bool = False
    neighbours: bool = False
    renamed: bool = False
    whole: float = 0.0
    main_alike: float = 0.0
    main_alone: float = 0.0
    main_both: int = 0
    share_of_main: float = 0.0
    alone: int = 0
    shared: float = 0.0
    own: float = 0.0
    both_own: float = 0.0
    common: float = 0.0
    agreed: float = 0.0
    agreed_within: float = 0.0
    objection: str = ""
    copy: str = ""
    triples: float = 0.0
