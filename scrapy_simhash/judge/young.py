"""Young pages: judged and on their way to their items, in the judge's memory only.

A page that is to be kept is young until its callback ended and its items were scraped; then it is
written. It is forgotten if that fails, and with the judge that has it. Meanwhile it is found as
what the store has is found, and counts in the sample of its host.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from scrapy_simhash.judging.documents import Candidate, Document, State
from scrapy_simhash.judging.hosts import SAMPLE, draw_sample
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.facts import Wording, unpack
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
    from collections.abc import Collection, Iterable, Sequence

    from scrapy_simhash.judging.documents import Rule
    from scrapy_simhash.pages.facts import PageLinks
    from scrapy_simhash.stores.documents import Documents

# A revisit has the number of its document, which the store's record has, too: as a candidate it
# goes by its number in the crawl beyond this one, where no document is.
_FIRST_KEY = 1 << 62
# Dissolved keys, of some 60 bytes each. If there are more, which takes the templates of 1,000
# hosts, they are forgotten, and some copies are kept twice.
_MOST_DISSOLVED = 200_000

# Of a host, those that may be in its sample.
_MOST_DRAWN_FROM = 2 * SAMPLE

# A kind, and an identity, rare triple, name, number of an earlier crawl's document, or host.
_Lead: TypeAlias = tuple[str, bytes | int | str]


@dataclass(eq=False, slots=True)
class YoungPage:
    """A young page.

    Attributes:
        page: its number in the crawl.
        key: its number as a candidate: that of its document, or of one of its own.
        document: as it is written once its items came through.
        stands: as those have it that are compared with it.
        member: of the sample of its host, as the table of samples has it; b"" if it is in none.
        leads: by what it is found.
        links: those that count once its callback ended, with its group; or None.
        counts: already: it is about to be written, or pipelines drop all items.
        is_settled: it is about to be written.
        is_slow: somebody waited for it in vain.
    """

    page: int
    key: int
    document: Document
    stands: Document
    member: bytes
    leads: list[_Lead]
    links: tuple[PageLinks, str] | None = None
    counts: bool = False
    is_settled: bool = False
    is_slow: bool = False


class Young:
    """The young pages of one judge, in the order of their coming, and what leads to them.

    Args:
        seed: of the store.
        dissolved: rare triples that are keys no more in the store.

    Attributes:
        pages: by their numbers in the crawl.
        by_key: by their numbers as candidates.
    """

    def __init__(self, seed: int, dissolved: set[int]) -> None:
        self.seed = seed
        self.pages: dict[int, YoungPage] = {}
        self.by_key: dict[int, YoungPage] = {}
        self._fingerprints: dict[int, int] = {}  # as `by_key`
        self._found: defaultdict[_Lead, list[int]] = defaultdict(list)
        # As in the store: on a site of records, a template would lead to all its pages.
        self._dissolved, self._dissolved_there = set[int](), dissolved

    def find(self, kind: str, key: bytes | int | str) -> Sequence[int]:
        """List the pages that a lead leads to by their numbers as candidates, the oldest first."""
        return self._found.get((kind, key), ())

    def find_near(self, fingerprint: int, distance_bits: int) -> dict[int, int]:
        """Find the pages within a distance, by their numbers as candidates, each with its bits."""
        # Of 10,000 pages it takes .4 ms.
        return {
            key: bits
            for key, own in self._fingerprints.items()
            if (bits := (own ^ fingerprint).bit_count()) <= distance_bits
        }

    def choose_keys(self, keys: Iterable[int], most: int) -> list[int]:
        """List the first keys that are not dissolved, neither here nor in the store."""
        left = (key for key in keys if key not in self._dissolved)
        return choose_keys(left, self._dissolved_there, most)

    def add(self, page: int, document: Document, *, is_new: bool) -> None:
        """Make a page findable.

        Args:
            page: its number in the crawl.
            document: as it is to be written.
            is_new: it is in the sample of its host, too.
        """
        key = document.number if is_new else _FIRST_KEY + page
        # A first copy is written as a near-duplicate, but meanwhile stands for its original.
        stands, facts = structs.replace(document, state=State.DONE), document.facts
        member = make_member(stands, self.seed) if is_new else b""
        leads: list[_Lead] = [("identity", facts.identity)]
        leads += [("name", each) for each in name_keys(facts, facts.group, self.seed)]
        if member:
            leads.append(("host", host_of(facts.url)))
        if document.state == State.DUPLICATE:  # a first copy
            leads.append(("original", document.original))
        for each in self.choose_keys(keys_of(stands), KEYS_OF_A_PAGE):
            if len(self.find("key", each)) < MOST_UNDER_KEY:
                leads.append(("key", each))
            else:
                self._dissolve(each)
        for lead in leads:
            self._found[lead].append(key)
        made = self.pages[page] = YoungPage(page, key, document, stands, member, leads)
        self.by_key[key], self._fingerprints[key] = made, facts.fingerprint

    def _dissolve(self, key: int) -> None:
        """Dissolve a key; who loses it gets no other."""
        if len(self._dissolved) >= _MOST_DISSOLVED:
            self._dissolved.clear()
        self._dissolved.add(key)
        for each in self._found.pop(("key", key)):
            self.by_key[each].leads.remove(("key", key))

    def pop(self, page: int) -> None:
        """Take a page out."""
        found = self.pages.pop(page)
        del self.by_key[found.key], self._fingerprints[found.key]
        for lead in found.leads:
            self._found[lead].remove(found.key)
            if not self._found[lead]:
                del self._found[lead]


class WithYoung:
    """The documents that one transaction sees, together with the young pages; see `Reading`."""

    def __init__(self, stored: Documents, young: Young) -> None:
        self._stored, self._young = stored, young
        self._samples: dict[str, dict[int, bytes]] = {}
        self.find_noise = stored.find_noise

    def find_own(self, page: Document) -> list[Document]:
        """Find a page's own document, and what an import has of it; a young one comes first."""
        young = self._young.find("identity", page.facts.identity)
        own = [self._young.by_key[each].document for each in young[-1:]]
        return own + self._stored.find_own(page)

    def gather(self, page: Document, rule: Rule, own: int = 0) -> tuple[list[Candidate], bool]:
        """Find the candidates of a page; its own document may be among them."""
        found, complete = self._stored.gather(page, rule, own)
        facts, young = page.facts, self._young
        limits = limit_probe(facts, rule)
        near = young.find_near(facts.fingerprint, limits.bits)
        if limits.or_nothing and len(near) >= limits.most:
            near = {}
        some = islice(near.items(), limits.most)
        candidates = {key: Candidate(bits, key) for key, bits in some}
        if rule.by_words and facts.sketch:
            is_full = len(self.sample(host_of(facts.url))) == SAMPLE
            most = KEYS_OF_A_PAGE if is_full else KEYS_OF_STRANGERS
            keys = young.choose_keys(make_keys(facts.sketch, facts.group), most)
            alike = rank_by_keys(pages for each in keys if (pages := young.find("key", each)))
            names = name_keys(facts, facts.group, young.seed)
            called = ((name, young.find("name", key)) for key, name in names.items())
            propose(candidates, alike, called)
        for candidate in sorted(candidates.values()):
            each = young.by_key[candidate.number]
            other = each.document.facts
            if other.identity != facts.identity and other.group == facts.group:
                candidate.document, candidate.young = each.stands, not each.counts
                found.append(candidate)
        return found, complete

    def sample(self, host: str) -> dict[int, bytes]:
        """List up to 16 documents of a host, young ones among them."""
        young = self._young.find("host", host)[:_MOST_DRAWN_FROM]
        if not young:
            return self._stored.sample(host)
        if host not in self._samples:
            members = {*self._stored.list_members(host)[:SAMPLE]}
            members.update(self._young.by_key[key].member for key in young)
            drawn = draw_sample(sorted(members), describe_member, SAMPLE)
            self._samples[host] = {number_of(each[8:16]): each[16:] for each in drawn}
        return self._samples[host]

    def glance(self, numbers: Collection[int]) -> dict[int, Document]:
        """Get those documents that are there and undamaged."""
        young = {each: found.stands for each in numbers if (found := self._young.by_key.get(each))}
        return young | self._stored.glance([each for each in numbers if each not in young])

    def get_wordings(self, numbers: Collection[int]) -> dict[int, Wording]:
        """Get those wordings that are there and undamaged."""
        young = {
            each: unpack(found.document.wording)
            for each in numbers
            if (found := self._young.by_key.get(each)) and found.document.wording
        }
        return young | self._stored.get_wordings([each for each in numbers if each not in young])
