"""Settings for the whole suite."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from tldextract import tldextract

from scrapy_simhash.judge import client
from scrapy_simhash.stores import store as stores_store
from scrapy_simhash.stores.store import Store
from tests.helpers import crawling
from tests.helpers.commanding import Run
from tests.helpers.documents import ALL_KINDS, open_lmdb
from tests.helpers.needing import EVERYTHING, load_examples
from tests.helpers.redisservers import RedisServer, run_redis
from tests.helpers.server import Site, serve
from tests.helpers.tracing import require_strace

# A job in the background ignores it, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples where the slow tests are left out, but for the gate, which runs both."""
    first_tier = config.option.markexpr == "not slow"
    load_examples(few=first_tier and EVERYTHING not in os.environ)


@pytest.fixture(autouse=True)
def judge_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge in this process, because to start another one takes half a second a crawl.

    The gate does not, nor tests that use `judge_apart`, nor crawls in processes of their own. Those
    are looked after more often.
    """
    monkeypatch.setattr(client, "_WATCHING_SECONDS", 0.1)
    apart = EVERYTHING in os.environ or "judge_apart" in request.fixturenames
    monkeypatch.setitem(crawling.SETTINGS, "SIMHASH_PROCESSES", int(apart))


@pytest.fixture
def judge_apart() -> None:
    """Judge in a process of its own, as crawls do."""


@pytest.fixture
def public_suffixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep duplicate-url-discarder from downloading the list of public suffixes."""
    offline = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    monkeypatch.setattr(tldextract, "extract", offline)


@pytest.fixture
def strace() -> None:
    """For tests that do nothing without strace."""
    require_strace()


@pytest.fixture
def store_seed(monkeypatch: pytest.MonkeyPatch) -> int:
    """The seed that stores made in this test get, which is random elsewhere."""
    seed = 0x5EED
    monkeypatch.setattr(stores_store, "secrets", SimpleNamespace(randbits=lambda _: seed))
    return seed


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder for tests whose many syncs are counted and need not be real."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it has a name of its own
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a server is slow."""
    for item in items:
        home = item.callspec.params.get("home") if hasattr(item, "callspec") else None
        if home in {"redis", "valkey"} or "redis_server" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what uses `home` with each kind of store, or with those that its module names.

    But tests that name their own: they look at what only one kind has.
    """
    kinds = getattr(metafunc.module, "STORE_KINDS", ALL_KINDS)
    marks = metafunc.definition.iter_markers("parametrize")
    if "home" in metafunc.fixturenames and all(mark.args[0] != "home" for mark in marks):
        metafunc.parametrize("home", kinds, indirect=True)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A server for all tests of this process, each with keys of its own."""
    with run_redis() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[RedisServer]:
    """A server of Valkey for all tests of this process."""
    with run_redis(program="valkey-server") as server:
        yield server


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that is not there yet; of each kind, see `pytest_generate_tests`."""
    kind = request.param
    if kind == "lmdb":
        return str(tmp_path)
    if kind == "memory":
        return "memory:"
    server: RedisServer = request.getfixturevalue(f"{request.param}_server")
    return server.url()


@pytest.fixture
def store(home: str) -> Iterator[Store]:
    """An empty store; consistent at the end."""
    with open_lmdb(home) as store:
        yield store
        assert store.check() == []


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Serve the pages that the module names `ANSWERS` to one test, which may change them."""
    with serve(request.module.ANSWERS) as site:
        yield site


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run commands in a folder outside of any project."""
    monkeypatch.chdir(tmp_path)
    return Run(capsys)
