"""Exchange data between stores: the commands `export` and `import`, of stores and archives."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from scrapy_simhash._progress import show_busy, show_progress
from scrapy_simhash.errors import (
    ArchiveError,
    PartlyFailedError,
    StoreDamagedError,
    StoreMismatchError,
    StoreUnavailableError,
    StoreUnusableError,
)
from scrapy_simhash.judging.merging import Challenges, Row, is_earlier
from scrapy_simhash.pages import make_recipe
from scrapy_simhash.stores import open_as_it_is, open_store
from scrapy_simhash.stores.urls import show_url
from scrapy_simhash.tables.sets import contains
from scrapy_simhash.transfer.reseeding import Reseeder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.pages import Recipe
    from scrapy_simhash.stores import Store


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


# As many as a crawl writes at once: this locks the target for some milliseconds.
_ROWS_PER_GROUP = 64


def merge_stores(config: Config, sources: Sequence[str], into: str) -> Iterator[dict[str, Any]]:
    """Merge all documents of some stores into another one; the sources are not changed.

    A single source is copied unchanged into a new or empty store, with seed, numbers and states.
    Otherwise, of near-duplicates the document that was seen first becomes the original. Documents
    of another seed get new fingerprints, if their texts allow it (see `reseeding`), which takes
    2 ms for each. URL rules, parked requests and lost links come along, see
    `Store.merge_url_rows`. If a merge is killed, run it again to complete it.

    Args:
        config: how documents are compared.
        sources: folders or URLs.
        into: folder or URL; made if it does not exist.

    Raises:
        StoreMismatchError: the stores have different recipes, or different seeds and no texts for
            new fingerprints; nothing was changed.
        StoreUnusableError: a store cannot be opened.
        StoreUnavailableError: a write failed; the message says how much was merged, and stays.
        ValueError: `into` is one of the sources.
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
        seed, where = _find_seed(into, opened[0])
        others = {
            place: _make_reseeder(config, store, seed, where)
            for place, store in enumerate(opened)
            if store.seed != seed
        }
        target = held.enter_context(_open_target(config, into, opened[0], seed))
        with _saying_how_far() as show:
            for place, store in enumerate(opened):
                target.copy_crawls(store.list_crawls())
                if place not in others:
                    _load_missing(store.bulk_loaded(), target)
            copying = len(opened) == 1 and not others and _is_part_of(target, opened[0])
            counts = (
                _copy(opened[0], target, show) if copying else _merge(opened, others, target, show)
            )
            take_rows = target.copy_url_rows if copying else target.merge_url_rows
            for store in opened:
                take_rows(store.read_url_rows())
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
            "reseeded": [opened[place].url for place in others],
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


def _find_seed(into: str, source: Store) -> tuple[int, str]:
    """Find the seed that the target has, or will have, and the store it is from."""
    try:
        with open_as_it_is(into) as target:
            return target.seed, target.url
    except StoreUnusableError:  # if it exists but cannot be opened, `_open_target` says so
        return source.seed, source.url


def _make_reseeder(config: Config, store: Store, seed: int, where: str) -> Reseeder:
    """Make what gives the documents of a store the fingerprints of another seed."""
    reseeder = Reseeder(store, seed)
    numbers = [number for number, _, _ in store.list_first_times()]
    with show_progress("texts") as show:
        read = accumulate(map(len, _cut(numbers)))
        obstacle = reseeder.find_obstacle(
            config.rule, _cut(numbers), lambda: show(next(read), len(numbers))
        )
    if obstacle:
        raise StoreMismatchError(
            f"{store.url} was made with another seed than {where}, and fingerprints of different "
            "seeds cannot be compared. New ones can only be made in plain simhash, from texts that "
            f"SIMHASH_KEEP_TEXT kept, but {obstacle}. Start stores that you want to merge as "
            "copies of one store, even an empty one (scrapy simhash import STORE --into COPY)"
        )
    return reseeder


def _open_target(config: Config, into: str, source: Store, seed: int) -> Store:
    """Open the target, or make it with this seed, and recipe and design of a source."""
    try:
        open_as_it_is(into).close()
        tables = config.tables
    except StoreUnusableError:  # if it exists but cannot be opened, the next call says so
        tables = source.design if config.tables == "auto" else config.tables
    return open_to_fill(config, source.recipe, seed, tables=tables, url=into)


@contextmanager
def _saying_how_far() -> Iterator[Callable[[int, int], None]]:
    """Show how many documents are merged; add that to the error if a store fails."""
    done = total = 0
    with show_progress("documents") as show:

        def count(now: int, of: int) -> None:
            nonlocal done, total
            done, total = now, of
            show(now, of)

        try:
            yield count
        except StoreUnavailableError as error:
            merged = f"{done:,} of {total:,} documents were" if total else "No document was"
            raise StoreUnavailableError(
                f"{error}. {merged} merged; run the same command again to merge the rest"
            ) from error


def _load_missing(fingerprints: NDArray[np.uint64], target: Store) -> None:
    """Bulk-load missing fingerprints, including those that a killed merge only noted."""
    known = target.bulk_loaded()
    known = known[contains(target.fingerprints(), known)]
    missing = fingerprints[~contains(known, fingerprints)]
    if missing.size:
        target.bulk_load(missing)


def _is_part_of(target: Store, source: Store) -> bool:
    """Whether the target is just an earlier state of the source, with the same numbers."""
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
    sources: Sequence[Store],
    others: Mapping[int, Reseeder],
    target: Store,
    show: Callable[[int, int], object],
) -> Counter[str]:
    # `others` are the sources with another seed, by their indexes.
    # (First time, index of the source, number): documents are merged in this order.
    originals: list[tuple[float, int, int]] = []
    near_duplicates: list[tuple[float, int, int]] = []
    for place, store in enumerate(sources):
        for number, first_time, is_near_duplicate in store.list_first_times():
            entries = near_duplicates if is_near_duplicate else originals
            entries.append((first_time, place, number))
    total, done = len(originals) + len(near_duplicates), 0
    show(done, total)
    counts: Counter[str] = Counter()
    challenges: Challenges = ()

    def was_original(place: int, identity: bytes) -> bool:
        return sources[place].has_original(identity)

    for entries in (originals, near_duplicates):
        for part in _cut(sorted(entries)):
            rows = [
                others[row.source].reseed(row) if row.source in others else row
                for row in _read(sources, part)
            ]
            taken = target.merge_rows(rows, was_original, challenges)
            counts.update(taken.counts)
            challenges = taken.challenges
            done += len(part)
            show(done, total)
        taken = target.merge_rows([], was_original, challenges, last=True)
        counts.update(taken.counts)
        challenges = ()
    return counts


def _read(sources: Sequence[Store], entries: Sequence[tuple[float, int, int]]) -> Iterable[Row]:
    """Read documents of several stores, in the order given."""
    found = {
        (place, row.number): row._replace(source=place)
        for place, store in enumerate(sources)
        for row in store.read_rows([number for _, source, number in entries if source == place])
    }
    return (found[key] for _, *each in entries if (key := tuple(each)) in found)


def _cut(items: Sequence[Any]) -> Iterator[Any]:
    for start in range(0, len(items), _ROWS_PER_GROUP):
        yield items[start : start + _ROWS_PER_GROUP]


_PROBLEMS_SHOWN = 3


class FingerprintArchive(Protocol):
    """What is read of an archive, see `batch.archive.Archive`."""

    count: int
    seed: int
    recipe: Recipe | None

    def verify(self) -> list[str]:
        """Verify all checksums; returns what is wrong."""

    def read_all(self) -> NDArray[np.uint64]:
        """Read all fingerprints, sorted; shape (n,)."""


OpenArchive: TypeAlias = "Callable[[Path], AbstractContextManager[FingerprintArchive]]"


def import_archive(
    config: Config, archive_path: Path, open_archive: OpenArchive, *, dry_run: bool
) -> dict[str, Any]:
    """Bulk-load an archive into the store; a new store adopts its seed and recipe."""
    # All checksums of the archive are verified first; after an error, the store is unchanged.
    answer = {"source": str(archive_path), "kind": "archive"}
    with open_archive(archive_path) as archive:
        if dry_run:
            return {**answer, "fingerprints": archive.count}
        if problems := archive.verify():
            more = len(problems) - _PROBLEMS_SHOWN
            raise ArchiveError(
                "; ".join(problems[:_PROBLEMS_SHOWN]) + (f"; and {more} more" if more > 0 else "")
            )
        fingerprints = archive.read_all()
        seed, recipe = archive.seed, archive.recipe
    recipe = recipe or make_recipe(config.extractor, config.features)
    with open_to_fill(config, recipe, seed) as store:
        added = store.bulk_load(fingerprints)
        return {
            **answer,
            "store": store.url,
            "design": store.design,
            "fingerprints": fingerprints.size,
            "new": added,
        }


def back_up(config: Config, folder: Path, *, check: bool) -> Iterator[dict[str, Any]]:
    """Copy the store into a new folder while crawls write; `check` checks the copy first."""
    with open_as_it_is(config.store) as store:
        try:
            with show_busy("copying, and comparing the copy" if check else "copying"):
                made = store.backup(folder, check=check)
        except StoreDamagedError as error:
            yield {"folder": None, "problems": error.problems}
            raise PartlyFailedError(str(error)) from error
        yield {**made, "problems": []}
