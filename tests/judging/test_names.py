"""What the names of two pages say, with and without what their site calls all its pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.judging.names import (
    UNKNOWN_NAMES,
    NameShares,
    Relations,
    SiteNames,
    call_differently,
    relate_names,
)
from scrapy_simhash.judging.rule import Relation
from scrapy_simhash.pages.facts import Facts
from tests.helpers.strategies import texts

SAME, SILENT, MORE, LITTLE_MORE, DIFFER, MIXED = (
    Relation.SAME,
    Relation.SILENT,
    Relation.MORE,
    Relation.LITTLE_MORE,
    Relation.DIFFER,
    Relation.MIXED,
)
CLASSES = ("Cat", "Dog", "Emu", "Fox", "Gnu", "Hen", "Ibex", "Jay", "Koala", "Lynx")


def name_page(title: str = "", heading: str = "") -> Facts:
    return Facts(b"", 0, b"", title=title, heading=heading)


def relate(
    titles: tuple[str, str], headings: tuple[str, str] = ("", ""), site: SiteNames = UNKNOWN_NAMES
) -> Relations:
    """Relate two pages of one site both ways round."""
    first, second = (name_page(*names) for names in zip(titles, headings, strict=True))
    relations = relate_names(first, second, site, site)
    assert relate_names(second, first, site, site) == relations
    return relations


def know(titles: list[str], headings: list[str] | None = None) -> SiteNames:
    """Make what is known from pages of such titles and headings."""
    return SiteNames(NameShares(titles), NameShares(headings or [""] * len(titles)))


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        # Signs.
        ("operator<", "operator>=", DIFFER),
        ("operator==", "operator!=", DIFFER),
        ("any<T &&>", "any<T &>", DIFFER),
        ("C#", "C++", DIFFER),
        ("C", "C++", LITTLE_MORE),
        ("pandas.lt #", "pandas.lt", LITTLE_MORE),
        ("pandas.lt \N{PILCROW SIGN}", "pandas.lt", SAME),
        ("A “quoted” kiwi, and more.", 'A "quoted" kiwi and more', SAME),
        ("Kiwi – the fruit", "Kiwi - the fruit", SAME),  # noqa: RUF001
        # Case, and the order of words, are left to the words of the pages.
        ("Type isNaN", "Type isNan", SAME),
        ("London to Paris", "Paris to London", SAME),
        # Digits.
        ("vec2", "vec3", DIFFER),
        ("The sea, part 1", "The sea, part 2", DIFFER),
        ("Start on a 32-bit PC", "Start on a 64-bit PC", DIFFER),
        ("2024 Report", "2023 Report", DIFFER),
        ("Python 3", "Python 2", DIFFER),
        ("1984. A novel", "2001. A novel", DIFFER),
        ("Chapter 3. Apples", "Chapter 12. Apples", DIFFER),
        ("Page 1", "Page", MORE),
        # Letters.
        ("Apples I", "Apples II", DIFFER),
        ("A: results", "B: results", DIFFER),
        ("A. Smith", "B. Smith", DIFFER),
        ("std::set", "std::map", DIFFER),
        ("f(int)", "f(long)", DIFFER),
        # Numbering.
        ("27.4. Hot Standby", "26.4. Hot Standby", SAME),
        ("3.2.1 Apples", "Apples", SAME),
        ("A.4. Apples", "b.11. Apples", DIFFER),
        ("Manual: 3.2.1 Apples", "Manual: 4.2.1 Apples", SAME),
        # What may be an amount, a name or a date is not.
        ("2.5 kg dog food", "12.5 kg dog food", DIFFER),
        ("2.5 Liter Farbe", "0.5 Liter Farbe", DIFFER),
        ("1. FC Köln", "2. FC Köln", DIFFER),
        ("24.12.19 Concert", "25.12.19 Concert", DIFFER),
        ("7. Apples", "Apples", MORE),
        # A word that is there twice.
        ("std::bad_cast", "std::bad_cast::bad_cast", MORE),
        ("Kiwi", "Kiwi kiwi", MORE),
        ("Kiwi | Fruit", "Fruit | Kiwi", SAME),
        ("Apples and pears and plums", "Apples and pears, and plums", SAME),
        # Words.
        ("Kiwi soup", "Kiwi", MORE),
        ("Fire", "Wasser", DIFFER),
        ("Weather 東京", "Weather 大阪", DIFFER),
        # Signs only, and what is nothing.
        ("!!", "!!", SAME),
        ("!!", "??", DIFFER),
        ("!!", "!!!", DIFFER),
        ("!!", "Kiwi", MORE),
        ("\ufffd\ufffd", "\ufffd", DIFFER),
        ("\ue001", "\ue002", DIFFER),
        ("", "Kiwi", SILENT),
        ("", "", SILENT),
        (" \u200b ", "", SILENT),
    ],
)
def test_names_of_pages_whose_site_is_unknown(first: str, second: str, relation: Relation) -> None:
    """In titles and headings alike."""
    together = MORE if relation is LITTLE_MORE else relation
    assert relate((first, second)) == (relation, SILENT, together)
    assert relate(("", ""), (first, second)) == (SILENT, relation, together)


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ("Django 4.2 documentation", "Django 5.0 documentation", SAME),
        ("Apples 3.11.2 documentation", "Apples 3.9 documentation", SAME),
        ("Release 3.2.25", "Release 3.2.26", SAME),  # that is no date
        ("3.11", "3.12", DIFFER),  # nothing else is left
        ("Rates of 12.05.2024", "Rates of 19.05.2024", DIFFER),
        ("Rates of 12.05.24", "Rates of 19.05.24", DIFFER),
        ("Rates of 2024.05.12", "Rates of 2024.05.19", DIFFER),
        ("Mug 9.99 EUR", "Mug 12.50 EUR", DIFFER),
        ("Mug $9.99", "Mug $12.50", DIFFER),
        ("Up 1.5 %", "Up 2.5 %", DIFFER),
    ],
)
def test_a_release_in_a_title(first: str, second: str, relation: Relation) -> None:
    """In a heading it is what the page is about."""
    assert relate((first, second)).together is relation
    assert relate(("", ""), (first, second)).together is DIFFER


@pytest.mark.parametrize(
    ("titles", "headings", "together"),
    [
        (("Kiwi", "Kiwi"), ("Kiwi", "Kiwi"), SAME),
        (("Kiwi", "Kiwi"), ("C", "C++"), SAME),
        (("Kiwi", "Kiwi"), ("Kiwi", "Kiwi soup"), MIXED),
        (("Kiwi soup", "Kiwi"), ("C", "C++"), MORE),
        (("Kiwi", "Apple"), ("C", "C++"), DIFFER),
        (("Kiwi", "Kiwi soup"), ("Red", "Blue"), DIFFER),
        (("Red", "Blue"), ("Kiwi", "Apple"), DIFFER),
        (("Member List", "Member List"), ("Cat Member List", "Dog Member List"), MIXED),
        (("Red mug", "Blue chair"), ("ACME", "ACME"), MIXED),
        # A title in another language.
        (("Words", "Атрибуты"), ("", "Words"), DIFFER),
    ],
)
def test_title_and_heading_together(
    titles: tuple[str, str], headings: tuple[str, str], together: Relation
) -> None:
    relations = relate(titles, headings)
    assert relations.together is together
    first, second = (name_page(*names) for names in zip(titles, headings, strict=True))
    differing = {relations.title, relations.heading} - {SILENT} == {DIFFER}
    assert call_differently(first, second) is call_differently(second, first) is differing


def test_the_name_of_the_site_is_no_name() -> None:
    """In each form in which pages carry it, and wherever it stands."""
    for form in (
        "{} | ACME",
        "ACME: {}",
        "ACME » {}",
        "{} - ACME 4.2",
        "{}|ACME",
        "All of {} ACME",
    ):
        site = know([form.format(name) for name in CLASSES])
        of = form.format
        assert relate((of("Kiwi"), of("Kiwi")), site=site).together is SAME
        assert relate((of("Kiwi"), of("Apple")), site=site).together is DIFFER
        assert relate((of("Kiwi"), "Kiwi"), site=site).together is SAME
        assert relate((of("Kiwi"), of("Kiwi soup")), site=site).together is MORE
        nothing = of("").strip(" |:»-")
        # With nothing beside it, a page is called nothing.
        assert relate((nothing, nothing), site=site).together is SILENT
        assert relate((nothing, of("Kiwi")), site=site).title is LITTLE_MORE
    assert relate(("Kiwi | ACME", "Kiwi")).together is MORE


def test_a_release_or_a_date_that_all_pages_carry_is_no_name() -> None:
    titles = [f"{name} - ACME 4.2" for name in CLASSES]
    headings = [f"{name}, as of 3/5/24" for name in CLASSES]
    site = know(titles, headings)
    releases = ("Kiwi - ACME 4.2", "Kiwi - ACME 5.0")
    assert relate(releases, ("Kiwi, as of 1/5/24", "Kiwi, as of 3/5/24"), site) == (SAME,) * 3
    # A number that stands elsewhere is another one.
    assert relate(("Kiwi 4 - ACME 4.2", "Kiwi 5 - ACME 4.2"), site=site).together is DIFFER


def test_a_release_beside_that_of_the_site_is_the_subject() -> None:
    """As in notes on releases, of which a site has many."""
    notes = "ACME {} release notes - ACME 4.2 documentation"
    others = [f"{name} - ACME 4.2 documentation" for name in CLASSES]
    two = (notes.format("1.3.5"), notes.format("1.4.3"))
    many = know([*others, *map(notes.format, ("2.0", "2.1", "2.2"))])
    for site in (know(others), many, UNKNOWN_NAMES):
        assert relate(two, site=site).title is DIFFER
        assert relate((two[0], two[0]), site=site).title in {SAME, SILENT}
    # Both are the release of the manual.
    editions = ("ACME 4.2 tour - ACME 4.2 documentation", "ACME 5.0 tour - ACME 5.0 documentation")
    assert relate(editions, site=know(others)).title is SAME


def test_a_number_that_some_pages_carry_is_their_subject() -> None:
    """Even if what they are called beside that tells nothing."""
    site = know([*CLASSES, "Part 1", "Part 2", "ACME 4.1", "ACME 4.2"])
    assert relate(("ACME 4.2", "ACME 5.0"), site=site).together is DIFFER
    assert relate(("Part 7", "Part 8"), site=site).together is DIFFER
    assert relate(("Part 7", "Part 7"), site=site).together is SILENT


def test_numbers_at_the_beginning_are_no_names_where_pages_are_numbered() -> None:
    """Any kind of numbering tells of any other: chapters, sections and their parts."""
    for form in ("{}. {}", "2.{} {}", "2.{}. {}", "3.{}.1 {}"):
        site = know([form.format(number, name) for number, name in enumerate(CLASSES, 1)])
        for first, second in (("2.5 Installing", "2.6 Installing"), ("3. Apples", "4. Apples")):
            assert relate((first, second), site=site).title is SAME
            assert relate((first, second)).title is DIFFER
        assert relate(("2.5 Installing", "2.5 Removing"), site=site).title is DIFFER


def test_numbers_at_the_beginning_are_names_where_they_count_no_pages() -> None:
    """Amounts, sizes, years and house numbers are not in a row, though all pages begin so."""
    sizes = (6, 13, 13, 15, 2, 2, 45, 13, 6, 20)
    for forms in (["{}A switched socket"], ["{} gang switch", "{}A socket", "{} pin plug - ACME"]):
        for numbers in (sizes, (7, 12, 120, 33, 208, 4, 19, 91, 5, 260)):
            names = (forms[n % len(forms)].format(number) for n, number in enumerate(numbers))
            site = know([*names])
            for form in forms:
                assert relate((form.format(13), form.format(15)), site=site).title is DIFFER
                assert relate((form.format(13), form.format(13)), site=site).title is not DIFFER


def test_a_part_that_many_names_have_but_for_its_number_tells_by_it() -> None:
    """Unless another part has a subject; then a number of few values is a release."""
    site = know([f"Case {number // 2} | The court" for number in range(12)])
    assert relate(("Case 20 | The court", "Case 21 | The court"), site=site).title is DIFFER
    assert relate(("Case 20 | The court",) * 2, site=site).title is SAME
    site = know([f"{name} - PostgreSQL: {n % 3 + 14}" for n, name in enumerate(CLASSES)])
    assert relate(("Kiwi - PostgreSQL: 14", "Kiwi - PostgreSQL: 15"), site=site).title is SAME


def test_a_number_that_each_page_has_another_of_is_a_name() -> None:
    """A release is that of several pages; the number of a ticket is one page's."""
    for form in ("Ticket {}", "Fire in the harbour - {}", "Photo {} of the harbour"):
        site = know([form.format(number) for number in range(12)])
        assert relate((form.format(20), form.format(21)), site=site).title is DIFFER
        assert relate((form.format(20), form.format(20)), site=site).title is SAME
        releases = know([form.format(number // 4) for number in range(12)])
        assert relate((form.format(20), form.format(21)), site=releases).title is SILENT


def test_a_number_of_many_beside_a_subject_is_a_name() -> None:
    """Strengths, seasons, sizes: after one word, and the same ones again and again."""
    for form in ("{} tablets {} mg", "{} Season 2 Episode {}", "{} size {} - Shoes"):
        site = know([form.format(name, number) for name in CLASSES for number in (5, 10, 20)])
        assert relate((form.format("Kiwi", 5), form.format("Kiwi", 10)), site=site).title is DIFFER
        assert relate((form.format("Kiwi", 5), form.format("Kiwi", 5)), site=site).title is SAME
        # Of two values it may be a release.
        site = know([form.format(name, number) for name in CLASSES for number in (5, 10)])
        assert relate((form.format("Kiwi", 5), form.format("Kiwi", 20)), site=site).title is SAME


def test_a_kind_of_page_is_no_name() -> None:
    """ "Member List" as title of each, the class in the heading; or as a part of each title."""
    headings = [f"{name} Member List" for name in CLASSES]
    site = know(["Member List"] * len(CLASSES), headings)
    lists = ("Member List", "Member List")
    assert relate(lists, ("Owl Member List", "Puma Member List"), site) == (SILENT, DIFFER, DIFFER)
    assert relate(lists, ("Owl Member List", "Owl Member List"), site) == (SILENT, SAME, SAME)
    assert relate(lists, ("Owl", "Owl Member List"), site).together is SAME
    # A fifth of the pages is enough for a part, and not for a word.
    titles = [f"Crypto++: {name} Class" for name in CLASSES[2:]]
    site = know(["Crypto++: | Member List"] * 2 + titles)
    assert relate(("Crypto++: | Member List",) * 2, site=site).together is SILENT
    assert relate(("List of owls", "List of pumas"), site=site).together is DIFFER


def test_two_names_that_many_pages_have_are_two_names_all_the_same() -> None:
    site = know(["News"] * 5 + ["Sport"] * 5)
    assert relate(("News", "Sport"), site=site).together is not SAME
    site = know(["News"] * 3 + ["Sport"] * 3 + list(CLASSES))
    assert relate(("News", "News"), site=site).together is SILENT
    assert relate(("News", "Sport"), site=site).together is DIFFER


def test_a_heading_that_is_the_sites_leaves_it_to_the_title() -> None:
    site = know([f"{name} - ACME" for name in CLASSES], ["ACME"] * len(CLASSES))
    logo = ("ACME", "ACME")
    assert relate(("Kiwi - ACME", "Kiwi - ACME"), logo, site) == (SAME, SILENT, SAME)
    assert relate(("Kiwi - ACME", "Apple - ACME"), logo, site) == (DIFFER, SILENT, DIFFER)
    assert relate(("ACME", "ACME"), logo, site).together is SILENT


some_names = texts | st.lists(
    st.sampled_from(
        ["Kiwi", "kiwi", "KIWI", "soup", "4.2", "7", "²", "<", ">=", "a_b", "a_B", "-", "|"]
    ),
    max_size=6,
).map(" ".join)
sites = st.lists(some_names, max_size=12).map(know) | st.just(UNKNOWN_NAMES)


@given(st.tuples(some_names, some_names), st.tuples(some_names, some_names), sites)
def test_any_names_are_related_the_same_both_ways(
    titles: tuple[str, str], headings: tuple[str, str], site: SiteNames
) -> None:
    assert relate(titles, headings, site).together in Relation
    itself = relate((titles[0], titles[0]), (headings[0], headings[0]), site)
    assert set(itself) <= {SAME, SILENT}


single = st.lists(
    st.sampled_from(["kiwi", "soup", "a", "b", "<", ">="]), min_size=1, max_size=4
).map(" ".join)


@given(single, single)
def test_what_a_site_calls_all_its_pages_changes_nothing(first: str, second: str) -> None:
    site = know([f"{name} | The Daily" for name in CLASSES])
    named = relate((f"{first} | The Daily", f"{second} | The Daily"), site=site)
    assert named == relate((first, second))
