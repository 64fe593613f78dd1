"""The documents of a store as one transaction sees them, over the rows of any kind of store.

A fingerprint in the tables that has no row in FINGERPRINTS was bulk-loaded, for every scope; if a
document has it, too, a member of zeros records that it was bulk-loaded.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import xxhash

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import Document, PageFacts, Record, State
from scrapy_simhash.judging.judge import MOST_CALLED, limit_probe
from scrapy_simhash.judging.keys import KEYS as KEYS_OF_A_PAGE
from scrapy_simhash.judging.keys import KEYS_OF_STRANGERS, make_keys, name_reader, rank_by_keys
from scrapy_simhash.judging.names import list_parts
from scrapy_simhash.judging.rows import (
    LOST,
    CrawlRecord,
    key_of_lost,
    pack_row,
    read_rows,
    unpack_row,
)
from scrapy_simhash.judging.sites import SAMPLE, draw_sample
from scrapy_simhash.pages.addresses import bound_url, form_of, host_of
from scrapy_simhash.pages.wording import Wording, unpack
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores.keys import KeyTable, keys_of
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
from scrapy_simhash.tables.permutation import contains, sort_distinct
from scrapy_simhash.tables.probing import ROW, Probe, Prober, pack_buckets, permuted_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.keys import Keys
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.tables.permutation import Design

_Query: TypeAlias = tuple[int, int, int | None, int | None, bool]
_Row: TypeAlias = tuple[str, bytes, bytes]  # table, key and member of a set
BULK_LOADED = bytes(16)
_ADDRESS_KEY_BYTES = 2
_NUMBER_BYTES = 5
_CHECKSUM_BYTES = 8


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
        # What was probed ahead, for judging asks again; and the fingerprints that this transaction
        # added to the tables (True) or removed.
        self._probed: dict[_Query, Probe] = {}
        self._changed: dict[int, bool] = {}
        # By host, until this transaction changes one: all candidates of a page ask for them.
        self._samples: dict[str, dict[int, bytes]] = {}
        self.keys = KeyTable(values, dissolved, self._get_keys)
        # Rows that `judging.documents` packs.
        self.get_row, self.put_row, self.drop_row = values.get, values.put, values.delete
        self.scan_rows, self.count_rows = values.scan, values.count

    @property
    def design(self) -> Design:
        """The design of the tables."""
        return self._prober.design

    def get(self, number: int) -> Record | None:
        """Get a record, or None."""
        key = octets(number)
        packed = self.values.get(DOCUMENTS, key)
        return None if packed is None else unpack_row(Record, key, packed)

    def glance(self, numbers: Iterable[int]) -> dict[int, Record]:
        """Get records in one round trip; leaves out missing and damaged ones."""
        keys = list(map(octets, numbers))
        self.values.fetch((DOCUMENTS, key) for key in keys)
        rows = ((key, self.values.get(DOCUMENTS, key)) for key in keys)
        return {number_of(key): record for key, record in read_rows(Record, rows)}

    def put(
        self,
        number: int,
        record: Record,
        wording: bytes | None = None,
        names: Iterable[bytes] = (),
        leads: Iterable[_Row] = (),
    ) -> None:
        """Write a record and its packed wording, and let these identities lead to it.

        None leaves the wording that is there, b"" deletes it. The record's own identity leads to
        it in any case, others unless they lead to another document. `leads` are added to their
        sets.
        """
        values, key = self.values, octets(number)
        rows = {name: pack_identity(name, number) for name in names}
        values.put(DOCUMENTS, key, pack_row(key, record))
        for name, row in rows.items():
            before, own = values.get(IDENTITIES, name), name == record.identity
            if before == row or not (own or before is None):
                continue
            values.put(IDENTITIES, name, row)
            if not own:
                values.add(ALIASES, key, name)
            elif before is not None:
                values.discard(ALIASES, before[:8], name)
        for lead in leads:
            values.add(*lead)
        if wording:
            values.put(TEXTS, key, xxhash.xxh3_64_digest(key + wording) + wording)
        elif wording is not None:
            values.delete(TEXTS, key)

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
        self.put(number, record, wording, (record.identity, *aliases), leads)
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
        for identity in (record.identity, *self.values.members(ALIASES, key)):
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
        numbers = sorted(map(number_in, self.values.members(ADDRESSES, key, member[:1])))
        self.prefetch_records(numbers)
        return [number for number in numbers if (page := self.get(number)) and page.url == url]

    def _index(self, number: int, record: Record) -> None:
        """Make a document findable."""
        values, (key, row) = self.values, fingerprint_row(number, record)
        if not values.members(FINGERPRINTS, key, most=1):
            rows = self._prober.split(record.fingerprint)
            if values.has(TABLES, *rows[0]):
                values.add(FINGERPRINTS, key, BULK_LOADED)
            else:
                for table_row in rows:
                    values.add(TABLES, *table_row)
            self._changed[record.fingerprint] = True
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
            for table_row in self._prober.split(record.fingerprint):
                values.discard(TABLES, *table_row)
            self._changed[record.fingerprint] = False

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

    def list_alike(self, page: PageFacts, reader: str, own: int = 0) -> dict[int, int]:
        """List the documents with rare triples of a page, each with their number; most come first.

        At most 8, and 8 more of those that were kept for a reader (`keys.name_reader`). The
        document of the number `own` is left out.
        """
        if page.stub or not page.sketch:
            return {}
        known = len(self.sample(host_of(page.url))) == SAMPLE
        kept = [(reader, KEYS_OF_A_PAGE)] if self.keys.has_kept(page.scope, reader) else []
        found: dict[int, int] = {}
        for kept_for, most in [("", KEYS_OF_A_PAGE if known else KEYS_OF_STRANGERS), *kept]:
            members = self.keys.find(make_keys(page, kept_for), most)
            found |= rank_by_keys([number for number in key if number != own] for key in members)
        return found

    def list_called(self, page: PageFacts) -> list[tuple[str, list[int]]]:
        """List the parts of a page's names, each with the documents that have it, too.

        These are of the page's host and scope, no near-duplicates and no files, and have sketches;
        9 at most.
        """
        found = name_keys(page, self.seed).items()
        return [
            (name, list(map(number_of, self.values.members(NAMES, key)))) for key, name in found
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

    def note_bulk_loaded(self, fingerprints: NDArray[np.uint64]) -> None:
        """Record that these were bulk-loaded, as far as the tables do not tell; shape (n,)."""
        indexed, _ = self.read_indexed()
        fingerprints = indexed[contains(fingerprints, indexed)]
        for fingerprint in fingerprints.tolist():
            self.values.add(FINGERPRINTS, octets(fingerprint), BULK_LOADED)

    def near(
        self,
        fingerprint: int,
        distance: int,
        most: int | None = None,
        in_bucket: int | None = None,
        or_nothing: bool = False,
    ) -> Probe:
        """Find stored fingerprints within a distance, see `Prober.probe`."""
        query = (fingerprint, distance, most, in_bucket, or_nothing)
        if query not in self._probed:
            return self._probe(query)
        near, complete_bits = self._probed[query]
        near = [found for found in near if found[1] not in self._changed]
        near += [
            (bits, added)
            for added, there in self._changed.items()
            if there and (bits := hamming_distance(fingerprint, added)) <= distance
        ]
        return Probe(sorted(near)[:most], complete_bits)

    def _probe(self, query: _Query) -> Probe:
        fingerprint, distance, most, in_bucket, or_nothing = query
        try:
            return self._prober.probe(
                self.values.many, fingerprint, distance, most, in_bucket, or_nothing=or_nothing
            )
        except ValueError as error:
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
        numbers = [number_of(row[8:]) for row in found]
        # Of all members the mark, whose number is 0, comes first.
        bulk_loaded = first in ([], [BULK_LOADED])
        return [0, *numbers][:most] if bulk_loaded and numbers[:1] != [0] else numbers

    def is_bulk_loaded(self, fingerprint: int) -> bool:
        """Whether a fingerprint in the tables was bulk-loaded."""
        return self.numbers(fingerprint, most=1) == [0]

    def read_table(self, number: int, *, tolerant: bool = False) -> NDArray[np.uint64]:
        """Read the distinct fingerprints of a table, sorted; `tolerant` passes over damage."""
        table = self.design.tables[number]
        parts = [np.empty(0, np.uint64)]
        slices = self._read_rows(number, tolerant=tolerant)
        parts += [permuted_of(np.frombuffer(rows, ROW)) for rows in slices]
        return sort_distinct(table.restore_array(np.concatenate(parts)))

    def read_tables(self, *, tolerant: bool = False) -> Iterator[NDArray[np.uint64]]:
        """Read one table after the other, see `read_table`."""
        for number in range(len(self.design.tables)):
            yield self.read_table(number, tolerant=tolerant)

    def count_fingerprints(self) -> int:
        """Count the fingerprints in the tables; reads one table, and passes over damage."""
        return sum(map(len, self._read_rows(0, tolerant=True))) // ROW.itemsize

    def _read_rows(self, number: int, *, tolerant: bool) -> Iterator[bytes]:
        """Read the rows of a table, see `KeyValues.rows`."""
        width = 1 + self.design.key_bytes
        return self.values.rows(bytes((number,)), key_bytes=width, tolerant=tolerant)

    def rewrite_tables(self, design: Design, fingerprints: NDArray[np.uint64]) -> None:
        """Replace the tables by those of a design, with distinct fingerprints, shape (n,)."""
        self.values.clear_tables()
        for number, table in enumerate(design.tables):
            permuted = np.sort(table.permute_array(fingerprints))
            self.values.fill(pack_buckets(number, permuted, design.key_bytes))

    def read_indexed(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Read the fingerprints that have rows, and those that are noted as bulk-loaded.

        Both sorted, shape (n,). Reads all rows.
        """
        keys = (number_of(key) for key, _ in self.values.scan(FINGERPRINTS))
        indexed = sort_distinct(np.fromiter(keys, np.uint64))
        rows = self.values.scan(FINGERPRINTS)
        noted = (number_of(key) for key, member in rows if member == BULK_LOADED)
        return indexed, sort_distinct(np.fromiter(noted, np.uint64))

    def list_bulk_loaded(self) -> NDArray[np.uint64]:
        """List the fingerprints that were bulk-loaded; sorted, shape (n,)."""
        held, (indexed, noted) = self.read_table(0), self.read_indexed()
        return sort_distinct(np.concatenate([held[~contains(indexed, held)], noted]))

    def get_wording(self, number: int) -> Wording | None:
        """Get what a reader sees of a document; None of a file, and where it is damaged."""
        return self.get_wordings([number]).get(number)

    def get_wordings(self, numbers: Collection[int]) -> dict[int, Wording]:
        """Get wordings in one round trip; leaves out missing and damaged ones."""
        keys = list(map(octets, numbers))
        self.values.fetch((TEXTS, key) for key in keys)
        found: dict[int, Wording] = {}
        for number, key in zip(numbers, keys, strict=True):
            if (packed := self.values.get(TEXTS, key)) is not None:
                with suppress(DamagedError):  # `check` lists it
                    found[number] = unpack_wording(key, packed)
        return found

    def list_duplicates(self, original: int) -> list[int]:
        """List the near-duplicates of a document."""
        return [number_of(found) for found in self.values.members(DUPLICATES, octets(original))]

    def get_crawl(self, crawl: str) -> CrawlRecord | None:
        """Get the record of a crawl, or None."""
        packed = self.values.get(CRAWLS, crawl.encode())
        return None if packed is None else unpack_row(CrawlRecord, crawl.encode(), packed)

    def put_crawl(self, crawl: str, record: CrawlRecord) -> None:
        """Write the record of a crawl."""
        self.values.put(CRAWLS, crawl.encode(), pack_row(crawl.encode(), record))

    # Reading ahead, which is worthwhile where each read is a round trip

    def prefetch(self, documents: Sequence[Document], marked: Sequence[int], rule: Rule) -> None:
        """Read what judging documents and marking others will need: three steps for a group.

        Identities and buckets; then the documents of the neighbours; then their records. The
        samples of hosts come along; those of other hosts than the documents' are a step more.
        """
        probes = [
            (document.scope, (document.fingerprint, *limit_probe(document, rule)))
            for document in documents
        ]
        identities = [name for page in documents for name in (page.identity, *page.aliases)]
        keys = {octets(number) for number in marked}
        wanted = [(IDENTITIES, identity) for identity in identities]
        wanted += [(table, key) for table in (DOCUMENTS, DUPLICATES) for key in keys]
        wanted += self._list_keys({query[:2] for _, query in probes})
        wanted += self._list_sites(documents)
        wanted += [(ADDRESSES, address_row(page.url, 0)[0]) for page in documents if page.url]
        wanted += [(NAMES, key) for page in documents for key in name_keys(page, self.seed)]
        wanted += [
            row
            for page in documents
            if page.sketch and not page.stub
            for reader in ("", _name_reader(page))
            for row in self.keys.list_ahead(make_keys(page, reader))
        ]
        self.values.fetch(wanted)
        near: set[tuple[int, str, int]] = set()
        for scope, query in probes:
            probe = self._probed[query] = self._probe(query)
            near.add((query[0], scope, query[2]))
            near.update((found, scope, query[2]) for _, found in probe.near)
        known = [number for name in identities if (number := self.find_number(name))]
        dropped = [found for number in marked for found in self.list_duplicates(number)]
        wanted = [(FINGERPRINTS, octets(found)) for found, *_ in near]
        wanted += [(LOST, key_of_lost(number)) for number in dropped]
        called = {
            number
            for page in documents
            for _, numbers in self.list_called(page)
            if len(numbers) <= MOST_CALLED
            for number in numbers
        }
        called.update(n for page in documents for n in self.list_alike(page, _name_reader(page)))
        self.prefetch_records([*known, *called], wanted)
        candidates = {
            number for found, scope, most in near for number in self.numbers(found, scope, most)
        }
        # A page that changed leaves the fingerprints that it had.
        records = [record for number in known if (record := self.get(number)) is not None]
        before = {octets(record.fingerprint) for record in records}
        candidates.discard(0)
        rows = [(FINGERPRINTS, key) for key in before]
        rows += [(NAMES, key) for record in records for key in name_keys(record, self.seed)]
        self.prefetch_records(candidates, rows)
        pages = self.glance({*candidates, *called})
        self.values.fetch(self._list_sites(pages.values()))

    def _list_sites(self, pages: Iterable[PageFacts]) -> list[tuple[str, bytes]]:
        """List the keys of the samples of pages' hosts, each once."""
        hosts = {host_of(page.url) for page in pages} - {""}
        return [(SITES, site_key(host, self.seed)) for host in hosts]

    def _list_keys(self, probes: Iterable[tuple[int, int]]) -> list[tuple[str, bytes]]:
        """List the keys that probes read, each once."""
        keys = (self._prober.keys(self._prober.rows(found), bits) for found, bits in probes)
        return [(TABLES, key) for key in dict.fromkeys(key for some in keys for key in some)]

    def prefetch_matches(self, fingerprint: int, distance: int) -> None:
        """Read what finding the matches of a fingerprint will need."""
        self.values.fetch(self._list_keys([(fingerprint, distance)]))
        near = [found for _, found in self.near(fingerprint, distance).near]
        self.values.fetch((FINGERPRINTS, octets(found)) for found in near)
        numbers = (number for found in near for number in self.numbers(found))
        self.prefetch_records(filter(None, numbers))

    def prefetch_records(
        self, numbers: Iterable[int], rows: Iterable[tuple[str, bytes]] = ()
    ) -> None:
        """Read records, and rows by table and key."""
        self.values.fetch([*rows, *((DOCUMENTS, octets(number)) for number in numbers)])

    def prefetch_documents(self, numbers: Iterable[int]) -> None:
        """Read all that goes with documents: for an import and for deletion."""
        tables = (DOCUMENTS, DUPLICATES, ALIASES, TEXTS)
        numbers = list(numbers)
        wanted = [(table, octets(number)) for table in tables for number in numbers]
        self.values.fetch([*wanted, *((LOST, key_of_lost(number)) for number in numbers)])


def unpack_wording(key: bytes, packed: bytes) -> Wording:
    """Read the wording of the document of a key, or raise a DamagedError."""
    if packed[:_CHECKSUM_BYTES] != xxhash.xxh3_64_digest(key + packed[_CHECKSUM_BYTES:]):
        raise DamagedError(f"damaged text of document {number_of(key)}: checksum differs")
    return unpack(packed[_CHECKSUM_BYTES:])


def _name_reader(page: Document) -> str:
    return name_reader(page.reader, across_spiders=page.across_spiders)


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
    member = digest[_ADDRESS_KEY_BYTES : 8 - _NUMBER_BYTES] + number.to_bytes(_NUMBER_BYTES, "big")
    return digest[:_ADDRESS_KEY_BYTES], member


def fingerprint_row(number: int, record: Record) -> tuple[bytes, bytes]:
    """Make key and member of a document under its fingerprint."""
    return octets(record.fingerprint), scope_hash(record.scope) + octets(number)


def leads_of(number: int, record: Record) -> list[_Row]:
    """List table, key and member that lead to a document by its URL, or by its original."""
    leads = [(ADDRESSES, *address_row(record.url, number))] if record.url else []
    if record.state == State.DUPLICATE:
        leads.append((DUPLICATES, octets(record.original), octets(number)))
    return leads


def rows_of(table: str, number: int, record: Record, seed: int) -> list[tuple[bytes, bytes]]:
    """List key and member, or value, of the rows of a table by which a document is found.

    Of SITES and NAMES only those are there that fit in.
    """
    if table == IDENTITIES:
        return [(record.identity, pack_identity(record.identity, number))]
    if table == FINGERPRINTS:
        if record.state == State.DUPLICATE:
            return []
        return [fingerprint_row(number, record)]
    of_site = table in (SITES, NAMES)
    rows = rows_of_site(number, record, seed) if of_site else leads_of(number, record)
    return [row[1:] for row in rows if row[0] == table]


def number_in(member: bytes) -> int:
    """Get the document number from an entry of the index of URLs."""
    return number_of(member[-_NUMBER_BYTES:])


@lru_cache(maxsize=1_024)
def site_key(host: str, seed: int) -> bytes:
    """Make the key of the sample of a host; `seed` is the store's."""
    return xxhash.xxh3_64_digest(host.encode(errors="surrogatepass"), seed)


def name_keys(page: PageFacts, seed: int) -> dict[bytes, str]:
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
    known = record.sketch and record.state != State.DUPLICATE
    if not known or not (host := host_of(record.url)):
        return []
    rows = [(NAMES, key, octets(number)) for key in name_keys(record, seed)]
    if not (record.stub or record.original):
        member = xxhash.xxh3_64_digest(record.identity, seed) + octets(number)
        # In place of the sketch: without these, it changes by a few bins only.
        facts = ascii((record.title, record.heading, record.text_digest, record.fingerprint))
        member += xxhash.xxh32_digest(facts.encode()) + bytes((record.suspicion,))
        member += xxhash.xxh32_digest(form_of(record.url).encode(errors="surrogatepass"))[:3]
        rows.append((SITES, site_key(host, seed), member))
    return rows


def _describe(member: bytes) -> tuple[int, bytes]:
    """Return how suspect a member of a sample is, and the form of its address."""
    return member[20], member[21:]


@lru_cache(maxsize=1_024)
def scope_hash(scope: str) -> bytes:
    """Hash a scope to the 8 bytes that begin a row of a fingerprint."""
    return xxhash.xxh3_64_digest(scope.encode())
