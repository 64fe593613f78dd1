"""A sample of a page's links: enough to tell whether another page leads to new ones.

Bottom-k sampling (Cohen and Kaplan, PODC 2007): of all links, those with the smallest hashes. Below
the largest hash that was kept the sample is complete, so that "was this link on that page?" has
a certain answer for the links below it, whichever page they stand on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

# 64 links say within 6 points (one standard error) how many are new, in 256 bytes a document.
SAMPLE_LINKS = 64
# A near-duplicate leads to new pages when at least so many of its links are not on the other page:
# lists that differ in their links only, and also mirrors and releases, whose links name themselves
# (`scrapy simhash evaluate` counts true duplicates beyond it).
MOSTLY_NEW = 0.5
_HASH = np.dtype(">u4")
# A page may have a hundred thousand, and resolving one takes some microseconds. Beyond this many
# the sample is of the first ones only.
_MOST_LINKS = 20_000
# Another scheme, and what is rare.
_BY_THE_RULES = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|[\s\[\]\\]|^\.")
_NO_LINKS = ("javascript:", "mailto:", "tel:", "data:")


def sketch_links(links: Sequence[str], url: str) -> bytes:
    """Sample the links of a page.

    Args:
        links: as they are written; the first 20,000 are looked at.
        url: of the page, against which they are resolved.

    Returns:
        Up to 64 ascending hashes of 4 bytes each.
    """
    resolve = _Resolver(url)
    targets = filter(None, map(resolve, links[:_MOST_LINKS]))
    hashes = {xxhash.xxh32_intdigest(target.encode()) for target in targets}
    return np.array(sorted(hashes)[:SAMPLE_LINKS], _HASH).tobytes()


class _Resolver:
    """Resolves the links of one page.

    `urljoin` takes longer for the links of a page than its features and fingerprints do; the kinds
    of links that make up nearly all of them are put together here.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
        except ValueError:  # such as an invalid IPv6 address
            url, parts = "", urlsplit("")
        self._url = url
        self._scheme = f"{parts.scheme}:"
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._folder = self._origin + (parts.path.rpartition("/")[0] or "") + "/"

    def __call__(self, link: str) -> str | None:
        """Make a link absolute, without its fragment; None for what leads to no page."""
        link = link.strip().partition("#")[0]
        if not link or link.lower().startswith(_NO_LINKS):
            return None
        if link.startswith(("http://", "https://")):
            return link
        if not self._url or "./" in link or "?" in link[:1] or _BY_THE_RULES.search(link):
            return self._join(link)
        if link.startswith("//"):
            return self._scheme + link
        return (self._origin if link.startswith("/") else self._folder) + link

    def _join(self, link: str) -> str | None:
        try:
            return urljoin(self._url, link)
        except ValueError:  # such as an invalid IPv6 address
            return None


def share_of_new_links(sample: bytes, seen: Iterable[bytes]) -> float | None:
    """Estimate which share of a page's links was on none of some other pages.

    Args:
        sample: of the page.
        seen: samples of the other pages.

    Returns:
        0 to 1; None where the page has no links, or none that the samples can tell of: where one
        is full, links above its largest hash are left out.
    """
    mine = np.frombuffer(sample, _HASH)
    if not mine.size:
        return None
    others = [np.frombuffer(other, _HASH) for other in seen]
    if not others:
        return 1.0
    # Of a link above the largest hash of any full sample, that page may have it or not.
    comparable = mine[mine <= min(map(_last_told, others))]
    if not comparable.size:
        return None
    new = np.setdiff1d(comparable, np.concatenate(others), assume_unique=False)
    return float(new.size / comparable.size)


def _last_told(sample: NDArray[np.uint32]) -> int:
    full = sample.size == SAMPLE_LINKS
    return int(sample[-1]) if full else np.iinfo(np.uint32).max
