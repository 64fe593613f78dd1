"""Addresses that may be broken."""

import pytest

from scrapy_simhash.pages.addresses import host_of, join_url, split_url

BROKEN = "http://[::1/x"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://User@WWW.Site.Example:80/x", "www.site.example"),
        ("http://[::1]:80/x", "::1"),
        ("mailto:x", ""),
        ("", ""),
        (BROKEN, ""),
    ],
)
def test_host(url: str, host: str) -> None:
    assert host_of(url) == host


def test_broken_addresses_raise_nothing() -> None:
    assert split_url(BROKEN) is None
    assert join_url(BROKEN, "y") == ""
    assert join_url("http://a.example/x", "//[::1/") == ""
    assert join_url("http://a.example/x", "y") == "http://a.example/y"
