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


def everything(url: str, page: PageFingerprint) -> str:  # noqa: ARG001 - scopes' signature
    """Compare all pages with each other, as the paper does."""
    return ""


def host(url: str, page: PageFingerprint) -> str:  # noqa: ARG001
    """Compare pages of one host name and port."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def site(url: str, page: PageFingerprint) -> str:  # noqa: ARG001
    """Compare pages of one registrable domain: www.example.co.uk and example.co.uk are one."""
    return find_site(urlsplit(url).netloc)


def language(url: str, page: PageFingerprint) -> str:  # noqa: ARG001
    """Compare pages that declare one language, and those that declare none."""
    return page.facts.language.partition("-")[0]


SCOPES: dict[str, Scope] = {
    "global": everything,
    "site": site,
    "host": host,
    "language": language,
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
