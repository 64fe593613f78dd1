"""A server that speaks TLS, with a certificate of an authority that only the tests trust."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.opening import open_store, server_address
from scrapy_simhash.stores.redis import Server
from tests.helpers.documents import document
from tests.helpers.redisservers import free_port, run_redis

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


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


@pytest.mark.parametrize(
    ("scheme", "door", "message"),
    [
        (
            "rediss",
            0,
            "a certificate that is trusted; name its port for TLS and the certificate authority",
        ),
        ("rediss", 1, "did not answer in time; check load, port and TLS"),
        ("redis", 0, r"check that it runs, host and port, and rediss:// \(TLS\)"),
    ],
)
def test_a_wrong_door_is_named(
    ports: tuple[int, int], scheme: str, door: int, message: str
) -> None:
    with pytest.raises(StoreUnusableError, match=message):
        open_store(f"{scheme}://{HOST}:{ports[door]}/0")


def test_who_checks_no_certificate_says_so(ports: tuple[int, int]) -> None:
    address = server_address(f"rediss://{HOST}:{ports[0]}/0?ssl_cert_reqs=none")
    Server(address, readonly=False).close()
