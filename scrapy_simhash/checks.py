"""What a store accepts: distances its design is complete for, and documents it can keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.config import default_distance
from scrapy_simhash.designs import parse_design
from scrapy_simhash.permutation import Design, check_fingerprint
from scrapy_simhash.sketch import SKETCH_BYTES
from scrapy_simhash.stored import MOST_FINGERPRINTS, MOST_IDENTITY_BYTES
from scrapy_simhash.stores import StoreMismatchError

if TYPE_CHECKING:
    from scrapy_simhash.stored import Document


def check_confirm(confirm: float | None) -> None:
    """Accept a similarity.

    Raises:
        ValueError: it is none.
    """
    if confirm is not None and not 0 <= confirm <= 1:
        raise ValueError(f"confirm is a similarity from 0 to 1 or None, got {confirm!r}")


def choose_distance(distance: int | None, confirm: float | None, design: Design) -> int:
    """Return the distance to work with; None stands for the default within the design's reach.

    Raises:
        StoreMismatchError: the design is not complete for the distance.
    """
    if distance is None:
        return min(default_distance(confirm), design.reach_bits)
    if not 0 <= distance <= design.reach_bits:
        names = (name for name in ("4", "4+2", "4+3") if parse_design(name).reach_bits >= distance)
        settings = (f"SIMHASH_TABLES = {name!r}" for name in names)
        wider = next(settings, "one that `scrapy simhash plan` names")
        raise StoreMismatchError(
            f"distance {distance}: table design {design.name} is complete for 0 to "
            f"{design.reach_bits} bits; take a smaller SIMHASH_DISTANCE, or a design for it, such "
            f"as {wider} (`scrapy simhash rebuild` gives it to a store)"
        )
    return distance


def check_document(document: Document) -> None:
    """Refuse what LMDB would reject or cut in the middle of a transaction."""
    for identity in (document.identity, *document.aliases):
        if not 1 <= len(identity) <= MOST_IDENTITY_BYTES:
            raise ValueError(
                f"an identity has 1 to {MOST_IDENTITY_BYTES} bytes, got {identity!r} "
                f"for {document.url!r}"
            )
    if not 1 <= len(document.fingerprints) <= MOST_FINGERPRINTS:
        raise ValueError(
            f"a document has 1 to {MOST_FINGERPRINTS} fingerprints, "
            f"got {len(document.fingerprints)} for {document.url!r}"
        )
    for fingerprint in document.fingerprints:
        check_fingerprint(fingerprint)
    if len(document.sketch) not in {0, SKETCH_BYTES}:
        raise ValueError(
            f"a sketch has {SKETCH_BYTES} bytes or none, got {len(document.sketch)} "
            f"for {document.url!r}"
        )
