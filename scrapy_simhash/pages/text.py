"""A page's bytes to characters, and what the readers make of them."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from w3lib.encoding import html_to_unicode

from scrapy_simhash.errors import NotJudgedError

if TYPE_CHECKING:
    from collections.abc import Callable


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
    canonical: str = ""  # its canonical address as written, see `turbohtml_reader`, or ""
    views: tuple[str, ...] = ()  # its other addresses as written, see `turbohtml_reader`
    base: str = ""  # `<base href>`, against which addresses on the page are resolved, or ""
    links: tuple[str, ...] = ()  # distinct targets of `<a href>`, as written
    # Reads what the page may differ in besides its visible text: its attributes and the text that
    # is not shown. Takes half as long as parsing, and most pages have text enough to go without.
    read_embedded: Callable[[], str] = str
    # The first line of `main` in `whole`, and the one behind its last one; (0, 0) where it is no
    # stretch of it, or all of it because no main text was found.
    main_lines: tuple[int, int] = (0, 0)
    tags: tuple[str, ...] = ()  # of the block in each line of `whole`, see `wording.Wording`
    data: str = ""  # from which a browser may draw a page with little text, or ""
    links_seen: tuple[str, ...] = ()  # those that are not within ignored elements
    # What is seen beside the text: alternative texts, values of fields and meters.
    beside: tuple[str, ...] = ()

    @property
    def fell_back(self) -> bool:
        """Whether no main text was found."""
        return self.main_lines[0] == self.main_lines[1]


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
    declared = "" if encoding is None else f"declared charset {encoding!r}: "
    try:
        if encoding is None:
            html = html_to_unicode(None, body)[1]  # raises if the page names one that is none
        else:
            is_odd = codecs.lookup(encoding).name in _NO_CHARSETS
            html = body.decode("undefined" if is_odd else encoding, "replace")  # the first raises
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
    # libxml2 cuts a text at a NUL; surrogates cannot be encoded for it.
    return without_surrogates(html.replace("\0", " "))


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
