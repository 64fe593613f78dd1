"""Scopes: only pages of one scope are compared with each other."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from scrapy_simhash.pages.recipe import load_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from tldextract import TLDExtract

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


@cache
def _load_suffixes() -> TLDExtract:
    # With the list of public suffixes that ships with tldextract: no download, no cache on disk.
    # Below a private suffix, such as github.io, everybody has a site of their own.
    from tldextract import TLDExtract  # noqa: PLC0415 - it loads requests, and a judge seldom asks

    return TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)


@lru_cache(maxsize=10_000)
def find_site(host: str) -> str:
    """Find the site of a host, with or without a port: its registrable domain, or itself.

    An IP address, and a name without a registrable domain, is a site of its own.
    """
    hostname = urlsplit(f"//{host}").hostname or ""
    return _load_suffixes()(hostname).top_domain_under_public_suffix or hostname


def language(url: str, page: PageFingerprint) -> str:  # noqa: ARG001
    """Compare pages that declare one language, and those that declare none."""
    return page.facts.language.partition("-")[0]


SCOPES: dict[str, Scope] = {
    "global": everything,
    "site": site,
    "host": host,
    "language": language,
}


@lru_cache(maxsize=16)
def load_scope(name: str) -> Scope:
    """Find a scope by its name or import path; `ValueError` if there is no such function."""
    scope: Scope = load_named(name, SCOPES, callable, "a function from URL and page to text")
    return scope


def find_scope(name: str, url: str, page: PageFingerprint) -> str:
    """Find the scope of a page; whatever the user's function raises."""
    return str(load_scope(name)(url, page)).encode("utf-8", "replace").decode()
