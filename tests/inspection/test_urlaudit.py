"""The audit of URL rules: which pages they would make one although they differ."""

import asyncio
from pathlib import Path

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.urlrules import audit, read_rules
from scrapy_simhash.urls.rules import parse_rules
from tests.helpers.addresses import SID, SITE, crawl_addresses
from tests.helpers.documents import document, open_in_crawl


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "store"
    asyncio.run(crawl_addresses(path))
    return path


def write(folder: Path, *rules: str) -> Path:
    path = folder / "rules"
    path.write_text("\n".join(rules))
    return path


ODD = [
    f"{SITE}/x?" + "&".join(f"p{number}=1" for number in range(10_000)),
    f"{SITE}/%zz%ff%00?sid=%zz",
    "http://user:secret@site.example/?sid=1",
    "http://site.example\\@other.example/?sid=1",
    "http://münchen.example/?sid=1",
    "http://[::1/?sid=1",
    "http://site.example:99999/?sid=1",
    "mailto:someone?sid=1",
    "?",
    "",
    f"{SITE}/\x00?sid=1",
]


def test_odd_addresses_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_in_crawl(path) as opened:
        opened.find_and_add(
            [document(f"{number}", 1 << number, url=url) for number, url in enumerate(ODD)]
        )
    (found,) = audit(Config(store=str(path)), write(tmp_path, SID))
    assert (found["same"], found["different"]) == (0, 0)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "has no rule; write one a line"),
        (b"\xef\xbb\xbf  \n# nothing\n", "has no rule"),
        (b"\x89PNG\r\n\x1a\n\x00", "is not UTF-8 text .byte 0."),
        (b"<html><body>Rules</body></html>", "line 1: URL rule '<html><body>Rules"),
        (b"example.com drop-parameter sid\nexample.com drop-everything", "line 2: URL rule"),
        (b"example.com drop-parameter", "takes 1 arguments, got 0"),
        (b'[{"order": 1}]', "line 1: URL rule"),
    ],
)
def test_what_is_no_file_of_rules_is_refused(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "rules"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint) as raised:
        read_rules(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_comments_blank_lines_and_repeated_rules() -> None:
    text = "\n# a list\na.example strip-slash \r\n\n  # of one\na.example strip-slash\n"
    assert [rule.text for rule in parse_rules(text)] == ["a.example strip-slash"]
