"""Sites of which it is known which addresses are the same document: a made-up one with traps.

Besides sections of articles it has a list of members, of whom a third of requests meets a wall, a
calendar without end, and pages that are shown twice before they change. The other site is that of
the example project.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

HOST = "www.example.com"
MIRROR = "mirror.example.com"
EXAMPLE = Path(__file__).parent.parent / "example_project"
# Addresses for each article, lists and traps included: 645 articles make a site of 5,000 pages.
ARTICLES = 645
_MANUALS = EXAMPLE / "docsite" / "pages" / "httpd" / "2.4.68"
_SECTIONS = 8
_GERMAN = frozenset({0, 2, 4, 6})
_FRENCH = frozenset({0, 1, 2, 3})  # the others show the English text for now
_MATRIX = frozenset({0, 3, 6})  # sections with the session in a matrix parameter
_PER_LIST = 10
_EQUAL = 40  # pages that the hostile part shows twice before it shows others
_EVENTS = 24  # months of the calendar in which something happens
_HIDDEN_EVERY = 16  # of so many articles one has notes that only duplicates link to
_WORD = re.compile(r"[^\W\d_]{3,}")
_MARKUP = re.compile(r"(?s)<(script|style)\b.*?</\1>|<[^>]*>|&\w+;")


class Page(NamedTuple):
    """A page, and which document it is; none: there is no such page."""

    document: str
    body: bytes = b""


NOT_FOUND = Page("")


class UrlSite:
    """A site with known duplicates.

    Args:
        seed: texts, sessions and advertisements follow from it.
        articles: each has seven addresses or so.
        hidden: whether some documents have links on print views and the mirror only.
    """

    def __init__(self, seed: int, articles: int = ARTICLES, *, hidden: bool = False) -> None:
        self.start = f"http://{HOST}/"
        self._seed, self._articles, self._hidden = seed, articles, hidden
        self._members = articles // 4
        self._hostile = _EQUAL + articles // 8
        self._answers = itertools.count()
        self._asked_members = itertools.count()

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        """Words of the example's manuals, by language."""
        return {
            language: sorted(
                {
                    word.lower()
                    for path in sorted((_MANUALS / language).rglob("*.html*"))
                    for word in _WORD.findall(
                        _MARKUP.sub(" ", path.read_bytes().decode("utf-8", "replace"))
                    )
                }
            )
            for language in ("en", "de", "fr")
        }

    def _chance(self, key: str) -> random.Random:
        return random.Random(f"{self._seed} {key}")  # noqa: S311 - of a site

    def _prose(self, key: str, count: int, language: str = "en") -> str:
        """Write that many words, always the same ones for one key."""
        words = iter(self._chance(key).choices(self._words[language], k=count))
        sentences = iter(lambda: " ".join(itertools.islice(words, 12)), "")
        return ". ".join(sentence.capitalize() for sentence in sentences) + "."

    def _title(self, key: str, language: str = "en") -> str:
        return self._prose(f"title {key}", 4, language).rstrip(".").title()

    def answer(self, url: str) -> Page:
        """Answer a request for an absolute URL; an unknown address has no document."""
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        path, _, _ = parts.path.partition(";")
        if parts.netloc == MIRROR:
            query["mirror"] = "1"
        if found := re.fullmatch(r"/section-(\d)/(?:index\.html)?", path):
            return self._section(int(found[1]), query)
        if path in {"/people/", "/hostile/"}:
            return self._list(path, int(query.get("page", "1")))
        if found := re.fullmatch(r"/calendar/(\d+)/(\d+)", path):
            return self._month(int(found[1]), int(found[2]))
        if path == "/":
            return self._home()
        return self._single(path, query, session=";" in parts.path or "sid" in query)

    def _single(self, path: str, query: dict[str, str], *, session: bool) -> Page:
        """Answer with an article, or another page that lists lead to."""
        found = re.fullmatch(r"/section-\d/([a-z]+)-(\d+)\.html", path)
        if found and found[1] == "notes":
            return self._plain(f"notes/{found[2]}", f"notes {found[2]}", "")
        if found and int(found[2]) < self._articles:
            return self._article(int(found[2]), query, session=session)
        if found := re.fullmatch(r"/hostile/[abcd]/(\d+)\.html", path):
            other = int(found[1]) >= _EQUAL and "v" in query
            document = f"hostile/{found[1]}{'/other' if other else ''}"
            return self._plain(document, document, "")
        if found := re.fullmatch(r"/people/(\d+)\.html", path):
            return self._member(int(found[1]))
        return self._member(int(query["id"])) if path == "/members.php" else NOT_FOUND

    def _home(self) -> Page:
        some = range(0, self._articles, 6)
        links = [f"/section-{number}/" for number in range(_SECTIONS)]
        links += ["/people/", "/hostile/", "/calendar/2026/1"]
        links += [f"{self.find_address(number)}?utm_source=newsletter" for number in some]
        return self._plain("home", "home", _link(links))

    def find_address(self, number: int) -> str:
        """Find the address of an article, without its host."""
        return f"/section-{number % _SECTIONS}/{self._slug(number)}-{number}.html"

    def _slug(self, number: int) -> str:
        return re.sub("[^a-z]", "", self._title(f"article {number}").partition(" ")[0].lower())

    def _article(self, number: int, query: dict[str, str], *, session: bool) -> Page:
        section, long = number % _SECTIONS, number % 3 == 0
        language = query.get("lang", "en")
        if section not in {"de": _GERMAN, "fr": _FRENCH}.get(language, ()):
            language = "en"
        part = "2" if long and query.get("page") == "2" else "1"
        document = f"article/{number}/{language}/{part}"
        title = self._title(f"article {number}", language) + (", page 2" if part == "2" else "")
        text = "".join(
            f"<p>{self._prose(f'{document} {paragraph}', 80, language)}</p>"
            for paragraph in range(3)
        )
        path = self.find_address(number)
        near = [
            self.find_address((number + step * _SECTIONS) % self._articles) for step in (1, 2, 5)
        ]
        notes = [f"http://{HOST}/section-{section}/notes-{number}.html"]
        notes = notes if self._hidden and number % _HIDDEN_EVERY == 0 else []
        printed = number // _HIDDEN_EVERY % 2 == 0  # else the mirror has the link
        if "print" in query:
            return Page(
                document, _print_view(title, text, _link(notes if printed else [])).encode()
            )
        if "mirror" in query:
            links = [f"http://{MIRROR}{other}" for other in near] + ([] if printed else notes)
            return Page(document, _mirror(title, text, _link(links)).encode())
        links = [*near, f"/section-{section}/"]
        if not session and "lang" not in query:
            links += self._variants(number, section, path, part, long=long)
        return self._frame(document, title, text, _link(links))

    def _variants(
        self, number: int, section: int, path: str, part: str, *, long: bool
    ) -> list[str]:
        """List the other addresses of an article, and its translations."""
        if part == "2":
            return [f"{path}?page=1", f"{path}?page=2&print=1"]
        session = f"{self._chance(f'session {number}').getrandbits(48):012x}"
        with_session = (
            path.replace(".html", f".html;jsessionid={session}")
            if section in _MATRIX
            else f"{path}?sid={session}"
        )
        links = [f"{path}?print=1", with_session, f"http://{MIRROR}{path}", f"{path}?lang=fr"]
        links += [f"{path}?lang=de"] if section in _GERMAN else []
        return links + ([f"{path}?page=2"] if long else [])

    def _section(self, section: int, query: dict[str, str]) -> Page:
        numbers = range(section, self._articles, _SECTIONS)
        pages = -(-len(numbers) // _PER_LIST)
        page = int(query.get("page", "1"))
        chosen = list(numbers)[_PER_LIST * (page - 1) : _PER_LIST * page]
        order = query.get("sort", "")
        if order:
            self._chance(f"{order} {section} {page}").shuffle(chosen)
        items = "".join(
            f'<li><h3><a href="{self.find_address(number)}">{self._title(f"article {number}")}</a>'
            f"</h3><p>{self._prose(f'summary {number}', 40)}</p></li>"
            for number in chosen
        )
        path = f"/section-{section}/"
        links = [f"{path}?page={other + 1}" for other in range(pages)]
        links += [f"{path}?page={page}&sort={by}" for by in ("name", "date")]
        title = f"{self._title(f'section {section}')}, page {page} of {pages}"
        body = f"<ul>{items}</ul>"
        return self._frame(
            f"section/{section}/{page}", title, body, _link([*links, f"{path}index.html"])
        )

    def _list(self, path: str, page: int) -> Page:
        """List members, or the hostile part, in their order."""
        count = self._members if path == "/people/" else self._hostile
        numbers = range(count)[2 * _PER_LIST * (page - 1) : 2 * _PER_LIST * page]
        if path == "/people/":
            links = [("/people/{}.html", "/members.php?id={}")[n % 2].format(n) for n in numbers]
        else:
            links = [f"/hostile/{'abcd'[number % 4]}/{number}.html" for number in numbers]
            links += [f"{link}?v=2" for link in links]
        if numbers and numbers[-1] + 1 < count:
            links.append(f"{path}?page={page + 1}")
        return self._plain(f"list{path}{page}", f"list {path} {page}", _link(links))

    def _member(self, number: int) -> Page:
        """Show a member, or a wall: the second third of all requests meets it."""
        wall = self._members // 3 <= next(self._asked_members) < 2 * self._members // 3
        document = f"member/{number}"
        return self._login() if wall else self._plain(document, document, "")

    def _login(self) -> Page:
        form = '<form method="post"><input name="email"><input name="password"></form>'
        return self._frame("login", "Please sign in", f"<p>{self._prose('login', 120)}</p>", form)

    def _month(self, year: int, month: int) -> Page:
        number = 12 * (year - 2026) + month - 1
        later, earlier = (
            f"/calendar/{2026 + other // 12}/{other % 12 + 1}" for other in (number + 1, number - 1)
        )
        links = _link([later] if number <= 0 else [later, earlier])
        name = f"Calendar, {month}/{year}"
        if 0 <= number < _EVENTS:
            return self._plain(f"calendar/{number}", name, links, title=name)
        text = f"<p>Nothing is planned. {self._prose('nothing', 60)}</p>"
        return self._frame("calendar/empty", name, text, links)

    def _plain(self, document: str, key: str, links: str, title: str = "") -> Page:
        text = f"<p>{self._prose(key, 90)}</p><p>{self._prose(f'{key} more', 90)}</p>"
        return self._frame(document, title or self._title(key), text, links)

    def _frame(self, document: str, title: str, text: str, links: str) -> Page:
        """Put the site's furniture around a text; some of it is new in each answer."""
        answer = next(self._answers)
        return Page(
            document,
            f"""<!DOCTYPE html><html><head><title>{title}</title></head><body>
<header><p>The long shelf</p><nav><a href="/">Home</a> <a href="/people/">People</a></nav></header>
<aside><p>Advertisement: {self._prose(f"advertisement {answer % 7}", 15)}</p></aside>
<main><article><h1>{title}</h1>{text}</article></main><section><h2>See also</h2>{links}</section>
<footer><p>The long shelf, all that is worth keeping. Answer number {answer}.</p></footer>
</body></html>""".encode(),
        )


def _print_view(title: str, text: str, links: str) -> str:
    return f"""<!DOCTYPE html><html><head><title>{title}</title><style>body {{color: black}}</style>
</head><body class="print"><h1>{title}</h1><div>{text}</div>{links}
<p>Printed from the long shelf.</p></body></html>"""


def _mirror(title: str, text: str, links: str) -> str:
    return f"""<!DOCTYPE html><html><head><title>{title} | Mirror</title></head><body>
<div id="bar"><ul><li>Shelf mirror of the north</li><li>All systems are operational</li></ul></div>
<main><h1>{title}</h1>{text}</main><div id="end">{links}<p>Kept by volunteers, with bandwidth of
three universities. Copied every night.</p></div></body></html>"""


def _link(addresses: Iterable[str]) -> str:
    items = "".join(f'<li><a href="{address}">Read on</a></li>' for address in addresses)
    return f"<ul>{items.replace('&', '&amp;')}</ul>" if items else ""


class ExampleSite:
    """The site of the example project."""

    def __init__(self, seed: int) -> None:
        sys.path.append(str(EXAMPLE))
        docsite = __import__("docsite")
        self.start = f"http://{docsite.HOST}/"
        self._site = docsite.Site(seed)

    def answer(self, url: str) -> Page:
        """Answer a request for an absolute URL."""
        answer = self._site.answer(url)
        return Page(answer.document if answer.status == 200 else "", answer.text.encode())
