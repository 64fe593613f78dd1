"""A page's bytes to its texts: decode, parse, extract.

Boilerplate and advertisements are left out by trafilatura. Extraction is 95 % of what a page
costs, which is why `detector` runs this module in worker processes.
"""

from __future__ import annotations

import codecs
import logging
from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import trafilatura
from lxml import etree
from w3lib.encoding import html_to_unicode

from scrapy_simhash.recipe import load_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from lxml.html import HtmlElement

    Extractor: TypeAlias = Callable[[HtmlElement], str | None]

logger = logging.getLogger(__name__)

# Raised whenever a change below alters the main text of any page.
TEXT_VERSION = 2
WHOLE_TEXT = "html2txt"

# A page is taken for binary when more than this share of its first characters are control
# characters or could not be decoded. Pages of the evaluation corpus stay below 0.001; images and
# archives labelled text/html have above 0.2.
_MOST_CONTROL_SHARE = 0.05
_CONTROL_SAMPLE_CHARACTERS = 4_096
_CONTROLS = dict.fromkeys([*range(9), 11, *range(14, 32), 127, 0xFFFD])
_TITLE_CHARACTERS = 300
# Of pages with more visible text the source itself tells the one from the other.
_MOST_CHARACTERS_OF_A_STUB = 4_000
_CANONICAL = etree.XPath("//link[@rel='canonical']/@href", smart_strings=False)
_LINKS = etree.XPath("//a/@href", smart_strings=False)
_BASE = etree.XPath("//base/@href", smart_strings=False)
# Whatever a page without text can show or lead to: pictures, frames, scripts and their data, links.
_EMBEDDED = etree.XPath(
    "//@src | //@srcset | //@href | //@poster | //object/@data | //@*[starts-with(name(), 'data-')]"
    " | //script/text()",
    smart_strings=False,
)
_INVISIBLE = ("script", "style", "noscript", "template", "iframe", "object", etree.Comment)


class UnjudgedError(Exception):
    """A page that cannot be judged; it goes to the spider as it is.

    Args:
        reason: a word for stats and log: `binary`, `bad_encoding`, `no_text`, ...
        detail: what was seen, for the log.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)  # both, so that it pickles
        self.reason = reason
        self.detail = detail


class PageText(NamedTuple):
    """What was read from a page.

    Attributes:
        main: its main text, or all visible text where `fell_back`.
        whole: all its visible text, boilerplate included.
        title: of the document, white space collapsed, at most 300 characters.
        heading: its first `<h1>`, or else its first `<h2>` or `<h3>`; as `title`.
        language: as the page declares it in `<html lang>`, lower case, or "".
        canonical: target of `<link rel="canonical">` as it is written, or "".
        base: of `<base href>`, against which addresses on the page are resolved, or "".
        links: distinct targets of `<a href>`, as they are written.
        embedded: what the page may differ in besides its text: addresses, `data-` attributes and
            the content of its scripts; of a page with much text its whole source.
        fell_back: the extractor found no main text.
    """

    main: str
    whole: str
    title: str
    heading: str
    language: str
    canonical: str
    base: str
    links: tuple[str, ...]
    embedded: str
    fell_back: bool


def main_text(tree: HtmlElement) -> str | None:
    """Extract the main text; comments below an article are left out, tables stay."""
    return trafilatura.extract(tree, include_comments=False)


def fast_main_text(tree: HtmlElement) -> str | None:
    """Extract as `main_text`, without trafilatura's fallback extractors: about twice as fast."""
    return trafilatura.extract(tree, include_comments=False, fast=True)


def whole_text(tree: HtmlElement) -> str | None:
    """Take all visible text, boilerplate included.

    trafilatura's own `html2txt` leaves out footers and the like, and with them some pages' all.
    """
    body = deepcopy(tree if tree.tag == "body" else tree.find("body"))
    if body is None:
        return None
    etree.strip_elements(body, *_INVISIBLE, with_tail=False)
    return " ".join(" ".join(body.itertext()).split())


EXTRACTORS: dict[str, Extractor] = {
    "trafilatura": main_text,
    "trafilatura-fast": fast_main_text,
    WHOLE_TEXT: whole_text,
}


def load_extractor(name: str) -> Extractor:
    """Find an extractor by its name or import path.

    Raises:
        ValueError: nothing callable there.
    """
    extractor: Extractor = load_named(
        name, EXTRACTORS, callable, "a function from an lxml tree to text"
    )
    return extractor


def read_page(body: bytes, encoding: str | None, extractor: str = "trafilatura") -> PageText:
    """Read the texts of a page, and what names it.

    Args:
        body: HTML, decompressed.
        encoding: as the response declares it, or None to find out from the body.
        extractor: name or import path.

    Raises:
        UnjudgedError: `empty`, `bad_encoding`, `binary`, or `no_text`.
    """
    html = decode(body, encoding)
    tree = trafilatura.load_html(html)
    if tree is None:
        raise UnjudgedError("no_text", "the HTML parser found no elements")
    whole = _clean(whole_text(tree))
    main = _clean(load_extractor(extractor)(tree))
    if not main and not whole:
        raise UnjudgedError("no_text", "neither main text nor any visible text")
    return PageText(
        main=main or whole,
        whole=whole or main,
        title=_one_line(tree.findtext(".//title"))[:_TITLE_CHARACTERS],
        heading=_find_heading(tree),
        language=tree.get("lang", "").strip().lower()[:35],  # RFC 5646: 35 characters suffice
        canonical=_one_line("".join(_strings(_CANONICAL, tree)[:1])),
        base=_one_line("".join(_strings(_BASE, tree)[:1])),
        links=tuple(dict.fromkeys(map(_without_surrogates, _strings(_LINKS, tree)))),
        embedded=_read_embedded(tree) if len(whole) <= _MOST_CHARACTERS_OF_A_STUB else html,
        fell_back=not main,
    )


def _find_heading(tree: HtmlElement) -> str:
    for levels in (("h1",), ("h2", "h3")):
        for element in tree.iter(*levels):
            if heading := _one_line(" ".join(element.itertext())):
                return heading[:_TITLE_CHARACTERS]
    return ""


def _read_embedded(tree: HtmlElement) -> str:
    return _without_surrogates("\0".join(_strings(_EMBEDDED, tree)))


def _strings(path: etree.XPath, tree: HtmlElement) -> list[str]:
    return cast("list[str]", path(tree))


def decode(body: bytes, encoding: str | None) -> str:
    """Decode a body as the spider will see it.

    Raises:
        UnjudgedError: `empty`, `bad_encoding` (a charset that is none, such as base64 or
            unicode_escape), or `binary`.
    """
    if not body.strip():
        raise UnjudgedError("empty")
    html = _decode_undeclared(body) if encoding is None else _decode_declared(body, encoding)
    sample = html[:_CONTROL_SAMPLE_CHARACTERS]
    controls = len(sample) - len(sample.translate(_CONTROLS))
    if controls > _MOST_CONTROL_SHARE * len(sample):
        raise UnjudgedError("binary", f"{controls} control characters in the first {len(sample)}")
    # libxml2 cuts a text at a NUL; surrogates cannot be encoded for it.
    return _without_surrogates(html.replace("\0", " "))


def _decode_undeclared(body: bytes) -> str:
    try:
        html: str = html_to_unicode(None, body)[1]
    except (LookupError, UnicodeError) as error:  # a charset in the page that is none
        raise UnjudgedError("bad_encoding", str(error)) from None
    return html


def _decode_declared(body: bytes, encoding: str) -> str:
    try:
        # Python's own text codecs that no web page uses; unicode_escape makes surrogates.
        if codecs.lookup(encoding).name in {"unicode-escape", "raw-unicode-escape", "idna"}:
            raise UnjudgedError("bad_encoding", f"declared charset {encoding!r}")
        return body.decode(encoding, "replace")
    except (LookupError, UnicodeError, ValueError) as error:
        raise UnjudgedError("bad_encoding", f"declared charset {encoding!r}: {error}") from None


def _one_line(text: str | None) -> str:
    return _without_surrogates(" ".join((text or "").split()))


def _clean(text: str | None) -> str:
    lines = (" ".join(line.split()) for line in (text or "").splitlines())
    return _without_surrogates("\n".join(line for line in lines if line))


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
