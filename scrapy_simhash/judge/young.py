"""Young pages: judged and on their way to their items, in the judge's memory only.

A page that is to be kept is young until its callback ended and its items were scraped; then it is
written. It is forgotten if that fails, and with the judge that has it. Meanwhile it is found as
what the store has is found, and counts in the sample of its host.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from msgspec import structs

from scrapy_simhash.judging.documents import Candidate, Record, State
from scrapy_simhash.judging.hosts import SAMPLE, draw_sample
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.wording import Wording, unpack
from scrapy_simhash.stores.documents import limit_probe, propose
from scrapy_simhash.stores.keys import (
    KEYS_OF_A_PAGE,
    KEYS_OF_STRANGERS,
    MOST_UNDER_KEY,
    choose_keys,
    describe_member,
    keys_of,
    make_keys,
    make_member,
    name_keys,
    rank_by_keys,
)
from scrapy_simhash.stores.keyvalues import number_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Sequence

    from scrapy_simhash.judging.documents import Document, Entry, Rule
    from scrapy_simhash.judging.noise import Measured
    from scrapy_simhash.pages.facts import Facts
    from scrapy_simhash.stores.documents import Documents

# The oldest is forgotten: a spider that keeps more callbacks at work than this is none we know of.
MOST_YOUNG = 10_000
# A revisit has the number of its document, which the store's record has, too: as a candidate it
# goes by its number in the crawl beyond this one, where no document is.
_FIRST_KEY = 1 << 62
# Dissolved keys, of some 60 bytes each. If there are more, which takes the templates of 1,000
# hosts, they are forgotten, and some copies are kept twice.
_MOST_DISSOLVED = 200_000

_Lead: TypeAlias = tuple[
    str, bytes | int | str
]  # a kind, and an identity, rare triple, name, host or number of an earlier crawl's document


class YoungPage(NamedTuple):
    """A young page.

    Attributes:
        page: its number in the crawl.
        key: its number as a candidate: that of its document, or of one of its own.
        entry: what is written once its items came through.
        record: its record, as those have it that are compared with it.
        leads: by what it is found.
        member: of the sample of its host, as the table of samples has it; b"" if it is in none.
        place: of its fingerprint among those of all.
    """

    page: int
    key: int
    entry: Entry
    record: Record
    leads: list[_Lead]
    member: bytes
    place: int


class Young:
    """The young pages of one judge, in the order of their coming, and what leads to them.

    Attributes:
        pages: by their numbers in the crawl.
        by_key: by their numbers as candidates.
        dissolved: rare triples that are keys no more.
        counting: numbers of those that count already: they are about to be written, or pipelines
            drop all items.
    """

    def __init__(self) -> None:
        self.pages: dict[int, YoungPage] = {}
        self.by_key: dict[int, YoungPage] = {}
        self._found: defaultdict[_Lead, list[int]] = defaultdict(list)
        self._drawn: dict[str, list[bytes]] = {}  # see `draw`
        # As in the store: on a site of records, a template would lead to all its pages.
        self.dissolved: set[int] = set()
        self._places: list[int] = list(range(MOST_YOUNG + 1))
        self._first = MOST_YOUNG  # of the places that were ever taken
        # By place: a fingerprint is compared with all at once.
        self._fingerprints = np.zeros(MOST_YOUNG + 1, np.uint64)
        self._keys = np.zeros(MOST_YOUNG + 1, np.int64)  # 0 where there is none
        self.counting: set[int] = set()

    def find(self, kind: str, key: bytes | int | str) -> Sequence[int]:
        """List the pages that a lead leads to by their numbers as candidates, the oldest first."""
        return self._found.get((kind, key), ())

    def draw(self, host: str) -> list[bytes]:
        """Draw the sample of a host from its young pages, at most 16 members."""
        if host not in self._drawn and (keys := self.find("host", host)):
            members = sorted(self.by_key[each].member for each in keys)
            self._drawn[host] = draw_sample(members, describe_member, SAMPLE)
        return self._drawn.get(host, [])

    def find_near(
        self, fingerprint: int, distance_bits: int, most: int | None = None
    ) -> list[tuple[int, YoungPage]]:
        """List the pages within a distance, or some of them, each with its bits."""
        keys = self._keys[self._first :]
        differ = np.bitwise_count(self._fingerprints[self._first :] ^ np.uint64(fingerprint))
        places = np.flatnonzero((differ <= distance_bits) & (keys != 0))[:most]
        return [(int(differ[each]), self.by_key[int(keys[each])]) for each in places]

    def add(
        self, page: int, entry: Entry, seed: int, dissolved: Container[int], *, is_new: bool
    ) -> None:
        """Make a page findable.

        Args:
            page: its number in the crawl.
            entry: what is to be written of it.
            seed: of the store.
            dissolved: rare triples that are keys no more.
            is_new: it is in the sample of its host, too.

        Raises:
            IndexError: there is no place; nothing has changed.
        """
        key = entry.number if is_new else _FIRST_KEY + page
        # A first copy is written as a near-duplicate, but meanwhile stands for its original.
        record = structs.replace(entry.record, state=State.DONE)
        leads: list[_Lead] = [("identity", record.facts.identity)]
        leads += [("name", each) for each in name_keys(record.facts, record.facts.group, seed)]
        member = make_member(key, record, seed) if is_new else b""
        host = host_of(record.facts.url)
        if member:
            leads.append(("host", host))
        if entry.record.state == State.DUPLICATE:  # a first copy
            leads.append(("original", entry.record.original))
        place = self._places.pop()
        self._first = min(self._first, place)
        made = self.pages[page] = YoungPage(page, key, entry, record, leads, member, place)
        self.by_key[key] = made
        for lead in leads:
            self._found[lead].append(key)
        left = (each for each in keys_of(record) if each not in self.dissolved)
        for each in choose_keys(left, dissolved, KEYS_OF_A_PAGE):
            self._lead(made, each)
        if member and host in self._drawn:
            members = sorted((*self._drawn[host], member))
            self._drawn[host] = draw_sample(members, describe_member, SAMPLE)
        self._fingerprints[place], self._keys[place] = record.facts.fingerprint, key

    def _lead(self, page: YoungPage, key: int) -> None:
        """Have a key lead to a page, unless it is or gets dissolved; who loses it gets no other."""
        lead = ("key", key)
        if key in self.dissolved:
            return
        if len(self._found[lead]) < MOST_UNDER_KEY:
            self._found[lead].append(page.key)
            page.leads.append(lead)
            return
        if len(self.dissolved) >= _MOST_DISSOLVED:
            self.dissolved.clear()
        self.dissolved.add(key)
        for each in self._found.pop(lead):
            self.by_key[each].leads.remove(lead)

    def pop(self, page: int) -> YoungPage | None:
        """Take a page out, if it is there."""
        found = self.pages.pop(page, None)
        if found is None:
            return None
        del self.by_key[found.key]
        self.counting.discard(page)
        host = host_of(found.record.facts.url)
        if found.member in self._drawn.get(host, ()):
            # Drawn again from all when it is needed: of many pages of a host, few are in it.
            del self._drawn[host]
        for lead in found.leads:
            self._found[lead].remove(found.key)
            if not self._found[lead]:
                del self._found[lead]
        self._keys[found.place] = 0
        self._places.append(found.place)
        return found


class WithYoung:
    """The documents that one transaction sees, together with the young pages; see `Reading`."""

    def __init__(self, stored: Documents, young: Young) -> None:
        self._stored, self._young = stored, young
        self._samples: dict[str, dict[int, bytes]] = {}

    def find_number(self, identity: bytes) -> int | None:
        """Get the number of the document with an identity that is written."""
        return self._stored.find_number(identity)

    def find_own(self, page: Document) -> list[tuple[int, Record]]:
        """Find a page's own record, and what an import has of it; a young one comes first."""
        young = self._young.find("identity", page.facts.identity)
        own = self._young.by_key.get(young[-1]) if young else None
        return ([own.entry[:2]] if own else []) + self._stored.find_own(page)

    def gather(self, page: Document, rule: Rule, own: int = 0) -> tuple[list[Candidate], bool]:
        """Find the candidates of a page; its own document may be among them."""
        found, complete = self._stored.gather(page, rule, own)
        young = self._young
        found += [
            candidate._replace(record=each.record, young=each.page not in young.counting)
            for candidate in sorted(self._list_candidates(page.facts, rule))
            if (each := young.by_key.get(candidate.number))
            and each.record.facts.identity != page.facts.identity
            and each.record.facts.group == page.facts.group
        ]
        return found, complete

    def _list_candidates(self, facts: Facts, rule: Rule) -> Collection[Candidate]:
        """List the young pages that may be like a page."""
        young, found = self._young, dict[int, Candidate]()
        limits = limit_probe(facts, rule.distance, rule.by_words)
        near = young.find_near(facts.fingerprint, limits.bits, limits.most)
        if not (limits.or_nothing and len(near) >= limits.most):
            for bits, each in near:
                found[each.key] = Candidate(bits, each.key, each.record.facts.fingerprint)
        if rule.by_words:
            names = name_keys(facts, facts.group, self._stored.header.seed)
            called = ((name, young.find("name", key)) for key, name in names.items())
            propose(found, self._list_alike(facts), called)
        return found.values()

    def _list_alike(self, facts: Facts) -> dict[int, int]:
        """List the young pages with rare triples of a page, by their keys, with their numbers."""
        if not facts.sketch:
            return {}
        is_full = len(self.sample(host_of(facts.url))) == SAMPLE
        keys = make_keys(facts.sketch, facts.group)
        left = (each for each in keys if each not in self._young.dissolved)
        most = KEYS_OF_A_PAGE if is_full else KEYS_OF_STRANGERS
        found = (
            self._young.find("key", key) for key in choose_keys(left, self._stored.dissolved, most)
        )
        return rank_by_keys(pages for pages in found if pages)

    def sample(self, host: str) -> dict[int, bytes]:
        """List up to 16 documents of a host, young ones among them."""
        young = self._young.draw(host)
        if not young:
            return self._stored.sample(host)
        if host not in self._samples:
            members = {*self._stored.list_members(host)[:SAMPLE], *young}
            drawn = draw_sample(sorted(members), describe_member, SAMPLE)
            self._samples[host] = {number_of(each[8:16]): each[16:] for each in drawn}
        return self._samples[host]

    def glance(self, numbers: Collection[int]) -> dict[int, Record]:
        """Get those records that are there and undamaged."""
        young = {each: found.record for each in numbers if (found := self._young.by_key.get(each))}
        return young | self._stored.glance([each for each in numbers if each not in young])

    def find_noise(self, host: str) -> Measured:
        """Find what earlier crawls saw to change on a host."""
        return self._stored.find_noise(host)

    def get_wordings(self, numbers: Collection[int]) -> dict[int, Wording]:
        """Get those wordings that are there and undamaged."""
        young = {
            each: unpack(found.entry.wording)
            for each in numbers
            if (found := self._young.by_key.get(each)) and found.entry.wording
        }
        return young | self._stored.get_wordings([each for each in numbers if each not in young])
