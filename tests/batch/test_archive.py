"""Archives: what was put in comes out, probes miss nothing, and no damage goes unseen."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.batch import archive as archive_format
from scrapy_simhash.batch.archive import Archive, write_archive
from scrapy_simhash.errors import ArchiveError, StoreError
from scrapy_simhash.tables import parse_design
from tests.helpers.oracle import distance_between
from tests.helpers.strategies import crowds, fingerprints, masks

MOST = 2**64 - 1
# Each example writes a file of its own over the last.
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
# Many near to few, some equal, the smallest and the largest.
values = crowds() | st.lists(fingerprints | st.sampled_from([0, 1, 2**63, MOST]), max_size=60)
designs = st.sampled_from(["1:0", "2:1", "4", "10", "16", "20", "6:2+2", "8:5"])
block_sizes = st.sampled_from([64, 128, 1024, 65_536])


def array(numbers: list[int]) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


def draw(count: int, seed: int = 8) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, MOST, count, np.uint64, endpoint=True)


def write(folder: Path, numbers: NDArray[np.uint64], design: str = "1:0", size: int = 64) -> Path:
    path = folder / "a.archive"
    write_archive(path, numbers, design=design, block_bytes=size, overwrite=True)
    return path


@given(values, designs, block_sizes)
@example([], "4", 1024)
@example([0], "4", 64)
@example([MOST], "1:0", 64)
@same_folder
def test_everything_comes_back(
    tmp_path: Path, numbers: list[int], design: str, block_bytes: int
) -> None:
    path = write(tmp_path, array(numbers), design, block_bytes)
    with Archive(path) as opened:
        assert (opened.count, opened.design) == (len(numbers), parse_design(design))
        assert (opened.block_bytes, opened.file_bytes) == (block_bytes, path.stat().st_size)
        assert opened.read_all().tolist() == sorted(numbers)
        for table in range(len(opened.design.tables)):
            read = [chunk.tolist() for chunk in opened.read_chunks(table)]
            assert sorted(sum(read, [])) == sorted(numbers)  # noqa: RUF017  # one chunk


def near(numbers: list[int], query: int, distance: int) -> list[tuple[int, int]]:
    pairs = {(distance_between(number, query), number) for number in numbers}
    return sorted(pair for pair in pairs if pair[0] <= distance)


@given(values, designs, st.sampled_from([64, 128]), st.data())
@same_folder
def test_probes_find_what_brute_force_finds(
    tmp_path: Path, numbers: list[int], design: str, block_bytes: int, data: st.DataObject
) -> None:
    with Archive(write(tmp_path, array(numbers), design, block_bytes)) as opened:
        for _ in range(3):
            distance = data.draw(st.integers(0, opened.design.reach_bits))
            query = data.draw(st.sampled_from(numbers) if numbers else fingerprints)
            query ^= data.draw(masks(distance))
            assert opened.probe(query, distance) == near(numbers, query, distance)


def flip(octets: bytes, bit: int) -> bytes:
    changed = bytearray(octets)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.slow
def test_every_flipped_bit_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, not a sample: by opening, or by reading everything."""
    monkeypatch.setattr(archive_format, "_GROUP_BYTES", 64)
    numbers = draw(14)  # two blocks, each a group of its own
    path = write(tmp_path, numbers)
    octets = path.read_bytes()
    damaged = tmp_path / "damaged"
    opening = 0
    for bit in range(8 * len(octets)):
        damaged.write_bytes(flip(octets, bit))
        try:
            opened = Archive(damaged)
        except ArchiveError:
            opening += 1
            continue
        with opened, pytest.raises(ArchiveError, match="damaged at octets"):
            opened.read_all()
    # Two blocks with keys of one octet, and two checksums, are not looked at when it is opened.
    assert opening == 8 * (len(octets) - 2 * (64 + 1 + 8))
    with Archive(path) as opened:
        assert opened.read_all().tolist() == sorted(numbers.tolist())


def test_every_length_that_is_cut_short(tmp_path: Path) -> None:
    path = write(tmp_path, draw(14))
    octets = path.read_bytes()
    for length in range(len(octets)):
        path.write_bytes(octets[:length])
        said = "cut short|not a scrapy" if length else "not a scrapy"
        with pytest.raises(ArchiveError, match=said):
            Archive(path)
    path.write_bytes(octets + b"\0")
    with pytest.raises(ArchiveError, match="too long"):
        Archive(path)


@pytest.mark.parametrize("octets", [b"", b"x", b"\0" * 4096, b"12345\n" * 9, b"SIMHASH" * 9])
def test_a_foreign_file_is_refused(tmp_path: Path, octets: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(octets)
    said = "foreign cannot be used: it is not a scrapy-simhash archive"
    with pytest.raises(StoreError, match=said) as caught:
        Archive(path)
    assert isinstance(caught.value, ArchiveError)
    assert path.read_bytes() == octets


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"design": "auto"}, "not a table design"), ({"seed": 2**64}, "from 0 to 2")),
        ({"block_bytes": 100}, "multiple of 8; got 100"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_archive(tmp_path / "a", draw(1), **options)  # type: ignore[arg-type]
    assert [found.name for found in tmp_path.iterdir()] == []
