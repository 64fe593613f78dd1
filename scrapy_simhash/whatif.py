"""The command what-if: stored pages judged again by other settings, without fetching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from scrapy_simhash.config import default_distance
from scrapy_simhash.inspection import open_as_it_is
from scrapy_simhash.nearindex import check_near_distance
from scrapy_simhash.replay import Rule, choose_documents, replay
from scrapy_simhash.store_stats import list_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.config import Config
    from scrapy_simhash.replay import Replayed
    from scrapy_simhash.stored import StoredDocument

KEPT_TO_DROPPED, DROPPED_TO_KEPT = "kept -> dropped", "dropped -> kept"
_CHANGES_SHOWN = 20


def what_if(
    config: Config,
    distance: int | None,
    confirm: float | str | None,
    scope: str | None,
    top: int | None,
    *,
    json: bool,
) -> Iterator[dict[str, Any]]:
    """Say which decisions other settings would change.

    Args:
        config: the settings in force.
        distance: bits, 0 to 15; None for those in force, or the default of plain simhash where
            only that is asked for.
        confirm: 0 to 1, or "none" for plain simhash; None for what is in force.
        scope: `global`, `site` or `host`; None for the scopes the pages were judged in.
        top: list so many changes; None for 20, or with `json` all.
        json: for a program.

    Raises:
        ValueError: the distance is out of range.
    """
    from scrapy_simhash.scopes import SCOPES  # noqa: PLC0415 - loads tldextract

    rule = _make_rule(config, distance, confirm)
    check_near_distance(rule.distance)  # before all is read
    with open_as_it_is(config) as store:
        stored = list_documents(store)
        bulk_loaded = store.bulk_loaded()
    if not stored:
        return
    documents = choose_documents(stored, rule)
    page: Any = None  # these three scopes look at the URL only
    scopes = (SCOPES[scope](each.url, page) for each in documents) if scope else None
    judged = replay(documents, bulk_loaded, rule, scopes)
    # `disable=None` shows the bar on a terminal only.
    with tqdm(judged, total=len(documents), unit=" pages", disable=None) as bar:
        answer = count_changes(bar, {each.document: each for each in stored})
    changes = answer.pop("changes")
    most = top if top is not None else None if json else _CHANGES_SHOWN
    yield {
        "distance": rule.distance,
        "confirm": rule.confirm,
        "scope": scope,
        "documents": len(documents),
        "left_out": len(stored) - len(documents),
        **answer,
        "changes": changes[:most],
    }


def _make_rule(config: Config, distance: int | None, confirm: float | str | None) -> Rule:
    if confirm is None:
        return Rule(
            config.distance if distance is None else distance, config.confirm, config.min_features
        )
    similarity = None if isinstance(confirm, str) else confirm
    if distance is None:
        same_kind = (similarity is None) == (config.confirm is None)
        distance = config.distance if same_kind else default_distance(similarity)
    return Rule(distance, similarity, config.min_features)


def count_changes(judged: Iterable[Replayed], stored: dict[int, StoredDocument]) -> dict[str, Any]:
    """Compare decisions with those of the store.

    Args:
        judged: see `replay`.
        stored: all documents by their numbers.

    Returns:
        `dropped_before` and `dropped_then`; `kept_to_dropped`, `dropped_to_kept` and
        `other_original` (dropped both times, for another page), how many; `changes`: those whose
        decision changed, each with `url`, `change`, `match_url` (of what it would be dropped for,
        or was; None for an imported fingerprint), `distance` in bits and `similarity`.
    """
    before = then = other = 0
    changes = []
    for each in judged:
        document, match = each
        before += each.was_dropped
        then += match is not None
        if match is not None and not each.was_dropped:
            changes.append(
                {
                    "url": document.url,
                    "change": KEPT_TO_DROPPED,
                    "match_url": match.url,
                    "distance": match.distance,
                    "similarity": match.similarity,
                }
            )
        elif match is not None:
            other += match.document != document.original
        elif each.was_dropped:
            original = stored.get(document.original)
            changes.append(
                {
                    "url": document.url,
                    "change": DROPPED_TO_KEPT,
                    "match_url": original.url if original else None,
                    "distance": document.distance,
                    "similarity": document.similarity,
                }
            )
    return {
        "dropped_before": before,
        "dropped_then": then,
        "kept_to_dropped": sum(each["change"] == KEPT_TO_DROPPED for each in changes),
        "dropped_to_kept": sum(each["change"] == DROPPED_TO_KEPT for each in changes),
        "other_original": other,
        "changes": changes,
    }
