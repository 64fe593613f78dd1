"""Scopes: which pages are compared with each other; and names that lead nowhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scrapy_simhash.pages.scopes import load_named, load_scope

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


def test_site_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the list of suffixes ships with tldextract")

    monkeypatch.setattr("socket.socket.connect", refuse)
    assert load_scope("site")("http://deep.er.site.com.au/", PAGE) == "site.com.au"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"'' is none of one, two, nor an import path"),
        ("math.no_such_thing", r"'math.no_such_thing' cannot be imported: AttributeError"),
        *(("math.", r"cannot be imported"), (".math", r"none of|cannot be imported")),
        ("math..pi", r"cannot be imported"),
        ("math.pi", r"'math.pi' is 3.14\d+, not a number of apples"),
        ("failing_features.thing", r"cannot be imported: ZeroDivisionError"),
    ],
)
def test_names_that_lead_nowhere(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting says which one it was."""
    (tmp_path / "failing_features.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_named(name, {"one": 1, "two": 2}, "a number of apples")
    for scope, said in (("country", "none of global, site, host"), ("math.pi", "not a function")):
        with pytest.raises(ValueError, match=said):
            load_scope(scope)
