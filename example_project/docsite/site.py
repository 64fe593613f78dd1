"""Which answer each address gets. No sockets here: see `docsite.server`."""

import itertools
import random
from collections import defaultdict
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from docsite import templates
from docsite.manuals import ManualPage, load, preference, rewrite_links, up_links

PER_LIST = 8
# Readers copied its address from their browsers, with their sessions.
RECOMMENDED = ("/postgresql/17/sql-alterindex.html",)


@dataclass(frozen=True)
class Answer:
    """One HTTP answer.

    Attributes:
        status: The HTTP status.
        text: The body.
        document: Which distinct document this is, e.g. `postgresql/sql-droprule`.
        variant: In which disguise it comes, e.g. `print`.
        content_type: With the charset the body is to be sent in.
    """

    status: int
    text: str
    document: str = ""
    variant: str = ""
    content_type: str = "text/html; charset=utf-8"

    @property
    def body(self) -> bytes:
        """The body in the charset of the content type."""
        return self.text.encode(self.content_type.rpartition("=")[2], "xmlcharrefreplace")


class Site:
    """The whole site.

    Args:
        seed: Session parameters follow from it, so that two crawls meet the same addresses.
            Advertisements rotate with every answer, and pages carry the time of day.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._manuals = load()
        self._entries = self._sort_by_document()
        self._lists = -(-len(self._entries) // PER_LIST)
        self._advertisements = itertools.cycle(templates.ADVERTISEMENTS)
        originals = [page for page in self._manuals.values() if page.variant == "original"]
        self._mirrored = {f"/mirror{page.path}": page for page in originals}
        # Most links to chapters that are not stored here are taken away. These few stay, broken,
        # and lead to the soft-404: every real site has some.
        self._broken = set().union(*map(up_links, originals)) - self._manuals.keys()

    @property
    def documents(self) -> frozenset[str]:
        """The names of all distinct documents that can be reached."""
        lists = (f"site/list-{number}" for number in range(1, self._lists + 1))
        own = ("site/home", "site/login", "site/not-found")
        return frozenset((*self._entries, *lists, *own))

    def answer(self, url: str) -> Answer:
        """Answer a GET request for a path or an absolute URL."""
        parts = urlsplit(url)
        path = parts.path
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if page := self._manuals.get(path):
            return self._manual(page, query)
        if page := self._mirrored.get(path):
            text = rewrite_links(page.main, self._mirrored.__contains__, path)
            return Answer(200, templates.mirror(page, text), page.document, "mirror")
        if path == "/list":
            return self._list(query.get("page", "1"))
        return self._other(path)

    def _other(self, path: str) -> Answer:
        advertisement = next(self._advertisements)
        if path == "/":
            pages = [self._manuals[each] for each in RECOMMENDED]
            sessions = {f"{page.path}?sid={self._session(page)}": page.title for page in pages}
            return Answer(200, templates.home(sessions, advertisement), "site/home", "home")
        if path == "/robots.txt":
            return Answer(
                200, "User-agent: *\nAllow: /\n", content_type="text/plain; charset=utf-8"
            )
        if path.startswith("/account/"):
            return Answer(200, templates.login(path, advertisement), "site/login", "login")
        if path.startswith("/postgresql/"):
            text = templates.not_found(path, advertisement)
            return Answer(200, text, "site/not-found", "soft-404")
        return Answer(404, "<!DOCTYPE html><title>404</title><p>Not found.</p>")

    def _manual(self, page: ManualPage, query: dict[str, str]) -> Answer:
        if "print" in query:
            text = rewrite_links(page.main, self._has, page.path)
            return Answer(200, templates.print_view(page, text), page.document, "print")
        # A page opened with a session parameter offers no new one: a crawler would never end.
        session = "" if "sid" in query else self._session(page)
        text = templates.manual(
            page,
            rewrite_links(page.text, self._has, page.path),
            next(self._advertisements),
            session,
            mirrored=page.variant == "original",
        )
        variant = "session" if "sid" in query else page.variant
        return Answer(200, text, page.document, variant, f"text/html; charset={page.charset}")

    def _list(self, number: str) -> Answer:
        if not number.isdecimal() or not 1 <= int(number) <= self._lists:
            return Answer(404, "<!DOCTYPE html><title>404</title><p>No such page of the list.</p>")
        start = (int(number) - 1) * PER_LIST
        entries = list(self._entries.values())[start : start + PER_LIST]
        text = templates.listing(entries, int(number), self._lists, next(self._advertisements))
        return Answer(200, text, f"site/list-{number}", "list")

    def _sort_by_document(self) -> dict[str, list[ManualPage]]:
        entries = defaultdict(list)
        for page in sorted(self._manuals.values(), key=preference):
            entries[page.document].append(page)
        return dict(sorted(entries.items()))

    def _session(self, page: ManualPage) -> str:
        # Nothing is protected by it: it only has to look like a session.
        return f"{random.Random(f'{self._seed} {page.path}').getrandbits(48):012x}"  # noqa: S311

    def _has(self, path: str) -> bool:
        return path in self._manuals or path in self._broken
