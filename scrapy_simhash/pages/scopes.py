"""Scopes: only pages of one are compared with each other; and names of what users wrote."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from scrapy_simhash.pages.addresses import find_site

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy_simhash.pages.facts import PageFingerprint

    Scope: TypeAlias = Callable[[str, PageFingerprint], str]


# A host with its port. A site is a registrable domain: www.example.co.uk and example.co.uk are one.
# Pages that declare no language are compared with each other.
SCOPES: dict[str, Scope] = {
    "global": lambda url, page: "",  # noqa: ARG005 - scopes' signature
    "site": lambda url, page: find_site(urlsplit(url).netloc),  # noqa: ARG005
    "host": lambda url, page: urlsplit(url).netloc.rpartition("@")[2].lower(),  # noqa: ARG005
    "language": lambda url, page: page.facts.language.partition("-")[0],  # noqa: ARG005
}


def load_named(name: str, known: Mapping[str, Any], wanted: str) -> Any:
    """Find a function by its short name in `known`, or by its import path."""
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
    if not callable(found):
        raise ValueError(f"{name!r} is {found!r}, not {wanted}")  # noqa: TRY004 - as above
    return found


@lru_cache(maxsize=16)
def load_scope(name: str) -> Scope:
    """Find a scope by its name or import path; `ValueError` if there is no such function."""
    scope: Scope = load_named(name, SCOPES, "a function from URL and page to text")
    return scope


def find_scope(name: str, url: str, page: PageFingerprint) -> str:
    """Find the scope of a page; whatever the user's function raises."""
    return str(load_scope(name)(url, page)).encode("utf-8", "replace").decode()
