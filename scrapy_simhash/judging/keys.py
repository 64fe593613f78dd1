"""Rare triples propose: the keys by which a document is found, however many are like it.

Of the triples that represent a page in its sketch, most are the template's on a site of records.
What more than 16 kept documents have is no key any more: it is *dissolved*, for ever, and those
that had it move on to their next triple. So a page has 16 keys that few others have, one for the
whole sketch, and a probe costs the same however large a site is.

Who is found for pages of other callbacks only hangs on its original: its keys are another row of
numbers for each callback, so that the copies that 20 callbacks keep do not dissolve the keys of
their original.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xxhash

from scrapy_simhash.pages.sketch import read_shingles

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from scrapy_simhash.pages.facts import Facts, Reader

# With 8 keys a page a quarter of edits of 30 % are missed on sites of records, with 16 a tenth;
# with 64 documents a key hardly less, for twice the work.
KEYS = 16
MOST_UNDER_KEY = 16
# Where a host is not known, a page's first triples are the template's: a mirror of a page is found
# by 64 of them.
KEYS_OF_STRANGERS = 64
# On labelled pages 4 are as good; on sites of records the original of an edited copy is among 8.
MOST_BY_KEYS = 8
# Two keys, or one that nobody else has.
_LEAST_SCORE = 2.0
# Odd, so that no two triples become one key: 2**64 by the golden ratio (Knuth, volume 3, 6.4).
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)


class Keys(NamedTuple):
    """The keys of a document, 1 to 2**64 - 1.

    Attributes:
        whole: of the whole sketch.
        triples: of its triples, in the order in which documents take them.
        reader: of all that was kept for a reader; 0 without one.
    """

    whole: int
    triples: list[int]
    reader: int = 0


def make_keys(page: Facts, kept_for: str = "") -> Keys:
    """Make the keys of a page with a sketch in its scope; `kept_for`: see `name_reader`."""
    return _make_keys(page.sketch, hash_reader(page.scope, kept_for), bool(kept_for))


# A page is looked for under its keys, and then entered there.
@lru_cache(maxsize=64)
def _make_keys(sketch: bytes, salt: int, is_kept: bool) -> Keys:
    spread = np.sort((read_shingles(sketch) + np.uint64(1)) * _SPREAD ^ np.uint64(salt))
    whole = xxhash.xxh3_64_intdigest(spread.tobytes())
    return Keys(whole or 1, spread.tolist(), salt * is_kept)


def name_reader(reader: Reader, *, across_spiders: bool) -> str:
    """Name who gets a page, among those for whom near-duplicates are kept."""
    return "\0".join(("" if across_spiders else reader.spider, reader.callback))


@lru_cache(maxsize=1_024)
def hash_reader(scope: str, reader: str) -> int:
    """Hash a reader in a scope to what all keys of a document that was kept for them begin with."""
    return xxhash.xxh3_64_intdigest(f"{scope}\0{reader}".encode(errors="surrogatepass"))


def choose_triples(keys: Keys, dissolved: Container[int], most: int) -> list[int]:
    """List the first triples that are not dissolved."""
    return list(islice((key for key in keys.triples if key not in dissolved), most))


def count_common(first: Keys, second: Keys, dissolved: Container[int], *, known: bool) -> int:
    """Count the keys by which one of two documents is found for the other; 0 if by none.

    Args:
        first: of the one.
        second: of the other.
        dissolved: those that more than 16 documents would have.
        known: whether their hosts are known.
    """
    most = KEYS if known else KEYS_OF_STRANGERS
    found = (
        {*choose_triples(asked, dissolved, most)} & {*choose_triples(stored, dissolved, KEYS)}
        for asked, stored in ((first, second), (second, first))
    )
    common = max(map(len, found))
    if first.whole == second.whole:
        return common + 1
    return common if common >= _LEAST_SCORE else 0


def rank_by_keys(found: Iterable[Sequence[int]]) -> dict[int, int]:
    """Choose at most 8 of the documents that keys lead to, with the numbers of these keys.

    Args:
        found: the numbers of the documents of each key.

    Returns:
        Those with two keys, or with one that nobody else has; those with most and rarest keys
        first, of equals the newest.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    counts: defaultdict[int, int] = defaultdict(int)
    for numbers in found:
        for number in numbers:
            scores[number] += 1 + 1 / len(numbers)
            counts[number] += 1
    best = sorted((-score, -number) for number, score in scores.items() if score >= _LEAST_SCORE)
    return {-number: counts[-number] for _, number in islice(best, MOST_BY_KEYS)}
