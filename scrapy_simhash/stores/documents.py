"""The documents of a store as one transaction sees them, over the rows of any kind of store.

A page is compared with the documents of its group (`Facts.group`), and with what was imported into
its scope.

Rows are packed so::

    octets 0-7   XXH3-64 of key and body, which reveals a flipped bit or a swapped row
    octets 8-    MessagePack array, fields in the order of the class; or a wording
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from functools import partial
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import xxhash
from msgspec import structs

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import Candidate, Match, Record, State, add_crawls
from scrapy_simhash.judging.hosts import SAMPLE, draw_sample
from scrapy_simhash.judging.matching import MOST_CALLED
from scrapy_simhash.judging.noise import Measured, join
from scrapy_simhash.pages.addresses import bound_url, host_of
from scrapy_simhash.pages.facts import EVERYONE, LEAST_OF_SHARE
from scrapy_simhash.pages.wording import Wording, unpack
from scrapy_simhash.stores.keys import (
    KEYS_OF_A_PAGE,
    KEYS_OF_STRANGERS,
    KeyTable,
    describe_member,
    fingerprint_row,
    hash_group,
    keys_of,
    make_keys,
    name_keys,
    rows_of_site,
    site_key,
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
    KeyValues,
    number_of,
    octets,
)
from scrapy_simhash.tables.probing import MOST_IN_BUCKET, MOST_IN_PLAIN_BUCKET

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.judging.documents import Document, Rule
    from scrapy_simhash.pages.facts import Facts, Share
    from scrapy_simhash.stores.keys import Keys
    from scrapy_simhash.stores.store import Header
    from scrapy_simhash.tables.designs import Design
    from scrapy_simhash.tables.probing import Probe, Prober


# The most documents under a name: one more than are read, so that a full one is known.
CALLED = MOST_CALLED + 1
# Of plain simhash: no page may cost more than this many records, however many are near to it.
MOST_CANDIDATES = 512
# In HEADER, before the digest of a host.
NOISE = b"noise"
_CHECKSUM_BYTES = 8


class Limits(NamedTuple):
    """How far a probe of the tables goes: in bits, near fingerprints, and rows of a bucket."""

    bits: int
    most: int  # one more than are used, to know that there are more
    in_bucket: int
    or_nothing: bool = False  # of what more than these are near to, nothing is near


def limit_probe(page: Facts, rule: Rule) -> Limits:
    """Choose the limits of a page's probe; where rare triples propose, too, it may give up."""
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
        found[number] = found.get(number, Candidate(-1, number, 0))._replace(keys=keys)
    for name, numbers in called:
        for number in numbers if len(numbers) <= MOST_CALLED else ():
            candidate = found.get(number, Candidate(-1, number, 0))
            found[number] = candidate._replace(name=candidate.name or name)


class Documents:
    """The documents, the tables and the rows beside them in one transaction.

    `dissolved` is what `KeyTable` remembers.
    """

    def __init__(
        self, values: KeyValues, prober: Prober, header: Header, dissolved: set[int]
    ) -> None:
        self.values = values
        self.header = header
        self.seed = header.seed
        self._prober = prober
        # By host, until this transaction changes one: all candidates of a page ask for them.
        self._samples: dict[str, dict[int, bytes]] = {}
        # Not of this object: the two would be garbage that only the collector finds.
        self.keys = KeyTable(values, dissolved, partial(_get_keys, values))

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
            for key, packed in _read_records(self.values, numbers)
            if packed is not None
        }

    def glance(self, numbers: Iterable[int]) -> dict[int, Record]:
        """Get records in one round trip; leaves out missing and damaged ones."""
        rows = read_rows(Record, _read_records(self.values, numbers))
        return {number_of(key): record for key, record in rows}

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
            self.index(number, record)
        if (reader := record.facts.reader) not in (known := self.header.readers):
            self.put_header(readers=tuple(sorted({*known, reader})))
        return number

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

    def index(self, number: int, record: Record) -> None:
        """Make a document findable, in the tables unless it is a near-duplicate."""
        self.values.put(IDENTITIES, record.facts.identity, octets(number))
        if record.state == State.DUPLICATE:
            return
        values, (key, member) = self.values, fingerprint_row(number, record)
        rows = self._prober.split(record.facts.fingerprint)
        # As they are at one moment: another writer may be about to add both.
        values.fetch([(FINGERPRINTS, key), (TABLES, rows[0][0])])
        if not values.members(FINGERPRINTS, key, most=1):
            for table_row in rows:
                values.add(TABLES, *table_row)
        values.add(FINGERPRINTS, key, member)
        if keys := keys_of(record):
            self.keys.enter(number, keys)
        self._enter_site(number, record)

    def _unindex(self, number: int, record: Record) -> None:
        """Undo `index`; a fingerprint leaves the tables with its last document."""
        if record.state == State.DUPLICATE:
            return
        if keys := keys_of(record):
            self.keys.remove(number, keys)
        self._samples.clear()
        for site_row in rows_of_site(number, record, self.seed):
            self.values.discard(*site_row)
        values, (key, row) = self.values, fingerprint_row(number, record)
        values.discard(FINGERPRINTS, key, row)
        if not values.members(FINGERPRINTS, key, most=1):
            for table_row in self._prober.split(record.facts.fingerprint):
                values.discard(TABLES, *table_row)

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

    def list_groups(self, page: Facts) -> list[str]:
        """List the groups that a page is compared with: its own and, if there are any, imports."""
        if page.reader == EVERYONE or EVERYONE not in self.header.readers:
            return [page.group]
        return [page.group, structs.replace(page, reader=EVERYONE).group]

    def list_alike(self, page: Facts, groups: Iterable[str], own: int = 0) -> dict[int, int]:
        """List the documents with rare triples of a page, each with their number; most come first.

        At most 8 of each group. The document of the number `own` is left out.
        """
        if not page.sketch:
            return {}
        is_full = len(self.sample(host_of(page.url))) == SAMPLE
        found: dict[int, int] = {}
        for group in groups:
            most = KEYS_OF_A_PAGE if is_full else KEYS_OF_STRANGERS
            found |= self.keys.list_alike(make_keys(page.sketch, group), most, own)
        return found

    def list_called(self, page: Facts, groups: Iterable[str]) -> list[tuple[str, list[int]]]:
        """List the parts of a page's names, each with the documents that have it, too.

        These are of the page's host and group, or imported, no near-duplicates and no files, and
        have sketches; 9 at most.
        """
        names: dict[bytes, str] = {}
        for group in groups:
            names |= name_keys(page, group, self.seed)
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

        `group` and `most` limit them, unless None.
        """
        prefix = b"" if group is None else hash_group(group)
        found = self.values.members(FINGERPRINTS, octets(fingerprint), prefix, most)
        return [number_of(row[8:]) for row in found]

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
            for host in {host_of(each.record.facts.url) for each in found if each.record} - {""}:
                self.sample(host)

        self.values.look_ahead(look)
        self._samples.clear()

    def read_ahead_of_saves(self, records: Iterable[tuple[int, Record]]) -> None:
        """Read what `save` will need of these, in as few round trips as it can be known in."""
        saved = list(records)

        def look() -> None:
            self._samples.clear()
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
        return rows

    def find_own(self, page: Document) -> list[tuple[int, Record]]:
        """Find a page's own record, and what an import has of it; its own one comes first."""
        identities = [page.facts.identity]
        if page.imported and EVERYONE in self.header.readers:
            identities.append(page.imported)
        return [found for each in identities if (found := self.find(each))]

    def gather(self, page: Document, rule: Rule, own: int = 0) -> tuple[list[Candidate], bool]:
        """Find the documents that may be like a page: near, with rare triples of it, or a name.

        The document of the number `own` is the page's own.
        """
        facts, plain, groups = page.facts, not rule.by_words, self.list_groups(page.facts)
        limits = limit_probe(facts, rule)
        probe = self.near(facts.fingerprint, *limits)
        alike = {} if plain else self.list_alike(facts, groups, own)
        called = [] if plain else self.list_called(facts, groups)
        found, complete = self._list_near(probe, groups, limits)
        propose(found, alike, called)
        candidates = sorted(found.values())[: MOST_CANDIDATES if plain else None]
        records = self.get_all([each.number for each in candidates])
        candidates = [each._replace(record=records.get(each.number)) for each in candidates]
        return candidates, complete or not plain

    def _list_near(
        self, probe: Probe, groups: Iterable[str], limits: Limits
    ) -> tuple[dict[int, Candidate], bool]:
        """List the documents within the distance, and whether these are all."""
        # There may be more fingerprints than are used, those of other groups included.
        complete = len(probe.near) < limits.most and probe.complete
        found: dict[int, Candidate] = {}
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
        """List the documents within a distance, nearest first."""
        near = self.near(fingerprint, distance).near
        self.values.fetch((FINGERPRINTS, octets(found)) for _, found in near)
        matches = [(bits, found, number) for bits, found in near for number in self.numbers(found)]
        records = self.get_all(number for *_, number in matches)
        return [
            Match(number, found, bits, records[number].facts.url)
            for bits, found, number in matches
            if number in records
        ]


def _read_records(
    values: KeyValues, numbers: Iterable[int]
) -> Iterator[tuple[bytes, bytes | None]]:
    keys = list(map(octets, numbers))
    return zip(keys, values.get_all(DOCUMENTS, keys), strict=True)


def _get_keys(values: KeyValues, numbers: Iterable[int]) -> dict[int, Keys]:
    """Make the keys of documents that have some, and are not damaged."""
    rows = read_rows(Record, _read_records(values, numbers))
    made = ((number_of(key), keys_of(record)) for key, record in rows)
    return {number: keys for number, keys in made if keys}


def unpack_wording(key: bytes, packed: bytes) -> Wording:
    """Read the wording of the document of a key, or raise a DamagedError."""
    return unpack(unseal(f"text of document {number_of(key)}", key, packed))


def _placed(record: Record) -> tuple[object, ...]:
    """Tell by what a document is found, and what it tells of its site."""
    page = record.facts
    return (
        *(page.fingerprint, page.url, page.title, page.heading, page.sketch, page.group),
        *(page.text_digest, page.suspicion, page.stub, record.state == State.DUPLICATE),
    )


AnyRow = TypeVar("AnyRow", bound=msgspec.Struct)
_encoder = msgspec.msgpack.Encoder()


def seal(key: bytes, body: bytes) -> bytes:
    """Put a checksum before the body of a row, which covers its key, too."""
    return xxhash.xxh3_64_digest(key + body) + body


def unseal(what: str, key: bytes, packed: bytes) -> bytes:
    """Return the body of a row, or raise a DamagedError that says what is damaged."""
    body = packed[_CHECKSUM_BYTES:]
    if packed[:_CHECKSUM_BYTES] != xxhash.xxh3_64_digest(key + body):
        raise DamagedError(f"damaged {what}: checksum differs")
    return body


def pack_row(key: bytes, row: msgspec.Struct) -> bytes:
    """Pack a row of a table, with a checksum that covers its key, too."""
    return seal(key, _encoder.encode(row))


def unpack_row(kind: type[AnyRow], key: bytes, packed: bytes) -> AnyRow:
    """Read the row of a key, or raise a DamagedError."""
    what = f"{kind.__name__.lower()} at key {key.hex()}"
    try:
        return msgspec.msgpack.decode(unseal(what, key, packed), type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedError(f"damaged {what}: {error}") from error


def read_rows(
    kind: type[AnyRow], rows: Iterable[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, AnyRow]]:
    """Read rows, with their keys; those that are missing or damaged are left out."""
    for key, packed in rows:
        if packed is not None:
            with suppress(DamagedError):  # `check` lists it
                yield key, unpack_row(kind, key, packed)
