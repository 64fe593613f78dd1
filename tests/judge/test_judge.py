"""What counts as got, and whose links count as followed."""

from pathlib import Path

import pytest

from scrapy_simhash.judge.messages import Outcome
from scrapy_simhash.pages.facts import EVERYONE, Reader
from tests.helpers.judging import judging
from tests.helpers.pages import page

LINKS = [f"http://site.example/item{number}" for number in range(20)]
LISTS, ITEMS = Reader("spider", "parse_list"), Reader("spider", "parse_item")


@pytest.mark.parametrize(("outcome", "links"), [("failed", 20), ("done", 0), ("unwanted", 0)])
def test_links_of_pages_whose_callbacks_failed_are_not_followed(
    tmp_path: Path, outcome: Outcome, links: int
) -> None:
    with judging(tmp_path) as crawl:
        crawl.settle(crawl.ask("list", page(9, links=LINKS)), outcome)
        crawl.deliver("original", page(1))
        copy = crawl.ask("copy", page(1, links=LINKS, menu="x"))
        assert (crawl.find(copy), len(crawl.close().left)) == ("near_duplicate drop", links)


@pytest.mark.parametrize("same", [True, False])
def test_what_one_callback_got_of_an_import_no_other_got(tmp_path: Path, *, same: bool) -> None:
    with judging(tmp_path, crawl="import", incremental=True) as crawl:
        crawl.deliver("one", page(1), reader=EVERYONE, identity=b"import")
    with judging(tmp_path) as crawl:
        if same:
            found = crawl.deliver("one", page(1), reader=LISTS, imported=b"import")
            assert found == "revisit unchanged"
        else:
            found = crawl.deliver("copy", page(1, menu="x"), reader=LISTS)
            assert found == "near_duplicate first_copy pass"
        other = crawl.deliver("other", page(1, menu="y"), reader=ITEMS)
        assert other == "near_duplicate first_copy pass"
        assert crawl.deliver("more", page(1, menu="z"), reader=LISTS) == "near_duplicate drop"
