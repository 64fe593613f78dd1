"""How the keys of a Redis store are called, and what is behind each.

The braces are hash tags: in a cluster, keys with the same text in braces lie in one slot, on one
node. `P` is the prefix of the URL, `hh` a byte in hexadecimal digits::

    {P}:header            Header
    {P}:seq               number of the last commit: microseconds since 1970, always growing
    {P}:applied           in a cluster, the last commit that is in all slots
    {P}:log               stream of the last commits, see `redis_commit`
    {P}:lock              who writes alone, while somebody does
    {P}:next              number of the last document
    {P}:leases            zset: crawl and token -> until when it lives, see `redis_lease`
    {P}:crawls            hash: crawl -> CrawlRecord
    {P}:generation        number of the last tables that were written anew
    {P}:waiting           hash: near-duplicate whose original was pending -> Waiting
    {P:d<n>}              hash: document -> Record, of 1,024 documents
    {P:d<n>}:text         hash: document -> main text, zlib
    {P:d<n>}:near:<m>     set: near-duplicates of document m
    {P:d<n>}:alias:<m>    set: other identities that lead to document m
    {P:i<hh>}:<hh>        hash: identity -> document + checksum; hh, hh: its hash
    {P:f<hh>}:<hh>        hash: the other 6 bytes of a fingerprint + scope hash -> documents
    {P:t<g>.<t>.<hh>}     hash: key -> bucket, of table t in generation g; hh: first byte of the key
    {P:t<g>.<t>.<hh>}:<hh>        the same, where keys have three bytes
    {P:t<g>.<t>.<hh>}:full:<key>  set: rests of a bucket that is too full

In a cluster, every tag has `{...}:seq` as well: number of the last commit that wrote there.

So a contiguous range of each table, by the first byte of its keys, lies in one slot: 256 shards a
table. Small hashes are one run of bytes in Redis ("listpack"), which is why identities and
fingerprints are spread over 65,536 of them each, 15 to a hash at a million documents.
"""

from __future__ import annotations

import xxhash

# Some 1.5 MB of records: what reading all documents takes at once.
NUMBERS_PER_CHUNK = 1_024
# Of a fingerprint in the name of its hash.
LEADING_BYTES = 2
# Behind the other bytes of a fingerprint that was bulk-loaded; a scope has 0 or 8 bytes there.
BULK_LOADED = b"*"


class Keys:
    """Makes the keys of one store.

    Args:
        prefix: of all of them.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
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

    def records(self, number: int) -> bytes:
        """Get the hash with a document's record."""
        return self.chunk(number // NUMBERS_PER_CHUNK)

    def chunk(self, number: int) -> bytes:
        """Get the hash of the records of 1,024 documents."""
        return b"%bd%d}" % (self._many, number)

    def read_chunk(self, name: bytes) -> int:
        """Undo `chunk`."""
        return int(name[len(self._many) + 1 : -1])

    def texts(self, number: int) -> bytes:
        """Get the hash with a document's text."""
        return self.records(number) + b":text"

    def duplicates(self, number: int) -> bytes:
        """Get the set of a document's near-duplicates."""
        return b"%b:near:%d" % (self.records(number), number)

    def aliases(self, number: int) -> bytes:
        """Get the set of a document's other identities."""
        return b"%b:alias:%d" % (self.records(number), number)

    def identities(self, identity: bytes) -> bytes:
        """Get the hash in which an identity is."""
        first, second = xxhash.xxh3_64_digest(identity)[:2]
        return b"%bi%02x}:%02x" % (self._many, first, second)

    def fingerprints(self, leading: bytes) -> bytes:
        """Get the hash of the fingerprints with these leading two bytes."""
        return b"%bf%02x}:%02x" % (self._many, leading[0], leading[1])

    def read_leading(self, name: bytes) -> bytes:
        """Undo `fingerprints`: get the leading bytes."""
        tag, _, end = name.partition(b"}:")
        return bytes.fromhex((tag[-2:] + end).decode())

    def bucket(self, generation: int, key: bytes) -> tuple[bytes, bytes]:
        """Get the hash of a bucket, and its field.

        Args:
            generation: of the tables.
            key: number of the table, and one to three bytes.
        """
        shard = b"%bt%d.%d." % (self._many, generation, key[0])
        lead = key[1:-1].hex().encode()
        return shard + lead[:2] + b"}" + (b":" + lead[2:] if lead[2:] else b""), key[-1:]

    def read_bucket(self, hashed: bytes, field: bytes) -> bytes:
        """Undo `bucket`: get the key of the bucket."""
        tag, _, end = hashed.partition(b"}")
        _, table, lead = tag[len(self._many) :].split(b".")
        return bytes((int(table),)) + bytes.fromhex((lead + end[1:]).decode()) + field

    def read_generation(self, hashed: bytes) -> int:
        """Get the generation of the tables that a key is of."""
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
