"""A server that speaks TLS, with a certificate of an authority that only the tests trust."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.redis import RedisEngine
from tests.helpers.documents import document
from tests.helpers.needing import require_program
from tests.helpers.redisservers import free_port, run_redis

pytestmark = pytest.mark.slow
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
