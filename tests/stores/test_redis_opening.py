"""Redis stores that cannot be opened: each says why and what helps, changing nothing; and TLS."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis import Redis

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.documents import seal
from scrapy_simhash.stores.keyvalues import HEADER_KEY
from scrapy_simhash.stores.opening import folder_of, open_store
from scrapy_simhash.stores.redis import RedisEngine
from tests.helpers.commanding import Run
from tests.helpers.documents import document
from tests.helpers.needing import require_program
from tests.helpers.processes import run_python, wait_until
from tests.helpers.redisservers import RedisServer, free_port, run_redis

pytestmark = pytest.mark.slow
SECRET = "s3cret-word"  # noqa: S105 - of a server that lives for a test


def everything(client: Redis) -> dict[bytes, bytes]:
    """Dump all keys, to see whether one changed."""
    found = {key: client.dump(key) for key in client.scan_iter()}
    return {key: value for key, value in found.items() if isinstance(value, bytes)}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://host?prefx=a", "unknown option 'prefx'; take db, prefix"),
        ("redis://host?prefix=a{b}", "prefix 'a{b}' must be"),
        ("redis://host?prefix=", "prefix '' must be"),
        ("redis://host?prefix=a:t", "prefix 'a:t' must be"),
        *((f"redis://host{end}", "PORT/NUMBER or unix:") for end in ("/store", ":x", ":0", "#0")),
        ("unix://", "write .*unix:///SOCKET"),
        *((each, "names no store; write a folder") for each in ("", "mydict:", "redis//localhost")),
        ("redis+cluster://host", "names no store; .*redis://HOST"),
        ("redis:/localhost", "names no store; .*where it looks like a URL"),
        *((each, "redis://HOST") for each in ("Redis:/localhost", "rediss:localhost:6379")),
        (f"mysql://user:{SECRET}@host", r"mysql://\*\*\*@host' names no store"),
    ],
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        folder_of(url)
    with pytest.raises(ValueError, match=message):
        open_store(url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *(f"redis://ann:s3{sign}{SECRET}@host:6379/0?prefix=a" for sign in "/#?@:[%"),
        f"redis://host/0?password={SECRET}",
        f"redis://host/0?username=ann&PASSWORD={SECRET}&prefix=a",
        *(f"redis://ann:{SECRET}@[::1/0", f"redis://ann:{SECRET}@host:99999/0"),
        *(f"redis://ann:{SECRET}@host/name", f"redi://ann:s3/{SECRET}@host"),
        *(f"redis+cluster://ann:s3#{SECRET}@host", f"unix://ann:s3?{SECRET}@/run/socket"),
    ],
)
def test_passwords_in_a_misspelt_url_are_not_shown(
    url: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    done = run("check", "--store", url)
    assert done.exit_code == 2
    assert done.err
    assert SECRET not in done.out + done.err
    assert SECRET not in caplog.text


def test_without_the_client_the_error_names_the_extra(tmp_path: Path) -> None:
    """As where the package was installed without its extra `redis`."""
    script = (
        "import sys; from scrapy_simhash import open_store\n"
        "sys.modules['redis'] = None; open_store('redis://localhost')"
    )
    done = run_python("-c", script, cwd=tmp_path)
    assert "pip install 'scrapy-simhash[redis]'" in done.stderr


@pytest.fixture(scope="module")
def locked() -> Iterator[RedisServer]:
    """A server with a password, of two databases, that anything may be asked of."""
    with run_redis("--databases", "2") as server:
        with server.client() as client:
            client.config_set("requirepass", SECRET)
        yield server


@pytest.mark.parametrize(
    ("account", "options", "message"),
    [
        ("", "", "refuses the user or password"),
        (":wrong-" + SECRET + "@", "", "refuses the user or password"),
        ("nobody:" + SECRET + "@", "", "refuses the user or password"),
        (f":{SECRET}@", "&db=7", "no database with this number"),
    ],
)
def test_refused_by_a_server(locked: RedisServer, account: str, options: str, message: str) -> None:
    url = f"unix://{account}{locked.socket}?prefix=refused{options}"
    with pytest.raises(StoreUnusableError, match=message) as caught:
        open_store(url)
    assert SECRET not in str(caught.value)


def test_with_its_password_it_opens(locked: RedisServer) -> None:
    with open_store(f"unix://:{SECRET}@{locked.socket}?prefix=right&db=1") as store:
        assert SECRET not in store.url
        assert SECRET not in str(store.stats())


def test_a_node_of_a_cluster_is_refused() -> None:
    with (
        run_redis("--port", str(free_port()), "--cluster-enabled", "yes") as node,
        pytest.raises(StoreUnusableError, match=r"is a node of a cluster, .*; name one server"),
    ):
        open_store(node.url("store"))


def test_a_server_that_throws_keys_away(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lfu")
        try:
            with pytest.raises(StoreUnusableError, match=r"policy allkeys-lfu.*noeviction"):
                open_store(redis_server.url())
        finally:
            client.config_set("maxmemory-policy", "noeviction")


def test_a_replica_is_read_only() -> None:
    with run_redis("--port", str(free_port()), "--bind", "127.0.0.1") as primary:
        url = primary.url("store")
        with open_store(url) as store:
            store.find_and_add([document("a", 7)])
        with primary.client() as client:
            port = client.config_get("port")["port"]
        with run_redis("--replicaof", f"127.0.0.1 {port}") as replica:
            with replica.client() as client:
                wait_until(lambda: client.info("replication")["master_link_status"] == "up")
            with pytest.raises(StoreUnusableError, match="is a replica and accepts no writes"):
                open_store(replica.url("store"))
            with open_store(replica.url("store"), readonly=True) as store:
                assert store.find_and_add([document("b", 6)])[0].status == "near_duplicate"


def test_an_older_server_is_refused(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = RedisEngine.ask

    def ask_older(self: RedisEngine, *commands: Any) -> list[Any]:
        return [{**ask(self, *commands)[0], "redis_version": "6.2.14"}]

    monkeypatch.setattr(RedisEngine, "ask", ask_older)
    with pytest.raises(StoreUnusableError, match=r"is Redis 6\.2\.14; it must be 7\.0 or later"):
        open_store(redis_server.url())


@pytest.mark.parametrize("name", ["header", "documents:00000000000000", "tables:00"])
def test_what_another_program_has_there(redis_server: RedisServer, name: str) -> None:
    url = redis_server.url("foreign")
    with redis_server.client() as client:
        client.flushall()
        client.rpush(f"foreign:{name}", b"another program's")
        before = everything(client)
        for readonly in (False, True):
            with pytest.raises(StoreUnusableError, match=r"another program's|there is no store"):
                open_store(url, readonly=readonly)
        assert everything(client) == before
        client.flushall()


def test_another_format(redis_server: RedisServer) -> None:
    url = redis_server.url("format")
    open_store(url).close()
    with redis_server.client() as client:
        packed = client.hget("format:header", HEADER_KEY)
        assert isinstance(packed, bytes)
        other = msgspec.msgpack.encode([99, "9.8.7", "of any shape"])
        client.hset("format:header", HEADER_KEY, seal(HEADER_KEY, other))
        with pytest.raises(StoreUnusableError, match="has format 99, but this version reads"):
            open_store(url)
        client.hset("format:header", HEADER_KEY, packed[:-1] + bytes([packed[-1] ^ 1]))
        with pytest.raises(StoreUnusableError, match=r"damaged .* Restore the store"):
            open_store(url)


def test_two_crawls_that_make_one_store(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one makes it when this one has looked for a header, and not yet for other keys."""
    url, exists = redis_server.url(), RedisEngine.exists
    seeds: list[int] = []

    def make_after(self: RedisEngine) -> bool:
        found = exists(self)
        if not found and not seeds:
            monkeypatch.setattr(RedisEngine, "exists", exists)
            with open_store(url) as other:
                seeds.append(other.seed)
                other.find_and_add([document("a", 7)])
        return found

    monkeypatch.setattr(RedisEngine, "exists", make_after)
    with open_store(url) as store:
        assert (seeds, store.stats()["documents"]) == ([store.seed], 1)


def test_stores_beside_each_other_are_left_alone(redis_server: RedisServer) -> None:
    """Whose prefixes begin alike."""
    names = ("one", "one1", "one.tables", "one-1", "on")
    stores = [open_store(redis_server.url(name), 4) for name in names]
    for store in stores:
        store.find_and_add([document("a", 1)])
    with redis_server.client() as client:
        before = everything(client)
        assert stores[0].rebuild("10")["fingerprints"] == 1
        after = everything(client)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert changed
    assert all(key.startswith(b"one:") for key in changed)
    for store in stores:
        assert store.check() == []
        store.close()


def test_what_is_not_durable_is_said_when_a_store_is_opened(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = redis_server.url()
    open_store(url).close()
    (line,) = caplog.messages
    assert "keeps no append-only file: if it crashes, it loses writes that it acknowledged" in line
    caplog.clear()
    open_store(url, readonly=True).close()
    assert caplog.messages == []


HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that is its own authority, and its key."""
    require_program("openssl")
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext"
    names = (f"subjectAltName=IP:{HOST}", "-out", str(paths[0]), "-keyout", str(paths[1]))
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return paths


@pytest.fixture(scope="module")
def ports(certificate: tuple[Path, Path]) -> Iterator[tuple[int, int]]:
    """Ports of a server for TLS, and without."""
    path, key = certificate
    encrypted, plain = free_port(), free_port()
    files = ("--tls-cert-file", str(path), "--tls-key-file", str(key))
    trusted = ("--tls-ca-cert-file", str(path), "--tls-auth-clients", "no")
    ports = ("--tls-port", str(encrypted), "--port", str(plain))
    with run_redis(*ports, *files, *trusted):
        yield encrypted, plain


def test_a_store_by_tls(ports: tuple[int, int], certificate: tuple[Path, Path]) -> None:
    url = f"rediss://{HOST}:{ports[0]}/1?ssl_ca_certs={certificate[0]}&prefix=by-tls"
    with open_store(url) as store:
        assert store.find_and_add([document("one", 1)])[0].status == "new"
    # What came in by one door is seen by the other.
    with open_store(f"redis://{HOST}:{ports[1]}/1?prefix=by-tls", readonly=True) as store:
        assert store.stats()["documents"] == 1


TRUST = "a certificate that is trusted; name its port for TLS and the certificate authority"


@pytest.mark.parametrize(
    ("scheme", "door", "message"),
    [
        ("rediss", 0, TRUST),
        ("rediss", 1, "did not answer in time; check load, port and TLS"),
        ("redis", 0, r"check that it runs, host and port, and rediss:// \(TLS\)"),
    ],
)
def test_wrong_doors_are_named(
    ports: tuple[int, int], scheme: str, door: int, message: str
) -> None:
    with pytest.raises(StoreUnusableError, match=message):
        open_store(f"{scheme}://{HOST}:{ports[door]}/0")


def test_who_checks_no_certificate_says_so(ports: tuple[int, int]) -> None:
    RedisEngine(f"rediss://{HOST}:{ports[0]}/0?ssl_cert_reqs=none").close()
