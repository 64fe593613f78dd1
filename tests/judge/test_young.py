"""Young pages: found like others, waited for in bounds, written or forgotten; and who got what."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.judge import judge as module
from scrapy_simhash.judge import young as young_module
from scrapy_simhash.judge.messages import Again, Outcome
from scrapy_simhash.judge.refetches import Refetches
from scrapy_simhash.judge.young import Young
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.hosts import SAMPLE, draw_sample
from scrapy_simhash.pages.facts import EVERYONE, Facts, Reader
from scrapy_simhash.stores.keys import rank_by_keys
from scrapy_simhash.stores.store import Store
from tests.helpers.crawling import list_states
from tests.helpers.judging import Judging, fetched, judging
from tests.helpers.pages import make_page, make_words, page

KEPT = "near_duplicate undelivered pass"


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Judging]:
    with judging(tmp_path) as running:
        yield running


def copies(text: int, count: int = 8) -> list[str]:
    return [page(text, menu=f"Menu {n}") for n in range(count)]


def stored(where: Judging | Path) -> dict[str, str]:
    """Read the documents of a crawl, or of its store once it ended."""
    if isinstance(where, Path):
        return {path[-1]: state for path, state in list_states(where).items()}
    store = where.judge._store
    assert store.check() == []
    return {each.facts.url[-1]: each.state.name.lower() for each in store.list_documents()}


def refuse(*_: object, **__: object) -> None:
    raise StoreUnavailableError("the disk is full")


def test_a_copy_waits_until_its_original_is_ruled_out(crawl: Judging) -> None:
    first, second, *_ = copies(1)
    one, two = crawl.ask("1", first), crawl.ask("2", second)
    assert (crawl.find(one), crawl.find(two)) == ("new", "waits")
    crawl.settle(one, write=False)
    # It counts before it is written.
    assert crawl.find(two) == "near_duplicate drop"
    assert crawl.said[two].waited_seconds > 0
    assert stored(crawl) == {}
    crawl.write()
    assert stored(crawl) == {"1": "done", "2": "duplicate"}
    assert crawl.decision(two).match_document == crawl.decision(one).document


def test_after_waits_in_vain_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For that page, and after three for that callback, on whatever host."""
    with judging(tmp_path, scope="host") as crawl:
        for text in range(3):
            host = f"{text}.example"
            for n, html in enumerate(copies(text, 2)):
                crawl.ask(str(n), html, host=host)
            with monkeypatch.context() as patch:
                patch.setattr(module, "WAIT_SECONDS", 0.0)
                crawl.judge.tick()
            assert crawl.find(crawl.ask("9", copies(text)[5], host=host)) == KEPT
        one, two = (crawl.ask(str(n), html) for n, html in enumerate(copies(9, 2)))
        assert (crawl.find(one), crawl.find(two)) == ("new", KEPT)


@pytest.mark.parametrize(
    ("action", "found"), [("flag", "near_duplicate flag"), ("ignore-outlinks", "waits")]
)
def test_what_loses_nothing_waits_for_nobody(crawl: Judging, action: str, found: str) -> None:
    crawl.ask("0", page(1))
    assert crawl.find(crawl.ask("1", page(1, menu="Other"), action)) == found


def test_the_oldest_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_YOUNG", 3)
    with judging(tmp_path) as crawl:
        numbers = [crawl.ask(str(n), page(n)) for n in range(4)]
        assert crawl.find(crawl.ask("x", page(0, menu="Other"))) == "new"
        assert crawl.find(crawl.ask("y", page(3, menu="Other"))) == "waits"
        crawl.settle(numbers[0])
    assert stored(tmp_path) == {}


def test_a_full_group_is_written_at_once(crawl: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a crawl is faster than its store, the pages that wait would fill the memory."""
    monkeypatch.setattr(module, "_MOST_PER_COMMIT", 3)
    for number in range(9):
        crawl.judge._next_commit = inf  # it has used up its share of the time
        crawl.settle(crawl.ask(str(number), page(number)), write=False)
        crawl.judge.tick()
        assert len(crawl.judge._queue) == (number + 1) % 3
    monkeypatch.setattr(Store, "write", refuse)
    for number in range(9, 13):
        crawl.settle(crawl.ask(str(number), page(number)), write=False)
    crawl.judge.tick()
    crawl.settle(crawl.ask("13", page(13)), write=False)
    assert crawl.judge._next_commit > 0  # one that fails is not tried with every page


def test_a_change_that_breaks_costs_the_others_nothing(
    crawl: Judging, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = crawl.ask("0", page(1)), crawl.ask("1", page(2))
    crawl.judge._young.pages[one].document.tests = (object(),)  # type: ignore[assignment]
    crawl.settle(one, write=False)
    crawl.settle(two)
    assert stored(crawl) == {"1": "done"}
    assert "Not written: " in caplog.text


def test_whatever_breaks_the_page_passes(crawl: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OverflowError("too many")

    with monkeypatch.context() as patch:
        patch.setattr(module, "make_document", fail)
        number = crawl.ask("0", page(1))
    assert crawl.find(number) == "not_judged failed"
    with monkeypatch.context() as patch:
        patch.setattr(Young, "add", fail)
        assert crawl.find(crawl.ask("0", page(1))) == "not_judged failed"
    assert crawl.deliver("0", page(1)) == "new"


def test_the_time_of_the_store_is_not_the_page_s(
    crawl: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Redis that is away takes ten seconds to say so."""
    seen, judge, begun = [], crawl.judge._judge, note_begun(crawl, monkeypatch)

    def look(*given: Any) -> Any:
        seen.append(begun[-1])
        return judge(*given)

    monkeypatch.setattr(crawl.judge, "_judge", look)
    number = crawl.ask("a", page(1))
    crawl.judge.tick()
    assert (seen, begun[-1]) == ([(number, True)], (0, False))


def note_begun(crawl: Judging, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Note what the judge says that it is at, and whether a page may take a minute there."""
    begun: list[tuple[int, bool]] = []

    def begin(number: int, *, loading: bool = False) -> None:
        begun.append((number, loading))

    monkeypatch.setattr(crawl.judge._reader, "begin", begin)
    return begun


def test_a_page_for_which_is_asked_once_more_takes_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge waits for an answer then: ten seconds later it would be killed."""

    def record(number: int, price: int) -> str:
        name, text = (" ".join(make_words(number, count)) for count in (2, 80))
        return f"<title>{name}</title><h1>{name}</h1><p>{text}</p><p>Price: {price} EUR</p>"

    with judging(tmp_path, refetch=10) as crawl:
        for number in range(8):
            assert crawl.deliver(f"p/{number}", record(number, number)) == "new"
        begun = note_begun(crawl, monkeypatch)
        prices = iter(range(20, 30))
        for number, answers in enumerate(
            # The last answer is of the copy itself.
            (["waits", "waits", "near_duplicate drop"], ["waits", "near_duplicate drop"])
        ):
            copy = crawl.ask(f"p/{number}?by=mail", record(number, next(prices)))
            for answer in answers:
                body = record(number, next(prices)).encode()
                document = crawl.refetches.pop().document
                crawl.judge.take(Again(document, fetched(f"p/{number}"), body))
                crawl.judge.tick()
                assert (crawl.find(copy), begun[-1]) == (answer, (0, False))


def test_what_breaks_ends_no_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Refetches, "learn")
    text = f"<title>A</title><h1>A</h1><p>{' '.join(make_words(1, 80))}</p><p>Price:"
    with judging(tmp_path, refetch=10) as crawl:
        assert crawl.deliver("p/1", f"{text} 1 EUR") == "new"
        copy = crawl.ask("p/1?by=mail", f"{text} 2 EUR")
        crawl.judge.take(Again(crawl.refetches[0].document, fetched("p/1"), text.encode()))
        assert crawl.find(copy) == "new"


def test_pages_of_one_host_and_template_cost_no_more(
    crawl: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spiders whose pipelines drop all items have 10,000 young pages until the end."""
    sizes: set[int] = set()

    def draw(pages: list[bytes], *given: Any) -> list[bytes]:
        sizes.add(len(pages))
        return draw_sample(pages, *given)

    def rank(found: Iterable[Sequence[int]]) -> dict[int, int]:
        listed = list(found)
        sizes.update(map(len, listed))
        return rank_by_keys(listed)

    monkeypatch.setattr(young_module, "draw_sample", draw)
    monkeypatch.setattr(young_module, "rank_by_keys", rank)
    template = make_words(7, 300)
    words = {f"Title {n}": [*template, *make_words(n, 150)] for n in range(60, 110)}
    pages = [make_page(each, title=title) for title, each in words.items()]
    for n, html in enumerate(pages):
        one = crawl.ask(str(n), html)
        assert crawl.find(one) == "new"
        crawl.settle(one, "unwanted")
    for n in (0, 30, 49):
        copy = crawl.ask(f"copy {n}", pages[n].replace("Menu", "Other"))
        assert crawl.find(copy) == "near_duplicate drop"
    assert max(sizes) <= 2 * SAMPLE


def test_no_page_is_young_while_all_others_are_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_YOUNG", 3)
    with judging(tmp_path) as crawl:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "write", refuse)
            numbers = [crawl.ask(str(n), page(n)) for n in range(3)]
            for number in numbers:
                crawl.settle(number)
            found = [crawl.find(crawl.ask(str(n), page(n))) for n in (3, 4, 5)]
            assert found == ["not_judged store_unavailable"] * 3
        crawl.write()
        assert crawl.deliver("6", page(6)) == "new"
    assert stored(tmp_path) == dict.fromkeys("0126", "done")


def make_entry(number: int, fingerprint: int, url: str, **known: Any) -> Document:
    return Document(Facts(b"%d" % number, fingerprint, b"", url=url, **known), number=number)


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 2**64 - 1), st.booleans()), max_size=40),
    st.integers(0, 2**64 - 1),
    st.integers(0, 40),
)
def test_near_pages_are_found_as_by_comparing_each(
    steps: list[tuple[int, int, bool]], query: int, bits: int
) -> None:
    young, there = Young(0, set()), dict[int, int]()
    for number, fingerprint, adds in steps:
        if adds and number not in there:
            entry = make_entry(number, fingerprint, "")
            young.add(number, entry, is_new=True)
            there[number] = fingerprint
        elif not adds and there.pop(number, None) is not None:
            young.pop(number)
    found = young.find_near(query, bits)
    distances = {number: (each ^ query).bit_count() for number, each in there.items()}
    assert found == {number: each for number, each in distances.items() if each <= bits}
    assert len(young.pages) == len(there)
    for number in list(there):
        young.pop(number)
    assert not young._found
    assert not young._fingerprints


LINKS = [f"http://site.example/item{number}" for number in range(20)]
LISTS, ITEMS = Reader("spider", "parse_list"), Reader("spider", "parse_item")


@pytest.mark.parametrize(("outcome", "links"), [("failed", 20), ("done", 0), ("unwanted", 0)])
def test_links_of_pages_whose_callbacks_failed_are_not_followed(
    tmp_path: Path, outcome: Outcome, links: int
) -> None:
    with judging(tmp_path) as crawl:
        crawl.settle(crawl.ask("list", page(9, links=LINKS)), outcome)
        crawl.deliver("original", page(1))
        copy = crawl.ask("copy", page(1, links=LINKS, menu="x"))
        assert (crawl.find(copy), len(crawl.close().left)) == ("near_duplicate drop", links)


@pytest.mark.parametrize("same", [True, False])
def test_what_one_callback_got_of_an_import_no_other_got(tmp_path: Path, *, same: bool) -> None:
    with judging(tmp_path, crawl="import", incremental=True) as crawl:
        crawl.deliver("one", page(1), reader=EVERYONE, identity=b"import")
    with judging(tmp_path) as crawl:
        if same:
            found = crawl.deliver("one", page(1), reader=LISTS, imported=b"import")
            assert found == "revisit unchanged"
        else:
            found = crawl.deliver("copy", page(1, menu="x"), reader=LISTS)
            assert found == "near_duplicate first_copy pass"
        other = crawl.deliver("other", page(1, menu="y"), reader=ITEMS)
        assert other == "near_duplicate first_copy pass"
        assert crawl.deliver("more", page(1, menu="z"), reader=LISTS) == "near_duplicate drop"
