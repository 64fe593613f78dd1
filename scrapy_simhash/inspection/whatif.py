"""Find what other settings would have decided: a store in memory judges the documents again."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash._progress import track
from scrapy_simhash.config import SECONDS_A_DAY
from scrapy_simhash.errors import InspectionError
from scrapy_simhash.judging.documents import (
    Document,
    Match,
    StoredDocument,
    Version,
    facts_of,
    look_at,
)
from scrapy_simhash.judging.rule import Rule, default_distance
from scrapy_simhash.stores.opening import open_as_it_is, open_store
from scrapy_simhash.tables.designs import parse_design
from scrapy_simhash.tables.probing import MOST_IN_BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.store import Store


_DUPLICATE, _PENDING = "duplicate", "pending"
# Fingerprints of unrelated pages are this near in one of 50,000 pairs; four tables reach as far.
MOST_BITS = 15
_DESIGNS = ("4", "4+2", "4+3")
# Beyond 7 bits the last two probe 548 and 2,788 short buckets, this one 72 long ones: a seventh of
# the time (8,000 pages, 12 bits). Only where no bucket can have more rows than a probe reads.
_DESIGN_OF_FEW = "8:7"
_CRAWL = "what-if"
_DOCUMENTS_READ = 512


class Outline(NamedTuple):
    """What chooses a document for a replay."""

    document: int
    state: str
    original: int
    stub: bool
    features: int


_get_outline = attrgetter(*Outline._fields)


class Replayed(NamedTuple):
    """A document as the store has it, and its match by the other settings, if any."""

    document: StoredDocument
    match: Match | None  # its document has its number in the store; 0 if bulk-loaded

    @property
    def was_dropped(self) -> bool:
        """Whether the store has it as a near-duplicate whose drop was not undone."""
        return self.document.state == _DUPLICATE and not self.document.spared


def choose_documents(stored: Sequence[Outline], rule: Rule) -> list[int]:
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
    chosen.sort(
        key=lambda each: (
            max(each.document, each.original),
            each.original > each.document,
            each.document,
        ),
    )
    return [each.document for each in chosen]


def replay(
    store: Store,
    documents: Sequence[int],
    rule: Rule,
    scope_of: Callable[[StoredDocument], str] = attrgetter("scope"),
    expire_days: float | None = None,
    *,
    across_spiders: bool = False,
) -> Iterator[Replayed]:
    """Judge documents of a store again, one after the other, in an empty store in memory.

    The decisions are those of a crawl with the rule, if all items are delivered. The bulk-loaded
    fingerprints are there from the beginning. A document whose drop was undone passes.

    Args:
        store: with the documents; it is not changed.
        documents: their numbers, see `choose_documents`.
        rule: the settings to try.
        scope_of: gets the scope of a document.
        expire_days: a document causes no drops so many days after it was last fetched.
        across_spiders: pages of all spiders cause drops.

    Yields:
        Each document, judged.

    Raises:
        ValueError: the distance is out of range.
        InspectionError: a document was deleted meanwhile.

    Cost: .2 to .3 milliseconds a document within 7 bits; beyond, .4 to .6, or some 4 in stores of
    more than 16,384 fingerprints. 3 kB a document that is kept.
    """
    check_replay_distance(rule.distance)
    bulk_loaded = store.bulk_loaded()
    tables = next(name for name in _DESIGNS if parse_design(name).reach_bits >= rule.distance)
    if tables != _DESIGNS[0] and max(bulk_loaded.size, len(documents)) <= MOST_IN_BUCKET:
        made = sum(len(each.fingerprints) for each in _read(store, documents))
        tables = _DESIGN_OF_FEW if bulk_loaded.size + made <= MOST_IN_BUCKET else tables
    lifetime = inf if expire_days is None else expire_days * SECONDS_A_DAY
    numbers = {0: 0}
    with open_store(
        "memory:", rule.distance, tables, store.recipe, confirm=rule.confirm, seed=store.seed
    ) as kept:
        kept.bulk_load(bulk_loaded)
        kept.start_crawl(_CRAWL, "")
        for stored in _read(store, documents):
            facts = facts_of(stored) | {"fingerprints": look_at(stored, rule), "link_sketch": b""}
            document = Document(
                **facts | {"scope": scope_of(stored)},
                crawl=_CRAWL,
                not_before=stored.time - lifetime,
                across_spiders=across_spiders,
            )
            (verdict,) = kept.find_and_add([document])
            numbers.setdefault(verdict.document, stored.document)
            if stored.spared and verdict.match is not None:
                kept.spare([verdict.document])
                (verdict,) = kept.find_and_add([document])
            if len(stored.readers) > 1:
                digest, number = stored.text_digest, verdict.document
                kept.mark_done([Version(number, digest, each) for each in stored.readers], _CRAWL)
            match = None if verdict.reason else verdict.match
            yield Replayed(stored, match and replace(match, document=numbers[match.document]))


def _read(store: Store, documents: Sequence[int]) -> Iterator[StoredDocument]:
    for start in range(0, len(documents), _DOCUMENTS_READ):
        part = documents[start : start + _DOCUMENTS_READ]
        found = store.get_documents(part)
        if len(found) < len(part):
            raise InspectionError("documents were deleted from the store meanwhile; try again")
        yield from found


def check_replay_distance(distance: int) -> None:
    """Raise a ValueError if a distance is out of range."""
    if not 0 <= distance <= MOST_BITS:
        raise ValueError(f"distance {distance}: must be 0 to {MOST_BITS} bits")


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
    check_replay_distance(rule.distance)  # before reading the store

    def scope_of(document: StoredDocument) -> str:
        page: Any = None  # these three scopes need only the URL
        return SCOPES[scope](document.url, page) if scope else document.scope

    with open_as_it_is(config.store) as store:
        stored: list[Outline] = []
        store.visit(lambda each: stored.append(Outline(*_get_outline(each))))
        if not stored:
            return
        documents = choose_documents(stored, rule)
        across = config.across_spiders
        judged = replay(store, documents, rule, scope_of, config.expire_days, across_spiders=across)
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
