"""A page's bytes to characters, and what the readers make of them."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from w3lib.encoding import html_to_unicode

from scrapy_simhash.errors import NotJudgedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from turbohtml import Element

# A page counts as binary when more than this share of its first characters are control
# characters, and as text of another charset when so many more could not be decoded. Pages of the
# evaluation corpus stay below 0.001; images and archives labelled text/html exceed 0.2, together.
_MOST_CONTROL_SHARE = 0.05
_CONTROL_SAMPLE_CHARACTERS = 4_096
_CONTROLS = bytes([*range(9), 11, *range(14, 32), 127])
_UNDECODED = "\ufffd"
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
LANGUAGE_CHARACTERS = 35  # as many suffice, says RFC 5646
_MOST_VIEWS = 4
# An alternate with the one is a translation, with the other a feed.
_OF_OTHER_CONTENT = frozenset({"hreflang", "type"})
# Doxygen, among others, writes the name of a page into `<div class="title">`, and has no `<h1>`.
TITLE_CLASSES = ("title", "page-title", "entry-title")
_TITLES = frozenset(TITLE_CLASSES)
# Where the first element of these classes is another one, a link or a `<span>`, they are those of
# the items of a list.
_BLOCKS = frozenset({"div", "p", "h2", "h3", "h4", "h5", "h6", "header", "td", "dt"})
# A page may be made of headings, each in the other, and the text of each takes as long as it is.
_MOST_HEADINGS_READ = 256
# Elements that begin and end a line of the text, or are cells and items of their own.
BLOCK_TAGS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "caption", "center", "dd", "details"),
        *("dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1"),
        *("h2", "h3", "h4", "h5", "h6", "header", "hr", "legend", "li", "main", "menu", "nav"),
        *("ol", "option", "p", "pre", "section", "summary", "table", "td", "th", "tr", "ul"),
    )
)
# Inputs whose value nobody sees, or not as text. That of a button is its text.
_UNSEEN = frozenset({"hidden", "password", "checkbox", "radio", "file", "color", "range"})
# Of characters of text at most, and how many times as many of data (inline scripts and long
# attributes `data-`) at least: a browser may fill the page from them, a template with a product.
_MOST_BESIDE_DATA = 2_000
_LEAST_DATA = 2
_LONG_ATTRIBUTE = 200


class PageText(NamedTuple):
    """The texts and names of a page."""

    # Both one block a line: what stands in one paragraph, cell or item.
    main: str  # its main text, or all visible text where `fell_back`
    whole: str  # all its visible text, boilerplate included
    # `<title>`, or else `og:title`: white space collapsed, at most 300 characters
    title: str = ""
    # Its first visible `<h1>` with text, or else its first element with the class of a title, if it
    # is a block, or else its first `<h2>` or `<h3>`; as `title`.
    heading: str = ""
    language: str = ""  # as `<html lang>` declares it, lower case, or ""
    canonical: str = ""  # its canonical address as written, see `choose_addresses`, or ""
    views: tuple[str, ...] = ()  # its other addresses as written, see `choose_addresses`
    base: str = ""  # `<base href>`, against which addresses on the page are resolved, or ""
    links: tuple[str, ...] = ()  # distinct targets of `<a href>`, as written
    # Reads what the page may differ in besides its visible text: its attributes and the text that
    # is not shown. Takes half as long as parsing, and most pages have text enough to go without.
    read_embedded: Callable[[], str] = str
    fell_back: bool = False  # no main text was found
    # The first line of `main` in `whole`, and the one behind its last one; (0, 0) where it is no
    # stretch of it, or all of it because no main text was found.
    main_lines: tuple[int, int] = (0, 0)
    tags: tuple[str, ...] = ()  # of the block in each line of `whole`, see `wording.Wording`
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
    if not body.strip():
        raise NotJudgedError("empty")
    html = _decode_undeclared(body) if encoding is None else _decode_declared(body, encoding)
    sample = html[:_CONTROL_SAMPLE_CHARACTERS]
    # Translating octets takes a hundredth of the time that translating characters takes.
    octets = sample.encode("utf-8", "replace")
    controls = len(octets) - len(octets.translate(None, _CONTROLS))
    most, undecoded = _MOST_CONTROL_SHARE * len(sample), sample.count(_UNDECODED)
    if controls > most:
        raise NotJudgedError("binary", f"{controls} control characters in the first {len(sample)}")
    if controls + undecoded > most:
        raise _make_illegible(undecoded, len(sample), encoding)
    # libxml2 cuts a text at a NUL; surrogates cannot be encoded for it.
    return without_surrogates(html.replace("\0", " "))


def _decode_undeclared(body: bytes) -> str:
    try:
        html: str = html_to_unicode(None, body)[1]
    except (LookupError, UnicodeError) as error:  # the page names a charset that does not exist
        raise NotJudgedError("bad_encoding", str(error)) from None
    return html


def _decode_declared(body: bytes, encoding: str) -> str:
    try:
        # Python's own text codecs that no web page uses; unicode_escape makes surrogates.
        if codecs.lookup(encoding).name in {"unicode-escape", "raw-unicode-escape", "idna"}:
            raise NotJudgedError("bad_encoding", f"declared charset {encoding!r}")
        return body.decode(encoding, "replace")
    except (LookupError, UnicodeError, ValueError) as error:
        raise NotJudgedError("bad_encoding", f"declared charset {encoding!r}: {error}") from None


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


def one_line(text: str | None) -> str:
    """Collapse white space, line breaks included."""
    return " ".join((text or "").split())


def make_name(text: str | None) -> str:
    """Make a title or heading: one line of at most 300 characters."""
    return one_line(text)[:_NAME_CHARACTERS]


def join_embedded(elements: Iterable[Mapping[str, Any]], texts: Iterable[str]) -> str:
    """Join attributes of elements, but those without content or with a secret, and hidden texts."""
    pieces: list[str] = []
    for attributes in elements:
        for name, value in attributes.items():
            if name in _WITHOUT_CONTENT:
                continue
            if name in {"value", "content"} and _is_secret(attributes):
                continue
            if name == "content" and "http-equiv" in attributes and "charset=" in value.lower():
                continue
            pieces.append(f"{name}={value}")
    return "\0".join((*pieces, *texts))


def _is_secret(attributes: Mapping[str, Any]) -> bool:
    value = attributes.get("value") or attributes.get("content") or ""
    return bool(_SECRETS.search(attributes.get("name") or "") and _SECRET.fullmatch(value))


def choose_heading(elements: Iterable[Element]) -> str:
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
        if name := make_name(" ".join(element.strings)):
            found[kind] = name if kind != "title" or tag in _BLOCKS else ""
            if kind == "h1":
                break
    return found.get("h1") or found.get("title") or found.get("h2", "")


def choose_values(fields: Iterable[Element]) -> tuple[str, ...]:
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


def choose_data(whole: str, scripts: Iterable[str], elements: Iterable[Mapping[str, Any]]) -> str:
    """Join inline scripts and long `data-` attributes of a page with little text, or return ""."""
    if len(whole) >= _MOST_BESIDE_DATA:
        return ""
    attributes = (
        value
        for element in elements
        for name, value in element.items()
        if name.startswith("data-") and len(value or "") >= _LONG_ATTRIBUTE
    )
    data = "\n".join((*scripts, *attributes))
    return data if len(data) >= _LEAST_DATA * len(whole) else ""


def choose_addresses(links: Iterable[Element], own: str) -> tuple[str, tuple[str, ...]]:
    """Choose the canonical address of a page, and its others: its `own`, and those of its views.

    Views are `amphtml` and alternates for a medium, such as print, no style sheets.
    """
    canonical, views = "", [own] * bool(own)
    for link in links:
        kinds = (link.attr("rel") or "").lower().split()
        if "canonical" in kinds:
            canonical = canonical or one_line(link.attr("href"))
        elif len(views) < _MOST_VIEWS and (
            "amphtml" in kinds
            or (
                kinds == ["alternate"]
                and link.attr("media")
                and _OF_OTHER_CONTENT.isdisjoint(link.attrs)
            )
        ):
            views.append(one_line(link.attr("href")))
    return canonical, tuple(filter(None, views))
