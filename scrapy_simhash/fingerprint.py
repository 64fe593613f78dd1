"""The unit of work sent to a worker process: a page in, its fingerprint and measures out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import xxhash

from scrapy_simhash.features import FEATURE_SETS, FeatureSet, normalise
from scrapy_simhash.recipe import Recipe, load_named
from scrapy_simhash.simhash import simhash
from scrapy_simhash.text import TEXT_VERSION, WHOLE_TEXT, load_extractor, read_page


@dataclass(frozen=True, slots=True)
class PageFingerprint:
    """What a page looks like to the index.

    Attributes:
        fingerprint: the 64-bit simhash.
        text_digest: 16 bytes, XXH3-128 of the normalised main text.
        features: number of distinct features.
        words: number of tokens.
        title: of the page, at most 300 characters.
        language: as the page declares it, or "".
        links: distinct link targets on the page.
        extractor: the extractor that gave the text; `html2txt` where the chosen one found none.
        fell_back: whether that happened.
        text: the main text.
        extract_ms: milliseconds for decoding, parsing and extraction.
        fingerprint_ms: milliseconds for features and simhash.
    """

    fingerprint: int
    text_digest: bytes
    features: int
    words: int
    title: str
    language: str
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
    features: FeatureSet = load_named(
        name, FEATURE_SETS, lambda found: isinstance(found, FeatureSet), "a FeatureSet"
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
) -> PageFingerprint:
    """Make the fingerprint of an HTML page.

    Args:
        body: HTML, decompressed; a `str` is taken as it is.
        encoding: of the body as the response declares it; None to find out from the body.
        recipe: extractor and features; None for the default ones.
        seed: of the feature hash, 0 to 2**64 - 1; a store's secret, 0 outside of stores.

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
    made = load_features(recipe.features).extract(page.text, seed)
    digest = xxhash.xxh3_128_digest(normalise(" ".join(page.text.split())).encode())
    fingerprint = simhash(made.hashes, made.weights)
    finished = time.perf_counter()
    return PageFingerprint(
        fingerprint=fingerprint,
        text_digest=digest,
        features=len(made.hashes),
        words=made.words,
        title=page.title,
        language=page.language,
        links=page.links,
        extractor=WHOLE_TEXT if page.fell_back else recipe.extractor,
        fell_back=page.fell_back,
        text=page.text,
        extract_ms=round(1000 * (extracted - started), 3),
        fingerprint_ms=round(1000 * (finished - extracted), 3),
    )
