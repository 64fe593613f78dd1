"""Stores taken over by others: as if all documents had come in order of time, and copies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.config import Config
from scrapy_simhash.errors import StoreError, StoreMismatchError, StoreUnavailableError
from scrapy_simhash.judging.merging import Row
from scrapy_simhash.pages import Recipe
from scrapy_simhash.stores import Store, open_store
from scrapy_simhash.stores.redis.tables import TableWriter
from scrapy_simhash.transfer.exchange import merge_stores
from tests.helpers.commanding import Run
from tests.helpers.documents import document
from tests.helpers.oracle import distance_between

STORE_KINDS = ("redis", "cluster")
SEED, DISTANCE = 11, 3
# Few bits apart, so that chains and choices between several originals are common.
FINGERPRINTS = [0, 0b1, 0b111, 0b11111, 0b1111111, 0b111111111, 0xFF00, 0xFF0F]


@dataclass(frozen=True)
class Came:
    """A page that came to one of the stores."""

    time: int
    store: int
    fingerprint: int


def come(store: Store, time: int, fingerprint: int, **fields: Any) -> str:
    """Let a page come and its items come through; returns what it was judged."""
    given = document(f"page {time}", fingerprint, time=float(time), crawl="c", **fields)
    (verdict,) = store.find_and_add([given], crawl="c")
    store.mark_done([verdict.document], "c")
    return verdict.status


def make_store(path: Path | str, **fields: Any) -> Store:
    return open_store(str(path), DISTANCE, **{"seed": SEED, **fields})


def merge(into: Path | str, *sources: Path | str) -> dict[str, Any]:
    config = Config(distance=DISTANCE, confirm=None)
    (answer,) = merge_stores(config, [str(source) for source in sources], str(into))
    return answer


def read_all(store: Store) -> list[Row]:
    return store.read_rows([number for number, _, _ in store.list_first_times()])


def originals(rows: Sequence[Row]) -> set[bytes]:
    return {row.record.identity for row in rows if row.record.state.name != "DUPLICATE"}


def judge_in_order(came: Sequence[Came], dropped: set[int]) -> dict[int, int]:
    """Judge by brute force what all stores kept, in order of time.

    Two that were kept in one store are no near-duplicates of each other: they were judged there.

    Returns:
        The time of each page that was not dropped, and that of what it is a near-duplicate of, or
        itself.
    """
    found: dict[int, int] = {}
    kept: list[Came] = []
    for page in sorted(came, key=lambda page: page.time):
        if page.time in dropped:
            continue
        near = [
            (distance_between(page.fingerprint, other.fingerprint), other.time)
            for other in kept
            if other.store != page.store
        ]
        best = min((each for each in near if each[0] <= DISTANCE), default=None)
        found[page.time] = best[1] if best else page.time
        if best is None:
            kept.append(page)
    return found


@given(
    pages=st.lists(
        st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from(FINGERPRINTS)), max_size=10
    ),
    at_once=st.booleans(),
)
# The second is no original any more when the third is judged.
@example(pages=[(1, 0), (0, 0b111), (2, 0b11111)], at_once=True)
# Two that are as near, and the older one came to the target later.
@example(pages=[(1, 0b1111111), (0, 0b111), (2, 0b11111)], at_once=True)
def test_a_merge_is_as_if_all_had_come_in_order_of_time(
    pages: list[tuple[int, int]],
    at_once: bool,
) -> None:
    """Store 0 is the target; what its own judgement dropped stays dropped, and its edges kept."""
    came = [Came(time, store, bits) for time, (store, bits) in enumerate(pages, 1)]
    with TemporaryDirectory(dir="/dev/shm") as folder:
        paths = [Path(folder, name) for name in ("target", "first", "second")]
        dropped: set[int] = set()
        edges: dict[bytes, bytes] = {}
        for number, path in enumerate(paths):
            with make_store(path) as store:
                store.start_crawl("c", "spider")
                for page in came:
                    if page.store == number and come(store, page.time, page.fingerprint) != "new":
                        dropped.add(page.time)
                edges |= {
                    row.record.identity: row.original for row in read_all(store) if row.original
                }
        expected = judge_in_order(came, dropped)
        if at_once:
            merge(paths[0], *paths[1:])
        else:
            merge(Path(folder, "new"), *paths)
            paths[0] = Path(folder, "new")
        with make_store(paths[0]) as store:
            rows = {row.record.identity: row for row in read_all(store)}
            assert store.check() == []
        again = merge(paths[0], *paths[1:])
        assert again["became_near_duplicates"] == 0
        with make_store(paths[0]) as store:
            assert {r.record.identity: r.original for r in read_all(store)} == {
                identity: row.original for identity, row in rows.items()
            }
    assert len(rows) == len(came)
    for page in came:
        row = rows[f"page {page.time}".encode()]
        if page.time in dropped:
            assert row.original == edges[row.record.identity]
        elif expected[page.time] == page.time:
            assert row.record.state.name == "DONE"
        else:
            assert row.original == f"page {expected[page.time]}".encode()


BULK_LOADED = (0x5555_5555_5555_5555, 0x7F04 << 48)


def fill(path: Path | str, **fields: Any) -> None:
    """Make a store with a bit of everything: states, edges, aliases, texts, lost pages, gaps."""
    with make_store(path, **fields) as store:
        store.bulk_load(np.array(BULK_LOADED, np.uint64))
        store.start_crawl("c", "spider")
        come(store, 1, 0, text="first text", aliases=(b"alias", b"other"))
        come(store, 2, 1)
        come(store, 3, 0xFFFF << 20, scope="s", title="A title")
        come(store, 4, 0xFFFF << 40)
        gone = [match.document for match in store.query(0xFFFF << 40)]
        store.delete(gone)
        come(store, 5, BULK_LOADED[1], stub=True)
        # Their originals never come through.
        pages = [("p", 0xFF), ("d", 0xFE), ("w", 0xFF << 30), ("x", 0xFE << 30)]
        pending = [document(name, bits, crawl="c") for name, bits in pages]
        verdicts = store.find_and_add(pending, crawl="c")
        store.withdraw([verdicts[2].document], "c")
        store.find_and_add([], crawl="c", requests={verdicts[1].document: b"request"})
        store.spare([2])


def everything(store: Store) -> tuple[Any, ...]:
    rows = [row._replace(aliases=tuple(sorted(row.aliases))) for row in read_all(store)]
    return (
        rows,
        store.list_crawls(),
        store.bulk_loaded().tolist(),
        store.fingerprints().tolist(),
        (store.seed, store.recipe, store.design),
    )


def test_a_copy_is_the_same(tmp_path: Path) -> None:
    fill(tmp_path / "old", tables="5:3")
    before = (tmp_path / "old" / "data.mdb").read_bytes()
    answer = merge(tmp_path / "new", tmp_path / "old")
    assert answer["copied"]
    assert (answer["done"], answer["pending"], answer["near_duplicates"]) == (3, 2, 3)
    with make_store(tmp_path / "old") as old, make_store(tmp_path / "new") as new:
        assert everything(new) == everything(old)
        assert [row.number for row in read_all(new)] == [1, 2, 3, 5, 6, 7, 8, 9]
        assert new.check() == []
        new.start_crawl("later", "spider")
        assert [page.request for page in new.take_lost("later", "spider")] == [b"request", b""]
        (verdict,) = new.find_and_add([document("page 1", 0, text_digest=b"(0,)")])
        assert verdict.status == "revisit"
        assert verdict.document == 1
        (verdict,) = new.find_and_add([document("alias", 0)])
        assert (verdict.status, verdict.document) == ("revisit", 1)
        (verdict,) = new.find_and_add([document("page 20", 1 << 60)])
        assert verdict.document == 10
    assert (tmp_path / "old" / "data.mdb").read_bytes() == before


def test_a_copy_goes_on(tmp_path: Path) -> None:
    """After a kill, and after more pages came to the old store."""
    fill(tmp_path / "old")
    with make_store(tmp_path / "old") as old, make_store(tmp_path / "new") as new:
        new.copy_rows(old.read_rows([1, 2, 3]))
    answer = merge(tmp_path / "new", tmp_path / "old")
    assert (answer["copied"], answer["known"]) == (True, 3)
    with make_store(tmp_path / "old") as old:
        old.start_crawl("d", "spider")
        # Fetched again, with another text; and a new one.
        come(old, 3, 0xFFFF << 24, scope="s")
        come(old, 21, 0x3333 << 44)
    answer = merge(tmp_path / "new", tmp_path / "old")
    assert (answer["copied"], answer["known"], answer["done"]) == (True, 7, 2)
    with make_store(tmp_path / "old") as old, make_store(tmp_path / "new") as new:
        assert everything(new) == everything(old)
        assert new.check() == []
        assert old.check() == []


def test_two_originals_of_one_store_stay_both(tmp_path: Path) -> None:
    """The second was unlike the first one when it came."""
    with make_store(tmp_path / "a") as store:
        store.start_crawl("c", "spider")
        come(store, 1, 0)
        come(store, 2, 0xFFFF)
        store.find_and_add([document("page 2", 1, time=2.0, crawl="c")], crawl="c")
        store.mark_done([2], "c")
    with make_store(tmp_path / "b") as store:
        store.start_crawl("c", "spider")
        come(store, 3, 0xFFFF << 40)
    for known in (0, 2):
        answer = merge(tmp_path / "b", tmp_path / "a")
        assert not answer["copied"]
        assert (answer["known"], answer["became_near_duplicates"]) == (known, 0)
        with make_store(tmp_path / "b") as store:
            assert originals(read_all(store)) == {b"page 1", b"page 2", b"page 3"}


def test_of_two_records_of_a_page_the_delivered_one_counts_and_the_later(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make_store(tmp_path / name).close()
    with make_store(tmp_path / "a") as store:
        store.start_crawl("c", "spider")
        come(store, 1, 0, text="old")
        come(store, 2, 0xFFFF)
        come(store, 4, 0xFFFE)
        store.find_and_add([document("page 5", 0xFF << 30, time=5.0)])  # never done
    with make_store(tmp_path / "b") as store:
        store.start_crawl("c", "spider")
        again = document("page 1", 0xFF << 20, time=9.0, crawl="c", text="new", aliases=(b"alias",))
        (verdict,) = store.find_and_add([again], crawl="c")
        store.mark_done([verdict.document], "c")
        come(store, 4, 0xFF << 50)
        come(store, 5, 0xFF << 40)
    merge(tmp_path / "c", tmp_path / "a", tmp_path / "b")
    with make_store(tmp_path / "c") as store:
        found = {row.record.identity: row for row in read_all(store)}
        page = found[b"page 1"]
        assert (page.record.first_time, page.record.time) == (1.0, 9.0)
        assert (page.record.fingerprints, page.text) == ((0xFF << 20,), "new")
        assert page.aliases == (b"alias",)
        assert found[b"page 4"].record.fingerprints == (0xFF << 50,)
        assert found[b"page 5"].record.fingerprints == (0xFF << 40,)
        assert originals(list(found.values())) == {b"page 1", b"page 2", b"page 4", b"page 5"}
        assert store.check() == []


@pytest.mark.parametrize("copied", [True, False])
def test_a_later_record_without_text_has_not_that_of_the_earlier(
    tmp_path: Path, copied: bool
) -> None:
    with make_store(tmp_path / "old") as store:
        store.start_crawl("c", "spider")
        come(store, 1, 0, text="first")
    target = tmp_path / "target"
    if not copied:
        with make_store(target) as store:
            store.start_crawl("c", "spider")
            come(store, 7, 0xFF << 50)
    merge(target, tmp_path / "old")
    with make_store(tmp_path / "old") as store:
        again = document("page 1", 0xFF << 20, time=9.0, crawl="c")
        (verdict,) = store.find_and_add([again], crawl="c")
        store.mark_done([verdict.document], "c")
    assert merge(target, tmp_path / "old")["copied"] == copied
    with make_store(target) as store:
        found = {row.record.identity: row for row in read_all(store)}
        assert found[b"page 1"].record.time == 9.0
        assert found[b"page 1"].text is None


def test_a_merge_says_how_far_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_simhash.transfer.exchange._ROWS_PER_GROUP", 2)
    fill(tmp_path / "old")
    copy_rows, calls = Store.copy_rows, []

    def fail(store: Store, rows: Sequence[Row]) -> Any:
        calls.append(rows)
        if len(calls) == 3:
            raise StoreUnavailableError("no room")
        return copy_rows(store, rows)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "copy_rows", fail)
        told = "no room. 4 of 8 documents were merged; run the same command again"
        with pytest.raises(StoreUnavailableError, match=told):
            merge(tmp_path / "new", tmp_path / "old")
    assert merge(tmp_path / "new", tmp_path / "old")["known"] == 4


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seed": 12}, "was made with another seed than"),
        ({"seed": SEED, "recipe": Recipe("html2txt")}, "extractor: 'turbohtml' / 'html2"),
    ],
)
def test_stores_that_cannot_be_compared(
    run: Run, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    fill(tmp_path / "a")
    open_store(str(tmp_path / "b"), **fields).close()
    before = (tmp_path / "b" / "data.mdb").read_bytes()
    done = run("import", "a", "b", "--into", "c")
    assert (done.exit_code, done.out) == (2, "")
    assert message in done.err
    assert not (tmp_path / "c").exists()
    with pytest.raises(StoreMismatchError):
        merge(tmp_path / "b", tmp_path / "a")
    assert (tmp_path / "b" / "data.mdb").read_bytes() == before
    done = run("import", "a", "--into", "a")
    assert done.exit_code == 2
    assert "cannot be merged into itself" in done.err
    assert run("import", "nowhere", "--into", "c").exit_code == 2


def test_an_import_of_a_store_is_a_merge(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "a")
    counted = run("import", "a", "--store", "b", "--dry-run", "--json").answers
    assert counted == [{"source": "a", "kind": "store", "documents": 8, "fingerprints": 6}]
    assert not (tmp_path / "b").exists()
    (answer,) = run("import", "a", "--store", "b", "--json").answers
    assert answer["documents"] == 8
    with open_store(str(tmp_path / "b")) as store:
        assert store.stats()["documents"] == 8


def test_a_store_moves_to_redis_and_back(home: str, tmp_path: Path) -> None:
    fill(tmp_path / "old", tables="5:3")
    url = home
    answer = merge(url, tmp_path / "old")
    assert (answer["copied"], answer["documents"]) == (True, 8)
    merge(tmp_path / "back", url)
    with (
        make_store(tmp_path / "old") as old,
        make_store(url) as moved,
        make_store(tmp_path / "back") as back,
    ):
        assert everything(old) == everything(moved) == everything(back)
        assert moved.check() == back.check() == []
        # A crawl goes on in it.
        moved.start_crawl("later", "spider")
        assert [page.request for page in moved.take_lost("later", "spider")] == [b"request", b""]
        again, alias, new = moved.find_and_add(
            [
                document("page 1", 0, text_digest=b"(0,)", time=30.0),
                document("alias", 0, time=30.0),
                document("page 20", 0x3333 << 44, time=30.0),
            ]
        )
        assert (again.status, again.reason, again.document) == ("revisit", "unchanged", 1)
        assert (alias.status, alias.document) == ("revisit", 1)
        assert (new.status, new.document) == ("new", 10)
    answer = merge(tmp_path / "back", url)
    assert (answer["copied"], answer["known"], answer["pending"]) == (True, 5, 1)


def test_a_move_that_died_while_it_bulk_loaded_is_completed(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is bulk-loaded was noted, and is not in the tables yet."""
    fill(tmp_path / "old")
    url = home

    def fail(*_: object) -> None:
        raise StoreUnavailableError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(TableWriter, "finish", fail)
        with pytest.raises(StoreUnavailableError, match=r"gone\. No document was merged"):
            merge(url, tmp_path / "old")
    merge(url, tmp_path / "old")
    with make_store(tmp_path / "old") as old, make_store(url) as moved:
        assert everything(old) == everything(moved)
        assert moved.check() == []


def test_a_store_is_merged_into_one_on_redis(home: str, tmp_path: Path) -> None:
    """And the same ones into a folder: both are the same."""
    draw = np.random.default_rng(3)
    targets = [str(tmp_path / "target"), home]
    sources = [str(tmp_path / "first"), f"{home}-source"]
    for path in (*targets, *sources):
        with make_store(path) as store:
            store.start_crawl("c", "spider")
            store.end_crawl("c")
    pages = [
        (time, int(draw.integers(3)), FINGERPRINTS[draw.integers(len(FINGERPRINTS))])
        for time in range(1, 25)
    ]
    for store_number, paths in enumerate((targets, sources[:1], sources[1:])):
        for path in paths:
            with make_store(path) as store:
                for time, number, bits in pages:
                    if number == store_number:
                        come(store, time, bits)
    for target in targets:
        assert merge(target, *sources)["documents"] == 24 - len(
            [page for page in pages if page[1] == 0]
        )
    with make_store(targets[0]) as folder, make_store(targets[1]) as server:
        found = [
            {r.record.identity: (r.record.state, r.original) for r in read_all(store)}
            for store in (folder, server)
        ]
        assert found[0] == found[1]
        assert folder.check() == server.check() == []
    assert len(found[0]) == 24


@pytest.mark.parametrize("change", ["fetched", "delivered", "spared"])
def test_a_copy_that_went_on_by_itself_keeps_what_is_later(tmp_path: Path, change: str) -> None:
    """The same command once more, after a crawl of the same pages or `undo`."""
    with make_store(tmp_path / "old") as old:
        old.start_crawl("c", "spider")
        come(old, 1, 0)
        come(old, 2, 1)
        come(old, 3, 0xFFFF << 20)
        old.find_and_add([document("page 4", 0xFF << 40, time=4.0, crawl="c")])
    merge(tmp_path / "new", tmp_path / "old")
    with make_store(tmp_path / "new") as new:
        new.start_crawl("d", "spider")
        if change == "spared":
            new.spare([2])
        else:
            pages = {
                "fetched": document("page 3", 0xFFFF << 40, time=9.0, crawl="d", text="later"),
                "delivered": document("page 4", 0xFF << 40, time=4.0, crawl="d"),
            }
            (verdict,) = new.find_and_add([pages[change]])
            new.mark_done([verdict.document], "d")
        before = everything(new)
        answer = merge(tmp_path / "new", tmp_path / "old")
        assert (answer["documents"], answer["known"]) == (4, 4)
        assert everything(new) == before
        with make_store(tmp_path / "old") as old, pytest.raises(StoreError, match="meanwhile"):
            new.copy_rows(read_all(old))
        assert new.check() == []
