"""The documents of a store as one transaction sees them, over the rows of any kind of store.

A fingerprint in the tables that has no row in FINGERPRINTS was bulk-loaded, for every scope; if a
document has it, too, a member of zeros records that it was bulk-loaded.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, TypeAlias

import xxhash

from scrapy_simhash._printable import mask_password
from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import Candidate, Match, Record, State
from scrapy_simhash.judging.judge import MOST_CALLED, MOST_CANDIDATES, limit_probe, name_reader
from scrapy_simhash.judging.names import list_parts
from scrapy_simhash.judging.sites import SAMPLE, draw_sample
from scrapy_simhash.pages.addresses import bound_url, form_of, host_of
from scrapy_simhash.pages.facts import NOBODY
from scrapy_simhash.pages.wording import Wording, unpack
from scrapy_simhash.stores.keys import KEYS, KEYS_OF_STRANGERS, KeyTable, keys_of, make_keys
from scrapy_simhash.stores.keyvalues import (
    ADDRESSES,
    ALIASES,
    CALLED,
    CRAWLS,
    DOCUMENTS,
    DUPLICATES,
    FINGERPRINTS,
    IDENTITIES,
    NAMES,
    SITES,
    TABLES,
    TEXTS,
    KeyValues,
    number_of,
    octets,
)
from scrapy_simhash.stores.rows import (
    LOST,
    CrawlRecord,
    Lost,
    key_of_lost,
    pack_row,
    read_rows,
    seal,
    unpack_row,
    unseal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from scrapy_simhash.judging.documents import Change, Document, Gathered
    from scrapy_simhash.judging.judge import Limits
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.pages.facts import Facts
    from scrapy_simhash.stores.keys import Keys
    from scrapy_simhash.tables.permutation import Design
    from scrapy_simhash.tables.probing import Probe, Prober

_Row: TypeAlias = tuple[str, bytes, bytes]  # table, key and member of a set
BULK_LOADED = bytes(16)


class Documents:
    """The documents, the tables and the rows beside them in one transaction.

    `alive` tells whether a crawl is running; `dissolved` is what `KeyTable` remembers.
    """

    def __init__(
        self,
        values: KeyValues,
        prober: Prober,
        seed: int,
        alive: Callable[[str], bool],
        dissolved: set[int],
    ) -> None:
        self.values = values
        self.seed, self.alive = seed, alive
        self._prober = prober
        # By host, until this transaction changes one: all candidates of a page ask for them.
        self._samples: dict[str, dict[int, bytes]] = {}
        self.keys = KeyTable(values, dissolved, self._get_keys)

    @property
    def design(self) -> Design:
        """The design of the tables."""
        return self._prober.design

    def get(self, number: int) -> Record | None:
        """Get a record, or None."""
        key = octets(number)
        packed = self.values.get(DOCUMENTS, key)
        return None if packed is None else unpack_row(Record, key, packed)

    def get_all(self, numbers: Iterable[int]) -> dict[int, Record]:
        """Get records in one round trip; leaves out missing ones."""
        return {
            number_of(key): unpack_row(Record, key, packed)
            for key, packed in self._read_records(numbers)
            if packed is not None
        }

    def glance(self, numbers: Iterable[int]) -> dict[int, Record]:
        """Get records in one round trip; leaves out missing and damaged ones."""
        rows = read_rows(Record, self._read_records(numbers))
        return {number_of(key): record for key, record in rows}

    def _read_records(self, numbers: Iterable[int]) -> Iterator[tuple[bytes, bytes | None]]:
        keys = list(map(octets, numbers))
        return zip(keys, self.values.get_all(DOCUMENTS, keys), strict=True)

    def put(
        self,
        number: int,
        record: Record,
        wording: bytes | None = None,
        names: Iterable[bytes] = (),
    ) -> None:
        """Write a record and its packed wording, and let these identities lead to it.

        None leaves the wording that is there, b"" deletes it. The record's own identity leads to
        it in any case, others unless they lead to another document.
        """
        values, key = self.values, octets(number)
        packed, text = pack_row(key, record), wording and seal(key, wording)
        rows = [(name, pack_identity(name, number)) for name in names]
        values.put(DOCUMENTS, key, packed)
        if text:
            values.put(TEXTS, key, text)
        elif text is not None:
            values.delete(TEXTS, key)
        for name, row in rows:
            before, own = values.get(IDENTITIES, name), name == record.facts.identity
            if before == row or not (own or before is None):
                continue
            values.put(IDENTITIES, name, row)
            if not own:
                values.add(ALIASES, key, name)
            elif before is not None:
                values.discard(ALIASES, before[:8], name)

    def apply(self, change: Change) -> int:
        """Write what judging a document came to; returns its number."""
        document, number, before, record, is_moved, is_lost = change
        names = (document.facts.identity, *document.aliases)
        if not is_moved:
            self.put(number, record, document.wording, names)
            return number
        if before is not None:
            self.take_out(number, before)
        number = self.add(number, record, document.wording, aliases=names)
        if is_lost:
            self.add_lost(number, record, self.get(record.original), record.facts.reader.spider)
        return number

    def add_lost(self, number: int, record: Record, original: Record | None, spider: str) -> None:
        """Write that a spider may have to request a page again, as its original may not come."""
        lost = Lost(
            url=mask_password(record.facts.url),
            spider=spider,
            crawl=record.crawl,
            page=record.original,
            text_digest=b"" if original is None else original.facts.text_digest,
            reader=NOBODY if original is None else original.facts.reader,
        )
        key = key_of_lost(number)
        self.values.put(LOST, key, pack_row(key, lost))

    def add(
        self,
        number: int,
        record: Record,
        wording: bytes | None = None,
        *,
        aliases: Iterable[bytes] = (),
    ) -> int:
        """Write a document and all that leads to it; returns its number, the next one for 0.

        One of this number must have been taken out. `aliases` and the packed `wording` see `put`.
        """
        number = number or self._take_number()
        leads = leads_of(number, record)
        self.put(number, record, wording, (record.facts.identity, *aliases))
        for lead in leads:
            self.values.add(*lead)
        if record.state != State.DUPLICATE:
            self._index(number, record)
        return number

    def _take_number(self) -> int:
        """Take the next number that no document has; the counter may be damaged."""
        while self.values.get(DOCUMENTS, octets(number := self.values.take_number())) is not None:
            pass
        return number

    def take_out(self, number: int, record: Record) -> None:
        """Delete every entry that leads to a document; its record stays."""
        for lead in leads_of(number, record):
            self.values.discard(*lead)
        if record.state == State.DUPLICATE:
            self.values.delete(LOST, key_of_lost(number))
        else:
            self._unindex(number, record)

    def remove(self, number: int, record: Record) -> None:
        """Delete a document that was taken out, with its wording and identities."""
        key = octets(number)
        for identity in (record.facts.identity, *self.values.members(ALIASES, key)):
            if self.find_number(identity) == number:
                self.values.delete(IDENTITIES, identity)
        for table in (DOCUMENTS, TEXTS, DUPLICATES, ALIASES):
            self.values.delete(table, key)

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        """Read every record, in the order in which the documents came."""
        for key, packed in self.values.scan(DOCUMENTS):
            yield number_of(key), unpack_row(Record, key, packed)

    def scan(self) -> Iterator[tuple[int, Record | DamagedError]]:
        """Read every record, by ascending number; yields an error in place of a damaged one."""
        for key, packed in self.values.scan(DOCUMENTS):
            try:
                yield number_of(key), unpack_row(Record, key, packed)
            except DamagedError as error:
                yield number_of(key), error

    def find_number(self, identity: bytes) -> int | None:
        """Get the number of the document with this identity or alias."""
        value = self.values.get(IDENTITIES, identity)
        return None if value is None else unpack_identity(identity, value)

    def list_aliases(self, number: int) -> tuple[bytes, ...]:
        """List the identities, other than its own, that lead to a document."""
        found = self.values.members(ALIASES, octets(number))
        return tuple(identity for identity in found if self.find_number(identity) == number)

    def list_at(self, url: str) -> list[int]:
        """List the documents with a URL."""
        url = bound_url(url, self.seed)
        key, member = address_row(url, 0)
        numbers = sorted(
            number_of(found[1:]) for found in self.values.members(ADDRESSES, key, member[:1])
        )
        return [number for number, page in self.get_all(numbers).items() if page.facts.url == url]

    def _index(self, number: int, record: Record) -> None:
        """Make a document findable."""
        values, (key, row) = self.values, fingerprint_row(number, record)
        if not values.members(FINGERPRINTS, key, most=1):
            rows = self._prober.split(record.facts.fingerprint)
            if values.has(TABLES, *rows[0]):
                values.add(FINGERPRINTS, key, BULK_LOADED)
            else:
                for table_row in rows:
                    values.add(TABLES, *table_row)
        values.add(FINGERPRINTS, key, row)
        if keys := keys_of(record):
            self.keys.enter(number, keys)
        self.enter_site(number, record)

    def _unindex(self, number: int, record: Record) -> None:
        """Undo `_index`; a fingerprint leaves the tables with its last document."""
        if keys := keys_of(record):
            self.keys.remove(number, keys)
        for site_row in rows_of_site(number, record, self.seed):
            if self.values.has(*site_row):
                self.values.discard(*site_row)
                self._samples.clear()
        values, (key, row) = self.values, fingerprint_row(number, record)
        if not values.has(FINGERPRINTS, key, row):
            return
        values.discard(FINGERPRINTS, key, row)
        if not values.members(FINGERPRINTS, key, most=1):
            for table_row in self._prober.split(record.facts.fingerprint):
                values.discard(TABLES, *table_row)

    def enter_site(self, number: int, record: Record) -> None:
        """Enter a document in the sample of its host and under its names, while there is room.

        A sample is drawn, see `judging.sites`; a name has those that came first.
        """
        for table, key, member in rows_of_site(number, record, self.seed):
            there = self.values.members(table, key)
            if table == NAMES and len(there) == CALLED:
                continue
            kept = sorted({*there, member})
            if table == SITES:
                kept = draw_sample(kept, _describe, SAMPLE)
            if member in kept and member not in there:
                self.values.add(table, key, member)
                self._samples.clear()
            for beyond in set(there).difference(kept):
                self.values.discard(table, key, beyond)

    def _get_keys(self, numbers: Iterable[int]) -> dict[int, Keys]:
        """Make the keys of documents that have some, and are not damaged."""
        made = ((number, keys_of(record)) for number, record in self.glance(numbers).items())
        return {number: keys for number, keys in made if keys}

    def list_alike(self, page: Facts, reader: str, own: int = 0) -> dict[int, int]:
        """List the documents with rare triples of a page, each with their number; most come first.

        At most 8, and 8 more of those that were kept for a reader (`judge.name_reader`). The
        document of the number `own` is left out.
        """
        if page.stub or not page.sketch:
            return {}
        known = len(self.sample(host_of(page.url))) == SAMPLE
        return self.keys.list_alike(page, reader, KEYS if known else KEYS_OF_STRANGERS, own)

    def list_called(self, page: Facts) -> list[tuple[str, list[int]]]:
        """List the parts of a page's names, each with the documents that have it, too.

        These are of the page's host and scope, no near-duplicates and no files, and have sketches;
        9 at most.
        """
        names = name_keys(page, self.seed)
        found = self.values.read_sets(NAMES, list(names))
        return [
            (name, list(map(number_of, members)))
            for name, members in zip(names.values(), found, strict=True)
        ]

    def sample(self, host: str) -> dict[int, bytes]:
        """List the sample of a host, see `pages.addresses.host_of`: up to 16 documents by number.

        Each has a digest of what it tells of its site, which changes with that. They are no
        near-duplicates and no stubs, have sketches, and are the least suspect ones; their order
        depends on nothing that a site can choose. A gap that a deletion left is filled by later
        documents.
        """
        sample = self._samples.get(host)
        if sample is None:
            found = self.values.members(SITES, site_key(host, self.seed), most=SAMPLE)
            sample = {number_of(member[8:16]): member[16:] for member in found}
            self._samples[host] = sample
        return sample

    def near(
        self,
        fingerprint: int,
        distance: int,
        most: int | None = None,
        in_bucket: int | None = None,
        or_nothing: bool = False,
    ) -> Probe:
        """Find stored fingerprints within a distance, see `Prober.probe`."""
        try:
            return self._prober.probe(
                self.values.many, fingerprint, distance, most, in_bucket, or_nothing=or_nothing
            )
        except (ValueError, StructError) as error:
            raise StoreError(f"the tables are damaged: {error}; rebuild them") from error

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        """List the documents that have exactly this fingerprint, oldest first within a scope.

        `scope` and `most` limit them, unless None; 0 leads them if it was bulk-loaded.
        """
        values, key = self.values, octets(fingerprint)
        prefix = b"" if scope is None else scope_hash(scope)
        found = values.members(FINGERPRINTS, key, prefix, most)
        first = values.members(FINGERPRINTS, key, most=1) if prefix else found[:1]
        numbers = [number_of(row[8:]) for row in found if row != BULK_LOADED]
        bulk_loaded = first in ([], [BULK_LOADED])  # of all members the mark comes first
        return [0, *numbers][:most] if bulk_loaded else numbers

    def get_wordings(self, numbers: Collection[int]) -> dict[int, Wording]:
        """Get what a reader sees of documents; leaves out missing and damaged ones."""
        keys = list(map(octets, numbers))
        found: dict[int, Wording] = {}
        for key, packed in zip(keys, self.values.get_all(TEXTS, keys), strict=True):
            if packed is not None:
                with suppress(DamagedError):  # `check` lists it
                    found[number_of(key)] = unpack_wording(key, packed)
        return found

    def list_duplicates(self, original: int) -> list[int]:
        """List the near-duplicates of a document."""
        return [number_of(found) for found in self.values.members(DUPLICATES, octets(original))]

    def list_deletable(self, numbers: Iterable[int]) -> list[int]:
        """Add near-duplicates, and theirs in turn; leaves out what is missing or in use."""
        # Without its original, the drop of a near-duplicate cannot be explained. An original
        # becomes a near-duplicate itself if its crawl dies and it is fetched again.
        chosen: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            record = self.get(number)
            if number not in chosen and record is not None and not self.is_in_use(record):
                chosen.add(number)
                waiting += self.list_duplicates(number)
        return sorted(chosen)

    def is_in_use(self, record: Record) -> bool:
        """Whether a document is pending in a running crawl."""
        return record.state == State.PENDING and self.alive(record.crawl)

    def get_crawl(self, crawl: str) -> CrawlRecord | None:
        """Get the record of a crawl, or None."""
        packed = self.values.get(CRAWLS, crawl.encode())
        return None if packed is None else unpack_row(CrawlRecord, crawl.encode(), packed)

    def put_crawl(self, crawl: str, record: CrawlRecord) -> None:
        """Write the record of a crawl."""
        self.values.put(CRAWLS, crawl.encode(), pack_row(crawl.encode(), record))

    def read_ahead(self, pages: Sequence[Document], marked: Sequence[int], rule: Rule) -> None:
        """Read what judging pages and marking documents will need, in five steps for a group."""
        # Without the sample each host counts as unknown, of which more keys are looked up.
        self.values.look_ahead(partial(self._look_at_samples, pages))
        self.values.look_ahead(partial(self._look, pages, marked, rule))

    def _look_at_samples(self, pages: Sequence[Document]) -> None:
        self._samples.clear()
        for page in pages:
            self.sample(host_of(page.facts.url))

    def _look(self, pages: Sequence[Document], marked: Sequence[int], rule: Rule) -> None:
        """Read as `gather` does, and what is written then: much may be missing yet."""
        self._samples.clear()
        for page in pages:
            self.gather(page, rule)
            # A page that changed leaves the fingerprint and the names that it had.
            for facts in (page.facts, *(record.facts for _, record in self.find_own(page))):
                self.values.fetch([(FINGERPRINTS, octets(facts.fingerprint))])
                self.values.fetch((NAMES, key) for key in name_keys(facts, self.seed))
            if page.facts.url:
                self.values.fetch([(ADDRESSES, address_row(page.facts.url, 0)[0])])
            if page.facts.sketch and not page.facts.stub:
                self.values.fetch(self.keys.list_ahead(make_keys(page.facts, "")))
        for number in marked:
            self.get(number)
            self.values.fetch((LOST, key_of_lost(each)) for each in self.list_duplicates(number))

    def find_own(self, page: Document) -> list[tuple[int, Record]]:
        """Find the documents to which the identities of a page lead, its own one first."""
        numbers = map(self.find_number, (page.facts.identity, *page.aliases))
        return [(number, record) for number in numbers if number and (record := self.get(number))]

    def gather(self, page: Document, rule: Rule, own: int = 0) -> Gathered:
        """Find the documents that may be like a page: near, with rare triples of it, or a name.

        The document of the number `own` is the page's own.
        """
        limits, confirmed = limit_probe(page.facts, rule), rule.confirm is not None
        reader = name_reader(page.facts.reader, across_spiders=page.across_spiders)
        probe = self.near(page.facts.fingerprint, *limits)
        alike = self.list_alike(page.facts, reader, own) if confirmed else {}
        called = self.list_called(page.facts) if confirmed else []
        called = [(name, numbers) for name, numbers in called if len(numbers) <= MOST_CALLED]
        found, complete = self._list_near(
            probe, page.facts, limits, equal=page.facts.stub and confirmed
        )
        for number, keys in alike.items():
            found.setdefault(number, Candidate(-1, number, 0, keys=keys))
        for name, numbers in called:
            for number in numbers:
                candidate = found.get(number, Candidate(-1, number, 0))
                found[number] = candidate._replace(name=candidate.name or name)
        candidates = sorted(found.values())[: None if confirmed else MOST_CANDIDATES]
        records = self.get_all([each.number for each in candidates if each.number])
        return [(each, records.get(each.number)) for each in candidates], complete or confirmed

    def _list_near(
        self, probe: Probe, page: Facts, limits: Limits, *, equal: bool
    ) -> tuple[dict[int, Candidate], bool]:
        """List the documents within the distance, and whether these are all."""
        # Of equal short pages the newest may be this reader's. There may be more fingerprints than
        # are used, those of other scopes included.
        most = None if equal else limits.most
        complete = len(probe.near) < limits.most and probe.complete_bits == limits.bits
        found: dict[int, Candidate] = {}
        for bits, near in probe.near:
            for number in self.numbers(near, page.scope, most)[-limits.most :]:
                candidate = Candidate(bits, number, near)
                found[number] = min(candidate, found.get(number, candidate))
            if len(found) >= limits.most:
                complete = False
                break
        return {} if limits.or_nothing and not complete else found, complete

    def find_matches(self, fingerprint: int, distance: int) -> list[Match]:
        """List the documents and bulk-loaded fingerprints within a distance, nearest first."""
        near = self.near(fingerprint, distance).near
        self.values.fetch((FINGERPRINTS, octets(found)) for _, found in near)
        matches = [(bits, found, number) for bits, found in near for number in self.numbers(found)]
        records = self.get_all(number for *_, number in matches if number)
        urls = {number: record.facts.url for number, record in records.items()}
        return [Match(number, found, bits, urls.get(number)) for bits, found, number in matches]

    def prefetch_documents(self, numbers: Iterable[int]) -> None:
        """Read all that goes with documents: for an import and for deletion."""
        tables = (DOCUMENTS, DUPLICATES, ALIASES, TEXTS)
        numbers = list(numbers)
        wanted = [(table, octets(number)) for table in tables for number in numbers]
        self.values.fetch([*wanted, *((LOST, key_of_lost(number)) for number in numbers)])


def unpack_wording(key: bytes, packed: bytes) -> Wording:
    """Read the wording of the document of a key, or raise a DamagedError."""
    return unpack(unseal(f"text of document {number_of(key)}", key, packed))


def pack_identity(identity: bytes, number: int) -> bytes:
    """Pack the number of the document of an identity, with 4 bytes of a checksum."""
    key = octets(number)
    return key + xxhash.xxh3_64_digest(identity + key)[:4]


def unpack_identity(identity: bytes, value: bytes) -> int:
    """Read to which document an identity leads, or raise a StoreError that names the cure."""
    number = number_of(value[:8])
    if value != pack_identity(identity, number):
        raise StoreError(
            f"damaged identity {identity.hex()}: checksum differs; mend it with `scrapy simhash "
            "check --rebuild`"
        )
    return number


def address_row(url: str, number: int) -> tuple[bytes, bytes]:
    """Make key and member of a document in the index of URLs: 24 bits of a digest, its number."""
    # Of other documents, one in 16 million has the same 24 bits: its record tells.
    digest = xxhash.xxh3_64_digest(url.encode(errors="surrogatepass"))
    return digest[:2], digest[2:3] + number.to_bytes(5, "big")


def fingerprint_row(number: int, record: Record) -> tuple[bytes, bytes]:
    """Make key and member of a document under its fingerprint."""
    return octets(record.facts.fingerprint), scope_hash(record.facts.scope) + octets(number)


def leads_of(number: int, record: Record) -> list[_Row]:
    """List table, key and member that lead to a document by its URL, or by its original."""
    leads = [(ADDRESSES, *address_row(record.facts.url, number))] if record.facts.url else []
    if record.state == State.DUPLICATE:
        leads.append((DUPLICATES, octets(record.original), octets(number)))
    return leads


def rows_of(table: str, number: int, record: Record, seed: int) -> list[tuple[bytes, bytes]]:
    """List key and member, or value, of the rows of a table by which a document is found.

    Of SITES and NAMES only those are there that fit in.
    """
    if table == IDENTITIES:
        return [(record.facts.identity, pack_identity(record.facts.identity, number))]
    if table == FINGERPRINTS:
        if record.state == State.DUPLICATE:
            return []
        return [fingerprint_row(number, record)]
    of_site = table in (SITES, NAMES)
    rows = rows_of_site(number, record, seed) if of_site else leads_of(number, record)
    return [row[1:] for row in rows if row[0] == table]


def site_key(host: str, seed: int) -> bytes:
    """Make the key of the sample of a host; `seed` is the store's."""
    return xxhash.xxh3_64_digest(host.encode(errors="surrogatepass"), seed)


def name_keys(page: Facts, seed: int) -> dict[bytes, str]:
    """Make the keys of the parts of a page's names, on its host and in its scope; none of most.

    Without a host or a sketch, which no file has, a page is not found by its names.
    """
    host = host_of(page.url) if page.sketch else ""
    return _name_keys(host, page.scope, page.title, page.heading, seed) if host else {}


# A page is looked for under its names, and then entered there.
@lru_cache(maxsize=64)
def _name_keys(host: str, scope: str, title: str, heading: str, seed: int) -> dict[bytes, str]:
    place = xxhash.xxh3_64(f"{host}\0{scope}".encode(errors="surrogatepass"), seed).digest()
    return {
        xxhash.xxh3_64_digest(place + "\0".join(sorted(key)).encode(errors="surrogatepass")): text
        for key, text in list_parts(title, heading).items()
    }


def rows_of_site(number: int, record: Record, seed: int) -> list[_Row]:
    """List table, key and member of the rows by which a document's site is known.

    Near-duplicates, kept or not, and stubs say nothing of a site, and without a sketch nothing can
    be compared. The seed of a store is secret, so nobody can choose the pages of a sample.
    """
    page = record.facts
    known = page.sketch and record.state != State.DUPLICATE
    if not known or not (host := host_of(page.url)):
        return []
    rows = [(NAMES, key, octets(number)) for key in name_keys(page, seed)]
    if not (page.stub or record.original):
        member = xxhash.xxh3_64_digest(page.identity, seed) + octets(number)
        # In place of the sketch: without these, it changes by a few bins only.
        told = ascii((page.title, page.heading, page.text_digest, page.fingerprint))
        member += xxhash.xxh32_digest(told.encode()) + bytes((page.suspicion,))
        member += xxhash.xxh32_digest(form_of(page.url).encode(errors="surrogatepass"))[:3]
        rows.append((SITES, site_key(host, seed), member))
    return rows


def _describe(member: bytes) -> tuple[int, bytes]:
    """Return how suspect a member of a sample is, and the form of its address."""
    return member[20], member[21:]


def scope_hash(scope: str) -> bytes:
    """Hash a scope to the 8 bytes that begin a row of a fingerprint."""
    return xxhash.xxh3_64_digest(scope.encode())
