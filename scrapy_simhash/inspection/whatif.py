"""Find what other settings would have decided: the judge of a store, on its documents in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np

from scrapy_simhash._progress import track
from scrapy_simhash.batch.joins import batch_query, find_all
from scrapy_simhash.config import SECONDS_A_DAY
from scrapy_simhash.errors import InspectionError
from scrapy_simhash.judging import Document, Match, Rule, StoredDocument
from scrapy_simhash.judging.documents import Record, State, facts_of, look_at
from scrapy_simhash.judging.judge import Judge
from scrapy_simhash.judging.rule import default_distance
from scrapy_simhash.stores import open_as_it_is
from scrapy_simhash.tables.probing import Probe
from scrapy_simhash.tables.sets import sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.stores import Store


_DUPLICATE, _PENDING = "duplicate", "pending"
# Fingerprints of unrelated pages are this near in one of 50,000 pairs.
MOST_BITS = 15
# The most pairs to join at once; each takes 80 bytes.
_MOST_PAIRS = 4_000_000
# A sample of this size misses a crowd with a fiftieth of all fingerprints once in 170 times.
_SAMPLES = 256


# Of a few kilobytes each.
_DOCUMENTS_READ, _DOCUMENTS_KEPT = 512, 4_096


class Outline(NamedTuple):
    """What chooses a document for a replay."""

    document: int
    state: str
    original: int
    stub: bool
    features: int


_get_outline = attrgetter(*Outline._fields)
_Listed = TypeVar("_Listed", StoredDocument, Outline)


class StoredPages(Sequence[StoredDocument]):
    """Documents of a store, in some order, read when they are needed."""

    def __init__(self, store: Store, numbers: Sequence[int]) -> None:
        self._store = store
        self._numbers = numbers
        self._read_one = lru_cache(_DOCUMENTS_KEPT)(lambda place: self._read([place])[0])

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> StoredDocument: ...
    @overload
    def __getitem__(self, place: slice) -> list[StoredDocument]: ...
    def __getitem__(self, place: int | slice) -> StoredDocument | list[StoredDocument]:
        if isinstance(place, slice):
            return self._read(range(len(self))[place])
        return self._read_one(range(len(self))[place])

    def __iter__(self) -> Iterator[StoredDocument]:
        for start in range(0, len(self), _DOCUMENTS_READ):
            yield from self[start : start + _DOCUMENTS_READ]

    def _read(self, places: Sequence[int]) -> list[StoredDocument]:
        found = self._store.get_documents([self._numbers[place] for place in places])
        if len(found) < len(places):
            raise InspectionError("documents were deleted from the store meanwhile; try again")
        return found


class Replayed(NamedTuple):
    """A document as the store has it, and its match by the other settings, if any."""

    document: StoredDocument
    match: Match | None  # its document has its number in the store; 0 if bulk-loaded

    @property
    def was_dropped(self) -> bool:
        """Whether the store has it as a near-duplicate whose drop was not undone."""
        return self.document.state == _DUPLICATE and not self.document.spared


def choose_documents(stored: Sequence[_Listed], rule: Rule) -> list[_Listed]:
    """Choose the documents of a store that can be judged again, in the order of their judgement."""
    # Leaves out pages whose items were not delivered, with the pages dropped for them. In plain
    # simhash a crawl compares a digest of short main texts, which the store lacks. A near-duplicate
    # that was fetched again may duplicate a later document now; it then follows that document.
    pending = {each.document for each in stored if each.state == _PENDING}
    chosen = [
        each
        for each in stored
        if each.state != _PENDING
        and each.original not in pending
        and (rule.confirm is not None or each.stub or each.features >= rule.min_features)
    ]
    return sorted(
        chosen,
        key=lambda each: (
            max(each.document, each.original),
            each.original > each.document,
            each.document,
        ),
    )


def replay(
    documents: Sequence[StoredDocument],
    bulk_loaded: NDArray[np.uint64],
    rule: Rule,
    scopes: Iterable[str] | None = None,
    expire_days: float | None = None,
) -> Iterator[Replayed]:
    """Judge documents one after the other, starting with an empty store.

    The decisions are those of `Store.find_and_add` for a store that had the bulk-loaded
    fingerprints from the beginning, if all items are delivered; but a store skips buckets with
    more than 16,384 fingerprints. A document whose drop was undone passes.

    Args:
        documents: see `choose_documents`.
        bulk_loaded: bulk-loaded fingerprints, shape (n,).
        rule: the settings to try.
        scopes: a scope for each document; None for their own.
        expire_days: a document causes no drops so many days after it was last fetched.

    Yields:
        Each document, judged.

    Raises:
        ValueError: the distance is out of range.

    Cost: some 0.1 milliseconds a document, more if it has candidates. The documents are gone
    through twice, and the kept ones looked up when they are candidates.
    """
    kept = _Kept(documents, bulk_loaded, rule)
    lifetime = inf if expire_days is None else expire_days * SECONDS_A_DAY
    judge = Judge(kept, rule, lambda _: True)
    names = (each.scope for each in documents) if scopes is None else scopes
    for number, (stored, scope) in enumerate(zip(documents, names, strict=True), 1):
        document = Document(**_judged_facts(stored, rule, scope), not_before=stored.time - lifetime)
        match = None if stored.spared else judge.judge(document).match
        if match is None:
            kept.keep(number, document)
        elif match.document:
            match = replace(match, document=documents[match.document - 1].document)
        yield Replayed(stored, match)


def _judged_facts(stored: StoredDocument, rule: Rule, scope: str) -> dict[str, Any]:
    facts = facts_of(stored) | {"fingerprints": look_at(stored, rule), "scope": scope}
    return facts | {"identity": b"-", "link_sketch": b""}


class _Kept:
    """The documents kept so far, for a judge to read, see `interface.Reading`."""

    def __init__(
        self, documents: Sequence[StoredDocument], bulk_loaded: NDArray[np.uint64], rule: Rule
    ) -> None:
        self._documents, self._rule, distance = documents, rule, rule.distance
        self._scopes: dict[int, str] = {}
        self._make = lru_cache(_DOCUMENTS_KEPT)(self._make_record)
        self._numbers: dict[tuple[int, str], list[int]] = defaultdict(list)
        asked = np.fromiter((bits for each in documents for bits in each.fingerprints), np.uint64)
        self._index = NearIndex(asked, distance)
        self._bulk_loaded: dict[int, list[tuple[int, int]]] = defaultdict(list)
        rows = batch_query(asked, [bulk_loaded], distance)
        for query, found, bits in rows.tolist():
            self._bulk_loaded[query].append((bits, found))
        self._known = set(rows[:, 1].tolist())

    def keep(self, number: int, document: Document) -> None:
        self._scopes[number] = document.scope
        for fingerprint in document.fingerprints:
            self._index.add(fingerprint)
            self._numbers[fingerprint, document.scope].append(number)

    def find_number(self, identity: bytes) -> int | None:
        del identity  # each document is judged once
        return None

    def get(self, number: int) -> Record | None:
        return self._make(number) if number in self._scopes else None

    def _make_record(self, number: int) -> Record:
        facts = _judged_facts(self._documents[number - 1], self._rule, self._scopes[number])
        return Record(**facts, state=State.DONE, delivered=True, crawl="", first_time=0.0)

    def near(
        self, fingerprint: int, distance: int, most: int | None = None, *, bounded: bool = False
    ) -> Probe:
        del bounded
        found = self._index.find_near(fingerprint, distance)
        if imported := self._bulk_loaded.get(fingerprint):
            found = sorted({*found, *(each for each in imported if each[0] <= distance)})
        return Probe(found[:most], distance)

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        assert scope is not None  # noqa: S101 - a judge has one
        numbers = [0] if fingerprint in self._known else []
        return (numbers + self._numbers.get((fingerprint, scope), []))[:most]

    def get_row(self, table: str, key: bytes) -> bytes | None:
        del table, key  # what judging learns beside its verdicts
        return None


def check_near_distance(distance: int) -> None:
    """Raise a ValueError if a distance is out of range."""
    if not 0 <= distance <= MOST_BITS:
        raise ValueError(f"distance {distance}: must be 0 to {MOST_BITS} bits")


class NearIndex:
    """An index of fingerprints, empty at first; only those given here can be added or looked up.

    >>> index = NearIndex(np.array([1, 5, 7], np.uint64), 1)
    >>> for each in (1, 7, 5): index.add(each)
    >>> index.find_near(5, 1)
    [(0, 5), (1, 1), (1, 7)]

    `distance` is the largest one of any query, 0 to 15 bits.
    """

    # All possible queries are known in advance. So all pairs are joined at once, in a second for
    # 200,000 fingerprints. Only if large crowds are near each other, and their pairs would fill the
    # memory, each query is compared with all fingerprints.
    def __init__(self, fingerprints: NDArray[np.uint64], distance: int) -> None:
        check_near_distance(distance)
        self._held: set[int] = set()
        self._all = sort_distinct(fingerprints)
        self._rows: dict[int, tuple[int, int]] | None = None
        if _expect_pairs(self._all, distance) <= _MOST_PAIRS:
            pairs = find_all(self._all, distance)
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
            pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
            first, starts = np.unique(pairs[:, 0], return_index=True)
            rows = pairwise([*starts.tolist(), len(pairs)])
            self._rows = dict(zip(first.tolist(), rows, strict=True))
            self._neighbours = pairs[:, 1]

    def add(self, fingerprint: int) -> None:
        """Add a fingerprint, unless it is there already."""
        self._held.add(fingerprint)

    def find_near(self, fingerprint: int, distance: int) -> list[tuple[int, int]]:
        """List the added fingerprints within a distance: (distance, fingerprint), ascending."""
        if self._rows is None:
            bits = np.bitwise_count(self._all ^ np.uint64(fingerprint))
            near = self._all[bits <= distance].tolist()
        else:
            start, end = self._rows.get(fingerprint, (0, 0))
            near = [fingerprint, *self._neighbours[start:end].tolist()]
        found = [((each ^ fingerprint).bit_count(), each) for each in near if each in self._held]
        return sorted(each for each in found if each[0] <= distance)


def _expect_pairs(distinct: NDArray[np.uint64], distance: int) -> float:
    samples = distinct[:: max(1, distinct.size // _SAMPLES)]
    near = sum(np.count_nonzero(np.bitwise_count(distinct ^ one) <= distance) for one in samples)
    return float(near) / max(1, samples.size) * distinct.size / 2


KEPT_TO_DROPPED, DROPPED_TO_KEPT = "kept -> dropped", "dropped -> kept"
_CHANGES_SHOWN = 20


def what_if(
    config: Config,
    distance: int | None,
    confirm: float | str | None,
    scope: str | None,
    top: int | None,
    *,
    json: bool,
) -> Iterator[dict[str, Any]]:
    """Find the decisions that other settings would change: `scrapy simhash evaluate`."""
    # None stands for the current setting, or for the scopes in which pages were judged; `confirm`
    # is 0 to 1, or "none" for plain simhash. Lists `top` changes, by default 20, with `json` all.
    from scrapy_simhash.pages.scopes import SCOPES  # noqa: PLC0415 - loads tldextract

    rule = _make_rule(config, distance, confirm)
    check_near_distance(rule.distance)  # before reading the store
    with open_as_it_is(config.store) as store:
        stored: list[Outline] = []
        store.visit(lambda each: stored.append(Outline(*_get_outline(each))))
        if not stored:
            return
        documents = StoredPages(store, [each.document for each in choose_documents(stored, rule)])
        page: Any = None  # these three scopes need only the URL
        scopes = (SCOPES[scope](each.url, page) for each in documents) if scope else None
        judged = replay(documents, store.bulk_loaded(), rule, scopes, config.expire_days)
        answer = count_changes(track(judged, "pages", len(documents)), store.get_document)
    changes = answer.pop("changes")
    most = top if top is not None else None if json else _CHANGES_SHOWN
    yield {
        "distance": rule.distance,
        "confirm": rule.confirm,
        "scope": scope,
        "documents": len(documents),
        "left_out": len(stored) - len(documents),
        **answer,
        "changes": changes[:most],
    }


def _make_rule(config: Config, distance: int | None, confirm: float | str | None) -> Rule:
    if confirm is None:
        return Rule(config.distance if distance is None else distance, config.confirm)
    similarity = None if isinstance(confirm, str) else confirm
    if distance is None:
        same_kind = (similarity is None) == (config.confirm is None)
        distance = config.distance if same_kind else default_distance(similarity)
    return Rule(distance, similarity)


def count_changes(
    judged: Iterable[Replayed], get: Callable[[int], StoredDocument | None]
) -> dict[str, Any]:
    """Compare decisions with those of the store; `get` gets its documents by number."""
    before = then = other = 0
    changes = []
    for each in judged:
        document, match = each
        before += each.was_dropped
        then += match is not None
        if match is not None and each.was_dropped:
            other += match.document != document.original
        elif match is not None or each.was_dropped:
            original = get(document.original) if match is None else match
            decided = document if match is None else match
            changes.append(
                {
                    "url": document.url,
                    "change": DROPPED_TO_KEPT if match is None else KEPT_TO_DROPPED,
                    "match_url": original.url if original else None,
                    "distance": decided.distance,
                    "similarity": decided.similarity,
                }
            )
    return {
        "dropped_before": before,
        "dropped_then": then,
        "kept_to_dropped": sum(each["change"] == KEPT_TO_DROPPED for each in changes),
        "dropped_to_kept": sum(each["change"] == DROPPED_TO_KEPT for each in changes),
        "other_original": other,
        "changes": changes,
    }
