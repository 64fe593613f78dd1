"""Walls: documents to which unlike addresses lead, in every kind of store."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from scrapy_simhash.judging.documents import PageFacts, Record, State, Verdict, facts_of
from scrapy_simhash.judging.interface import Documents
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.judging.sinks import (
    WITNESSES,
    Siblings,
    find_witness,
    get_sink,
    note_address,
)
from scrapy_simhash.pages.addresses import Address
from scrapy_simhash.pages.recipe import FILE_DIGEST_BYTES
from scrapy_simhash.pages.sketch import sketch_text
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.urlrules import make_rows

WALL, PAGE = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
HOST = "http://site.example"
POOL = np.random.default_rng(1).integers(0, 2**64, 5_000, np.uint64, endpoint=False)


def facts(url: str, canonical: str = "") -> PageFacts:
    return PageFacts(b"-", (0,), b"", url=url, canonical=canonical)


def form(url: str, canonical: str = "", requested: str = "") -> tuple[str, str] | None:
    witness = find_witness(facts(url, canonical), requested)
    return None if witness is None else (witness.host, witness.form)


@pytest.mark.parametrize(
    "url",
    [
        "/news/fire",
        "/news/fire?ref=7&sid=12",
        "/news/fire/",
        "/News/Fire",
        "/news/fire/index.html",
        "/news/fire/default.aspx?x",
        "/news/fire;jsessionid=1A2B",
        "/(S(4tyb0xqk))/news/fire",
        "/print/news/fire",
        "/fire",
        "/2026/11/22/fire#comments",
        "/news/f%69re",
        "/news/fire/ref=sr_1_7",
    ],
)
def test_what_a_rule_can_explain_leaves_no_trace(url: str) -> None:
    assert form(HOST + url) == ("site.example", "fire")


@pytest.mark.parametrize("url", ["/news/water", "/news/fire/2", "/", "", "/?p=7"])
def test_the_last_segment_does(url: str) -> None:
    assert form(HOST + url) != form(HOST + "/news/fire")


def test_hosts_are_apart() -> None:
    for host in ("http://www.site.example", "http://site.example:8080", "http://other.example"):
        assert form(f"{host}/fire") != form(f"{HOST}/fire")
    assert form("HTTPS://Site.Example:443/fire") == form(f"{HOST}/fire")


def test_a_canonical_address_counts_unless_it_is_a_home_page() -> None:
    assert form(f"{HOST}/a", f"{HOST}/fire") == form(f"{HOST}/b", f"{HOST}/fire?x=1")
    for home in (HOST, f"{HOST}/", "http://other.example/?a=b"):
        assert form(f"{HOST}/a", home) == form(f"{HOST}/a")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "data:text/html,x",
        "http://[::1/a",
        "http://me:secret@site.example/",
        HOST + "/a" * 3_000,
    ],
)
def test_no_address_no_witness(url: str) -> None:
    assert form(url) is None


def test_a_parameter_that_is_known_to_matter_belongs_to_the_form() -> None:
    def matters(address: Address, pair: str) -> bool:
        return address.host == "site.example" and pair.startswith("page=")

    found = {
        query: find_witness(facts(f"{HOST}/list?{query}"), matters=matters)
        for query in ("page=1&sid=1", "sid=2&page=1", "page=2", "sid=3")
    }
    forms = [witness.form for witness in found.values() if witness is not None]
    assert forms == ["list?page=1", "list?page=1", "list?page=2", "list"]


def note_all(urls: Sequence[str]) -> tuple[list[bool], Documents]:
    """Note that these addresses led to the document of the first one."""
    documents = make_rows()
    found = facts_of(facts(urls[0]))
    documents.put(1, Record(**found, state=State.DONE, delivered=True, crawl="", first_time=0.0))
    return [note(documents, url) for url in urls[1:]], documents


def note(documents: Documents, url: str) -> bool:
    return note_address(documents, 1, document(url, 0, url=url), Siblings(Rule(3, None)))


HOSTS = st.sampled_from([f"http://{name}.example" for name in "abc"])
URLS = st.builds("{}/{}/{}?n={}".format, HOSTS, st.integers(0, 3), st.integers(0, 9), HOSTS)


@given(st.lists(URLS, min_size=1, max_size=40))
def test_it_is_a_sink_from_the_fifth_unlike_address_of_a_host_on(urls: list[str]) -> None:
    told, documents = note_all(urls)
    seen: defaultdict[str, set[str]] = defaultdict(set)
    expected = []
    for url in urls:
        host, name = url.split("/")[2], url.split("?")[0].rpartition("/")[2]
        seen[host].add(name)
        expected.append(len(seen[host]) >= WITNESSES)
    # Three hosts have at most 15 witnesses, so that none is left out.
    assert told == expected[1:]
    sink = get_sink(documents, 1)
    assert (sink is not None) == (sum(map(len, seen.values())) > 1)
    if sink is not None:
        kept = Counter(witness.host for witness in sink.witnesses)
        assert kept == {host: min(len(names), WITNESSES) for host, names in seen.items()}
        assert (sink.since is not None) == any(expected)


def test_an_article_on_a_thousand_hosts_is_no_wall_and_takes_little_room() -> None:
    urls = [f"http://paper{number}.example/story/{number}" for number in range(1_000)]
    told, documents = note_all(urls)
    assert not any(told)
    sink = get_sink(documents, 1)
    assert sink is not None
    assert len(sink.witnesses) == 4 * WITNESSES
    # A wall among them is found all the same.
    paths = [f"http://wall.example/{number}" for number in range(WITNESSES)]
    told = [note(documents, url) for url in paths]
    assert told == [False] * (WITNESSES - 1) + [True]
    sink = get_sink(documents, 1)
    assert sink is not None
    assert [witness.url for witness in sink.witnesses][-WITNESSES:] == paths


EVIL = "http://evil.example"
# How pages of another site may come to a home page: copied, with its address, or by redirects.
CLAIMS: list[dict[str, Any]] = [
    {},
    {"canonical": f"{HOST}/fire"},
    {"url": f"{HOST}/", "requested": f"{EVIL}/{{}}"},
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_pages_of_another_site_prove_nothing(store: Store, claim: dict[str, Any]) -> None:
    assert add(store, "home", url=f"{HOST}/").status == "new"
    for number in range(WITNESSES + 3):
        fields = {"url": f"{EVIL}/{number}", **claim}
        if "requested" in claim:
            fields["requested"] = claim["requested"].format(number)
        if claim.get("canonical"):  # another one each, or they are alike
            fields["canonical"] = f"{HOST}/fire{number}"
        verdict = add(store, f"evil{number}", **fields)
        assert (verdict.status, verdict.sink) == ("near_duplicate", number >= WITNESSES - 1)
    mobile = add(store, "index-mobile")
    assert (mobile.status, mobile.sink) == ("near_duplicate", False)
    assert not add(store, "home", url=f"{HOST}/").sink
    (wall,) = store.list_walls()
    assert all(address.startswith(EVIL) for address in wall.addresses)


def add(store: Store, name: str, fingerprint: int = WALL, **fields: object) -> Verdict:
    (verdict,) = store.find_and_add([document(name, fingerprint, **fields)])
    store.mark_done([verdict.document], CRAWL)
    return verdict


def build_wall(store: Store) -> list[Verdict]:
    return [add(store, f"members/{number}") for number in range(WITNESSES + 2)]


def test_a_wall_is_recognised_and_named(store: Store) -> None:
    verdicts = build_wall(store)
    assert [verdict.status for verdict in verdicts] == ["new", *["near_duplicate"] * 6]
    assert [verdict.sink for verdict in verdicts] == [False] * 4 + [True] * 3
    add(store, "other", PAGE)
    assert not add(store, "print/other", PAGE).sink
    (wall,) = store.list_walls()
    assert (wall.document, wall.url, wall.near_duplicates) == (1, f"{HOST}/members/0", 6)
    assert wall.addresses == tuple(f"{HOST}/members/{number}" for number in range(WITNESSES))
    stats = store.stats()
    assert stats["sinks"] == 1
    assert stats["walls"][0]["addresses"] == list(wall.addresses)


def test_all_of_one_group_commit(store: Store) -> None:
    pages = [document(f"members/{number}", WALL) for number in range(WITNESSES + 1)]
    verdicts = store.find_and_add(pages)
    assert [verdict.sink for verdict in verdicts] == [False] * 4 + [True] * 2


def test_one_document_under_many_like_addresses_is_none(store: Store) -> None:
    names = [f"{folder}/fire?sid={number}" for number in range(3) for folder in ("news", "print")]
    assert not any(add(store, name).sink for name in names)
    assert store.list_walls() == []


def test_a_list_whose_pages_are_alike_is_none(store: Store) -> None:
    assert not any(add(store, f"list?page={number}").sink for number in range(20))


def article(start: int) -> dict[str, Any]:
    """Make the facts of a page; those of starts 300 apart are .74 alike, 2,000 apart not at all."""
    text = POOL[start : start + 2_000]
    return {"sketch": sketch_text(text, text), "words": 2_000, "whole_words": 2_000}


@pytest.mark.parametrize(("apart", "wall"), [(2_000, True), (300, False)])
def test_a_wall_before_a_list(home: str, apart: int, *, wall: bool) -> None:
    """Pages of a list that are of one template are no reason to think so."""
    with begin_crawl(home, confirm=0.8, distance=7) as store:
        for number in range(WITNESSES):
            facts = article(apart) | {"title": f"A list {number}"}
            verdict = add(store, f"list?page={number}", PAGE ^ 0xFF << 8 * number, **facts)
            assert verdict.status == "new"
        names = [f"list?page={10 + number}" for number in range(WITNESSES + 1)]
        facts = article(0) | {"title": "A list"}
        verdicts = [add(store, name, **facts) for name in names]
        assert [verdict.status for verdict in verdicts[1:]] == ["near_duplicate"] * WITNESSES
        assert [verdict.sink for verdict in verdicts] == [False] * 4 + [wall] * 2


def test_files_are_no_walls(store: Store) -> None:
    digest = bytes(FILE_DIGEST_BYTES)
    verdicts = [add(store, f"{n}.gif", stub=True, text_digest=digest) for n in range(9)]
    assert verdicts[-1].status == "near_duplicate"
    assert not any(verdict.sink for verdict in verdicts)


def test_the_first_page_of_a_wall_is_one_when_it_comes_again(store: Store) -> None:
    build_wall(store)
    again = add(store, "members/0")
    assert (again.status, again.reason, again.sink) == ("revisit", "unchanged", True)
    # The wall is gone: what the address shows now says nothing of it.
    changed = add(store, "members/0", PAGE)
    assert (changed.reason, changed.sink) == ("changed", False)
    assert store.list_walls() == []
    assert not add(store, "print/members/0", PAGE).sink


def test_the_next_crawl_knows_it(home: str) -> None:
    with begin_crawl(home) as store:
        build_wall(store)
    with open_store(home, readonly=True) as store:
        (verdict,) = store.find_and_add([document("members/9", WALL)])
        assert (verdict.status, verdict.sink) == ("near_duplicate", True)
        assert len(store.list_walls()) == 1
    with begin_crawl(home, crawl="crawl-2") as store:
        (verdict,) = store.find_and_add([document("members/9", WALL, crawl="crawl-2")])
        assert verdict.sink


def test_a_readonly_store_notes_nothing(home: str) -> None:
    with begin_crawl(home) as store:
        add(store, "members/0")
    with open_store(home, readonly=True) as store:
        for number in range(1, 9):
            (verdict,) = store.find_and_add([document(f"members/{number}", WALL)])
            assert (verdict.status, verdict.sink) == ("near_duplicate", False)
        assert store.list_walls() == []


def test_a_deleted_wall_is_forgotten(store: Store) -> None:
    wall = build_wall(store)[0].document
    assert store.delete([wall]) == 7
    assert store.list_walls() == []
    assert [add(store, f"members/{number}").sink for number in range(5)] == [False] * 4 + [True]


def test_an_orphan_of_another_text_is_not_the_wall(home: str) -> None:
    with begin_crawl(home) as store:
        build_wall(store)
        again = store.find_and_add([document("members/0", WALL, text_digest=b"new")])
        assert again[0].reason == "changed"
        assert store.list_walls() == []
        store.withdraw([again[0].document], CRAWL)
        assert store.check() == []


def test_scopes_have_walls_of_their_own(store: Store) -> None:
    pages = [document(f"members/{number}", WALL, scope=str(number % 2)) for number in range(8)]
    assert not any(verdict.sink for verdict in store.find_and_add(pages))
    more = structs.replace(document("members/8", WALL), scope="0")
    assert store.find_and_add([more])[0].sink
