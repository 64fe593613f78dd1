"""What labels say of a store: precision and recall by distance, and which settings to take."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from scrapy_simhash.designs import parse_design
from scrapy_simhash.estimates import (
    Setting,
    Weighed,
    describe_distances,
    describe_setting,
    estimate,
    recommend,
    weigh,
)
from scrapy_simhash.quality import rounded
from scrapy_simhash.replay import Rule, choose_documents, replay
from scrapy_simhash.sampling import cell_of
from scrapy_simhash.store_stats import list_documents
from scrapy_simhash.whatif import count_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.quality import Judged
    from scrapy_simhash.stores import Store
    from scrapy_simhash.survey import Survey

_NAMES = {"dup": "same", "distinct": "different", "unknown": "unknown"}


def advise(
    store: Store,
    known: Survey,
    judged: Sequence[Judged],
    config: Config,
    problems: Sequence[str],
) -> dict[str, Any]:
    """Work out the figures of labelled pairs, and what they recommend.

    Args:
        store: of the pairs.
        known: how many pairs it has of each kind.
        judged: the labelled ones.
        config: the settings in force.
        problems: labels that could not be used.
    """
    told = [each for each in judged if each.pair.label != "unknown"]
    weights, unseen = weigh([cell_of(each.distance, each.similarity) for each in told], known.sizes)
    labels = [Weighed(*each) for each in zip(told, weights, strict=True)]
    in_force = Setting(config.distance, config.confirm)
    advised = recommend(labels, unseen, in_force, parse_design(store.design).reach_bits)
    counts = Counter(_NAMES[each.pair.label] for each in judged)
    return {
        "documents": known.documents,
        "pairs": round(sum(known.sizes.values())),
        "share_looked_at": round(known.share, 4),
        "labels": {name: counts[name] for name in _NAMES.values()},
        "pairs_at_unseen_distances": round(sum(unseen.values())),
        "in_force": describe_setting(labels, in_force),
        "by_distance": describe_distances(labels, known.sizes, config.confirm),
        "recommended": advised.setting and describe_setting(labels, advised.setting),
        "missing_labels": advised.missing,
        "why": advised.why,
        "change": None
        if advised.setting in {None, in_force}
        else _compare(store, labels, in_force, advised.setting, config),
        "problems": list(problems),
    }


def _compare(
    store: Store,
    labels: Sequence[Weighed],
    in_force: Setting,
    recommended: Setting,
    config: Config,
) -> dict[str, Any]:
    """Say what the recommended setting would have saved and lost in this store."""
    rule = Rule(recommended.distance, recommended.confirm, config.min_features)
    documents = choose_documents(list_documents(store), rule)
    judged = replay(documents, store.bulk_loaded(), rule)
    with tqdm(judged, total=len(documents), unit=" pages", disable=None) as bar:
        changes = count_changes(bar, {each.document: each for each in documents})
    return {
        "pages": len(documents),
        "more_drops": changes["kept_to_dropped"],
        **_share(
            "more_drops_wrong",
            labels,
            lambda judged: recommended.drops(judged) and not in_force.drops(judged),
        ),
        "fewer_drops": changes["dropped_to_kept"],
        **_share(
            "fewer_drops_wrong",
            labels,
            lambda judged: in_force.drops(judged) and not recommended.drops(judged),
        ),
    }


def _share(name: str, labels: Sequence[Weighed], among: Callable[[Judged], bool]) -> dict[str, Any]:
    """Estimate which share of some drops is wrong, by the labels that there are of them."""
    chosen = [each for each in labels if among(each.judged)]
    estimated = estimate((each.weight, not each.is_same) for each in chosen)
    return {
        f"{name}_share": rounded(estimated.share),
        f"{name}_interval": estimated.interval,
        f"{name}_labels": len(chosen),
    }
