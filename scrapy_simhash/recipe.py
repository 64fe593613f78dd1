"""The recipe: everything that decides which fingerprint a page gets.

Fingerprints of different recipes cannot be compared, so a store keeps the recipe it was made with
and is refused for any other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_EXTRACTOR = "trafilatura-fast"
DEFAULT_FEATURES = "words-1"


@dataclass(frozen=True)
class Recipe:
    """How a page becomes a fingerprint.

    The versions of trafilatura and xxhash are not part of it: a new release moves the text of few
    pages, and refusing every store at each upgrade would cost more than the few misses. A store
    notes them for information.

    Attributes:
        extractor: name or import path (SIMHASH_EXTRACTOR).
        features: name or import path of a feature set (SIMHASH_FEATURES).
        extractor_version: of our own text module.
        features_version: of the feature set.
    """

    extractor: str = DEFAULT_EXTRACTOR
    features: str = DEFAULT_FEATURES
    extractor_version: int = 2
    features_version: int = 2

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits, the same on every machine and in every process."""
        canonical = json.dumps(asdict(self), sort_keys=True).encode()
        return hashlib.blake2b(canonical, digest_size=6).hexdigest()

    def differences(self, other: Recipe) -> list[str]:
        """Name what differs, one `field: this / that` each."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{field}: {mine[field]!r} / {theirs[field]!r}"
            for field in mine
            if mine[field] != theirs[field]
        ]


def load_named(
    name: str, known: Mapping[str, Any], accept: Callable[[Any], bool], wanted: str
) -> Any:
    """Find an object by its short name or its import path.

    Args:
        name: a key of `known`, or `package.module.attribute`.
        known: the short names.
        accept: says whether an object is of the right kind.
        wanted: the right kind, in words for the message.

    Raises:
        ValueError: there is no such object, it does not import, or it is of another kind.
    """
    if name in known:
        return known[name]
    module, _, attribute = name.rpartition(".")
    if not module:
        raise ValueError(f"{name!r} is none of {', '.join(known)}, nor an import path")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:
        raise ValueError(f"{name!r} cannot be imported: {error!r}") from error
    if not accept(found):
        raise ValueError(f"{name!r} is {found!r}, not {wanted}")
    return found
