"""Records are kept whatever their template, copies are found; and pages that were made to harm."""

import json
import random
import re
import unicodedata
from itertools import product
from unittest.mock import Mock

import pytest

from scrapy_simhash.judging import matching
from scrapy_simhash.judging.rule import UNKNOWN, find_names_apart
from tests.helpers.needing import slow_but
from tests.helpers.pages import lay_out, make_words
from tests.helpers.records import HOST, SHAPES, list_dropped, make_article, make_record, shuffle

TEMPLATE = "Neutral Discussion House"
ARTICLES = [(f"/article/{number}", make_article(number)) for number in range(10)]


@pytest.mark.parametrize("shape", slow_but(["cells", "prose"], SHAPES))
@pytest.mark.parametrize(
    ("own", "template", "title", "address"),
    [
        (5, 800, "Case details", "/detail?id={}"),
        (5, 800, "", "/case/{}"),
        (20, 2_000, "Case details", "/{}/view"),
    ],
)
def test_records_of_a_template(
    shape: str, own: int, template: int, title: str, address: str
) -> None:
    """A hostile review's B and C: up to 59 of 60 were lost."""
    records = {make_record(number, shape, own, template, title): number for number in range(24)}
    pages = [(address.format(4_000 + number), html) for html, number in records.items()]
    assert list_dropped(shuffle([*pages, *ARTICLES], own)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<p>Size <td>40", "<p>Size <td>41"),
        ("<p>Price: 15 \u20ac", "<p>Price: 17 \u20ac"),
        ("<td>C++", "<td>C#"),
        ("<td>-5", "<td>5"),
        ("<p>A register of rdna1 and later", "<p>A register of rdna2 and later"),
        ("<p>star star star", "<p>star star star star star"),
        ("<td>Pool<td>\u2713<td>Bar<td>\u2717", "<td>Pool<td>\u2717<td>Bar<td>\u2713"),
        ("<td>May<td>-5<td>June<td>5", "<td>May<td>5<td>June<td>5"),
        ("<p>Food \u2605\u2605 Room \u2605", "<p>Food \u2605 Room \u2605\u2605"),
        ("<td>Rated AA-", "<td>Rated AA"),
        ("<td>1/2 in", "<td>1.2 in"),
        ("<td>5\u2032 wide", "<td>5\u2033 wide"),
        ("<p>Price &#xe603; now", "<p>Price &#xe604; now"),
        (
            "<input type=radio checked><input type=radio>",
            "<input type=radio><input type=radio checked>",
        ),
        (
            "<select><option selected>A<option>B</select>",
            "<select><option>A<option selected>B</select>",
        ),
        ("<b role=img aria-label='4 of 5'></b>", "<b role=img aria-label='3 of 5'></b>"),
        ("<p>from Ann Mary Lee<p>to Bob Joe Kay", "<p>from Bob Joe Kay<p>to Ann Mary Lee"),
    ],
)
def test_records_that_have_no_word_of_their_own(one: str, other: str) -> None:
    """What they differ in, many pages of the site have, or it is no word."""
    others = [
        (f"/item/{n}", make_article(n, beside=beside))
        for n, beside in enumerate([one, other] * 10, 20)
    ]
    two = [(f"/item/{n}", make_article(7, beside=beside)) for n, beside in ((7, one), (8, other))]
    assert list_dropped([*others, *two]) == []
    assert list_dropped(two) == []


@pytest.mark.parametrize(
    "sentence",
    [
        *("<p>Each tablet holds {} mg", "<p>Its number is 97831614841{}", "<p>Call 030 12 {}"),
        *("<p>They wrote {} tickets", "<p>The score is {}:1"),
    ],
)
@pytest.mark.parametrize(
    "address",
    [
        *("/dose/{}", "/item?id={}", "/{}/view", "/set-{}-of-tea.html", "/dose_{}", "/dose{}"),
        *("/{}_view.html", "/item?id=p{}", "/tea-{}g"),
    ],
)
def test_one_number_tells_numbered_addresses_apart(sentence: str, address: str) -> None:
    """A stranger's site: 24 of 72 records were lost."""
    pages = [
        (address.format(7_000 + number), make_article(number % 10, beside=sentence.format(number)))
        for number in range(11, 29)
    ]
    assert list_dropped(pages) == []


@pytest.mark.parametrize("site", [ARTICLES[:7], []])
def test_two_canonical_addresses_are_two_pages(site: list[tuple[str, str]]) -> None:
    """Unless nothing differs; two police reports of a stranger's site were dropped for a third."""
    for own, other, dropped in (
        ("/amp/one", "/amp/two", ["/two"]),
        ("/one", "/one", ["/two", "/three"]),
        ("/one", "/one/#top", ["/two", "/three"]),
    ):
        heads = canonical(own), canonical(other)
        pages = [
            ("/one", make_article(7, head=heads[0])),
            ("/two", make_article(7, head=heads[1])),
            ("/three", make_article(7, head=heads[1], beside=f"<p>{' '.join(make_words(9, 20))}")),
        ]
        assert list_dropped([*site, *pages]) == dropped


def test_releases_of_a_manual() -> None:
    """What all pages of a release have is no page's own, though it stands in another's place."""
    days = {"1.0": "<td>Thu Aug", "2.0": "<td>Tue Apr"}
    added = [("2.0", number) for number in range(20, 30)]
    numbered = [(release, number) for release in days for number in range(10)]
    pages = [
        (f"/{release}/article-{number}.html", make_article(number, beside=days[release]))
        for release, number in [*added, *numbered]
    ]
    assert list_dropped(pages) == [f"/2.0/article-{number}.html" for number in range(10)]


# Two pages or three of a known site, of which none is a copy.
SIBLINGS: dict[str, list[tuple[str, str]]] = {
    # In Boost `entry_type` of two environments differs in the name of the environment only.
    "a folder that is the subject": [
        (f"/{folder}/entry_type.html", make_article(7, beside=f"<p>The type of {folder} here"))
        for folder in ("weibull", "cauchy")
    ],
    # Folders with digits may be those of releases; the names behind them are those of pages.
    "a folder in one with digits": [
        *((f"/v{n % 2}/{n}/article-{n}.html", make_article(n)) for n in range(20, 40)),
        *(
            (f"/{folder}/entry.html", make_article(7, beside=f"<p>The type of {folder[3:]} here"))
            for folder in ("v0/weibull", "v1/cauchy")
        ),
    ],
    # Six of 1,960 made-up variants were lost; the folder of a release has several pages.
    **{
        name: [
            (form.format(number), make_article(7, beside=f"<p>Colour: {colour}"))
            for number, colour in enumerate(("red", "blue"))
        ]
        for name, form in (
            ("print views of variants", "/item/8003/c{}/print"),
            ("pages of models", "/x{}/specs"),
        )
    },
    "folders in another order": [
        (f"/t/{start}/{end}/times", make_article(7, beside=f"<p>Leaves {start} <p>reaches {end}"))
        for start, end in (("rome", "paris"), ("paris", "rome"))
    ],
    # In CMake a property of targets and one of directories differ in few words of a sentence.
    "folders whose pages have other ends": [
        (
            f"/{folder}/compile_options.html",
            make_article(7, beside=f"<p>Of each {kind} that is built<p>{' '.join(words)}"),
        )
        for folder, kind, words in (
            ("prop_tgt", "target", make_words(70, 40)),
            ("prop_dir", "directory", make_words(71, 40)),
        )
    ],
    # LLVM describes an operand for each processor, under one title.
    "addresses that are the subjects": [
        ("/gfx7_attr.html", make_article(7, beside="<p>As gfx7 has it")),
        ("/gfx8_attr.html", make_article(7).replace("<h1>", "<p>Only of gfx8 and later</p><h1>")),
    ],
    # A stranger's shop: the page of a colour has all that the product's has, and one line.
    "variants of a product": [
        ("/p/kettle", make_article(7)),
        ("/p/kettle/black", make_article(7, beside="<p>Colour: black. Article 1603.")),
        ("/p/kettle?colour=red", make_article(7, beside="<p>Colour: red. Article 1409.")),
    ],
    # A manual of Free Pascal has no titles; all that one class has, another one has, too.
    "an address that alone names a page": [
        (f"/{name}-2.html", make_article(7).partition("</h1>")[2].replace("</body>", beside))
        for name, beside in (("numeric", ""), ("integer", "<p>Least value of the integer here"))
    ],
    "names with the same words in another order": [
        (path, re.sub(r"<title>.*?</title>", f"<title>{name}</title>", make_article(7)))
        for path, name in (
            ("/rome", "Flights from Rome to Paris"),
            ("/paris", "Flights from Paris to Rome"),
        )
    ],
}


@pytest.mark.parametrize("siblings", SIBLINGS)
def test_siblings_are_kept(siblings: str) -> None:
    pages = [*ARTICLES[:7], *ARTICLES[8:], *SIBLINGS[siblings]]
    assert list_dropped(pages) == []


COLOURS, SIZES = ("red", "blue", "green"), ("small", "large", "huge")


def test_variants_in_the_words_of_all_products() -> None:
    """ "Colour: red" is on so many pages of a site that it is template."""
    pages = [
        (f"/p/{number}{path}", make_article(number, beside=f"<p>{', '.join(COLOURS)}{beside}"))
        for number in range(9)
        for path, beside in (
            ("", ""),
            *((f"/{each}", f"<p>Colour: {each}. Article {number}{len(each)}.") for each in COLOURS),
        )
    ]
    assert list_dropped(pages) == []


@pytest.mark.parametrize(("products", "words"), [(1, 0), (12, 120), (12, 0)])
def test_variants_at_numbers(products: int, words: int) -> None:
    """Of three values, each of which a fifth of the pages have: as stubs, and beside long texts."""
    pages = []
    values = product(range(products), COLOURS, SIZES, ("In stock", "Sold out"))
    for place, (number, *own) in enumerate(values):
        name, text = f"Thing {make_words(number, 1)[0]}", lay_out(make_words(number, words))
        html = f"<title>{name}</title><h1>{name}</h1>{text}<ul><li>{'<li>'.join(own)}</ul>"
        pages.append((f"/item/{8_813 + 13 * place}", html))
    assert list_dropped(shuffle(pages, 0)) == []
    assert list_dropped([pages[7], ("/item/1", pages[7][1])]) == ["/item/1"]


VIEWS = ["/p/{}/view", "/p/{}?view=1"]


BOTH = "The pool is {} to all of you and the sauna is {} to all of you"


@pytest.mark.parametrize("view", [*VIEWS, "/used/{}"])
@pytest.mark.parametrize("place", ["<p>{}</p><nav>", "</h1><p>{}</p>", "<p>{}</p></footer>"])
@pytest.mark.parametrize(
    "values",
    [
        ("Sold out", "In stock", "To order"),
        ("We are closed on Sundays and holidays", "Open daily until nine in any weather"),
        (BOTH.format("open", "shut"), BOTH.format("shut", "open")),
        tuple(f"Price {number} euros today" for number in range(100)),
    ],
)
def test_values_that_many_pages_have(values: tuple[str, ...], place: str, view: str) -> None:
    """Up to all of the pages were lost, though each said so beside or in its main text."""
    tag = re.sub("<p>.*</p>", "", place)
    pages = [
        (path.format(n), make_article(n).replace(tag, place.format(values[at % len(values)])))
        for n in range(10, 34)
        for at, path in ((n, "/p/{}"), (n + 1, view))
    ]
    assert list_dropped(shuffle([*ARTICLES, *pages], 0)) == []


@pytest.mark.parametrize(
    ("said", "views"),
    [
        ("<p>Sold out", [*VIEWS, "/used/{}"]),
        ("<p>A scratch near number {} on its left", ["/used/{}"]),
        ("</main><p>A scratch near number {} on its left", ["/used/{}"]),
    ],
)
def test_views_that_say_more_are_kept(said: str, views: list[str]) -> None:
    """Of used things half of the pages were lost, by the order in which they came."""
    for view in views:
        pages = [*ARTICLES]
        for n in range(10, 34):
            page = make_article(n).replace("<h1>", "<main><h1>")
            more = said.format(n) if n % 3 else "<p>In stock"
            used = page.replace("<footer>", f"{more}<footer>")
            pages += [(view.format(n), used), (f"/p/{n}", page)]
        assert {*list_dropped(shuffle(pages, 0))} <= {f"/p/{n}" for n in range(10, 34)}


def test_an_address_with_a_long_number_takes_no_time() -> None:
    """A pattern that went back for each digit took minutes."""
    name = f"{'1' * 1_000}/view"
    assert UNKNOWN.find_name(f"http://a.example/{name}") == (name, "")


@pytest.mark.parametrize("invisible", ["\u00ad", "\u200b", "\u2060", "\ufeff"])
def test_copies_with_invisible_characters(invisible: str) -> None:
    """A trial's case 6b: 0 of 10 were found."""
    copies = {
        f"/soft/{number}": re.sub(r"(\w{4})(?=\w{3})", rf"\1{invisible}", html)
        for number, (_, html) in enumerate(ARTICLES)
    }
    assert all(invisible in html for html in copies.values())
    assert list_dropped([*ARTICLES, *copies.items()]) == [*copies]


LETTERS: dict[str, list[str]] = {}
for letter in filter(str.isalpha, map(chr, range(0x20000))):
    LETTERS.setdefault(unicodedata.name(letter, "NONE").split()[0], []).append(letter)
SCRIPTS = """
LATIN GREEK CYRILLIC ARMENIAN GEORGIAN HEBREW ARABIC SYRIAC THAANA NKO DEVANAGARI BENGALI GURMUKHI
GUJARATI ORIYA TAMIL TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR KHMER MONGOLIAN
HANGUL HIRAGANA KATAKANA BOPOMOFO CJK YI ETHIOPIC CHEROKEE TIFINAGH CANADIAN VAI BALINESE JAVANESE
DESERET
"""


@pytest.mark.parametrize("script", SCRIPTS.split())
def test_text_in_40_scripts(script: str) -> None:
    """A copy is found, another record is kept."""
    letters = LETTERS[script][:2_000]

    def write(seed: int, words: int) -> list[str]:
        draw = random.Random(f"{script} {seed}")  # noqa: S311
        return ["".join(draw.choices(letters, k=draw.randint(3, 6))) for _ in range(words)]

    def lay_out(words: list[str], beside: str = "") -> str:
        lines = (" ".join(words[at : at + 10]) for at in range(0, len(words), 10))
        text = f"<title>{' '.join(words[:2])}</title><p>{'<p>'.join(lines)}"
        return f"{text}<div>{beside}</div><p>Imprint and terms of use"

    pages = {f"/{seed}": lay_out(write(seed, 120)) for seed in range(8)}
    template = write(100, 100)
    for number in range(2):
        own = [word for seed in (number, number + 50) for word in write(200 + seed, 6)]
        pages[f"/record-{number}"] = lay_out([*template[:50], *own, *template[50:]])
    pages["/7-copy"] = lay_out(write(7, 120))
    assert list_dropped([*pages.items()]) == ["/7-copy"]


def test_pictures_with_other_texts() -> None:
    """A trial's case 15: a gallery."""
    pages = [
        (f"/gallery/{number}", make_article(7, title="Gallery", beside="".join(
            f'<img src="/{n}.jpg" alt="{" ".join(make_words(number * 50 + n, 3))}">'
            for n in range(12)
        )))
        for number in range(12)
    ]  # fmt: skip
    assert list_dropped([*ARTICLES, *pages]) == []


def canonical(path: str) -> str:
    return f'<link rel="canonical" href="{HOST}{path}">'


def test_a_declared_copy_may_have_more_of_its_own() -> None:
    """Each has another advertisement, as two records have other fields."""
    promotions = [f"</main><p>Offer {' '.join(make_words(seed, 5))}</p>" for seed in (77, 78)]
    heads = {
        "/print-of-7": canonical("/article/7"),
        "/amp-of-8": f'<meta property="og:url" content="{HOST}/article/8">',
        "/nine": "",
    }
    links = ["", "", f'<link rel="alternate" media="print" href="{HOST}/nine">']
    originals, copies, undeclared = (
        [
            (path, make_article(number, beside=promotion, head=head).replace("<h1>", "<main><h1>"))
            for number, path, head in zip((7, 8, 9), paths, heads_of, strict=True)
        ]
        for promotion, paths, heads_of in (
            (promotions[0], [f"/article/{number}" for number in (7, 8, 9)], links),
            (promotions[1], [*heads], heads.values()),
            (promotions[1], [*heads], ["", "", ""]),
        )
    )
    assert list_dropped([*ARTICLES[:7], *originals, *copies]) == [*heads]
    assert list_dropped([*ARTICLES[:7], *originals, *undeclared]) == ["/nine"]


def test_variants_that_declare_their_product_are_kept() -> None:
    """A stranger's shop lost two of each product, in another colour and with another number."""
    head = canonical("/p/7")
    values = [("red", 101, "49.90"), ("olive", 102, "49.90"), ("black", 103, "54.90")]
    pages = [
        (
            f"/p/7?variant={number}" if number > 101 else "/p/7",
            make_article(7, head=head).replace(
                "</h1>", f"</h1><p>{price}<p>Colour {colour}<p>Article {number}<p>"
            ),
        )
        for colour, number, price in values
    ]
    assert list_dropped([*ARTICLES[:7], *pages]) == []
    assert list_dropped(pages) == []


def test_a_declared_copy_with_other_numbers() -> None:
    """Whoever declares somebody else's page has it dropped only if no number differs."""
    view = f'<link rel="amphtml" href="{HOST}/victim">'
    for account, dropped in (("4711 12 33 08", []), ("9911 55 20 77", ["/victim"])):
        pages = [
            ("/article/7", make_article(7, beside="<p>Pay to 9911 55 20 77 today", head=view)),
            ("/victim", make_article(7, beside=f"<p>Pay to {account} today")),
        ]
        assert list_dropped([*ARTICLES[:7], *pages]) == dropped


def test_a_variant_that_declares_its_product_and_a_print_view_with_other_numbers() -> None:
    """A size has its own number, price, weight and code; a print view says when it was made."""
    table = "<table><tr><td>No<td>{}<td>EUR<td>{}<td>g<td>{}<td>Code<td>{}</table>"
    product, size = (
        make_article(7, head=canonical("/article/7")).replace("</h1>", f"</h1>{table.format(*own)}")
        for own in ((4711, 15, 300, 8812), (4712, 19, 450, 8813))
    )
    pages = [*ARTICLES[:7], ("/article/7", product), ("/article/7?size=2", size)]
    assert list_dropped(pages) == []
    printed = make_article(7, head=canonical("/article/7"))
    printed = printed.replace("</footer>", "<p>Made on 12 5 2026 at 10 33 17</footer>")
    pages = [*ARTICLES[:8], ("/print?id=7", printed)]
    assert list_dropped(pages) == ["/print?id=7"]


def test_a_view_of_a_page_with_much_beside_its_text() -> None:
    """AMP views say less than their pages, and mirrors declare them by the file of a folder."""
    page = make_article(7, beside=f"<p>Read also: {' '.join(make_words(70, 60))}</p>")
    head, ago = canonical("/article/7/index.html"), "<p>Written seven years ago"
    view = make_article(7, beside=ago, head=head)
    pages = [("/article/7/", page), ("/article/7/amp/", view)]
    assert list_dropped(pages) == ["/article/7/amp/"]
    assert list_dropped([*ARTICLES[:7], *pages]) == ["/article/7/amp/"]


@pytest.mark.parametrize(("slash", "dropped"), [("/", ["/shelf/tea", "/shelf/sea"]), ("", [])])
def test_pages_that_write_out_where_they_are(slash: str, dropped: list[str]) -> None:
    """A path tells nothing; without its first slash it may be what a record says, as eur/usd."""
    paths = ["/shelf/oak", "/shelf/tea", "/shelf/sea"]
    pages = [
        (path, make_article(7, beside=f"<p>There is nothing at {slash}{path[1:]} on this shelf"))
        for path in paths
    ]
    assert list_dropped(pages) == dropped


def make_offer(number: int, chapter: int = 0) -> str:
    """Make a page of long common terms, and ten words of its own."""
    terms = " ".join(make_words(900 + chapter, 300))
    own = " ".join(make_words(number, 10))
    return f"<title>Offer</title><body><h1>Offer</h1><p>{terms}</p><p>{own}</p>"


@pytest.mark.parametrize(
    "form", ["/jobs/{}/view", "/{}/rooms", "/jobs/{}/view/full", "/jobs/{}/2026/tab/info.html"]
)
def test_records_in_folders_of_a_host_that_is_not_known(form: str) -> None:
    """Nothing tells yet whether their last name is that of a page, or of a kind of page."""
    names = ["cafa", "ba", "lagriemer", "65f0a1c", "gobrieply", "red-kettle-15", "t7"]
    pages = [(form.format(name), make_offer(n)) for n, name in enumerate(names)]
    assert list_dropped(pages) == []
    # Some records may have another page only: /jobs/ba/apply.
    pages[1::2] = [(f"{path}-2", html) for path, html in pages[1::2]]
    assert list_dropped(pages) == []


def test_branches_in_folders_with_numbers_for_names() -> None:
    """A stranger's chain lost a third of its pages; releases without a change are still one."""
    draw, pages = random.Random(0), []  # noqa: S311 - of the test
    terms = f"<p>{' '.join(make_words(900, 300))}"
    for number in range(60, 72):
        days = "".join(f"<td>{draw.choice(('free', 'booked'))}" for _ in range(28))
        week = " ".join(draw.choice(("free", "booked")) for _ in range(7))
        opens, closes = draw.randint(6, 11), draw.randint(16, 23)
        for kind, said in (
            ("calendar", f"<table>{days}</table>"),
            ("week", f"<div>{week}</div>"),
            ("hours", f"<li>Monday to Friday {opens} to {closes}<li>Sunday 10 to {closes - 3}"),
            ("yoga", f"<p>{' '.join(make_words(number, 9))}"),
        ):
            shown = f"<title>{kind}</title><body><main><h1>{kind}</h1>{said}{terms}</main>"
            pages.append((f"/branch/{number}/{kind}", shown))
    kept = {html: path for path, html in pages}
    dropped = list_dropped(shuffle(pages, 0))
    assert len(dropped) == len(pages) - len(kept)
    releases = [(f"/{n}/page{m}.html", make_article(m)) for n in (23, 24, 25) for m in range(9)]
    assert set(dropped) | {path for path, _ in releases[9:]} == set(
        list_dropped([*shuffle(pages, 0), *releases])
    )


@pytest.mark.parametrize(
    ("said", "dropped"),
    [
        ("<p>{} Mill Street, Verford<p>Phone 0{} {}", False),
        ("<table><td>{0}<td>Mill {1}<td>{2}</table>", False),
        ("<p>Copied on {}", True),
    ],
)
def test_contacts_on_two_hosts(said: str, *, dropped: bool) -> None:
    """A stranger's branches and franchises have one frame, and other telephones."""
    terms = f"<p>{' '.join(make_words(900, 300))}"
    first, second = (
        f"<title>Contact</title><main><h1>Contact</h1>{said.format(*numbers)}{terms}</main>"
        for numbers in ((51, 609, 152357), (97, 739, 644915))
    )
    pages = [("/contact", first), ("http://franchise.example/contact", second)]
    assert bool(list_dropped([*ARTICLES, *pages])) == dropped


@pytest.mark.parametrize("site", [ARTICLES[:7], []])
@pytest.mark.parametrize(("words", "other"), [(150, "Steel washer"), (900, "Wool blanket")])
@pytest.mark.parametrize(
    "names", ["<title>Shop</title><h1>{}</h1>", "<title>{}</title><h1>Shop</h1>"]
)
def test_things_of_one_template_on_two_hosts_or_at_one_address(
    names: str, words: int, other: str, site: list[tuple[str, str]]
) -> None:
    """A hostile review: of two shops of one make, all things of the second one were lost."""
    terms, things = f"<p>{' '.join(make_words(900, words))}", ("Steel gasket", other)
    first, second = (f"{names.format(each)}<main>{terms}<p>{each}" for each in things)
    pages = [("/item/7", first), ("http://other.example/item/9", second)]
    assert list_dropped([*site, *pages]) == []
    assert list_dropped([*site, ("/app#/item/7", first), ("/app#/item/8", second)]) == []
    pages[1] = pages[1][0], first.replace("Shop", "Other shop")
    assert list_dropped([*site, *pages]) == ["http://other.example/item/9"]


@pytest.mark.parametrize(
    ("said", "other", "dropped"),
    [
        # What a fifth of the pages say is template, which excuses nothing in another's place.
        ("<p>Remote Weekend Hall", f"<p>{TEMPLATE}", False),
        ("<p>Lecture in the winter term, room 24", "<p>Lecture in the summer term, room 45", False),
        ("<p>An exam may be taken after 5 weeks", "<p>An exam may be taken after 9 weeks", False),
        ("<p>A thesis may be handed in late", "<p>A thesis may not be handed in late", False),
        # What a box of others names on each page is said there of others.
        ("<p>Hall on Lee{}<li>Old Sea Park", "<p>Old Sea Park{}<li>Hall on Lee", False),
        # A sign beside a heading.
        ("<p>Of ways to hand in a thesis", "<p>Of ways to hand in a thesis i", True),
    ],
)
def test_what_stands_in_the_place_of_others_in_two_folders(
    said: str, other: str, *, dropped: bool
) -> None:
    """A stranger's terms, faculties and issues: 101 of 1,953 documents were lost."""
    text = lay_out(make_words(900, 200))
    one, another = (
        "<title>On chapters</title><main><h1>On chapters</h1>"
        + (each if "{}" in each else each + "{}").format(text)
        for each in (said, other)
    )

    def judge(folder: str, copy: str) -> bool:
        """Return whether the same name in another folder is dropped, both of which have more."""
        others = [
            (f"{each}/{n}", make_article(10 * place + n, beside=f"<p>{TEMPLATE}"))
            for place, each in enumerate((folder, copy))
            for n in range(6)
        ]
        pages = [*others, (f"{folder}/chapters", one), (f"{copy}/chapters", another)]
        return bool(list_dropped(pages))

    assert judge("/ws/course", "/ss/course") == dropped
    # So does a folder that only one of them has; one with digits is a release.
    assert judge("/course", "/mirror/course") == dropped
    assert judge("/1.1/on", "/1.2/on")


def test_releases_on_a_host_that_is_known_by_six_pages() -> None:
    """Until then a folder may be what tells two records apart, whatever their last names are."""
    first, *rest = [(f"/1.{n}/intro.html", make_offer(n)) for n in range(3)]
    others = [(f"/1.0/page{n}.html", make_article(n)) for n in range(7)]
    assert list_dropped([first, others[0], *rest]) == []
    assert list_dropped([first, *others, *rest]) == [path for path, _ in rest]


def test_pages_of_a_list_that_declare_its_first() -> None:
    """A common mistake of shops, of which two thirds of the items were lost."""
    top = (
        f"<title>Garden</title>{canonical('/list?page=1')}<body><nav>Home News Shop</nav><h1>Garden"
    )
    things = ["oak", "pine", "steel", "copper", "slate", "linen", "wool", "glass", "clay", "bamboo"]
    pages = []
    for number in range(1, 4):
        items = "".join(
            f"<li><a href='/p/{number}{place}'>Garden lamp {things[(3 * number + place) % 10]} "
            f"{number}{place}</a> only {20 + 7 * number + place} euros, in stock, add to cart"
            for place in range(10)
        )
        pages.append((f"/list?page={number}", f"{top}</h1>{items}"))
    assert list_dropped(pages) == []


@pytest.mark.parametrize(
    "other", [f"{HOST}/2.0/reference.html", "http://mirror.example/1.0/reference.html"]
)
def test_a_release_with_new_paragraphs_beyond_the_words_that_are_kept(other: str) -> None:
    words = make_words(1, 17_500)
    new = "".join(f"<p>{' '.join(make_words(seed, 60))}." for seed in range(2, 12))
    name = "<title>Reference</title><h1>Reference</h1>"
    pages = [
        *ARTICLES,
        ("/1.0/reference.html", name + lay_out(words)),
        (other, name + lay_out(words) + new),
    ]
    assert list_dropped(pages) == []
    pages[-1] = other, name + lay_out(words)
    assert list_dropped(pages) == [other]


@pytest.mark.parametrize("words", [100, 600, 1_500])
def test_records_in_json_beside_a_long_header_and_footer(words: int) -> None:
    """What a browser draws between them is in a script; 19 of 20 products were lost."""

    def show(number: int) -> str:
        data = json.dumps({"name": make_words(number, 4), "text": make_words(number, 5_000)})
        half = "".join(f"<li>{word}" for word in make_words(1, words // 2))
        return (
            f"<title>Shop</title><header>{half}</header><div id=app></div><footer>{half}</footer>"
            f"<script id=__NEXT_DATA__ type=application/json>{data}</script>"
        )

    pages = [(f"/p/{make_words(900 + n, 2)[0]}-{n}", show(n)) for n in range(20)]
    assert list_dropped(pages) == []
    assert list_dropped([*pages[7:8], ("/p/copy", show(7))]) == ["/p/copy"]


HTML = "<!DOCTYPE html><title>{}</title><body><h1>{}</h1><p>{}</p></body>"


def test_one_word_very_often() -> None:
    """It is too short for a simhash, however long it is."""
    pages = [("/a", 100_000), ("/b", 100_000), ("/c", 99_999)]
    made = [(path, HTML.format("One", "One", "one " * times)) for path, times in pages]
    assert list_dropped(made) == ["/b"]


@pytest.mark.slow
def test_a_million_words() -> None:
    """Beyond the words that are kept, one that differs makes another page."""
    words = [f"w{number}" for number in range(1_000_000)]
    texts = " ".join(words), " ".join([*words[:-9], "other", *words[-8:]])
    pages = [("/a", texts[0]), ("/b", texts[0]), ("/c", texts[1])]
    made = [(path, HTML.format("Many", "Many", text)) for path, text in pages]
    assert list_dropped(made) == ["/b"]


@pytest.mark.parametrize("own", ["", "numbers", "words"])
def test_a_template_and_nothing_else(own: str) -> None:
    """Equal pages are one; a number or a word that is a record's own makes two."""
    template = " ".join(make_words(1, 400))
    pages = []
    for number in range(30):
        values = {"numbers": f"{7 * number} {number}", "words": make_words(number, 1)[0]}
        value = values.get(own, "")
        pages.append((f"/{number}", HTML.format("Shop", "Item", f"{template}</p><p>{value}")))
    assert len(list_dropped(pages)) == (29 if not own else 0)


def test_pages_that_quote_a_victim_only_keep_its_copies() -> None:
    """What they dissolve are keys: a copy may be kept, but no page is lost."""
    victim = make_article(1)
    quoted = victim.partition("<h1>")[2].partition("<footer>")[0]
    quote = f"<blockquote>{quoted}</blockquote>"
    flood = [(f"/quote/{n}", make_article(100 + n, beside=quote)) for n in range(40)]
    assert list_dropped([("/victim", victim), *flood, ("/other", make_article(2))]) == []
    assert list_dropped([*flood, ("/victim", victim)]) == []


def test_one_text_under_many_titles_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Mock(wraps=find_names_apart)
    monkeypatch.setattr(matching, "find_names_apart", compared)
    text = " ".join(make_words(1, 300))
    names = make_words(2, 900)
    titles = map(" ".join, zip(*[iter(names)] * 3, strict=True))
    pages = [(f"/{n}", HTML.format(name, name, text)) for n, name in enumerate(titles)]
    assert list_dropped(pages) == []
    assert 0 < compared.call_count < 8 * len(pages)
