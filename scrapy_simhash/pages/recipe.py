"""The recipe: everything that decides which fingerprint a page gets.

Fingerprints of different recipes cannot be compared, so a store keeps the recipe it was made with
and refuses any other.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_EXTRACTOR = "turbohtml"
DEFAULT_FEATURES = "words-1"
# Of a sketch, see `pages.features`.
SKETCH_BYTES = 768
# The reader of all visible text, which stands for a main text that was not found.
WHOLE_TEXT = "html2txt"
# Of our reader; raised whenever a change alters the text of any page.
TEXT_VERSION = 1


@dataclass(frozen=True)
class Recipe:
    """How a page becomes a fingerprint.

    The versions of turbohtml and xxhash are not part of it: a new release changes the
    text of few pages, and refusing every store at each upgrade would cost more than the few
    misses. A store keeps them, and a crawl warns if turbohtml has another version.

    Attributes:
        extractor: name or import path; crawls take the default one.
        features: name or import path of a feature set; crawls take the default one.
        extractor_version: of our own reader.
        features_version: of the feature set.
    """

    extractor: str = DEFAULT_EXTRACTOR
    features: str = DEFAULT_FEATURES
    extractor_version: int = TEXT_VERSION
    features_version: int = 3

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits, the same on every machine and in every process."""
        import hashlib  # noqa: PLC0415 - 4 MB in each judge, which needs no id

        canonical = json.dumps(asdict(self), sort_keys=True).encode()
        return hashlib.blake2b(canonical, digest_size=6).hexdigest()

    def differences(self, other: Recipe) -> list[str]:
        """List the fields that differ, each as `field: this / that`."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{field}: {mine[field]!r} / {theirs[field]!r}"
            for field in mine
            if mine[field] != theirs[field]
        ]


def load_named(
    name: str, known: Mapping[str, Any], accept: Callable[[Any], bool], wanted: str
) -> Any:
    """Find an object by its short name in `known`, or by its import path."""
    # `ValueError`: there is none, it cannot be imported, or it is not `wanted`.
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
