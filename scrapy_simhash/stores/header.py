"""The header of a store: the settings it was made with, compared with those it is opened with."""

from __future__ import annotations

import secrets
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from scrapy_simhash.errors import (
    DamagedError,
    StoreMismatchError,
    StoreUnavailableError,
    StoreUnusableError,
)
from scrapy_simhash.judging.evidence import DEFAULT_DISTANCE_BITS
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.documents import unpack_row
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from scrapy_simhash.tables.permutation import Design

# Increased with each change of what is stored, or how.
FORMAT = 23
HEADER_KEY = b"store"


class Header(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """The settings of a store.

    `rule` is SIMHASH_RULE, on which it depends of what texts its fingerprints are, see
    `judging.documents.make_document`.
    """

    format: int
    recipe: dict[str, str | int]
    design: str
    seed: int
    created: float
    version: str
    rule: str


def new_header(recipe: Recipe, design: str, seed: int | None, rule: str) -> Header:
    """Make the header of a new store."""
    return Header(
        format=FORMAT,
        recipe=structs.asdict(recipe),
        design=design,
        # A secret: whoever does not know it cannot craft a page with another page's fingerprint.
        seed=secrets.randbits(64) if seed is None else seed,
        created=time.time(),
        version=_find_version(),
        rule=rule,
    )


def unpack_header(packed: bytes) -> Header:
    """Read a header; refuses one that is damaged, or of another format."""
    try:
        header = unpack_row(Header, HEADER_KEY, packed)
    except DamagedError as error:
        raise StoreUnusableError(
            f"{error.what}. Restore the store from a backup, or name another SIMHASH_STORE and "
            "crawl again"
        ) from error
    if header.format != FORMAT:
        raise StoreUnusableError(
            f"the store has format {header.format}, but this version reads format {FORMAT} only; "
            "move it away, or name another SIMHASH_STORE, and crawl again (scrapy-simhash "
            f"{header.version} made it)"
        )
    return header


def _find_version() -> str:
    try:
        return version("scrapy-simhash")
    except PackageNotFoundError:
        return "of an unknown version"


def require_reach(header: Header, distance: int) -> None:
    """Raise a StoreError if the tables were rebuilt and would miss pairs within the distance."""
    reach_bits = parse_design(header.design).reach_bits
    if distance > reach_bits:
        raise StoreUnavailableError(
            f"the tables were rebuilt as {header.design} meanwhile, which is complete for "
            f"{reach_bits} bits but not for distance {distance}; rebuild them with a wider design"
        )


def check_recipe(header: Header, recipe: Recipe | None) -> Recipe:
    """Return the store's recipe, or raise a StoreMismatchError if the wanted one differs."""
    stored = Recipe(**header.recipe)  # type: ignore[arg-type]  # checked by its writer
    if recipe is not None and recipe != stored:
        raise StoreMismatchError(
            f"the store was made with another recipe: {stored}, and {recipe} is wanted. Name "
            "another SIMHASH_STORE and crawl again"
        )
    return stored


def check_seed(header: Header, wanted: int | None) -> None:
    """Raise a StoreMismatchError if the wanted seed is not the store's."""
    if wanted is not None and wanted != header.seed:
        raise StoreMismatchError(
            "the store was made with another seed, and fingerprints of different seeds cannot be "
            "compared. Name another store, such as a new one (--store, SIMHASH_STORE)"
        )


def check_rule(wanted: str | None, stored: str) -> None:
    """Raise a StoreMismatchError if the fingerprints of a store are those of another rule."""
    if wanted is not None and stored != wanted:
        raise StoreMismatchError(
            f"SIMHASH_RULE is {wanted!r}, but the store was made with {stored!r}, whose "
            "fingerprints are those of other texts. Set SIMHASH_RULE back, or name another "
            "SIMHASH_STORE"
        )


def check_design(header: Header, wanted: str | None) -> None:
    """Raise a StoreMismatchError if the wanted table design is not the store's."""
    if wanted is not None and wanted != header.design:
        raise StoreMismatchError(
            f"the store has table design {header.design}, not {wanted}. Set SIMHASH_TABLES to "
            f"'auto' or {header.design!r}, or change the store with `scrapy simhash check "
            f"--rebuild --tables {wanted}`, with a SIMHASH_DISTANCE within its reach"
        )


def choose_distance(distance: int | None, design: Design, rule: str) -> int:
    """Return the distance to use, or raise a StoreMismatchError; None chooses the default."""
    if rule not in DEFAULT_DISTANCE_BITS:
        raise ValueError(f"rule {rule!r} must be one of {', '.join(DEFAULT_DISTANCE_BITS)}")
    if distance is None:
        return min(DEFAULT_DISTANCE_BITS[rule], design.reach_bits)
    if not 0 <= distance <= design.reach_bits:
        names = (name for name in ("4", "4+2", "4+3") if parse_design(name).reach_bits >= distance)
        settings = (f"SIMHASH_TABLES = {name!r}" for name in names)
        wider = next(settings, "one that `scrapy simhash plan` names")
        raise StoreMismatchError(
            f"distance {distance}: table design {design.name} is complete for 0 to "
            f"{design.reach_bits} bits; take a smaller SIMHASH_DISTANCE, or a wider design, such "
            f"as {wider} (`scrapy simhash check --rebuild` gives it to a store)"
        )
    return distance
