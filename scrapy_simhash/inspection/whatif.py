"""Find what other settings would have decided: a store in memory judges the documents again."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from scrapy_simhash._progress import track
from scrapy_simhash.config import SECONDS_A_DAY
from scrapy_simhash.judging.documents import Document, Match, StoredDocument, Version
from scrapy_simhash.judging.judge import list_readers
from scrapy_simhash.judging.rule import Rule, default_distance
from scrapy_simhash.pages.wording import pack
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.opening import open_as_it_is, open_store
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.store import Store

# Fingerprints of unrelated pages are this near in one of 50,000 pairs; four tables reach as far.
MOST_BITS = 15
_DESIGNS = ("4", "4+2", "4+3")
_CRAWL = "what-if"
_DOCUMENTS_READ = 512
_CHANGES_SHOWN = 20


class Replayed(NamedTuple):
    """A document as the store has it, and its match by the other settings, if any."""

    document: StoredDocument
    match: Match | None  # its document has its number in the store; 0 if bulk-loaded

    @property
    def was_dropped(self) -> bool:
        """Whether the store has it as a near-duplicate whose drop was not undone."""
        return self.document.state == "duplicate" and not self.document.record.spared


def choose_documents(store: Store, rule: Rule) -> tuple[list[int], int]:
    """Return the documents that can be judged again, in that order, and the number of all."""
    # Leaves out pages whose items were not delivered, with the pages dropped for them. In plain
    # simhash a crawl compares a digest of short main texts, which the store lacks. A near-duplicate
    # that was fetched again may duplicate a later document now; it then follows that document.
    stored: list[tuple[int, int, bool, bool]] = []
    store.visit(
        lambda each: stored.append(
            (
                each.document,
                each.record.original,
                each.state == "pending",
                rule.confirm is not None
                or each.facts.stub
                or each.facts.features >= rule.min_features,
            )
        )
    )
    pending = {number for number, _, is_pending, _ in stored if is_pending}
    chosen = sorted(
        (max(number, original), original > number, number)
        for number, original, _, fits in stored
        if fits and not {number, original} & pending
    )
    return [number for *_, number in chosen], len(stored)


def replay(
    store: Store,
    documents: Sequence[int],
    rule: Rule,
    scope_of: Callable[[StoredDocument], str] = attrgetter("facts.scope"),
    expire_days: float | None = None,
    *,
    across_spiders: bool = False,
) -> Iterator[Replayed]:
    """Judge documents of a store again, one after the other, in an empty store in memory.

    The decisions are those of a crawl with the rule, if all items are delivered; but plain simhash
    of a store that was not made with it goes by whole texts. The bulk-loaded fingerprints are there
    from the beginning. A document whose drop was undone passes. `documents` are the numbers that
    `choose_documents` returns; one causes no drops `expire_days` after it was last fetched.

    Raises:
        ValueError: the distance is out of range.

    Cost: .2 to .3 milliseconds a document within 7 bits, up to 5 beyond. 3 kB a kept document.
    """
    _check_distance(rule.distance)
    tables = next(name for name in _DESIGNS if parse_design(name).reach_bits >= rule.distance)
    lifetime = inf if expire_days is None else expire_days * SECONDS_A_DAY
    numbers = {0: 0}
    with open_store(
        "memory:", rule.distance, tables, store.recipe, confirm=rule.confirm, seed=store.seed
    ) as kept:
        kept.bulk_load(store.bulk_loaded())
        kept.start_crawl(_CRAWL, "")
        parts = map(store.get_documents, cut(documents, _DOCUMENTS_READ))
        for stored in chain.from_iterable(parts):
            scope = scope_of(stored)
            facts = structs.replace(stored.facts, link_sketch=b"", scope=scope)
            wording = b"" if stored.wording is None else pack(stored.wording)
            document = Document(
                facts,
                crawl=_CRAWL,
                wording=wording,
                not_before=stored.facts.time - lifetime,
                across_spiders=across_spiders,
            )
            (verdict,) = kept.find_and_add([document])
            numbers.setdefault(verdict.document, stored.document)
            if stored.record.spared and verdict.match is not None:
                kept.spare([verdict.document])
                (verdict,) = kept.find_and_add([document])
            readers = list_readers(stored.record)
            if len(readers) > 1:
                digest, number = stored.facts.text_digest, verdict.document
                kept.mark_done([Version(number, digest, each) for each in readers], _CRAWL)
            match = None if verdict.reason else verdict.match
            yield Replayed(stored, match and replace(match, document=numbers[match.document]))


def _check_distance(distance: int) -> None:
    if not 0 <= distance <= MOST_BITS:
        raise ValueError(f"distance {distance}: must be 0 to {MOST_BITS} bits")


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
    from scrapy_simhash.detector.scopes import SCOPES  # noqa: PLC0415 - loads tldextract

    rule = _make_rule(config, distance, confirm)
    _check_distance(rule.distance)  # before reading the store

    def scope_of(document: StoredDocument) -> str:
        page: Any = None  # these three scopes need only the URL
        return SCOPES[scope](document.facts.url, page) if scope else document.facts.scope

    with open_as_it_is(config.store) as store:
        documents, total = choose_documents(store, rule)
        if not total:
            return
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
        "left_out": total - len(documents),
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
    """Compare decisions with those of the store; `get` returns its documents by number."""
    counts = dict.fromkeys(
        ("dropped_before", "dropped_then", "kept_to_dropped", "dropped_to_kept", "other_original"),
        0,
    )
    changes = []
    for each in judged:
        document, match = each
        counts["dropped_before"] += each.was_dropped
        counts["dropped_then"] += match is not None
        if (match is not None) == each.was_dropped:
            counts["other_original"] += bool(match and match.document != document.record.original)
            continue
        original = None if match else get(document.record.original)
        decided = match or document.record
        counts["kept_to_dropped" if match else "dropped_to_kept"] += 1
        changes.append(
            {
                "url": document.facts.url,
                "change": "kept -> dropped" if match else "dropped -> kept",
                "match_url": match.url if match else original.facts.url if original else None,
                "distance": decided.distance,
                "similarity": decided.similarity,
                "own_words": list(match.own_words) if match else [],
                "match_own_words": list(match.match_own_words) if match else [],
            }
        )
    return {**counts, "changes": changes}
