"""What every store answers from its fingerprints and recorded pairs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from scrapy_simhash.batch import batch_query
from scrapy_simhash.clusters import connected_clusters, merge_pairs, representative_clusters
from scrapy_simhash.selfjoin import find_all

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray


class StoreQueries(Protocol):
    """See `stores.Store` for what the methods do."""

    distance: int

    def fingerprints(self, *, delivered: bool = False) -> NDArray[np.uint64]:
        """See `stores.Store`."""

    def recorded_pairs(self) -> NDArray[np.uint64]:
        """See `stores.Store`."""

    def close(self) -> None:
        """See `stores.Store`."""

    def find_all(self, distance: int | None = None) -> NDArray[np.uint64]:
        """See `stores.Store`."""
        return find_all(self.fingerprints(), self._bits(distance))

    def find_clusters(
        self, distance: int | None = None, *, representative: bool = False
    ) -> list[list[int]]:
        """See `stores.Store`."""
        pairs = merge_pairs(self.find_all(distance), self.recorded_pairs())
        clusters = representative_clusters(pairs) if representative else connected_clusters(pairs)
        return [cluster.tolist() for cluster in clusters]

    def batch_query(
        self, queries: NDArray[np.uint64], distance: int | None = None
    ) -> NDArray[np.uint64]:
        """See `stores.Store`."""
        return batch_query(queries, [self.fingerprints()], self._bits(distance))

    def _bits(self, distance: int | None) -> int:
        return self.distance if distance is None else distance

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
