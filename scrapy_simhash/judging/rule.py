"""The rule: all that decides about two documents, and how.

A candidate is a document within k bits, one of the same host in whose names a part is the same, or
one with the same rare triples (`stores.keys`). Other names (`names`) are other pages. Where they
are the same, or tell nothing, content must agree: what many pages of the site have does not count,
nor as much what stands before and behind the common part. `decide` is all of it; docs/design.md
states it on one page, and docs/study.md has the measurements behind each constant. What it would
drop at another last segment of the address is then compared word by word (`gate`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

# The paper's k for 64-bit fingerprints (section 2).
PLAIN_DISTANCE_BITS = 3
CONFIRMED_DISTANCE_BITS = 7
# SIMHASH_CONFIRM: what must agree of two texts. Chosen on two corpora, with the share that names
# ask for; from .88 to .9 they find and miss the same within a point (docs/study.md).
CONFIRM = 0.9
# What `gate` says where nothing keeps two pages apart.
NO_RECORD = "the words that differ do not make them two pages"
# With fewer distinct words, simhash has too little to go on; shorter pages are compared exactly
# (docs/study.md).
MIN_FEATURES = 32
# Of all content so much must agree, with the frames outside of its common part: .5 has two wrong
# matches more on the third corpus, and finds five more. And where the names are not wholly the
# same: .5 has one wrong more, .9 misses seventeen more.
LEAST_AGREED = 0.6
LEAST_AGREED_OF_OTHER_NAMES = 0.75
# Main texts that are alike are, at least, such a share of all that both pages have: .25 has one
# wrong match more on the third corpus, .4 misses two more on the first.
LEAST_SHARE_OF_MAIN = 0.3
# Until the site is known, two texts of which more stands on one page only are not one, however much
# of their template agrees: it takes pages that were kept to know it. From .5 on it costs nothing.
MOST_OF_MAIN_ALONE = 0.5
# Texts that have less in common are not worth a look, and no near-duplicates, whatever is template:
# where copies of one page are all that is known of a site, all of its text is. .4 finds two more on
# the third corpus, .6 misses three more on the manuals.
LEAST_ALIKE = 0.5
# So many triples that both have outweigh a name that differs where the other one tells nothing:
# translated titles, other editions. 500 finds one pair more, 3,000 misses four more (third corpus).
TRIPLES_OF_A_LONG_TEXT = 1_000
# What a browser may draw a page with little text from differs in so many bits at most.
MOST_BITS_OF_ONE_DATA = 10
OTHER_DATA = "little text and much data, from which a browser may draw two pages"
# So much of a page with the same name may be edited.
EDITED = 0.07


class Rule(NamedTuple):
    """The settings that decide.

    Attributes:
        distance: SIMHASH_DISTANCE, 0 to 15 bits.
        confirm: SIMHASH_CONFIRM, 0 to 1; None for plain simhash.
        min_features: a text with fewer distinct features has no fingerprint; asked for plain
            simhash only, which goes by main texts.
        words: exact words decide, see `judging.wordrule`.
    """

    distance: int
    confirm: float | None
    min_features: int = MIN_FEATURES
    words: bool = False


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
    """Of all names: title and heading disagree."""


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

    ADDRESS = "one address"
    HOST = "two addresses of one host"
    NOWHERE = "no hosts"
    HOSTS = "two hosts"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that decides about two documents, by which `decide` repeats a decision of the log.

    Attributes:
        deciding: what decides.
        distance: bits between their fingerprints.
        within: how many bits may lie between two candidates.
        named: one was found by its name; `keys`: by so many rare triples.
        equal: their digests are equal.
        short: one of them has too little text for a simhash.

        confirm: SIMHASH_CONFIRM; this and what follows only where texts and names decide.
        known: their sites are known.
        title, heading, together: how their names are related.
        place: how their addresses are.
        data_bits: bits between the fingerprints of what browsers may draw them from; 0 without.
        objection: why their own words tell them apart; "" if they do not, or were not compared.
        copy: why they show that both are one page, whatever the rest says; "" if they do not.

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
    whole: float = 0.0
    main_alike: float = 0.0
    main_alone: float = 0.0
    share_of_main: float = 0.0
    agreed: float = 0.0
    agreed_within: float = 0.0
    objection: str = ""
    copy: str = ""
    triples: float = 0.0


def decide(evidence: Evidence) -> tuple[str, bool, bool]:
    """Decide by all that is known: why, for people; whether one proposes the other; confirmed.

    They are near-duplicates if both hold.
    """
    deciding, distance = evidence.deciding, evidence.distance
    near = evidence.named or evidence.keys > 0 or distance <= evidence.within
    if deciding is Deciding.TEXTS:
        why, confirmed = _compare_texts(evidence)
        if evidence.objection:
            why, confirmed = evidence.objection, False
        elif evidence.copy and why != OTHER_DATA:
            why, confirmed = evidence.copy, True
        return why, near, confirmed
    if deciding in {Deciding.FILE, Deciding.DIGEST}:
        return deciding.value, near, evidence.equal
    plain = deciding is Deciding.NO_SKETCH and distance <= PLAIN_DISTANCE_BITS
    return deciding.value, near, plain or deciding is Deciding.DISTANCE


def _compare_texts(e: Evidence) -> tuple[str, bool]:
    """Return why texts and names make two pages one document or two, and whether they are one."""
    same = e.together is Relation.SAME
    # A word that differs is much of a short text; only a known site shows another frame.
    framed = e.known and same and e.main_alike == 1 and e.whole < 1
    names, one_host = {e.title, e.heading}, e.place is Place.HOST
    # Until the site is known, the name that is the same may be the site's.
    unsure = one_host and not e.known and Relation.DIFFER in names
    differ = e.together is Relation.DIFFER or unsure
    if differ and not one_host:  # translated, or the site's
        long = e.triples >= TRIPLES_OF_A_LONG_TEXT and min(e.agreed, e.agreed_within) >= e.confirm
        differ = not (long and (not e.known or Relation.SILENT in names))
    within, whole = e.agreed_within, e.whole
    if one_host and not e.known:  # template would pass for content
        whole = min(whole, within)
    elif same:
        within += EDITED
    other = e.together in {Relation.MORE, Relation.MIXED}
    least = LEAST_AGREED_OF_OTHER_NAMES if other else LEAST_AGREED
    main = e.main_alike >= e.confirm and e.share_of_main >= LEAST_SHARE_OF_MAIN
    two = (
        ("short texts that differ", e.short and not framed),
        (OTHER_DATA, e.data_bits > MOST_BITS_OF_ONE_DATA and e.place is not Place.ADDRESS),
        ("main texts differ", not e.known and e.main_alone > MOST_OF_MAIN_ALONE),
        ("little in common", max(e.main_alike, e.whole) < LEAST_ALIKE),
        ("names differ", differ),
    )
    one = (
        ("short texts with one main text", e.short),
        ("so long a content agrees whatever its names", e.together is Relation.DIFFER),
        ("content agrees", max(within, whole) >= e.confirm and e.agreed >= least),
        ("main texts are alike", same and main),
        ("texts are equal, and all that they say is the site's", e.whole == 1 == e.main_alike),
    )
    for tests, confirmed in ((two, False), (one, True)):
        for why, holds in tests:
            if holds:
                return why, confirmed
    return "content differs", False
