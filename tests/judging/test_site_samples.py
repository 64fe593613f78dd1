"""What some documents of a host tell of its pages, and of two pages that are judged."""

from collections.abc import Collection
from html import escape

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from scrapy_simhash.config import Config
from scrapy_simhash.judging.documents import Document, Record, State, Verdict, make_document
from scrapy_simhash.judging.names import UNKNOWN_NAMES
from scrapy_simhash.judging.sites import UNKNOWN_SITE, Site, Sites
from scrapy_simhash.judging.wordrule import LEAST_KNOWN
from scrapy_simhash.pages.facts import Facts, Page
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.recipe import SKETCH_BYTES
from scrapy_simhash.pages.sketch import BINS
from scrapy_simhash.stores.opening import open_store
from tests.helpers.pages import make_words

HOST, OTHER = "http://site.example", "http://other.example"


class Samples:
    """A store of which only the samples of hosts are asked."""

    def __init__(self) -> None:
        self.numbers: dict[str, tuple[int, ...]] = {}
        self.told: dict[int, bytes] = {}
        self.missing: set[int] = set()
        self.glanced = 0

    def sample(self, host: str) -> dict[int, bytes]:
        return {number: self.told.get(number, b"") for number in self.numbers.get(host, ())}

    def glance(self, numbers: Collection[int]) -> dict[int, Record]:
        self.glanced += 1
        return {number: record(number) for number in numbers if number not in self.missing}


def record(number: int) -> Record:
    facts = sketch(number)
    return Record(facts, State.DONE, crawls=(), first_time=1.0)


def find_site(found: Sites, stored: Samples, url: str, own: int = 0, other: int = 99) -> Site:
    """Find the site of two documents of one host."""
    page = structs.replace(sketch(0), url=url)
    ((site, same),) = found.find(stored, page, {other: page}, own).values()  # type: ignore[arg-type]
    assert site is same
    return site


def sketch(value: int, title: str = "") -> Facts:
    """Make a document that has this value in each bin."""
    made = np.full(BINS, value, "<u2").tobytes() + bytes(2 * BINS)
    assert len(made) == SKETCH_BYTES
    return Facts(b"", 0, b"", sketch=made, title=title)


def weigh(value: int, others: list[int]) -> float:
    weights = Site({n: sketch(other) for n, other in enumerate(others)}).weigh(
        np.full((3, BINS), value, np.uint16)
    )
    assert weights.shape == (3, BINS)
    assert len(set(weights.ravel().tolist())) == 1
    return float(weights[0, 0])


@pytest.mark.parametrize("count", range(LEAST_KNOWN))
def test_fewer_than_six_documents_tell_nothing(count: int) -> None:
    site = Site({n: sketch(7, "Kiwi | ACME") for n in range(count)})
    assert (site.known, site.numbers, site.names) == (False, (), UNKNOWN_NAMES)
    assert weigh(7, [7] * count) == 1.0


def test_template_weighs_nothing_and_what_nobody_has_all() -> None:
    assert weigh(7, [7] * 6) == weigh(7, [7] * 4 + [9] * 12) == 0.0
    assert weigh(7, [9] * 6) == weigh(7, [9] * 16) == 1.0
    assert 0.0 < weigh(7, [7] * 2 + [9] * 14) < weigh(7, [7] + [9] * 15) < 1.0
    # A page with a smaller triple in that bin does not tell whether it has this one.
    assert weigh(7, [5] * 16) == 1.0
    assert weigh(7, [7] + [5] * 15) == 0.0
    assert weigh(7, [7] + [9] * 7 + [5] * 8) == weigh(7, [7] * 2 + [9] * 14)


@given(st.integers(0, 3), st.lists(st.integers(0, 3), min_size=6, max_size=16), st.integers(0, 15))
def test_the_more_pages_have_a_triple_the_less_it_weighs(
    value: int, others: list[int], place: int
) -> None:
    before = weigh(value, others)
    assert 0.0 <= before <= 1.0
    having = list(others)
    having[place % len(having)] = value
    assert weigh(value, having) <= before
    assert weigh(value, others[::-1]) == before


def test_a_site_is_told_by_all_but_the_two_documents() -> None:
    stored, found = Samples(), Sites()
    stored.numbers["site.example"] = tuple(range(1, 9))
    site = find_site(found, stored, f"{HOST}/a", 1)
    assert (site.known, site.numbers) == (True, (2, 3, 4, 5, 6, 7, 8))
    assert find_site(found, stored, f"{HOST}/b", 8, 2).numbers == (1, 3, 4, 5, 6, 7)
    stored.numbers["site.example"] = tuple(range(1, 8))
    assert find_site(found, stored, f"{HOST}/b", 1, 2) is UNKNOWN_SITE
    for url in ("", f"{OTHER}/a", "no address"):
        assert find_site(found, stored, url) is UNKNOWN_SITE


# The judge, end to end: pages are read, and judged one after the other in a store in memory.

RULE = Config().chosen_rule


def lay_out(words: list[str], tag: str = "p") -> str:
    starts = range(0, len(words), 50)
    return "".join(f"<{tag}>{' '.join(words[at : at + 50])}.</{tag}>" for at in starts)


def read_page(
    url: str,
    own: list[str],
    *,
    name: str = "",
    site: str = "ACME",
    template: int = 1,
    words: int = 200,
) -> Document:
    """Read a page whose template, named by a seed, has so many words before and behind its own."""
    before, behind = make_words(template, words), make_words(-template, words)
    title = f"{name} | {site}" if name else site
    heading = f"<h1>{escape(name)}</h1>" if name else ""
    html = (
        f"<html><head><title>{escape(title)}</title></head><body><nav>{lay_out(before)}</nav>"
        f"<main>{heading}{lay_out(own)}</main><footer>{lay_out(behind)}</footer></body></html>"
    )
    page = fingerprint_page(html.encode(), url=url)
    return make_document(page, RULE, Page(url, identity=url.encode(), time=1.0))


def judge(*pages: Document) -> list[Verdict]:
    """Judge pages in one store, each in a group of its own."""
    with open_store("memory:", RULE.distance, confirm=RULE.confirm, seed=3) as store:
        verdicts = [store.find_and_add([page])[0] for page in pages]
        assert store.check() == []
        return verdicts


def dropped(verdicts: list[Verdict]) -> list[int]:
    """List the places of pages that are near-duplicates, from 0."""
    return [n for n, verdict in enumerate(verdicts) if verdict.match is not None]


def articles(
    *numbers: int, host: str = HOST, template: int = 1, size: int = 300, words: int = 200
) -> list[Document]:
    """Read the articles of these numbers in a template; articles have a name and a text each."""
    return [
        read_page(
            f"{host}/{template}/?id={number}",
            make_words(1_000 + number, size),
            name=" ".join(make_words(5_000 + number, 3)),
            template=template,
            words=words,
        )
        for number in numbers
    ]


NAMES = ("", "News", "One for each")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("own", [60, 120])
def test_a_site_of_little_content_keeps_its_pages_apart(name: str, own: int) -> None:
    """Nine tenths of each page are template; known or not, whatever the pages are called."""
    pages = [
        read_page(
            f"{HOST}/?id={number}",
            make_words(1_000 + number, own),
            name=" ".join(make_words(5_000 + number, 2)) if name == NAMES[2] else name,
            words=9 * own // 2,
        )
        for number in range(25)
    ]
    verdicts = judge(*pages)
    assert dropped(verdicts) == []
    # They were near enough to be asked.
    assert sum(verdict.nearest is not None for verdict in verdicts) > 10


def test_an_article_in_two_templates_of_a_known_site() -> None:
    """A print view is found though most of either page is template."""
    pages = [*articles(*range(8)), *articles(*range(8, 16), template=2)]
    verdicts = judge(*pages, *articles(3, 9, template=2), *articles(30))
    assert dropped(verdicts) == [16]
    match = verdicts[16].match
    assert match
    assert match.document == verdicts[3].document
    assert match.tests[1:3] == ("neither has a word of its own", "titles: same; headings: same")
    assert "site known from documents" in match.tests[3]


@pytest.mark.parametrize("size", [100, 1_000, 8_000])
def test_two_names_that_differ_are_never_dropped_on_a_known_site(size: int) -> None:
    """All that they inherit may be the same."""
    text = make_words(77, size)
    names = [f"Class {name}" for name in ("Cat", "Dog", "Emu")]
    pages = [read_page(f"{HOST}/c/?{n}", text, name=name) for n, name in enumerate(names)]
    verdicts = judge(*articles(*range(8)), *pages)
    assert dropped(verdicts) == []
    assert verdicts[-1].nearest
    assert verdicts[-1].nearest.tests[1] == "names differ"


def test_hosts_with_one_page() -> None:
    """Nothing is known of them: a copy is found, in one template or in two."""
    (here,), (copy,), (framed,), (other,) = (
        articles(1),
        articles(1, host="http://mirror.example"),
        articles(1, host="http://framed.example", template=2, words=60),
        articles(2, host="http://more.example"),
    )
    verdicts = judge(here, copy, framed, other)
    assert dropped(verdicts) == [1, 2]
    assert verdicts[1].match
    assert "site not known" in verdicts[1].match.tests[3]


def test_a_template_that_changes_in_the_middle() -> None:
    """No new page is lost, and old ones are still found."""
    old, new = articles(*range(12)), articles(*range(12, 24), template=2)
    again = articles(2, 5, template=2) + articles(14)
    verdicts = judge(*old, *new, *again)
    assert dropped(verdicts) == [24, 25, 26]
    for place, number in ((24, 2), (25, 5), (26, 14)):
        match = verdicts[place].match
        assert match
        assert match.document == verdicts[number].document


def test_a_page_that_repeats_anothers_content_as_template_hurts_its_own_host_only() -> None:
    """Neither drops nor saves it a page of the other host."""
    victims = articles(*range(10))
    hostile = [
        read_page(
            f"{OTHER}/?id={number}",
            [*make_words(1_003, 300), *make_words(9_000 + number, 50)],
            name=" ".join(make_words(7_000 + number, 3)),
            template=3,
        )
        for number in range(12)
    ]
    print_view = articles(3, template=2, words=30)
    alone = judge(*victims, *print_view)
    for pages in ([*hostile, *victims], [*victims, *hostile]):
        verdicts = judge(*pages, *print_view)
        found = [verdict for verdict, page in zip(verdicts, pages, strict=False) if page in victims]
        assert dropped(found) == []
        assert dropped(alone) == [10]
        assert verdicts[-1].match
        assert alone[-1].match
        assert verdicts[-1].match.url == alone[-1].match.url
