"""A page as it was fetched, what is kept of it, and the recipe that is made by."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import msgspec

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.pages.addresses import plain_form

FINGERPRINT_BITS = 64

# Of a body; a larger page is not judged (`too_large`).
MOST_BYTES = 4 * 2**20
# Beside fewer characters of text, inline scripts and long attributes `data-` are data, from which a
# browser may fill the page, a template with a product; beside more, scripts of JSON are.
MOST_BESIDE_DATA = 2_000
OUR_READER = "turbohtml"
# The reader of all visible text, which stands for a main text that was not found.
WHOLE_TEXT = "html2txt"
# Of a sketch, see `pages.features`.
SKETCH_BYTES = 768
# A near-duplicate leads to new pages when at least this share of its links is new, as of lists that
# differ in their links only.
MOSTLY_NEW = 0.5
# Four octets a character.
_MOST_UNPACKED_OCTETS = 1 << 21
# Level 5 makes 2.5 % less of a text, 6 another .9 %; each takes a third as long again, .05 ms.
_LEVEL = 4
# Checked where the answer of a judge is decoded; MessagePack has no integer above 2**64 - 1.
_Bits = Annotated[int, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a page becomes a fingerprint: a store keeps its recipe, and refuses any other.

    The versions of turbohtml and xxhash are not part of it: a new release changes the
    text of few pages, and refusing every store at each upgrade would cost more than the few
    misses.

    Attributes:
        window: words in a shingle, 1 or more; crawls take single words.
        text_version: of our reader; raised whenever a change alters the text of any page.
        features_version: raised whenever a change alters the fingerprint of any text.
    """

    window: int = 1
    text_version: int = 1
    features_version: int = 3


class Reader(NamedTuple):
    """Who gets a page: a callback of a spider.

    Attributes:
        spider: its name; "" where callbacks of one name are one, whatever their spiders.
        callback: name of its method, see `crawl.policy.find_reader`.
    """

    spider: str = ""
    callback: str = ""


# Of pages that were imported: they count for every callback.
EVERYONE = Reader(callback="*")
# Of callbacks that have no name, and of pages judged outside of crawls: a group like others.
NOBODY = Reader()


LEAST_OF_SHARE = 200


class Share(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """How many pages the last crawl judged for a reader, and how many of them repeated another.

    A crawl of fewer than `LEAST_OF_SHARE` pages says nothing of what is usual.
    """

    reader: Reader
    crawl: str
    judged: int = 0
    repeated: int = 0


class Fetched(msgspec.Struct, frozen=True):
    """A page as it was fetched.

    Attributes:
        url: of the response.
        encoding: as the response declares it.
        identity: of the final request, see `Facts`.
        time: when it was fetched, seconds since 1970, UTC; None for now.
        requested: address of the request that was redirected to it; "" if none was.
        reader: who is to get it.
        foreign: a link of another site led to it.
        leads_on: its links may be followed; False at DEPTH_LIMIT.
        imported: identity under which an import has the same page; b"" if there is none.
    """

    url: str
    encoding: str | None = None
    identity: bytes = b""
    time: float | None = None
    requested: str = ""
    reader: Reader = NOBODY
    foreign: bool = False
    imported: bytes = b""
    leads_on: bool = True


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a page, whoever has it: a reader, a document, a record, Spark.

    Attributes:
        identity: who the page is, 1 to 64 bytes: in a crawl, a digest of the final request and the
            callback. The same identity is never its own near-duplicate.
        fingerprint: simhash of its text, 0 to 2**64 - 1, see `judging.documents.make_document`.
        text_digest: of its text, at most 64 bytes; another one means "changed".
        url: for people.
        scope: only documents of one scope, for one reader, are compared; "" is the global one.
        title, heading: what names it.
        canonical, views: addresses that it declares; the others one a line, see `fingerprint`.
        language, features: for people, and for `explain`.
        words, whole_words: of main and whole text.
        data_fingerprint: simhash of what a browser may draw it from, 8 bytes; b"" for none.
        sketch: of the whole text, 768 bytes, see `features`; b"" for none.
        stub: it has too little text for a simhash, so that only an equal page, or one with the
            same name and main text, is a near-duplicate of it.
        time: seconds since 1970, UTC.
        reader: who gets it.
        suspicion: whether somebody may have made it up to be in its host's sample: 0 for no, 1 if
            a link of another site led to it first, 2 if it repeats its query.
        hidden: digest of attributes and hidden texts of a page with little text, 8 bytes; b"" for
            others.
    """

    identity: bytes
    fingerprint: _Bits
    text_digest: bytes
    url: str = ""
    scope: str = ""
    title: str = ""
    heading: str = ""
    canonical: str = ""
    views: str = ""
    language: str = ""
    features: _Count = 0
    words: _Count = 0
    whole_words: _Count = 0
    data_fingerprint: bytes = b""
    sketch: bytes = b""
    stub: bool = False
    time: float = 0.0
    reader: Reader = NOBODY
    suspicion: int = 0
    hidden: bytes = b""

    @property
    def group(self) -> str:
        """What it is compared with: the documents of its scope that its reader gets."""
        return f"{self.scope}\0{self.reader.spider}\0{self.reader.callback}"

    @property
    def declared(self) -> set[str]:
        """The addresses that it declares, in their plain form."""
        return {
            plain_form(address) for address in (self.canonical, *self.views.split("\n")) if address
        }


class Wording(NamedTuple):
    """The words of a page.

    Attributes:
        text: the visible text as `features.normalise` makes it, one block a line, up to its
            32,768th word.
        rest: digest of all words beyond, 8 bytes; b"" if there are none.
        beside: what is seen beside the text, normalised, distinct, in the order of kinds, then of
            the page; what is too much is one digest, the last one.
        main: the first line of the main text, and the line behind its last one; (0, 0) where none
            was found, or none of it is in `text`.
        tags: of each line the tag of its block, joined by spaces: of the nearest element of
            `turbohtml_reader._BLOCK_TAGS` around the first piece of its text, "body" for none. ""
            where a text was made elsewhere.
    """

    text: str = ""
    rest: bytes = b""
    beside: tuple[str, ...] = ()
    main: tuple[int, int] = (0, 0)
    tags: str = ""

    @property
    def is_cut_in_main(self) -> bool:
        """Whether the words beyond may be of the main text: it is not known, or goes on there."""
        return bool(self.rest) and self.main[1] in {0, self.text.count("\n") + 1}

    def __str__(self) -> str:
        """Return all of it, one block a line; of the words beyond only their digest."""
        rest = (f"(and more words: {self.rest.hex()})",) if self.rest else ()
        return "\n".join((self.text, *rest, *self.beside))


# What was packed last: that of the page that is read, which is compared next.
_PACKED: dict[bytes, Wording] = {}


def pack(wording: Wording) -> bytes:
    """Pack a wording: 1 to 3.5 kB for most pages."""
    packed = zlib.compress(msgspec.msgpack.encode(wording), _LEVEL)
    _PACKED.clear()
    _PACKED[packed] = wording
    return packed


def unpack(packed: bytes) -> Wording:
    """Read a packed wording, or raise a DamagedError."""
    if wording := _PACKED.get(packed):
        return wording
    reader = zlib.decompressobj()
    try:
        return msgspec.msgpack.decode(
            reader.decompress(packed, _MOST_UNPACKED_OCTETS), type=Wording
        )
    except (zlib.error, msgspec.MsgspecError) as error:
        raise DamagedError(f"the text of a page is damaged: {error}") from error


class PageLinks(NamedTuple):
    """The links of a page.

    Attributes:
        digests: XXH3-64 of each link without a session, 8 bytes, little-endian.
        addresses: of the same links, absolute and without fragments, in UTF-8, one a line.
    """

    digests: bytes = b""
    addresses: bytes = b""


NO_LINKS = PageLinks()


@dataclass(frozen=True, slots=True)
class PageFingerprint:
    """What a reader makes of a page.

    Attributes:
        facts: what is kept of it. Its fingerprint is the simhash of the main text, its text digest
            the XXH3-128 of that, normalised; who it is and when it was fetched, others add.
        whole_fingerprint: 64-bit simhash of its whole visible text.
        stub: digest, with the store's seed, of all that the page may differ in, 16 bytes: title,
            visible and other text, attributes. For pages with too little text for a simhash;
            b"" for others where `min_features` was given.
        whole_features: number of distinct features of the whole text.
        links: number of distinct link targets on the page.
        text: the main text; the whole one where none was found.
        wording: what a reader sees of it, packed.
        read_ms: milliseconds for all of it.
        targets: its links; not stored.
    """

    facts: Facts
    stub: bytes
    whole_fingerprint: _Bits = 0
    whole_features: _Count = 0
    links: _Count = 0
    text: str = ""
    wording: bytes = b""
    read_ms: float = 0.0
    targets: PageLinks = NO_LINKS


def check_fingerprint(fingerprint: int) -> int:
    """Return a fingerprint unchanged; `ValueError` unless it is a whole number below 2**64."""
    if not isinstance(fingerprint, int) or not 0 <= fingerprint < 2**FINGERPRINT_BITS:
        raise ValueError(
            f"a fingerprint is a whole number from 0 to 2**64 - 1, got {fingerprint!r}"
        )
    return fingerprint
