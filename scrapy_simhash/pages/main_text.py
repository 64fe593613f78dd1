"""The main text of a page for people and programs (SIMHASH_HAND_OVER_TEXT).

The text that is judged is quick to read, and one stretch of the page with all that is in it. This
one leaves out navigation, lists of other pages and forms, wherever they are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from turbohtml import parse

from scrapy_simhash.pages.facts import OUR_READER, WHOLE_TEXT
from scrapy_simhash.pages.scopes import load_named
from scrapy_simhash.pages.turbohtml_reader import decode, read, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable

    from turbohtml import Element

# Chosen on the 1,495 pages of the development part of WCXB 1.0 (docs/running.md): with each of
# these the mean word F1 is higher than without.
_BESIDE = (
    "script, style, noscript, template, iframe, svg, canvas, object, video, audio, "
    "nav, header, footer, aside, menu, dialog, button, select, label, [hidden], "
    '[role="navigation"], [role="banner"], [role="contentinfo"], [role="complementary"], '
    '[role="search"], [role="dialog"], [role="alertdialog"], [role="menu"], [role="menubar"]'
)
_MAIN = "main, [role=main]"
# A smaller share of the text is a part of the page that is only called so.
_LEAST_MAIN = 0.1
# Words in a class or an id that name what stands beside the text; what has half of it is the text.
_NAMES_BESIDE = frozenset(
    {
        *("nav", "navigation", "menu", "sidebar", "footer", "header", "breadcrumb", "breadcrumbs"),
        *("cookie", "share", "social", "related", "popup", "modal", "promo", "comments"),
        "pagination",
    }
)
_MOST_BESIDE = 0.5
_NO_LETTERS = re.compile("[^a-z]+")
# Their texts are measured, and each may have the whole page in it.
_MOST_MEASURED = 1_000


def read_main_text(html: str) -> str:
    """Read the main text by turbohtml; empty lines separate blocks."""
    document = parse(html, positions=False, scripting=True)
    for element in document.select(_BESIDE):
        element.extract()
    body = document.find("body")
    if body is None:
        return ""
    named = max(body.select(_MAIN), key=_measure, default=body)
    content = named if _measure(named) > _LEAST_MAIN * _measure(body) else body
    most = _MOST_BESIDE * _measure(content)
    for element in islice(filter(_is_beside, content.select("[class], [id]")), _MOST_MEASURED):
        if _measure(element) < most:
            element.extract()
    return content.to_text()


def _measure(element: Element) -> int:
    return len(element.text)


def _is_beside(element: Element) -> bool:
    names = f"{element.attr('class') or ''} {element.attr('id') or ''}".lower()
    return not _NAMES_BESIDE.isdisjoint(_NO_LETTERS.split(names))


READERS: dict[str, Callable[[str], str | None]] = {
    OUR_READER: read_main_text,
    WHOLE_TEXT: lambda html: read(html).whole,
}


@lru_cache(maxsize=16)
def load_text_reader(name: str) -> Callable[[str], str | None]:
    """Find a reader of main texts by its name or import path; `ValueError` if there is none."""
    wanted = "a function from HTML to the main text"
    reader: Callable[[str], Any] = load_named(name, READERS, wanted)
    return reader


def read_text(body: bytes, encoding: str | None, reader: str) -> str:
    """Return the main text of a page, or "".

    Args:
        body: HTML, decompressed.
        encoding: of the body as the response declares it; None to detect it from the body.
        reader: name or import path.

    Raises:
        NotJudgedError: the body cannot be decoded.
    """
    return without_surrogates(load_text_reader(reader)(decode(body, encoding)) or "").strip()
