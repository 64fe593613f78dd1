"""The header of a store: the settings it was made with, compared with those it is opened with."""

from __future__ import annotations

import secrets
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import msgspec

from scrapy_simhash.errors import (
    DamagedError,
    StoreMismatchError,
    StoreUnusableError,
)
from scrapy_simhash.judging.documents import DEFAULT_DISTANCE_BITS
from scrapy_simhash.pages.facts import Recipe  # noqa: TC001 - msgspec reads the annotations
from scrapy_simhash.stores.documents import unpack_row, unseal
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from scrapy_simhash.tables.designs import Design

# Increased with each change of what is stored, or how.
FORMAT = 25
HEADER_KEY = b"store"


class Header(msgspec.Struct, array_like=True):
    """The settings of a store; headers of all formats begin with the first two fields.

    `rule` is SIMHASH_RULE, on which it depends of what texts its fingerprints are, see
    `judging.documents.make_document`.
    """

    format: int
    version: str
    recipe: Recipe
    design: str
    seed: int
    rule: str

    def require(
        self,
        recipe: Recipe | None,
        seed: int | None,
        rule: str | None = None,
        design: str | None = None,
    ) -> None:
        """Raise a StoreMismatchError unless the store was made with these; None stands for any."""
        if seed not in {None, self.seed}:
            problem = (
                "the store was made with another seed, and fingerprints of different seeds cannot "
                "be compared. Name another store, such as a new one (--store, SIMHASH_STORE)"
            )
        elif recipe not in {None, self.recipe}:
            problem = (
                f"the store was made with another recipe: {self.recipe}, and {recipe} is wanted. "
                "Name another SIMHASH_STORE and crawl again"
            )
        elif design not in {None, self.design}:
            problem = (
                f"the store has table design {self.design}, not {design}. Set SIMHASH_TABLES to "
                f"'auto' or {self.design!r}, or change the store with `scrapy simhash check "
                f"--rebuild --tables {design}`, with a SIMHASH_DISTANCE within its reach"
            )
        elif rule not in {None, self.rule}:
            problem = (
                f"SIMHASH_RULE is {rule!r}, but the store was made with {self.rule!r}, whose "
                "fingerprints are those of other texts. Set SIMHASH_RULE back, or name another "
                "SIMHASH_STORE"
            )
        else:
            return
        raise StoreMismatchError(problem)


def new_header(recipe: Recipe, design: str, seed: int | None, rule: str) -> Header:
    """Make the header of a new store."""
    try:
        made_by = version("scrapy-simhash")
    except PackageNotFoundError:
        made_by = "of an unknown version"
    # A secret: whoever does not know it cannot craft a page with another page's fingerprint.
    seed = secrets.randbits(64) if seed is None else seed
    return Header(FORMAT, made_by, recipe, design, seed, rule)


def unpack_header(packed: bytes) -> Header:
    """Read a header; refuses one that is damaged, or of another format."""
    try:
        body = unseal("header", HEADER_KEY, packed)
        made_as, made_by, *_ = msgspec.msgpack.decode(body, type=list[Any])
        if made_as == FORMAT:
            return unpack_row(Header, HEADER_KEY, packed)
    except DamagedError as error:
        raise StoreUnusableError(
            f"{error.what}. Restore the store from a backup, or name another SIMHASH_STORE and "
            "crawl again"
        ) from error
    raise StoreUnusableError(
        f"the store has format {made_as}, but this version reads format {FORMAT} only; move it "
        f"away, or name another SIMHASH_STORE, and crawl again (scrapy-simhash {made_by} made it)"
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
