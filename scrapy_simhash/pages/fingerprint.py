"""Make the fingerprint and measures of a page: what a judge does with each."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import xxhash

from scrapy_simhash.pages.addresses import MOST_CHARACTERS, join_url, list_values
from scrapy_simhash.pages.facts import Facts, PageFingerprint
from scrapy_simhash.pages.features import (
    FEATURE_SETS,
    SKETCH_WINDOW,
    FeatureSet,
    HashedText,
    hash_shingles,
    sketch_text,
    tokenise,
)
from scrapy_simhash.pages.links import read_links
from scrapy_simhash.pages.main_text import load_text_reader
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, WHOLE_TEXT, Recipe, load_named
from scrapy_simhash.pages.text import (
    PageText,
    check_legible,
    decode,
    without_surrogates,
)
from scrapy_simhash.pages.turbohtml_reader import leave_out, one_line, read
from scrapy_simhash.pages.wording import list_links_seen, make_wording, pack
from scrapy_simhash.simhash import simhash

_USUAL = FEATURE_SETS["words-1"]
# Browsers and servers refuse longer addresses, and every record holds one.
_LONGEST_ADDRESS = 2_048


@lru_cache(maxsize=16)
def load_features(name: str) -> FeatureSet:
    """Find a feature set by its name or import path; `ValueError` if there is none."""
    features: FeatureSet = load_named(
        name, FEATURE_SETS, lambda found: isinstance(found, FeatureSet), "a FeatureSet"
    )
    return features


@lru_cache(maxsize=16)
def load_reader(extractor: str) -> Callable[[str, Sequence[str]], PageText]:
    """Return the function that reads decoded pages, but for ignored elements, with an extractor.

    Args:
        extractor: name or import path.

    Raises:
        ValueError: there is no such function.
    """
    if extractor == DEFAULT_EXTRACTOR:
        return read
    return partial(_read_by, load_text_reader(extractor))


def _read_by(extract: Callable[[str], str | None], html: str, ignore: Sequence[str]) -> PageText:
    """Read a page of which an extractor finds the main text."""
    shown = leave_out(html, ignore) if ignore else html
    lines = map(one_line, (extract(shown) or "").splitlines())
    main = without_surrogates("\n".join(filter(None, lines)))
    page = read(html, ignore, find_main=False)
    return page._replace(main=main, fell_back=False) if main else page


def read_page(
    body: bytes,
    encoding: str | None,
    extractor: str = DEFAULT_EXTRACTOR,
    ignore: Sequence[str] = (),
) -> PageText:
    """Read texts and names of a page from its decompressed HTML.

    Args:
        body: of the response.
        encoding: as the response declares it; None to detect it from the body.
        extractor: name or import path.
        ignore: CSS selectors of elements that are no text of the page.

    Raises:
        NotJudgedError: `empty`, `binary`, `bad_encoding` (also of charsets like base64), `no_text`.
    """
    page = load_reader(extractor)(decode(body, encoding), ignore)
    check_legible(page.whole, encoding)
    return page


@lru_cache(maxsize=16)
def make_recipe(extractor: str, features: str) -> Recipe:
    """Complete a recipe with the versions of its parts; `ValueError` if a name is unknown."""
    load_reader(extractor)
    return Recipe(extractor, features, features_version=load_features(features).version)


def fingerprint_page(  # noqa: PLR0913 - what decides about a page
    body: bytes | str,
    encoding: str | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    url: str = "",
    min_features: int | None = None,
    *,
    ignore: Sequence[str] = (),
) -> PageFingerprint:
    """Make the fingerprint of an HTML page.

    Args:
        body: HTML, decompressed; a `str` is used as it is.
        encoding: of the body as the response declares it; None to detect it from the body.
        recipe: extractor and features; None for the default ones.
        seed: of the token hash, 0 to 2**64 - 1; a store's secret, 0 outside of stores.
        url: of the page, against which its links and its canonical address are resolved; ""
            leaves links as written.
        min_features: 1 or more; a page with as many features in its main text gets no `stub`,
            because reading that takes longer than all fingerprints. None: every page gets one.
        ignore: CSS selectors of elements that are no text of the page (SIMHASH_IGNORE).

    Raises:
        NotJudgedError: the page has no text that could be judged; see `reason`.
        ValueError: the recipe names an extractor or feature set that does not exist.
    """
    recipe = recipe or Recipe()
    if isinstance(body, str):
        body, encoding = body.encode("utf-8", "replace"), "utf-8"
    started = time.perf_counter()
    page = read_page(body, encoding, recipe.extractor, ignore)
    extracted = time.perf_counter()
    made = fingerprint_text(page, load_features(recipe.features), seed, url, min_features)
    finished = time.perf_counter()
    return replace(
        made,
        extractor=WHOLE_TEXT if page.fell_back else recipe.extractor,
        extract_ms=round(1000 * (extracted - started), 3),
        fingerprint_ms=round(1000 * (finished - extracted), 3),
    )


def fingerprint_text(
    page: PageText,
    features: FeatureSet,
    seed: int = 0,
    url: str = "",
    min_features: int | None = None,
) -> PageFingerprint:
    """Make the fingerprint of a page that was read; its times and extractor stay unset."""
    base = (page.base and join_url(url, page.base)) or url
    if len(base) > MOST_CHARACTERS:  # made to have each link repeat it
        base = ""
    # One step of the paper after the other, each for both texts.
    main, whole = features.read_both(page.main, page.whole, page.main_lines, seed)
    # Pages are compared word by word in the usual words.
    usual = whole if features.tokenise is tokenise else _USUAL.read(page.whole, seed)
    whole_triples = hash_shingles(whole.hashes, SKETCH_WINDOW)
    main_features, whole_features = map(features.weigh_features, (main.hashes, whole.hashes))
    fingerprint, whole_fingerprint = simhash(*main_features), simhash(*whole_features)
    sketch = sketch_text(whole_triples)
    link_sketch, targets = read_links(page.links, base)
    beside = *page.beside, *list_links_seen(page.links_seen)
    wording = pack(make_wording(usual, beside, seed, page.main_lines, page.tags))
    may_be_stub = min_features is None or len(main_features.hashes) < min_features
    stub, hidden = _digest(seed, page) if may_be_stub else (b"", b"")
    facts = Facts(
        b"",
        fingerprint,
        # Where a block ends changes with the template.
        xxhash.xxh3_128_digest(main.normal.replace("\n", " ").encode()),
        title=page.title,
        heading=page.heading,
        canonical=_resolve_address(page.canonical, base),
        views="\n".join(filter(None, (_resolve_address(view, base) for view in page.views))),
        language=page.language,
        features=len(main_features.hashes),
        words=len(main.hashes),
        whole_words=len(whole.hashes),
        data_fingerprint=_fingerprint_data(page.data, seed) if page.data else b"",
        sketch=sketch,
        link_sketch=link_sketch,
        suspicion=2 * _repeats_query(page.title, whole, features, seed, url),
        hidden=hidden,
    )
    return PageFingerprint(
        facts,
        stub,
        whole_fingerprint=whole_fingerprint,
        whole_features=len(whole_features.hashes),
        links=len(page.links),
        text=page.main,
        wording=wording,
        targets=targets,
    )


def _repeats_query(
    title: str, whole: HashedText, features: FeatureSet, seed: int, url: str
) -> bool:
    """Return whether two words of a parameter's value are in title or text, as on a search page."""
    if "?" not in url:
        return False
    values = [features.read(value, seed).hashes for value in list_values(url)]
    asked = [np.unique(words) for words in values if len(words) > 1]
    if not asked:
        return False
    text = np.concatenate([whole.hashes, features.read(title, seed).hashes])
    return any(np.count_nonzero(np.isin(words, text)) > 1 for words in asked)


def _resolve_address(declared: str, url: str) -> str:
    """Make a declared address absolute; return "" if it is no http address, or too long."""
    address = join_url(url, declared) if declared else ""
    absolute = address.startswith(("http://", "https://"))
    return address if absolute and len(address) <= _LONGEST_ADDRESS else ""


def _fingerprint_data(data: str, seed: int) -> bytes:
    return simhash(*FEATURE_SETS["words-2"].extract(data, seed)).to_bytes(8, "big")


def _digest(seed: int, page: PageText) -> tuple[bytes, bytes]:
    """Digest all that a page may differ in, and what of that is not shown."""
    hidden = page.read_embedded()
    texts = page.title, page.whole.replace("\n", " "), hidden
    # Keyed as the tokens are: half of the first decides a short page's place in the tables.
    return (
        xxhash.xxh3_128_digest("\0".join(texts).encode(), seed),
        xxhash.xxh3_64_digest(hidden.encode(), seed),
    )
