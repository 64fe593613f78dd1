"""The documents of a store as one transaction sees them, over the rows of any kind of store.

A page is compared with the documents of its group (`Facts.group`), and with what was imported into
its scope. In a store that something was bulk-loaded into, a fingerprint in the tables that has no
row in FINGERPRINTS was, for every group; if a document has it, too, a member of zeros says so. In
others such a row is damaged, and leads to nothing.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from functools import lru_cache
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, TypeAlias

import xxhash
from msgspec import structs

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import Candidate, Match, Record, State, add_crawls
from scrapy_simhash.judging.hosts import SAMPLE, draw_sample
from scrapy_simhash.judging.judge import MOST_CALLED, MOST_CANDIDATES, limit_probe
from scrapy_simhash.judging.noise import Measured, join
from scrapy_simhash.pages.addresses import bound_url, form_of, host_of
from scrapy_simhash.pages.facts import EVERYONE
from scrapy_simhash.pages.wording import Wording, unpack
from scrapy_simhash.stores.keys import (
    KEYS_OF_A_PAGE,
    KEYS_OF_STRANGERS,
    KeyTable,
    keys_of,
    list_parts,
    make_keys,
    rank_by_keys,
)
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    FINGERPRINTS,
    HEADER,
    IDENTITIES,
    KEYS,
    SITES,
    TABLES,
    TEXTS,
    KeyValues,
    number_of,
    octets,
)
from scrapy_simhash.stores.rows import (
    READERS_KEY,
    SHARES_KEY,
    Readers,
    Share,
    Shares,
    pack_row,
    read_rows,
    seal,
    unpack_row,
    unseal,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_simhash.judging.documents import Document, Gathered
    from scrapy_simhash.judging.evidence import Rule
    from scrapy_simhash.judging.judge import Limits
    from scrapy_simhash.pages.facts import Facts, Reader
    from scrapy_simhash.stores.keys import Keys
    from scrapy_simhash.tables.permutation import Design
    from scrapy_simhash.tables.probing import Probe, Prober

_Row: TypeAlias = tuple[str, bytes, bytes]  # table, key and member of a set
BULK_LOADED = bytes(16)
# The most documents under a name: one more than are read, so that a full one is known.
CALLED = MOST_CALLED + 1
# Begins the keys of the noise of hosts in HEADER.
NOISE = b"noise"
# The key in HEADER of a store that fingerprints were bulk-loaded into.
LOADED = b"loaded"


class Documents:
    """The documents, the tables and the rows beside them in one transaction.

    `dissolved` is what `KeyTable` remembers.
    """

    def __init__(self, values: KeyValues, prober: Prober, seed: int, dissolved: set[int]) -> None:
        self.values = values
        self.seed = seed
        self._prober = prober
        # By host, until this transaction changes one: all candidates of a page ask for them.
        self._samples: dict[str, dict[int, bytes]] = {}
        self.keys = KeyTable(values, dissolved, self._get_keys)

    @property
    def design(self) -> Design:
        """The design of the tables."""
        return self._prober.design

    @property
    def is_loaded(self) -> bool:
        """Whether there may be fingerprints that were bulk-loaded."""
        return self.values.get(HEADER, LOADED) is not None

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

    def list_readers(self) -> tuple[Reader, ...]:
        """List the readers of whom there are documents, and perhaps some of whom there were."""
        packed = self.values.get(HEADER, READERS_KEY)
        return () if packed is None else _unpack_readers(packed)

    def put(self, number: int, record: Record, wording: bytes | None = None) -> None:
        """Write a record and its packed wording in place of those that are there.

        None leaves the wording that is there, b"" deletes it.
        """
        key = octets(number)
        self.values.put(DOCUMENTS, key, pack_row(key, record))
        if wording:
            self.values.put(TEXTS, key, seal(key, wording))
        elif wording is not None:
            self.values.delete(TEXTS, key)

    def save(self, number: int, record: Record, wording: bytes | None = None) -> int:
        """Write a document as it is from now on, in place of what is there of it.

        Args:
            number: taken for it, see `Engine.take_numbers`; used unless its identity leads to a
                document, which somebody else may have written meanwhile.
            record: of which that document's first time and crawls are kept, and that it was spared.
            wording: packed, see `put`.

        Returns:
            The number of the document; 0 if another one has its number.
        """
        there, before = self.find(record.facts.identity) or (0, None)
        moves = before is None or _placed(before) != _placed(record)
        if before is not None:
            number = there
            record = structs.replace(
                record,
                first_time=before.first_time,
                spared=before.spared,
                # Those that got another text did not get this one.
                crawls=add_crawls(() if moves else before.crawls, record.crawls),
            )
            if moves:
                self._unindex(number, before)
        elif self.get(number) is not None:
            # A server that lost its last writes gives numbers out again: the page comes again.
            return 0
        self.put(number, record, wording)
        if moves:
            self._index(number, record)
        readers = self.list_readers()
        if record.facts.reader not in readers:
            self.put_readers((*readers, record.facts.reader))
        return number

    def put_readers(self, readers: Iterable[Reader]) -> None:
        """Write the readers of whom there are documents."""
        row = Readers(tuple(sorted(readers)))
        self.values.put(HEADER, READERS_KEY, pack_row(READERS_KEY, row))

    def list_shares(self) -> tuple[Share, ...]:
        """List what the last crawls counted; none if the row is missing or damaged."""
        found = read_rows(Shares, [(SHARES_KEY, self.values.get(HEADER, SHARES_KEY))])
        return next((row.shares for _, row in found), ())

    def add_shares(self, counted: Iterable[Share]) -> None:
        """Add what a crawl counted; its numbers take the place of an earlier crawl's."""
        shares = {share.reader: share for share in self.list_shares()}
        for share in counted:
            before = shares.get(share.reader)
            if before is not None and before.crawl == share.crawl:  # another judge's, or resumed
                judged, repeated = before.judged + share.judged, before.repeated + share.repeated
                share = structs.replace(share, judged=judged, repeated=repeated)  # noqa: PLW2901
            shares[share.reader] = share
        row = Shares(tuple(shares.values()))
        self.values.put(HEADER, SHARES_KEY, pack_row(SHARES_KEY, row))

    def forget(self, identity: bytes) -> None:
        """Delete the document of an identity, if there is one; its near-duplicates stay."""
        if found := self.find(identity):
            self.remove(*found)

    def remove(self, number: int, record: Record) -> None:
        """Delete a document and all that leads to it."""
        self._unindex(number, record)
        if self.find_number(record.facts.identity) == number:
            self.values.delete(IDENTITIES, record.facts.identity)
        for table in (DOCUMENTS, TEXTS):
            self.values.delete(table, octets(number))

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        """Read every record, by ascending number; leaves out damaged ones."""
        rows = read_rows(Record, self.values.scan(DOCUMENTS))
        return ((number_of(key), record) for key, record in rows)

    def scan(self) -> Iterator[tuple[int, Record | DamagedError]]:
        """Read every record, by ascending number; yields an error in place of a damaged one."""
        for key, packed in self.values.scan(DOCUMENTS):
            try:
                yield number_of(key), unpack_row(Record, key, packed)
            except DamagedError as error:
                yield number_of(key), error

    def find_number(self, identity: bytes) -> int | None:
        """Get the number of the document with this identity."""
        value = self.values.get(IDENTITIES, identity)
        return None if value is None else number_of(value)

    def find(self, identity: bytes) -> tuple[int, Record] | None:
        """Find the document with this identity; nothing where a damaged row leads elsewhere."""
        number = self.find_number(identity) or 0
        record = self.get(number) if number else None
        return (number, record) if record and record.facts.identity == identity else None

    def find_at(self, urls: Collection[str]) -> dict[str, dict[int, Record]]:
        """Find the documents with these URLs; leaves out damaged ones.

        It reads every row of documents, some 2 kB each: 2 s for a million on a quiet core.
        """
        bounded = {bound_url(url, self.seed): url for url in urls}
        sought = [url.encode(errors="surrogatepass") for url in bounded]
        found: dict[str, dict[int, Record]] = {url: {} for url in urls}
        rows = self.values.scan(DOCUMENTS)
        near = ((key, row) for key, row in rows if any(url in row for url in sought))
        for key, record in read_rows(Record, near):
            if url := bounded.get(record.facts.url):
                found[url][number_of(key)] = record
        return found

    def _index(self, number: int, record: Record) -> None:
        """Make a document findable, in the tables unless it is a near-duplicate."""
        if record.state == State.DUPLICATE:
            self.enter(number, record)
            return
        values, key = self.values, octets(record.facts.fingerprint)
        rows = self._prober.split(record.facts.fingerprint)
        # As they are at one moment: another writer may be about to add both.
        values.fetch([(FINGERPRINTS, key), (TABLES, rows[0][0])])
        if not values.members(FINGERPRINTS, key, most=1):
            if self.is_loaded and values.has(TABLES, *rows[0]):
                values.add(FINGERPRINTS, key, BULK_LOADED)
            else:
                for table_row in rows:
                    values.add(TABLES, *table_row)
        self.enter(number, record)

    def _unindex(self, number: int, record: Record) -> None:
        """Undo `_index`; a fingerprint leaves the tables with its last document."""
        if record.state == State.DUPLICATE:
            return
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

    def enter(self, number: int, record: Record) -> None:
        """Make a document findable by all but the tables."""
        self.values.put(IDENTITIES, record.facts.identity, octets(number))
        if record.state == State.DUPLICATE:
            return
        self.values.add(FINGERPRINTS, *fingerprint_row(number, record))
        if keys := keys_of(record):
            self.keys.enter(number, keys)
        self._enter_site(number, record)

    def _enter_site(self, number: int, record: Record) -> None:
        """Enter a document in the sample of its host and under its names, while there is room.

        A sample is drawn, see `judging.hosts`; a name has those that came first.
        """
        for table, key, member in rows_of_site(number, record, self.seed):
            there = self.values.members(table, key)
            if table == KEYS and len(there) >= CALLED:
                continue
            kept = sorted({*there, member})
            if table == SITES:
                kept = draw_sample(kept, describe_member, SAMPLE)
            if member in kept and member not in there:
                self.values.add(table, key, member)
                self._samples.clear()
            for beyond in set(there).difference(kept):
                self.values.discard(table, key, beyond)

    def _get_keys(self, numbers: Iterable[int]) -> dict[int, Keys]:
        """Make the keys of documents that have some, and are not damaged."""
        made = ((number, keys_of(record)) for number, record in self.glance(numbers).items())
        return {number: keys for number, keys in made if keys}

    def list_compared(self, page: Facts) -> list[Facts]:
        """List a page as its own group sees it and, if there are imports, as these do."""
        if page.reader == EVERYONE or EVERYONE not in self.list_readers():
            return [page]
        return [page, structs.replace(page, reader=EVERYONE)]

    def list_alike(self, page: Facts, own: int = 0) -> dict[int, int]:
        """List the documents with rare triples of a page, each with their number; most come first.

        At most 8 of its group, and 8 that were imported. The document of the number `own` is left
        out.
        """
        if not page.sketch:
            return {}
        is_full = len(self.sample(host_of(page.url))) == SAMPLE
        found: dict[int, int] = {}
        for each in self.list_compared(page):
            members = self.keys.find(
                make_keys(each), KEYS_OF_A_PAGE if is_full else KEYS_OF_STRANGERS
            )
            found |= rank_by_keys([[each for each in key if each != own] for key in members])
        return found

    def list_called(self, page: Facts) -> list[tuple[str, list[int]]]:
        """List the parts of a page's names, each with the documents that have it, too.

        These are of the page's host and group, or imported, no near-duplicates and no files, and
        have sketches; 9 at most.
        """
        compared = self.list_compared(page)
        names = {key: name for each in compared for key, name in name_keys(each, self.seed).items()}
        found = self.values.read_sets(KEYS, list(names))
        return [
            (name, list(map(number_of, members)))
            for name, members in zip(names.values(), found, strict=True)
        ]

    def find_noise(self, host: str) -> Measured:
        """Find what earlier crawls saw to change on a host; nothing if that is damaged."""
        key = NOISE + site_key(host, self.seed)
        rows = [(key, self.values.get(HEADER, key))]
        return next((measured for _, measured in read_rows(Measured, rows)), Measured())

    def add_noise(self, host: str, measured: Measured) -> None:
        """Add what a crawl saw to change on a host."""
        key = NOISE + site_key(host, self.seed)
        self.values.put(HEADER, key, pack_row(key, join(self.find_noise(host), measured)))

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
        self, fingerprint: int, group: str | None = None, most: int | None = None
    ) -> list[int]:
        """List the documents that have exactly this fingerprint, oldest first within a group.

        `group` and `most` limit them, unless None; 0 leads them if it was bulk-loaded.
        """
        values, key = self.values, octets(fingerprint)
        prefix = b"" if group is None else hash_group(group)
        found = values.members(FINGERPRINTS, key, prefix, most)
        first = values.members(FINGERPRINTS, key, most=1) if prefix else found[:1]
        numbers = [number_of(row[8:]) for row in found if row != BULK_LOADED]
        # Of all members the mark comes first.
        bulk_loaded = first in ([], [BULK_LOADED]) and self.is_loaded
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

    def add_duplicates(self, numbers: Iterable[int]) -> list[int]:
        """Add to documents their near-duplicates, and theirs in turn; leaves out what is missing.

        It reads every record.
        """
        # Without its original, the drop of a near-duplicate cannot be explained.
        there: set[int] = set()
        duplicates: defaultdict[int, list[int]] = defaultdict(list)
        for number, record in self.scan():
            there.add(number)
            if isinstance(record, Record) and record.original:
                duplicates[record.original].append(number)
        chosen: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number in there and number not in chosen:
                chosen.add(number)
                waiting += duplicates[number]
        return sorted(chosen)

    def read_ahead(self, page: Document, rule: Rule) -> None:
        """Read what judging a page will need, in as few round trips as it can be known in."""

        def look() -> None:
            self._samples.clear()
            self.find_own(page)
            found, _ = self.gather(page, rule)
            for host in {host_of(each.facts.url) for _, each in found if each} - {""}:
                self.sample(host)

        self.values.look_ahead(look)

    def read_ahead_of_saves(self, records: Iterable[tuple[int, Record]]) -> None:
        """Read what `save` will need of these, in as few round trips as it can be known in."""
        saved = list(records)

        def look() -> None:
            self.list_readers()
            self.values.fetch((DOCUMENTS, octets(number)) for number, _ in saved)
            for _, record in saved:
                _, before = self.find(record.facts.identity) or (0, None)
                for each in filter(None, (record, before)):
                    self.values.fetch(self.list_ahead(each))

        self.values.look_ahead(look)

    def list_ahead(self, record: Record) -> list[tuple[str, bytes]]:
        """List the rows that it takes to make a document findable, or not."""
        if record.state == State.DUPLICATE:
            return []
        rows = [(table, key) for table, key, _ in rows_of_site(0, record, self.seed)]
        if keys := keys_of(record):
            rows += self.keys.list_ahead(keys)
        fingerprint = record.facts.fingerprint
        rows.append((FINGERPRINTS, octets(fingerprint)))
        rows.append((TABLES, self._prober.split(fingerprint)[0][0]))
        rows.append((HEADER, LOADED))
        return rows

    def find_own(self, page: Document) -> list[tuple[int, Record]]:
        """Find a page's own record, and what an import has of it; its own one comes first."""
        identities = [page.facts.identity]
        if page.imported and EVERYONE in self.list_readers():
            identities.append(page.imported)
        return [found for each in identities if (found := self.find(each))]

    def gather(self, page: Document, rule: Rule, own: int = 0) -> Gathered:
        """Find the documents that may be like a page: near, with rare triples of it, or a name.

        The document of the number `own` is the page's own.
        """
        limits, plain = limit_probe(page.facts, rule), rule.plain
        probe = self.near(page.facts.fingerprint, *limits)
        alike = {} if plain else self.list_alike(page.facts, own)
        called = [] if plain else self.list_called(page.facts)
        called = [(name, numbers) for name, numbers in called if len(numbers) <= MOST_CALLED]
        found, complete = self._list_near(probe, page.facts, limits)
        for number, keys in alike.items():
            found[number] = found.get(number, Candidate(-1, number, 0))._replace(keys=keys)
        for name, numbers in called:
            for number in numbers:
                candidate = found.get(number, Candidate(-1, number, 0))
                found[number] = candidate._replace(name=candidate.name or name)
        candidates = sorted(found.values())[: MOST_CANDIDATES if plain else None]
        records = self.get_all([each.number for each in candidates if each.number])
        return [(each, records.get(each.number)) for each in candidates], complete or not plain

    def _list_near(
        self, probe: Probe, page: Facts, limits: Limits
    ) -> tuple[dict[int, Candidate], bool]:
        """List the documents within the distance, and whether these are all."""
        # There may be more fingerprints than are used, those of other groups included.
        complete = len(probe.near) < limits.most and probe.complete_bits == limits.bits
        found: dict[int, Candidate] = {}
        groups = [each.group for each in self.list_compared(page)]
        for bits, near in probe.near:
            for group in groups:
                for number in self.numbers(near, group, limits.most):
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


@lru_cache(maxsize=8)
def _unpack_readers(packed: bytes) -> tuple[Reader, ...]:
    try:
        return unpack_row(Readers, READERS_KEY, packed).readers
    except DamagedError as error:
        raise StoreError(f"{error.what}; mend it with `scrapy simhash check --rebuild`") from error


def unpack_wording(key: bytes, packed: bytes) -> Wording:
    """Read the wording of the document of a key, or raise a DamagedError."""
    return unpack(unseal(f"text of document {number_of(key)}", key, packed))


def fingerprint_row(number: int, record: Record) -> tuple[bytes, bytes]:
    """Make key and member of a document under its fingerprint."""
    return octets(record.facts.fingerprint), hash_group(record.facts.group) + octets(number)


def rows_of(table: str, number: int, record: Record, seed: int) -> list[tuple[bytes, bytes]]:
    """List key and member, or value, of the rows of a table by which a document is found.

    Of SITES and of names only those are there that fit in; those of rare triples are not listed.
    """
    if table == IDENTITIES:
        return [(record.facts.identity, octets(number))]
    if record.state == State.DUPLICATE:
        return []
    if table == FINGERPRINTS:
        return [fingerprint_row(number, record)]
    return [row[1:] for row in rows_of_site(number, record, seed) if row[0] == table]


def _placed(record: Record) -> tuple[object, ...]:
    """Tell by what a document is found, and what it tells of its site."""
    page = record.facts
    return (
        *(page.fingerprint, page.url, page.title, page.heading, page.sketch, page.group),
        *(page.text_digest, page.suspicion, page.stub, record.state == State.DUPLICATE),
    )


def site_key(host: str, seed: int) -> bytes:
    """Make the key of the sample of a host; `seed` is the store's."""
    return xxhash.xxh3_64_digest(host.encode(errors="surrogatepass"), seed)


def name_keys(page: Facts, seed: int) -> dict[bytes, str]:
    """Make the keys of the parts of a page's names, on its host and in its group; none of most.

    Without a host or a sketch, which no file has, a page is not found by its names.
    """
    host = host_of(page.url) if page.sketch else ""
    return _name_keys(host, page.group, page.title, page.heading, seed) if host else {}


# A page is looked for under its names, and then entered there.
@lru_cache(maxsize=64)
def _name_keys(host: str, group: str, title: str, heading: str, seed: int) -> dict[bytes, str]:
    place = xxhash.xxh3_64(f"{host}\0{group}".encode(errors="surrogatepass"), seed).digest()
    return {
        xxhash.xxh3_64_digest(place + "\0".join(sorted(key)).encode(errors="surrogatepass")): text
        for key, text in list_parts(title, heading).items()
    }


def rows_of_site(number: int, record: Record, seed: int) -> list[_Row]:
    """List table, key and member of the rows by which a document's site is known.

    Near-duplicates and stubs say nothing of a site, and without a sketch nothing can be compared.
    The seed of a store is secret, so nobody can choose the pages of a sample.
    """
    page = record.facts
    if not page.sketch or record.state == State.DUPLICATE or not (host := host_of(page.url)):
        return []
    rows = [(KEYS, key, octets(number)) for key in name_keys(page, seed)]
    if not page.stub:
        member = xxhash.xxh3_64_digest(page.identity, seed) + octets(number)
        # In place of the sketch: without these, it changes by a few bins only.
        told = ascii((page.title, page.heading, page.text_digest, page.fingerprint))
        member += xxhash.xxh32_digest(told.encode()) + bytes((page.suspicion,))
        member += xxhash.xxh32_digest(form_of(page.url).encode(errors="surrogatepass"))[:3]
        rows.append((SITES, site_key(host, seed), member))
    return rows


def describe_member(member: bytes) -> tuple[int, bytes]:
    """Return how suspect a member of a sample is, and the form of its address."""
    return member[20], member[21:]


def hash_group(group: str) -> bytes:
    """Hash a group to the 8 bytes that begin a row of a fingerprint."""
    return xxhash.xxh3_64_digest(group.encode(errors="surrogatepass"))
