"""The keys of a Redis store: each table is spread over hashes, its keys are their fields.

The braces are hash tags: in a cluster, keys with the same text in braces are in one slot, on one
node. `P` is the prefix of the URL; `h` are the leading octets of the keys, in hexadecimal digits,
and the field has the others::

    {P:d<h>}:d, :x, :n, :a    documents, texts, duplicates and aliases: of 256 documents each
    {P:i<h>}:i<h>             identities; h: two octets of a digest, and the field is the whole key
    {P:f<h>}:f<h>             fingerprints, by their first two octets
    {P:u<h>}:u                addresses, by their first octet
    {P:h<h>}:h                samples of hosts, by their first octet
    {P:m<h>}:m<h>             names, by their first two octets
    {P:t<g>.<h>}:t<h>         tables of generation g: table and first octet, then further ones
    {P}:<name>                any other table
    ...:full:<field>          sorted set: the members of a set that has too many for a field
    {P}:seq                   number of the last commit: microseconds since 1970, always growing
    {P}:applied               in a cluster, the last commit that is in all slots
    {P}:log                   stream of the last commits, see `commits`
    {P}:lock                  zset of at most one: the process that writes alone, as in leases
    {P}:next                  number of the last document
    {P}:leases                zset: crawl and token -> time of expiry, see `leases`
    {P}:generation            number of the last tables that were begun

The header's hash has a second field, for the generation of the tables in use. In a cluster, every
tag also has `{...}:seq`: the number of the last commit that wrote there.

Redis stores small hashes compactly (as a "listpack"), so identities, fingerprints and names are
spread over 65,536 hashes each: 15 to a hash at a million documents. A set is a field with its
members side by side.
"""

from __future__ import annotations

import re
from collections import defaultdict

import xxhash

from scrapy_simhash.stores.keyvalues import (
    ADDRESSES,
    ALIASES,
    DOCUMENTS,
    DUPLICATES,
    FINGERPRINTS,
    IDENTITIES,
    NAMES,
    SITES,
    TABLES,
    TEXTS,
)
from scrapy_simhash.tables.probing import MOST_IN_BUCKET

# Follows the tag in the name of a key that never exists. A cluster runs a script that names it and
# another one only where the whole slot is on one node; while the slot moves it answers TRYAGAIN.
NEVER = b":never"
FULL = b":full:"
# Field of the header's hash with the generation of the tables in use.
GENERATION = b"tables"
# By table: letters of tag and hash, how many leading octets of a key are in the tag, and in tag and
# hash; -1 for all but the last one.
_LAYOUT = {
    DOCUMENTS: (b"d", b"d", 7, -1),
    TEXTS: (b"d", b"x", 7, -1),
    DUPLICATES: (b"d", b"n", 7, -1),
    ALIASES: (b"d", b"a", 7, -1),
    IDENTITIES: (b"i", b"i", 1, 2),
    FINGERPRINTS: (b"f", b"f", 1, 2),
    ADDRESSES: (b"u", b"u", 1, -1),
    SITES: (b"h", b"h", 1, 1),
    NAMES: (b"m", b"m", 1, 2),
    TABLES: (b"t", b"t", 2, -1),
}
# A set of more members is a key of its own: writing one reads the whole field.
_MOST_IN_FIELD = 512
_GLOB = re.compile(rb"[][*?\\]")


class Place:
    """Where the keys of one table are."""

    def __init__(self, prefix: bytes, table: str, generation: int = 0) -> None:
        # Aliases have no common width, so each set of them is a key of its own.
        self.most = {ALIASES: 0, ADDRESSES: MOST_IN_BUCKET, TABLES: MOST_IN_BUCKET}.get(
            table, _MOST_IN_FIELD
        )
        self._digest = table == IDENTITIES
        if table in _LAYOUT:
            tag, self._letter, self._tag_octets, self.lead = _LAYOUT[table]
            self._begin = b"{%b:%b" % (prefix, tag)
            if table == TABLES:
                self._begin += b"%d." % generation
        else:
            self._begin, self._letter = b"{%b" % prefix, table.encode()
            self._tag_octets = self.lead = 0
        self._names: dict[bytes, bytes] = {}

    @property
    def single(self) -> bytes:
        """The name of the only hash of a table that has no more; otherwise empty."""
        return b"" if self.lead else self._make(b"")

    def name(self, key: bytes) -> bytes:
        """Get the name of the hash of a key."""
        lead = xxhash.xxh3_64_digest(key)[:2] if self._digest else key[: self.lead]
        name = self._names.get(lead)
        if name is None:
            name = self._names[lead] = self._make(lead)
        return name

    def _make(self, lead: bytes) -> bytes:
        tag, rest = lead[: self._tag_octets], lead[self._tag_octets :]
        return b"%b%b}:%b%b" % (self._begin, tag.hex().encode(), self._letter, rest.hex().encode())

    def field(self, key: bytes) -> bytes:
        """Get the field of a key."""
        return key if self._digest else key[self.lead :]

    def full(self, key: bytes) -> bytes:
        """Get the sorted set of a set that has too many members for a field."""
        return self.name(key) + FULL + self.field(key).hex().encode()

    def read(self, name: bytes, field: bytes) -> bytes:
        """Get the key of a field."""
        if self._digest or not self.lead:
            return field
        tag, _, rest = name[len(self._begin) :].partition(b"}:")
        return bytes.fromhex((tag + rest[len(self._letter) :]).decode()) + field

    def pattern(self, prefix: bytes) -> bytes:
        """Make the pattern of the hashes with the keys that begin so."""
        if self._digest:
            prefix = b""
        lead = prefix[: self.lead] if self.lead > 0 else prefix
        if len(lead) <= self._tag_octets:
            return b"%b%b*}:%b*" % (self._begin, lead.hex().encode(), self._letter)
        return self._make(lead) + b"*"

    def parts(self) -> tuple[bytes, bytes, int]:
        """Describe names to a script: their begin and end, and the octets of a key in between."""
        return self._begin, b"}:" + self._letter, self._tag_octets


class Places(defaultdict[str, Place]):
    """Where all tables are, by their names; `of_tables` is the generation of TABLES."""

    def __init__(self, prefix: str, generation: int = 0) -> None:
        super().__init__()
        self._prefix = prefix.encode()
        self.of_tables = generation
        self.tag = b"{%b}" % self._prefix
        self.header = self._key("header")
        self.seq = self._key("seq")
        self.applied = self._key("applied")
        self.log = self._key("log")
        self.lock = self._key("lock")
        self.next = self._key("next")
        self.leases = self._key("leases")
        self.generation = self._key("generation")

    def _key(self, name: str) -> bytes:
        return self.tag + b":" + name.encode()

    def __missing__(self, table: str) -> Place:
        place = self[table] = Place(self._prefix, table, self.of_tables)
        return place

    def of(self, generation: int) -> Places:
        """Make the places for the tables of another generation."""
        return Places(self._prefix.decode(), generation)

    def read_generation(self, name: bytes) -> int:
        """Get the generation of the tables to which a key belongs."""
        return int(name[len(self._prefix) + 3 :].partition(b".")[0])

    @property
    def tables(self) -> bytes:
        """The pattern of the hashes of all generations of tables."""
        return b"{%b:t*" % self._prefix

    @property
    def patterns(self) -> list[bytes]:
        """The patterns of all keys of the store."""
        return [self.tag + b":*", b"{%b:*" % self._prefix]


def glob(prefix: bytes) -> bytes:
    """Make the pattern of what begins so."""
    return _GLOB.sub(rb"\\\g<0>", prefix) + b"*"
