"""Stores whose pairs are known: at which distance, how alike, and what people would say."""

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.sketch import sketch_text
from tests.helpers.documents import CRAWL, document, open_in_crawl

_POOL = np.random.default_rng(1).integers(0, 2**64, 40_000, np.uint64, endpoint=False)
_SHINGLES = 500


class Kind(NamedTuple):
    """Pairs of one kind.

    Attributes:
        distance: bits between the two.
        apart: of 500 shingles, how many the second one has not; 0 the same, 30 about .89 alike.
        same: what people say of them.
        pairs: how many there are.
    """

    distance: int
    apart: int
    same: bool
    pairs: int


def sketch(start: int) -> bytes:
    text = _POOL[start : start + _SHINGLES]
    return sketch_text(text, text)


def make_documents(kinds: Iterable[Kind], *, titles_differ: bool) -> list[Document]:
    """Make pairs of pages; the URL of each tells its kind, and pairs are far from each other."""
    draw = Random(1)  # noqa: S311 - reproducible, no secret
    made = []
    for kind in kinds:
        for number in range(kind.pairs):
            first = draw.getrandbits(64)
            second = first ^ sum(1 << bit for bit in draw.sample(range(64), kind.distance))
            start = draw.randrange(len(_POOL) - 2 * _SHINGLES)
            word = "same" if kind.same else "different"
            name = f"{word}-{kind.distance}-{kind.apart}-{number}"
            for side, bits, place in (("a", first, start), ("b", second, start + kind.apart)):
                made.append(
                    document(
                        f"{name}{side}",
                        bits,
                        url=f"http://{word}.example/{name}/{side}",
                        title=f"Page {name} {side}"
                        if titles_differ and not kind.same
                        else f"Page {name}",
                        sketch=sketch(place),
                        text_digest=name.encode(),  # nothing in the titles is their own
                        words=1_000,
                        whole_words=1_000,
                        features=400,
                    )
                )
    return made


def make_store(folder: Path, kinds: Iterable[Kind], *, titles_differ: bool = True) -> Path:
    """Judge such pages in a store, with the settings that are the default.

    Where the titles of different pages differ, the plugin keeps them both.
    """
    with open_in_crawl(folder, distance=7, confirm=0.9) as store:
        verdicts = store.find_and_add(make_documents(kinds, titles_differ=titles_differ))
        store.mark_done([verdict.document for verdict in verdicts], CRAWL)
    return folder
