"""Bytes to main text: encodings, bad input, what is ignored, in how long, and what else is read."""

import time
import zlib
from dataclasses import replace

import pytest

from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.facts import NO_LINKS, PageFingerprint
from scrapy_simhash.pages.fingerprint import fingerprint_page, read_page
from tests.helpers.handmade import NAVIGATION, PARAGRAPHS, article, page


def read(html: str) -> str:
    return read_page(html.encode("utf-8", "surrogatepass"), "utf-8").main


def reason_of(body: bytes, encoding: str | None = "utf-8") -> str:
    with pytest.raises(NotJudgedError) as caught:
        read_page(body, encoding)
    return caught.value.reason


def test_what_is_read_besides_the_text() -> None:
    """Before the page is taken apart: links and title are those of the whole page."""
    head = "<title>\n The   <b>harvest</b>\t&amp; more </title>"
    twice = '<p><a href="/menu/1">again</a> <a href="/new">new</a> <a name="x">none</a></p>'
    read = read_page(page(article() + twice, head, lang=" EN-gb ").encode(), "utf-8")
    assert (read.title, read.language) == ("The <b>harvest</b> & more", "en-gb")
    assert read.links == (*(f"/menu/{number}" for number in range(5)), "/new")
    assert read.main_lines[0] < read.main_lines[1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        *((b"", "empty"), (b" \r\n\t ", "empty"), (b"\0\0\0\0", "binary"), (b"<a", "no_text")),
        *((b"\xef\xbb\xbf", "no_text"), (b"<html></html>", "no_text")),
        (b"<!-- nothing but a comment -->", "no_text"),
        (b"<html><body><script>let a = 'text';</script></body></html>", "no_text"),
        (b"<html><body><img src=a.png><hr></body></html>", "no_text"),
        (b"<html><frameset><frame src=a></frameset></html>", "no_text"),
    ],
)
def test_pages_without_text(body: bytes, reason: str) -> None:
    assert reason_of(body) == reason


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x64\0\0\0\x64\x08\x02\0\0\0"
PNG += zlib.compress(bytes(number * number * 7919 % 251 for number in range(30_000)))


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "latin-1", "cp1251", "shift_jis", None])
def test_binary_labelled_as_html(encoding: str | None) -> None:
    assert reason_of(PNG, encoding) == "binary"


@pytest.mark.parametrize("text", ["\ud83d apples", "&#xD83D; apples", "har\0vest", "har&#0;vest"])
def test_nothing_is_lost_behind_a_lone_surrogate_or_a_nul(text: str) -> None:
    html = page(article(text, *PARAGRAPHS), f"<title>{text}</title>")
    read = read_page(html.encode("utf-8", "surrogatepass"), "utf-8")
    assert PARAGRAPHS[5] in read.main
    (read.main + read.whole + read.title).encode()


@pytest.mark.parametrize(
    ("text", "encoding", "head"),
    [
        *(("Äpfel und Birnen — 5 €", "utf-8", None), ("Äpfel und Birnen", "cp1252", None)),
        *(("яблоки и груши", "cp1251", None), ("りんごと梨", "shift_jis", None)),
        *(("苹果和梨", "gb18030", None), ("תפוחים", "utf-16", None)),
        # Found in the body; the last one by its byte order mark.
        ("яблоки и груши", "cp1251", '<meta charset="cp1251">'),
        ("яблоки", "koi8-r", '<meta http-equiv=Content-Type content="text/html; charset=koi8-r">'),
        ("яблоки", "cp1251", "<script charset=utf-8 src=x.js></script><meta charset=cp1251>"),
        *(("яблоки и груши", "utf-8", ""), ("яблоки и груши", "utf-16", "")),
    ],
)
def test_encodings(text: str, encoding: str, head: str | None) -> None:
    html = page(article(text * 20, *PARAGRAPHS), head or "").encode(encoding)
    assert text * 20 in read_page(html, encoding if head is None else None).main


CYRILLIC = "Речной порт закрыли в понедельник, и паромы ждали, пока ветер не переменится. " * 20
PRIVATE = "".join(chr(0xE000 + number * number % 500) for number in range(1_500))
STYLES = "<style>" + ".a{color:red}" * 400 + "</style>"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [(CYRILLIC, "cp1251"), (PRIVATE, "utf-8"), ("\U000f1234" * 400, "utf-8")],
    ids=["charset", "font", "plane"],
)
def test_text_that_is_no_words_is_not_compared(text: str, encoding: str) -> None:
    """However many other characters stand before it, and beside a navigation that is legible."""
    body = page(STYLES + NAVIGATION * 5 + f"<p>{text}</p>").encode(encoding)
    assert reason_of(body, "utf-8") == "bad_encoding"


def test_a_byte_order_mark_is_no_text() -> None:
    """And the head behind it stays one, where names are looked for."""
    body = page(article()).encode()
    read, other = (read_page(each, "utf-8") for each in (b"\xef\xbb\xbf" + body, body))
    assert read._replace(read_embedded=str) == other._replace(read_embedded=str)


@pytest.mark.parametrize(
    ("markup", "heading"),
    [
        ("<div class=title>Class A</div><h2>Members</h2>", "Class A"),
        ("<h2>Members</h2><div class='header Page-Title'>Class <b>A</b></div>", "Class A"),
        ("<h3>Members</h3><h2 class=entry-title>Class A</h2>", "Class A"),
        ("<p class=title>Class A</p><td class=title>B</td>", "Class A"),
        ("<div class=title> </div><p class=title><br></p><p class=title>Class A</p>", "Class A"),
        ("<div class=title>Class A</div><h2>Members</h2><h1></h1>", "Class A"),
        ("<p class=title>Class A</p>" * 300 + "<h3>x</h3>" * 300 + "<h1>Class B</h1>", "Class B"),
        ("<div class='subtitle titles title-1'>Class A</div><h3>Members</h3>", "Members"),
        ("<a class=title>An item</a><div class=title>Another</div><h3>News</h3>", "News"),
        ("<h3><span class=title>News</span></h3><div class=title>An item</div>", "News"),
        ("<span class=title>An item</span><div class=title>Another</div>", ""),
        ("<template><h1>Hidden</h1></template><h2>Shown</h2>", "Shown"),
        ("<noscript><div class=title>Hidden</div></noscript><h2>Shown</h2>", "Shown"),
        ("<h1>Shown<script>hide()</script><style>b {}</style></h1>", "Shown"),
    ],
)
def test_the_heading_is_what_names_the_page(markup: str, heading: str) -> None:
    words = f"<p>{' '.join(PARAGRAPHS)}</p>"
    assert read_page(page(markup + words).encode(), "utf-8").heading == heading


@pytest.mark.parametrize(
    ("head", "title"),
    [
        *(("", "Open"), ("<title> </title>", "Open"), ("<title>Own</title>", "Own")),
        ("<meta property='og:title' content='Second'><title></title>", "Open"),
    ],
)
def test_a_missing_title_is_the_one_that_is_declared(head: str, title: str) -> None:
    head = f"<meta name='og:title' content=''><meta property='og:title' content=' Open '>{head}"
    body = "<svg><title>Icon</title></svg>" + article()
    assert read_page(page(body, head).encode(), "utf-8").title == title


@pytest.mark.parametrize(
    ("head", "canonical", "views"),
    [
        ("<link rel=canonical href=' /a '><link rel=canonical href=/b>", "/a", ()),
        ("<meta property=og:url content=''><meta name=og:url content=/a>", "", ("/a",)),
        ("<meta property=og:url content=/a><link rel='Canonical' href=/b>", "/b", ("/a",)),
        ("<link rel='alternate stylesheet' media=screen href=/a.css>", "", ()),
        ("<link rel='alternate icon' media=all href=/a.png>", "", ()),
        ("<link rel=amphtml href=/amp>", "", ("/amp",)),
        ("<link rel=alternate media=print href=/p><link rel=alternate href=/b>", "", ("/p",)),
        ("<link rel=alternate media=all hreflang=de href=/de>", "", ()),
        ("<link rel=alternate media=all type=application/rss+xml href=/feed>", "", ()),
        ("<link rel=stylesheet media=print href=/a.css><link rel=amphtml href>", "", ()),
        ("<link rel=amphtml href=/x>" * 9, "", ("/x",) * 4),
    ],
)
def test_addresses_that_a_page_declares(head: str, canonical: str, views: tuple[str, ...]) -> None:
    read = read_page(page(article(), head).encode(), "utf-8")
    assert (read.canonical, read.views) == (canonical, views)


def read_embedded(markup: str, length: int = 30) -> str:
    html = f"<html><body><p>{'word ' * length}</p>{markup}</body></html>"
    read = read_page(html.encode(), "utf-8")
    assert read.whole == "word " * (length - 1) + "word"
    return read.read_embedded()


EMBEDDED = [
    *("<img src={}>", "<a href={}></a>", "<p data-x={}></p>", "<script>{}</script>"),
    *("<object data={}></object>", "<img srcset={}>", "<video poster={}></video>"),
    *("<iframe src={}></iframe>", "<iframe srcdoc={}></iframe>", "<img alt={}>"),
    *("<p onclick=show({})></p>", '<p style="background-image: url({})"></p>', "<p id={}></p>"),
    *("<form action={}></form>", "<input type=hidden name=id value={}>", "<input name={}>"),
    *("<table background={}></table>", "<object><param name=movie value={}></object>"),
    *('<svg><image xlink:href="{}"/></svg>', "<meta http-equiv=refresh content='90;url={}'>"),
    *("<noscript><p>{}</p></noscript>", "<noscript><img src={}></noscript>"),
    *("<template><p>{}</p></template>", "<template><img src={}></template>"),
    *("<style>p {{ background: url({}) }}</style>", "<input name=token value={}-and-ten-more>"),
]


@pytest.mark.parametrize("length", [30, 3_000])
def test_pages_with_one_text_differ_in_what_is_embedded(length: int) -> None:
    """Attributes, and text that is not shown."""
    pages = ["", *(each.format(number) for number, each in enumerate(EMBEDDED * 2))]
    assert len({read_embedded(each, length) for each in pages}) == len(pages)


@pytest.mark.parametrize("name", ["{}", "{x}", "{x}y", "a:b", "}", ":", '"', "<", "@x", "[x]", "é"])
def test_attributes_of_any_name_are_read(name: str) -> None:
    """A mistake in a template leaves braces."""
    pages = {read_embedded(f"<p {name}={value} y={value}></p>") for value in "12"}
    assert len(pages) == 2


@pytest.mark.parametrize(
    "markup",
    [
        *("<p class=a{}></p>", "<script nonce=a{}></script>", "<link integrity=a{}>"),
        "<!-- made in 0.{} s -->",
        "<input type=hidden name=csrfmiddlewaretoken value=f8Kx3vPzq0wQ2bH7{}>",
        "<input type=hidden name=_token value='f8Kx3vPzq0wQ2b/7{}=='>",
        "<meta name=csrf-token content=f8Kx3vPzq0wQ2bH7{}>",
    ],
)
def test_looks_and_secrets_against_forgery_do_not_count(markup: str) -> None:
    assert len({read_embedded(markup.format(number)) for number in (1, 2)}) == 1


@pytest.mark.parametrize(
    "markup",
    [
        "<x-page><template shadowrootmode=open>{}</template></x-page>",
        "<x-page><template shadowrootmode=closed><i>{}</i><template>tacit</template></template>",
        "<object data=menu.swf><param name=tacit>{}",
        "<object data=menu.swf><param name=tacit><i>{}</i></object>",
    ],
    ids=["shadow", "nested", "unclosed", "object"],
)
def test_text_of_shadow_roots_and_objects_is_visible(markup: str) -> None:
    """Or what all pages of a site share would be all that is read of them."""
    shown = "<h1>The harvest</h1><p>" + " ".join(PARAGRAPHS) + "</p>"
    html = page(NAVIGATION + markup.format(shown))
    read = read_page(html.encode(), "utf-8")
    assert read.heading == "The harvest"
    assert all(paragraph in text for text in (read.main, read.whole) for paragraph in PARAGRAPHS)
    assert "tacit" not in read.whole


_SENTENCE = (
    "The harbour of the old town was closed on Monday, and the ferries waited outside until the "
    "wind had turned again."
)
_ROWS = "".join(f"<tr><td>ferry{number}<td>quay {number}<td>late" for number in range(9))


@pytest.mark.parametrize(
    "sentence", [_SENTENCE, "港口星期一关闭了。渡轮在外面等待。直到风向再次转变。"]
)
def test_short_main_content_is_widened_to_what_is_around_it(sentence: str) -> None:
    around = f"<div id=around><div><p>{sentence}</div><table>{_ROWS}</table></div>"
    text = read(page(f"<div>{NAVIGATION}</div>{around}"))
    assert sentence in text
    assert "ferry8\nquay 8" in text
    assert "Menu" not in text


def test_main_content_with_enough_words_is_not_widened() -> None:
    text = read(page(f"<div id=around>{article()}<table>{_ROWS}</table></div>"))
    assert PARAGRAPHS[0] in text
    assert "ferry8" not in text


def test_main_content_that_is_more_than_the_body_is_none() -> None:
    read = read_page(f"<title><div></title><p><a>{_SENTENCE * 3}".encode(), "utf-8")
    assert read.main_lines == (0, 0)
    assert read.main == read.whole == _SENTENCE * 3


# All kinds of things that a page is compared by, and a link.
ADVERT = (
    '<div class="ad" data-id="7"><h1>Buy now</h1>words of an advert<img src="a.png" alt="A thing">'
    '<input value="a value"><a href="tel:123">call</a><a href="/shop">shop</a>'
    "<script>draw(7)</script></div>"
)
PLAIN = page(article("Short words."))
WITH_AD = PLAIN.replace("Short words.", f"</p>{ADVERT}<p>Short words.")


def without_times_and_links(made: PageFingerprint) -> PageFingerprint:
    return replace(made, links=0, targets=NO_LINKS, read_ms=0.0)


def test_a_page_is_read_as_if_it_were_not_there() -> None:
    url = "http://site.example/"
    seen = PLAIN.replace("Short words.", "</p><p>Short words.")
    whole, left, plain = (
        fingerprint_page(html, url=url, ignore=ignore)
        for html, ignore in ((WITH_AD, ()), (WITH_AD, ("i", ".ad, .none")), (seen, (".ad",)))
    )
    assert left.links == whole.links == plain.links + 2
    assert b"http://site.example/shop" in left.targets.addresses
    assert left.stub == plain.stub != whole.stub
    assert left.wording == plain.wording != whole.wording
    assert without_times_and_links(left) == without_times_and_links(plain)


def test_a_host_has_its_own_selectors() -> None:
    urls = ("http://shop.example:80/", "https://www.shop.example/", "http://a.shop.example/", "")
    ignore = {"shop.example": (".ad",)}
    read = [fingerprint_page(WITH_AD, url=url, ignore=ignore).text for url in urls]
    assert ["Buy now" in text for text in read] == [False, False, True, True]


def test_titles_and_what_the_head_says_stay() -> None:
    head = '<title>A title</title><link rel="canonical" href="/one">'
    read = read_page(page(article(), head).encode(), None, ignore=("title", "link", "h1"))
    assert (read.title, read.canonical, read.heading) == ("A title", "/one", "")


def test_each_selector_sees_the_whole_page() -> None:
    read = read_page(b"<p class=a>one<p>two<p>three", None, ignore=(".a", ".a + p", ".a + p"))
    assert read.whole == "three"


@pytest.mark.parametrize("selector", ["html", "body", "*", "body *, head"])
def test_a_page_of_nothing_else_has_no_text(selector: str) -> None:
    with pytest.raises(NotJudgedError, match="no_text"):
        read_page(PLAIN.encode(), None, ignore=(selector,))


MANY = range(20_000)
TEXT = " ".join(PARAGRAPHS)
ATTRIBUTES = " ".join(f"a{number}=1" for number in range(50_000))
# Each took seconds, by the square of its length.
LONG = {
    "attributes of many bodies": f"<p>{TEXT}" + "".join(f"<body a{n}=1>" for n in MANY),
    "attributes of many roots": f"<p>{TEXT}" + "".join(f"<HTML\na{n}=1>" for n in MANY),
    "attributes of two bodies": f"<body {ATTRIBUTES}><p>{TEXT}"
    f"<body {ATTRIBUTES.replace('a', 'b')}>",
    "links below a long base": f"<base href='/{'b/' * 20_000}'><p>{TEXT}"
    + "".join(f"<a href={n}></a>" for n in MANY),
}


@pytest.mark.parametrize("name", LONG)
def test_no_page_takes_long_because_it_is_long(name: str) -> None:
    started = time.process_time()
    made = fingerprint_page(LONG[name], url="http://site.example/")
    assert time.process_time() - started < 1
    assert made.text == TEXT


def test_what_surrounds_repeated_roots_is_read() -> None:
    """As in a page of parts that are whole pages themselves."""
    part = f'<!DOCTYPE html><html lang="en"><head><title>A</title></head><body id=x>{TEXT}</body>'
    made = fingerprint_page(f"{part * 200}</html>")
    assert (made.facts.title, made.facts.language) == ("A", "en")
    assert made.text == " A ".join([TEXT] * 200)
