"""Find pages by what people name: a URL, a file, a fingerprint, a text."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode

from scrapy_simhash.errors import InspectionError, NotJudgedError, PartlyFailedError
from scrapy_simhash.inspection.log import find_host
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.pages.addresses import split_url
from scrapy_simhash.pages.fingerprint import fingerprint_page, load_features
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.simhash import simhash
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.pages.facts import PageFingerprint
    from scrapy_simhash.stores.store import Store

_MOST_SUGGESTED = 3
# To compare more would take long in a large store.
_NEIGHBOURS = 50
_LEAST_ALIKE = 0.7
_ENDING = re.compile(r"\.(?:html?|php|aspx?|jsp|cgi)$")
_HEX_FINGERPRINT = re.compile(r"(0x)?[0-9a-fA-F]{16}")


def add_suggestions(problem: str, url: str, known: Collection[str]) -> str:
    """Add to a problem with a URL at most three known ones that are written nearly like it.

    Those of its own host come before all others.

    >>> add_suggestions("no", "http://a.example/x", ["https://www.a.example/X.html"])
    'no; did you mean https://www.a.example/X.html ?'
    """
    host = find_host(url)
    of_host = [other for other in known if find_host(other) == host]
    suggested = " or ".join(_find_alike(url, of_host) or _find_alike(url, known))
    return f"{problem}; did you mean {suggested} ?" if suggested else problem


def _find_alike(url: str, known: Iterable[str]) -> Iterable[str]:
    """Find at most three URLs that are written nearly like one."""
    form, forms = _reduce(url), {_reduce(other): other for other in known}
    for each, other in [*forms.items()]:
        forms.setdefault(each.partition("?")[0], other)  # where the query was left out
    near: dict[str, None] = dict.fromkeys([form] * (form in forms))
    for step in () if near else (1, -1):  # what begins or ends most like it
        ordered = sorted(each[::step] for each in forms)
        place = bisect_left(ordered, form[::step])
        around = ordered[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS]
        near |= dict.fromkeys(each[::step] for each in around)
    found = get_close_matches(form, near, _MOST_SUGGESTED, _LEAST_ALIKE)
    return dict.fromkeys(forms[each] for each in found)


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


def find_recipe(store: Store | None) -> tuple[Recipe, int]:
    """Find the recipe and the seed of a store; without one, the default ones."""
    if store is not None:
        return store.recipe, store.seed
    return Recipe(), 0


def fingerprint_named(config: Config, name: str, recipe: Recipe, seed: int) -> PageFingerprint:
    """Fingerprint an HTML file, or standard input if its name is "-"."""
    body = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return fingerprint_page(body, recipe=recipe, seed=seed, ignore=config.find_ignored(""))
    except NotJudgedError as error:
        raise InspectionError(f"{name} has no fingerprint: {error.reason} {error.detail}") from None


def find_near(config: Config, what: str) -> Iterator[dict[str, Any]]:
    """Find the pages of the store within `SIMHASH_DISTANCE` of a file, fingerprint or text.

    Args:
        config: with the store; its distance is cut to what the tables are complete for.
        what: a file, 16 hexadecimal digits, "-" for a page on standard input, or several words.

    Raises:
        InspectionError: it is none of these, or the page has no fingerprint.
    """
    with open_as_it_is(config.store) as store:
        distance = min(config.distance, parse_design(store.design).reach_bits)
        fingerprint = _find_fingerprint(config, store, what)
        for match in store.query(fingerprint, distance):
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
    if what == "-" or is_file(what):
        page = fingerprint_named(config, what, store.recipe, store.seed)
        return make_document(page, config.chosen_rule).facts.fingerprint
    if _HEX_FINGERPRINT.fullmatch(what):
        return int(what, 16)
    if " " in what.strip():
        return simhash(*load_features(store.recipe.features).extract(what, store.seed))
    raise InspectionError(
        f"{what!r} is not a URL (http://...), an existing file, a fingerprint (16 hexadecimal "
        "digits) or a text of several words"
    )


def is_url(what: str) -> bool:
    """Return True for an address of the web."""
    return what.startswith(("http://", "https://"))


def find_documents(store: Store, url: str) -> list[StoredDocument]:
    """Find the documents of a URL, or raise an error that suggests other spellings in the store."""
    documents = store.find_documents([url])[url]
    if not documents:
        known = [document.facts.url for document in store.list_documents()]
        raise PartlyFailedError(add_suggestions(f"{url} is not in the store", url, known))
    return documents


def is_file(what: str) -> bool:
    """Return True if a text is the path of a file."""
    try:
        return Path(what).is_file()
    except (OSError, ValueError):  # too long for a path, or has a NUL: it must be a text
        return False
