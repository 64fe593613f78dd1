"""Read a page: its bytes to characters, then by one parse of turbohtml to texts and names.

turbohtml parses as the HTML standard says, in C, and scores elements by their paragraphs and links,
in the manner of readability; the main text is a stretch of the whole one. No lxml, and nothing of a
page's depth is on Python's stack.
"""

from __future__ import annotations

import codecs
import re
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from turbohtml import Element, Namespace, Text, parse
from w3lib.encoding import html_to_unicode

from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.facts import MOST_BESIDE_DATA
from scrapy_simhash.pages.features import normalise, tokenise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from turbohtml import Document, Node

# A page counts as binary when more than this share of its first characters are control
# characters, and as text of another charset when so many more could not be decoded. Pages of the
# evaluation corpus stay below 0.001; images and archives labelled text/html exceed 0.2, together.
_MOST_CONTROL_SHARE = 0.05
_CONTROL_SAMPLE_CHARACTERS = 4_096
_CONTROLS = bytes([*range(9), 11, *range(14, 32), 127])
_UNDECODED = "\ufffd"
# Python's own text codecs that no web page uses; unicode_escape makes surrogates.
_NO_CHARSETS = {"unicode-escape", "raw-unicode-escape", "idna"}
# What could not be decoded, and private characters, to which a page's own font gives their looks,
# are no words, so that texts of them would all be alike. Where more than this share of the visible
# text is such, it is not compared. Of 4,137 pages in two corpora nine exceed 0.05, all in another
# charset than they declare; icons and stray bytes stay below 0.03.
_MOST_ILLEGIBLE_SHARE = 0.03
# By code unit of UTF-16; of the two of a character beyond the first plane, the first one counts.
_ILLEGIBLE = np.zeros(2**16, np.bool_)
_ILLEGIBLE[0xFFFD] = _ILLEGIBLE[0xE000:0xF900] = _ILLEGIBLE[0xDB80:0xDC00] = True
_ILLEGIBLE_LEADS = b"\xee", b"\xef", b"\xf3", b"\xf4"
# Attributes without content. An `id` has some: a script finds by it what to show.
_WITHOUT_CONTENT = frozenset({"class", "nonce", "integrity", "charset"})
# Fields and `<meta>` against forged requests have another value in each answer, so that no login
# form would be like any other. Only names that mean nothing else: a plain "token" may be that of a
# download.
_SECRETS = re.compile(
    "csrf|xsrf|authenticity_?token|verification_?token|login_?token|nonce|form_build_id|form_token"
    "|^_token$|^sesskey$",
    re.IGNORECASE,
)
_SECRET = re.compile(r"[\w+/=.:|~-]{10,}")
_NAME_CHARACTERS = 300
_LANGUAGE_CHARACTERS = 35  # as many suffice, says RFC 5646
_MOST_VIEWS = 4
# Doxygen, among others, writes the name of a page into `<div class="title">`, and has no `<h1>`.
_TITLES = frozenset(("title", "page-title", "entry-title"))
# Where the first element of these classes is another one, a link or a `<span>`, they are those of
# the items of a list.
_BLOCKS = frozenset({"div", "p", "h2", "h3", "h4", "h5", "h6", "header", "td", "dt"})
# A page may be made of headings, each in the other, and the text of each takes as long as it is.
_MOST_HEADINGS_READ = 256
# Elements that begin and end a line of the text, or are cells and items of their own.
_BLOCK_TAGS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "caption", "center", "dd", "details"),
        *("dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1"),
        *("h2", "h3", "h4", "h5", "h6", "header", "hr", "legend", "li", "main", "menu", "nav"),
        *("ol", "option", "p", "pre", "section", "summary", "table", "td", "th", "tr", "ul"),
    )
)
# Inputs whose value nobody sees, or not as text. That of a button is its text.
_UNSEEN = frozenset({"hidden", "password", "checkbox", "radio", "file", "color", "range"})
# So many times as many characters of data as of text, at least, see `facts.MOST_BESIDE_DATA`.
_LEAST_DATA = 2
_LONG_ATTRIBUTE = 200
_HEADINGS = ", ".join(("h1", "h2", "h3", *(f'[class~="{each}" i]' for each in _TITLES)))
# What a page declares for those who link to it.
_OPEN_GRAPH = 'meta[property="og:{0}"][content], meta[name="og:{0}"][content]'
_CANONICAL = 'link[rel~="canonical" i][href]'
# Those for a medium, such as print: an alternate with `hreflang` is a translation, one with `type`
# a feed.
_VIEWS = (
    'link[rel~="amphtml" i][href], '
    'link[rel="alternate" i][href][media]:not([media=""], [hreflang], [type])'
)
_SEEN = (
    "img[alt], area[alt], input, meter[value], progress[value], option[selected], "
    "[role=img][aria-label]"
)
# What is within an `object` shows where its data cannot be, and is the rest of the page where its
# end is missing.
_INVISIBLE = "script, style, noscript, template, iframe"
# Content with fewer distinct words has no fingerprint (`judging.documents.MIN_FEATURES`); as a
# rule it is a paragraph beside a table, a list or an image. Chosen on the first corpus; on the
# second one it finds six duplicates more, of 742, and one wrong one.
_LEAST_FEATURES = 32
# A text of so many characters has more words; they are not counted.
_SHORT_CHARACTERS = 2_000
# Stands before each block. No page has it: `decode` takes it out, and the parser makes U+FFFD of
# `&#0;`.
_BORDER = "\0"
# As a rule the one around a text is a block. A page may have a text 500 elements deep in each line.
_MOST_AROUND = 32
# It would count as text, which opens the body, and what belongs into the head would stand there.
_BYTE_ORDER_MARK = "\ufeff"
# turbohtml merges the attributes of each `<html>` and `<body>` into those of the first one, in
# quadratic time: 300 kB of them take 4 s. As ends of the body the others mean nothing.
# Sets of letters take less than half of the time of a choice of names; they find "<boml", too,
# which no page has.
_ROOTS = re.compile(r"<[hHbB][tToO][mMdD][lLyY](?=[\s/])")
# In a page of so many characters that takes a tenth of a second at most.
_FEW_CHARACTERS = 50_000


class PageText(NamedTuple):
    """The texts and names of a page."""

    # Both one block a line: what stands in one paragraph, cell or item.
    main: str  # its main text, or all visible text where none was found
    whole: str  # all its visible text, boilerplate included
    # `<title>`, or else `og:title`: white space collapsed, at most 300 characters
    title: str = ""
    # Its first visible `<h1>` with text, or else its first element with the class of a title, if it
    # is a block, or else its first `<h2>` or `<h3>`; as `title`.
    heading: str = ""
    language: str = ""  # as `<html lang>` declares it, lower case, or ""
    canonical: str = ""  # its canonical address as written, or ""
    views: tuple[str, ...] = ()  # its other addresses as written: its own one, those of its views
    base: str = ""  # `<base href>`, against which addresses on the page are resolved, or ""
    links: tuple[str, ...] = ()  # distinct targets of `<a href>`, as written
    # Reads what the page may differ in besides its visible text: its attributes and the text that
    # is not shown. Takes half as long as parsing, and most pages have text enough to go without.
    read_embedded: Callable[[], str] = str
    # The first line of `main` in `whole`, and the one behind its last one; (0, 0) where it is all
    # of it because no main text was found.
    main_lines: tuple[int, int] = (0, 0)
    tags: tuple[str, ...] = ()  # of the block in each line of `whole`, see `facts.Wording`
    data: str = ""  # from which a browser may draw a page with little text, or ""
    links_seen: tuple[str, ...] = ()  # those that are not within ignored elements
    # What is seen beside the text: alternative texts, values of fields and meters.
    beside: tuple[str, ...] = ()


def check_legible(text: str, encoding: str | None) -> None:
    """Raise a NotJudgedError, `bad_encoding`, if too much of a visible text cannot be compared."""
    # Most texts have none of the octets with which such a character may begin.
    octets = text.encode()
    if not any(lead in octets for lead in _ILLEGIBLE_LEADS):
        return
    units = np.frombuffer(text.encode("utf-16-le"), "<u2")
    illegible = np.count_nonzero(_ILLEGIBLE.take(units))
    if illegible > _MOST_ILLEGIBLE_SHARE * len(text):
        raise _make_illegible(int(illegible), len(text), encoding)


def decode(body: bytes, encoding: str | None) -> str:
    """Decode a body as the spider will see it."""
    if not body or body.isspace():
        raise NotJudgedError("empty")
    declared, name = "" if encoding is None else f"declared charset {encoding!r}: ", ""
    try:
        if encoding is None:
            html = html_to_unicode(None, body)[1]  # raises if the page names one that is none
        else:
            name = codecs.lookup(encoding).name
            odd = name in _NO_CHARSETS
            html = body.decode("undefined" if odd else encoding, "replace")  # the first raises
    except (LookupError, ValueError) as error:
        raise NotJudgedError("bad_encoding", f"{declared}{error}") from None
    sample = html[:_CONTROL_SAMPLE_CHARACTERS]
    # Translating octets takes a hundredth of the time that translating characters takes.
    octets = sample.encode("utf-8", "replace")
    controls = len(octets) - len(octets.translate(None, _CONTROLS))
    most, undecoded = _MOST_CONTROL_SHARE * len(sample), sample.count(_UNDECODED)
    if controls > most:
        raise NotJudgedError("binary", f"{controls} control characters in the first {len(sample)}")
    if controls + undecoded > most:
        raise _make_illegible(undecoded, len(sample), encoding)
    # NUL is our border. Surrogates cannot be encoded; UTF-8 has none, and to ask takes .05 ms.
    html = html.replace("\0", " ")
    return html if name == "utf-8" else without_surrogates(html)


def _make_illegible(number: int, of: int, encoding: str | None) -> NotJudgedError:
    declared = "no charset is declared" if encoding is None else f"declared charset {encoding!r}"
    detail = f"{number} of {of} characters are undecoded or private; {declared}"
    return NotJudgedError("bad_encoding", detail)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded, by question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def read(html: str, ignore: Sequence[str] = ()) -> PageText:
    """Read a decoded page.

    Args:
        html: of the page.
        ignore: CSS selectors of elements that are cut out, but for their links.

    Raises:
        NotJudgedError: `no_text`: none is visible.
    """
    document = _parse(html)
    title = document.find("title")
    if title is not None and title.namespace is not Namespace.HTML:  # images have titles, too
        title = None
    titled = "" if title is None else _make_name(title.text)
    titled = titled or _read_first(document, _OPEN_GRAPH.format("title"), "content")
    base = _read_first(document, "base[href]", "href")
    canonical = _read_first(document, _CANONICAL, "href")
    views = [_read_first(document, _OPEN_GRAPH.format("url"), "content")]
    views += (one_line(link.attr("href")) for link in document.select(_VIEWS))
    links = _list_links(document)
    # All are found before one is gone: a selector may ask for what stands beside an element.
    for element in [each for selector in ignore for each in document.select(selector)]:
        element.extract()
    links_seen = _list_links(document) if ignore else links
    invisible = document.select(_INVISIBLE)
    for element in invisible:
        element.extract()
    before, main, behind = map(_read_blocks, _part(document))
    tags, texts = (
        mine + its + others for mine, its, others in zip(before, main, behind, strict=True)
    )
    if not texts:
        raise NotJudgedError("no_text", "no visible text")
    first = len(before[1]) if main[1] else 0
    end = first + len(main[1])
    whole = "\n".join(texts)
    scripts = [element for element in invisible if element.tag == "script"]
    language = None if document.root is None else document.root.attr("lang")
    return PageText(
        main="\n".join(texts[first:end]) or whole,
        whole=whole,
        title=_make_name(titled),
        heading=_choose_heading(document.select(_HEADINGS)),
        language=(language or "").strip().lower()[:_LANGUAGE_CHARACTERS],
        canonical=canonical,
        views=tuple(filter(None, views))[:_MOST_VIEWS],
        base=base,
        links=links,
        links_seen=links_seen,
        read_embedded=partial(_read_embedded, document, invisible),
        main_lines=(first, end),
        tags=tuple(tags),
        data=_choose_data(whole, scripts, document),
        beside=_choose_values(document.select(_SEEN)),
    )


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


def _list_links(document: Document) -> tuple[str, ...]:
    return tuple(dict.fromkeys(link.attr("href") or "" for link in document.select("a[href]")))


def _read_first(document: Document, selector: str, attribute: str) -> str:
    """Read an attribute of the first of some elements in which it is not empty."""
    found = (one_line(element.attr(attribute)) for element in document.select(selector))
    return next(filter(None, found), "")


def _end_repeated_roots(html: str) -> str:
    """Turn all `<html>` and `<body>` of a long page, but the first of each, into end tags."""
    if len(html) <= _FEW_CHARACTERS:
        return html
    met = set[str]()

    def end(found: re.Match[str]) -> str:
        tag = found[0].lower()
        begin = "</" if tag in met else "<"
        met.add(tag)
        return begin + found[0][1:]

    return _ROOTS.sub(end, html)


def _part(document: Document) -> tuple[Iterable[Node], ...]:
    """Cut the nodes of the body into those before, in and behind the main content."""
    body = document.find("body")
    if body is None:
        return (), (), ()
    nodes, content = body.descendants, document.main_content()
    if content == body:
        return (), nodes, ()
    # Of a page of links it may be `<html>`.
    if content is None or body not in content.ancestors:
        return (), (), nodes
    # What is too short for a fingerprint is replaced by the element around it.
    while (around := content.parent) != body and isinstance(around, Element) and _is_short(content):
        content = around
    last: Node = content
    while last.next_sibling is None and last.parent is not None and last.parent != body:
        last = last.parent
    # One after the other: all nodes at once take four times the memory of a page.
    before, behind = iter(nodes.__next__, content), last.next_sibling
    main = chain((content,), iter(nodes.__next__, behind))
    return before, main, () if behind is None else chain((behind,), nodes)


def _read_blocks(nodes: Iterable[Node]) -> tuple[list[str], list[str]]:
    """Read the blocks of a visible text: tags of their elements, and their texts, none empty."""
    tags, pieces, is_open = list[str](), list[str](), False  # whether a block has begun
    # A page has a thousand nodes: `isinstance` takes a sixth longer.
    for node in nodes:
        # What follows a block begins another one, too.
        if is_open and (
            (type(node) is Element and node.tag in _BLOCK_TAGS)
            or (type(before := node.previous_sibling) is Element and before.tag in _BLOCK_TAGS)
        ):
            is_open = False
        if type(node) is Text:
            if is_open:
                pieces.append(node.data)
            elif not (text := node.data).isspace():
                tags.append(_find_tag(node))
                pieces += _BORDER, text
                is_open = True
    text = " ".join(" ".join(pieces).split())
    return tags, text[2:].split(f" {_BORDER} ") if tags else []


def _find_tag(text: Text) -> str:
    """Return the tag of the nearest block around a text, or "body"."""
    # Parents in turn take half as long as `ancestors`.
    around = text.parent
    for _ in range(_MOST_AROUND):
        if type(around) is not Element:
            break
        if (tag := around.tag) in _BLOCK_TAGS:
            return tag
        around = around.parent
    return "body"


def _is_short(content: Element) -> bool:
    text = content.text
    return len(text) < _SHORT_CHARACTERS and len(set(tokenise(normalise(text)))) < _LEAST_FEATURES


def one_line(text: str | None) -> str:
    """Collapse white space, line breaks included."""
    return " ".join((text or "").split())


def _make_name(text: str | None) -> str:
    """Make a title or heading: one line of at most 300 characters."""
    return one_line(text)[:_NAME_CHARACTERS]


def _read_embedded(document: Document, invisible: list[Element]) -> str:
    """Read the attributes of the page, and those and the texts of what was cut out of it."""
    # Not attributes without content, nor secrets.
    pieces: list[str] = []
    for element in chain(document.select("*"), *((each, *each.select("*")) for each in invisible)):
        attributes: Mapping[str, Any] = element.attrs
        for name, value in attributes.items():
            if name in _WITHOUT_CONTENT:
                continue
            if name in {"value", "content"} and _is_secret(attributes):
                continue
            if name == "content" and "http-equiv" in attributes and "charset=" in value.lower():
                continue
            pieces.append(f"{name}={value}")
    return "\0".join((*pieces, *(each.text for each in invisible)))


def _is_secret(attributes: Mapping[str, Any]) -> bool:
    value = attributes.get("value") or attributes.get("content") or ""
    return bool(_SECRETS.search(attributes.get("name") or "") and _SECRET.fullmatch(value))


def _choose_heading(elements: Iterable[Element]) -> str:
    """Choose the heading of a page of its visible elements in their order, see `PageText`."""
    found, read = dict[str, str](), 0
    for element in elements:
        tag, classes = element.tag, element.attr("class")
        kind = tag if tag == "h1" else "h2" if tag in {"h2", "h3"} else ""
        titled = classes and not _TITLES.isdisjoint(classes.lower().split())
        if kind != "h1" and titled and "title" not in found:
            kind = "title"
        if not kind or kind in found or read >= _MOST_HEADINGS_READ:
            continue
        read += 1
        if name := _make_name(" ".join(element.strings)):
            found[kind] = name if kind != "title" or tag in _BLOCKS else ""
            if kind == "h1":
                break
    return found.get("h1") or found.get("title") or found.get("h2", "")


def _choose_values(fields: Iterable[Element]) -> tuple[str, ...]:
    """Choose what a reader sees of pictures and fields."""
    values: list[str] = []
    place = 0  # of what may be chosen
    for field in fields:
        attributes: Mapping[str, Any] = field.attrs
        kind = (attributes.get("type") or "").lower() if field.tag == "input" else field.tag
        place += kind in {"checkbox", "radio", "option"}
        if attributes.get("role") == "img" and "aria-label" in attributes:
            values.append(attributes["aria-label"] or "")
        elif kind in {"img", "area", "image"}:
            values.append(attributes.get("alt") or "")
        elif "checked" in attributes or "selected" in attributes:
            said = field.text if kind == "option" else attributes.get("value")
            values.append(f"chosen: {place} {attributes.get('name') or ''} {said or ''}")
        elif kind not in _UNSEEN and not _is_secret(attributes):
            values.append(attributes.get("value") or "")
    return tuple(filter(None, values))


def _choose_data(whole: str, scripts: Iterable[Element], document: Document) -> str:
    """Join inline scripts and long `data-` attributes of a page with little text, or return "".

    Of one with more text, its scripts of JSON: there a header and a footer may be all the text.
    """
    is_short = len(whole) < MOST_BESIDE_DATA
    pieces = [each.text for each in scripts if is_short or "json" in (each.attr("type") or "")]
    for element in document.select("*") if is_short else ():
        attributes: Mapping[str, Any] = element.attrs
        for name, value in attributes.items():
            if name.startswith("data-") and len(value or "") >= _LONG_ATTRIBUTE:
                pieces.append(value)
    data = "\n".join(pieces)
    return data if len(data) >= _LEAST_DATA * len(whole) else ""
