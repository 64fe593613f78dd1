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
    BLOCK_TAGS,
    TITLE_CLASSES,
    Block,
    Markup,
    join_embedded,
    one_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
# Stands where the main content begins and ends. No page has it: `decode` takes it out, and the
# parser makes U+FFFD of `&#0;`.
_BORDER = "\0"
_CUT = "\x81"
# As a rule the one around a text is a block. A page may have a text 500 elements deep in each line.
_MOST_AROUND = 32
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


def read(html: str, ignore: Sequence[str] = (), *, find_main: bool = True) -> Markup:
    """Read a decoded page.

    Args:
        html: of the page.
        ignore: CSS selectors of elements that are cut out, but for their links.
        find_main: say which of its blocks are the main text.
    """
    document = _parse(html)
    title = document.find("title")
    if title is not None and title.namespace is not Namespace.HTML:  # images have titles, too
        title = None
    named: dict[str, list[Element]] = {"base": [], "link": [], "meta": []}
    for element in document.select(_NAMING):
        named[element.tag].append(element)
    links = _list_links(document)
    titled = None if title is None else title.text
    _cut_out(document, ignore)
    links_seen = _list_links(document) if ignore else links
    invisible = document.select(_INVISIBLE)
    for element in invisible:
        element.extract()
    return Markup(
        blocks=_read_blocks(document, find_main=find_main),
        title=titled,
        language=None if document.root is None else document.root.attr("lang"),
        base=named["base"][0].attr("href") if named["base"] else None,
        metas=[meta.attrs for meta in named["meta"]],
        links=[(link.attr("rel") or "", link.attrs) for link in named["link"]],
        targets=links,
        targets_seen=links_seen,
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


def leave_out(html: str, ignore: Sequence[str]) -> str:
    """Cut the elements that CSS selectors select out of a decoded page."""
    document = _parse(html)
    _cut_out(document, ignore)
    return document.serialize()


def _parse(html: str) -> Document:
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
    return document


def _cut_out(document: Document, ignore: Sequence[str]) -> None:
    # All are found before one is gone: a selector may ask for what stands beside an element.
    for element in [each for selector in ignore for each in document.select(selector)]:
        element.extract()


def _list_links(document: Document) -> list[str]:
    return [link.attr("href") or "" for link in document.select("a[href]")]


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


def _read_blocks(document: Document, *, find_main: bool) -> list[Block]:
    """Read the blocks of the visible text."""
    body = document.find("body")
    if body is None:
        return []
    content = _widen(document.main_content(), body) if find_main else None
    if content is None:
        return _list_blocks(body)
    borders = Text(_BORDER), Text(_BORDER)
    content.insert(0, borders[0])
    content.append(borders[1])
    blocks = _list_blocks(body)
    for border in borders:
        border.extract()
    return blocks


def _list_blocks(body: Element) -> list[Block]:
    blocks: list[tuple[str, bool, list[str]]] = []
    pieces: list[str] = []
    is_main = is_open = False  # whether the main content has begun, and a block
    tags = BLOCK_TAGS
    # A page has a thousand nodes: `isinstance` takes a sixth longer.
    for node in body.descendants:
        if is_open:
            # What follows a block begins another one, too.
            before = node.previous_sibling
            if (type(node) is Element and node.tag in tags) or (
                type(before) is Element and before.tag in tags
            ):
                is_open = False
        if type(node) is Text:
            text = node.data
            if text == _BORDER:
                is_main, is_open = not is_main, False
            elif is_open:
                pieces.append(text)
            elif not text.isspace():
                pieces = [text]
                blocks.append((_find_tag(node), is_main, pieces))
                is_open = True
    return [
        Block(tag, is_main, text)
        for tag, is_main, pieces in blocks
        for text in _cut(one_line(" ".join(pieces)))
    ]


def _cut(text: str) -> Iterable[str]:
    """Cut the text of a block at U+0081."""
    # Some pages have it, being decoded twice, and so have texts that are stored been cut.
    return (text,) if _CUT not in text else filter(None, map(str.strip, text.split(_CUT)))


def _find_tag(text: Text) -> str:
    """Return the tag of the nearest block around a text, or "body"."""
    # Parents in turn take half as long as `ancestors`.
    around = text.parent
    for _ in range(_MOST_AROUND):
        if type(around) is not Element:
            break
        if (tag := around.tag) in BLOCK_TAGS:
            return tag
        around = around.parent
    return "body"


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
