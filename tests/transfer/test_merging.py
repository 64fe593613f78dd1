"""Stores that take over others: judged in the order of time, made anew of texts, and copied."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.config import Config
from scrapy_simhash.errors import StoreMismatchError, StoreUnavailableError
from scrapy_simhash.judging.rows import key_of_lost
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from scrapy_simhash.transfer.merging import Row, list_numbers, merge_stores, read_rows
from tests.helpers.commanding import Run
from tests.helpers.crawling import read_files
from tests.helpers.documents import document
from tests.helpers.oracle import distance_between
from tests.helpers.owing import take_owed, write_request

SEED, DISTANCE = 11, 3
PLAIN = Config(distance=DISTANCE, confirm=None)
# Few bits apart, so that chains and choices between several originals are common.
FINGERPRINTS = [0, 0b1, 0b111, 0b11111, 0b1111111, 0b111111111, 0xFF00, 0xFF0F]
# (index of the store, fingerprint) of pages; their times are 1, 2, ...
Pages = list[tuple[int, int]]


def come(store: Store, page: int, fingerprint: int, **fields: Any) -> None:
    """Let a page come, by default at the time of its number, and its items come through."""
    given = {"time": float(page), "crawl": "c", **fields}
    (verdict,) = store.find_and_add([document(f"page {page}", fingerprint, **given)])
    store.mark_done([verdict.document], given["crawl"])


def make_store(path: Path | str, **fields: Any) -> Store:
    store = open_store(str(path), DISTANCE, **{"seed": SEED, **fields})
    store.start_crawl("c", "spider")
    return store


def merge(into: Path | str, *sources: Path | str, config: Config = PLAIN) -> dict[str, Any]:
    (answer,) = merge_stores(config, [str(source) for source in sources], str(into))
    return answer


def read_all(path: Path | str) -> dict[str, Row]:
    with open_store(str(path), 0, readonly=True) as store:
        assert store.check() == []
        return {row.record.identity.decode(): row for row in read_rows(store, list_numbers(store))}


def read_edges(path: Path | str) -> dict[str, str]:
    """Get what each document is a near-duplicate of, "" for nothing."""
    return {name: row.original.decode() for name, row in read_all(path).items()}


def make_stores(paths: list[Path | str], pages: Pages) -> dict[str, str]:
    """Make a store of each path, with its pages; returns their edges."""
    edges: dict[str, str] = {}
    for number, path in enumerate(paths):
        with make_store(path) as store:
            for time, (place, fingerprint) in enumerate(pages, 1):
                if place == number:
                    come(store, time, fingerprint)
        edges |= read_edges(path)
    return edges


def judge_in_order(pages: Pages, edges: dict[str, str], first: set[int]) -> dict[str, str]:
    """Judge by brute force what was kept, in order of time; what `first` stores have stays."""
    kept: list[tuple[int, int, str]] = []
    found = dict(edges)
    order = sorted(enumerate(pages, 1), key=lambda item: (item[1][0] not in first, item[0]))
    for time, (place, fingerprint) in order:
        name = f"page {time}"
        if edges[name]:
            continue
        near = [
            (distance_between(fingerprint, other), rank, original) for rank, other, original in kept
        ]
        best = min((match for match in near if match[0] <= DISTANCE), default=None)
        if best is not None and place not in first:
            found[name] = best[2]
        else:
            kept.append((len(kept), fingerprint, name))
    return found


@given(
    pages=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(FINGERPRINTS)), max_size=10),
    into_first=st.booleans(),
)
# The second is no original any more when the third is judged.
@example(pages=[(1, 0), (0, 0b111), (2, 0b11111)], into_first=True)
# Two that are as near, and the older one came to the target later.
@example(pages=[(1, 0b1111111), (0, 0b111), (2, 0b11111)], into_first=True)
def test_a_merge_judges_in_the_order_of_time(pages: Pages, into_first: bool) -> None:
    """What was dropped in its store stays dropped, for the same page; once more changes nothing."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        paths: list[Path | str] = [Path(folder, name) for name in ("first", "second", "third")]
        edges = make_stores(paths, pages)
        target = paths[0] if into_first else Path(folder, "new")
        expected = judge_in_order(pages, edges, {0} if into_first else set())
        for _ in range(2):
            answer = merge(target, *paths[into_first:])
            assert read_edges(target) == expected
        assert answer["known"] == answer["documents"]


def test_a_merge_into_any_kind_of_store(home: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    pages = [(int(draw.integers(3)), int(draw.choice(FINGERPRINTS))) for _ in range(24)]
    paths: list[Path | str] = [f"{home}-target", tmp_path / "second", f"{home}-third"]
    expected = judge_in_order(pages, make_stores(paths, pages), {0})
    merge(*paths)
    assert read_edges(paths[0]) == expected


BULK_LOADED = (0x5555_5555_5555_5555, 0x7F04 << 48)


def fill(path: Path | str, **fields: Any) -> None:
    """Make a store with a bit of everything: states, edges, aliases, texts, lost pages, gaps."""
    with make_store(path, **fields) as store:
        store.bulk_load(np.array(BULK_LOADED, np.uint64))
        come(store, 1, 0, text="first text", aliases=(b"alias", b"other"))
        come(store, 2, 1)
        come(store, 3, 0xFFFF << 20, scope="s", title="A title")
        come(store, 4, 0xFFFF << 40)
        store.delete([match.document for match in store.query(0xFFFF << 40)])
        come(store, 5, BULK_LOADED[1], stub=True)
        # Their originals never come through.
        pages = [("p", 0xFF), ("d", 0xFE), ("w", 0xFF << 30), ("x", 0xFE << 30)]
        pending = [document(name, bits, crawl="c") for name, bits in pages]
        verdicts = store.find_and_add(pending, crawl="c")
        store.withdraw([verdicts[2].document], "c")
        write_request(store, key_of_lost(verdicts[1].document), b"request")
        store.spare([2])


def everything(path: Path | str) -> tuple[Any, ...]:
    rows = {
        name: row._replace(aliases=tuple(sorted(row.aliases)))
        for name, row in read_all(path).items()
    }
    with open_store(str(path), 0, readonly=True) as store:
        return (
            rows,
            store.read(lambda stored: stored.list_crawls()),
            store.bulk_loaded().tolist(),
            store.fingerprints().tolist(),
            (store.seed, store.recipe, store.design),
        )


def test_a_store_moves_to_another_kind_and_back(home: str, tmp_path: Path) -> None:
    old, moved, back = tmp_path / "old", f"{home}-moved", tmp_path / "back"
    fill(old, tables="5:3")
    before = read_files(old)
    answer = merge(moved, old)
    assert (answer["copied"], answer["documents"]) == (True, 8)
    assert (answer["done"], answer["pending"], answer["near_duplicates"]) == (3, 2, 3)
    merge(back, moved)
    assert everything(old) == everything(moved) == everything(back)
    assert [row.number for row in read_all(moved).values()] == [1, 2, 3, 5, 6, 7, 8, 9]
    assert read_files(old) == before
    # A crawl goes on in it.
    with open_store(str(moved), DISTANCE) as store:
        store.start_crawl("later", "spider")
        assert [owed.request for _, owed in take_owed(store, "later")] == [b"request", b""]
        again, alias, new = store.find_and_add(
            [
                document("page 1", 0, text_digest=b"(0,)", time=30.0),
                document("alias", 0, time=30.0),
                document("page 20", 0x3333 << 44, time=30.0),
            ]
        )
        assert (again.status, again.reason, again.document) == ("revisit", "unchanged", 1)
        assert (alias.status, alias.document) == ("revisit", 1)
        assert (new.status, new.document) == ("new", 10)
    answer = merge(back, moved)
    assert (answer["copied"], answer["known"], answer["pending"]) == (True, 5, 1)


def test_an_interrupted_copy_is_completed_and_goes_on(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails when it has a part of the documents; later the old one gets more of them."""
    old, new = tmp_path / "old", f"{home}-new"
    with make_store(old) as store:
        pages = [
            document(f"page {n}", n << 40 | 0xFFFF * (n % 2), time=float(n)) for n in range(70)
        ]
        store.find_and_add(pages)
    write = Store.write

    def fail(store: Store, work: Callable[[Any], Any], **options: Any) -> Any:
        if len(list_numbers(store)) >= 64:
            raise StoreUnavailableError("no room")
        return write(store, work, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "write", fail)
        told = "no room. 64 documents merged; run the same command again to merge the rest"
        with pytest.raises(StoreUnavailableError, match=told):
            merge(new, old)
    answer = merge(new, old)
    assert (answer["copied"], answer["known"], answer["documents"]) == (True, 64, 70)
    with open_store(str(old), DISTANCE) as store:
        store.start_crawl("d", "spider")
        # Fetched again, with another text; and a new one.
        come(store, 3, 0xFFFF << 24, crawl="d")
        come(store, 99, 0x3333 << 44, crawl="d")
    answer = merge(new, old)
    assert (answer["copied"], answer["known"], answer["documents"]) == (True, 69, 71)
    assert everything(new) == everything(old)


@pytest.mark.parametrize("change", ["fetched", "delivered", "spared"])
def test_a_copy_that_went_on_by_itself_keeps_what_is_later(tmp_path: Path, change: str) -> None:
    """The same command once more, after a crawl of the same pages or `undo`."""
    with make_store(tmp_path / "old") as old:
        come(old, 1, 0)
        come(old, 2, 1)
        come(old, 3, 0xFFFF << 20)
        old.find_and_add([document("page 4", 0xFF << 40, time=4.0, crawl="c")])
    merge(tmp_path / "new", tmp_path / "old")
    with open_store(str(tmp_path / "new"), DISTANCE) as new:
        new.start_crawl("d", "spider")
        if change == "spared":
            new.spare([2])
        elif change == "fetched":
            come(new, 3, 0xFFFF << 40, time=9.0, crawl="d", text="later")
        else:
            come(new, 4, 0xFF << 40, crawl="d")
    before = everything(tmp_path / "new")
    answer = merge(tmp_path / "new", tmp_path / "old")
    assert (answer["copied"], answer["documents"], answer["known"]) == (False, 4, 4)
    assert everything(tmp_path / "new") == before


def test_of_two_records_of_a_page_the_delivered_one_counts_and_the_later(tmp_path: Path) -> None:
    with make_store(tmp_path / "a") as store:
        come(store, 1, 0, text="old")
        come(store, 2, 0xFFFF)
        come(store, 4, 0xFFFE)
        store.find_and_add([document("page 5", 0xFF << 30, time=5.0)])  # never done
    with make_store(tmp_path / "b") as store:
        come(store, 1, 0xFF << 20, time=9.0, text="new", aliases=(b"alias",))
        come(store, 4, 0xFF << 50)
        come(store, 5, 0xFF << 40)
    merge(tmp_path / "c", tmp_path / "a", tmp_path / "b")
    found = read_all(tmp_path / "c")
    page = found["page 1"]
    assert (page.record.first_time, page.record.time) == (1.0, 9.0)
    assert (page.record.fingerprints, page.text) == ((0xFF << 20,), "new")
    assert page.aliases == (b"alias",)
    assert found["page 4"].record.fingerprints == (0xFF << 50,)
    assert found["page 5"].record.fingerprints == (0xFF << 40,)
    assert set(read_edges(tmp_path / "c").values()) == {""}


@pytest.mark.parametrize("copied", [True, False])
def test_a_later_record_without_text_has_not_that_of_the_earlier(
    tmp_path: Path, copied: bool
) -> None:
    with make_store(tmp_path / "old") as store:
        come(store, 1, 0, text="first")
    target = tmp_path / "target"
    if not copied:
        with make_store(target) as store:
            come(store, 7, 0xFF << 50)
    merge(target, tmp_path / "old")
    with make_store(tmp_path / "old") as store:
        come(store, 1, 0xFF << 20, time=9.0)
    assert merge(target, tmp_path / "old")["copied"] == copied
    page = read_all(target)["page 1"]
    assert (page.record.time, page.text) == (9.0, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seed": 12}, "was made with another seed than"),
        ({"recipe": Recipe("html2txt")}, "extractor: 'turbohtml' / 'html2"),
    ],
)
def test_stores_that_cannot_be_compared(
    run: Run, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    fill(tmp_path / "a")
    make_store(tmp_path / "b", **fields).close()
    before = read_files(tmp_path / "b")
    assert message in run.refused("import", "a", "b", "--into", "c")
    assert not (tmp_path / "c").exists()
    with pytest.raises(StoreMismatchError):
        merge(tmp_path / "b", tmp_path / "a")
    assert read_files(tmp_path / "b") == before
    done = run("import", "a", "--into", "a")
    assert done.exit_code == 2
    assert "cannot be merged into itself" in done.err
    assert run("import", "nowhere", "--into", "c").exit_code == 2


def test_an_import_of_a_store_is_a_merge(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "a")
    counted = run.answers("import", "a", "--store", "b", "--dry-run")
    assert counted == [{"source": "a", "kind": "store", "documents": 8, "fingerprints": 6}]
    assert not (tmp_path / "b").exists()
    answer = run.answer("import", "a", "--store", "b")
    assert answer["documents"] == 8
    assert len(read_all(tmp_path / "b")) == 8
