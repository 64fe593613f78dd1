"""The command merge: stores crawled apart become one, and a store moves to one of another kind."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.jointables import contains
from scrapy_simhash.merging import is_earlier
from scrapy_simhash.progress import show_progress
from scrapy_simhash.store_urls import show_url
from scrapy_simhash.stores import (
    StoreMismatchError,
    StoreUnavailableError,
    StoreUnusableError,
    open_store,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.store_transfer import Challenges, Row
    from scrapy_simhash.stores import Store

# As many as a crawl writes at once: the target is held for some milliseconds.
_ROWS_PER_GROUP = 64


class _Entry(NamedTuple):
    """A document of a source; in the order in which originals are taken over."""

    first_time: float
    source: int
    number: int


def merge_stores(config: Config, sources: Sequence[str], into: str) -> Iterator[dict[str, Any]]:
    """Take over all documents of some stores into another one; these are not changed.

    Into a new or empty store one source is copied as it is, with seed, numbers and states. Else
    who was first decides, see `merging`. Killed at any moment, the same again completes it.

    Args:
        config: the settings in force, for how documents are compared.
        sources: folders or URLs.
        into: folder or URL; made where there is none.

    Raises:
        StoreMismatchError: they have different seeds or recipes; nothing was changed.
        StoreUnusableError: one of them cannot be opened.
        StoreUnavailableError: the store cannot be written; what was taken over stays, and is told.
        ValueError: a store is to be merged into itself.
    """
    with ExitStack() as held:
        opened = [
            held.enter_context(open_store(name, distance=0, readonly=True)) for name in sources
        ]
        _require_alike(opened)
        if show_url(into) in {store.url for store in opened}:
            raise ValueError(
                f"{show_url(into)} cannot be merged into itself; name another store with --into"
            )
        target = held.enter_context(_open_target(config, into, opened[0]))
        with _saying_how_far() as show:
            for store in opened:
                target.copy_crawls(store.list_crawls())
                _load_missing(store.bulk_loaded(), target)
            copying = len(opened) == 1 and _is_part_of(target, opened[0])
            counts = _copy(opened[0], target, show) if copying else _merge(opened, target, show)
        yield {
            "into": target.url,
            "sources": [store.url for store in opened],
            "copied": copying,
            "documents": sum(counts[kind] for kind in ("done", "pending", "duplicate", "known")),
            "done": counts["done"],
            "pending": counts["pending"],
            "near_duplicates": counts["duplicate"],
            "known": counts["known"],
            "became_near_duplicates": counts["became_near_duplicates"],
        }


def _require_alike(stores: Sequence[Store]) -> None:
    first = stores[0]
    for store in stores[1:]:
        if differences := first.recipe.differences(store.recipe):
            raise StoreMismatchError(
                f"{store.url} was made with another recipe than {first.url} ({first.url} / "
                f"{store.url}): {'; '.join(differences)}. What they hold cannot be compared: crawl "
                "one of them again"
            )
        if store.seed != first.seed:
            raise StoreMismatchError(
                f"{store.url} was made with another seed than {first.url}: fingerprints of "
                "different seeds cannot be compared. Stores that are to be merged begin as copies "
                "of one, an empty one for instance (scrapy simhash merge STORE --into COPY)"
            )


def _open_target(config: Config, into: str, source: Store) -> Store:
    """Open the store, or make one with the seed, recipe and design of a source."""
    try:
        open_store(into, distance=0, readonly=True).close()
        tables = config.tables
    except StoreUnusableError:  # or it cannot be opened, as is said below
        tables = source.design if config.tables == "auto" else config.tables
    return open_store(
        into,
        config.distance_to_open,
        tables,
        source.recipe,
        confirm=config.confirm,
        seed=source.seed,
    )


@contextmanager
def _saying_how_far() -> Iterator[Callable[[int, int], None]]:
    """Show how many documents of how many are taken over, and say it where a store fails."""
    done = total = 0
    with show_progress("documents") as show:

        def count(now: int, of: int) -> None:
            nonlocal done, total
            done, total = now, of
            show(now, of)

        try:
            yield count
        except StoreUnavailableError as error:
            taken = f"{done:,} of {total:,} documents" if total else "no documents yet"
            raise StoreUnavailableError(
                f"{error}. Taken over were {taken}; run the same again: it goes on there"
            ) from error


def _load_missing(fingerprints: NDArray[np.uint64], target: Store) -> None:
    """Bulk-load what is not there, or only noted: by one that was killed before its tables."""
    known = target.bulk_loaded()
    known = known[contains(target.fingerprints(), known)]
    missing = fingerprints[~contains(known, fingerprints)]
    if missing.size:
        target.bulk_load(missing)


def _is_part_of(target: Store, source: Store) -> bool:
    """Say whether one store has nothing but an earlier state of the other, by the same numbers."""
    for part in _cut([number for number, _, _ in target.list_first_times()]):
        records = {row.number: row.record for row in source.read_rows(part)}
        if not all(
            row.number in records and is_earlier(row.record, records[row.number])
            for row in target.read_rows(part)
        ):
            return False
    return True


def _copy(source: Store, target: Store, show: Callable[[int, int], object]) -> Counter[str]:
    counts: Counter[str] = Counter()
    numbers = [number for number, _, _ in source.list_first_times()]
    done = 0
    show(done, len(numbers))
    for part in _cut(numbers):
        counts.update(target.copy_rows(source.read_rows(part)).counts)
        done += len(part)
        show(done, len(numbers))
    return counts


def _merge(
    sources: Sequence[Store], target: Store, show: Callable[[int, int], object]
) -> Counter[str]:
    originals: list[_Entry] = []
    near_duplicates: list[_Entry] = []
    for place, store in enumerate(sources):
        for number, first_time, is_near_duplicate in store.list_first_times():
            entries = near_duplicates if is_near_duplicate else originals
            entries.append(_Entry(first_time, place, number))
    total, done = len(originals) + len(near_duplicates), 0
    show(done, total)
    counts: Counter[str] = Counter()
    challenges: Challenges = ()

    def was_original(place: int, identity: bytes) -> bool:
        return sources[place].has_original(identity)

    for entries in (originals, near_duplicates):
        for part in _cut(sorted(entries)):
            rows = list(_read(sources, part))
            taken = target.merge_rows(rows, was_original, challenges)
            counts.update(taken.counts)
            challenges = taken.challenges
            done += len(part)
            show(done, total)
        taken = target.merge_rows([], was_original, challenges, last=True)
        counts.update(taken.counts)
        challenges = ()
    return counts


def _read(sources: Sequence[Store], entries: Sequence[_Entry]) -> Iterable[Row]:
    """Read documents of several stores, in the order given."""
    found = {
        (place, row.number): row._replace(source=place)
        for place, store in enumerate(sources)
        for row in store.read_rows([each.number for each in entries if each.source == place])
    }
    return (found[key] for each in entries if (key := (each.source, each.number)) in found)


def _cut(items: Sequence[Any]) -> Iterator[Any]:
    for start in range(0, len(items), _ROWS_PER_GROUP):
        yield items[start : start + _ROWS_PER_GROUP]
