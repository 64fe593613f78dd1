"""The pairs of a corpus judged with several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    from evaluate import Judged
    from labels import Corpus

    from scrapy_simhash.config import Config


def judge_by_seed(
    corpus: Corpus, config: Config, seeds: int, advance: Callable[[], object] = lambda: None
) -> list[tuple[dict[str, Any], list[Judged]]]:
    """Evaluate a corpus with the seeds 0 to `seeds` - 1; `advance` is called for each page."""
    return [evaluate(corpus, config, advance, seed) for seed in range(seeds)]
