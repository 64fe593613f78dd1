"""Look at URL rules: list them, show their votes, and audit which pages they would have lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy_simhash._progress import show_busy, track
from scrapy_simhash.errors import InspectionError, PartlyFailedError, suggest
from scrapy_simhash.inspection.explanation import compare_stored
from scrapy_simhash.inspection.rulefiles import (
    RuleFile,
    make_apply,
    read_rule_file,
)
from scrapy_simhash.judging.comparison import Outcome, compare, compare_pages
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.urls.proof import describe_missing, lower_bound
from scrapy_simhash.urls.rules import RuleState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.stores.store import Store
    from scrapy_simhash.urls.rules import UrlRuleRecord


# What a person wants to see first.
_ORDER = (
    *(RuleState.PINNED, RuleState.ACTING, RuleState.LEARNING),
    *(RuleState.RETIRED, RuleState.BANNED),
)


def list_rules(config: Config, host: str | None, state: str | None) -> Iterator[dict[str, Any]]:
    """List the rules of a store, those that act first; of one host or state, if named."""
    with open_as_it_is(config.store) as store:
        records, parked = store.url_rules(), count_parked(store)
    for record in sort_rules(records):
        if host in {None, record.rule.host} and state in {None, record.state}:
            yield describe_rule(record, parked)


def sort_rules(records: Iterable[UrlRuleRecord]) -> list[UrlRuleRecord]:
    """Sort rules: those that act first, and the best proven ones before others."""
    return sorted(records, key=lambda each: (_ORDER.index(each.state), -each.same, each.rule.text))


def count_parked(store: Store) -> dict[str, int]:
    """Count the requests that wait, by the ids of the rules that act; reads them all."""
    rules = [acting.rule.id for acting in store.list_acting_rules()[1]]
    return {rule: sum(1 for _ in store.parked(rule)) for rule in rules}


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
        parked = count_parked(store)
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
    first, second = (stored[url] for url in urls)
    return compare_stored(config, store, first, second)


_OUTCOMES = {Outcome.SAME: "same", Outcome.GREY: "grey", Outcome.DIFFERENT: "different"}


class Audit:
    """What rules would have done to the pages of a store, taken in the order of their arrival.

    The first page of each normal form is fetched, the others are skipped; with rules of ours only
    those whose address a rule changes. A skipped page is compared with the one that was fetched for
    it. If it is no near-duplicate of any page that was fetched, it is lost where it is different,
    and perhaps lost where that cannot be told.
    """

    def __init__(self, store: Store, rules: RuleFile, rule: Rule) -> None:
        self.pages = 0
        self.counts: Counter[str] = Counter()
        self.by_rule: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.named: dict[str, list[dict[str, Any]]] = {"lost": [], "perhaps_lost": []}
        self._store = store
        self._apply = rules.apply
        self._all_of_a_form = rules.foreign
        self._rule = rule
        self._settled: set[int] = set()  # originals of pages that were fetched, or named as lost
        self._get = lru_cache(maxsize=1_000)(store.get_document)
        skipped = self._skip()
        for each in track(skipped, "pages", len(skipped)):
            self._judge(*each)

    def _skip(self) -> list[tuple[int, int, str, tuple[str, ...]]]:
        """List the pages that would have been skipped: page, the one kept for it, form, rules."""
        seen: list[tuple[int, str, int]] = []
        with show_busy("reading the pages"):
            self._store.visit(
                lambda each: seen.append((each.document, each.url, each.original or each.document))
            )
        first: dict[str, int] = {}
        skipped = []
        for number, url, original in sorted(seen):
            form, rules = self._apply(url)
            kept = first.setdefault(form, number)
            if kept == number or not (rules or self._all_of_a_form):
                self._settled.add(original)
            else:
                skipped.append((number, kept, form, rules))
        self.pages = len(seen)
        return skipped

    def _judge(self, skipped: int, fetched: int, form: str, rules: tuple[str, ...]) -> None:
        """Compare a skipped page with the one that was fetched for it."""
        page, kept = self._get(skipped), self._get(fetched)
        if page is None or kept is None:  # deleted meanwhile
            return
        # Where only the first page of a form was changed by a rule, that one is to blame.
        rules = rules or self._apply(kept.url)[1]
        if page.stub and kept.stub and page.text_digest == kept.text_digest:
            outcome = "same"  # short pages have no vote
        else:
            outcome = _OUTCOMES[compare_pages(page, kept, self._rule)]
        original = page.original or page.document
        counted = ["skipped", outcome]
        if outcome != "same" and original not in self._settled:
            self._settled.add(original)
            verdict = "lost" if outcome == "different" else "perhaps_lost"
            counted.append(verdict)
            self.named[verdict].append(
                {
                    "url": page.url,
                    "kept_url": kept.url,
                    "form": form,
                    "rules": list(rules),
                    "why": list(compare(page, kept, self._rule).why),
                }
            )
        for counter in (self.counts, *(self.by_rule[each] for each in rules)):
            counter.update(counted)

    def describe(self) -> dict[str, Any]:
        """Return all counts, ready for JSON."""
        names = ("skipped", *_OUTCOMES.values(), "lost", "perhaps_lost")
        worst = sorted(
            self.by_rule.items(),
            key=lambda item: (-item[1]["lost"], -item[1]["skipped"], item[0]),
        )
        return {
            "pages": self.pages,
            **{name: self.counts[name] for name in names},
            "lost_pages": self.named["lost"],
            "perhaps_lost_pages": self.named["perhaps_lost"],
            "by_rule": [
                {"rule": rule, **{name: counts[name] for name in names}} for rule, counts in worst
            ],
        }


def audit(config: Config, rules_path: Path | None, top: int | None) -> Iterator[dict[str, Any]]:
    """Count how many distinct pages a file of rules would have lost on a store, and name them.

    Without a file, the rules of the store that act; `top` pages of each kind are listed, or all.

    Raises:
        ValueError: the file is none of rules.
        PartlyFailedError: pages would have been lost.
        InspectionError: there is nothing to audit.
    """
    given = read_rule_file(rules_path) if rules_path else None
    with open_as_it_is(config.store) as store:
        rules = given or gather_acting(store)
        if not rules.number:
            raise InspectionError(
                "no rule of the store acts yet; name a file of rules, or see what it has learned "
                "so far: scrapy simhash urls"
            )
        counted = Audit(store, rules, config.rule).describe()
    lost = counted["lost"]
    for name in ("lost_pages", "perhaps_lost_pages"):
        counted[name] = counted[name][:top]
    yield {
        "file": str(rules_path) if rules_path else None,
        "rules": rules.number,
        **counted,
    }
    if lost:
        raise PartlyFailedError(f"{lost:,} distinct pages would have been lost")


def gather_acting(store: Store) -> RuleFile:
    """Gather the rules of a store that act, with the directories where they do."""
    _, acting = store.list_acting_rules()
    return RuleFile(len(acting), tuple(each.rule for each in acting), make_apply(acting))


_RULES_SHOWN = 30


def describe_addresses(store: Store, rule: Rule) -> dict[str, Any] | None:
    """Describe for the report what a store knows of addresses; None if it has no rules.

    `spared` counts the pages that crawls fetched although rules which act now call them duplicates.
    """
    records = sort_rules(store.url_rules())
    if not records:
        return None
    acting, parked = gather_acting(store), count_parked(store)
    counted = Audit(store, acting, rule).describe() if acting.number else {}
    spared = {row["rule"]: row["skipped"] for row in counted.get("by_rule", ())}
    rules = [
        {**describe_rule(each, parked), "spared": spared.get(each.rule.text, 0)} for each in records
    ]
    sums = ("parked", "sampled", "sampled_same", "sampled_different")
    return {
        "rules": rules[:_RULES_SHOWN],
        "rules_in_all": len(rules),
        "acting": acting.number,
        **{name: sum(each[name] for each in rules) for name in sums},
        **{name: counted.get(name, 0) for name in ("pages", "skipped", "same", "grey", "lost")},
    }
