"""Which reader reads a page: names, defaults, what is loaded, and how long the fast one takes."""

import json
import sys
import time
from collections.abc import Iterator

import pytest

from scrapy_simhash.config import Config, read_config
from scrapy_simhash.detector.detector import Detector
from scrapy_simhash.errors import SettingError
from scrapy_simhash.pages.fingerprint import fingerprint_page, load_reader, make_recipe, read_page
from scrapy_simhash.pages.recipe import Recipe, default_extractor
from tests.helpers.handmade import PARAGRAPHS, article, page
from tests.helpers.processes import ROOT, run_python

OTHERS = ["trafilatura-fast", "trafilatura", "html2txt", "tests.helpers.handmade.find_headings"]


@pytest.fixture
def without_turbohtml(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make `import turbohtml` fail, and forget what was found before."""
    known = (default_extractor, load_reader, make_recipe)
    monkeypatch.setitem(sys.modules, "turbohtml", None)
    monkeypatch.delitem(sys.modules, "scrapy_simhash.pages.turbohtml_reader", raising=False)
    for function in known:
        function.cache_clear()
    yield
    for function in known:
        function.cache_clear()


@pytest.mark.usefixtures("without_turbohtml")
def test_the_default_without_turbohtml(caplog: pytest.LogCaptureFixture) -> None:
    assert Config().extractor == read_config({}).extractor == "trafilatura-fast"
    assert Recipe() == Recipe("trafilatura-fast", extractor_version=2)
    assert PARAGRAPHS[0] in fingerprint_page(page(article())).text
    (line,) = [record for record in caplog.records if record.name.startswith("scrapy_simhash")]
    assert line.levelname == "WARNING"
    assert "SIMHASH_EXTRACTOR is 'trafilatura-fast': 'turbohtml'" in line.getMessage()


@pytest.mark.usefixtures("without_turbohtml")
def test_naming_turbohtml_where_it_cannot_be_imported() -> None:
    with pytest.raises(SettingError, match=r"^SIMHASH_EXTRACTOR: 'turbohtml' cannot be imported"):
        Detector(Config(extractor="turbohtml"))
    with pytest.raises(ValueError, match="take 'trafilatura-fast', which works without it"):
        make_recipe("turbohtml", "words-1")


@pytest.mark.usefixtures("without_turbohtml")
@pytest.mark.parametrize("extractor", OTHERS)
def test_other_extractors_need_no_turbohtml(
    extractor: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert Config(extractor=extractor).extractor == extractor
    assert "harvest" in read_page(page(article()).encode(), "utf-8", extractor).main
    assert caplog.records == []


LOADED = """
import json, sys
import scrapy_simhash.detector.worker
from scrapy_simhash.pages.fingerprint import fingerprint_page
for encoding in ("utf-8", None):
    fingerprint_page(b"<html><body><p>some words to read " * 50, encoding)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_what_a_worker_does_not_load() -> None:
    done = run_python("-c", LOADED, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert {"turbohtml", "numpy"} <= loaded
    assert loaded & {"lxml", "trafilatura", "htmldate", "justext", "scrapy", "twisted"} == set()
    assert "_hashlib" not in loaded  # OpenSSL


MANY = range(20_000)
TEXT = " ".join(PARAGRAPHS)
ATTRIBUTES = " ".join(f"a{number}=1" for number in range(50_000))
# Each took seconds, by the square of its length.
LONG = {
    "attributes of many bodies": f"<p>{TEXT}" + "".join(f"<body a{n}=1>" for n in MANY),
    "attributes of many roots": f"<p>{TEXT}" + "".join(f"<HTML\na{n}=1>" for n in MANY),
    "attributes of two bodies": f"<body {ATTRIBUTES}><p>{TEXT}"
    f"<body {ATTRIBUTES.replace('a', 'b')}>",
    "links below a long base": f"<base href='/{'b/' * 20_000}'><p>{TEXT}"
    + "".join(f"<a href={n}></a>" for n in MANY),
}


@pytest.mark.parametrize("name", LONG)
def test_no_page_takes_long_because_it_is_long(name: str) -> None:
    started = time.process_time()
    made = fingerprint_page(LONG[name], url="http://site.example/")
    assert time.process_time() - started < 1
    assert made.text == TEXT


def test_what_surrounds_repeated_roots_is_read() -> None:
    """As in a page of parts that are whole pages themselves."""
    part = f'<!DOCTYPE html><html lang="en"><head><title>A</title></head><body id=x>{TEXT}</body>'
    made = fingerprint_page(f"{part * 200}</html>")
    assert (made.text, made.facts.title, made.facts.language) == (
        " A ".join([TEXT] * 200),
        "A",
        "en",
    )
