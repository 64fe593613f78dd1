"""What changes by itself is measured: kept pages are asked for once more."""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from scrapy import signals
from scrapy.http import Request

from scrapy_simhash.judge import refetches
from scrapy_simhash.stores.opening import open_as_it_is
from tests.helpers.commanding import Run
from tests.helpers.crawling import PagesSpider, crawl, crawl_pages
from tests.helpers.needing import slow_but
from tests.helpers.pages import lay_out, make_page, make_words, page
from tests.helpers.server import Answer, serve

PRODUCTS = 20
_GONE = Answer(b"gone", 404)


def product(number: int, stock: int, size: str = "") -> str:
    """Make a product's page, of which stock, visitors and a box change by themselves."""
    text = " ".join(make_words(number, 60))
    box = "".join(f"<li>{' '.join(make_words(500 + stock * 7 + n, 3))}</li>" for n in range(4))
    return (
        f"<html><head><title>Product {make_words(number, 2)} - Shop</title></head><body>"
        f"<nav><a href=/>Home of the shop</a></nav><main><h1>Product {make_words(number, 2)}</h1>"
        f"<p>Only {stock} pieces of it are left in stock now.</p><p>{text}</p>"
        f"<table><tr><td>Weight<td>{number} kg{size}</table>"
        f"<h2>Customers also bought</h2><ul>{box}</ul></main>"
        f"<footer><p>Our shop has {stock * 3} visitors at this moment.</p></footer></body></html>"
    )


def shop(make: Callable[..., Any] = product) -> dict[str, Any]:
    """Make a shop whose products have a second address each."""
    return {
        f"/p/{number}-{make_words(number, 1)[0]}{query}": partial(make, number)
        for query in ("", "?ref=mail")
        for number in range(PRODUCTS)
    }


def count_asked(
    asked: Counter[str], make: Callable[[int, int, int], Answer | str]
) -> dict[str, Any]:
    """Answer by product, how often its address was asked for, and the number of the answer."""

    def answer(path: str, number: int, place: int) -> Answer | str:
        asked[path] += 1
        return make(number, asked[path], place)

    return {path: partial(answer, path, made.args[0]) for path, made in shop().items()}


@pytest.fixture
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask without a pause."""
    monkeypatch.setattr(refetches, "_PAUSES_SECONDS", (0.0,) * 4)
    monkeypatch.setattr(refetches, "_AGE_SECONDS", 0.0)


@pytest.mark.parametrize(("processes", "at_once"), [(0, 1), (1, 16)])
async def test_copies_with_changes_are_dropped(
    tmp_path: Path, processes: int, at_once: int
) -> None:
    many = dict.fromkeys(("CONCURRENT_REQUESTS", "CONCURRENT_REQUESTS_PER_DOMAIN"), at_once)
    with serve(shop()) as site:
        done = await crawl(tmp_path, site.urls(), PagesSpider, SIMHASH_PROCESSES=processes, **many)
    kept = Counter(path.partition("?")[0] for path in done.paths)
    assert len(kept) == PRODUCTS
    assert kept.total() <= PRODUCTS + 3
    assert 2 <= done.counted["refetched"] <= 10
    assert len(site.asked) == 2 * PRODUCTS + done.counted["refetched"]
    assert len(done.decisions) == 2 * PRODUCTS  # none is judged twice
    dropped = [" ".join(each["tests"]) for each in done.decisions if each["action"] == "drop"]
    named = r"changes by itself: 'only \d+ pieces .*' / 'only \d+ pieces .*' at http://\S+/p/"
    assert all(re.search(named, tests) for tests in dropped)


FOOT = "now it is {0}:{0}, and {0} guests and {0} members are here"


@pytest.mark.parametrize(
    ("title", "words"), [("{1}", 90), ("({0}) {1} - Board", 90), ("{1}", 7_000)]
)
async def test_copies_with_counts_are_dropped(tmp_path: Path, title: str, words: int) -> None:
    """Reported of boards: in the foot, before the title, and beyond the words that are kept."""

    def make(n: int, number: int) -> str:
        said = make_words(n, words)
        called, counts = (each.format(10 + number % 50, said[:4]) for each in (title, FOOT))
        return f"<title>{called}</title><main><h1>{said[:4]}</h1><p>{said}</main><p>{counts}"

    pages = {f"/t/{n}{end}": partial(make, n) for end in ("", "?from=mail") for n in range(10)}
    assert (await crawl_pages(tmp_path, pages)).paths == [f"/t/{n}" for n in range(10)]


async def test_an_explanation_leaves_out_what_the_crawl_left_out(run: Run, tmp_path: Path) -> None:
    """With the log, or by what the store has."""
    done = await crawl_pages(tmp_path, shop())
    dropped = [each["url"] for each in done.decisions if each["action"] == "drop"]
    for url in dropped:
        answer = run.answer("explain", url, "--store", tmp_path)
        said = f"says nothing that {answer['pages'][1]['url']} does not say, but for what changes"
        assert said in answer["verdict"]
        assert answer["own_words"] == answer["match_own_words"] == []
    (tmp_path / "log.jsonl").unlink()
    out = run.text("explain", dropped[0], "--store", tmp_path)
    assert "it repeats http" in out
    assert "changes by itself" in out
    assert "only here" not in out


@pytest.mark.parametrize(
    "later",
    [
        *(_GONE, Answer(location="/moved")),
        Answer(b"%PDF-1.4", content_type="application/pdf"),
        "<html><title>Too many requests</title><h1>Too many requests</h1><p>Slow down.</p></html>",
        "<html><title>Log in</title><p>Your name and your password, please.</p></html>",
    ],
    ids=["gone", "moved", "pdf", "ban", "login"],
)
async def test_an_answer_that_is_none_teaches_nothing(tmp_path: Path, later: Answer | str) -> None:
    def make(number: int, times: int, place: int) -> Answer | str:
        return product(number, place) if times == 1 else later

    done = await crawl_pages(tmp_path, count_asked(Counter(), make))
    assert len(done.items) == 2 * PRODUCTS
    assert 1 <= done.counted["refetched"] <= 10


async def test_who_is_asked_again_is_asked_as_the_page_was(tmp_path: Path) -> None:
    sent: list[Request] = []

    class Asking(PagesSpider):
        async def start(self) -> AsyncIterator[Request]:
            self.crawler.signals.connect(self.note, signals.request_reached_downloader)
            async for request in super().start():
                yield request.replace(
                    headers={"X-Own": "1"},
                    cookies={"a": "b"},
                    cb_kwargs={"own": 1},
                    meta={"proxy_country": "de", "item": {"name": "x"}, "retry_times": 2},
                )

        def note(self, request: Request) -> None:
            if "simhash_again" in request.meta:
                sent.append(request)

        def parse(self, response: Any, own: int = 0) -> Any:
            assert own
            yield from super().parse(response)

    done = await crawl_pages(tmp_path, shop(), spider=Asking, SIMHASH_ACTION="flag")
    assert len(sent) == done.counted["refetched"] > 0
    for request in sent:
        assert request.headers["X-Own"] == b"1"
        assert not request.cb_kwargs
        assert request.meta["proxy_country"] == "de"
        assert "retry_times" not in request.meta
        assert {"dont_retry", "dont_redirect", "dont_cache"} <= request.meta.keys()
        assert request.meta["download_timeout"] == 3  # of a site that answers at once


async def test_without_refetches_or_from_a_cache_all_that_differs_is_said(tmp_path: Path) -> None:
    cache: dict[str, Any] = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    with serve(shop()) as site:
        for store, refetch in (("first", 0), ("second", 10)):
            given = cache | {"SIMHASH_REFETCH": refetch}
            done = await crawl(tmp_path / store, site.urls(), PagesSpider, **given)
            assert (len(site.asked), len(done.items)) == (2 * PRODUCTS, 2 * PRODUCTS)


@pytest.mark.parametrize("processes", slow_but([0], [0, 1]))
async def test_a_spider_that_closes_ends_all_doubts(tmp_path: Path, processes: int) -> None:
    gate = threading.Event()
    asked = Counter[str]()

    def make(number: int, times: int, place: int) -> Answer:
        return Answer(product(number, place).encode(), gate=gate if times > 1 else None)

    class Closing(PagesSpider):
        async def start(self) -> AsyncIterator[Request]:
            asyncio.get_running_loop().create_task(self.close_when_asked())
            async for request in super().start():
                yield request

        async def close_when_asked(self) -> None:
            while not any(times > 1 for times in asked.values()):  # noqa: ASYNC110 - a thread counts
                await asyncio.sleep(0.05)
            assert self.crawler.engine is not None
            closing = self.crawler.engine.close_spider_async(reason="enough")
            asyncio.get_running_loop().call_later(0.5, gate.set)
            await closing

    settings: dict[str, Any] = {"SIMHASH_PROCESSES": processes}
    done = await crawl_pages(tmp_path, count_asked(asked, make), spider=Closing, **settings)
    assert done.stats["finish_reason"] == "enough"
    assert 1 <= done.counted["refetched"] <= 4


async def test_a_judge_that_dies_in_doubt_judges_again(tmp_path: Path) -> None:
    """The page is sent to the next judge; none is lost."""
    killed = list[int]()

    def kill() -> None:
        for child in psutil.Process().children():
            if not killed and "scrapy_simhash.judge.judge" in " ".join(child.cmdline()):
                killed.append(child.pid)
                child.kill()

    def make(number: int, times: int, place: int) -> str:
        if times > 1:
            kill()
        return product(number, place)

    done = await crawl_pages(tmp_path, count_asked(Counter(), make), SIMHASH_PROCESSES=1)
    assert killed
    assert len({path.partition("?")[0] for path in done.paths}) == PRODUCTS
    assert done.counted["pages"] == 2 * PRODUCTS


@pytest.mark.parametrize("unchanged", slow_but(["drop"], ["pass", "drop"]))
async def test_what_changes_by_itself_makes_no_page_new(tmp_path: Path, unchanged: str) -> None:
    """What was seen in one crawl counts for the same pages in the next one; an edit does not."""
    edited = f"/p/7-{make_words(7, 1)[0]}"

    def sell(number: int, stock: int) -> str:
        return product(number, stock).replace("</main>", later if number == 7 else "</main>")

    later = "</main>"
    with serve(shop(sell)) as site:
        first = await crawl(tmp_path, site.urls())
        kept = {*first.paths}
        later = "<p>Now also in green.</p></main>"
        again = await crawl(tmp_path, site.urls(), SIMHASH_UNCHANGED=unchanged)
    revisits = [each for each in again.decisions if each["status"] == "revisit"]
    assert len(revisits) >= PRODUCTS
    new = {each["url"] for each in revisits if each["reason"] == "changed"}
    assert {url.partition("?")[0].rpartition("/p/")[2] for url in new} == {edited[3:]}
    dropped = {each["url"] for each in revisits if each["action"] == "follow"}
    assert len(dropped) == (len(revisits) - len(new)) * (unchanged == "drop")
    assert kept.difference(again.paths) == (
        kept - {edited, f"{edited}?ref=mail"} if unchanged == "drop" else set()
    )


@pytest.mark.parametrize("setting", ["ENABLED", "INCREMENTAL", "READONLY"])
async def test_an_edit_between_two_crawls_is_no_noise(tmp_path: Path, setting: str) -> None:
    """A job board of which three deadlines were edited: 18 of 24 jobs were lost."""
    days = {number: number for number in range(24)}

    def show(number: int, _: int) -> str:
        text = f"{lay_out(make_words(3, 80))}<p>Apply until {days[number]} of May, says our office."
        return f"<title>Job</title><main><h1>Job</h1>{text}</main>"

    with serve({f"/job/{make_words(n, 1)[0]}": partial(show, n) for n in days}) as site:
        await crawl(tmp_path, site.urls()[:6])
        days |= {number: 40 + number for number in range(3)}
        settings: dict[str, Any] = {f"SIMHASH_{setting}": True}
        assert len((await crawl(tmp_path, site.urls(), **settings)).paths) == len(days)


@pytest.mark.parametrize(
    ("title", "words", "documents", "foot"),
    [
        ("{name} - Board", 90, 20, "{0} guests are online at this moment"),
        ("{name} - Board", 90, 20, "Now 12:{1}, {0} guests; made in 0.{0} s by {1} queries"),
        ("({1}) {name} - Board", 90, 20, "{0} guests are online at this moment"),
        ("{name} - Board", 7_000, 20, "{0} guests are online at this moment"),
        ("Topic", 90, 20, "{0} guests are online at this moment"),
        ("Just a moment", 30, 1, "Ray id {0}ae{1}, your address is 203.0.113.{0}"),
    ],
)
@pytest.mark.usefixtures("_quickly")
async def test_sessions_of_a_board_and_walls(
    tmp_path: Path, title: str, words: int, documents: int, foot: str
) -> None:
    """A trial's faults 1, 2, 8, 7, 6 and 4: nearly all copies were kept."""

    def show(number: int, place: int) -> str:
        values, name = (100 + 7 * place % 97, 10 + place % 47), make_words(number, 1)[0]
        text = f"<h1>{name}</h1>{lay_out(make_words(number, words))}"
        called, end = (each.format(*values, name=name) for each in (title, foot))
        return f"<title>{called}</title><main>{text}</main><footer>{end}</footer>"

    pages = {
        f"/t/{n}-{make_words(n, 1)[0]}{sid.format(n + 9)}": partial(show, n % documents)
        for sid in ("", "?sid=4f3{}a7e1")
        for n in range(20)
    }
    done = await crawl_pages(tmp_path, pages)
    assert len({path.partition("?")[0] for path in done.paths}) == len(done.paths) == documents


async def test_what_moved_once_may_be_a_price(tmp_path: Path) -> None:
    """Two rooms that share all other words; the price of one rises between two answers."""
    asked = Counter[str]()

    def show(name: str, _: int) -> str:
        asked[name] += 1
        price = 70 if name == "one" and asked[name] == 1 else 75
        html = make_page(make_words(3, 80), title="Room")
        return html.replace("</h1>", f"</h1><p>Price {price}</p>")

    pages: dict[str, Any] = {f"/news/{n}": page(n) for n in range(9)}
    pages |= {f"/room/{name}": partial(show, name) for name in ("one", "two")}
    done = await crawl_pages(tmp_path, pages)
    assert (done.paths, asked["one"]) == ([*pages], 4)


def show_article(number: int, asked: int, place: int) -> str:
    """Make an article with its advertisement, one of four, but that of some is missing at times."""
    advert = f"<p>{' '.join(make_words(900 + place % 4, 30))}</p>" if (number + asked) % 5 else ""
    seen = ("just now", f"{place % 7 + 2} minutes ago", f"{place % 5 + 2} hours ago")[place % 3]
    own = f"<p>{' '.join(make_words(number, 14))}</p>{lay_out(make_words(3, 60))}"
    name = f"News {' '.join(make_words(number, 3))}"
    head = f"<title>{name}</title><h1>{name}</h1><div>Advertisement</div>"
    return f"{head}{advert}{own}<div>Read {seen}"


async def test_advertisements_among_paragraphs(tmp_path: Path) -> None:
    """A stranger's events kept 85 of 100 copies; cut out unseen, it cost 17 of 92 records."""
    asked = Counter[str]()

    def show(number: int, path: str, place: int) -> str:
        asked[path] += 1
        return show_article(number, asked[path], place)

    pages = {
        f"/n/{number * 37 + 1000}{query}": partial(show, number, f"{number}{query}")
        for query in ("", "?ref=mail", "?from=feed")
        for number in range(24)
    }
    done = await crawl_pages(tmp_path, pages)
    kept = Counter(path.partition("?")[0] for path in done.paths)
    assert len(kept) == 24
    assert kept.total() < 50


class Slow:
    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(0.5)
        return item


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.usefixtures("_quickly")
async def test_what_changed_in_one_answer_of_a_check_is_not_refuted(
    tmp_path: Path, *, again: bool
) -> None:
    """A counter of few values shows the first one again, while another part stays the same.

    So it is where another crawl got the originals before, and their items are on their way.
    """
    asked, first = Counter[str](), dict[str, int]()

    def answer(number: int, path: str, place: int) -> str:
        asked[path] += 1
        first.setdefault(path, place)
        stock = 900 + number if "?" in path else 7 if asked[path] in {1, 6} else 3
        seen = place if number < 2 else first[path]
        text = " ".join(make_words(number, 60))
        return (
            f"<title>Product {number} - Shop</title><h1>Product {number}</h1><p>{text}</p>"
            f"<p>Only {stock} pieces of it are left in stock now.</p>"
            f"<p>Our shop has {seen} visitors at this moment.</p>"
        )

    paths = [path for number in range(PRODUCTS) for path in shop() if f"/p/{number}-" in path]
    answers = {path: partial(answer, int(path.split("-")[0][3:]), path) for path in paths}
    settings: dict[str, Any] = {"SIMHASH_PROCESSES": 0}
    with serve(answers) as site:
        if again:
            originals = [site.url(path) for path in answers if "?" not in path]
            await crawl(tmp_path, originals, SIMHASH_REFETCH=0, **settings)
            asked.clear()
            settings |= {"ITEM_PIPELINES": {Slow: 300}, "CONCURRENT_REQUESTS": 16}
        await crawl(tmp_path, site.urls(*answers), **settings)
    with open_as_it_is(str(tmp_path)) as store:
        noise = store.read(lambda stored: stored.find_noise("127.0.0.1"))
    assert max(asked.values()) == 6
    assert {slot.behind for _, slot in noise.refuted} == {("visitors", "at")}


@pytest.mark.parametrize("first", ["/random", "/joke/random"])
async def test_pages_are_not_dropped_for_a_random_one(tmp_path: Path, first: str) -> None:
    """A site of 70 jokes beside a random one lost 69: what changed there is a page's own here."""
    frame = " ".join(make_words(9_999, 90))

    def joke(number: int, *_: object) -> str:
        text = " ".join(make_words(number, 20))
        return (
            "<html><head><title>Jokes</title></head><body><main><h1>Jokes</h1>"
            f"<blockquote>{text}</blockquote><p>{frame}</p></main></body></html>"
        )

    def draw(place: int) -> str:
        return joke(5_000 + place)

    pages: dict[str, Any] = {f"/joke/{number}": partial(joke, number) for number in range(1, 20)}
    pages |= {f"/joke/{number}?sid=a": partial(joke, number) for number in range(1, 20)}
    done = await crawl_pages(tmp_path, {first: draw} | pages, CONCURRENT_REQUESTS=1)
    kept = {path.partition("?")[0] for path in done.paths}
    assert len(kept) == 20
    assert len(done.paths) <= 22


async def test_print_views_that_show_when_they_were_made(tmp_path: Path) -> None:
    """Of such a view itself is asked; what it says that stays is a page's own."""

    def show(number: int, _: int) -> str:
        text = "".join(f"<p>{' '.join(make_words(60 * number + n, 30))}</p>" for n in range(3))
        nav = f"<nav>Home News Shop and what else you may see: {make_words(9_000, 9)}</nav>"
        return f"<html><title>Page {number}</title><body>{nav}<main>{text}</main></body></html>"

    def show_print(number: int, place: int) -> str:
        code = number * (number % 4 == 0)
        frame = f"</main><p>Printed from our shop at {place:07} today, code {code}.</p>"
        return re.sub("<nav>.*</nav>", "", show(number, place)).replace("</main>", frame)

    pages: dict[str, Any] = {}
    for n in range(20):
        pages |= {f"/p/{n}": partial(show, n), f"/p/{n}?print=1": partial(show_print, n)}
    with serve(pages) as site:
        done = await crawl(tmp_path, site.urls(), PagesSpider, CONCURRENT_REQUESTS=1)
    views = {path for path in done.paths if "?" in path}
    assert views.issuperset(f"/p/{number}?print=1" for number in range(4, 20, 4))
    assert len(done.paths) - 20 == len(views) <= 12
    assert max(Counter(site.asked).values()) <= 4  # three times in one doubt
