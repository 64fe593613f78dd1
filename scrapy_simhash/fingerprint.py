"""The unit of work sent to a worker process: a page in, its fingerprint and measures out."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import xxhash

from scrapy_simhash.features import FEATURE_SETS, FeatureSet, normalise
from scrapy_simhash.links import sketch_links
from scrapy_simhash.recipe import Recipe, load_named
from scrapy_simhash.simhash import simhash
from scrapy_simhash.sketch import SKETCH_WINDOW, sketch_text
from scrapy_simhash.text import TEXT_VERSION, WHOLE_TEXT, load_extractor, read_page

if TYPE_CHECKING:
    from scrapy_simhash.text import PageText


# Browsers and servers take no longer ones, and it stands in every record.
_LONGEST_ADDRESS = 2_048
_OPTIONAL_FEATURE_SETS = {
    "zh-words": "scrapy_simhash.chinese.WORDS",
    "zh-keywords": "scrapy_simhash.chinese.KEYWORDS",
}


@dataclass(frozen=True, slots=True)
class PageFingerprint:
    """What a page looks like to the index.

    Attributes:
        fingerprint: the 64-bit simhash of its main text.
        whole_fingerprint: that of its whole visible text.
        stub: digest of all that the page may differ in, 16 bytes: title, visible text, addresses,
            data, scripts, with the store's seed. For pages with too little text for a simhash.
        text_digest: 16 bytes, XXH3-128 of the normalised main text.
        sketch: of main and whole text, 512 bytes; see `sketch`.
        link_sketch: a sample of its links; see `links`.
        features: number of distinct features of the main text.
        whole_features: that of the whole text.
        words: number of tokens of the main text.
        whole_words: that of the whole text.
        title: of the page, at most 300 characters.
        heading: its first heading, at most 300 characters.
        language: as the page declares it, or "".
        canonical: target of `<link rel="canonical">`, absolute, or "".
        links: number of distinct link targets on the page.
        extractor: the extractor that gave the main text; `html2txt` where the chosen one found
            none.
        fell_back: whether that happened.
        text: the main text.
        extract_ms: milliseconds for decoding, parsing and extraction.
        fingerprint_ms: milliseconds for features, simhashes and sketches.
    """

    fingerprint: int
    whole_fingerprint: int
    stub: bytes
    text_digest: bytes
    sketch: bytes
    link_sketch: bytes
    features: int
    whole_features: int
    words: int
    whole_words: int
    title: str
    heading: str
    language: str
    canonical: str
    links: int
    extractor: str
    fell_back: bool
    text: str
    extract_ms: float
    fingerprint_ms: float


def load_features(name: str) -> FeatureSet:
    """Find a feature set by its name or import path.

    Raises:
        ValueError: nothing of that name, or not a `FeatureSet`.
    """
    if name in _OPTIONAL_FEATURE_SETS:
        try:
            import_module("jieba")
        except ImportError:
            raise ValueError(f"{name!r} needs pip install 'scrapy-simhash[zh]'") from None
    features: FeatureSet = load_named(
        _OPTIONAL_FEATURE_SETS.get(name, name),
        FEATURE_SETS,
        lambda found: isinstance(found, FeatureSet),
        "a FeatureSet",
    )
    return features


@lru_cache(maxsize=16)
def make_recipe(extractor: str, features: str) -> Recipe:
    """Complete a recipe with the versions of its parts.

    Raises:
        ValueError: one of the names leads nowhere.
    """
    load_extractor(extractor)
    return Recipe(extractor, features, TEXT_VERSION, load_features(features).version)


def fingerprint_page(
    body: bytes | str,
    encoding: str | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    url: str = "",
) -> PageFingerprint:
    """Make the fingerprint of an HTML page.

    Args:
        body: HTML, decompressed; a `str` is taken as it is.
        encoding: of the body as the response declares it; None to find out from the body.
        recipe: extractor and features; None for the default ones.
        seed: of the token hash, 0 to 2**64 - 1; a store's secret, 0 outside of stores.
        url: of the page, against which its links and its canonical address are resolved; ""
            leaves links as written.

    Raises:
        UnjudgedError: the page has no text that could be judged; `reason` says why.
        ValueError: the recipe names an extractor or feature set that does not exist.
    """
    recipe = recipe or Recipe()
    if isinstance(body, str):
        body, encoding = body.encode("utf-8", "replace"), "utf-8"
    started = time.perf_counter()
    page = read_page(body, encoding, recipe.extractor)
    extracted = time.perf_counter()
    made = fingerprint_text(page, load_features(recipe.features), seed, url)
    finished = time.perf_counter()
    return replace(
        made,
        extractor=WHOLE_TEXT if page.fell_back else recipe.extractor,
        extract_ms=round(1000 * (extracted - started), 3),
        fingerprint_ms=round(1000 * (finished - extracted), 3),
    )


def fingerprint_text(
    page: PageText, features: FeatureSet, seed: int = 0, url: str = ""
) -> PageFingerprint:
    """Make the fingerprint of what was read from a page; its times and extractor are unset.

    Args:
        page: its texts and names.
        features: how to make features of them.
        seed: of the token hash, 0 to 2**64 - 1.
        url: of the page.
    """
    base = _resolve(url, page.base) or url
    hashes: dict[str, int] = {}
    main = features.read(page.main, seed, hashes)
    whole = main if page.whole == page.main else features.read(page.whole, seed, hashes)
    main_features = features.weigh_features(main)
    whole_features = features.weigh_features(whole)
    return PageFingerprint(
        fingerprint=simhash(*main_features),
        whole_fingerprint=simhash(*whole_features),
        # Keyed as the tokens are: half of it is a short page's place in the tables.
        stub=_digest(seed, page.title, page.whole, page.embedded),
        text_digest=_digest(0, normalise(page.main)),
        sketch=sketch_text(main.shingle(SKETCH_WINDOW)) + sketch_text(whole.shingle(SKETCH_WINDOW)),
        link_sketch=sketch_links(page.links, base),
        features=len(main_features.hashes),
        whole_features=len(whole_features.hashes),
        words=main.words,
        whole_words=whole.words,
        title=page.title,
        heading=page.heading,
        language=page.language,
        canonical=_resolve_canonical(page.canonical, base),
        links=len(page.links),
        extractor="",
        fell_back=page.fell_back,
        text=page.main,
        extract_ms=0.0,
        fingerprint_ms=0.0,
    )


def _resolve(url: str, address: str) -> str:
    try:
        return urljoin(url, address)
    except ValueError:  # such as an invalid IPv6 address
        return ""


def _resolve_canonical(canonical: str, url: str) -> str:
    """Make a canonical address absolute; "" for what cannot be compared across hosts."""
    address = _resolve(url, canonical) if canonical else ""
    absolute = address.startswith(("http://", "https://"))
    return address if absolute and len(address) <= _LONGEST_ADDRESS else ""


def _digest(seed: int, *texts: str) -> bytes:
    return xxhash.xxh3_128_digest("\0".join(texts).encode(), seed)
