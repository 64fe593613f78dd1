"""Which pages are asked for once more, doubts and checks, and what is learnt of it."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scrapy_simhash.judge.messages import Refetch
from scrapy_simhash.judging.documents import ASKS_NO_MORE
from scrapy_simhash.judging.matching import ASKED
from scrapy_simhash.judging.noise import folder_of
from scrapy_simhash.judging.slots import compare_values, learn
from scrapy_simhash.pages.addresses import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from scrapy_simhash.judging.hosts import Hosts
    from scrapy_simhash.judging.matching import Doubt
    from scrapy_simhash.judging.slots import Change, Slot
    from scrapy_simhash.judging.words import Page

# Of the judged pages of a crawl so many may be asked for once more, or as many as of one host.
_SHARE_OF_PAGES = 0.02
# As many checks as doubts, but half as many of what was confirmed before.
_SHARE_OF_CHECKS = 0.5
# So many pages of a folder a doubt may look for one, and twice as many of a host: each costs some
# 10 ms.
_ATTEMPTS = 25
# After so many doubts of a folder in a row of which no drop came, eight pages in doubt are passed
# over, then sixteen, and so on: a board of one folder that was given up kept nearly all its copies,
# and without a pause 500 pages of one folder take a fifth longer.
_MOST_IN_VAIN = 3
# A checked page that shows the same is asked for so many times: a counter of four values shows one
# of them in all of three answers in 1 of 64 checks, in all of five in 1 of 1,024.
_MOST_ASKED = 5
# A page in doubt so often, if what changed may be a price, is slow, or has another form: one of
# four values that are drawn anew stays in a fourth of all second looks.
_MOST_ASKED_IN_DOUBT = 3
# A clock that shows seconds stays the same within one: so long after it came a page in doubt is
# asked for once more, and so much later again. A check asks at once, since pages are dropped
# meanwhile on what it may refute.
_AGE_SECONDS, _PAUSES_SECONDS = 1.0, (0.1, 0.3, 0.6, 1.0)
# Of pages that are about what changes elsewhere (a joke, beside a random one) some may change, too:
# the first ones are all checked, or a site of live and ended matches lost all of those.
_FIRST_PAGES = 4
# Of doubts between addresses of two documents, which they are nearly always: at .2 the example
# drops 44 of its print views, at .3 60.
_SHARE_OF_FAR = 0.3
# Of hosts, folders and documents.
_MOST_REMEMBERED = 100_000
# Host and folder of a doubt, and whether it is a far one.
_Place: TypeAlias = tuple[str, str, bool]


class Asked(NamedTuple):
    """A page that is asked for once more.

    Attributes:
        doubt: about it.
        place: whose noise is checked; "" in a doubt.
        times: how often it was asked for.
        second: what it answered first, if it is asked for again.
        changed: what was not the same in one of its answers.
    """

    doubt: Doubt
    place: str = ""
    times: int = 1
    second: Page | None = None
    changed: tuple[Change, ...] = ()


class Refetches:
    """The pages that are asked for once more in a crawl.

    Args:
        most: doubts for each host of which no drop comes, as many of which one does, and checks.
        hosts: whose noise it is.
        say: takes a `Refetch`.
    """

    def __init__(self, most: int, hosts: Hosts, say: Callable[[Refetch], object]) -> None:
        self._most, self._hosts, self._say = most, hosts, say
        self.judged = 0  # pages of the crawl
        self._asked: dict[int, Asked] = {}
        self._done: set[int] = set()
        # Of a host; without those of which drops came, which pay for themselves.
        self._doubts, self._paid = Counter[tuple[str, bool]](), Counter[str]()
        self._attempts = Counter[_Place]()
        self._in_vain = Counter[_Place]()
        self._passed = Counter[_Place]()  # pages in doubt passed over since the last one
        # Without those that confirmed something, as many.
        self._checks, self._paid_checks = Counter[str](), Counter[str]()
        self._rests = Counter[str]()
        self._checked: set[tuple[str, int]] = set()  # places, and the documents asked for them
        # Slots of a place that changed on what was checked, and whether that was a dropped page.
        self._confirmed: set[tuple[str, Slot, bool]] = set()

    def find_bar(self, doubt: Doubt) -> str:
        """Find why a document may not be in doubt, for people, or return ""."""
        before = self._asked.get(doubt.document)
        if before is not None:
            return "that page is being checked" * bool(before.place)
        if doubt.document in self._done:
            return ASKED
        place = host, _, far = _place(doubt)
        doubts = self._doubts[host, True], self._doubts[host, False]
        if sum(doubts) >= self._most or (far and doubts[0] >= _SHARE_OF_FAR * self._most):
            return f"{ASKS_NO_MORE}it asked {self._most} times here of which no drop came"
        if self._doubts.total() >= self._find_bound() * (_SHARE_OF_FAR if far else 1):
            return f"{ASKS_NO_MORE}{_SHARE_OF_PAGES:.0%} of the pages were asked for again"
        for counts in (self._attempts, self._passed, self._rests):
            if len(counts) > _MOST_REMEMBERED:
                counts.clear()
        for looked, most in ((place, _ATTEMPTS), ((host, "*", far), 2 * _ATTEMPTS)):
            self._attempts[looked] += 1
            if self._attempts[looked] > most * self._most:
                return f"{ASKS_NO_MORE}it looked at this folder often enough"
        return ""

    def is_in_vain(self, doubt: Doubt) -> bool:
        """Pass a page in doubt over that nothing is asked for, nor answered by another doubt."""
        place = _place(doubt)
        in_vain, now = self._in_vain[place], self._list_of(place[0])
        if in_vain < _MOST_IN_VAIN or self._passed[place] >= 2**in_vain or now:
            return False
        self._passed[place] += 1
        return True

    def _find_bound(self) -> float:
        if len(self._done) >= _MOST_REMEMBERED:
            return 0
        return max(self._most, _SHARE_OF_PAGES * self.judged)

    def ask_in_doubt(self, doubt: Doubt, number: int) -> int:
        """Have the page of a doubt asked for as the page with a number was.

        Returns:
            The document that is asked for. It may be that of another doubt, which answers this
            one, too: of the same folder, or of the host where both part at the same place.
        """
        (host, folder, _), sought = _place(doubt), {each.slot for each in doubt.sought}
        for other in self._list_of(host):
            if _place(other)[1] == folder or any(each.slot in sought for each in other.sought):
                return other.document
        self.take(doubt)
        age_seconds = time.time() - doubt.page.facts.time
        pause_seconds = min(max(0.0, _AGE_SECONDS - age_seconds), _AGE_SECONDS)
        self._say(Refetch(number, doubt.document, doubt.page.facts.url, pause_seconds))
        return doubt.document

    def _list_of(self, host: str) -> list[Doubt]:
        """List the doubts about pages of a host that are asked for now."""
        doubts = (asked.doubt for asked in self._asked.values() if not asked.place)
        return [doubt for doubt in doubts if _place(doubt)[0] == host]

    def take(self, doubt: Doubt) -> None:
        """Note that the page of a doubt is asked for."""
        place = host, _, far = _place(doubt)
        self._asked[doubt.document] = Asked(doubt)
        self._passed[place] = 0
        self._doubts[host, far] += 1

    def list_confirmed(
        self, place: str, used: Iterable[Change], fast: Collection[Slot]
    ) -> Iterator[Change]:
        """List the slots that changed on what was checked; those that are `fast` on pages."""
        seen = self._confirmed
        return (
            each
            for each in used
            if (place, each.slot, True) in seen
            or (each.slot not in fast and (place, each.slot, False) in seen)
        )

    def find_checked(self, place: str) -> tuple[int, bool]:
        """Return the document that is being checked for a place, or 0, and if it fails so far.

        Once something stayed the same there, it is asked for again.
        """
        checks = (asked for asked in self._asked.values() if asked.place == place)
        return next(((asked.doubt.document, asked.times > 1) for asked in checks), (0, False))

    def takes_check(self, doubt: Doubt, place: str, original: int, *, confirmed: bool) -> bool:
        """Note a drop that rests on noise; return whether its page, or original, is asked for.

        It is if not all of that is confirmed, and at the 1st to 4th, 8th, 16th, ... of its place.
        """
        is_page = doubt.document != original
        if self.find_checked(place)[0] or (is_page and doubt.document in self._done):
            return False
        self._rests[place] += 1
        count = self._rests[place]
        due = not count & (count - 1) or (is_page and count < _FIRST_PAGES)
        if not confirmed:  # by the answer to one address, another answer will not, either
            due = (place, original) not in self._checked
        if not due or doubt.document in self._asked:
            return False
        host = place.partition("/")[0]
        # Those of what is not confirmed come first: without them nothing is dropped.
        share = _SHARE_OF_CHECKS if confirmed else 1.0
        if self._checks[host] >= share * self._most:
            return False
        if self._checks.total() >= share * self._find_bound():
            return False
        self._checks[host] += 1
        self._checked.add((place, original))
        self._asked[doubt.document] = Asked(doubt, place)
        return True

    def learn(self, asked: Asked, answer: Page) -> bool:
        """Note what changed between answers to one address; True if it is asked for again."""
        first = asked.doubt.page
        url = first.facts.url
        noise, seconds = self._hosts.get_noise(url), time.time() - first.facts.time
        if asked.place:
            is_page = bool(asked.doubt.sought)
            answers = (answer,) if asked.second is None else (asked.second, answer)
            sought = asked.doubt.sought if is_page else noise.list_counting(url, seconds)
            found, changed = noise.check(sought, first, *answers, parts=is_page)
            asked = asked._replace(changed=(*asked.changed, *changed))
            noise.note_texts(first.facts, learn(first, answer))
            slots = {each.slot for each in asked.changed}
            same = [each for each in found if each.slot not in slots]
            if same and self._ask_once_more(asked, answer, seconds, _MOST_ASKED):
                return True
            noise.refute(url, same)
            host = asked.place.partition("/")[0]
            places = asked.place, f"{host}/*"
            confirmed = {(place, slot, is_page) for slot in slots for place in places}
            if confirmed - self._confirmed and not same and self._paid_checks[host] < self._most:
                self._paid_checks[host] += 1
                self._checks[host] -= 1
            self._confirmed |= confirmed
            return False
        latest = learn(asked.second or first, answer)
        changes = [*{each.slot: each for each in (*latest, *asked.changed)}.values()]
        slots, moving = {each.slot for each in changes}, set["Slot"]()
        if asked.second is None:
            again = noise.may_move(changes)
        else:
            # What moved once may be a price; and so may a number that came back.
            moving = {each.slot for each in latest if not each.stays}
            before = compare_values(asked.changed, first, answer)
            moving -= {
                each.slot
                for each, is_same in before
                if is_same and any(map(str.isdecimal, each.values[0]))
            }
            again = noise.note_moment(changes, asked.second, answer)
        # Where another form stands there, it shows in the next answer: "just now", "3 hours ago".
        values = compare_values(asked.doubt.sought, first, answer)
        again |= any(not is_same and each.slot not in slots for each, is_same in values)
        asked = asked._replace(changed=tuple(changes))
        if again and self._ask_once_more(asked, answer, seconds, _MOST_ASKED_IN_DOUBT):
            return True
        noise.test(asked.doubt.sought, first, answer)
        noise.note_texts(first.facts, changes)
        noise.add(url, changes, seconds, moving)
        return False

    def _ask_once_more(self, asked: Asked, second: Page, seconds: float, most: int) -> bool:
        """Have a page asked for again, so long after it came; False if it was often enough."""
        if asked.times >= most:
            return False
        document, url = asked.doubt.document, asked.doubt.page.facts.url
        self._asked[document] = asked._replace(times=asked.times + 1, second=second)
        place = min(asked.times, len(_PAUSES_SECONDS)) - 1
        pause_seconds = _PAUSES_SECONDS[place] if seconds < sum(_PAUSES_SECONDS) else 0.0
        self._say(Refetch(0, document, url, pause_seconds))
        return True

    def end(self, document: int) -> Asked | None:
        """Take out a page that was answered; None if it was not asked for."""
        asked = self._asked.pop(document, None)
        if asked is not None:
            self._done.add(document)
        return asked

    def note(self, asked: Asked, *, dropped: bool) -> None:
        """Note whether a drop came of a doubt."""
        place = host, _, far = _place(asked.doubt)
        self._in_vain[place] += 1
        if dropped:
            # It pays for those before it, too, which showed what it rests on.
            left = self._most - self._paid[host]
            paid = min(self._in_vain[place], self._doubts[host, far], left)
            self._paid[host] += paid
            self._doubts[host, far] -= paid
            self._in_vain[place] = 0


def _place(doubt: Doubt) -> _Place:
    url = doubt.page.facts.url
    return host_of(url), folder_of(url), doubt.far
