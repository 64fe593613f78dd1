"""Stores on network file systems are refused, unless the user knows better."""

from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.lmdb import ALLOW_NETWORK
from tests.helpers.documents import open_lmdb


class Partition(NamedTuple):
    mountpoint: str
    fstype: str


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Partition]:
    """What is said to be mounted where; a test adds to it."""
    answer = [Partition("/", "ext4"), Partition(str(tmp_path / "other"), "nfs4")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda *, all: answer if all else [])  # noqa: A006
    return answer


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("kind", ["nfs4", "nfs", "cifs", "smb3", "9p", "fuse.sshfs", "fuse", "NFS"])
def test_a_network_file_system_is_refused(
    tmp_path: Path, mounted: list[Partition], kind: str, readonly: bool
) -> None:
    share = tmp_path / "share"
    share.mkdir()
    mounted.append(Partition(str(share), kind))
    with pytest.raises(
        StoreUnusableError, match=f"network file system .{kind.lower()}.*local disk"
    ):
        open_lmdb(share / "store", readonly=readonly)
    (tmp_path / "link").symlink_to(share)
    with pytest.raises(StoreUnusableError, match="network file system"):
        open_lmdb(tmp_path / "link" / "store", readonly=readonly)
    assert list(share.iterdir()) == []


def test_the_environment_overrides(
    tmp_path: Path, mounted: list[Partition], monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted.append(Partition(str(tmp_path), "nfs4"))
    with pytest.raises(StoreUnusableError, match=f"{ALLOW_NETWORK}=1"):
        open_lmdb(tmp_path / "store")
    monkeypatch.setenv(ALLOW_NETWORK, "1")
    open_lmdb(tmp_path / "store").close()
