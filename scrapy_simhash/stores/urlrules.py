"""The part of a store's interface that is about URL rules and parked requests."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from scrapy_simhash._printable import describe_error
from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging import Rule
from scrapy_simhash.judging.urls import book
from scrapy_simhash.judging.urls.learner import Learner
from scrapy_simhash.judging.urls.records import (
    AnyRow,
    Link,
    Parked,
    RuleState,
    UrlRuleRecord,
    unpack_row,
)
from scrapy_simhash.judging.urls.sampling import check_sample
from scrapy_simhash.stores import parking
from scrapy_simhash.stores.keyvalues import ROW_TABLES
from scrapy_simhash.stores.links import keep_links
from scrapy_simhash.stores.parking import (
    FormFound,
    Parking,
    ParkingAnswer,
    ParkingGroup,
    TakenRequest,
    find_target,
    list_released,
    list_wrong,
    release,
    sample,
    scan_parked,
    take_released,
)
from scrapy_simhash.stores.rows import SpentForms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from scrapy_simhash.judging import Document, Verdict
    from scrapy_simhash.judging.urls.book import RuleAction
    from scrapy_simhash.judging.urls.evidence import Outcome
    from scrapy_simhash.judging.urls.learner import UrlLearning
    from scrapy_simhash.judging.urls.records import RuleChange, UrlRule
    from scrapy_simhash.judging.urls.sampling import Sample
    from scrapy_simhash.stores.documents import Documents

Result = TypeVar("Result")
# By table, its keys and rows.
UrlRows: TypeAlias = "dict[str, list[tuple[bytes, bytes]]]"
_DECIDED: dict[RuleState, RuleAction] = {RuleState.PINNED: "pin", RuleState.BANNED: "ban"}

# A transaction that moves so many requests locks the store for some milliseconds.
_REQUESTS_PER_GROUP = 1_000
_RETIRED_LONG_SECONDS = 30 * 86_400


class UrlRuleStore(ABC):
    """The methods of a `Store` that concern URL rules.

    Attributes:
        rules_version: `url_rules_version` as the last `find_and_add` with `urls` or `parking` saw
            it; -1 before.
        rule_changes: the rules whose states the last `find_and_add` with `urls` changed.
        learning_errors: what went wrong with rules in the last `find_and_add`, in words.
    """

    seed: int
    distance: int
    confirm: float | None
    readonly: bool
    rules_version = -1
    rule_changes: tuple[RuleChange, ...] = ()
    learning_errors: list[str]

    # Errors of the store itself, damage aside. No other error of learning fails a transaction.
    _store_errors: tuple[type[Exception], ...] = (StoreError, OSError)
    # All parked requests were looked at when the version was this one.
    _looked_at = -1
    # Requests that this store parked for a document which was pending.
    _unsettled: set[bytes]

    @abstractmethod
    def read(self, work: Callable[[Documents], Result]) -> Result: ...

    @abstractmethod
    def write(self, work: Callable[[Documents], Result]) -> Result: ...

    @abstractmethod
    def _is_alive(self, crawl: str) -> bool: ...

    def _tend_rules(
        self,
        stored: Documents,
        judged: Iterable[tuple[Document, Verdict]],
        urls: UrlLearning | None,
        group: ParkingGroup | None,
        alive: Callable[[str], bool],
    ) -> list[ParkingAnswer]:
        """Learn from documents that were just judged, then park and unpark requests."""
        if self.readonly:
            return []
        if urls is not None:
            changes: list[RuleChange] = []
            for document, verdict in judged:
                with self._judging_anyway():
                    changes += self._learner.learn(stored, document, verdict, urls)
            self.rule_changes = tuple(changes)
        answers = []
        if group is not None:
            parking.unpark(stored, group.unparked)
            answers = parking.park(stored, group.wanted, alive, self.seed)
        self.rules_version = book.read_version(stored)
        return answers

    def _list_witnesses(
        self, stored: Documents, urls: UrlLearning, document: Document
    ) -> list[tuple[str, int]]:
        """List what URL rules say of a page; nothing where that fails, or it is to check them."""
        if urls.is_sample(document):
            return []
        with self._judging_anyway():
            return self._learner.list_witnesses(stored, document.url)
        return []

    @contextmanager
    def _judging_anyway(self) -> Iterator[None]:
        """Note what goes wrong with rules: it must not cost a page its judgement."""
        try:
            yield
        except Exception as error:
            damaged = isinstance(error, DamagedError)  # `check` lists the row
            if isinstance(error, self._store_errors) and not damaged:
                raise
            self.learning_errors.append(str(error) if damaged else describe_error(error))

    @cached_property
    def _learner(self) -> Learner:
        return Learner(Rule(self.distance, self.confirm))

    def url_rules(self, host: str | None = None) -> list[UrlRuleRecord]:
        """List all rules with their evidence, or those of one host, by their text."""
        return self.read(lambda stored: book.list_rules(stored, host))

    def get_url_rule(self, rule_id: str) -> UrlRuleRecord | None:
        """Get the rule of an id (16 hex digits), or None."""
        return self.read(lambda stored: book.get_rule(stored, rule_id))

    def url_rules_version(self) -> int:
        """Read the counter that grows when a rule changes its state; one row."""
        return self.read(book.read_version)

    def list_acting_rules(self) -> tuple[int, list[UrlRule]]:
        """List the rules that act now, with their version; two rows."""
        return self.read(lambda stored: (book.read_version(stored), book.list_acting(stored)))

    def change_url_rule(self, rule_id: str, action: RuleAction) -> UrlRuleRecord:
        """Change the state of a rule because a person says so.

        What a rule parked is requested again once it does not act any more.

        Args:
            rule_id: 16 hex digits.
            action: `pin` (it acts whatever its votes), `ban` (it never acts), `retire` (it does not
                act now; votes may prove it again), or `learn` (its votes decide again).

        Raises:
            ValueError: there is no such rule or action, or the rule can never act.
        """
        now = time.time()
        changed = self.write(lambda stored: book.change_rule(stored, rule_id, action, now))
        if not changed.acts:
            self.release_wrong()
        return changed

    def add_url_rules(self, rules: Iterable[UrlRule]) -> list[UrlRuleRecord]:
        """Add rules of a file as candidates without votes; returns those that are new.

        Raises:
            ValueError: one of them is no rule; nothing was added.
        """
        rules, now = list(rules), time.time()
        return self.write(lambda stored: book.add_rules(stored, rules, now))

    def find_form(self, rule_id: str, form: str) -> FormFound | None:
        """Find the document that a normal form leads to under a rule, or None.

        Args:
            rule_id: 16 hex digits.
            form: an address that the rule made.
        """
        return self.read(lambda stored: find_target(stored, rule_id, form, self._is_alive))

    def park(self, wanted: Sequence[Parking]) -> list[ParkingAnswer]:
        """Park those requests that may be parked, in one durable transaction.

        A request may be parked if all rules that lead it to a target act, that target was delivered
        or is pending in a crawl that is alive, was fetched for the same callback, and is no sink,
        and the request is that of no document. At most a million requests are parked. A request
        of the same spider and identity takes the place of an earlier one.

        Returns:
            One answer for each request, once all are on disk.

        Raises:
            StoreUnavailableError: nothing was parked.
        """
        alive, seed = self._is_alive, self.seed
        answers = self.write(lambda stored: parking.park(stored, wanted, alive, seed))
        self._note_parked(answers)
        return answers

    def _note_parked(self, answers: list[ParkingAnswer], group: ParkingGroup | None = None) -> None:
        """Note what became of requests, once that is on disk."""
        self._unsettled.update(answer.key for answer in answers if answer.pending)
        if group is not None:
            group.answers = answers

    def unpark(self, keys: Sequence[bytes]) -> None:
        """Forget requests that were made again, by the keys that they were taken with."""
        self.write(lambda stored: parking.unpark(stored, keys))

    def take_parked(self, crawl: str, spider: str, most: int = 1_000) -> list[TakenRequest]:
        """Hand a running crawl the parked requests that must be made after all.

        These are requests of this crawl and of the spider's crawls that ended whose rule was
        retired or banned, whose target was deleted or never delivered, or that were released by
        hand. Each is handed to a crawl once; a later crawl gets it until it is unparked. When rules
        changed, all parked requests are looked at.

        Args:
            crawl: id of the crawl.
            spider: name of its spider; only requests of this spider can be made by it.
            most: how many to hand out at once.
        """
        version = self.url_rules_version()
        self._release_wrong(None if version != self._looked_at else self._unsettled)
        self._looked_at = version
        alive = self._is_alive
        # Nearly always there are none; no need to wait for other writers.
        while keys := self.read(lambda stored: list_released(stored, alive, crawl, spider, most)):
            free = partial(take_released, alive=alive, crawl=crawl, spider=spider, keys=keys)
            if taken := self.write(free):  # or else others took them meanwhile
                return taken
        return []

    def release_wrong(self) -> None:
        """Release all parked requests whose rule or target does not hold any more; reads them."""
        self._release_wrong(None)

    def _release_wrong(self, keys: Collection[bytes] | None) -> None:
        """Look at the requests with these keys, or at all."""
        if keys is not None and not keys:
            return
        if not self.read(lambda stored: stored.count_rows("parked")):
            self._unsettled.clear()
            return
        alive = self._is_alive
        wrong, pending = self.read(lambda stored: list_wrong(stored, alive, keys))
        for start in range(0, len(wrong), _REQUESTS_PER_GROUP):
            self.write(partial(self._release_some, wrong[start : start + _REQUESTS_PER_GROUP]))
        self._unsettled = set(pending)

    def _release_some(self, keys: Sequence[bytes], stored: Documents) -> int:
        wrong, _ = list_wrong(stored, self._is_alive, keys)  # things may have changed
        return release(stored, wrong)

    def release_parked(self, rule_id: str | None = None, url: str | None = None) -> int:
        """Let parked requests of a rule, or with a URL, be made again; returns how many.

        The rule goes on to act. Reads all parked requests of the rule, or all.
        """
        prefix = bytes.fromhex(rule_id or "")

        def find(stored: Documents) -> list[bytes]:
            rows = scan_parked(stored, "parked", prefix)
            return [key for key, parked in rows if url in (None, parked.url)]

        keys = self.read(find)
        return sum(
            self.write(partial(_release_these, keys[start : start + _REQUESTS_PER_GROUP]))
            for start in range(0, len(keys), _REQUESTS_PER_GROUP)
        )

    def sample_parked(
        self, crawl: str, spider: str, share: float, most: int = 1_000
    ) -> list[TakenRequest]:
        """Hand a running crawl a sample of what each acting rule parked, to check the rules.

        Args:
            crawl: id of the crawl.
            spider: name of its spider; only its requests are chosen.
            share: of the parked requests of each rule, 0 to 1; but three of each at least.
            most: how many to hand out in all.
        """
        alive = self._is_alive
        return self.write(lambda stored: sample(stored, alive, crawl, spider, share, most))

    def check_sample(self, sample: Sample) -> Outcome | None:
        """Let a page vote on the rules that would have spared its request; one transaction.

        One `different` retires them. Sets `rule_changes` and `rules_version`.

        Returns:
            Its vote, or None if nobody can tell, and it has none.

        Raises:
            StoreUnavailableError: it did not vote.
        """
        rule, now = Rule(self.distance, self.confirm), time.time()

        def work(stored: Documents) -> tuple[Outcome | None, list[RuleChange], int]:
            outcome, changes = check_sample(stored, sample, rule, now)
            return outcome, changes, book.read_version(stored)

        outcome, changes, self.rules_version = self.write(work)
        self.rule_changes = tuple(changes)
        return outcome

    def parked(self, rule_id: str | None = None) -> Iterator[Parked]:
        """List the parked requests of a rule (16 hex digits), or all, those released included.

        Reads them at once; some 700 bytes each.
        """
        prefix = bytes.fromhex(rule_id or "")
        rows = self.read(lambda stored: list(stored.scan_rows("parked", prefix)))
        if rule_id is None:
            rows += self.read(lambda stored: list(stored.scan_rows("released")))
        for key, packed in rows:
            found = parking.read_parked(key, packed)
            if found is not None:
                yield found

    def sweep_url_forms(self) -> int:
        """Forget what was noted of addresses and no rule needs any more; returns how many rows.

        These are normal forms of rules that are gone or banned, or were retired more than 30 days
        ago, and of documents that were deleted. Reads all of them, and the documents' records, a
        thousand at a time; keeps the keys, some 60 bytes each.
        """
        before = time.time() - _RETIRED_LONG_SECONDS

        def find(stored: Documents, keys: Sequence[bytes]) -> list[bytes]:
            return list(SpentForms(stored, before).find(keys))

        def drop(stored: Documents, keys: Sequence[bytes]) -> int:
            spent = find(stored, keys)  # things may have changed
            for key in spent:
                stored.drop_row("forms", key)
            return len(spent)

        dropped = 0
        every = self.read(lambda stored: [key for key, _ in stored.scan_rows("forms")])
        for start in range(0, len(every), _REQUESTS_PER_GROUP):
            keys = self.read(partial(find, keys=every[start : start + _REQUESTS_PER_GROUP]))
            if keys:
                dropped += self.write(partial(drop, keys=keys))
        return dropped

    def read_url_rows(self) -> UrlRows:
        """Read all rows of the tables of URL rules, as `copy_url_rows` takes them; at once."""
        return self.read(lambda stored: {name: list(stored.scan_rows(name)) for name in ROW_TABLES})

    def copy_url_rows(self, rows: UrlRows) -> None:
        """Copy rows of a store whose documents were copied unchanged, with their numbers."""
        every = [(table, *row) for table, found in rows.items() for row in found]
        for start in range(0, len(every), _REQUESTS_PER_GROUP):
            self.write(partial(_put_rows, every[start : start + _REQUESTS_PER_GROUP]))

    def merge_url_rows(self, rows: UrlRows) -> None:
        """Take over the URL rules of another store whose documents were merged into this one.

        Its rules become candidates without votes, because its votes may be those of documents that
        this store has, too; what people decided there holds, unless they decided here. What was
        parked there is released: its targets have other numbers here. Links are taken over; walls
        are not, they are recognised again.
        """
        records = list(_decode(UrlRuleRecord, rows["rules"]))
        self.add_url_rules(record.rule for record in records)
        for record in records:
            here = self.get_url_rule(record.rule.id)
            action = _DECIDED.get(record.state)
            if action is not None and here is not None and here.state not in _DECIDED:
                self.change_url_rule(record.rule.id, action)
        requests = list(_decode(Parked, rows["parked"] + rows["released"]))
        for start in range(0, len(requests), _REQUESTS_PER_GROUP):
            some = requests[start : start + _REQUESTS_PER_GROUP]
            self.write(partial(parking.put_released, requests=some, seed=self.seed))
        links = list(_decode(Link, rows["links"]))
        for start in range(0, len(links), _REQUESTS_PER_GROUP):
            group = links[start : start + _REQUESTS_PER_GROUP]
            self.write(partial(keep_links, links=group, gone=()))


def _put_rows(rows: Sequence[tuple[str, bytes, bytes]], stored: Documents) -> None:
    stored.prefetch_rows((table, key) for table, key, _ in rows)
    for row in rows:
        stored.put_row(*row)


def _decode(kind: type[AnyRow], rows: Iterable[tuple[bytes, bytes]]) -> Iterator[AnyRow]:
    """Read the undamaged ones of some rows."""
    for key, row in rows:
        with suppress(DamagedError):
            yield unpack_row(kind, key, row)


def _release_these(keys: Sequence[bytes], stored: Documents) -> int:
    return release(stored, keys)
