"""Look at URL rules: list them, show their votes, and let pages vote on those of a file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy_simhash.errors import InspectionError, PartlyFailedError, suggest
from scrapy_simhash.inspection.explanation import compare_pages
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.urls.applying import ActingRules
from scrapy_simhash.urls.proof import describe_missing, lower_bound
from scrapy_simhash.urls.rules import RuleState, parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.stores.store import Store
    from scrapy_simhash.urls.rules import UrlRule, UrlRuleRecord

_RULES_SHOWN = 30

# What a person wants to see first.
_ORDER = (
    *(RuleState.PINNED, RuleState.ACTING, RuleState.LEARNING),
    *(RuleState.RETIRED, RuleState.BANNED),
)


def list_rules(config: Config, host: str | None, state: str | None) -> Iterator[dict[str, Any]]:
    """List the rules of a store, those that act first; of one host or state, if named."""
    with open_as_it_is(config.store) as store:
        records, parked = store.url_rules(), store.owed.count_parked()
    for record in sort_rules(records):
        if host in {None, record.rule.host} and state in {None, record.state}:
            yield describe_rule(record, parked)


def sort_rules(records: Iterable[UrlRuleRecord]) -> list[UrlRuleRecord]:
    """Sort rules: those that act first, and the best proven ones before others."""
    return sorted(records, key=lambda each: (_ORDER.index(each.state), -each.same, each.rule.text))


def describe_rule(record: UrlRuleRecord, parked: Mapping[str, int]) -> dict[str, Any]:
    """Describe a rule for people, ready for JSON."""
    wrong = record.different or record.sampled_different
    return {
        "rule": record.rule.text,
        "id": record.rule.id,
        "host": record.rule.host,
        "kind": record.rule.kind.value,
        "state": record.state.value,
        "directories": record.directories,
        # A pinned rule that made one of two different pages is kept, and named.
        "wrong": record.state is RuleState.PINNED and bool(wrong),
        "same": record.same,
        "different": record.different,
        "grey": record.grey,
        "lower_bound": round(lower_bound(record.same, record.different), 4),
        "parked": parked.get(record.rule.id, 0),
        "sampled": record.sampled,
        "sampled_same": record.sampled_same,
        "sampled_different": record.sampled_different,
        "imported": record.imported,
        "created": record.created,
        "lacks": describe_missing(record) if record.state is RuleState.LEARNING else "",
    }


def find_rules(records: Iterable[UrlRuleRecord], words: Sequence[str]) -> list[UrlRuleRecord]:
    """Find rules by their texts or ids; the text of a single one may be given as several words.

    Raises:
        InspectionError: there is no such rule.
    """
    named = {record.rule.text: record for record in records}
    if record := named.get(" ".join(words)):
        return [record]
    by_id = {record.rule.id: record for record in named.values()}
    found = {word: by_id.get(word.lower()) or named.get(word) for word in words}
    missing = [word for word, record in found.items() if record is None]
    if missing and (whole := " ".join(words)) != missing[0] and not any(found.values()):
        missing = [whole]
    if missing:
        raise InspectionError(
            f"there is no rule {missing[0]!r}{suggest(missing[0], list(named))}; "
            "`scrapy simhash urls` lists them all"
        )
    return [record for record in found.values() if record]


def show_rule(
    config: Config, rules: Sequence[str], html_path: Path | None, *, overwrite: bool
) -> Iterator[dict[str, Any]]:
    """Show rules, by texts or ids, with their votes, then their pairs of pages.

    Pairs that are different come first. An HTML file gets the texts of the pairs side by side.

    Raises:
        InspectionError: there is no such rule, or no pair of texts to write.
        OSError: the file cannot be written.
    """
    answers = _show_rules(config, rules)
    if html_path is not None:
        from scrapy_simhash.inspection.report.page import write_differences  # noqa: PLC0415

        answers = iter(write_differences(list(answers), html_path, overwrite=overwrite))
    yield from answers


def _show_rules(config: Config, rules: Sequence[str]) -> Iterator[dict[str, Any]]:
    with open_as_it_is(config.store) as store:
        parked = store.owed.count_parked()
        for record in find_rules(store.url_rules(), rules):
            voters = _list_pairs(record)
            yield {
                **describe_rule(record, parked),
                "history": [
                    {"time": time, "state": state.value, "reason": reason}
                    for time, state, reason in record.history
                ],
                "pairs": len(voters),
            }
            for voted, *urls in voters:
                compared = _compare(config, store, *urls)
                yield {"rule": record.rule.text, "voted": voted, **compared}


def _list_pairs(record: UrlRuleRecord) -> list[tuple[str, str, str]]:
    different = [("different", *pair) for pair in reversed(record.conflicts)]
    return different + [("same", *pair) for pair in record.examples]


def _compare(config: Config, store: Store, *urls: str) -> dict[str, Any]:
    stored = {url: found[-1] for url in urls if (found := store.find_document(url))}
    if missing := [url for url in urls if url not in stored]:
        were = "was" if len(missing) == 1 else "were"
        return {
            "verdict": f"{' and '.join(missing)} {were} deleted since",
            "pages": [{"url": url} for url in urls],
        }
    return compare_pages(config, store, *(stored[url] for url in urls))


def audit(config: Config, rules_path: Path | None) -> Iterator[dict[str, Any]]:
    """Let the pages of a store vote on the rules of a file, or on its own that act.

    Yields the rules, those that most pages refute first, then the pairs that do.

    Raises:
        ValueError: the file contains anything else than rules.
        PartlyFailedError: rules give different pages one address.
        InspectionError: there is nothing to audit.
    """
    with open_as_it_is(config.store) as store:
        known = store.url_rules()
        rules = (
            read_rules(rules_path)
            if rules_path is not None
            else [record.rule for record in known if record.acts]
        )
        if not rules:
            raise InspectionError(
                "no rule of the store acts yet; name a file of rules, or see what it has learned "
                "so far: scrapy simhash urls"
            )
        records = store.count_url_votes(rules)
        for record in sorted(records, key=lambda each: (-each.different, -each.same)):
            yield describe_rule(record, {}) | {"pairs": len(record.conflicts)}
            for pair in reversed(record.conflicts):
                yield {"rule": record.rule.text, "voted": "different"} | _compare(
                    config, store, *pair
                )
    if wrong := sum(record.different > 0 for record in records):
        which = f"{wrong:,} rule{'s give' if wrong != 1 else ' gives'}"
        raise PartlyFailedError(f"{which} different pages one address")


def read_rules(path: Path) -> list[UrlRule]:
    """Read a file of rules; a ValueError names the line and the fault."""
    try:
        return parse_rules(path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 text (byte {error.start:,})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def describe_addresses(store: Store) -> dict[str, Any] | None:
    """Describe for the report what a store knows of addresses; None if it has no rules.

    `spared` counts the pages whose addresses rules that act now lead elsewhere.
    """
    records = sort_rules(store.url_rules())
    if not records:
        return None
    parked, acting = store.owed.count_parked(), ActingRules(store.list_acting_rules()[1])
    spared: Counter[str] = Counter()
    pages: list[bool] = []

    def count(page: StoredDocument) -> None:
        target = acting.find_target(page.url)
        pages.append(target is not None)
        spared.update(target.rules if target is not None else ())

    store.visit(count)
    rules = [{**describe_rule(each, parked), "spared": spared[each.rule.id]} for each in records]
    sums = ("parked", "sampled", "sampled_same", "sampled_different")
    return {
        "rules": rules[:_RULES_SHOWN],
        "rules_in_all": len(rules),
        "acting": len(acting.texts),
        "pages": len(pages),
        "skipped": sum(pages),
        **{name: sum(each[name] for each in rules) for name in sums},
    }
