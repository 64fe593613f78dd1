"""Replays, against real stores with the settings that are tried."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.whatif import choose_documents, replay
from scrapy_simhash.judging.documents import Document, StoredDocument, make_document
from scrapy_simhash.judging.rule import MIN_FEATURES, Rule
from scrapy_simhash.pages.facts import Page
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.sketch import sketch_text
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, alter, document, open_in_crawl
from tests.helpers.pages import edit_words, make_page, make_words

CENTRE = 0x0123_4567_89AB_CDEF
POOL = np.random.default_rng(1).integers(0, 2**64, 4_000, np.uint64, endpoint=False)
# Shingles of which neighbours share nine tenths, and the last nothing.
TEXTS = [POOL[start : start + 1_000] for start in (0, 50, 100, 2_500)]
SKETCHES = [sketch_text(whole, main) for whole in TEXTS for main in TEXTS]

fingerprints = st.sets(st.sampled_from(range(0, 64, 5)), max_size=5).map(
    lambda bits: CENTRE ^ sum(1 << bit for bit in bits)
)


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    """Draw pages that are near to each other, of some kinds and sites."""
    made = []
    for number in range(draw(st.integers(1, 14))):
        stub = draw(st.sampled_from([False] * 5 + [True]))
        fields: dict[str, Any] = {
            "stub": stub,
            "scope": draw(st.sampled_from(["", "", "other.example"])),
            "title": draw(st.sampled_from(["", "Kiwi", "Apples"])),
            "heading": draw(st.sampled_from(["", "Kiwi"])),
            "sketch": draw(st.sampled_from(SKETCHES)),
            "features": draw(st.sampled_from([MIN_FEATURES - 1, 500, 500])),
            "words": 500,
            "whole_words": 700,
        }
        if draw(st.booleans()) and draw(st.booleans()):
            fields["sketch"] = b""
        made.append(document(f"{number}", draw(fingerprints), **fields))
    return made


rules = st.builds(
    Rule, st.integers(0, 15), st.sampled_from([None, 0.0, 0.6, 0.8, 1.0]), st.just(MIN_FEATURES)
)


def fill(store: Store, made: list[Document], bulk_loaded: list[int]) -> list[str | int | None]:
    """Put documents into a store one by one; say what each was dropped for."""
    store.bulk_load(np.array(bulk_loaded, np.uint64))
    verdicts = [store.find_and_add([each])[0] for each in made]
    store.mark_done([verdict.document for verdict in verdicts], CRAWL)
    return [(verdict.match.url or 0) if verdict.match else None for verdict in verdicts]


def replayed(store: Store, rule: Rule, scope: str | None = None) -> dict[str, str | int | None]:
    def scope_of(stored: StoredDocument) -> str:
        return stored.facts.scope if scope is None else scope

    return {
        each.document.facts.url: (each.match.url or 0) if each.match else None
        for each in replay(store, choose(store, rule), rule, scope_of)
    }


def choose(store: Store, rule: Rule) -> list[int]:
    return choose_documents(store, rule)[0]


def as_plain(made: list[Document]) -> list[Document]:
    """Make of documents what a crawl in plain simhash makes of their pages."""
    return [each for each in made if each.facts.stub or each.facts.features >= MIN_FEATURES]


@given(documents(), rules, rules, st.lists(fingerprints, max_size=3), st.booleans())
def test_replay_decides_as_a_store_with_these_settings(
    made: list[Document], before: Rule, rule: Rule, bulk_loaded: list[int], one_scope: bool
) -> None:
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it has a name of its own
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        first = Path(folder) / "first"
        tables = "4+3"  # reach 15 bits
        with open_in_crawl(
            first, distance=before.distance, tables=tables, confirm=before.confirm
        ) as store:
            fill(store, made, bulk_loaded)
            answers = replayed(store, rule, "" if one_scope else None)
        expected = as_plain(made) if rule.confirm is None else made
        if one_scope:
            expected = [alter(each, scope="") for each in expected]
        second = Path(folder) / "second"
        with open_in_crawl(
            second, distance=rule.distance, tables=tables, confirm=rule.confirm
        ) as store:
            dropped_for = fill(store, expected, bulk_loaded)
    assert answers == dict(zip((each.facts.url for each in expected), dropped_for, strict=True))


def test_plain_simhash_of_pages_that_were_confirmed(tmp_path: Path) -> None:
    words = make_words(1, 300)
    pages = [
        make_page(words),
        make_page(edit_words(words, 2), menu="Another menu " * 9),
        make_page(edit_words(words, 40)),
        make_page(make_words(2, 20)).replace("<ul>", f"<p>{' '.join(make_words(3, 60))}</p><ul>"),
        make_page(make_words(4, 10)),
        make_page(make_words(4, 10)),
    ]

    def make(config: Config) -> list[Document]:
        made = [fingerprint_page(html, seed=7) for html in pages]
        return [
            alter(
                make_document(page, config.rule, Page("", identity=b"%d" % n)),
                url=f"{n}",
                crawl=CRAWL,
            )
            for n, page in enumerate(made)
        ]

    with open_in_crawl(tmp_path / "confirmed", distance=7, confirm=0.8) as store:
        fill(store, make(Config()), [])
        answers = replayed(store, Rule(3, None, MIN_FEATURES))
    with open_in_crawl(tmp_path / "plain", distance=3) as store:
        dropped_for = fill(store, make(Config(confirm=None)), [])
    # In plain simhash the page whose whole text alone is long enough is a stub of unknown digest.
    assert answers == {str(n): each for n, each in enumerate(dropped_for) if n != 3}
    assert dropped_for[5] == "4"


def test_what_was_taken_back_passes(tmp_path: Path) -> None:
    with open_in_crawl(tmp_path / "s") as store:
        made = [document("a", CENTRE), document("a1", CENTRE ^ 1), document("a2", CENTRE ^ 30)]
        fill(store, made, [])
        store.spare([2])
        rule = Rule(3, None, 0)
        _, spared, third = replay(store, choose(store, rule), rule)
        assert (spared.match, spared.was_dropped) == (None, False)
        assert third.match is None
        assert third.was_dropped is False
