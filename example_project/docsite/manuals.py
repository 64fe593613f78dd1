"""The stored manual pages: where they live, which document each one is, what it links to."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urldefrag, urljoin

PAGES = Path(__file__).parent / "pages"

_CHARSET = re.compile(rb"charset=([\w-]+)")
_LANGUAGE = re.compile(r'<html[^>]*\slang="([\w-]+)"')
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_HREF = re.compile(r'\shref="([^"]*)"')
_UP = re.compile(r'accesskey="u" href="([^"]*)"')
# The text of a page, without the manual's own navigation above and below it.
_MAIN = {
    "postgresql": re.compile(
        r'class="navheader".*?<hr ?(?:/>|></hr>)</div>(.*)<div[^>]*"navfooter"', re.DOTALL
    ),
    "httpd": re.compile(
        r'(<div id="(?:page-content|preamble)">.*?)<div class="bottomlang">', re.DOTALL
    ),
}


@dataclass(frozen=True)
class ManualPage:
    """One stored page.

    Attributes:
        path: Its path on the site, e.g. `/postgresql/17/sql-droprule.html`.
        release: Its release, e.g. `17`.
        language: The language it is written in; an untranslated page keeps the folder of
            the translation.
        document: Which document it is, whatever the release and folder.
        variant: `original` for the newest page of a document, else `release` or `untranslated`.
        charset: The encoding of the file.
        text: The whole file.
    """

    path: str
    release: str
    language: str
    document: str
    variant: str
    charset: str
    text: str

    @property
    def title(self) -> str:
        """The title as in the file, HTML escapes included."""
        found = _TITLE.search(self.text)
        return " ".join(found[1].split()) if found else self.path

    @property
    def main(self) -> str:
        """The HTML of the text, without the manual's navigation."""
        found = _MAIN[self.document.partition("/")[0]].search(self.text)
        return found[1] if found else self.text

    @property
    def summary(self) -> str:
        """The first sentences, escaped for HTML."""
        paragraphs = [text for text in _PARAGRAPH.findall(self.main) if "/en/" not in text]
        words = _TAG.sub("", " ".join(paragraphs)).split()
        return html.escape(html.unescape(" ".join(words[:60])))


def load() -> dict[str, ManualPage]:
    """All stored pages by path."""
    pages = [_read(path) for path in sorted(PAGES.rglob("*.html"))]
    originals: dict[str, ManualPage] = {}
    for page in sorted(pages, key=preference):
        originals.setdefault(page.document, page)
    return {page.path: replace(page, variant=_variant(page, originals)) for page in pages}


def preference(page: ManualPage) -> tuple[list[int], bool, str]:
    """Sorts the newest release first, and a page in its own language's folder first."""
    newest_first = [-int(part) for part in page.release.split(".")]
    return newest_first, f"/{page.language}/" not in page.path, page.path


def rewrite_links(text: str, keep: Callable[[str], bool], base: str) -> str:
    """Take away links to pages this site does not have; `keep` is asked for each path."""

    def link(found: re.Match[str]) -> str:
        href = found[1]
        if href.startswith("#") or re.match(r"[a-z]+:", href):
            return found[0]
        return found[0] if keep(urldefrag(urljoin(base, href)).url) else ""

    return _HREF.sub(link, text)


def up_links(page: ManualPage) -> set[str]:
    """The paths of the chapter pages above this one (PostgreSQL's manual links to them)."""
    return {urljoin(page.path, href) for href in _UP.findall(page.text)}


def _read(path: Path) -> ManualPage:
    data = path.read_bytes()
    declared = _CHARSET.search(data)
    charset = declared[1].decode() if declared else "utf-8"
    text = data.decode(charset)
    manual, release, *rest = path.relative_to(PAGES).with_suffix("").parts
    found = _LANGUAGE.search(text)
    language = found[1] if found else "en"
    name = [manual, *rest] if manual == "postgresql" else [manual, language, *rest[1:]]
    address = "/" + path.relative_to(PAGES).as_posix()
    return ManualPage(address, release, language, "/".join(name), "", charset, text)


def _variant(page: ManualPage, originals: dict[str, ManualPage]) -> str:
    original = originals[page.document]
    if page.path == original.path:
        return "original"
    return "untranslated" if page.release == original.release else "release"
