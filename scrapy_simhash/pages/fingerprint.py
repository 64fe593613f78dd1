"""Make the fingerprint and measures of a page: what a judge does with each."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xxhash
from numpy.typing import NDArray

from scrapy_simhash.pages.addresses import MOST_CHARACTERS, join_url, list_values
from scrapy_simhash.pages.facts import OUR_READER, WHOLE_TEXT, Facts, PageFingerprint, Recipe
from scrapy_simhash.pages.features import (
    SKETCH_WINDOW,
    hash_shingles,
    read_both,
    read_words,
    sketch_text,
    weigh_features,
)
from scrapy_simhash.pages.links import read_links
from scrapy_simhash.pages.turbohtml_reader import (
    PageText,
    check_legible,
    decode,
    read,
)
from scrapy_simhash.pages.wording import list_links_seen, make_wording, pack
from scrapy_simhash.simhash import simhash

# Browsers and servers refuse longer addresses, and every record holds one.
_LONGEST_ADDRESS = 2_048


def read_page(body: bytes, encoding: str | None, ignore: Sequence[str] = ()) -> PageText:
    """Read texts and names of a page from its decompressed HTML.

    Args:
        body: of the response.
        encoding: as the response declares it; None to detect it from the body.
        ignore: CSS selectors of elements that are no text of the page.

    Raises:
        NotJudgedError: `empty`, `binary`, `bad_encoding` (also of charsets like base64), `no_text`.
    """
    page = read(decode(body, encoding), ignore)
    check_legible(page.whole, encoding)
    return page


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
        recipe: None for that of crawls.
        seed: of the token hash, 0 to 2**64 - 1; a store's secret, 0 outside of stores.
        url: of the page, against which its links and its canonical address are resolved; ""
            leaves links as written.
        min_features: 1 or more; a page with as many features in its main text gets no `stub`,
            because reading that takes longer than all fingerprints. None: every page gets one.
        ignore: CSS selectors of elements that are no text of the page (SIMHASH_IGNORE).

    Raises:
        NotJudgedError: the page has no text that could be judged; see `reason`.
    """
    if isinstance(body, str):
        body, encoding = body.encode("utf-8", "replace"), "utf-8"
    started = time.perf_counter()
    page = read_page(body, encoding, ignore)
    made = fingerprint_text(page, recipe or Recipe(), seed, url, min_features)
    return replace(made, read_ms=round(1000 * (time.perf_counter() - started), 3))


def fingerprint_text(
    page: PageText,
    recipe: Recipe,
    seed: int = 0,
    url: str = "",
    min_features: int | None = None,
) -> PageFingerprint:
    """Make the fingerprint of a page that was read; its time stays unset."""
    base = (page.base and join_url(url, page.base)) or url
    if len(base) > MOST_CHARACTERS:  # made to have each link repeat it
        base = ""
    first, end = page.main_lines
    # One step of the paper after the other, each for both texts.
    main, whole = read_both(page.main, page.whole, page.main_lines, seed)
    whole_triples = hash_shingles(whole.hashes, SKETCH_WINDOW)
    main_features = weigh_features(main.hashes, recipe.window)
    whole_features = weigh_features(whole.hashes, recipe.window)
    sketch = sketch_text(whole_triples)
    main_fingerprint, whole_fingerprint = simhash(*main_features), simhash(*whole_features)
    data = b""
    if page.data:
        features = weigh_features(read_words(page.data, seed).hashes, 2)
        data = simhash(*features).to_bytes(8, "big")
    beside = *page.beside, *list_links_seen(page.links_seen)
    wording = pack(make_wording(whole, beside, seed, page.main_lines, page.tags))
    may_be_stub = min_features is None or len(main_features[0]) < min_features
    stub, hidden = _digest(seed, page) if may_be_stub else (b"", b"")
    facts = Facts(
        b"",
        main_fingerprint,
        # Where a block ends changes with the template.
        xxhash.xxh3_128_digest(main.normal.replace("\n", " ").encode()),
        title=page.title,
        heading=page.heading,
        canonical=_resolve_address(page.canonical, base),
        views="\n".join(filter(None, (_resolve_address(view, base) for view in page.views))),
        language=page.language,
        features=len(main_features[0]),
        words=len(main.hashes),
        whole_words=len(whole.hashes),
        data_fingerprint=data,
        sketch=sketch,
        suspicion=2 * _repeats_query(page.title, whole.hashes, seed, url),
        hidden=hidden,
    )
    return PageFingerprint(
        facts,
        stub,
        whole_fingerprint=whole_fingerprint,
        whole_features=len(whole_features[0]),
        links=len(page.links),
        extractor=OUR_READER if first < end else WHOLE_TEXT,
        text=page.main,
        wording=wording,
        targets=read_links(page.links, base),
    )


def _repeats_query(title: str, whole: NDArray[np.uint64], seed: int, url: str) -> bool:
    """Return whether two words of a parameter's value are in title or text, as on a search page."""
    if "?" not in url:
        return False
    values = [read_words(value, seed).hashes for value in list_values(url)]
    asked = [np.unique(words) for words in values if len(words) > 1]
    if not asked:
        return False
    text = np.concatenate([whole, read_words(title, seed).hashes])
    return any(np.count_nonzero(np.isin(words, text)) > 1 for words in asked)


def _resolve_address(declared: str, url: str) -> str:
    """Make a declared address absolute; return "" if it is no http address, or too long."""
    address = join_url(url, declared) if declared else ""
    absolute = address.startswith(("http://", "https://"))
    return address if absolute and len(address) <= _LONGEST_ADDRESS else ""


def _digest(seed: int, page: PageText) -> tuple[bytes, bytes]:
    """Digest all that a page may differ in, and what of that is not shown."""
    hidden = page.read_embedded()
    texts = page.title, page.whole.replace("\n", " "), hidden
    # Keyed as the tokens are: half of the first decides a short page's place in the tables.
    return (
        xxhash.xxh3_128_digest("\0".join(texts).encode(), seed),
        xxhash.xxh3_64_digest(hidden.encode(), seed),
    )
