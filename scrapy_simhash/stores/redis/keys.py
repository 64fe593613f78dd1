"""The keys of a Redis store and their values.

The braces are hash tags: in a cluster, keys with the same text in braces are in one slot, on one
node. `P` is the prefix of the URL, `hh` a byte in hexadecimal digits::

    {P}:header            Header
    {P}:seq               number of the last commit: microseconds since 1970, always growing
    {P}:applied           in a cluster, the last commit that is in all slots
    {P}:log               stream of the last commits, see `commits`
    {P}:lock              token of a process that writes alone
    {P}:next              number of the last document
    {P}:leases            zset: crawl and token -> time of expiry, see `RedisLeases`
    {P}:crawls            hash: crawl -> CrawlRecord
    {P}:generation        number of the last tables that were written
    {P}:waiting           hash: near-duplicate whose original was pending -> Waiting
    {P}:urls:<table>      hash: key -> row of a table of URL rules, see `records.ROW_TABLES`
    {P:d<n>}              hash: document -> Record, of 1,024 documents
    {P:d<n>}:text         hash: document -> main text, zlib
    {P:d<n>}:near:<m>     set: near-duplicates of document m
    {P:d<n>}:alias:<m>    set: other identities that lead to document m
    {P:i<hh>}:<hh>        hash: identity -> document + checksum; hh, hh: its hash
    {P:f<hh>}:<hh>        hash: the other 6 bytes of a fingerprint + scope hash -> documents
    {P:u<h>}:<hhh>        set: the other 48 bits of a row of the index of URLs, as a number (see
                          `records.address_row`); h, hhh: its first two bytes
    {P:t<g>.<t>.<hh>}     hash: key -> bucket of table t, generation g; hh: first byte of the key
    {P:t<g>.<t>.<hh>}:<hh>        the same, if keys have three bytes
    {P:t<g>.<t>.<hh>}:full:<key>  set: rests of a bucket that is too full

In a cluster, every tag also has `{...}:seq`: the number of the last commit that wrote there.

So each table has 256 shards, by the first byte of its keys; each is a contiguous range of the table
and lies in one slot. Redis stores small hashes compactly (as a "listpack"), so identities and
fingerprints are spread over 65,536 hashes each: 15 to a hash at a million documents. Small sets of
numbers are stored sorted, 8 bytes each (an "intset"); so is the index of URLs, in as many sets.
"""

import xxhash

# Number of documents in a hash, about 1.5 MB of records; reading all documents reads hash by hash.
NUMBERS_PER_CHUNK = 1_024
# Number of a fingerprint's leading bytes that are in the name of its hash.
LEADING_BYTES = 2
# Follows the tag in the name of a key that never exists. A cluster runs a script that names it and
# another one only where the whole slot is on one node; while the slot moves it answers TRYAGAIN.
NEVER = b":never"
# Follows the other bytes of a bulk-loaded fingerprint, in place of a scope's 0 or 8 bytes.
BULK_LOADED = b"*"


class Keys:
    """Makes the keys of the store with a prefix, and reads them."""

    def __init__(self, prefix: str) -> None:
        self._one = f"{{{prefix}}}:".encode()
        self._many = f"{{{prefix}:".encode()
        self.header = self._one + b"header"
        self.seq = self._one + b"seq"
        self.tag = self._one[:-1]
        self.applied = self._one + b"applied"
        self.log = self._one + b"log"
        self.lock = self._one + b"lock"
        self.next = self._one + b"next"
        self.leases = self._one + b"leases"
        self.crawls = self._one + b"crawls"
        self.waiting = self._one + b"waiting"
        self.generation = self._one + b"generation"

    def rows(self, table: str) -> bytes:
        """Get the hash of a table of URL rules."""
        return b"%burls:%b" % (self._one, table.encode())

    def records(self, number: int) -> bytes:
        """Get the hash with a document's record."""
        return self.chunk(number // NUMBERS_PER_CHUNK)

    def chunk(self, number: int) -> bytes:
        """Get the hash of the records of 1,024 documents."""
        return b"%bd%d}" % (self._many, number)

    @property
    def chunks(self) -> bytes:
        """How the hashes of records begin; see `chunk`."""
        return self._many + b"d"

    def read_chunk(self, name: bytes) -> int:
        """Get a chunk's number from its hash."""
        return int(name[len(self._many) + 1 : -1])

    def texts(self, number: int) -> bytes:
        """Get the hash with a document's text."""
        return self.records(number) + b":text"

    def field(self, kind: str, key: int | str) -> tuple[bytes, bytes]:
        """Get the hash and field of a value that `Session` stores."""
        if isinstance(key, str):
            return self.crawls, key.encode()
        hashed = self.texts(key) if kind == "texts" else self.records(key)
        return self.waiting if kind == "waiting" else hashed, b"%d" % key

    def duplicates(self, number: int) -> bytes:
        """Get the set of a document's near-duplicates."""
        return b"%b:near:%d" % (self.records(number), number)

    def aliases(self, number: int) -> bytes:
        """Get the set of a document's other identities."""
        return b"%b:alias:%d" % (self.records(number), number)

    def identities(self, identity: bytes) -> bytes:
        """Get the hash of an identity."""
        first, second = xxhash.xxh3_64_digest(identity)[:2]
        return b"%bi%02x}:%02x" % (self._many, first, second)

    def addresses(self, row: int) -> tuple[bytes, int]:
        """Get the set and the member of a row of the index of URLs."""
        lead, member = divmod(row, 1 << 48)
        return b"%bu%x}:%03x" % (self._many, lead >> 12, lead & 0xFFF), member

    def read_address(self, name: bytes, member: bytes) -> int:
        """Get the row of a member of a set of `addresses`."""
        tag, _, end = name.partition(b"}:")
        return int(tag[-1:] + end, 16) << 48 | int(member)

    def fingerprints(self, leading: bytes) -> bytes:
        """Get the hash of the fingerprints with these two leading bytes."""
        return b"%bf%02x}:%02x" % (self._many, leading[0], leading[1])

    def read_leading(self, name: bytes) -> bytes:
        """Get the leading bytes from a hash of `fingerprints`."""
        tag, _, end = name.partition(b"}:")
        return bytes.fromhex((tag[-2:] + end).decode())

    def bucket(self, generation: int, key: bytes) -> tuple[bytes, bytes]:
        """Get the hash and field of a bucket; its key: the table's number and 1 to 3 bytes."""
        shard = b"%bt%d.%d." % (self._many, generation, key[0])
        lead = key[1:-1].hex().encode()
        return shard + lead[:2] + b"}" + (b":" + lead[2:] if lead[2:] else b""), key[-1:]

    def read_bucket(self, hashed: bytes, field: bytes) -> bytes:
        """Get the key of the bucket with this hash and field."""
        tag, _, end = hashed.partition(b"}")
        _, table, lead = tag[len(self._many) :].split(b".")
        return bytes((int(table),)) + bytes.fromhex((lead + end[1:]).decode()) + field

    def read_generation(self, hashed: bytes) -> int:
        """Get the generation of the tables to which a key belongs."""
        return int(hashed[len(self._many) + 1 :].partition(b".")[0])

    def full(self, hashed: bytes, field: bytes) -> bytes:
        """Get the set of the rests of a bucket that is too full."""
        return b"%b:full:%b" % (hashed, field.hex().encode())

    def all_patterns(self) -> list[bytes]:
        """List the patterns of all keys of the store."""
        return [self._one + b"*", self._many + b"*"]

    def pattern(self, kind: str, end: str = "") -> bytes:
        """Get the pattern of all keys of a kind: `d`, `i`, `f`, or `t<g>.`."""
        return b"%b%b*%b" % (self._many, kind.encode(), end.encode())
