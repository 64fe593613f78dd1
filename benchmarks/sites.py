"""What bench_crawl crawls: pages of a folder, and a site with near-duplicates that are known.

Such a site is made from the same pages. Its originals have little in common: no page has a fifth of
the runs of four words of another one, boilerplate included, which is counted here without a line of
the plugin. A near-duplicate is an original with one small edit that real sites make (`EDITS`), so
it is known which page is one of which.
"""

from __future__ import annotations

import gzip
import itertools
import random
import re
import sys
import zlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

EXAMPLE_PAGES = Path(__file__).parent.parent / "example_project" / "docsite" / "pages"
SHARE_OF_DUPLICATES = 0.3
_RUN_WORDS = 4
_LEAST_WORDS = 100
_MOST_IN_COMMON = 0.2
_NOT_SHOWN = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>")
# Scripts without spaces between words: each character is one.
_WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
_BODY = re.compile(rb"(?i)<body\b[^>]*>")
_END = re.compile(rb"(?i)</body\s*>")
_LINK = re.compile(rb"""(?i)(<a\b[^>]*?\bhref=["']?)([^"'#>\s]+)""")
_PARAGRAPH_END = re.compile(rb"(?i)</p\s*>")
_LABELS = b"Home News Products Support Contact About Search Archive Jobs Press Shop Help".split()


class Site(NamedTuple):
    """Pages in the order in which they are asked for.

    Attributes:
        pages: their HTML.
        families: for each page, the number of the original it is or was made from.
    """

    pages: list[bytes]
    families: list[int]


def load_pages(folder: Path, count: int) -> list[bytes]:
    """Read so many pages, spread over the folder, or all it has; gzip ones are unpacked.

    Args:
        folder: with `.html` and `.html.gz` files at any depth.
        count: of pages wanted.
    """
    paths = sorted(p for p in folder.rglob("*") if p.name.endswith((".html", ".html.gz")))
    if not paths:
        sys.exit(f"no .html or .html.gz files below {folder}; name a folder that has some")
    some = min(count, len(paths))
    chosen = (paths[number * len(paths) // some] for number in range(some))
    return [
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in chosen
    ]


def make_site(pages: Iterable[bytes], count: int, seed: int = 0) -> Site:
    """Make a site of about `count` pages, `SHARE_OF_DUPLICATES` of them near-duplicates."""
    chance = random.Random(seed)  # noqa: S311
    wanted = round((1 - SHARE_OF_DUPLICATES) * count)
    offered = list(pages)
    chance.shuffle(offered)  # of all sources, whatever the number
    originals = list(itertools.islice(_choose_originals(offered), wanted))
    made = [(page, number) for number, page in enumerate(originals)]
    copies = round(len(originals) * SHARE_OF_DUPLICATES / (1 - SHARE_OF_DUPLICATES))
    for name in itertools.islice(itertools.cycle(EDITS), copies):
        number = chance.randrange(len(originals))
        made.append((EDITS[name](originals[number], chance), number))
    chance.shuffle(made)
    return Site(*map(list, zip(*made, strict=True)))


def _choose_originals(pages: Iterable[bytes]) -> Iterable[bytes]:
    """Choose pages that have little in common with each other."""
    chosen: list[int] = []  # the number of runs of each
    places: defaultdict[int, list[int]] = defaultdict(list)
    for page in pages:
        runs = _read_runs(page)
        if len(runs) < _LEAST_WORDS or not (_BODY.search(page) and _END.search(page)):
            continue
        common = Counter(itertools.chain.from_iterable(places[run] for run in runs))
        shares = (shared / min(len(runs), chosen[number]) for number, shared in common.items())
        if max(shares, default=0.0) < _MOST_IN_COMMON:
            for run in runs:
                places[run].append(len(chosen))
            chosen.append(len(runs))
            yield page


def _read_runs(page: bytes) -> set[int]:
    """Hash all runs of four words of the visible text."""
    words = _WORD.findall(_NOT_SHOWN.sub(" ", page.decode("utf-8", "replace")).lower())
    return {
        zlib.crc32(" ".join(words[start : start + _RUN_WORDS]).encode())
        for start in range(len(words) - _RUN_WORDS + 1)
    }


def _insert(page: bytes, place: int, html: bytes) -> bytes:
    return page[:place] + html + page[place:]


def _end_of(page: bytes) -> int:
    return list(_END.finditer(page))[-1].start()


def _add_session(page: bytes, chance: random.Random) -> bytes:
    """Put a session into the address of every link."""
    session = b"sid=%016x" % chance.getrandbits(64)

    def extend(link: re.Match[bytes]) -> bytes:
        return link[1] + link[2] + (b"&" if b"?" in link[2] else b"?") + session

    return _LINK.sub(extend, page)


def _add_date(page: bytes, chance: random.Random) -> bytes:
    """Add a line with a date and a counter."""
    line = b"<p>Last changed on %d March 20%02d at %02d:%02d. Seen %d times.</p>" % (
        chance.randint(1, 31),
        chance.randint(10, 26),
        chance.randint(0, 23),
        chance.randint(0, 59),
        chance.randint(100, 99_999),
    )
    return _insert(page, _end_of(page), line)


def _add_navigation(page: bytes, chance: random.Random) -> bytes:
    """Add the navigation of another template."""
    items = b"".join(
        b'<li><a href="/%s">%s</a></li>' % (label.lower(), label)
        for label in chance.sample(_LABELS, 8)
    )
    start = _BODY.search(page)
    assert start is not None  # noqa: S101 - originals have one
    return _insert(page, start.end(), b"<nav><ul>%s</ul></nav>" % items)


def _add_advertisement(page: bytes, chance: random.Random) -> bytes:
    """Add an advertisement after the paragraph in the middle, or at the end."""
    ends = [found.end() for found in _PARAGRAPH_END.finditer(page)]
    words = b" ".join(chance.choices(_LABELS, k=12))
    advert = b'<div class="advert"><a href="/advert/%d">%s</a></div>' % (
        chance.getrandbits(32),
        words,
    )
    return _insert(page, ends[len(ends) // 2] if ends else _end_of(page), advert)


EDITS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "session in links": _add_session,
    "date and counter": _add_date,
    "other navigation": _add_navigation,
    "advertisement": _add_advertisement,
}


_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
_WORDS = [a + b for a in _SYLLABLES for b in _SYLLABLES]
_WORDS_PER_PAGE = 300


def make_page(text: int, copy: int) -> bytes:
    """Make a page of a few kB; pages of one text have one title and menu, and other links."""
    words = random.Random(text).choices(_WORDS, k=_WORDS_PER_PAGE)  # noqa: S311
    paragraphs = "".join(
        f"<p>{' '.join(words[start : start + 50])}.</p>" for start in range(0, len(words), 50)
    )
    menu = "".join(f'<li><a href="/{copy}/{n}">Entry {n}</a></li>' for n in range(5))
    return (
        f'<!DOCTYPE html><html lang="en"><head><title>{" ".join(words[:4])}</title></head><body>'
        f"<nav><ul>{menu}</ul></nav><main><article><h1>{' '.join(words[:2])}</h1>{paragraphs}"
        "</article></main></body></html>"
    ).encode()
