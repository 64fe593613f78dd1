"""Settings for the whole suite, and the worker process that crawls in it share."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from scrapy_simhash.lmdb_store import LmdbStore
from scrapy_simhash.workers import Workers
from tests.commanding import Run, make_run
from tests.documents import open_in_crawl
from tests.tracing import require_strace

# No deadline and no complaint about slow data: a busy machine must not make a test fail.
settings.register_profile(
    "suite",
    deadline=None,
    max_examples=60,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def warm_worker() -> Iterator[None]:
    """Keep one worker process for all crawls with `SIMHASH_WORKERS = 1`; to start it takes long."""
    workers = Workers(1, page_timeout_seconds=5.0)
    workers.start()
    yield
    workers.stop()


@pytest.fixture
def strace() -> None:
    """For tests that do nothing without strace."""
    require_strace()


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder for tests whose many syncs are counted and need not be real."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it has a name of its own
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    """An empty store and a crawl in it; consistent at the end."""
    with open_in_crawl(tmp_path) as store:
        yield store
        assert store.check() == []


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run commands in a folder outside of any project."""
    monkeypatch.chdir(tmp_path)
    return make_run(capsys)
