"""The links of a page, absolute; a session in them does not count."""

from __future__ import annotations

import re
from collections import Counter
from struct import pack
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

import xxhash

from scrapy_simhash.pages.addresses import join_url, split_url

if TYPE_CHECKING:
    from collections.abc import Sequence

# A near-duplicate leads to new pages when at least this share of its links is new, as of lists that
# differ in their links only.
MOSTLY_NEW = 0.5
# A page may have a hundred thousand links, and resolving one takes some microseconds.
_MOST_LINKS = 20_000
# Links that `urljoin` resolves: with another scheme, and with characters of which it has rules.
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_ODD = re.compile(r"[\s\[\]\\]")
_WEB = (b"http://", b"https://")
# A value that nobody chose, as those of sessions: a long number, or letters and digits mixed.
_TOKEN = re.compile(
    rb"[?&;][^=?&;/#]+="
    rb"(?:\d{8,}|(?=[\w.-]*(?:\d[A-Za-z]+\d|[A-Za-z]\d+[A-Za-z]))[\w.-]{8,})"
    rb"(?![^?&;/#])"
)
_TO_NO_PAGE = ("javascript:", "mailto:", "tel:", "data:")


# What is remembered of dropped pages: a page has some hundred links of 60 bytes.
_MOST_HANDED_OVER = 2_000
_LONGEST_HANDED_OVER = 2_000


class PageLinks(NamedTuple):
    """The links of a page.

    Attributes:
        digests: XXH3-64 of each link without a session, 8 bytes, little-endian.
        addresses: of the same links, absolute and without fragments, in UTF-8, one a line.
    """

    digests: bytes = b""
    addresses: bytes = b""


NO_LINKS = PageLinks()


def read_links(links: Sequence[str], url: str) -> PageLinks:
    """Resolve the links of a page against its URL, of the first 20,000; list 2,000 to pages."""
    resolve = _Resolver(url)
    resolved = dict.fromkeys(filter(None, map(resolve, links[:_MOST_LINKS])))
    targets = (target.encode() for target in resolved)
    listed = [
        target
        for target in targets
        if target.startswith(_WEB) and len(target) <= _LONGEST_HANDED_OVER and b"\n" not in target
    ][:_MOST_HANDED_OVER]
    digests = [*map(xxhash.xxh3_64_intdigest, _leave_out_tokens(listed))]
    return PageLinks(pack(f"<{len(digests)}Q", *digests), b"\n".join(listed))


def _leave_out_tokens(targets: list[bytes]) -> list[bytes]:
    """Leave out what half of the links with parameters carry, two at least, as they do a session.

    The next answer has another one, in the same links.
    """
    given = [target for target in targets if b"=" in target]
    found = Counter(each[1:] for target in given for each in set(_TOKEN.findall(target)))
    tokens = {token for token, links in found.items() if links >= max(2, len(given) / 2)}

    def cut(found: re.Match[bytes]) -> bytes:
        return b"" if found[0][1:] in tokens else found[0]

    return [_TOKEN.sub(cut, target) for target in targets] if tokens else targets


class _Resolver:
    """Resolves the links of one page; nearly all of them without `urljoin`."""

    # `urljoin` takes longer for the links of a page than its features and fingerprints do.

    def __init__(self, url: str) -> None:
        parts = split_url(url)
        self._url = url if parts else ""
        parts = parts or urlsplit("")
        self._scheme = f"{parts.scheme}:"
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._folder = self._origin + (parts.path.rpartition("/")[0] or "") + "/"

    def __call__(self, link: str) -> str:
        """Make a link absolute, without its fragment; return "" if it leads to no page."""
        # The usual kinds first: a page has some hundred links.
        link = link.strip()
        if "#" in link:
            link = link.partition("#")[0]
        if link.startswith("/"):
            if not self._url or "./" in link or _ODD.search(link):
                return join_url(self._url, link)
            return (self._scheme if link.startswith("//") else self._origin) + link
        if link.startswith(("http://", "https://")):
            return link
        if not link or link.lower().startswith(_TO_NO_PAGE):
            return ""
        if not self._url or "./" in link or link[0] in "?." or _SCHEME.match(link):
            return join_url(self._url, link)
        return join_url(self._url, link) if _ODD.search(link) else self._folder + link


def leads_back(link: str, *pages: str) -> bool:
    """Return True if a link leads to one of these pages, or names it in a parameter (`?next=`)."""
    # As links spell them: whole, or without the host.
    own = {each for page in pages if page for each in (page, "/" + page.split("/", 3)[-1])}
    pairs = link.partition("?")[2].split("&")
    return not own.isdisjoint([link, *(unquote(pair.partition("=")[2]) for pair in pairs)])
