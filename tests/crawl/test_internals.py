"""What the plugin uses of what is private in Scrapy: each fails when Scrapy changes it."""

import re
from pathlib import Path

from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

import scrapy_simhash
from scrapy_simhash.crawl import running
from tests.helpers.pages import page

ANSWERS = {f"/{number}": page(number) for number in range(4)}
PACKAGE = Path(scrapy_simhash.__file__).parent


def test_the_rules_of_a_crawl_spider_share_their_callbacks() -> None:
    class Spider(CrawlSpider):
        name = "rules"
        rules = (Rule(LinkExtractor()),)

    spider = Spider()
    response = HtmlResponse("http://a.example/", body=b"<a href=/b>b</a>", encoding="utf-8")
    (made,) = spider._requests_to_follow(response)
    assert made is not None
    assert made.callback == getattr(spider, running.RULE_CALLBACK)


def test_nothing_else_uses_what_is_private() -> None:
    """Ruff refuses private names but where a comment allows them; `getattr` gets round it."""
    pattern = re.compile(r"noqa: .*SLF001|getattr\([^\"]*\"_(?!_)")
    using = {path for path in PACKAGE.rglob("*.py") if pattern.search(path.read_text("utf-8"))}
    names = {path.relative_to(PACKAGE).as_posix() for path in using}
    # PySpark has no public way to its JVM, and lmdb's databases have no other class.
    others = {"batch/spark/pairs.py", "batch/spark/tasks.py", "stores/lmdb.py"}
    assert names - others == {"crawl/running.py"}
