"""Scopes: which pages are compared with each other."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scrapy_simhash.pages.scopes import load_scope
from tests.helpers import hostile

PAGE = cast("Any", SimpleNamespace(language="en", facts=SimpleNamespace(language="en-gb")))


@pytest.mark.parametrize(
    ("name", "url", "expected"),
    [
        ("global", "http://www.site.example/page", ""),
        ("host", "http://www.site.example/page", "www.site.example"),
        ("host", "https://WWW.Site.Example/page", "www.site.example"),
        ("host", "http://www.site.example:8080/page", "www.site.example:8080"),
        ("host", "http://user:secret@www.site.example/", "www.site.example"),
        *(("host", "http://user@[::1]:80/", "[::1]:80"), ("host", "file:///page.html", "")),
        ("site", "http://www.site.com/page", "site.com"),
        ("site", "http://www.intranet.local/page", "www.intranet.local"),
        ("site", "http://a.b.site.co.uk/page", "site.co.uk"),
        ("site", "http://site.co.uk", "site.co.uk"),
        ("site", "http://User@WWW.Site.co.uk:8080/", "site.co.uk"),
        ("site", "http://localhost:8080/page", "localhost"),
        ("site", "http://192.0.2.1/page", "192.0.2.1"),
        *(("site", "http://[::1]/page", "::1"), ("site", "http://wiki/page", "wiki")),
        ("site", "http://www.a.github.io/page", "a.github.io"),
        ("site", "data:text/html,page", ""),
        ("language", "http://site.example/page", "en"),
    ],
)
def test_scope_of_a_url(name: str, url: str, expected: str) -> None:
    assert load_scope(name)(url, PAGE) == expected


def test_scope_by_import_path_gets_url_and_page() -> None:
    scope = load_scope("tests.helpers.hostile.scope_by_language")
    assert scope is hostile.scope_by_language
    assert scope("http://site.example/", PAGE) == "en"


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("country", "none of global, site, host"),
        ("no_such_module.scope", "cannot be imported"),
        ("tests.helpers.hostile.no_such_name", "cannot be imported"),
        ("tests.helpers.hostile.NOT_CALLABLE", "not a function from URL and page to text"),
    ],
)
def test_bad_scope_is_named(name: str, fact: str) -> None:
    with pytest.raises(ValueError, match=fact) as raised:
        load_scope(name)
    assert repr(name) in str(raised.value)


def test_site_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the list of suffixes ships with tldextract")

    monkeypatch.setattr("socket.socket.connect", refuse)
    assert load_scope("site")("http://deep.er.site.com.au/", PAGE) == "site.com.au"
