"""31 pages that are meant to hang, crash, fill or fool what reads them; made, never stored.

Sizes stay below `MOST_BYTES` (4 MiB) wherever the size is not the attack, so that
judges get them. Where time grows with size alone, a twentieth is enough to see that the
page passes; SIMHASH_TESTS_LONG=1 in the environment takes the whole.
"""

import os
import sys
import unicodedata
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.helpers.pages import make_words

HTML = "text/html; charset=utf-8"
_PART = 1 if os.environ.get("SIMHASH_TESTS_LONG") else 20
# What one page may come to on a fast and on a slow machine.
JUDGED = frozenset({"judged"})
LATE = frozenset({"timed_out"})
MAYBE_LATE = JUDGED | LATE
# 20,000 words: of one page of the web in a thousand.
_FILLER = " ".join(make_words(45, 20_000))
_HAN = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(10_000))


@dataclass(frozen=True)
class Hostile:
    """A page and what may become of it.

    Attributes:
        make: its body.
        outcomes: reasons for which it may not be judged; `judged` as well, if it may.
        content_type: the header.
        gzip: the body is sent compressed.
    """

    make: Callable[[], bytes]
    outcomes: frozenset[str] = JUDGED
    content_type: str = HTML
    gzip: bool = False


def wrap(body: str, head: str = "") -> bytes:
    """Make a document with enough of its own text to be judged."""
    seed = zlib.crc32((head + body).encode("utf-8", "replace"))  # the same in every run
    text = f"<p>{' '.join(make_words(seed, 60))}</p>"
    return f"<html><head>{head}</head><body>{text}{body}</body></html>".encode()


def table(rows: int) -> Callable[[], bytes]:
    row = "<tr><td colspan=99999999 rowspan=99999999>x</td></tr>"
    return lambda: wrap(f"<table>{row * rows}</table>")


def attributes(count: int, before: str = "") -> Callable[[], bytes]:
    names = " ".join(f"a{number}=1" for number in range(count))
    return lambda: wrap(f"<p {before}{names}>text</p>")


def nested(count: int, *tags: str) -> Callable[[], bytes]:
    opening, closing = ("".join(mark % tag for tag in tags) for mark in ("<%s>", "</%s>"))
    return lambda: wrap(opening * count + "deep" + closing * count)


def repeated(piece: str, count: int) -> Callable[[], bytes]:
    return lambda: wrap(piece * (count // _PART))


def numbered(piece: str, count: int) -> Callable[[], bytes]:
    numbers = range(count // _PART)
    return lambda: wrap("".join(piece.replace("#", str(number)) for number in numbers))


def megabytes(count: int) -> Callable[[], bytes]:
    paragraph = b"<p>" + _FILLER[:994].encode() + b"</p>\n"
    return lambda: b"<html><body>" + paragraph * (count * 1_000)


def entities(doctype: str, text: str) -> Callable[[], bytes]:
    return lambda: f'<?xml version="1.0"?>{doctype}'.encode() + wrap(text)


def every_symbol() -> bytes:
    symbols = (chr(point) for point in range(0x20, sys.maxunicode) if not 0xD7FF < point < 0xE000)
    return wrap(" ".join(symbol for symbol in symbols if unicodedata.category(symbol)[0] in "SP"))


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "laugh"}">' for n in range(12))
HOSTILE: dict[str, Hostile] = {
    "colspan-400-rows": Hostile(table(400), MAYBE_LATE),
    "attributes-40k": Hostile(attributes(40_000), MAYBE_LATE),
    "attributes-80k": Hostile(attributes(80_000), LATE),
    "attributes-behind-a-quoted-bracket": Hostile(attributes(80_000, 'title=">" '), LATE),
    "nested-div-100k": Hostile(nested(100_000, "div")),
    "nested-inline": Hostile(nested(20_000, "b", "i", "font"), MAYBE_LATE),
    "nested-tables": Hostile(nested(10_000, "table", "tr", "td"), MAYBE_LATE),
    "nested-lists": Hostile(nested(20_000, "ul", "li"), MAYBE_LATE),
    "misnested-formatting": Hostile(repeated("<b><p><i>x</b>", 30_000), MAYBE_LATE),
    "anchors-never-closed": Hostile(numbered("<a href=/#>x", 50_000), MAYBE_LATE),
    "paragraphs-200k": Hostile(numbered("<p>p#</p>", 200_000), MAYBE_LATE),
    "line-breaks-400k": Hostile(repeated("x<br>y\n", 400_000), MAYBE_LATE),
    "links-80k": Hostile(numbered("<a href=/page/#>x</a>", 80_000), MAYBE_LATE),
    "options-200k": Hostile(numbered("<option>o#", 200_000), MAYBE_LATE),
    "entities-800k": Hostile(repeated("&amp;", 800_000), MAYBE_LATE),
    "distinct-words-600k": Hostile(
        lambda: b"<html><body><p>" + " ".join(f"{n:x}" for n in range(600_000)).encode(), MAYBE_LATE
    ),
    "one-word-200k": Hostile(lambda: b"<html><body><p>" + b"word " * 200_000, MAYBE_LATE),
    "word-of-4-MB": Hostile(repeated("x", 4_000_000), MAYBE_LATE),
    "attribute-of-4-MB": Hostile(lambda: wrap(f'<p title="{"x" * 4_000_000}">x'), MAYBE_LATE),
    "json-ld-of-4-MB": Hostile(
        lambda: wrap(f'<script type="application/ld+json">{{"a":"{_FILLER * 30}"}}</script>'),
        MAYBE_LATE,
    ),
    "doctype-of-1-MB": Hostile(lambda: f"<!DOCTYPE {'x' * 1_000_000}>".encode() + wrap("text")),
    "100-MB": Hostile(megabytes(100), frozenset({"too_large"})),
    "gzip-bomb-of-100-MB": Hostile(megabytes(100), frozenset({"too_large"}), gzip=True),
    "billion-laughs": Hostile(entities(f"<!DOCTYPE x [{LAUGHS}]>", "&l11;"), JUDGED | {"no_text"}),
    "external-entity": Hostile(
        entities('<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>', "&e;"),
        JUDGED | {"no_text"},
    ),
    "control-characters": Hostile(lambda: wrap(_FILLER + "".join(map(chr, range(1, 32))) * 100)),
    "right-to-left-overrides": Hostile(lambda: wrap("\u202e\u2066apples\u2069 " * 10_000)),
    "combining-marks": Hostile(repeated("\u0301\u0323", 500_000), MAYBE_LATE),
    "han-of-1-million": Hostile(repeated(_HAN, 100), MAYBE_LATE),
    "every-symbol": Hostile(every_symbol),
    "addresses-that-are-none": Hostile(
        lambda: wrap(
            '<a href="http://[::1">a</a><a href="//\u2100/">b</a><a href="http://x:99999999/">c</a>',
            '<base href="http://[bad"><link rel=canonical href="http://[::">',
        )
    ),
}
