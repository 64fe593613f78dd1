"""Random documents for a store, in episodes; each has a store, and a seed, of its own.

An episode does all that crawls do to a store, in an order that follows from its seed and from the
verdicts before: documents in groups of all sizes, most of them made from an earlier one (some bits,
a part of either text, another name), revisits, stubs, walls, scopes, several readers and
imports, crawls that count only what they got; drops that are undone, pages that are gone,
deletions, bulk-loaded fingerprints and queries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xxhash

from scrapy_simhash import open_store
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import EVERYONE, NOBODY, Facts, Reader
from scrapy_simhash.pages.recipe import SKETCH_BYTES
from scrapy_simhash.pages.wording import Wording, pack
from scrapy_simhash.stores.documents import Documents
from tests.golden.lines import Line, Numbers, show_verdict
from tests.helpers.documents import alter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_simhash.stores.store import Store

# Distance, whether it alone decides, and tables.
STORES: tuple[tuple[int | None, bool, str], ...] = (
    (7, False, "auto"),
    (3, True, "auto"),
    (None, False, "4"),
    (7, True, "4"),
    (4, False, "10"),
    (3, True, "20"),
    (7, False, "4"),
    (0, True, "16"),
    (3, False, "16"),
    (5, True, "auto"),
)
GROUPS = (1, 1, 2, 3, 5, 8, 13, 30, 64, 150)
STATE_LINES_OF = 50
_PARSE = Reader("spider", "parse")
READERS = (*[_PARSE] * 12, Reader("spider", "parse_item"), Reader("other", "parse"), NOBODY)
_WORDINGS = pack(Wording("a text")), pack(Wording("another"))
HALF_OF_SKETCH = SKETCH_BYTES // 2
WORDS = (
    *("create table", "create index", "drop table", "27.4. Hot Standby", "26.4. Hot Standby"),
    *("Fire in the old harbour - The Daily", "Fire in the old harbour", "Fire in the old harbour"),
    *("Django 4.2 documentation", "Django 5.0 documentation", "Product 17", "Product 18", "!!"),
    *("Home", "The Daily", "The Daily | Local news | Fire in the old harbour", "Accept cookies"),
)


class Episode(NamedTuple):
    """Some documents in one store."""

    number: int
    documents: int
    # Nearly all of them around one fingerprint: more candidates than are compared.
    crowded: bool = False

    @property
    def reopens(self) -> bool:
        """Whether its store is closed and opened again, which one in memory does not survive."""
        return self.number % 4 == 3

    @property
    def store(self) -> tuple[int | None, bool, str]:
        """Distance, whether it alone decides, and tables."""
        return STORES[0] if self.crowded else STORES[self.number % len(STORES)]


def list_episodes(documents: int, first: int = 0) -> list[Episode]:
    """List the episodes of so many documents; 50,000 from 0 end with a crowd and two large ones."""
    golden = [1_000] * 39 + [2_500, 3_500, 5_000]
    episodes: list[Episode] = []
    left, number = documents, first
    while left > 0:
        size = golden[number] if number < len(golden) else 1_000
        episodes.append(Episode(number, min(size, left), crowded=number == 39))
        left -= size
        number += 1
    return episodes


@dataclass
class _World:
    """What crawls have seen so far."""

    random: Random
    episode: Episode
    clock: float = 1_700_000_000.0
    loaded: list[int] = field(default_factory=list)
    pages: list[Document] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict)
    order: Numbers = field(default_factory=Numbers)
    crawls: list[str] = field(default_factory=lambda: ["crawl-1"])
    dropped: list[int] = field(default_factory=list)

    def draw(self, chance: float) -> bool:
        return self.random.random() < chance

    def choose(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.random() * len(options))]

    def flip(self, fingerprint: int, most: int) -> int:
        for _ in range(int(self.random.random() * (most + 1))):
            fingerprint ^= 1 << int(self.random.random() * 64)
        return fingerprint

    def change(self, half: bytes) -> bytes:
        """Change a part of half a sketch: nothing, a little, or much."""
        share = self.choose((0, 0, 0.02, 0.08, 0.15, 0.2, 0.25, 0.5, 1))
        count = int(share * self.random.random() * HALF_OF_SKETCH)
        start = int(self.random.random() * (HALF_OF_SKETCH - count + 1))
        return half[:start] + self.random.randbytes(count) + half[start + count :]

    def name(self) -> str:
        return str(self.choose(WORDS)) if self.draw(0.5) else f"Page {self.random.getrandbits(20)}"

    def make_url(self, name: str) -> str:
        host = self.choose(("site.example", "site.example", "www.site.example", "other.example"))
        query = self.choose(("", "", f"?sid={self.random.getrandbits(12)}", "?page=2&sort=up"))
        folder = self.choose(("", "news/", "print/", "2026/11/"))
        return f"http://{host}/{folder}{name}{query}"

    def make_document(self) -> Document:
        """Make a document that is new, or like an earlier one, or an earlier one again."""
        self.clock += self.random.random() * 60
        kind = self.random.random() * (0.38 if self.episode.crowded else 1)
        if not self.pages or kind < 0.3:
            made = self.make_new()
        elif kind < 0.68:
            made = self.make_like(self.choose_page())
        elif kind < 0.85:
            made = self.visit_again(self.choose_page())
        elif kind < 0.93:
            made = self.meet_wall()
        else:
            made = self.make_stub()
        scope = self.choose(("", "", "en", "de")) if self.draw(0.2) else made.facts.scope
        if self.episode.crowded and self.draw(0.3):
            scope = f"scope {self.random.getrandbits(12)}"
        return alter(
            made,
            scope=scope,
            time=self.clock,
            wording=_WORDINGS[self.draw(0.05)],
            requested=self.make_url("asked") if self.draw(0.03) else "",
        )

    def choose_page(self) -> Document:
        """Choose an earlier document, mostly one of the last."""
        last = self.pages[-200:] if self.draw(0.7) else self.pages
        chosen: Document = self.choose(last)
        return chosen

    def make_new(self) -> Document:
        number = len(self.pages)
        fingerprint = self.random.getrandbits(64)
        if self.episode.crowded:
            fingerprint = self.flip(0x0123_4567_89AB_CDEF, 4)
        elif self.loaded and self.draw(0.1):
            fingerprint = self.flip(self.choose(self.loaded), 4)
        words = self.choose((40, 90, 250, 480, 700, 1_600, 6_000))
        return Document(
            Facts(
                identity=b"page %d" % number,
                reader=EVERYONE if self.draw(0.03) else self.choose(READERS),
                fingerprint=fingerprint,
                text_digest=self.random.randbytes(16),
                url=self.make_url(f"page{number}"),
                title=self.name(),
                heading=self.name() if self.draw(0.8) else "",
                canonical=self.make_url(f"page{number}") if self.draw(0.2) else "",
                words=words,
                whole_words=int(words * self.choose((1, 1.1, 1.5, 3, 8))),
                sketch=self.random.randbytes(SKETCH_BYTES) if self.draw(0.93) else b"",
                features=words // 2,
            ),
        )

    def make_like(self, page: Document) -> Document:
        """Make another page of nearly the same text."""
        number = len(self.pages)
        sketch = page.facts.sketch
        if sketch and self.draw(0.8):
            sketch = self.change(sketch[:HALF_OF_SKETCH]) + self.change(sketch[HALF_OF_SKETCH:])
        words = max(1, page.facts.words + self.choose((0, 0, 0, 5, -5, 200)))
        return alter(
            page,
            identity=b"page %d" % number,
            fingerprint=self.flip(page.facts.fingerprint, 9 * self.draw(0.6)),
            text_digest=page.facts.text_digest if self.draw(0.3) else self.random.randbytes(16),
            url=self.make_url(f"page{number}"),
            title=page.facts.title if self.draw(0.8) else self.name(),
            heading=page.facts.heading if self.draw(0.8) else self.name(),
            canonical=page.facts.canonical if self.draw(0.8) else "",
            words=words,
            whole_words=max(words, page.facts.whole_words + self.choose((0, 0, 10, 900))),
            sketch=sketch,
            stub=False,
            imported=b"",
        )

    def visit_again(self, page: Document) -> Document:
        """Fetch a page again: as it was, changed, or what was imported by a crawl."""
        if page.facts.reader == EVERYONE:
            reader = self.choose(READERS)
            own = page.facts.identity + reader.callback.encode()
            page = alter(page, imported=page.facts.identity, identity=own, reader=reader)
        if self.draw(0.8):
            return page
        changed = self.make_like(page)
        identity, url = page.facts.identity, page.facts.url
        return alter(changed, identity=identity, url=url, imported=page.imported)

    def meet_wall(self) -> Document:
        """Meet a wall in place of a page, or the page of a list, whose parameter matters."""
        number = len(self.pages)
        wall = int(self.random.random() * 4)
        made = self.make_new()
        if wall == 3:  # each value of the parameter leads to a page of its own
            return alter(made, url=f"http://list.example/list?page={number}&sid=1")
        calm = Random(wall)  # noqa: S311 - documents, not secrets
        return alter(
            made,
            fingerprint=self.flip(calm.getrandbits(64), 1),
            sketch=calm.randbytes(SKETCH_BYTES),
            title=f"Log in {wall}",
            heading="Log in",
            canonical="",
            words=700,
            whole_words=800,
            url=f"http://wall{wall}.example/{self.choose(('a', 'b'))}/page{number}?next=1",
        )

    def make_stub(self) -> Document:
        """Make a page with too little text."""
        number = len(self.pages)
        calm = Random(int(self.random.random() * 12))  # noqa: S311
        digest = calm.randbytes(16)
        return Document(
            Facts(
                identity=b"page %d" % number,
                fingerprint=int.from_bytes(digest[:8], "big"),
                text_digest=digest,
                url=self.make_url(f"page{number}"),
                reader=self.choose(READERS),
                title=self.name(),
                stub=True,
                sketch=calm.randbytes(SKETCH_BYTES),
            ),
        )


def run_episode(
    episode: Episode, url: str, opener: Callable[..., Store] = open_store
) -> Iterator[Line]:
    """Run an episode in a new store; gives a line for each thing that it says."""
    world = _World(Random(episode.number), episode)  # noqa: S311
    distance, plain, tables = episode.store

    def open_it() -> Store:
        return opener(url, distance, tables, plain=plain, seed=episode.number)

    yield Line(f"episode {episode.number}: {episode.documents} documents, {episode.store}")
    store = open_it()
    try:
        if world.draw(0.3):
            world.loaded = [world.random.getrandbits(64) for _ in range(50)]
            count = store.bulk_load(np.array(world.loaded, np.uint64))
            yield Line(f"bulk-loaded {count}")
        left = episode.documents
        while left:
            size = min(left, world.choose(GROUPS))
            left -= size
            yield from _judge(world, store, size)
            yield from _go_on(world, store)
            if episode.reopens and world.draw(0.02):
                store.close()
                store = open_it()
                yield Line("opened again")
        yield from _list_kept(world, store)
    finally:
        store.close()


def _judge(world: _World, store: Store, size: int) -> Iterator[Line]:
    """Judge a group of a crawl, which may count only what it got."""
    if world.draw(0.05):
        world.crawls.append(f"crawl-{len(world.crawls) + 1}")
    crawl = world.crawls[-1] if world.draw(0.8) else world.choose(world.crawls)
    group = []
    for _ in range(size):
        group.append(world.make_document())
        world.pages.append(alter(group[-1], requested=""))
    verdicts = store.find_and_add(group, crawl=crawl, incremental=world.draw(0.7))
    for page, verdict in zip(group, verdicts, strict=True):
        world.numbers[page.facts.identity] = verdict.document
        if verdict.match is not None:
            world.dropped.append(verdict.document)
        yield Line(show_verdict(verdict, world.order), show_document(page))


def _go_on(world: _World, store: Store) -> Iterator[Line]:
    """Do now and then what crawls and people do between two groups."""
    if world.draw(0.1):
        identity = world.choose(list(world.numbers))
        store.write(partial(Documents.forget, identity=identity))
    if world.draw(0.1):
        number = world.choose(list(world.numbers.values()))
        yield Line(f"deleted {world.order[number]}: {store.delete([number])}")
    if world.draw(0.1) and world.dropped:
        number = world.choose(world.dropped)
        if store.get_documents([number]):
            store.spare([number])
    if world.draw(0.3):
        fingerprint = world.choose_page().facts.fingerprint
        matches = store.query(fingerprint)
        near = sorted((match.distance, world.order[match.document]) for match in matches)
        yield Line(f"near {near[:20]} of {len(near)}", f"query of {fingerprint:016x}")


def _list_kept(world: _World, store: Store) -> Iterator[Line]:
    """Digest what the store keeps of its documents, some in each line."""
    problems = store.check()
    assert problems == []  # whatever the golden files say
    yield Line(f"check {problems}")
    rows: dict[int, str] = {}
    for page in store.list_documents():
        record, facts, number = page.record, page.facts, world.order[page.document]
        similarity = "-" if page.record.similarity is None else f"{page.record.similarity:.3f}"
        rows[number] = (
            f"{number} {page.state} {record.crawls} {world.order[record.original]} "
            f"{record.distance} {similarity} {record.spared} {facts.group!r} {facts.time:.3f} "
            f"{record.first_time:.3f} {facts.url} {facts.identity!r}"
        )
    for start in range(0, max(rows, default=0) + 1, STATE_LINES_OF):
        some = [rows[number] for number in range(start, start + STATE_LINES_OF) if number in rows]
        text = "\n".join(some)
        yield Line(f"kept {start} {xxhash.xxh3_64_hexdigest(text.encode())} {len(some)}", text)


def show_document(page: Document) -> str:
    """Describe a document for people."""
    shown = {
        name: value
        for part in (page, page.facts)
        for name in part.__struct_fields__
        if (value := getattr(part, name)) and name not in {"facts", "links", "sketch"}
    }
    shown["fingerprint"] = f"{page.facts.fingerprint:016x}"
    for name in ("text_digest",):
        shown[name] = shown[name].hex()
    shown["sketch"] = xxhash.xxh3_64_hexdigest(page.facts.sketch)
    return ", ".join(f"{name}={value!r}" for name, value in shown.items())
