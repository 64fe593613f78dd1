"""Merge stores, and copy one.

A single store goes into a new or empty one unchanged, with its numbers and states. Otherwise the
documents are judged in the order of their first times, as if they came to the target then:

* what the target has stays as it is;
* a document that is done is judged against those that are there, and may become a near-duplicate;
* a near-duplicate stays one, of what it was dropped for: nobody has its items;
* what is pending stays so, and counts for nothing where its crawl does not run;
* of two records of one page the one that was delivered counts; of two such ones, the later.

Merging is idempotent, and a merge that was killed is completed by the next one.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from scrapy_simhash._printable import plural
from scrapy_simhash._progress import show_progress
from scrapy_simhash.errors import (
    StoreError,
    StoreMismatchError,
    StoreUnavailableError,
    StoreUnusableError,
)
from scrapy_simhash.judging.documents import (
    EVERYONE,
    NOBODY,
    Document,
    Record,
    State,
    facts_of,
    note_match,
)
from scrapy_simhash.judging.judge import Matcher
from scrapy_simhash.judging.rows import OWED, Owed, key_of_lost, pack_row
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.stores.opening import open_as_it_is, open_store, show_url
from scrapy_simhash.stores.owed import read
from scrapy_simhash.tables.permutation import contains

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.pages.recipe import Recipe
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store

# As many as a crawl writes at once: this locks the target for some milliseconds.
_ROWS_PER_GROUP = 64


def open_to_fill(
    config: Config, recipe: Recipe, seed: int | None = None, *, tables: str = "", url: str = ""
) -> Store:
    """Open a store for writing, by default that of the settings; make it if it does not exist."""
    return open_store(
        url or config.store,
        config.distance_to_open,
        tables or config.tables,
        recipe,
        confirm=config.confirm,
        seed=seed,
    )


class Row(NamedTuple):
    """A document with all that is known of it."""

    number: int  # in the store it is from
    record: Record
    aliases: tuple[bytes, ...] = ()  # other identities that lead to it
    text: str | None = None
    owed: Owed | None = None  # what is noted of its drop
    original: bytes = b""  # identity of what it is a near-duplicate of


def read_rows(store: Store, numbers: Sequence[int]) -> list[Row]:
    """Read whole documents, in the order of these numbers; leaves out those that do not exist."""

    def work(stored: Documents) -> list[Row]:
        stored.prefetch_documents(numbers)
        rows = []
        for number in numbers:
            if (record := stored.get(number)) is not None:
                original = stored.get(record.original) if record.original else None
                rows.append(
                    Row(
                        number,
                        record,
                        stored.list_aliases(number),
                        stored.get_text(number),
                        _get_owed(stored, number),
                        original.identity if original else b"",
                    )
                )
        return rows

    return store.read(work)


def _get_owed(stored: Documents, number: int) -> Owed | None:
    """Get what is noted of the drop of a document, if anything is."""
    return next((owed for _, owed in read(stored, [key_of_lost(number)])), None)


def list_numbers(store: Store) -> list[int]:
    """List the numbers of all documents, ascending; reads every record."""
    return store.read(lambda stored: [number for number, _ in stored])


def merge_stores(config: Config, sources: Sequence[str], into: str) -> Iterator[dict[str, Any]]:
    """Merge all documents of some stores into another one; the sources are not changed.

    The requests that they owe come along. Walls are recognised again.

    Args:
        config: how documents are compared.
        sources: folders or URLs.
        into: folder or URL; made if it does not exist.

    Raises:
        StoreMismatchError: the stores have different recipes or seeds; nothing was changed.
        StoreUnusableError: a store cannot be opened.
        StoreUnavailableError: a write failed; the message says how much was merged, and stays.
        ValueError: `into` is one of the sources.
    """
    with ExitStack() as held:
        opened = [
            held.enter_context(open_store(name, distance=0, readonly=True)) for name in sources
        ]
        first = opened[0]
        _require_alike(opened)
        if show_url(into) in {store.url for store in opened}:
            raise ValueError(
                f"{show_url(into)} cannot be merged into itself; name another store with --into"
            )
        seed, where, tables = first.seed, first.url, config.tables
        try:
            with open_as_it_is(into) as there:
                seed, where = there.seed, there.url
        except StoreUnusableError:  # if it exists but cannot be opened, `open_to_fill` says so
            tables = first.design if tables == "auto" else tables
        for store in opened:
            _require_seed(store, seed, where)
        target = held.enter_context(
            open_to_fill(config, first.recipe, seed, tables=tables, url=into)
        )
        copied = len(opened) == 1 and _is_part_of(target, first)
        counts: Counter[str] = Counter()
        try:
            for store in opened:
                _copy_crawls(store, target)
            _take_documents(opened, target, counts, copied=copied)
            for store in opened:
                _load_missing(store, target)
                target.owed.take_over(store.owed)
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"{error}. {plural(counts.total(), 'document')} merged; run the same command again "
                "to merge the rest"
            ) from error
        yield {
            "into": target.url,
            "sources": [store.url for store in opened],
            "copied": copied,
            "documents": counts.total(),
            "done": counts["done"],
            "pending": counts["pending"],
            "near_duplicates": counts["duplicate"],
            "known": counts["known"],
        }


def _require_alike(stores: Sequence[Store]) -> None:
    first = stores[0]
    for store in stores[1:]:
        if differences := first.recipe.differences(store.recipe):
            raise StoreMismatchError(
                f"{store.url} was made with another recipe than {first.url} ({first.url} / "
                f"{store.url}): {'; '.join(differences)}. Their documents cannot be compared: "
                "crawl one of them again"
            )


def _require_seed(store: Store, seed: int, where: str) -> None:
    if store.seed != seed:
        raise StoreMismatchError(
            f"{store.url} was made with another seed than {where}, and fingerprints of different "
            "seeds cannot be compared. Start stores that you want to merge as copies of one store, "
            "even an empty one (scrapy simhash import STORE --into COPY)"
        )


def _copy_crawls(source: Store, target: Store) -> None:
    """Note the crawls of a store whose ids are not known yet."""
    crawls = source.read(lambda stored: stored.list_crawls())

    def work(stored: Documents) -> None:
        for crawl, record in crawls.items():
            if stored.get_crawl(crawl) is None:
                stored.put_crawl(crawl, record)

    target.write(work)


def _load_missing(source: Store, target: Store) -> None:
    found = source.bulk_loaded()
    missing = found[~contains(target.bulk_loaded(), found)]
    if missing.size:
        target.bulk_load(missing)


def _is_part_of(target: Store, source: Store) -> bool:
    """Whether the target is just an earlier state of the source, with the same numbers."""
    for part in _cut(list_numbers(target)):
        records = {row.number: row.record for row in read_rows(source, part)}
        if not all(
            row.number in records and _is_earlier(row.record, records[row.number])
            for row in read_rows(target, part)
        ):
            return False
    return True


def _is_earlier(before: Record, record: Record) -> bool:
    """Whether a record is an earlier state of the same page, so that a copy may take its place."""
    # It is not if the page was fetched, delivered or spared since the copy was made.
    return (
        before.identity == record.identity
        and before.time <= record.time
        and before.delivered <= record.delivered
        and before.spared <= record.spared
    )


def _take_documents(
    sources: Sequence[Store], target: Store, counts: Counter[str], *, copied: bool
) -> None:
    """Let the target take all documents, and count what became of them."""
    entries = [
        (not copied and near_duplicate, 0 if copied else time, place, number)
        for place, store in enumerate(sources)
        for number, time, near_duplicate in _list_first_times(store)
    ]
    take = _copy if copied else partial(_merge, store=target)
    with show_progress("documents") as show:
        show(0, len(entries))
        # Near-duplicates come last, when what they were dropped for is there.
        for part in _cut(sorted(entries)):
            rows = _read(sources, [entry[2:] for entry in part])
            counts.update(target.write(partial(take, rows=rows)))
            show(counts.total(), len(entries))


def _list_first_times(store: Store) -> list[tuple[int, float, bool]]:
    return store.read(
        lambda stored: [
            (number, record.first_time, record.state == State.DUPLICATE)
            for number, record in stored
        ]
    )


def _read(sources: Sequence[Store], entries: Sequence[tuple[int, int]]) -> list[Row]:
    """Read documents, each (source, number), in this order."""
    found = {
        (place, row.number): row
        for place, store in enumerate(sources)
        for row in read_rows(store, [number for source, number in entries if source == place])
    }
    return [found[entry] for entry in entries if entry in found]


def _cut(items: Sequence[Any]) -> Iterator[Any]:
    for start in range(0, len(items), _ROWS_PER_GROUP):
        yield items[start : start + _ROWS_PER_GROUP]


def _copy(stored: Documents, rows: Sequence[Row]) -> Counter[str]:
    """Write documents under their numbers, over an earlier state of the same ones."""
    stored.reserve([row.number for row in rows])
    counts: Counter[str] = Counter()
    for row in rows:
        before = stored.get(row.number)
        if before == row.record and _get_owed(stored, row.number) == row.owed:
            counts["known"] += 1
            continue
        if before is not None and not _is_earlier(before, row.record):
            raise StoreError(
                "another process wrote to the new copy of the store; end it and run this again: "
                "both are then merged in the order in which their pages were first seen"
            )
        _put(stored, row.number, before, row)
        counts[row.record.state.name.lower()] += 1
    return counts


def _merge(stored: Documents, rows: Sequence[Row], store: Store) -> Counter[str]:
    """Write documents under new numbers, judged."""
    stored.prefetch([Document(**facts_of(row.record)) for row in rows], (), store.distance)
    matcher = Matcher(stored, Rule(store.distance, store.confirm), store.engine.leases.alive)
    counts: Counter[str] = Counter()
    for row in rows:
        number = stored.find_number(row.record.identity) or 0
        own = stored.get(number) if number else None
        if own is not None and own.identity != row.record.identity:
            number, own = 0, None  # an alias of another document, until now
        if own is not None and not _is_news(own, row.record, matcher):
            if row.record.first_time < own.first_time:
                stored.put(number, replace(own, first_time=row.record.first_time))
            counts["known"] += 1
            continue
        record, owed = replace(row.record, reader=EVERYONE, earlier_readers=()), row.owed
        if own is not None:
            record.first_time = min(own.first_time, record.first_time)
        record.original = (stored.find_number(row.original) or 0) if row.original else 0
        if record.state == State.DUPLICATE:
            owed = owed and replace(owed, page=record.original)
        _put(stored, number, own, row._replace(record=record, owed=owed), matcher)
        counts[record.state.name.lower()] += 1
    return counts


def _is_news(own: Record, other: Record, matcher: Matcher) -> bool:
    """Whether a record replaces the one of the same page that is there."""
    if matcher.counts(own) and own.state == State.PENDING:
        return False  # a running crawl is at work on it
    if own.state == State.DUPLICATE and own.time == other.time:
        return False  # made one by this merge, when it ran before
    if own.delivered != other.delivered:
        return other.delivered
    return other.time > own.time


def _put(
    stored: Documents, number: int, before: Record | None, row: Row, matcher: Matcher | None = None
) -> None:
    """Write a document in the place of `before`; judge it first if it is done, and new here."""
    if before is not None:
        stored.take_out(number, before)
        if row.text is None:  # `add` leaves it as it is
            stored.drop_text(number)
    record, seen = row.record, before is not None and before.delivered
    if matcher is not None and record.state == State.DONE and not (record.spared or seen):
        # Who was first stays, whoever got it.
        match, _, _ = matcher.find_match(Document(**facts_of(record) | {"reader": NOBODY}))
        if match is not None:
            note_match(record, match)
    number = stored.add(number, record, row.text, aliases=row.aliases)
    if row.owed is not None and record.state == State.DUPLICATE:
        key = key_of_lost(number)
        stored.put_row(OWED, key, pack_row(key, row.owed))
