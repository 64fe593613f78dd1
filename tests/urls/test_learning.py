"""What a crawl teaches, above all where it must not learn."""

from collections.abc import Callable, Iterator
from itertools import count
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.urls import book, memory
from scrapy_simhash.pages.addresses import Address, parse_address
from scrapy_simhash.urls.applying import apply_rule
from scrapy_simhash.stores.rulebook import change_rule, get_host, list_acting, read_version
from scrapy_simhash.urls.rules import ACTS, RuleState, parse_rule
from tests.helpers.urlrules import Crawl

SID = "a.example drop-parameter sid"


def list_urls(
    *queries: str, pages: int = 60, folders: int = 5, host: str = "a.example"
) -> list[str]:
    """List pages in folders, each with these endings, one page after the other."""
    return [
        f"http://{host}/d{page % folders}/p{page}{query.replace('#', str(page))}"
        for page in range(pages)
        for query in queries
    ]


def by_path(url: str) -> str:
    return urlsplit(url).path


def by_parameters(*names: str) -> Callable[[str], str]:
    """A site whose pages follow from the path and these parameters."""

    def site(url: str) -> str:
        parts = urlsplit(url)
        asked = parse_qs(parts.query)
        return parts.path + "".join(f" {name}={asked.get(name)}" for name in names)

    return site


def test_a_session_is_learned_and_acts() -> None:
    crawl = Crawl(by_path)
    crawl.crawl(list_urls("", "?sid=#", "?sid=9#"))
    record = crawl.get(SID)
    assert (record.state, record.same, record.different) == (RuleState.ACTING, 25, 0)
    assert record.directories[:3] == ("/d0/", "/d1/", "/d2/")
    assert [change.text for change in crawl.changes] == [SID]
    assert len(crawl.parked) > 60
    assert crawl.list_lost() == set()
    assert read_version(crawl.documents) == 1


def test_one_value_says_nothing_of_the_others() -> None:
    crawl = Crawl(lambda url: by_path(url) + ("other" if "format=pdf" in url else ""))
    crawl.crawl(list_urls("", "?format=print"))
    assert crawl.list_states() == {"a.example drop-value format=print": RuleState.ACTING}
    assert len(crawl.get("a.example drop-parameter format").values) == 1
    crawl.crawl(list_urls("?format=pdf"))
    assert crawl.list_lost() == set()


def test_a_site_without_duplicates_costs_nothing() -> None:
    crawl = Crawl(by_parameters("id"))
    crawl.crawl(list_urls("", "?id=1", "?id=2"))
    assert crawl.memory.rows == {}


def test_a_single_pair_of_duplicates_makes_no_candidate() -> None:
    crawl = Crawl(by_path)
    crawl.fetch("http://a.example/x", "http://a.example/x?sid=1", "http://a.example/x?sid=2")
    assert crawl.memory.rows == {}
    crawl.fetch("http://a.example/y", "http://a.example/y?sid=1")
    assert crawl.get(SID).same == 2


@pytest.mark.parametrize(
    ("rule", "queries"),
    [
        ("a.example drop-value print=1", ["", "?print=1"]),
        ("a.example drop-parameters CFID CFTOKEN", ["", "?CFID=#&CFTOKEN=9#"]),
        ("a.example drop-matrix jsessionid", ["", ";jsessionid=7#"]),
        ("a.example strip-slash", ["", "/"]),
        ("a.example drop-segments amp", ["", "/amp"]),
        ("a.example drop-repeated", ["?a=1", "?a=1&a=1"]),
    ],
)
def test_each_class_acts_when_it_is_proven(rule: str, queries: list[str]) -> None:
    crawl = Crawl(lambda url: by_path(url).partition(";")[0].removesuffix("/amp").rstrip("/"))
    crawl.crawl(list_urls(*queries))
    assert crawl.get(rule).state == RuleState.ACTING
    assert len(crawl.parked) > 30


def must_parse(url: str) -> Address:
    address = parse_address(url)
    assert address is not None
    return address


def make_twins(first: str, second: str) -> list[str]:
    """List pages of one place, each after its twin in another one."""
    places = [(f"{first}d{page % 5}/p{page}", f"{second}d{page % 5}/p{page}") for page in range(80)]
    return [url for pair in places for url in pair]


@pytest.mark.parametrize(
    ("rule", "first", "second", "votes"),
    [
        ("a.example drop-leading mirror", "http://a.example/", "http://a.example/mirror/", 25),
        ("a.example drop-leading mirror", "http://a.example/mirror/", "http://a.example/", 25),
        ("a.example drop-segments print", "http://a.example/x/", "http://a.example/x/print/", 25),
        ("a.example drop-session", "http://a.example/", "http://a.example/(S(q1))/", 25),
        ("a.example fold-case", "http://a.example/docs/", "http://a.example/Docs/", 25),
        ("m.a.example host-alias a.example", "http://a.example/", "http://m.a.example/", 52),
        ("a.example use-https", "https://a.example/", "http://a.example/", 52),
        (
            "m.a.example host-alias https://a.example",
            "https://a.example/",
            "http://m.a.example/",
            52,
        ),
    ],
)
def test_places_are_learned(rule: str, first: str, second: str, votes: int) -> None:
    crawl = Crawl(lambda url: "/".join(url.split("/")[-2:]))
    crawl.crawl(make_twins(first, second))
    record = crawl.get(rule)
    # What comes first at the address that the rule changes is never parked, and goes on to vote.
    changed = apply_rule(parse_rule(rule), must_parse(first))
    expected = votes if changed == must_parse(first) else 80
    assert (record.state, record.same) == (RuleState.ACTING, expected)
    assert list(crawl.list_states()) == [rule]


def test_versions_and_slugs_are_reported_and_never_act_by_themselves() -> None:
    crawl = Crawl(lambda url: "/".join(url.split("/")[-2:]))
    crawl.crawl(make_twins("http://a.example/17/", "http://a.example/15/"))
    assert crawl.list_states() == {
        "a.example substitute 15 17": RuleState.REPORTED,
        "a.example free-segment 0 3": RuleState.REPORTED,
    }
    assert crawl.parked == {}
    pinned = parse_rule("a.example substitute 15 17")
    change_rule(crawl.documents, pinned.id, "pin", 1.0)
    crawl.crawl(["http://a.example/17/d9/new", "http://a.example/15/d9/new"])
    assert list(crawl.parked) == ["http://a.example/15/d9/new"]
    with pytest.raises(ValueError, match="cannot be pinned: it makes no addresses that exist"):
        change_rule(crawl.documents, parse_rule("a.example free-segment 0 3").id, "pin", 1.0)


def test_a_wall_in_the_middle_teaches_nothing() -> None:
    """From page 20 on, all numbered pages show the login form; and no site may lose them."""
    asked = count()

    def site(url: str) -> str:
        if "page=" in url and next(asked) > 20:
            return "login"
        return url

    crawl = Crawl(site)
    rule = parse_rule("a.example drop-parameter page")
    book.add_rules(crawl.documents, [rule], 1.0)
    crawl.crawl(list_urls("?page=2", "?page=3", pages=100))
    assert crawl.list_states() == {}
    assert crawl.parked == {}
    # All the pages that show one document have one vote.
    assert crawl.get(rule.text).same == 1


def test_the_first_page_and_no_page_are_one_but_the_second_is_another() -> None:
    def site(url: str) -> str:
        return url.removesuffix("?page=1")

    crawl = Crawl(site)
    crawl.crawl(list_urls("", "?page=1", "?page=2", "?page=3"))
    assert crawl.list_states() == {"a.example drop-value page=1": RuleState.ACTING}
    assert crawl.get("a.example drop-parameter page").different > 60
    assert set(crawl.parked) == set(crawl.parked) & set(list_urls("?page=1"))
    assert crawl.list_lost() == set()


@pytest.mark.parametrize(
    "queries", [["?v=1", "?v=2"], ["?year=2023", "?year=2024"], ["", "?lang=de"]]
)
def test_what_matters_is_not_dropped(queries: list[str]) -> None:
    """Nor where some pages are the same all the same, as those that nobody translated yet."""
    pages = set(list_urls("", pages=100)[::3])

    def site(url: str) -> str:
        path = url.partition("?")[0]
        return path if path in pages else url

    crawl = Crawl(site)
    crawl.crawl(list_urls(*queries, pages=100))
    assert crawl.list_states() == {}
    assert crawl.parked == {}


def test_what_matters_in_one_folder_is_dropped_in_the_others() -> None:
    def site(url: str) -> str:
        return url if "/d0/" in url else by_path(url)

    crawl = Crawl(site)
    crawl.crawl(list_urls("", "?ref=#", pages=150), sample=0.05)
    states = crawl.list_states()
    assert states["a.example drop-parameter ref"] == RuleState.RETIRED
    assert states["a.example drop-parameter ref except /d0/"] == RuleState.ACTING
    assert crawl.list_lost() == set()


def test_a_cookie_that_a_parameter_sets_is_no_rule() -> None:
    state = {"lang": "en"}

    def site(url: str) -> str:
        if "lang=" in url:
            state["lang"] = url[-2:]
        return f"{by_path(url)} {state['lang']}"

    crawl = Crawl(site)
    crawl.crawl(list_urls("", "?lang=de", "?lang=fr"), sample=0.05)
    assert not any(state in ACTS for state in crawl.list_states().values())


def test_a_price_by_referrer_is_the_same_page() -> None:
    def site(url: str) -> str:
        return by_path(url) + ("~3" if "ref=" in url else "")

    crawl = Crawl(site)
    crawl.crawl(list_urls("", "?ref=#"))
    assert crawl.get("a.example drop-parameter ref").state == RuleState.ACTING


def test_tests_with_visitors_are_no_rule() -> None:
    """Every third answer has another text, whatever was asked for."""
    answers = count()

    def site(url: str) -> str:
        return by_path(url) + ("~150" if next(answers) % 3 == 0 else "")

    crawl = Crawl(site)
    crawl.crawl(list_urls("", "?ref=#", "?ref=9#", "?ref=8#"))
    assert crawl.list_states() == {}


def test_a_server_that_knows_capitals_keeps_them() -> None:
    crawl = Crawl(lambda url: url if "/d1/" in url.lower() else url.lower())
    urls = list_urls("", pages=80)
    crawl.crawl(url for each in urls for url in (each, each.replace("/d", "/D")))
    assert crawl.list_states().get("a.example fold-case") != RuleState.ACTING


def test_a_calendar_without_end_has_no_rule() -> None:
    crawl = Crawl(lambda url: url)
    crawl.crawl(f"http://a.example/calendar?month={month}" for month in range(200))
    assert crawl.memory.rows == {}


def test_a_site_that_changes_its_mind_is_caught() -> None:
    """It shows 40 pages that are the same, and then others; 5 % are fetched all the same."""

    def site(url: str) -> str:
        page = int(by_path(url).rpartition("p")[2])
        return by_path(url) if page < 40 else url

    crawl = Crawl(site)
    crawl.crawl(list_urls("", "?sid=#", pages=600), sample=0.05)
    record = crawl.get(SID)
    assert record.state == RuleState.RETIRED
    assert record.sampled_different == 1
    assert 0 < len(crawl.parked) < 150
    crawl.release()
    assert crawl.list_lost() == set()


def test_a_rule_whose_samples_nobody_can_tell_apart_is_retired() -> None:
    """The session of later pages shows a text that is alike by half."""

    def site(url: str) -> str:
        page = int(by_path(url).rpartition("p")[2])
        return by_path(url) + ("~60" if page >= 40 and "sid" in url else "")

    crawl = Crawl(site)
    crawl.crawl(list_urls("", "?sid=#", pages=40))
    assert crawl.get(SID).acts
    urls = [url for url in list_urls("", "?sid=#", pages=2_000) if int(by_path(url)[5:]) >= 40]
    crawl.crawl(urls, sample=0.05)
    record = crawl.get(SID)
    assert (record.state, record.different) == (RuleState.RETIRED, 0)
    assert 0 < record.sampled < 100
    assert crawl.changes[-1].reason.startswith("of its last votes ")
    crawl.release()
    assert crawl.parked == {}


def test_a_pinned_rule_that_is_wrong_is_kept_and_named() -> None:
    crawl = Crawl(by_path)
    crawl.crawl(list_urls("", "?sid=#", pages=10))
    change_rule(crawl.documents, parse_rule(SID).id, "pin", 1.0)
    crawl.site = lambda url: url
    (change,) = crawl.fetch("http://a.example/d1/p1?sid=new")
    assert (change.text, change.state) == (SID, RuleState.PINNED)
    assert change.reason.startswith("different pages: http://a.example/d1/p1?sid=new ")
    assert crawl.get(SID).acts


def test_a_banned_rule_neither_acts_nor_learns() -> None:
    crawl = Crawl(by_path)
    crawl.crawl(list_urls("", "?sid=#", pages=10))
    votes = crawl.get(SID).same
    change_rule(crawl.documents, parse_rule(SID).id, "ban", 1.0)
    crawl.crawl(list_urls("", "?sid=#"))
    assert (crawl.get(SID).same, crawl.parked) == (votes, {})
    change_rule(crawl.documents, parse_rule(SID).id, "learn", 1.0)
    assert crawl.get(SID).same == 0
    crawl.crawl(list_urls("", "?sid=7#"))
    assert crawl.get(SID).state == RuleState.ACTING


def test_what_a_person_may_not_ask_for() -> None:
    crawl = Crawl(by_path)
    with pytest.raises(ValueError, match="no URL rule has the id 'x'"):
        change_rule(crawl.documents, "x", "pin", 1.0)
    crawl.crawl(list_urls("", "?sid=#", pages=10))
    with pytest.raises(ValueError, match="'drop' is nothing to do with a URL rule"):
        change_rule(crawl.documents, parse_rule(SID).id, "drop", 1.0)  # type: ignore[arg-type]


def test_rules_that_follow_each_other_are_checked_together() -> None:
    crawl = Crawl(lambda url: by_path(url).replace("/mirror", ""))
    urls = list_urls("", "?sid=#", pages=40)
    crawl.fetch(*urls, *(url.replace("/d", "/mirror/d") for url in urls))
    assert set(crawl.list_states()) == {SID, "a.example drop-leading mirror"}
    crawl.site = lambda url: url
    crawl.fetch("http://a.example/d0/new")
    changes = crawl.fetch("http://a.example/mirror/d0/new?sid=1")
    assert {change.text for change in changes} == {SID, "a.example drop-leading mirror"}
    assert {change.state for change in changes} == {RuleState.RETIRED}


def test_parameters_that_do_not_only_come_together_retire_their_rule() -> None:
    crawl = Crawl(by_path)
    crawl.crawl(list_urls("", "?CFID=#&CFTOKEN=#"))
    rule = "a.example drop-parameters CFID CFTOKEN"
    assert crawl.get(rule).acts
    (change,) = crawl.fetch("http://a.example/d1/p1?CFID=1")
    assert change.state == RuleState.RETIRED
    assert "do not only occur together" in change.reason


def test_another_callback_has_no_vote() -> None:
    crawl = Crawl(by_path)
    for url in list_urls("", "?sid=#"):
        crawl.fetch(url, callback="parse_item" if "sid" in url else "parse")
    assert crawl.get(SID).same == 0


def test_short_pages_have_no_vote() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#", pages=3))
    votes = crawl.get(SID).same
    crawl.fetch(*list_urls("", "?sid=#"), stub=True)
    assert crawl.get(SID).same == votes


def test_a_page_a_day_later_may_have_changed() -> None:
    crawl = Crawl(by_path)
    crawl.crawl(list_urls("", "?sid=#"))
    assert crawl.get(SID).acts
    crawl.site = lambda url: f"{url} of today"
    crawl.time += 90_000
    crawl.fetch("http://a.example/d1/p1?sid=new")
    assert crawl.get(SID).acts
    crawl.fetch("http://a.example/d1/p1")
    crawl.fetch("http://a.example/d1/p1?sid=newer")
    assert crawl.get(SID).state == RuleState.RETIRED


def test_two_pages_of_a_later_crawl_refute_a_rule() -> None:
    """The page that they were compared with is a day old, and is not fetched again."""
    crawl = Crawl(by_path)
    crawl.crawl(list_urls("", "?sid=#"))
    crawl.site = lambda url: f"{url} of today"
    crawl.time += 90_000
    crawl.fetch("http://a.example/d1/p1?sid=new")
    assert crawl.get(SID).acts
    crawl.fetch("http://a.example/d1/p1?sid=newer")
    assert crawl.get(SID).state == RuleState.RETIRED


def test_a_retired_rule_comes_back_after_a_hundred_votes() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#", pages=40))
    crawl.site = lambda url: url
    crawl.fetch("http://a.example/d1/p1?sid=new")
    assert crawl.get(SID).state == RuleState.RETIRED
    crawl.site = by_path
    crawl.fetch(*list_urls("?sid=1", "", pages=200)[80:])
    assert crawl.get(SID).state == RuleState.ACTING
    assert [each[1] for each in crawl.get(SID).history] == [
        RuleState.LEARNING,
        RuleState.ACTING,
        RuleState.RETIRED,
        RuleState.ACTING,
    ]


def test_redirects_and_canonical_addresses_propose_rules() -> None:
    crawl = Crawl(lambda url: url)
    for page in range(3):
        url = f"http://a.example/d{page}/x"
        crawl.fetch(url, requested=f"{url}/")
        crawl.fetch(f"{url}?ref={page}", canonical=url)
        crawl.fetch(f"{url}?not={page}", canonical=f"{url}/unknown")
    rules = {entry.rule.text for entry in get_host(crawl.documents, "a.example").entries}
    assert rules == {"a.example strip-slash", "a.example drop-parameter ref"}


def test_a_wrong_proposal_is_refuted_by_the_past() -> None:
    crawl = Crawl(by_parameters("page"))
    crawl.fetch(*list_urls("", "?page=2", pages=5))
    urls = list_urls("", "?page=2", pages=7)[10:]
    for url in urls:
        crawl.fetch(url, canonical=url.partition("?")[0])
    assert crawl.get("a.example drop-parameter page").different >= 5


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MOST_RULES_PER_HOST", 4)
    monkeypatch.setattr(book, "MOST_RULES", 6)
    monkeypatch.setattr(book, "MOST_FORMS", 100)
    monkeypatch.setattr(memory, "MOST_PAGES", 20)
    monkeypatch.setattr(memory, "MOST_PROPOSALS", 4)


@pytest.mark.usefixtures("few")
def test_everything_is_bounded() -> None:
    crawl = Crawl(by_path)
    for host in "abcdefgh":
        for name in "pqrstuvw":
            urls = list_urls("", f"?{name}=#", pages=4, host=f"{host}.example")
            crawl.fetch(*urls)
    rows = {table: len(some) for table, some in crawl.memory.rows.items()}
    assert rows["rules"] <= 6
    assert rows["forms"] <= 100
    assert rows["hosts"] <= 6
    hosts = [get_host(crawl.documents, f"{host}.example") for host in "abcdefgh"]
    own = [entry for host in hosts for entry in host.entries if entry.rule.host == host.host]
    assert len(own) == rows["rules"]
    assert all(len(host.entries) <= 4 for host in hosts)
    assert rows["meta"] <= 2 + 2 * 6  # two counters, and births


@pytest.mark.usefixtures("few")
def test_what_is_proven_stays() -> None:
    crawl = Crawl(by_path)
    book.MOST_FORMS = 10_000
    crawl.fetch(*list_urls("", "?sid=#"))
    for name in "pqrstuvwxyz":
        crawl.fetch(*list_urls("", f"?{name}=#", pages=4))
    assert crawl.get(SID).acts
    assert [rule.text for rule in list_acting(crawl.documents)] == [SID]


def draw_site() -> st.SearchStrategy[list[tuple[int, str]]]:
    pages = st.integers(0, 5)
    queries = st.sampled_from(["", "?a=1", "?a=2", "?b=1", "?a=1&b=1"])
    return st.lists(st.tuples(pages, queries), max_size=40)


def meet(visits: list[tuple[int, str]], site: object, rule: str) -> Iterator[tuple[str, str]]:
    """List by brute force the pairs of a page and the first one of its form, in order."""
    del site, rule
    seen: dict[str, str] = {}
    for page, query in visits:
        url = f"http://a.example/d{page}/p{query}"
        form = "&".join(sorted(part for part in query[1:].split("&") if part[:1] == "b"))
        first = seen.setdefault(f"{page} {form}", url)
        if first != url:
            yield url, first


@given(draw_site(), st.sets(st.integers(0, 5)))
def test_votes_are_counted_as_by_brute_force(
    visits: list[tuple[int, str]], strange: set[int]
) -> None:
    """For one rule that is there from the start: a vote a form, and each page that differs."""

    def site(url: str) -> str:
        return url if int(by_path(url)[2]) in strange else by_path(url)

    crawl = Crawl(site)
    rule = parse_rule("a.example drop-parameter a")
    book.add_rules(crawl.documents, [rule], 1.0)
    visits = list(dict.fromkeys(visits))
    crawl.fetch(*(f"http://a.example/d{page}/p{query}" for page, query in visits))
    record = crawl.get(rule.text)
    pairs = list(meet(visits, site, rule.text))
    different = [pair for pair in pairs if site(pair[0]) != site(pair[1])]
    same = {by_path(url) for url, first in pairs if site(url) == site(first)}
    assert record.different == len(different)
    assert record.same == len(same)
    assert set(record.conflicts) == set(different[-8:])
