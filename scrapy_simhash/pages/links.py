"""The links of a page: a sample of them is stored, and shows how many are new.

Bottom-k sampling (Cohen and Kaplan, PODC 2007) keeps those with the smallest hashes. Below the
largest hash that was kept the sample is complete: there, "was this link on that page?" has a
certain answer, whichever page the link stands on. A session in the links does not count.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from struct import pack, unpack
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

import xxhash

from scrapy_simhash.pages.addresses import carry_over, join_url, split_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The share of new links is estimated within 6 points (one standard error) by 64 links, in 256
# bytes a document.
SAMPLE_LINKS = 64
# A near-duplicate leads to new pages when at least this share of its links is not on the other:
# lists that differ in their links only (`benchmarks/study/evaluate.py` counts true duplicates
# beyond it).
MOSTLY_NEW = 0.5
# A page may have a hundred thousand links, and resolving one takes some microseconds. The sample is
# taken of the first links only.
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


# A page's own address is counted several times.
@lru_cache(maxsize=256)
def digest_link(address: str) -> int:
    """Make the digest of an address, as in `PageLinks`."""
    return xxhash.xxh3_64_intdigest(address.encode("utf-8", "replace"))


def read_links(links: Sequence[str], url: str) -> tuple[bytes, PageLinks]:
    """Resolve the links of a page against its URL, sample the first 20,000, and list 2,000."""
    # The sample has up to 64 ascending hashes of 4 bytes each. Only links to pages are listed, none
    # longer than 2,000 bytes.
    resolve = _Resolver(url)
    resolved = dict.fromkeys(filter(None, map(resolve, links[:_MOST_LINKS])))
    targets = [target.encode() for target in resolved]
    listed = [
        target
        for target in targets
        if target.startswith(_WEB) and len(target) <= _LONGEST_HANDED_OVER and b"\n" not in target
    ][:_MOST_HANDED_OVER]
    digests = [*map(xxhash.xxh3_64_intdigest, _leave_out_tokens(listed))]
    packed = pack(f"<{len(digests)}Q", *digests)
    return _sample(targets), PageLinks(packed, b"\n".join(listed))


def _sample(targets: Iterable[bytes]) -> bytes:
    hashes = set(map(xxhash.xxh32_intdigest, _leave_out_tokens(list(targets))))
    sample = sorted(hashes)[:SAMPLE_LINKS]
    return pack(f">{len(sample)}I", *sample)


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


def share_of_new_links(sample: bytes, seen: bytes) -> float | None:
    """Estimate the share of a page's links, 0 to 1, that another page does not have, or None."""
    # None if the page has no links, or none below the largest hash of the other page's full sample.
    mine, others = (unpack(f">{len(each) // 4}I", each) for each in (sample, seen))
    full = len(others) == SAMPLE_LINKS
    comparable = {link for link in mine if not full or link <= others[-1]}
    return len(comparable.difference(others)) / len(comparable) if comparable else None


def measure_new_links(
    sample: bytes,
    links: PageLinks,
    url: str,
    seen: bytes,
    original: str | None,
    requested: str = "",
) -> float | None:
    """Estimate the share of new links of a near-duplicate, or None.

    Args:
        sample: of the links of the page.
        links: of the page, at most 2,000.
        url: of the page.
        seen: the sample of its original.
        original: URL of its original, or None.
        requested: the address from which the page was redirected, or "".

    Returns:
        0 to 1, or None, as `share_of_new_links`. If most links are new, those that lead to the page
        itself or its original, or name it in a parameter, are left out, and the smaller of two
        shares counts: of the links as they are, and carried over to the place of the original,
        where each link of a mirror has a counterpart.
    """
    share = share_of_new_links(sample, seen)
    if share is None or share < MOSTLY_NEW or not original or not links.addresses:
        return share
    listed = links.addresses.decode().split("\n")
    others = [link for link in listed if not leads_back(link, url, requested, original)]
    if len(others) < len(listed):
        share = share_of_new_links(_sample(map(str.encode, others)), seen) if others else 0.0
    carry = carry_over(url, original)
    if share is None or carry is None:
        return share
    there = share_of_new_links(_sample(carry(link).encode() for link in others), seen)
    return share if there is None else min(share, there)


def leads_back(link: str, *pages: str) -> bool:
    """Return True if a link leads to one of these pages, or names it in a parameter (`?next=`)."""
    # As links spell them: whole, or without the host.
    own = {each for page in pages if page for each in (page, "/" + page.split("/", 3)[-1])}
    pairs = link.partition("?")[2].split("&")
    return not own.isdisjoint([link, *(unquote(pair.partition("=")[2]) for pair in pairs)])
