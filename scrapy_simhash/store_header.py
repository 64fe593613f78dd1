"""What a store was made with, compared with what it is opened for."""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict
from importlib.metadata import version

from scrapy_simhash.designs import parse_design
from scrapy_simhash.recipe import Recipe
from scrapy_simhash.records import Header
from scrapy_simhash.stores import StoreMismatchError, StoreUnavailableError

_LIBRARIES = ("scrapy-simhash", "trafilatura", "xxhash")


def new_header(
    number: int, recipe: Recipe, design: str, seed: int | None, *, client: str
) -> Header:
    """Make the header of a new store.

    Args:
        number: of the format.
        recipe: how its fingerprints are made.
        design: of its tables.
        seed: of the token hash, 0 to 2**64 - 1; None to draw one.
        client: distribution of the database's client, whose version is noted.
    """
    return Header(
        format=number,
        recipe=asdict(recipe),
        design=design,
        # Whoever does not know it cannot aim a page at another one's fingerprint.
        seed=secrets.randbits(64) if seed is None else seed,
        created=time.time(),
        libraries={name: version(name) for name in (*_LIBRARIES, client)},
    )


def require_reach(header: Header, distance: int) -> None:
    """Refuse to go on after another process changed the tables for a smaller distance.

    Raises:
        StoreUnavailableError: near-duplicates would be missed.
    """
    reach_bits = parse_design(header.design).reach_bits
    if distance > reach_bits:
        raise StoreUnavailableError(
            f"the tables were rebuilt as {header.design} meanwhile, complete for {reach_bits} bits "
            f"and not for the {distance} asked for; rebuild them with a wider design"
        )


def check_recipe(header: Header, recipe: Recipe | None) -> Recipe:
    """Return the store's recipe.

    Raises:
        StoreMismatchError: another one was asked for.
    """
    stored = Recipe(**header.recipe)  # type: ignore[arg-type]  # checked by its writer
    if recipe is not None and recipe != stored:
        raise StoreMismatchError(
            "the store was made with another recipe (store / wanted): "
            f"{'; '.join(stored.differences(recipe))}. Set SIMHASH_EXTRACTOR and SIMHASH_FEATURES "
            "back, or name another SIMHASH_STORE and crawl again"
        )
    return stored


def check_seed(header: Header, wanted: int | None) -> None:
    """Accept the store's seed.

    Raises:
        StoreMismatchError: another one was asked for.
    """
    if wanted is not None and wanted != header.seed:
        raise StoreMismatchError(
            "the store was made with another seed: fingerprints of different seeds cannot be "
            "compared. Name another store, a new one for instance (--store, --into, SIMHASH_STORE)"
        )


def check_design(header: Header, wanted: str | None) -> None:
    """Accept the store's table design.

    Raises:
        StoreMismatchError: another one was asked for.
    """
    if wanted is not None and wanted != header.design:
        raise StoreMismatchError(
            f"the store has table design {header.design}, not {wanted}. Set SIMHASH_TABLES to "
            f"'auto' or {header.design!r}, or change the store with `scrapy simhash rebuild "
            f"--tables {wanted}`, with a SIMHASH_DISTANCE within its reach"
        )
