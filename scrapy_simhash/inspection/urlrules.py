"""Find rules on addresses in the pages of a store, and let these pages speak against a list."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Any

from tldextract import tldextract

from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.judging.comparison import Outcome
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.pages.addresses import format_address, parse_address, split_url
from scrapy_simhash.pages.scopes import find_site
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.urls.learning import Vote, learn, list_voters, list_votes, lower_bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.urls.learning import FoundRule

# The newest; 2.5 KB each.
_PAGES_OF_SITE = 2**15
_PAGES_PER_READ = 1_000
_PAIRS_SHOWN = 3


def find_rules(config: Config) -> list[FoundRule]:
    """Find the rules that the stored pages propose, those that are proven first."""
    found = [each for pages, rule in _read_sites(config) for each in learn(pages, rule)]
    return sorted(found, key=lambda each: (not each.directories, -len(each.votes), str(each.rule)))


def _read_sites(config: Config) -> Iterator[tuple[list[StoredDocument], Rule]]:
    """Read the pages of each site, in the order in which they arrived, and how to compare them."""
    sites: defaultdict[str, deque[int]] = defaultdict(partial(deque, maxlen=_PAGES_OF_SITE))

    def note(page: StoredDocument) -> None:
        parts = split_url(page.url)
        if parts is not None:
            sites[find_site(parts.netloc)].append(page.document)

    with open_as_it_is(config.store) as store:
        store.visit(note)
        for numbers in sites.values():
            read = map(store.get_documents, cut(numbers, _PAGES_PER_READ))
            yield [page for pages in read for page in pages], Rule(store.distance, config.confirm)


def describe(rule: str, votes: Iterable[Vote], directories: Iterable[str] = ()) -> dict[str, Any]:
    """Describe a rule and the votes on it, ready for JSON."""
    pairs: dict[Outcome, list[tuple[str, str]]] = {outcome: [] for outcome in Outcome}
    for vote in votes:
        pairs[vote.outcome].append(vote.pair)
    counts = {outcome.name.lower(): len(found) for outcome, found in pairs.items()}
    return {
        "rule": rule,
        "directories": list(directories),
        **counts,
        "lower_bound": round(lower_bound(counts["same"], counts["different"]), 4),
        "pairs_different": pairs[Outcome.DIFFERENT][-_PAIRS_SHOWN:],
        "pairs_same": pairs[Outcome.SAME][:_PAIRS_SHOWN],
    }


def audit(config: Config, path: Path) -> Iterator[dict[str, Any]]:
    """Compare the stored pages of which a list of duplicate-url-discarder makes one.

    Raises:
        InspectionError: duplicate-url-discarder is not installed.
        ValueError: the file is no such list.
        PartlyFailedError: rules make one of different pages.
    """
    try:
        from duplicate_url_discarder.url_canonicalizer import UrlCanonicalizer  # noqa: PLC0415
    except ImportError:
        raise InspectionError(
            "--audit applies a list as duplicate-url-discarder does, which is not installed: "
            "pip install duplicate-url-discarder"
        ) from None
    # It would download the list of public suffixes.
    vars(tldextract)["extract"] = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    try:
        canonicalizer = UrlCanonicalizer([path])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: no list of duplicate-url-discarder ({error!r})") from None

    votes: defaultdict[int, list[Vote]] = defaultdict(list)
    for stored, rule in _read_sites(config):
        pages = list_voters(stored)
        changed: defaultdict[int, dict[int, str]] = defaultdict(dict)
        for page in pages:
            for place in canonicalizer.url_matcher.match_all(page.facts.url):
                form = parse_address(canonicalizer.processors[place].process(page.facts.url))
                changed[place][page.facts.document] = format_address(form) if form else page.text
        for place, forms in changed.items():
            formed = ((page, forms.get(page.facts.document, page.text)) for page in pages)
            votes[place] += list_votes(formed, rule)
    found = []
    for place, some in votes.items():
        processor, patterns = canonicalizer.processors[place], canonicalizer.url_matcher.patterns
        words = type(processor).__name__, *map(str, processor.args), *patterns[place].include
        found.append(describe(" ".join(words), some))
    found.sort(key=lambda each: (-each["different"], -each["same"], each["rule"]))
    yield from found
    if wrong := sum(each["different"] > 0 for each in found):
        raise PartlyFailedError(f"{wrong:,} of {len(found):,} rules make one of different pages")
