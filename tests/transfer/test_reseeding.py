"""Stores of different seeds are merged where their texts allow new fingerprints."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.errors import StoreMismatchError
from scrapy_simhash.judging import Rule, make_document
from scrapy_simhash.pages import fingerprint_page
from scrapy_simhash.stores import Store, open_store
from scrapy_simhash.transfer.exchange import merge_stores
from tests.helpers.commanding import Run
from tests.helpers.crawling import read_files
from tests.helpers.pages import edit_words, make_page, make_words

STORE_KINDS = ("lmdb", "redis", "cluster")
DISTANCE = 3
RULE = Rule(DISTANCE, None)
PLAIN = Config(distance=DISTANCE, confirm=None)
CRAWL = "crawl"
# Pages of six texts, each with two more that differ in so many words. Some of these are near enough
# to the first, others are not.
CHANGES = (0, 2, 60)
PAGES = {
    f"{seed}-{changes}": make_page(edit_words(make_words(seed), changes), menu=f"Menu {changes}")
    for seed in range(6)
    for changes in CHANGES
}
SHORT = {"short-a": make_page(["brief"]), "short-b": make_page(["brief"])}


def fill(home: str, *names: str, keep_text: bool = True, **arguments: Any) -> None:
    """Let pages come to a store, and their items come through; their order is their time."""
    with open_store(home, DISTANCE, **arguments) as store:
        store.start_crawl(CRAWL, "spider")
        for name in names:
            body = (PAGES | SHORT)[name]
            made = fingerprint_page(body, seed=store.seed, url=f"http://site.example/{name}")
            (verdict,) = store.find_and_add(
                [
                    make_document(
                        made,
                        RULE,
                        name.encode(),
                        keep_text=keep_text,
                        url=f"http://site.example/{name}",
                        crawl=CRAWL,
                        time=float([*PAGES, *SHORT].index(name)),
                    )
                ]
            )
            store.mark_done([verdict.document], CRAWL)
        store.end_crawl(CRAWL)


def read_originals(store: Store) -> dict[str, str | None]:
    """Get the original of each near-duplicate, None for an original, by the names of pages."""
    documents = {each.document: each for each in store.list_documents()}
    names = {number: each.url.rpartition("/")[2] for number, each in documents.items()}
    return {
        names[number]: names[each.original] if each.original else None
        for number, each in documents.items()
    }


def merge(into: str, *sources: Path) -> dict[str, Any]:
    (answer,) = merge_stores(PLAIN, [str(source) for source in sources], into)
    return answer


def test_the_merged_store_finds_what_one_store_finds(home: str, tmp_path: Path) -> None:
    a, b, one = (tmp_path / name for name in ("a", "b", "one"))
    names = list(PAGES)
    fill(str(a), *names[::2], seed=1)
    fill(str(b), *names[1::2], seed=2)
    fill(str(one), *names, seed=1)
    into = home if home != str(tmp_path) else str(tmp_path / "into")
    answer = merge(into, a, b)
    assert (answer["documents"], answer["reseeded"]) == (len(names), [str(b)])
    with open_store(into) as merged, open_store(str(one)) as expected:
        found = read_originals(merged)
        assert found == read_originals(expected)
        assert 6 <= sum(original is not None for original in found.values()) < 12
        assert merged.fingerprints().tolist() == expected.fingerprints().tolist()
        assert (merged.seed, merged.check()) == (1, [])
    # Once more: nothing changes. And what comes later finds the pages of both.
    assert merge(into, a, b)["became_near_duplicates"] == 0
    with open_store(into, DISTANCE) as merged:
        assert read_originals(merged) == found
        for name in ("0-0", "1-0"):
            made = fingerprint_page(PAGES[name], seed=merged.seed)
            (verdict,) = merged.find_and_add(
                [make_document(made, RULE, b"twin of " + name.encode())]
            )
            assert verdict.match
            assert verdict.match.url == f"http://site.example/{name}"


def test_into_a_store_of_another_seed(tmp_path: Path) -> None:
    """The target's seed stays, and the sources are as they were; texts come along."""
    fill(str(tmp_path / "a"), "0-0", "1-0", seed=1)
    fill(str(tmp_path / "b"), "0-2", "2-0", seed=2)
    before = read_files(tmp_path / "a")
    answer = merge(str(tmp_path / "b"), tmp_path / "a")
    assert (answer["reseeded"], answer["copied"]) == ([str(tmp_path / "a")], False)
    with open_store(str(tmp_path / "b")) as store:
        assert read_originals(store) == {"0-0": None, "1-0": None, "0-2": "0-0", "2-0": None}
        assert len(store.list_texts()) == 4
        assert store.seed == 2
    assert read_files(tmp_path / "a") == before


def test_short_pages_stay_as_they_are(tmp_path: Path) -> None:
    """Their digests are made of more than their texts; so one is missed, and none wrongly found."""
    fill(str(tmp_path / "a"), "0-0", "short-a", seed=1)
    fill(str(tmp_path / "b"), "1-0", "short-b", keep_text=True, seed=2)
    merge(str(tmp_path / "c"), tmp_path / "a", tmp_path / "b")
    with open_store(str(tmp_path / "c")) as store:
        assert set(read_originals(store).values()) == {None}
        assert store.check() == []


REFUSED = "was made with another seed than"


@pytest.mark.parametrize(
    ("kept", "config", "why"),
    [
        (False, PLAIN, "no text that gives its fingerprint was kept of http://site.example/1-0"),
        (True, Config(), "SIMHASH_CONFIRM = 0.78 needs whole texts, too, which are not kept"),
    ],
    ids=["no texts", "confirmation"],
)
def test_what_cannot_be_made_anew_is_refused_unharmed(
    tmp_path: Path, kept: bool, config: Config, why: str
) -> None:
    fill(str(tmp_path / "a"), "0-0", seed=1)
    fill(str(tmp_path / "b"), "1-0", keep_text=kept, seed=2)
    before = [read_files(tmp_path / name) for name in "ab"]
    for sources, into in ((["a", "b"], "c"), (["b"], "a")):
        with pytest.raises(StoreMismatchError, match=REFUSED) as refused:
            list(
                merge_stores(
                    config, [str(tmp_path / each) for each in sources], f"{tmp_path}/{into}"
                )
            )
        assert why in str(refused.value)
        assert "(scrapy simhash import STORE --into COPY)" in str(refused.value)
    assert [read_files(tmp_path / name) for name in "ab"] == before
    assert not (tmp_path / "c").exists()


def test_a_text_that_gives_another_fingerprint_is_refused(tmp_path: Path) -> None:
    """The whole text proposed it, as with the confirmation; or other libraries read it."""
    fill(str(tmp_path / "a"), "0-0", seed=1)
    with open_store(str(tmp_path / "b"), DISTANCE, seed=2) as store:
        made = fingerprint_page(PAGES["1-0"], seed=store.seed)
        page = make_document(made, RULE, b"b", keep_text=True, url="http://site.example/b")
        other = make_document(made, RULE, b"c", keep_text=True, url="http://site.example/c")
        wrong = [page, type(other)(**(as_fields(other) | {"fingerprints": (1,)}))]
        store.find_and_add(wrong)
    with pytest.raises(StoreMismatchError, match=r"kept of http://site\.example/c"):
        merge(str(tmp_path / "c"), tmp_path / "a", tmp_path / "b")


def as_fields(document: Any) -> dict[str, Any]:
    return {name: getattr(document, name) for name in document.__struct_fields__}


def test_bulk_loaded_fingerprints_have_no_texts(tmp_path: Path) -> None:
    fill(str(tmp_path / "a"), "0-0", seed=1)
    with open_store(str(tmp_path / "b"), DISTANCE, seed=2) as store:
        store.bulk_load(np.array([5], np.uint64))
    with pytest.raises(StoreMismatchError, match="it has bulk-loaded fingerprints, of which"):
        merge(str(tmp_path / "a"), tmp_path / "b")


def test_the_command_says_what_it_made_anew(tmp_path: Path, run: Run) -> None:
    fill(str(tmp_path / "a"), "0-0", seed=1)
    fill(str(tmp_path / "b"), "1-0", seed=2)
    refused = run("import", "a", "b", "--into", "c")
    assert (refused.exit_code, refused.out) == (2, "")
    assert REFUSED in refused.err
    done = run("-s", "SIMHASH_CONFIRM=None", "import", "a", "b", "--into", "c")
    assert "new fingerprints from the texts of b, which has another seed" in done.out


def test_a_new_store_says_how_to_share_its_seed(
    home: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "scrapy_simhash")
    open_store(home).close()
    assert "to merge it with other stores one day, begin those as copies of it" in caplog.text
    assert f"(scrapy simhash import {home} --into COPY)" in caplog.text
    caplog.clear()
    open_store(home).close()
    list(merge_stores(PLAIN, [home], str(tmp_path / "copy")))
    assert caplog.text == ""
