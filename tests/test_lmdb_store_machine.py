"""Any sequence of what a crawl does to a store, compared with brute force after every step."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scrapy_simhash.stores import Verdict
from tests.documents import document, open_lmdb
from tests.oracle import Oracle, distance_between
from tests.strategies import fingerprints, masks

DISTANCE = 3
NAMES = [f"page{number}" for number in range(6)]
names = st.sampled_from(NAMES)
flips = st.integers(0, 5).flatmap(masks)


class StoreMachine(RuleBasedStateMachine):
    """A store, and an oracle that knows what it must say."""

    @initialize(design=st.sampled_from(["4", "10", "16", "20", "6:3"]))
    def make(self, design: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.design = design
        self.oracle = Oracle(DISTANCE)
        self.numbers: dict[bytes, int] = {}
        self.seen: list[int] = [0]
        self.crawls = 0
        self.open()

    def open(self) -> None:
        self.store = open_lmdb(self.folder, distance=DISTANCE, tables=self.design)
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

    @rule(data=st.data(), group=st.lists(st.tuples(names, flips), min_size=1, max_size=4))
    def add_near_what_was_seen(self, data: st.DataObject, group: list[tuple[str, int]]) -> None:
        """One transaction for all of them; the same page may be in it twice, with other text."""
        bases = [data.draw(st.sampled_from(self.seen)) for _ in group]
        self.add(
            [(name, base ^ flip) for base, (name, flip) in zip(bases, group, strict=True)],
            data.draw(st.sampled_from(sorted(self.oracle.alive))),
        )

    @rule(data=st.data(), name=names, fingerprint=fingerprints)
    def add_anything(self, data: st.DataObject, name: str, fingerprint: int) -> None:
        self.add([(name, fingerprint)], data.draw(st.sampled_from(sorted(self.oracle.alive))))

    def add(self, group: list[tuple[str, int]], crawl: str) -> None:
        pages = [document(name, fingerprint, crawl=crawl) for name, fingerprint in group]
        verdicts = self.store.find_and_add(pages)
        for (name, fingerprint), verdict in zip(group, verdicts, strict=True):
            self.compare(name.encode(), fingerprint, crawl, verdict)
            self.seen.append(fingerprint)

    def compare(self, identity: bytes, fingerprint: int, crawl: str, verdict: Verdict) -> None:
        near = self.oracle.near(fingerprint, but=identity)
        assert (verdict.reason or verdict.status) == self.oracle.add(identity, fingerprint, crawl)
        assert self.numbers.setdefault(identity, verdict.document) == verdict.document
        if verdict.status == "near_duplicate":
            assert verdict.match
            distances = {self.numbers[each]: distance for each, distance in near.items()}
            assert distances[verdict.match.document] == min(distances.values())
            assert verdict.match.distance == min(distances.values())
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

    @rule(data=st.data(), flip=flips, distance=st.integers(0, DISTANCE))
    def query(self, data: st.DataObject, flip: int, distance: int) -> None:
        """Find every state but duplicates, nearest first."""
        fingerprint = data.draw(st.sampled_from(self.seen)) ^ flip
        found = [(each.distance, each.document) for each in self.store.query(fingerprint, distance)]
        expected = [
            (distance_between(page.fingerprint, fingerprint), self.numbers[identity])
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
            assert stored.fingerprints == (page.fingerprint,)
            state = "duplicate" if page.duplicate else "done" if page.done else "pending"
            assert stored.state == state


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=30, stateful_step_count=40)
