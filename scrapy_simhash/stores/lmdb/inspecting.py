"""Look for damaged pages in an LMDB file, a level of its trees at a time.

LMDB trusts the pages that it meets: a zeroed one aborts the process. `lmdb.verify`
proves every row, at 0.07 to 0.27 s a MiB; this only looks at what LMDB follows (numbers of pages,
their kinds, bounds, lengths), with numpy, at a few ms a MiB. `verify` judges what it suspects.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.tables.permutation import sort_distinct

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Pages = NDArray[np.uint8]
    Numbers = NDArray[np.int64]

_HEAD_BYTES, _NODE_BYTES, _META_PAGES, _DEEPEST = 16, 8, 2, 32
_BRANCH, _LEAF, _OVERFLOW, _DIRTY, _PACKED, _SUBPAGE = 0x01, 0x02, 0x04, 0x10, 0x20, 0x40
_BIG, _TREE, _ROWS = 0x01, 0x02, 0x04
_NO_PAGE = 2**64 - 1
_DUPFIXED = 0x10
_PAGE_BYTES = mmap.PAGESIZE
_PAGES_AT_ONCE = 4_096
_HEAD = np.dtype(
    [("number", "<u8"), ("width", "<u2"), ("kind", "<u2"), ("lower", "<u2"), ("upper", "<u2")]
)
_DB = np.dtype(
    [
        *[("width", "<u4"), ("flags", "<u2"), ("depth", "<u2"), ("branches", "<u8")],
        *[("leaves", "<u8"), ("overflows", "<u8"), ("entries", "<u8"), ("root", "<u8")],
    ]
)
# Where in a meta page the free pages and the main database are, then numbers.
_META_DBS, _META_END = 40, 152


class _SuspectError(Exception):
    """A page that LMDB should not meet."""


def find_suspect(data: Path, most_bytes: int) -> str:
    """Name the first suspect page of a file, or "".

    Of a database that has leaves of more than `most_bytes`, looks at branches only. If others may
    write to the file, the caller holds a read transaction.
    """
    try:
        _Inspection(data, most_bytes).inspect()
    except _SuspectError as error:
        return str(error)
    return ""


# A row's width says how a page is read: above 0 for rows of one width without nodes.
_NODES, _LEAVES_UNREAD = 0, -1


class _Inspection:
    def __init__(self, data: Path, most_bytes: int) -> None:
        # In this order, all is as one commit left it, so that one look is enough. The caller's
        # transaction is no newer than that commit: its pages are neither changed nor reused. And
        # they were written before the meta page that leads to them: the map made now has them.
        metas = [page[_META_DBS:_META_END].copy() for page in _read_metas(data)]
        octets = np.memmap(data, np.uint8, "r")
        self._pages: Pages = octets[: octets.size // _PAGE_BYTES * _PAGE_BYTES].reshape(
            -1, _PAGE_BYTES
        )
        # The number of the last page, and that of the transaction.
        lasts = [meta[-16:].view("<u8") for meta in metas]
        newest = int(lasts[0][1] < lasts[1][1])
        self._databases = metas[newest][:-16].view(_DB)
        if self._databases[0]["width"] != _PAGE_BYTES:
            raise _SuspectError("pages are of another size")
        self._seen = np.zeros(max(int(lasts[newest][0]) + 1, _META_PAGES), np.bool_)
        self._seen[:_META_PAGES] = True
        self._most_leaves = most_bytes // _PAGE_BYTES
        self._complete = True
        # By the number of levels below them: pages that were not looked at yet, and their widths.
        self._waiting: dict[int, list[tuple[Numbers, Numbers]]] = {}
        self._free: list[bytes] | None = []

    def inspect(self) -> None:
        """Raise an error at the first suspect page."""
        self._walk(self._databases[:1])
        free, self._free = self._free, None
        self._walk(self._databases[1:])
        self._note(np.frombuffer(b"".join(free or []), "<u8").astype(np.int64))
        if self._complete and not self._seen.all():
            raise _SuspectError(f"page {int(np.argmin(self._seen))} is lost")

    def _walk(self, databases: NDArray[np.void]) -> None:
        self._enter(databases, within=False)
        while self._waiting:
            height = max(self._waiting)
            levels = self._waiting.pop(height)
            numbers, widths = (np.concatenate(column) for column in zip(*levels, strict=True))
            for start in range(0, numbers.size, _PAGES_AT_ONCE):
                some = slice(start, start + _PAGES_AT_ONCE)
                self._look(height, numbers[some], widths[some])

    def _enter(self, databases: NDArray[np.void], *, within: bool) -> None:
        """Take the roots of databases, or of the rows `within` one that a key has."""
        used = databases[databases["root"] != _NO_PAGE]
        depths = used["depth"].astype(np.int64)
        if ((depths < 1) | (depths > _DEEPEST)).any():
            raise _SuspectError("a database has a wrong depth")
        if within:
            widths = np.where(used["flags"] & _DUPFIXED, used["width"], _NODES).astype(np.int64)
        else:
            large = (used["leaves"] > self._most_leaves) & (depths > 1)
            self._complete &= not large.any()
            widths = np.where(large, _LEAVES_UNREAD, _NODES)
        roots = used["root"].astype(np.int64)
        for depth in np.unique(depths).tolist():
            self._await(depth - 1, roots[depths == depth], widths[depths == depth])

    def _await(self, height: int, numbers: Numbers, widths: Numbers) -> None:
        self._note(numbers)
        self._waiting.setdefault(height, []).append((numbers, widths))

    def _note(self, numbers: Numbers) -> None:
        """Note that pages are in use; none can be so twice."""
        outside = (numbers < _META_PAGES) | (numbers >= self._seen.size)
        if outside.any():
            raise _SuspectError(f"page {int(numbers[outside][0])} is out of range")
        if (
            self._seen[numbers].any()
            or sort_distinct(numbers.astype(np.uint64)).size < numbers.size
        ):
            raise _SuspectError("a page is in two places")
        self._seen[numbers] = True

    def _read(self, numbers: Numbers, kinds: Numbers) -> tuple[Pages, NDArray[np.void]]:
        """Read pages, which must have these kinds, and their heads."""
        if (beyond := numbers >= len(self._pages)).any():
            raise _SuspectError(f"page {int(numbers[beyond][0])} is cut off")
        pages = self._pages[numbers]
        heads = np.ascontiguousarray(pages[:, :_HEAD_BYTES]).view(_HEAD)[:, 0]
        wrong = (heads["number"] != numbers.astype(np.uint64)) | (heads["kind"] != kinds)
        if wrong.any():
            raise _SuspectError(f"page {int(numbers[wrong][0])} is not what it should be")
        return pages, heads

    def _look(self, height: int, numbers: Numbers, widths: Numbers) -> None:
        """Look at pages that have so many levels below them."""
        least = 2 if height else 1
        packed = (widths > 0) if height == 0 else np.zeros(widths.shape, np.bool_)
        kinds = np.where(packed, _LEAF | _PACKED, _BRANCH if height else _LEAF)
        pages, heads = self._read(numbers, kinds)
        lower, upper = heads["lower"].astype(np.int64), heads["upper"].astype(np.int64)
        counts = (lower - _HEAD_BYTES) // 2
        wrong = (counts < least) | (lower % 2 > 0) | (lower > upper) | (upper > _PAGE_BYTES)
        wrong |= packed & (heads["width"] != widths)
        wrong |= packed & (counts * widths > _PAGE_BYTES - _HEAD_BYTES)
        if wrong.any():
            raise _SuspectError(f"page {int(numbers[wrong][0])} has a wrong head")
        nodes = _Nodes(pages, np.where(packed, 0, counts), upper)
        if height == 0:
            self._look_at_leaves(nodes)
            return
        nodes.require_filled(np.zeros(nodes.key.shape, np.int64))
        children = nodes.low | nodes.high << 16 | nodes.flags << 32
        widths = widths[nodes.row]
        unread = (widths == _LEAVES_UNREAD) & (height == 1)
        self._note(children[unread])
        self._await(height - 1, children[~unread], widths[~unread])

    def _look_at_leaves(self, nodes: _Nodes) -> None:
        sizes, flags = nodes.low | nodes.high << 16, nodes.flags & (_BIG | _TREE | _ROWS)
        big, tree, rows = flags == _BIG, (flags & _TREE) > 0, (flags & _ROWS) > 0
        if not np.isin(flags, (0, _BIG, _TREE, _TREE | _ROWS, _ROWS)).all():
            raise _SuspectError("a row is of an unknown kind")
        if (sizes[tree] != _DB.itemsize).any():
            raise _SuspectError("a database has no root")
        nodes.require_filled(np.where(big, 8, sizes))
        for within in (False, True):
            self._enter(nodes.read(tree & (rows == within), _DB), within=within)
        _look_at_rows(nodes, rows & ~tree, sizes)
        firsts = nodes.read(big, np.dtype("<u8")).astype(np.int64)
        needed = (_HEAD_BYTES - 1 + sizes[big]) // _PAGE_BYTES + 1
        if needed.sum() > self._seen.size:
            raise _SuspectError("a value is longer than the file")
        self._note(np.repeat(firsts - np.cumsum(needed) + needed, needed) + np.arange(needed.sum()))
        _, heads = self._read(firsts, np.full(firsts.shape, _OVERFLOW))
        counts = heads["lower"].astype(np.int64) | heads["upper"].astype(np.int64) << 16
        if (counts != needed).any() or (firsts + needed > len(self._pages)).any():
            raise _SuspectError("a long value is cut off")
        if self._free is not None:
            self._list_free(nodes, np.flatnonzero(~big), sizes)
            for first, size in zip(firsts.tolist(), sizes[big].tolist(), strict=True):
                start = first * _PAGE_BYTES + _HEAD_BYTES
                self._add_free(self._pages.reshape(-1)[start : start + size].tobytes())

    def _list_free(self, nodes: _Nodes, places: Numbers, sizes: Numbers) -> None:
        for place in places.tolist():
            start = int(nodes.data[place])
            self._add_free(nodes.pages[nodes.row[place], start : start + sizes[place]].tobytes())

    def _add_free(self, value: bytes) -> None:
        """Take a list of free pages: their number, then those of the pages."""
        assert self._free is not None  # noqa: S101 - only while these are walked
        if len(value) % 8 or len(value) // 8 != 1 + int.from_bytes(value[:8], "little"):
            raise _SuspectError("a list of free pages has a wrong length")
        self._free.append(value[8:])


def _read_metas(data: Path) -> Pages:
    """Read the meta pages until they are twice the same: a commit may be writing one of them."""
    while True:
        octets, again = (np.fromfile(data, np.uint8, _META_PAGES * _PAGE_BYTES) for _ in range(2))
        if octets.size < _META_PAGES * _PAGE_BYTES:
            raise _SuspectError("the file is too short")
        if np.array_equal(octets, again):
            return octets.reshape(_META_PAGES, _PAGE_BYTES)


class _Nodes:
    """The nodes of pages, one after the other: `row` is the place of their page among these."""

    def __init__(self, pages: Pages, counts: Numbers, upper: Numbers) -> None:
        self.pages = pages
        self.row = np.repeat(np.arange(counts.size), counts)
        nth = np.arange(self.row.size) - np.repeat(np.cumsum(counts) - counts, counts)
        self._upper = upper
        self._at = self._take(_HEAD_BYTES + 2 * nth, 2).view("<u2")[:, 0].astype(np.int64)
        if ((self._at < upper[self.row]) | (self._at > _PAGE_BYTES - _NODE_BYTES)).any():
            raise _SuspectError("a node is outside of its page")
        heads = self._take(self._at, _NODE_BYTES).view("<u2").astype(np.int64)
        self.low, self.high, self.flags, self.key = heads.T
        self.data = self._at + _NODE_BYTES + self.key

    def _take(self, at: Numbers, length: int) -> NDArray[np.uint8]:
        octets: NDArray[np.uint8] = self.pages[self.row[:, None], at[:, None] + np.arange(length)]
        return octets

    def require_filled(self, sizes: Numbers) -> None:
        """Raise an error unless nodes with data of these sizes fill their pages to the end."""
        octets = _NODE_BYTES + self.key + sizes
        if (self._at + octets > _PAGE_BYTES).any():
            raise _SuspectError("a node is longer than its page")
        filled = np.bincount(self.row, octets + octets % 2, self._upper.size)
        held = np.bincount(self.row, minlength=self._upper.size) > 0
        if (filled[held] != _PAGE_BYTES - self._upper[held]).any():
            raise _SuspectError("the nodes of a page overlap")

    def read(self, wanted: NDArray[np.bool_], kind: np.dtype[Any]) -> NDArray[Any]:
        """Read the data of some nodes as records of one kind; shape (n,)."""
        some = self.data[wanted, None] + np.arange(kind.itemsize)
        if some.size and some.max() >= _PAGE_BYTES:
            raise _SuspectError("a node is longer than its page")
        found = np.ascontiguousarray(self.pages[self.row[wanted, None], some]).view(kind)
        return found.reshape(-1)


def _look_at_rows(nodes: _Nodes, wanted: NDArray[np.bool_], sizes: Numbers) -> None:
    """Look at the pages within nodes that have all rows of a key."""
    sizes = sizes[wanted]
    if (sizes < _HEAD_BYTES).any():
        raise _SuspectError("the rows of a key have no head")
    heads = nodes.read(wanted, _HEAD)
    counts = (heads["lower"].astype(np.int64) - _HEAD_BYTES) // 2
    wrong = (heads["kind"] | _DIRTY) != (_DIRTY | _LEAF | _PACKED | _SUBPAGE)
    wrong |= (counts < 1) | (heads["width"] == 0)
    wrong |= counts * heads["width"].astype(np.int64) > sizes - _HEAD_BYTES
    if wrong.any():
        raise _SuspectError("the rows of a key are not what they should be")
