"""Read a page by turbohtml: one parse, and the main text is a stretch of the whole text.

turbohtml parses as the HTML standard says, in C, and scores elements by their paragraphs and links,
in the manner of readability. No lxml, and nothing of a page's depth is on Python's stack.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from turbohtml import Element, Namespace, Text, XPath, parse

from scrapy_simhash.pages.features import normalise, tokenise
from scrapy_simhash.pages.text import (
    BLOCK_BORDER,
    BLOCK_TAGS,
    MAIN_BORDER,
    TITLE_CLASSES,
    Markup,
    join_embedded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from turbohtml import Document

_HEADINGS = ", ".join(("h1", "h2", "h3", *(f'[class~="{each}" i]' for each in TITLE_CLASSES)))
_NAMING = "base[href], link[rel][href], meta"
_SEEN = "img[alt], area[alt], input, option[selected], meter[value], progress[value]"
# What is within an `object` shows where its data cannot be, and is the rest of the page where its
# end is missing.
_INVISIBLE = "script, style, noscript, template, iframe"
# Content with fewer distinct words has no fingerprint (`judging.rule.MIN_FEATURES`); as a
# rule it is a paragraph beside a table, a list or an image. Chosen on the first corpus; on the
# second one it finds six duplicates more, of 742, and one wrong one.
_LEAST_FEATURES = 32
# A text of so many characters has more words; they are not counted.
_SHORT_CHARACTERS = 2_000
# It would count as text, which opens the body, and what belongs into the head would stand there.
_BYTE_ORDER_MARK = "\ufeff"
# turbohtml merges the attributes of each `<html>` and `<body>` into those of the first one, in
# quadratic time: 300 kB of them take 4 s. As ends of the body the others mean nothing.
_ROOTS = re.compile(r"<(html|body)(?=[\s/])", re.IGNORECASE)
# In a page of so many characters that takes a tenth of a second at most.
_FEW_CHARACTERS = 50_000
_WITH_ATTRIBUTES = cast(
    "Callable[[Document | Element], list[Element]]", XPath("descendant-or-self::*[@*]")
)
_ATTRIBUTES, _TEXT = attrgetter("attrs"), attrgetter("text")


def read(html: str, *, mark_main: bool = True) -> Markup:
    """Read a decoded page; `mark_main` marks in its text where the main text begins and ends."""
    # With scripting, because without it `<noscript><iframe .../></noscript>`, as tag managers write
    # it, opens a frame that takes the rest of the page for its source.
    document = parse(
        _end_repeated_roots(html.removeprefix(_BYTE_ORDER_MARK)),
        positions=False,
        scripting=True,
        # What a shadow root shows would be no part of the tree.
        allow_declarative_shadow_roots=False,
    )
    for template in document.select("template[shadowrootmode]"):
        template.unwrap()
    title = document.find("title")
    if title is not None and title.namespace is not Namespace.HTML:  # images have titles, too
        title = None
    named: dict[str, list[Element]] = {"base": [], "link": [], "meta": []}
    for element in document.select(_NAMING):
        named[element.tag].append(element)
    links = [link.attr("href") or "" for link in document.select("a[href]")]
    titled = None if title is None else title.text
    invisible = document.select(_INVISIBLE)
    for element in invisible:
        element.extract()
    return Markup(
        text=_read_text(document, mark_main=mark_main),
        title=titled,
        language=None if document.root is None else document.root.attr("lang"),
        base=named["base"][0].attr("href") if named["base"] else None,
        metas=[meta.attrs for meta in named["meta"]],
        links=[(link.attr("rel") or "", link.attrs) for link in named["link"]],
        targets=links,
        headings=[
            (each.tag, each.attr("class"), each.strings) for each in document.select(_HEADINGS)
        ],
        fields=[
            (each.tag, each.attrs, each.text if each.tag == "option" else "")
            for each in document.select(_SEEN)
        ],
        scripts=map(_TEXT, [element for element in invisible if element.tag == "script"]),
        elements=_list_attributes([document]),
        read_embedded=partial(_read_embedded, document, invisible),
    )


def _end_repeated_roots(html: str) -> str:
    """Turn all `<html>` and `<body>` of a long page, but the first of each, into end tags."""
    if len(html) <= _FEW_CHARACTERS:
        return html
    seen: set[str] = set()

    def end(found: re.Match[str]) -> str:
        before = len(seen)
        seen.add(found[1].lower())
        return found[0] if len(seen) > before else f"</{found[1]}"

    return _ROOTS.sub(end, html)


def _read_text(document: Document, *, mark_main: bool) -> str:
    """Read the visible text, with the borders of blocks, and of the main content."""
    body = document.find("body")
    if body is None:
        return ""
    content = _widen(document.main_content(), body) if mark_main else None
    borders = Text(MAIN_BORDER), Text(MAIN_BORDER)
    if content is not None:
        content.insert(0, borders[0])
        content.append(borders[1])
    pieces = _list_pieces(body)
    if content is not None:
        for border in borders:
            border.extract()
    return " ".join(pieces)


def _list_pieces(body: Element) -> list[str]:
    """Read the pieces of the visible text, with the borders of blocks between them."""
    # A page has a thousand nodes: `isinstance` takes a sixth longer.
    pieces = [BLOCK_BORDER]
    add, blocks = pieces.append, BLOCK_TAGS
    is_open = False  # a line has begun
    for node in body.descendants:
        if is_open:
            # What follows a block begins a line, too.
            before = node.previous_sibling
            if (type(node) is Element and node.tag in blocks) or (
                type(before) is Element and before.tag in blocks
            ):
                add(BLOCK_BORDER)
                is_open = False
        if type(node) is Text:
            text = node.data
            if not text.isspace():
                add(text)
                is_open = True
    return pieces


def _widen(content: Element | None, body: Element) -> Element | None:
    """Replace content that is too short for a fingerprint by the element around it, if any."""
    while content is not None and content != body and _is_short(content.text):
        around = content.parent
        if not isinstance(around, Element) or around == body:
            break
        content = around
    return content


def _is_short(text: str) -> bool:
    return len(text) < _SHORT_CHARACTERS and len(set(tokenise(normalise(text)))) < _LEAST_FEATURES


def _read_embedded(document: Document, invisible: list[Element]) -> str:
    """Read the attributes of the page, and those and the texts of what was cut out of it."""
    attributes = _list_attributes([document, *invisible])
    return join_embedded(attributes, (element.text for element in invisible))


def _list_attributes(roots: Iterable[Document | Element]) -> Iterator[Mapping[str, Any]]:
    return map(_ATTRIBUTES, chain.from_iterable(map(_WITH_ATTRIBUTES, roots)))
