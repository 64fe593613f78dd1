"""Scopes: only pages of one scope are compared with each other."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import tldextract

from scrapy_simhash.recipe import load_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_simhash.fingerprint import PageFingerprint

    Scope: TypeAlias = Callable[[str, PageFingerprint], str]

# The list of public suffixes that ships with tldextract: no download, no cache on disk.
_SUFFIXES = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


def everything(url: str, page: PageFingerprint) -> str:  # noqa: ARG001 - the scopes' signature
    """Compare all pages with each other, as the paper does."""
    return ""


def host(url: str, page: PageFingerprint) -> str:  # noqa: ARG001
    """Compare pages of one host name and port."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def site(url: str, page: PageFingerprint) -> str:  # noqa: ARG001
    """Compare pages of one registrable domain: www.example.co.uk and example.co.uk are one."""
    return _site_of(urlsplit(url).hostname or "")


@lru_cache(maxsize=10_000)
def _site_of(hostname: str) -> str:
    return _SUFFIXES(hostname).top_domain_under_public_suffix or hostname


SCOPES: dict[str, Scope] = {"global": everything, "site": site, "host": host}


def load_scope(name: str) -> Scope:
    """Find a scope by its name or import path.

    Raises:
        ValueError: nothing callable there.
    """
    scope: Scope = load_named(name, SCOPES, callable, "a function from URL and page to text")
    return scope
