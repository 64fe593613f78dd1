"""The documents of a store as one transaction sees them, over the rows of any kind of store.

A page is compared with the documents of its group (`Facts.group`), and with what was imported into
its scope.

Rows are packed so::

    octets 0-7   XXH3-64 of key and body, which reveals a flipped bit or a swapped row
    octets 8-    MessagePack array, fields in the order of the class; or a wording
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from struct import Struct
from typing import TYPE_CHECKING, TypeVar

import msgspec
import xxhash
from msgspec import structs

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.documents import Candidate, Document, State, add_crawls
from scrapy_simhash.judging.hosts import SAMPLE, draw_sample
from scrapy_simhash.judging.matching import MOST_CALLED
from scrapy_simhash.judging.noise import Measured, join
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.facts import EVERYONE, LEAST_OF_SHARE, Wording, unpack
from scrapy_simhash.stores.keys import (
    KEYS_OF_A_PAGE,
    KEYS_OF_STRANGERS,
    choose_keys,
    describe_member,
    keys_of,
    make_member,
    name_keys,
)
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    FINGERPRINTS,
    HEADER,
    HEADER_KEY,
    IDENTITIES,
    KEYS,
    SITES,
    TABLES,
    TEXTS,
    number_of,
    octets,
)
from scrapy_simhash.tables import MOST_IN_BUCKET, MOST_IN_PLAIN_BUCKET, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.judging.documents import Rule
    from scrapy_simhash.pages.facts import Facts, Share
    from scrapy_simhash.stores.keys import KeyTable
    from scrapy_simhash.stores.keyvalues import Header, KeyValues, Row
    from scrapy_simhash.tables import Design, Probe

Item = TypeVar("Item")

# Of plain simhash: no page may cost more than this many records, however many are near to it.
MOST_CANDIDATES = 512
# In HEADER, before the digest of a host.
NOISE = b"noise"
_LEADS, _MEMBERS = Struct(">Q8sQ"), Struct("8x24s")  # of FINGERPRINTS and SITES
_CHECKSUM_BYTES = 8


def limit_probe(page: Facts, rule: Rule) -> Limits:
    """Choose the limits of a page's probe; where rare triples propose, too, it may give up.

    `most` is one more than are used, to know that there are more.
    """
    bits = 0 if page.stub else rule.distance
    if not (rule.by_words and page.sketch):
        return Limits(bits, MOST_CANDIDATES + 1, MOST_IN_PLAIN_BUCKET)
    return Limits(bits, MOST_CALLED + 1, MOST_IN_BUCKET, or_nothing=not page.stub)


def propose(
    found: dict[int, Candidate],
    alike: Mapping[int, int],
    called: Iterable[tuple[str, Sequence[int]]],
) -> None:
    """Add to the candidates near a page those with rare triples of it, or a name that few have."""
    for number, keys in alike.items():
        found.setdefault(number, Candidate(-1, number)).keys = keys
    for name, numbers in called:
        for number in numbers if len(numbers) <= MOST_CALLED else ():
            candidate = found.setdefault(number, Candidate(-1, number))
            candidate.name = candidate.name or name


@dataclass(eq=False)
class Documents:
    """The documents, the tables and the rows beside them in one transaction."""

    values: KeyValues
    header: Header
    design: Design
    keys: KeyTable
    # By host, until this transaction changes one: all candidates of a page ask for them.
    _samples: dict[str, dict[int, bytes]] = field(init=False, default_factory=dict)

    def get_all(self, numbers: Iterable[int]) -> dict[int, Document]:
        """Get documents without texts in one round trip; leaves out missing and damaged ones."""
        return self._get(DOCUMENTS, numbers, unpack_document)

    def glance(self, numbers: Collection[int]) -> dict[int, Document]:
        """Get documents as `get_all` does, and read their texts ahead."""
        self.values.fetch(_list_whole(numbers))
        return self.get_all(numbers)

    def put(self, document: Document) -> None:
        """Write the row of a document; its text stays as it is there."""
        key = octets(document.number)
        self.values.put(DOCUMENTS, key, pack_row(key, document.row))

    def save(self, document: Document) -> int:
        """Write a document as it is from now on, with its text, in place of what is there of it.

        Args:
            document: with a number that was taken for it, see `Engine.take_numbers`, which is used
                unless its identity leads to a document that somebody else wrote meanwhile. That
                one's first time and crawls are kept, and that it was spared.

        Returns:
            The number of the document; 0 if another one has its number.
        """
        before = next(iter(self.find(document.facts.identity)), None)
        moves = before is None or _placed(before) != _placed(document)
        if before is not None:
            document = structs.replace(
                document,
                number=before.number,
                first_time=before.first_time,
                spared=before.spared,
                # Those that got another text did not get this one.
                crawls=add_crawls(() if moves else before.crawls, document.crawls),
            )
            if moves:
                self._unindex(before)
        elif self.values.get(DOCUMENTS, octets(document.number)) != [None]:
            # A server that lost its last writes gives numbers out again: the page comes again.
            return 0
        self.put(document)
        key = octets(document.number)
        if document.wording:
            self.values.put(TEXTS, key, seal(key, document.wording))
        else:
            self.values.delete(TEXTS, key)
        if moves:
            self.index(document)
        if (reader := document.facts.reader) not in (known := self.header.readers):
            self.put_header(readers=tuple(sorted({*known, reader})))
        return document.number

    def put_header(self, **changes: object) -> None:
        """Write some fields of the header."""
        self.header = structs.replace(self.header, **changes)
        self.values.put(HEADER, HEADER_KEY, pack_row(HEADER_KEY, self.header))

    def add_shares(self, counted: Iterable[Share]) -> None:
        """Add what a crawl counted; its numbers take the place of an earlier crawl's.

        Not those of a trial of some pages: nobody would be warned in the crawl after it.
        """
        shares = {share.reader: share for share in self.header.shares}
        for share in counted:
            before = shares.get(share.reader)
            if before is not None and before.crawl == share.crawl:  # another judge's, or resumed
                judged, repeated = before.judged + share.judged, before.repeated + share.repeated
                share = structs.replace(share, judged=judged, repeated=repeated)  # noqa: PLW2901
            elif before is not None and share.judged < LEAST_OF_SHARE <= before.judged:
                continue
            shares[share.reader] = share
        self.put_header(shares=tuple(shares.values()))

    def forget(self, identity: bytes) -> None:
        """Delete the document of an identity, if there is one; its near-duplicates stay."""
        for found in self.find(identity):
            self.remove(found)

    def remove(self, document: Document) -> None:
        """Delete a document and all that leads to it."""
        self._unindex(document)
        if document.number in self.find_numbers(document.facts.identity):
            self.values.delete(IDENTITIES, document.facts.identity)
        for table in (DOCUMENTS, TEXTS):
            self.values.delete(table, octets(document.number))

    def __iter__(self) -> Iterator[Document]:
        """Read every row, by ascending number; leaves out damaged ones."""
        return (each for _, each in self.scan() if isinstance(each, Document))

    def scan(self) -> Iterator[tuple[int, Document | DamagedError]]:
        """Read every row, by ascending number; yields an error in place of a damaged one."""
        for key, packed in self.values.scan(DOCUMENTS):
            try:
                yield number_of(key), unpack_document(key, packed)
            except DamagedError as error:
                yield number_of(key), error

    def find_numbers(self, *identities: bytes) -> list[int]:
        """List the numbers of the documents with these identities, of those that there are."""
        return [number_of(each) for each in self.values.get(IDENTITIES, *identities) if each]

    def find(self, *identities: bytes) -> list[Document]:
        """Find the documents with these identities; nothing where a damaged row leads elsewhere."""
        numbers = self.find_numbers(*identities)
        found = self.get_all(numbers).values() if numbers else ()
        return [each for each in found if each.facts.identity in identities]

    def index(self, document: Document) -> None:
        """Make a document findable, in the tables unless it is a near-duplicate."""
        values, page = self.values, document.facts
        values.put(IDENTITIES, page.identity, octets(document.number))
        if document.state == State.DUPLICATE:
            return
        key, member = fingerprint_row(document)
        if not any(values.read_sets(FINGERPRINTS, [key], 1)):
            for row in self.design.split(page.fingerprint):
                values.put(TABLES, *row)
        values.put(FINGERPRINTS, key, member)
        self.keys.enter(document, self.get_all)
        if member := make_member(document, self.header.seed):
            host = host_of(page.url)
            site, there = hash_text(host, self.header.seed), self.list_members(host)
            kept = draw_sample(sorted({*there, member}), describe_member, SAMPLE)
            for beyond in {*there, member}.difference(kept):
                values.delete(SITES, site, beyond)
            if member in kept:
                values.put(SITES, site, member)
                self._samples.clear()

    def _unindex(self, document: Document) -> None:
        """Undo `index`; a fingerprint leaves the tables with its last document."""
        if document.state == State.DUPLICATE:
            return
        values, page = self.values, document.facts
        self.keys.remove(document)
        if member := make_member(document, self.header.seed):
            self._samples.clear()
            values.delete(SITES, hash_text(host_of(page.url), self.header.seed), member)
        key, member = fingerprint_row(document)
        values.delete(FINGERPRINTS, key, member)
        if not any(values.read_sets(FINGERPRINTS, [key], 1)):
            for row in self.design.split(page.fingerprint):
                values.delete(TABLES, *row)

    def find_noise(self, host: str) -> Measured:
        """Find what earlier crawls saw to change on a host; nothing if that is damaged."""
        key = NOISE + hash_text(host, self.header.seed)
        rows = zip([key], self.values.get(HEADER, key), strict=True)
        return dict(read_rows(partial(unpack_row, Measured), rows)).get(key, Measured())

    def add_noise(self, host: str, measured: Measured) -> None:
        """Add what a crawl saw to change on a host."""
        key = NOISE + hash_text(host, self.header.seed)
        self.values.put(HEADER, key, pack_row(key, join(self.find_noise(host), measured)))

    def sample(self, host: str) -> dict[int, bytes]:
        """List the sample of a host: up to 16 documents by number, the least suspect ones.

        Each has a digest of what it tells of its site, which changes with that. Their order depends
        on nothing that a site can choose. A gap that a deletion left is filled by later documents.
        """
        if host not in self._samples:
            found = self.list_members(host)[:SAMPLE]
            self._samples[host] = {number_of(member[8:16]): member[16:] for member in found}
        return self._samples[host]

    def list_members(self, host: str) -> list[bytes]:
        """List the members of the sample of a host; on a server there may be too many."""
        rows, _ = self.values.read_sets(SITES, [hash_text(host, self.header.seed)])
        return [member for (member,) in _MEMBERS.iter_unpack(rows)]

    def near(self, fingerprint: int, limits: Limits) -> Probe:
        """Find stored fingerprints near to one."""
        return self.design.probe(partial(self.values.read_sets, TABLES), fingerprint, limits)

    def get_wordings(self, numbers: Iterable[int]) -> dict[int, Wording]:
        """Get what a reader sees of documents; leaves out missing and damaged ones."""
        return self._get(TEXTS, numbers, unpack_wording)

    def add_texts(self, documents: Collection[Document]) -> list[Document]:
        """Add to documents their texts, where these are there and undamaged."""
        texts = self._get(TEXTS, [each.number for each in documents], unseal_text)
        return [structs.replace(each, wording=texts.get(each.number, b"")) for each in documents]

    def _get(
        self, table: str, numbers: Iterable[int], unpack: Callable[[bytes, bytes], Item]
    ) -> dict[int, Item]:
        """Get rows of documents; leaves out missing and damaged ones."""
        keys = list(map(octets, numbers))
        rows = zip(keys, self.values.get(table, *keys), strict=True)
        return {number_of(key): each for key, each in read_rows(unpack, rows)}

    def read_ahead(self, page: Document, rule: Rule) -> None:
        """Read what judging a page needs in two round trips: what it names, and what that names.

        Candidates that nothing but their distance proposes take one more, and so do those of
        another host.
        """
        facts, groups = page.facts, self._list_groups(page.facts)
        limits = limit_probe(facts, rule)
        identities = [*filter(None, (facts.identity, page.imported))]
        keys = self.keys.list_first(facts, groups, KEYS_OF_STRANGERS) if rule.by_words else ()
        buckets = self.design.list_keys(self.design.rows(facts.fingerprint), limits.bits)
        self.values.fetch(
            chain(
                ((IDENTITIES, each) for each in identities),
                [(SITES, hash_text(host_of(facts.url), self.header.seed))],
                ((KEYS, octets(key)) for key in keys),
                ((TABLES, bucket) for bucket in buckets),
            )
        )
        probe, found = self.near(facts.fingerprint, limits), dict[int, Candidate]()
        if rule.by_words:
            self._propose(found, facts, groups)
        own = {*self.find_numbers(*identities)}
        leads = ((FINGERPRINTS, octets(near)) for _, near in probe.near)
        self.values.fetch(chain(leads, _list_whole(own.union(found))))
        if rule.by_words and not own:
            self.values.fetch(_list_whole(self.list_led(probe, limits, groups)[0]))

    def read_ahead_of(self, documents: Collection[Document]) -> None:
        """Read what writing or removing documents needs in a round trip; one more for old ones."""
        leads = (
            (table, key)
            for each in documents
            for table, (key, _), _ in list_leads(each, self.header.seed, self.keys.dissolved)
        )
        rows = ((DOCUMENTS, octets(each.number)) for each in documents)
        self.values.fetch(chain(leads, rows))
        there = self.find_numbers(*(each.facts.identity for each in documents))
        self.values.fetch((DOCUMENTS, octets(number)) for number in there)

    def _list_groups(self, page: Facts) -> list[str]:
        """List the groups that a page is compared with: its own, and that of imports."""
        groups = [page.group]
        if EVERYONE in self.header.readers and page.reader != EVERYONE:
            groups.append(structs.replace(page, reader=EVERYONE).group)
        return groups

    def find_own(self, page: Document) -> list[Document]:
        """Find a page's own document, and what an import has of it; its own one comes first."""
        return self.find(*filter(None, (page.facts.identity, page.imported)))

    def gather(self, page: Document, rule: Rule, own: int = 0) -> tuple[list[Candidate], bool]:
        """Find the documents that may be like a page: near, with rare triples of it, or a name.

        They are of its group, or imported. The document of the number `own` is the page's own.
        """
        facts, by_words, groups = page.facts, rule.by_words, self._list_groups(page.facts)
        limits = limit_probe(facts, rule)
        found, complete = self.list_led(self.near(facts.fingerprint, limits), limits, groups)
        if by_words:
            self._propose(found, facts, groups, own)
        candidates = sorted(found.values())[: None if by_words else MOST_CANDIDATES]
        there = self.get_all([each.number for each in candidates])
        for each in candidates:
            each.document = there.get(each.number)
        return candidates, complete or by_words

    def _propose(
        self, found: dict[int, Candidate], page: Facts, groups: Collection[str], own: int = 0
    ) -> None:
        """Add to the candidates near a page those that rare triples or names propose."""
        is_full = len(self.sample(host_of(page.url))) == SAMPLE
        most = KEYS_OF_A_PAGE if is_full else KEYS_OF_STRANGERS
        propose(found, *self.keys.propose(page, groups, most, own))

    def list_led(
        self, probe: Probe, limits: Limits, groups: Iterable[str] | None = None
    ) -> tuple[dict[int, Candidate], bool]:
        """List the documents of near fingerprints, of some groups or all; and whether this is all.

        Those of the nearest fingerprints come first.
        """
        if not probe.near:
            return {}, probe.complete
        bits_of, hashes = {near: bits for bits, near in probe.near}, {*map(hash_text, groups or ())}
        keys = list(map(octets, bits_of))
        rows, crowded = self.values.read_sets(FINGERPRINTS, keys, limits.in_bucket)
        leads = _LEADS.iter_unpack(rows)
        any_of = groups is None
        numbers = ((near, number) for near, group, number in leads if any_of or group in hashes)
        some = islice(numbers, limits.most)
        found = {number: Candidate(bits_of[near], number) for near, number in some}
        # There may be more fingerprints than are used, those of other groups included.
        complete = max(len(found), len(bits_of)) < limits.most and probe.complete and not crowded
        return {} if limits.or_nothing and not complete else found, complete


def _list_whole(numbers: Iterable[int]) -> Iterator[Row]:
    """List the rows of documents and their texts."""
    return ((table, octets(number)) for number in numbers for table in (DOCUMENTS, TEXTS))


def hash_text(text: str, seed: int = 0) -> bytes:
    """Hash a group to the 8 bytes in rows of fingerprints; or a host, with the store's seed."""
    return xxhash.xxh3_64_digest(text.encode(errors="surrogatepass"), seed)


def fingerprint_row(document: Document) -> tuple[bytes, bytes]:
    """Make key and member of a document under its fingerprint."""
    page = document.facts
    return octets(page.fingerprint), hash_text(page.group) + octets(document.number)


def list_leads(
    document: Document, seed: int, dissolved: Collection[int]
) -> Iterator[tuple[str, tuple[bytes, bytes], bool]]:
    """List what leads to a document: table; key and member, or value; and whether it must."""
    page, number = document.facts, octets(document.number)
    yield IDENTITIES, (page.identity, number), True
    if document.state == State.DUPLICATE:
        return
    yield FINGERPRINTS, fingerprint_row(document), True
    # A sample or a name has some of them only.
    if member := make_member(document, seed):
        yield SITES, (hash_text(host_of(page.url), seed), member), False
    for name in name_keys(page, page.group, seed):
        yield KEYS, (octets(name), number), False
    for key in choose_keys(keys_of(document), dissolved, KEYS_OF_A_PAGE):
        yield KEYS, (octets(key), number), True


def unseal_text(key: bytes, packed: bytes) -> bytes:
    """Return the packed wording of the document of a key, or raise a DamagedError."""
    return unseal(f"text of document {number_of(key)}", key, packed)


def unpack_wording(key: bytes, packed: bytes) -> Wording:
    """Read the wording of the document of a key, or raise a DamagedError."""
    return unpack(unseal_text(key, packed))


def _placed(document: Document) -> tuple[object, ...]:
    """Tell by what a document is found, and what it tells of its site."""
    page = document.facts
    return (
        *(page.fingerprint, page.url, page.title, page.heading, page.sketch, page.group),
        *(page.text_digest, page.suspicion, page.stub, document.state == State.DUPLICATE),
    )


def seal(key: bytes, body: bytes) -> bytes:
    """Put a checksum before the body of a row, which covers its key, too."""
    return xxhash.xxh3_64_digest(key + body) + body


def unseal(what: str, key: bytes, packed: bytes) -> bytes:
    """Return the body of a row, or raise a DamagedError that says what is damaged."""
    body = packed[_CHECKSUM_BYTES:]
    if packed[:_CHECKSUM_BYTES] != xxhash.xxh3_64_digest(key + body):
        raise DamagedError(f"damaged {what}: checksum differs")
    return body


def pack_row(key: bytes, row: object) -> bytes:
    """Pack a row of a table, with a checksum that covers its key, too."""
    return seal(key, msgspec.msgpack.encode(row))


def unpack_row(kind: type[Item], key: bytes, packed: bytes) -> Item:
    """Read the row of a key, or raise a DamagedError."""
    what = f"{kind.__name__.lower()} at key {key.hex()}"
    try:
        return msgspec.msgpack.decode(unseal(what, key, packed), type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedError(f"damaged {what}: {error}") from error


def unpack_document(key: bytes, packed: bytes) -> Document:
    """Read the document of a key without its text, or raise a DamagedError."""
    document = unpack_row(Document, key, packed)
    document.number = number_of(key)
    return document


def read_rows(
    unpack: Callable[[bytes, bytes], Item], rows: Iterable[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, Item]]:
    """Read rows, with their keys; leaves out those that are missing or damaged."""
    for key, packed in rows:
        if packed is not None:
            with suppress(DamagedError):  # `check` lists it
                yield key, unpack(key, packed)
