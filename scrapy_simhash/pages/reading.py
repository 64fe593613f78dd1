"""Chooses the reader of a page: `turbohtml`, or lxml with an extractor of main texts."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, SECOND_EXTRACTOR, load_named
from scrapy_simhash.pages.text import check_legible, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_simhash.pages.text import PageText


@lru_cache(maxsize=16)
def load_reader(extractor: str) -> Callable[[str], PageText]:
    """Find what reads decoded pages, by the name or import path of an extractor.

    Raises:
        ValueError: nothing callable is there, or turbohtml cannot be imported.
    """
    if extractor == DEFAULT_EXTRACTOR:
        try:
            from scrapy_simhash.pages.turbohtml_reader import read  # noqa: PLC0415
        except ImportError as error:
            raise ValueError(
                f"{extractor!r} cannot be imported here ({error}); install turbohtml, or take "
                f"{SECOND_EXTRACTOR!r}, which works without it"
            ) from None
        return read
    from scrapy_simhash.pages import lxml_reader  # noqa: PLC0415 - loads lxml and trafilatura

    known = {DEFAULT_EXTRACTOR: None, **lxml_reader.EXTRACTORS}
    extract = load_named(extractor, known, callable, "a function from an lxml tree to text")
    return partial(lxml_reader.read, extract=extract)


def read_page(body: bytes, encoding: str | None, extractor: str) -> PageText:
    """Read the texts of a page, and what names it, from its decompressed HTML."""
    # The encoding is what the response declares, or None to find out from the body. An
    # UnjudgedError says `empty`, `bad_encoding`, `binary`, or `no_text`.
    page = load_reader(extractor)(decode(body, encoding))
    check_legible(page.whole)
    return page
