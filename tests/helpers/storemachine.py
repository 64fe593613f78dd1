"""Any sequence of what crawls do to a store, compared with brute force after every step."""

from collections import Counter
from operator import methodcaller
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.judging.documents import Decision, Document, State
from scrapy_simhash.pages.features import sketch_text
from scrapy_simhash.stores.keys import DISSOLVED, keys_of
from scrapy_simhash.stores.keyvalues import KEYS, octets
from scrapy_simhash.stores.store import Store
from scrapy_simhash.tables import parse_design
from tests.helpers.documents import document
from tests.helpers.oracle import Oracle, distance_between
from tests.helpers.strategies import fingerprints as any_fingerprint
from tests.helpers.strategies import masks

# Up to the distance of the paper, and as far as the designs reach with flipped bits.
STORES = [("4", 3), ("10", 3), ("16", 3), ("20", 3), ("6:3", 3)]
STORES += [("4", 7), ("4", 5), ("10", 4), ("16", 4), ("20", 4)]
NAMES = [f"page{number}" for number in range(6)]
names = st.sampled_from(NAMES)
flips = st.integers(0, 9).flatmap(masks)
CRAWLS = st.sampled_from([f"crawl-{number}" for number in range(6)])
_COPIES = {"near_duplicate", "first_copy"}
_SPREAD = 0x9E37_79B9_7F4A


def digest_of(fingerprint: int) -> bytes:
    """Make the digest of a text, which few others have."""
    return b"%d" % (fingerprint >> 2)


def place_of(name: str, fingerprint: int) -> dict[str, Any]:
    """Choose what puts a page into the sample of a host, or into none."""
    host = {"0": "", "1": "other.example"}.get(name[-1], "site.example")
    shingles = [_SPREAD << bit for bit in range(8) if fingerprint >> bit & 1]
    sketch = sketch_text(np.array(shingles, np.uint64)) if fingerprint.bit_count() % 4 else b""
    return {"url": f"http://{host}/{name}" if host else "", "sketch": sketch}


# The most documents in a sample here, and under a key of which a document has four.
SAMPLE = MOST_UNDER_KEY = 2


class StoreMachine(RuleBasedStateMachine):
    """A store, and an oracle that knows what it must say."""

    store: Store

    @initialize(store=st.sampled_from(STORES), data=st.data())
    def make(self, store: tuple[str, int], data: st.DataObject) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("scrapy_simhash.stores.documents.SAMPLE", SAMPLE)
        self.patch.setattr("scrapy_simhash.stores.keys.MOST_UNDER_KEY", MOST_UNDER_KEY)
        self.patch.setattr("scrapy_simhash.stores.keys._MOST_REMEMBERED", 5)
        for module in ("keys", "documents"):
            self.patch.setattr(f"scrapy_simhash.stores.{module}.KEYS_OF_A_PAGE", 4)
        # Whether a sample may have a gap: a page left it since all of them were made anew.
        self.left = False
        # Too few rows for a bucket, or as many as there are.
        self.crowded = False
        self.design, distance = store
        self.oracle = Oracle(distance)
        self.numbers: dict[bytes, int] = {}
        self.seen: list[int] = [0]
        self.prepare(data)
        self.open()

    def prepare(self, data: st.DataObject) -> None:
        """Choose where the store is, and its sizes."""
        raise NotImplementedError

    def open_store(self, **arguments: Any) -> Store:
        """Open the store of this run."""
        raise NotImplementedError

    def open(self) -> None:
        given = {"distance": self.oracle.distance, "tables": self.design, "rule": "plain"}
        self.store = self.open_store(**given)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.patch.undo()
            self.store.close()

    def get(self, number: int) -> Document:
        stored = self.store.get_documents([number]).get(number)
        assert stored
        return stored

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule(data=st.data(), group=st.lists(st.tuples(names, flips), min_size=1, max_size=4))
    def add_near_what_was_seen(self, data: st.DataObject, group: list[tuple[str, int]]) -> None:
        """One transaction for all of them; the same page may be in it twice, with other text."""
        seen = st.sampled_from(self.seen)
        self.add(
            [(name, data.draw(seen) ^ flip) for name, flip in group],
            data.draw(CRAWLS),
            incremental=data.draw(st.booleans()),
        )

    @precondition(lambda self: any(self.numbers.values()))
    @rule(data=st.data(), flip=st.integers(0, 3))
    def only_the_whole_text_changes(self, data: st.DataObject, flip: int) -> None:
        """The digest stays, which is that of the main text."""
        pages = sorted(identity for identity, number in self.numbers.items() if number)
        identity = data.draw(st.sampled_from(pages))
        changed = self.oracle.pages[identity].fingerprint ^ flip
        self.add([(identity.decode(), changed)], data.draw(CRAWLS))

    @rule(data=st.data(), name=names, fingerprint=any_fingerprint)
    def add_anything(self, data: st.DataObject, name: str, fingerprint: int) -> None:
        self.add([(name, fingerprint)], data.draw(CRAWLS), incremental=data.draw(st.booleans()))

    @rule(name=names)
    def forget(self, name: str) -> None:
        self.store.write(methodcaller("forget", name.encode()))
        self.left = True
        self.oracle.pages.pop(name.encode(), None)
        self.numbers.pop(name.encode(), None)

    def add(self, group: list[tuple[str, int]], crawl: str, *, incremental: bool = True) -> None:
        pages = [
            document(name, bits, text_digest=digest_of(bits), **place_of(name, bits))
            for name, bits in group
        ]
        self.oracle.crawl, self.oracle.incremental = crawl, incremental
        verdicts = self.store.find_and_add(pages, crawl=crawl, incremental=incremental)
        for (name, fingerprint), verdict in zip(group, verdicts, strict=True):
            self.compare(name.encode(), fingerprint, verdict)
            self.seen.append(fingerprint)

    def compare(self, identity: bytes, fingerprint: int, verdict: Decision) -> None:
        near = self.oracle.near(fingerprint, but=identity)
        self.left = self.left or identity in self.oracle.pages
        expected = self.oracle.add(identity, fingerprint)
        if verdict.status == "not_judged":
            assert self.crowded
            assert verdict.reason == "bucket_too_full"
            assert expected in ("new", "near_duplicate", "first_copy")
            self.oracle.pages[identity].duplicate = False
        else:
            told = verdict.reason or verdict.status
            assert told == expected or (self.crowded and {told, expected} == _COPIES)
        assert self.numbers.setdefault(identity, verdict.document) == verdict.document
        if verdict.status == "near_duplicate":
            found = {(*rank, self.numbers[each]) for each, rank in near.items()}
            rank = verdict.reason == "first_copy", verdict.distance, verdict.match_document
            assert rank in found
            if not self.crowded:  # else the nearest may be in a bucket that was passed over
                assert rank == min(found)
        else:
            assert verdict.match_url is None

    @rule(data=st.data(), flip=flips, share=st.floats(0, 1))
    def query(self, data: st.DataObject, flip: int, share: float) -> None:
        """Find every state but duplicates, each document once, nearest first."""
        distance = round(share * self.oracle.distance)
        fingerprint = data.draw(st.sampled_from(self.seen)) ^ flip
        found = [(bits, each.number) for bits, each in self.store.query(fingerprint, distance)]
        expected = [
            (distance_between(page.fingerprint, fingerprint), self.numbers[identity])
            for identity, page in self.oracle.pages.items()
            if not page.duplicate
        ]
        assert sorted(found) == sorted(hit for hit in expected if hit[0] <= distance)
        assert [bits for bits, _ in found] == sorted(bits for bits, _ in found)

    @rule(design=st.sampled_from(["4", "10", "16", "20", "6:3", None]))
    def rebuild(self, design: str | None) -> None:
        if parse_design(design or self.design).reach_bits < self.oracle.distance:
            with pytest.raises(StoreUnusableError, match="is complete for"):
                self.store.rebuild(design)
            return
        done = self.store.rebuild(design)
        self.design = self.store.design
        assert self.design == (design or self.design)
        assert done["fingerprints"] == len(self.expected_fingerprints())
        self.left = False

    @precondition(lambda self: self.numbers)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """With its near-duplicates."""
        drawn = st.sampled_from(sorted(set(self.numbers.values())))
        waiting = data.draw(st.lists(drawn, max_size=2))
        named = {number: identity for identity, number in self.numbers.items() if number}
        originals = {number: self.get(number).original for number in named}
        chosen = list(waiting)
        deleted = set()
        while waiting:
            number = waiting.pop()
            if number and number not in deleted:
                deleted.add(number)
                waiting += [other for other, original in originals.items() if original == number]
        assert self.store.delete(chosen) == len(deleted)
        self.left = self.left or bool(deleted)
        for number in deleted:
            assert not self.store.get_documents([number])
            del self.oracle.pages[named[number]], self.numbers[named[number]]

    def expected_fingerprints(self) -> set[int]:
        return {page.fingerprint for page in self.oracle.pages.values() if not page.duplicate}

    @invariant()
    def no_fingerprint_is_lost(self) -> None:
        assert self.store.fingerprints().tolist() == sorted(self.expected_fingerprints())

    @invariant()
    def samples_are_of_their_hosts(self) -> None:
        hosts: dict[str, dict[int, bytes]] = {"site.example": {}, "other.example": {}}
        for identity, number in self.numbers.items():
            page = self.oracle.pages[identity]
            place = place_of(identity.decode(), page.fingerprint) if number else {}
            if place and place["url"] and place["sketch"] and not page.duplicate:
                digest = xxhash.xxh3_64_digest(identity, self.store.seed)
                hosts[place["url"].split("/")[2]][number] = digest
        for host, pages in hosts.items():
            found = tuple(self.store.read(methodcaller("sample", host)))
            assert pages.keys() >= set(found)
            assert len(found) <= SAMPLE
            expected = tuple(sorted(pages, key=pages.__getitem__))
            if self.left:
                assert found == tuple(number for number in expected if number in found)
            else:
                assert found == expected[:SAMPLE]

    @invariant()
    def everything_fits_together(self) -> None:
        assert self.store.check() == []

    @invariant()
    def few_are_under_a_key(self) -> None:
        """Or one of zeros, which dissolves it; each finds itself under all of its own."""
        rows = self.store.read(lambda stored: [*stored.values.scan(KEYS)])
        held = Counter(member for _, member in rows)
        found = self.store.read(
            lambda stored: {each.number: stored.keys.find(keys_of(each), 4) for each in stored}
        )
        for n, sets in found.items():
            assert [n in each for each in sets] == [True] * held[octets(n)]
        under = Counter(key for key, _ in rows)
        assert max(under.values(), default=0) <= MOST_UNDER_KEY
        assert all(under[key] == 1 for key, member in rows if member == DISSOLVED)

    @invariant()
    def states_are_those_of_the_oracle(self) -> None:
        for identity, number in self.numbers.items():
            if number:
                page, stored = self.oracle.pages[identity], self.get(number)
                state = State.DUPLICATE if page.duplicate else State.DONE
                assert (stored.facts.fingerprint, stored.state) == (page.fingerprint, state)
