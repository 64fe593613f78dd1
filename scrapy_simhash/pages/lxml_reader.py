"""Read a page by lxml and an extractor of main texts: trafilatura's, or any other.

A function from an lxml tree to text is an extractor; SIMHASH_EXTRACTOR names it.
"""

from __future__ import annotations

import re
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

import trafilatura
from lxml import etree

from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.recipe import WHOLE_TEXT
from scrapy_simhash.pages.text import (
    BLOCK_BORDER,
    BLOCK_TAGS,
    Markup,
    cut_blocks,
    join_embedded,
    without_surrogates,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lxml.html import HtmlElement

    Extractor: TypeAlias = Callable[[HtmlElement], str | None]

# Images have titles, too.
_TITLE = etree.XPath("string((//title)[1][not(ancestor::svg)])", smart_strings=False)
_METAS = etree.XPath("//meta[@content]")
_DECLARED = etree.XPath("//link[@rel and @href]")
_LINKS = etree.XPath("//a/@href", smart_strings=False)
_BASE = etree.XPath("//base/@href", smart_strings=False)
# Those with a class that contains "title", in any case; most of them are no headings.
_HEADINGS = etree.XPath(
    ".//*[self::h1 or self::h2 or self::h3 or contains(translate(@class, 'TILE', 'tile'), 'title')]"
)
_SEEN = etree.XPath(
    "//img[@alt] | //area[@alt] | //input | //option[@selected] | //meter[@value]"
    " | //progress[@value]"
)
_INVISIBLE = ("script", "style", "noscript", "template", "iframe", etree.Comment)
# Shown: declarative shadow roots, and what is within an `object`, which is the rest of the page
# where its end is missing. Extractors cut them out by their names.
_SHOWN = etree.XPath("//template[@shadowrootmode] | //object")


def main_text(tree: HtmlElement) -> str | None:
    """Extract the main text; comments below an article are left out, tables stay."""
    return trafilatura.extract(tree, include_comments=False)


def fast_main_text(tree: HtmlElement) -> str | None:
    """Extract as `main_text`, without trafilatura's fallback extractors: about twice as fast."""
    return trafilatura.extract(tree, include_comments=False, fast=True)


def whole_text(tree: HtmlElement) -> str | None:
    """Take all visible text, boilerplate included."""
    # trafilatura's own `html2txt` leaves out footers and the like, and with them all text of some
    # pages.
    return cut_blocks(_read_visible(tree))


def _read_visible(tree: HtmlElement) -> str:
    """Read all visible text, with the borders of blocks."""
    visible = _copy_visible(tree)
    body = visible if visible.tag == "body" else visible.find("body")
    if body is None:
        return ""
    for block in body.iter(*BLOCK_TAGS):
        block.text = f"{BLOCK_BORDER}{block.text or ''}"
        block.tail = f"{BLOCK_BORDER}{block.tail or ''}"
    return without_surrogates(" ".join(body.itertext()))


def _copy_visible(tree: HtmlElement) -> HtmlElement:
    visible = deepcopy(tree)
    etree.strip_elements(visible, *_INVISIBLE, with_tail=False)
    return visible


EXTRACTORS: dict[str, Extractor] = {
    "trafilatura": main_text,
    "trafilatura-fast": fast_main_text,
    WHOLE_TEXT: whole_text,
}


def read(html: str, extract: Extractor) -> Markup:
    """Read a decoded page; `NotJudgedError` (`no_text`) if it has no elements."""
    tree = trafilatura.load_html(html)
    if tree is None:
        raise NotJudgedError("no_text", "the HTML parser found no elements")
    for element in _find(_SHOWN, tree):
        element.tag = "div"
    visible = _copy_visible(tree)
    text, main = _read_visible(tree), _clean(extract(tree))
    # Extractors may find words outside of the body; a text without any is like no other.
    return Markup(
        text=text if re.search(r"\w", text) else main or text,
        main=main,
        title=cast("str", _TITLE(tree)),
        language=tree.get("lang"),
        base="".join(_strings(_BASE, tree)[:1]),
        metas=[meta.attrib for meta in _find(_METAS, tree)],
        links=[(link.get("rel"), link.attrib) for link in _find(_DECLARED, tree)],
        targets=_strings(_LINKS, tree),
        headings=[
            (element.tag, element.get("class"), element.itertext())
            for element in _find(_HEADINGS, visible)
        ],
        fields=[
            (element.tag, element.attrib, "".join(element.itertext()))
            for element in _find(_SEEN, visible)
        ],
        scripts=(element.text or "" for element in tree.iter("script")),
        elements=(element.attrib for element in tree.iter("*")),
        read_embedded=partial(_read_embedded, tree),
    )


def _read_embedded(tree: HtmlElement) -> str:
    """Read all attributes, and all text, what is not shown included."""
    attributes = (dict(element.items()) for element in tree.iter("*"))
    return join_embedded(attributes, [" ".join("".join(tree.itertext()).split())])


def _find(path: etree.XPath, tree: HtmlElement) -> list[HtmlElement]:
    return cast("list[HtmlElement]", path(tree))


def _strings(path: etree.XPath, tree: HtmlElement) -> list[str]:
    return cast("list[str]", path(tree))


def _clean(text: str | None) -> str:
    lines = (" ".join(line.split()) for line in (text or "").splitlines())
    return without_surrogates("\n".join(line for line in lines if line))
