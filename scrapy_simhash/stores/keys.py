"""The rows that lead to a document: rare triples, names, and the sample of its host.

Of the triples that represent a page in its sketch, most are the template's on a site of records.
What more than 16 kept documents have is no key any more: it is *dissolved*, for ever, and those
that had it move on to their next one. So a page has 17 keys that few others have, of which the
first one is for the whole sketch, and a probe costs the same however large a site is.

In the table KEYS a document is under the first 17 of its keys that are not dissolved; that follows
from its row and from what is dissolved. A dissolved key has one member, of zeros, which stays
for ever. Names have keys there, too.

Each group of pages that are compared (`Facts.group`) has keys of its own, so that the copies that
20 callbacks get do not dissolve each other's keys.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import regex
import xxhash

from scrapy_simhash.judging.documents import State
from scrapy_simhash.judging.matching import MOST_CALLED
from scrapy_simhash.pages.addresses import form_of, host_of
from scrapy_simhash.pages.features import normalise, read_shingles, tokenise
from scrapy_simhash.stores.keyvalues import KEYS, octets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator

    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.pages.facts import Facts
    from scrapy_simhash.stores.keyvalues import KeyValues

    Glance: TypeAlias = Callable[[Collection[int]], dict[int, Document]]


# The most documents under a name: one more than are read, so that a full one is known.
CALLED = MOST_CALLED + 1
# With 8 triples a page a quarter of edits of 30 % are missed on sites of records, with 16 a tenth;
# with 64 documents a key hardly less, for twice the work.
KEYS_OF_A_PAGE = 1 + 16
MOST_UNDER_KEY = 16
# Where a host is not known, a page's first triples are the template's: a mirror of a page is found
# by 64 of them.
KEYS_OF_STRANGERS = 1 + 64
# On labelled pages 4 are as good; on sites of records the original of an edited copy is among 8.
MOST_BY_KEYS = 8
# Two keys, or one that nobody else has.
_LEAST_SCORE = 2.0
# Odd, so that no two triples become one key: 2**64 by the golden ratio (Knuth, volume 3, 6.4).
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)
DISSOLVED = bytes(8)
# Keys with the numbers under them.
_read_under = Struct(">QQ").iter_unpack
# Of some 60 bytes each.
_MOST_REMEMBERED = 200_000
# "Fire in the harbour - The Daily", "The Daily | Local news | Fire in the harbour", "Boost: any".
_PARTS = re.compile(r"\s+[|–—―·:»›~-]+\s+|(?<=[\w)+])::?\s+|：")  # noqa: RUF001
# The longest titles of the corpora have five.
_MOST_PARTS = 8
# \w of `regex` takes in the marks of the Indic scripts, see `pages.features`.
_TOKENS = regex.compile(r"\d+(?:[.,:/-]\d+)*|(?:(?![\d_])\w)+|[^\w\s]+|_+")
# Punctuation is the writer's habit: quotation marks, commas, colons, a full stop, but not "...".
_MUTE = re.compile("[\"'`´‘’“”„«»‹›,:;…¶§]+|(?<![.])[.](?![.])")  # noqa: RUF001


def list_parts(*names: str) -> dict[frozenset[str], str]:
    """List the parts of names: by their words and signs, any number for any, as they are read."""
    texts = (text for name in names for text in _PARTS.split(normalise(name))[:_MOST_PARTS])
    return {key: text.strip() for text in texts if (key := _key_part(text))}


def _key_part(text: str) -> frozenset[str]:
    """Key a part by its words and signs; a number by the word before it, or not at all."""
    key, before = set[str](), ""
    for token in _TOKENS.findall(text):
        if token[0].isdigit():
            key |= {f"{before} #"} if before else set()
        elif words := tokenise(token):
            key |= {*words}
            before = words[-1]
        else:
            key |= {*_MUTE.sub(" ", token).split()}
    return frozenset(key)


# A page is looked for under its keys, and then entered there.
@lru_cache(maxsize=64)
def make_keys(sketch: bytes, group: str) -> list[int]:
    """Make the keys of a page with a sketch in a group, 1 to 2**64 - 1, as documents take them."""
    salt = np.uint64(xxhash.xxh3_64_intdigest(group.encode(errors="surrogatepass")))
    spread = np.sort((read_shingles(sketch) + np.uint64(1)) * _SPREAD ^ salt)
    whole = xxhash.xxh3_64_intdigest(spread.tobytes())
    return [whole or 1, *spread.tolist()]


def rank_by_keys(found: Iterable[Collection[int]]) -> dict[int, int]:
    """Choose at most 8 of the documents that each key leads to, with how many keys each has.

    These have two, or one that nobody else has; those with most and rarest keys come first, of
    equals the newest.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    counts: defaultdict[int, int] = defaultdict(int)
    for numbers in found:
        for number in numbers:
            scores[number] += 1 + 1 / len(numbers)
            counts[number] += 1
    best = sorted((-score, -number) for number, score in scores.items() if score >= _LEAST_SCORE)
    return {-number: counts[-number] for _, number in islice(best, MOST_BY_KEYS)}


def keys_of(document: Document) -> list[int]:
    """Make the keys under which a document may be; none of one that is found otherwise."""
    page = document.facts
    if document.state == State.DUPLICATE or not page.sketch:
        return []
    return make_keys(page.sketch, page.group)


def choose_keys(keys: Iterable[int], dissolved: Container[int], most: int) -> list[int]:
    """List the first keys that are not dissolved."""
    return list(islice((key for key in keys if key not in dissolved), most))


def name_keys(page: Facts, group: str, seed: int) -> dict[int, str]:
    """Make the keys of the parts of a page's names, on its host and in a group.

    Without a host or a sketch, which no file has, a page is not found by its names.
    """
    host = host_of(page.url) if page.sketch else ""
    return _name_keys(host, group, page.title, page.heading, seed) if host else {}


# A page is looked for under its names, and then entered there.
@lru_cache(maxsize=64)
def _name_keys(host: str, group: str, title: str, heading: str, seed: int) -> dict[int, str]:
    place = xxhash.xxh3_64(f"{host}\0{group}".encode(errors="surrogatepass"), seed).digest()
    return {
        xxhash.xxh3_64_intdigest(
            place + "\0".join(sorted(key)).encode(errors="surrogatepass")
        ): name
        for key, name in list_parts(title, heading).items()
    }


def make_member(document: Document, seed: int) -> bytes:
    """Make the member of the sample of its host that a document is; b"" if it is none.

    Near-duplicates and stubs say nothing of a site, and without a sketch nothing can be compared.
    The seed of a store is secret, so nobody can choose the pages of a sample.
    """
    page = document.facts
    if page.stub or not page.sketch or document.state == State.DUPLICATE or not host_of(page.url):
        return b""
    # In place of the sketch: without these, it changes by a few bins only.
    told = ascii((page.title, page.heading, page.text_digest, page.fingerprint))
    form = form_of(page.url).encode(errors="surrogatepass")
    drawn = xxhash.xxh3_64_digest(page.identity, seed) + octets(document.number)
    told_of_site = xxhash.xxh32_digest(told.encode()) + bytes((page.suspicion,))
    return drawn + told_of_site + xxhash.xxh32_digest(form)[:3]


def describe_member(member: bytes) -> tuple[int, bytes]:
    """Return how suspect a member of a sample is, and the form of its address."""
    return member[20], member[21:]


@dataclass(eq=False)
class KeyTable:
    """The table in one transaction; `seed` is the store's.

    `dissolved` are keys that are, as far as it is remembered from one transaction to the next.
    """

    _values: KeyValues
    seed: int
    dissolved: set[int]
    # Who is under a key, as this transaction leaves it: what it dissolves may be given up.
    _under: dict[int, set[int]] = field(default_factory=dict)

    def find(self, keys: Iterable[int], most: int) -> list[set[int]]:
        """List the documents of the first keys that are not dissolved."""
        return [self._under[key] for key in islice(self._climb(keys), most)]

    def propose(
        self, page: Facts, groups: Collection[str], most: int, own: int = 0
    ) -> tuple[dict[int, int], list[tuple[str, list[int]]]]:
        """Find the documents with a page's rare triples, and those with a name on its host.

        Returns:
            At most 8 of each group, but for number `own`, with their triples, see `rank_by_keys`;
            and each part of a name with the documents that have it, 9 at most.
        """
        if not page.sketch:
            return {}, []
        self._read(self.list_first(page, groups, most))
        alike: dict[int, int] = {}
        named: dict[int, str] = {}
        for group in groups:
            found = self.find(make_keys(page.sketch, group), most)
            alike |= rank_by_keys([under - {own} for under in found])
            named |= name_keys(page, group, self.seed)
        return alike, [(name, sorted(self._under[key])) for key, name in named.items()]

    def list_first(self, page: Facts, groups: Iterable[str], most: int) -> Iterator[int]:
        """List the keys of a page's names, and the first ones of it that may not be dissolved."""
        for group in groups if page.sketch else ():
            yield from name_keys(page, group, self.seed)
            yield from choose_keys(make_keys(page.sketch, group), self.dissolved, most)

    def enter(self, document: Document, glance: Glance) -> None:
        """Enter a document that is not there; under its names, while there is room.

        Keys that are full are dissolved, and those that had them move on, until all fit. `glance`
        gets these.
        """
        under, number, page, keys = self._under, document.number, document.facts, keys_of(document)
        named = name_keys(page, page.group, self.seed)
        self._read(self.list_first(page, [page.group], KEYS_OF_A_PAGE))
        for key in (each for each in named if len(under[each]) < CALLED):
            self._add(key, number)
        ladders = {number: self._climb(keys)}
        waiting = [number] * KEYS_OF_A_PAGE
        while waiting:
            each = waiting.pop()
            if each not in ladders:
                lost = {*waiting, each} - ladders.keys()
                ladders |= dict.fromkeys(lost, iter(()))  # of a damaged one there is none
                ladders |= {n: self._climb(keys_of(one)) for n, one in glance(lost).items()}
            for key in ladders[each]:
                if each in under[key]:
                    continue
                # On a server, two writers may have entered one more than fits.
                if len(under[key]) < MOST_UNDER_KEY:
                    self._add(key, each)
                    break
                waiting += self._dissolve(key)

    def remove(self, document: Document) -> None:
        """Remove a document."""
        named = name_keys(document.facts, document.facts.group, self.seed)
        own = islice(self._climb(keys_of(document)), KEYS_OF_A_PAGE)
        for key in (*named, *own):
            self._values.delete(KEYS, octets(key), octets(document.number))
            self._under.get(key, set()).discard(document.number)

    def _add(self, key: int, number: int) -> None:
        self._values.put(KEYS, octets(key), octets(number))
        self._under[key].add(number)

    def _dissolve(self, key: int) -> set[int]:
        """Dissolve a key, and return who had it."""
        self._values.delete(KEYS, octets(key))
        self._values.put(KEYS, octets(key), DISSOLVED)
        had, self._under[key] = self._under[key], {0}
        return had

    def _climb(self, keys: Iterable[int]) -> Iterator[int]:
        """Pass the keys of a document that are not dissolved, in their order."""
        # Only the first pages of a template, and those of a process, meet many dissolved keys that
        # it does not remember.
        left = [key for key in keys if key not in self.dissolved]
        for place, key in enumerate(left):
            if key not in self._under:
                self._read(left[place : place + KEYS_OF_A_PAGE])
            if 0 not in self._under[key]:
                yield key

    def _read(self, keys: Iterable[int]) -> None:
        """Read who is under keys, unless that is known."""
        if not (new := [key for key in keys if key not in self._under]):
            return
        rows, _ = self._values.read_sets(KEYS, list(map(octets, new)))
        self._under |= {key: set() for key in new}
        for key, number in _read_under(rows):
            self._under[key].add(number)
        for key in new:
            # On a server, others may have been added while a key was dissolved.
            if 0 in self._under[key]:
                self._under[key] = {0}
                if len(self.dissolved) > _MOST_REMEMBERED:
                    self.dissolved.clear()
                self.dissolved.add(key)
