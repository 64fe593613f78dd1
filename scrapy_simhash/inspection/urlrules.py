"""Look at URL rules: list them, show their votes and pairs, audit them on the pages of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.errors import InspectionError, suggest
from scrapy_simhash.inspection.explanation import compare_stored
from scrapy_simhash.stores import open_as_it_is
from scrapy_simhash.urls.proof import list_missing, lower_bound
from scrapy_simhash.urls.rules import RuleState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging import StoredDocument
    from scrapy_simhash.stores import Store
    from scrapy_simhash.urls import UrlRuleRecord

# What a person wants to see first.
_ORDER = {
    state: place
    for place, state in enumerate(
        [
            *(RuleState.PINNED, RuleState.ACTING, RuleState.LEARNING),
            *(RuleState.RETIRED, RuleState.BANNED),
        ]
    )
}


def list_rules(config: Config, host: str | None, state: str | None) -> Iterator[dict[str, Any]]:
    """List the rules of a store, those that act first; of one host or state, if named."""
    with open_as_it_is(config.store) as store:
        records = store.url_rules()
    for record in sort_rules(records):
        if host in {None, record.rule.host} and state in {None, record.state}:
            yield describe_rule(record) | _describe_proof(record)


def sort_rules(records: Iterable[UrlRuleRecord]) -> list[UrlRuleRecord]:
    """Sort rules: those that act first, and the best proven ones before others."""
    return sorted(records, key=lambda each: (_ORDER[each.state], -each.same, each.rule.text))


def describe_rule(record: UrlRuleRecord) -> dict[str, Any]:
    """Describe a rule for people, ready for JSON."""
    return {
        "rule": record.rule.text,
        "id": record.rule.id,
        "host": record.rule.host,
        "kind": record.rule.kind.value,
        "state": record.state.value,
        "wrong": is_wrong(record),
        "same": record.same,
        "different": record.different,
        "grey": record.grey,
        "lower_bound": round(lower_bound(record.same, record.different), 4),
        "directories": len(record.directories),
        "parked": record.parked,
        "sampled": record.sampled,
        "sampled_same": record.sampled_same,
        "sampled_different": record.sampled_different,
        "bytes_saved": record.bytes_saved,
        "imported": record.imported,
        "created": record.created,
    }


def _describe_proof(record: UrlRuleRecord) -> dict[str, Any]:
    """Say what a rule lacks that could be proven yet."""
    learns = record.state is RuleState.LEARNING
    return {"lacks": list_missing(record) if learns else []}


def is_wrong(record: UrlRuleRecord) -> bool:
    """Whether a pinned rule made one of two different pages: it is kept, and named."""
    return record.state is RuleState.PINNED and bool(record.different)


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
    """Show rules with their votes, then their pairs of pages: first those that are different.

    Args:
        config: the current settings.
        rules: texts or ids.
        html_path: write the texts of the pairs side by side to this file; or None.
        overwrite: replace an existing file.

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
        found = find_rules(store.url_rules(), rules)
        pairs = [(each, *pair) for each in found for pair in _list_pairs(each)]
        stored = _find_documents(store, {url for _, _, *urls in pairs for url in urls})
        for record in found:
            yield {
                **describe_rule(record),
                **_describe_proof(record),
                "history": [
                    {"time": time, "state": state.value, "reason": reason}
                    for time, state, reason in record.history
                ],
                "pairs": sum(each is record for each, *_ in pairs),
            }
            for each, voted, first, second in pairs:
                if each is record:
                    yield {
                        "rule": record.rule.text,
                        "voted": voted,
                        **_compare(config, store, stored, first, second),
                    }


def _list_pairs(record: UrlRuleRecord) -> Iterator[tuple[str, str, str]]:
    yield from (("different", *pair) for pair in reversed(record.conflicts))
    yield from (("same", *pair) for pair in record.examples)


def _find_documents(store: Store, urls: set[str]) -> dict[str, StoredDocument]:
    """Find documents by their URLs, with their texts; reads all records once."""
    numbers: dict[str, int] = {}

    def take(document: StoredDocument) -> None:
        if document.url in urls:
            numbers[document.url] = document.document

    if urls:
        store.visit(take)
    found = (store.get_document(number) for number in numbers.values())
    return {document.url: document for document in found if document is not None}


def _compare(
    config: Config, store: Store, stored: dict[str, StoredDocument], first: str, second: str
) -> dict[str, Any]:
    if missing := [url for url in (first, second) if url not in stored]:
        were = "was" if len(missing) == 1 else "were"
        return {
            "verdict": f"{' and '.join(missing)} {were} deleted since",
            "pages": [{"url": first}, {"url": second}],
        }
    return compare_stored(config, store, stored[first], stored[second])
