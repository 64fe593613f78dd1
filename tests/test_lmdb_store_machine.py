"""Any sequence of what a crawl does to a store, compared with brute force after every step."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scrapy_simhash.stored import Verdict
from tests.documents import document, open_lmdb
from tests.oracle import Oracle, distance_between
from tests.strategies import fingerprints as any_fingerprint
from tests.strategies import masks

# Up to the distance of the paper, and as far as the designs reach with flipped bits.
STORES = [("4", 3), ("10", 3), ("16", 3), ("20", 3), ("6:3", 3)]
STORES += [("4", 7), ("4", 5), ("10", 4), ("16", 4), ("20", 4)]
NAMES = [f"page{number}" for number in range(6)]
names = st.sampled_from(NAMES)
flips = st.integers(0, 9).flatmap(masks)
several_flips = st.lists(flips, min_size=1, max_size=3)


class StoreMachine(RuleBasedStateMachine):
    """A store, and an oracle that knows what it must say."""

    @initialize(store=st.sampled_from(STORES))
    def make(self, store: tuple[str, int]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.design, distance = store
        self.oracle = Oracle(distance)
        self.numbers: dict[bytes, int] = {}
        self.seen: list[int] = [0]
        self.crawls = 0
        self.open()

    def open(self) -> None:
        self.store = open_lmdb(self.folder, distance=self.oracle.distance, tables=self.design)
        self.start_crawl()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    def start_crawl(self) -> None:
        self.crawls += 1
        self.store.start_crawl(f"crawl-{self.crawls}", "spider")
        self.oracle.alive.add(f"crawl-{self.crawls}")

    def draw_crawl(self, data: st.DataObject, name: str) -> str:
        """Draw any crawl there was, living or dead, mostly the one that fetched the page."""
        page = self.oracle.pages.get(name.encode())
        if page and page.crawl and data.draw(st.integers(0, 3), "own crawl"):
            return page.crawl
        return f"crawl-{data.draw(st.integers(1, self.crawls), 'crawl')}"

    @precondition(lambda self: len(self.oracle.alive) < 3)
    @rule()
    def begin_another_crawl(self) -> None:
        self.start_crawl()

    @precondition(lambda self: len(self.oracle.alive) > 1)
    @rule(data=st.data())
    def end_crawl(self, data: st.DataObject) -> None:
        crawl = data.draw(st.sampled_from(sorted(self.oracle.alive)))
        self.store.end_crawl(crawl)
        self.oracle.alive.remove(crawl)

    @rule()
    def reopen(self) -> None:
        """Every crawl ends with the process that ran it."""
        self.store.close()
        self.oracle.alive.clear()
        self.open()

    @rule(data=st.data(), group=st.lists(st.tuples(names, several_flips), min_size=1, max_size=4))
    def add_near_what_was_seen(
        self, data: st.DataObject, group: list[tuple[str, list[int]]]
    ) -> None:
        """One transaction for all of them; the same page may be in it twice, with other text."""
        seen = st.sampled_from(self.seen)
        self.add(
            [(name, tuple(data.draw(seen) ^ flip for flip in flips)) for name, flips in group],
            data.draw(st.sampled_from(sorted(self.oracle.alive))),
        )

    @precondition(lambda self: self.oracle.pages)
    @rule(data=st.data(), flips=several_flips)
    def only_the_whole_text_changes(self, data: st.DataObject, flips: list[int]) -> None:
        """The first fingerprint stays, which is that of the main text."""
        identity = data.draw(st.sampled_from(sorted(self.oracle.pages)))
        first = self.oracle.pages[identity].fingerprints[0]
        others = [data.draw(st.sampled_from(self.seen)) ^ flip for flip in flips]
        crawl = data.draw(st.sampled_from(sorted(self.oracle.alive)))
        self.add([(identity.decode(), (first, *others))], crawl)

    @rule(data=st.data(), name=names, fingerprint=any_fingerprint)
    def add_anything(self, data: st.DataObject, name: str, fingerprint: int) -> None:
        self.add([(name, (fingerprint,))], data.draw(st.sampled_from(sorted(self.oracle.alive))))

    def add(self, group: list[tuple[str, tuple[int, ...]]], crawl: str) -> None:
        pages = [
            document(name, *fingerprints, crawl=crawl, text_digest=b"%d" % fingerprints[0])
            for name, fingerprints in group
        ]
        verdicts = self.store.find_and_add(pages)
        for (name, fingerprints), verdict in zip(group, verdicts, strict=True):
            self.compare(name.encode(), fingerprints, crawl, verdict)
            self.seen += fingerprints

    def compare(
        self, identity: bytes, fingerprints: tuple[int, ...], crawl: str, verdict: Verdict
    ) -> None:
        near = self.oracle.near(*fingerprints, but=identity)
        assert (verdict.reason or verdict.status) == self.oracle.add(identity, fingerprints, crawl)
        assert self.numbers.setdefault(identity, verdict.document) == verdict.document
        if verdict.status == "near_duplicate":
            assert verdict.match
            distances = {self.numbers[each]: distance for each, distance in near.items()}
            assert distances[verdict.match.document] == min(distances.values())
            assert verdict.match.distance == min(distances.values())
            assert verdict.match.document == min(
                number for number, bits in distances.items() if bits == verdict.match.distance
            )
        else:
            assert verdict.match is None

    @rule(data=st.data(), name=names)
    def mark_done(self, data: st.DataObject, name: str) -> None:
        crawl = self.draw_crawl(data, name)
        self.store.mark_done([self.numbers.get(name.encode(), 99)], crawl)
        page = self.oracle.pages.get(name.encode())
        if page and page.crawl == crawl and not page.duplicate and not page.done:
            page.done = page.delivered = True

    @rule(data=st.data(), name=names)
    def withdraw(self, data: st.DataObject, name: str) -> None:
        crawl = self.draw_crawl(data, name)
        self.store.withdraw([self.numbers.get(name.encode(), 99)], crawl)
        page = self.oracle.pages.get(name.encode())
        if page and page.crawl == crawl and not page.duplicate and not page.done:
            page.crawl = ""

    @rule(data=st.data(), flip=flips, share=st.floats(0, 1))
    def query(self, data: st.DataObject, flip: int, share: float) -> None:
        """Find every state but duplicates, each document once, nearest first."""
        distance = round(share * self.oracle.distance)
        fingerprint = data.draw(st.sampled_from(self.seen)) ^ flip
        found = [(each.distance, each.document) for each in self.store.query(fingerprint, distance)]
        expected = [
            (
                min(distance_between(stored, fingerprint) for stored in page.fingerprints),
                self.numbers[identity],
            )
            for identity, page in self.oracle.pages.items()
            if not page.duplicate
        ]
        assert sorted(found) == sorted(hit for hit in expected if hit[0] <= distance)
        assert [bits for bits, _ in found] == sorted(bits for bits, _ in found)

    @invariant()
    def everything_fits_together(self) -> None:
        if hasattr(self, "store"):
            assert self.store.check() == []

    @invariant()
    def states_are_those_of_the_oracle(self) -> None:
        for identity, number in getattr(self, "numbers", {}).items():
            page, stored = self.oracle.pages[identity], self.store.get_document(number)
            assert stored
            assert stored.fingerprints == page.fingerprints
            state = "duplicate" if page.duplicate else "done" if page.done else "pending"
            assert stored.state == state


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=30, stateful_step_count=40)
