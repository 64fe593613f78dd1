"""On uvloop: the same decisions, also where a judge dies."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.crawlscript import run_crawl
from tests.helpers.hostile import TRIGGER
from tests.helpers.needing import require_modules
from tests.helpers.pages import page
from tests.helpers.server import serve

pytestmark = pytest.mark.slow
REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


@pytest.mark.parametrize(
    "settings", [{"TWISTED_REACTOR": REACTOR}, {"TWISTED_REACTOR_ENABLED": False}], ids=str
)
def test_a_judge_that_dies_costs_only_its_page(settings: dict[str, Any], tmp_path: Path) -> None:
    require_modules("beside", "uvloop")
    answers = {
        "/crash": page(3, title=f"{TRIGGER}crash"),
        "/one": page(1),
        "/one-again": page(1, menu="Other menu"),
        "/two": page(2),
    }
    with serve(answers) as site:
        done = run_crawl(
            tmp_path,
            [site.url(path) for path in answers],
            ASYNCIO_EVENT_LOOP="uvloop.Loop",
            SIMHASH_SCOPE="tests.helpers.hostile.misbehave",
            SIMHASH_PROCESSES=1,
            **settings,
        )
    assert "uvloop.Loop" in done.log
    assert done.paths == ["/crash", "/one", "/two"], done.log
    assert (done.counted["dropped"], done.counted["not_judged/worker_died"]) == (1, 1)
