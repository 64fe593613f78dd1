"""The wording of a page: what a reader sees of it, as it is kept to compare pages word by word.

That is the visible text, bounded, and what is seen beside the text: alternative texts of pictures,
values of fields, addresses to write to and to call, names of files.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import xxhash

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.pages.features import locate, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_simhash.pages.features import HashedText

# Of the pages of four corpora 0 to .08 % have more words, and 0 to 1.1 % more than 16,384: what is
# beyond can only be equal or not. Characters only bound what is no language: words of
# letters without end, or signs between them.
MOST_WORDS = 32_768
# The text goes on to one of 256 pairs of words, for so many words at most: two texts of which one
# has some words more in front end alike.
_MOST_WORDS_TO_END = 1_024
_PAIRS = np.uint64(256)
_MOST_CHARACTERS = 1 << 18
# Of what is seen beside the text, for all of it together.
_MOST_BESIDE = 128
_MOST_CHARACTERS_BESIDE = 4_096
# Four octets a character.
_MOST_UNPACKED_OCTETS = 1 << 21
_LONGEST_NAME = 256
# Level 6 makes .4 to .9 % less of a text, and takes half as long again, .07 ms.
_LEVEL = 5
# What was packed last: that of the page that is read, which is compared next.
_PACKED: dict[bytes, Wording] = {}
# Beyond the "?" is what a share button wants to be written.
_CONTACT = re.compile(r"^[ \t]*(?:mailto|tel):([^?\n]+)", re.MULTILINE)
_ENDING = re.compile(
    r"\.(?:pdf|zip|gz|tgz|bz2|xz|7z|rar|docx?|xlsx?|pptx?|odt|ods|csv|epub|mobi|exe|msi|dmg|apk|iso"
    r"|mp3|mp4|ics|vcf|ps|djvu)(?=[?#\n]|$)"
)


class Wording(NamedTuple):
    """The words of a page.

    Attributes:
        text: the visible text as `features.normalise` makes it, one block a line, up to its
            32,768th word or some words more.
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


def make_wording(
    words: HashedText,
    beside: Iterable[str],
    seed: int,
    main: tuple[int, int] = (0, 0),
    tags: Sequence[str] = (),
) -> Wording:
    """Make the wording of a page from the words of its visible text, and what is seen beside it.

    Args:
        words: as `features.tokenise` cuts them.
        beside: as the page has it, see `list_links_seen`.
        seed: of the store, 0 to 2**64 - 1: nobody else can make two pages of one digest.
        main: the first line of the main text, and the line behind it, as in `Wording`.
        tags: of the block in each line.
    """
    text, rest = words.normal, b""
    if len(words.tokens) > MOST_WORDS or len(text) > _MOST_CHARACTERS:
        kept, end = _bound_text(words)
        text = text[:end]
        if beyond := words.hashes[kept:].tobytes():
            rest = xxhash.xxh3_64_digest(beyond, seed)
    # A word cut off with all that follows may be the first one.
    lines = text.count("\n") + 1 if text else 0
    first, end = main[0], min(main[1], lines)
    main = (first, end) if first < end else (0, 0)
    return Wording(text, rest, _bound(beside, seed), main, " ".join(tags[:lines]))


def _bound_text(words: HashedText) -> tuple[int, int]:
    """Find how many words of a text are kept, and where the last one ends."""
    last = words.hashes[max(0, MOST_WORDS - 1) : MOST_WORDS + _MOST_WORDS_TO_END]
    borders = np.flatnonzero((last[:-1] ^ last[1:] >> np.uint64(1)) % _PAIRS == 0)
    most = MOST_WORDS + (int(borders[0]) + 1 if len(borders) else _MOST_WORDS_TO_END)
    ends = [0, *(end for _, end in locate(words.normal, words.tokens[:most]))]
    kept = bisect(ends, _MOST_CHARACTERS) - 1
    return kept, ends[kept]


def _bound(beside: Iterable[str], seed: int) -> tuple[str, ...]:
    """Normalise what is seen beside the text, and make one digest of what is too much."""
    found = dict.fromkeys(normalise(" ".join(each.split())) for each in beside)
    found.pop("", None)
    kept: list[str] = []
    beyond: list[str] = []
    room = _MOST_CHARACTERS_BESIDE
    for each in found:
        fits = len(kept) < _MOST_BESIDE and len(each) <= room
        room -= len(each) * fits
        (kept if fits else beyond).append(each)
    if beyond:
        digest = xxhash.xxh3_64_hexdigest("\0".join(beyond).encode(), seed)
        kept.append(f"({len(beyond)} more, {digest})")
    return tuple(kept)


def list_links_seen(links: Iterable[str]) -> list[str]:
    """List, of the targets of links, addresses to write to and to call, and names of files."""
    joined = "\n".join(links).lower()
    contacts = _CONTACT.findall(joined) if "mailto:" in joined or "tel:" in joined else []
    ends = ((found.start(), found.end()) for found in _ENDING.finditer(joined))
    for dot, end in ends:
        first = max(0, dot - _LONGEST_NAME)
        before = max(first - 1, *(joined.rfind(each, first, dot) for each in "/\n"))
        contacts.append(joined[before + 1 : end])
    return contacts


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
