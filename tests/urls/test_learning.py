"""What a crawl teaches, above all where it must not learn."""

from collections.abc import Callable
from itertools import count
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.stores import rulebook
from scrapy_simhash.stores.rulebook import add_rules, change_rule, list_acting, list_rules
from scrapy_simhash.urls.applying import apply_rule
from scrapy_simhash.urls.learning import learn
from scrapy_simhash.urls.rules import ACTS, RuleState, parse_rule
from tests.helpers.urlrules import RULE, Crawl, must_parse

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
    crawl.fetch(*list_urls("", "?sid=#", "?sid=9#"))
    (change,) = crawl.learn()
    record = crawl.get(SID)
    assert (change.text, record.state) == (SID, RuleState.ACTING)
    assert (record.same, record.different) == (60, 0)
    assert record.directories[:3] == ("/d0/", "/d1/", "/d2/")
    assert crawl.learn() == []
    crawl.crawl(list_urls("", "?sid=7#"))
    assert len(crawl.parked) == 60
    assert crawl.list_lost() == set()


def test_one_value_says_nothing_of_the_others() -> None:
    crawl = Crawl(lambda url: by_path(url) + ("other" if "format=pdf" in url else ""))
    crawl.fetch(*list_urls("", "?format=print"))
    crawl.learn()
    assert crawl.list_states() == {"a.example drop-value format=print": RuleState.ACTING}
    assert len(crawl.get("a.example drop-parameter format").values) == 1
    crawl.crawl(list_urls("?format=pdf"))
    assert crawl.parked == {}


def test_a_site_without_duplicates_has_no_rules() -> None:
    crawl = Crawl(by_parameters("id"))
    crawl.fetch(*list_urls("", "?id=1", "?id=2"))
    assert learn(crawl.pages, (), RULE) == []


def test_a_single_pair_of_duplicates_makes_no_candidate() -> None:
    crawl = Crawl(by_path)
    crawl.fetch("http://a.example/x", "http://a.example/x?sid=1", "http://a.example/x?sid=2")
    assert learn(crawl.pages, (), RULE) == []
    crawl.fetch("http://a.example/y", "http://a.example/y?sid=1")
    crawl.learn()
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
    crawl.fetch(*list_urls(*queries))
    crawl.learn()
    assert crawl.get(rule).state == RuleState.ACTING


def make_twins(first: str, second: str) -> list[str]:
    """List pages of one place, each after its twin in another one."""
    places = [(f"{first}d{page % 5}/p{page}", f"{second}d{page % 5}/p{page}") for page in range(80)]
    return [url for pair in places for url in pair]


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ("a.example drop-leading mirror", "http://a.example/", "http://a.example/mirror/"),
        ("a.example drop-leading mirror", "http://a.example/mirror/", "http://a.example/"),
        ("a.example drop-segments print", "http://a.example/x/", "http://a.example/x/print/"),
        ("a.example drop-session", "http://a.example/", "http://a.example/(S(q1))/"),
        ("a.example fold-case", "http://a.example/docs/", "http://a.example/Docs/"),
        ("m.a.example host-alias a.example", "http://a.example/", "http://m.a.example/"),
        ("a.example use-https", "https://a.example/", "http://a.example/"),
        ("m.a.example host-alias https://a.example", "https://a.example/", "http://m.a.example/"),
    ],
)
def test_places_are_learned(rule: str, first: str, second: str) -> None:
    crawl = Crawl(lambda url: "/".join(url.split("/")[-2:]))
    crawl.fetch(*make_twins(first, second))
    crawl.learn()
    assert (crawl.get(rule).same, crawl.list_states()) == (80, {rule: RuleState.ACTING})
    changed = [place for place in (first, second) if place != format_form(rule, place)]
    assert len(changed) == 1


def format_form(rule: str, place: str) -> str:
    address = must_parse(place)
    parsed = parse_rule(rule)
    return place if address.host != parsed.host or apply_rule(parsed, address) is address else ""


def test_two_sites_versions_and_slugs_have_no_rules() -> None:
    for first, second in (
        ("http://a.example/17/", "http://a.example/15/"),
        ("http://a.co.uk/", "http://b.co.uk/"),
    ):
        crawl = Crawl(lambda url: "/".join(url.split("/")[-2:]))
        crawl.fetch(*make_twins(first, second))
        crawl.learn()
        assert list_rules(crawl.documents) == []


def test_a_wall_in_the_middle_teaches_nothing() -> None:
    """From page 20 on, all numbered pages show the login form."""
    visits = count()

    def site(url: str) -> str:
        if "page=" in url and next(visits) > 20:
            return "login"
        return url

    crawl = Crawl(site)
    add_rules(crawl.documents, [parse_rule("a.example drop-parameter page")], 1.0)
    crawl.fetch(*list_urls("?page=2", "?page=3", pages=100))
    crawl.learn()
    assert crawl.list_states() == {}
    # All the pages that show one document have one vote.
    assert crawl.get("a.example drop-parameter page").same == 1
    crawl.walls = {page.document for page in crawl.pages if crawl.site(page.url) == "login"}
    (record,) = learn(crawl.pages, crawl.walls, RULE, [parse_rule("a.example drop-parameter page")])
    assert record.same == 0


def test_the_first_page_and_no_page_are_one_but_the_second_is_another() -> None:
    def site(url: str) -> str:
        return url.removesuffix("?page=1")

    crawl = Crawl(site)
    crawl.fetch(*list_urls("", "?page=1", "?page=2", "?page=3"))
    crawl.learn()
    assert crawl.list_states() == {"a.example drop-value page=1": RuleState.ACTING}
    assert crawl.get("a.example drop-parameter page").different > 60


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
    crawl.fetch(*list_urls(*queries, pages=100))
    crawl.learn()
    assert crawl.list_states() == {}


def test_what_matters_in_one_folder_is_dropped_in_the_others() -> None:
    def site(url: str) -> str:
        return url if "/d0/" in url else by_path(url)

    crawl = Crawl(site)
    crawl.fetch(*list_urls("", "?ref=#", pages=300))
    crawl.learn()
    assert crawl.list_states() == {"a.example drop-parameter ref except /d0/": RuleState.ACTING}
    crawl.crawl(list_urls("?ref=9#", pages=300))
    assert len(crawl.parked) == 240
    assert crawl.list_lost() == set()


def test_a_cookie_that_a_parameter_sets_is_no_rule() -> None:
    state = {"lang": "en"}

    def site(url: str) -> str:
        if "lang=" in url:
            state["lang"] = url[-2:]
        return f"{by_path(url)} {state['lang']}"

    crawl = Crawl(site)
    crawl.fetch(*list_urls("", "?lang=de", "?lang=fr"))
    crawl.learn()
    assert not any(state in ACTS for state in crawl.list_states().values())


def test_a_price_by_referrer_is_the_same_page() -> None:
    def site(url: str) -> str:
        return by_path(url) + ("~3" if "ref=" in url else "")

    crawl = Crawl(site)
    crawl.fetch(*list_urls("", "?ref=#"))
    crawl.learn()
    assert crawl.get("a.example drop-parameter ref").acts


def test_tests_with_visitors_are_no_rule() -> None:
    """Every third answer has another text, whatever was asked for."""
    answers = count()

    def site(url: str) -> str:
        return by_path(url) + ("~150" if next(answers) % 3 == 0 else "")

    crawl = Crawl(site)
    crawl.fetch(*list_urls("", "?ref=#", "?ref=9#", "?ref=8#"))
    crawl.learn()
    assert crawl.list_states() == {}


def test_a_server_that_knows_capitals_keeps_them() -> None:
    crawl = Crawl(lambda url: url if "/d1/" in url.lower() else url.lower())
    urls = list_urls("", pages=80)
    crawl.fetch(*(url for each in urls for url in (each, each.replace("/d", "/D"))))
    crawl.learn()
    assert "a.example fold-case" not in crawl.list_states()


def test_an_acting_rule_that_later_pages_refute_is_retired_and_takes_more_votes_again() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#", pages=40))
    crawl.learn()
    crawl.site = lambda url: url
    crawl.fetch("http://a.example/d1/p1?sid=new")
    (change,) = crawl.learn()
    assert change.state is RuleState.RETIRED
    assert change.reason.startswith("different pages: http://a.example/d1/p1?sid=new ")
    crawl.site = by_path
    crawl.fetch(*list_urls("?sid=1", "", pages=200)[80:])
    crawl.learn()
    assert [state for _, state, _ in crawl.get(SID).history] == [
        RuleState.LEARNING,
        RuleState.ACTING,
        RuleState.RETIRED,
        RuleState.ACTING,
    ]


def test_a_rule_that_a_sample_retired_is_not_proven_by_the_same_votes() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#", pages=40))
    crawl.learn()
    record = crawl.get(SID)
    rulebook.set_state(crawl.documents, record, RuleState.RETIRED, "a sample", 1.0)
    crawl.fetch(*list_urls("", "?sid=#", pages=50)[80:])
    assert crawl.learn() == []
    assert not crawl.get(SID).acts


def test_a_pinned_rule_that_is_wrong_is_kept() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#", pages=10))
    crawl.learn()
    change_rule(crawl.documents, parse_rule(SID).id, "pin", 1.0)
    crawl.site = lambda url: url
    crawl.fetch("http://a.example/d1/p1?sid=new")
    assert crawl.learn() == []
    assert (crawl.get(SID).acts, crawl.get(SID).different) == (True, 1)


def test_a_banned_rule_never_acts_until_it_may_learn() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#"))
    add_rules(crawl.documents, [parse_rule(SID)], 1.0)
    change_rule(crawl.documents, parse_rule(SID).id, "ban", 1.0)
    assert crawl.learn() == []
    assert crawl.get(SID).state is RuleState.BANNED
    change_rule(crawl.documents, parse_rule(SID).id, "learn", 1.0)
    assert [change.state for change in crawl.learn()] == [RuleState.ACTING]


def test_what_a_person_may_not_ask_for() -> None:
    crawl = Crawl(by_path)
    with pytest.raises(ValueError, match="no URL rule has the id 'x'"):
        change_rule(crawl.documents, "x", "pin", 1.0)
    add_rules(crawl.documents, [parse_rule(SID)], 1.0)
    with pytest.raises(ValueError, match="'drop' is nothing to do with a URL rule"):
        change_rule(crawl.documents, parse_rule(SID).id, "drop", 1.0)  # type: ignore[arg-type]


def test_rules_that_follow_each_other_are_checked_together() -> None:
    crawl = Crawl(lambda url: by_path(url).replace("/mirror", ""))
    urls = list_urls("", "?sid=#", pages=40)
    crawl.fetch(*urls, *(url.replace("/d", "/mirror/d") for url in urls))
    crawl.learn()
    assert set(crawl.list_states()) == {SID, "a.example drop-leading mirror"}
    crawl.site = lambda url: url
    crawl.fetch("http://a.example/d0/new", "http://a.example/mirror/d0/new?sid=1")
    changes = crawl.learn()
    assert {change.text for change in changes} == {SID, "a.example drop-leading mirror"}
    assert {change.state for change in changes} == {RuleState.RETIRED}


def test_parameters_that_do_not_only_come_together_retire_their_rule() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?CFID=#&CFTOKEN=#"))
    crawl.learn()
    rule = "a.example drop-parameters CFID CFTOKEN"
    assert crawl.get(rule).acts
    crawl.fetch("http://a.example/d1/p1?CFID=1")
    crawl.learn()
    assert crawl.get(rule).state is RuleState.RETIRED


def test_another_callback_has_no_vote() -> None:
    crawl = Crawl(by_path)
    for url in list_urls("", "?sid=#"):
        crawl.fetch(url, callback="parse_item" if "sid" in url else "parse")
    crawl.learn()
    assert list_rules(crawl.documents) == []


def test_short_pages_have_no_vote() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#", pages=3))
    crawl.fetch(*list_urls("", "?sid=7#"), stub=True)
    crawl.learn()
    assert crawl.get(SID).same == 3


def test_a_page_a_day_later_may_have_changed_but_two_of_that_day_refute_a_rule() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#"))
    crawl.learn()
    crawl.site = lambda url: f"{url} of today"
    crawl.time += 90_000
    crawl.fetch("http://a.example/d1/p1?sid=new")
    assert crawl.learn() == []
    crawl.fetch("http://a.example/d1/p1?sid=newer")
    (change,) = crawl.learn()
    assert change.state is RuleState.RETIRED


def test_canonical_addresses_propose_rules() -> None:
    crawl = Crawl(lambda url: url)
    for page in range(3):
        url = f"http://a.example/d{page}/x"
        crawl.fetch(url)
        crawl.fetch(f"{url}?ref={page}", canonical=url)
        crawl.fetch(f"{url}?not={page}", canonical=f"{url}/unknown")
    crawl.learn()
    (record,) = list_rules(crawl.documents)
    assert (record.rule.text, record.different) == ("a.example drop-parameter ref", 3)


def test_candidates_that_pages_propose_no_more_are_forgotten() -> None:
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#", pages=4))
    crawl.learn()
    add_rules(crawl.documents, [parse_rule("a.example drop-parameter imported")], 1.0)
    crawl.pages.clear()
    crawl.learn()
    (record,) = list_rules(crawl.documents)
    assert record.imported


def test_rules_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulebook, "MOST_RULES_PER_HOST", 4)
    monkeypatch.setattr(rulebook, "MOST_RULES", 6)
    crawl = Crawl(by_path)
    crawl.fetch(*list_urls("", "?sid=#"))
    for host in ("a.example", "b.a.example"):
        for name in "pqrstuvw":
            crawl.fetch(*list_urls("", f"?{name}=#", pages=4, host=host))
    crawl.learn()
    assert 4 <= crawl.documents.count_rows("rules") <= 6
    assert [rule.text for rule in list_acting(crawl.documents)] == [SID]


def draw_site() -> st.SearchStrategy[list[tuple[int, str]]]:
    pages = st.integers(0, 5)
    queries = st.sampled_from(["", "?a=1", "?a=2", "?b=1", "?a=1&b=1"])
    return st.lists(st.tuples(pages, queries), max_size=40, unique=True)


@given(draw_site(), st.sets(st.integers(0, 5)))
def test_votes_are_counted_as_by_brute_force(
    visits: list[tuple[int, str]], strange: set[int]
) -> None:
    """A vote a form and a document, and one for each page that differs."""

    def site(url: str) -> str:
        return url if int(by_path(url)[2]) in strange else by_path(url)

    crawl = Crawl(site)
    crawl.fetch(*(f"http://a.example/d{page}/p{query}" for page, query in visits))
    rule = parse_rule("a.example drop-parameter a")
    found = {record.rule: record for record in learn(crawl.pages, (), RULE, [rule])}
    first: dict[str, str] = {}
    different, same, changing = [], set(), set()
    for page, query in visits:
        url = f"http://a.example/d{page}/p{query}"
        form = f"{page} {'b' in query}"
        changing |= {form} if "a=" in query else set()
        kept = first.setdefault(form, url)
        if kept != url and form in changing:
            if site(url) == site(kept):
                same.add(site(url))
            else:
                different.append((url, kept))
    assert found[rule].different == len(different)
    assert found[rule].same == len(same)
    assert set(found[rule].conflicts) == set(different[-8:])
