"""A page's bytes to its main text: decode, parse, extract.

Boilerplate and advertisements are left out by trafilatura. Extraction is 95 % of what a page
costs, which is why `detector` runs this module in worker processes.
"""

from __future__ import annotations

import codecs
import logging
from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

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
TEXT_VERSION = 1
WHOLE_TEXT = "html2txt"

# A page is taken for binary when more than this share of its first characters are control
# characters or could not be decoded. Pages of the evaluation corpus stay below 0.001; images and
# archives labelled text/html have above 0.2.
_MOST_CONTROL_SHARE = 0.05
_CONTROL_SAMPLE_CHARACTERS = 4_096
_CONTROLS = dict.fromkeys([*range(9), 11, *range(14, 32), 127, 0xFFFD])
_TITLE_CHARACTERS = 300
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
        text: its main text, or all visible text where `fell_back`.
        title: of the document, white space collapsed, at most 300 characters.
        language: as the page declares it in `<html lang>`, lower case, or "".
        links: distinct targets of `<a href>`.
        fell_back: the extractor found no main text.
    """

    text: str
    title: str
    language: str
    links: int
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
    """Read the main text of a page.

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
    text = load_extractor(extractor)(tree)
    fell_back = not (text and text.strip())
    if fell_back:
        text = whole_text(tree)
    if not (text and text.strip()):
        raise UnjudgedError("no_text", "neither main text nor any visible text")
    return PageText(
        text=_without_surrogates(text),
        title=_without_surrogates(" ".join(tree.findtext(".//title", "").split()))[
            :_TITLE_CHARACTERS
        ],
        language=tree.get("lang", "").strip().lower()[:35],  # RFC 5646: 35 characters suffice
        links=len(set(tree.xpath("//a/@href"))),
        fell_back=fell_back,
    )


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


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
