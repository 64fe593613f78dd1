"""The recipe: everything that decides which fingerprint a page gets.

Fingerprints of different recipes cannot be compared, so a store keeps the recipe it was made with
and refuses any other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OUR_READER = "turbohtml"
# The reader of all visible text, which stands for a main text that was not found.
WHOLE_TEXT = "html2txt"
# Of a sketch, see `pages.features`.
SKETCH_BYTES = 768


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a page becomes a fingerprint.

    The versions of turbohtml and xxhash are not part of it: a new release changes the
    text of few pages, and refusing every store at each upgrade would cost more than the few
    misses.

    Attributes:
        window: words in a shingle, 1 or more; crawls take single words.
        text_version: of our reader; raised whenever a change alters the text of any page.
        features_version: raised whenever a change alters the fingerprint of any text.
    """

    window: int = 1
    text_version: int = 1
    features_version: int = 3


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
