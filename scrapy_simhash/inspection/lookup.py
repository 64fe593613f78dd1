"""Find pages by what people name: a URL, a file, a fingerprint, a text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode

from scrapy_simhash.errors import InspectionError, NotJudgedError, PartlyFailedError
from scrapy_simhash.judging.documents import Document, make_document
from scrapy_simhash.pages.addresses import split_url
from scrapy_simhash.pages.facts import Page
from scrapy_simhash.pages.fingerprint import fingerprint_page, load_features
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.simhash import simhash
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.stores.store import Store

_MOST_SUGGESTED = 3
_HEX_FINGERPRINT = re.compile(r"(0x)?[0-9a-fA-F]{16}")
_ENDING = re.compile(r"\.(?:html?|php|aspx?|jsp|cgi)$")


def is_url(what: str) -> bool:
    """Return True for an address of the web."""
    return what.startswith(("http://", "https://"))


def find_documents(store: Store, url: str) -> list[StoredDocument]:
    """Find the documents of a URL, or raise an error that suggests other spellings in the store."""
    documents = store.find_documents([url])[url]
    if not documents:
        known = (document.facts.url for document in store.list_documents())
        raise PartlyFailedError(add_suggestions(f"{url} is not in the store", url, known))
    return documents


def read_file(config: Config, name: str, store: Store | None) -> Document:
    """Make a document of an HTML file, by the recipe and the seed of a store, or the default ones.

    Raises:
        InspectionError: it has no fingerprint.
        OSError: it cannot be read.
    """
    recipe, seed = (store.recipe, store.seed) if store else (Recipe(), 0)
    ignored, body = config.find_ignored(""), Path(name).read_bytes()
    try:
        made = fingerprint_page(body, recipe=recipe, seed=seed, ignore=ignored)
    except NotJudgedError as error:
        raise InspectionError(f"{name} has no fingerprint: {error.reason} {error.detail}") from None
    return make_document(made, config.chosen_rule, Page(name, identity=b"-"))


def find_near(config: Config, what: str) -> Iterator[dict[str, Any]]:
    """Find the pages of the store within `SIMHASH_DISTANCE` of a file, fingerprint or text.

    The distance is cut to what the tables of the store are complete for.

    Raises:
        InspectionError: it is none of these, or the file has no fingerprint.
    """
    with open_as_it_is(config.store) as store:
        distance = min(config.distance, parse_design(store.design).reach_bits)
        for match in store.query(_find_fingerprint(config, store, what), distance):
            document = store.get_documents([match.document]).get(match.document)
            yield {
                "fingerprint": f"{match.fingerprint:016x}",
                "distance": match.distance,
                "document": match.document,
                "url": match.url,
                "state": document.state if document else "imported",
                "title": document.facts.title if document else "",
            }


def _find_fingerprint(config: Config, store: Store, what: str) -> int:
    if _HEX_FINGERPRINT.fullmatch(what):
        return int(what, 16)
    try:
        return read_file(config, what, store).facts.fingerprint
    except (OSError, ValueError):  # none, too long for a path, or with a NUL: it must be a text
        if " " in what.strip():
            return simhash(*load_features(store.recipe.features).extract(what, store.seed))
    raise InspectionError(
        f"{what!r} is not a URL (http://...), an existing file, a fingerprint (16 hexadecimal "
        "digits) or a text of several words"
    )


def add_suggestions(problem: str, url: str, known: Iterable[str]) -> str:
    """Add to a problem with a URL at most three known ones that are the same, written otherwise.

    >>> add_suggestions("no", "http://a.example/x", ["https://www.a.example/X.html"])
    'no; did you mean https://www.a.example/X.html ?'
    """
    form = _reduce(url)
    alike = dict.fromkeys(other for other in known if _reduce(other) == form)
    suggested = " or ".join([*alike][:_MOST_SUGGESTED])
    return f"{problem}; did you mean {suggested} ?" if suggested else problem


def _reduce(url: str) -> str:
    """Reduce a URL to what distinguishes pages, without what is often spelled otherwise."""
    # Scheme, www., case, port, fragment, index.html, .html, percent-encoding, order of parameters.
    parts = split_url(url if "//" in url else f"//{url}")
    if not parts:
        return url
    host = (parts.hostname or "").removeprefix("www.")
    path = unquote(parts.path).lower().removesuffix("index.html").rstrip("/")
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return host + _ENDING.sub("", path) + f"?{query}" * bool(query)
