"""Pairs and clusters of fingerprints, as the pages of a store that have them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.inspection import open_as_it_is
from scrapy_simhash.store_stats import list_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from scrapy_simhash.config import Config


def read_pages(config: Config) -> dict[int, list[str]]:
    """Read which pages have a fingerprint, dropped ones among them."""
    pages: dict[int, dict[str, None]] = defaultdict(dict)
    with open_as_it_is(config) as opened:
        for document in list_documents(opened):
            for fingerprint in document.fingerprints:
                pages[fingerprint][document.url] = None
    return {fingerprint: list(urls) for fingerprint, urls in pages.items()}


def pair_pages(
    pairs: NDArray[np.uint64], pages: Mapping[int, list[str]]
) -> Iterator[dict[str, Any]]:
    """Say which pages are near to each other, and which have one fingerprint.

    Args:
        pairs: shape (n, 2), near to each other.
        pages: URLs by fingerprint; what has none was imported.

    Yields:
        Objects with `distance` in bits, `first` and `second`: URLs of each side; at distance 0
        the first of them, and the others. Two texts of one page are no pair.
    """
    for urls in pages.values():
        if len(urls) > 1:
            yield {"distance": 0, "first": urls[:1], "second": urls[1:]}
    for first, second in pairs.tolist():
        sides = pages.get(first, []), pages.get(second, [])
        if not sides[0] or sides[0] != sides[1]:
            distance = (first ^ second).bit_count()
            yield {"distance": distance, "first": sides[0], "second": sides[1]}


def link_own(pages: Mapping[int, list[str]]) -> NDArray[np.uint64]:
    """Pair the fingerprints of one page, its main and whole text; shape (n, 2)."""
    firsts: dict[str, int] = {}
    pairs = [
        (firsts.setdefault(url, fingerprint), fingerprint)
        for fingerprint, urls in pages.items()
        for url in urls
    ]
    return np.array(pairs, np.uint64).reshape(-1, 2)


def cluster_pages(
    clusters: Iterable[NDArray[np.uint64]], pages: Mapping[int, list[str]]
) -> Iterator[dict[str, Any]]:
    """Say which pages stand in a cluster, or have one fingerprint.

    Args:
        clusters: of fingerprints.
        pages: URLs by fingerprint; what has none was imported, and is left out.

    Yields:
        Objects with `pages`, the URLs of a cluster, two at least, each once.
    """
    alone = dict(pages)
    for cluster in clusters:
        urls = dict.fromkeys(url for each in cluster.tolist() for url in alone.pop(each, []))
        if len(urls) > 1:
            yield {"pages": list(urls)}
    yield from ({"pages": urls} for urls in alone.values() if len(urls) > 1)
