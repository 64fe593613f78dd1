"""The command `urls`: the rules by which addresses need not be fetched."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash._files import open_whole
from scrapy_simhash._printable import plural, printable, show_bytes
from scrapy_simhash.commands.command import refuse
from scrapy_simhash.commands.frame import (
    Command,
    add_overwrite,
    call,
    format_time,
    make_table,
    read_count,
    style,
)
from scrapy_simhash.commands.look import print_explanation
from scrapy_simhash.commands.upkeep import open_to_change
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.inspection.rulefiles import (
    FORMATS,
    SIMHASH,
    read_rule_file,
    write_discarder_rules,
    write_lines,
)
from scrapy_simhash.inspection.urlaudit import audit
from scrapy_simhash.inspection.urlrules import (
    describe_rule,
    find_rules,
    list_rules,
    show_rule,
    sort_rules,
)
from scrapy_simhash.judging.urls.records import RuleState
from scrapy_simhash.stores import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy_simhash.commands.frame import Answer, Part
    from scrapy_simhash.config import Config
    from scrapy_simhash.inspection.rulefiles import LeftOut
    from scrapy_simhash.judging.urls.book import RuleAction

_RULE = "a rule as `urls` lists it, or its id of 16 hexadecimal digits"
_COLOURS = {
    "acting": "green",
    "pinned": "green",
    "retired": "yellow",
    "banned": "red",
    "same": "green",
    "different": "red",
}
_TOP = 20


class _Action(NamedTuple):
    """What `urls` can do."""

    about: str
    runner: Callable[..., Iterable[Answer | str]]
    add_arguments: Callable[[argparse.ArgumentParser], None]


class _ActionParser(argparse.ArgumentParser):
    """The parser of an action; it suggests the choice that a wrong one resembles."""

    error = refuse


def _add_urls(parser: argparse.ArgumentParser) -> None:
    _add_filters(parser)
    actions = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        prog="scrapy simhash urls",
        parser_class=_ActionParser,
        help="list, if none is named",
    )
    for name, action in _ACTIONS.items():
        each = actions.add_parser(
            name, help=action.about, description=f"{action.about}.", allow_abbrev=False
        )
        suppressed = argparse.SUPPRESS  # as above
        each.add_argument("--json", action="store_true", default=suppressed, help="print JSON")
        each.add_argument("--store", metavar="PATH", default=suppressed, help="the store")
        action.add_arguments(each)
        each.set_defaults(simhash_usage=each.format_usage)


def _add_filters(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    parser.add_argument("--host", metavar="HOST", default=default, help="only rules of this host")
    parser.add_argument(
        "--state",
        choices=[str(state) for state in RuleState],
        default=default,
        metavar="STATE",
        help=f"only rules in this state: {', '.join(RuleState)}",
    )


def _add_filters_again(parser: argparse.ArgumentParser) -> None:
    # Behind the action, too; a default here would undo what stood before it.
    _add_filters(parser, argparse.SUPPRESS)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rules", nargs="+", metavar="RULE", help=_RULE)


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_rules(parser)
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        dest="html_path",
        help="write the texts of the pairs side by side to an HTML file",
    )
    add_overwrite(parser)


def _add_release(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="+", metavar="RULE|URL", help=f"a parked URL, {_RULE}")


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rules_path",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="rules of `urls export` or of duplicate-url-discarder (default: the rules of the "
        "store that act)",
    )
    parser.add_argument(
        "--top",
        type=read_count,
        metavar="N",
        help=f"name at most N lost pages (default: {_TOP}; with --json all)",
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default=SIMHASH,
        help="simhash: for `urls import` and `urls audit` (default); dud: for "
        "duplicate-url-discarder",
    )
    parser.add_argument(
        *("-o", "--output"),
        default="-",
        metavar="FILE",
        dest="output_path",
        help="the file to write (default: standard output)",
    )
    parser.add_argument(
        "--universal",
        action="store_true",
        help="with --format dud: write that program's own universal rules for each host, too. They "
        "are not proven; without, it does not apply them where an exported rule matches",
    )
    add_overwrite(parser)
    _add_filters(parser, argparse.SUPPRESS)


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rules_path",
        type=Path,
        metavar="FILE",
        help="rules of `urls export` or of duplicate-url-discarder",
    )
    parser.add_argument("--dry-run", action="store_true", help="list the rules, change nothing")


_FILTERED = ("list", "export")


def _run(config: Config, options: argparse.Namespace) -> Iterable[Answer | str]:
    action = options.action or "list"
    if (options.host or options.state) and action not in _FILTERED:
        chosen = " and ".join(f"`urls {name}`" for name in _FILTERED)
        raise ValueError(f"--host and --state choose rules for {chosen}, not for `urls {action}`")
    return call(_ACTIONS[action].runner, config, options)


def _change(config: Config, rules: Sequence[str], action: RuleAction) -> Iterator[Answer]:
    """Change the state of rules; nothing is changed unless all of them are there."""
    with open_to_change(config) as store:
        for record in find_rules(store.url_rules(), rules):
            before = record.parked
            changed = store.change_url_rule(record.rule.id, action)
            yield {**describe_rule(changed), "released": 0 if changed.acts else before}


def _release(config: Config, what: Sequence[str]) -> Iterator[Answer]:
    """Let parked requests be made by the next crawl of their spider; rules stay as they are."""
    urls = [each for each in what if each.startswith(("http://", "https://"))]
    named = [each for each in what if each not in urls]
    released = 0
    with open_to_change(config) as store:
        for record in find_rules(store.url_rules(), named) if named else ():
            count = store.release_parked(record.rule.id)
            released += count
            yield {"released": count, "rule": record.rule.text}
        for url in urls:
            count = store.release_parked(url=url)
            released += count
            yield {"released": count, "url": url}
    if not released:
        raise PartlyFailedError("nothing to release: no such request is parked")


def _audit(
    config: Config, rules_path: Path | None, top: int | None, *, json: bool
) -> Iterator[Answer]:
    return audit(config, rules_path, _TOP if top is None and not json else top)


def _export(  # noqa: PLR0913 - the options of the command
    config: Config,
    format: str,  # noqa: A002 - the name of the option
    output_path: str,
    host: str | None,
    state: str | None,
    *,
    universal: bool,
    overwrite: bool,
) -> Iterator[Answer | str]:
    """Write the rules that act, or those in another state, and name those that are left out."""
    with open_as_it_is(config.store) as store:
        chosen = [
            record.rule
            for record in sort_rules(store.url_rules(host))
            if (record.acts if state is None else state == record.state)
        ]
    if universal and format == SIMHASH:
        raise ValueError("--universal adds rules of duplicate-url-discarder: add --format dud")
    left_out: list[LeftOut] = []
    if format == SIMHASH:
        text = write_lines(chosen)
    else:
        text, left_out = write_discarder_rules(chosen, universal=universal)
    _tell_left_out(left_out)
    if len(left_out) == len(chosen):
        found = "that this format can say" if chosen else "that acts" if state is None else state
        raise PartlyFailedError(f"there is no rule {found}: nothing was written")
    if output_path == "-":
        yield text
        return
    with open_whole(Path(output_path), overwrite=overwrite) as file:
        file.write(text.encode())
    yield {
        "file": output_path,
        "written": len(chosen) - len(left_out),
        "left_out": [each._asdict() for each in left_out],
    }


def _tell_left_out(left_out: Sequence[LeftOut]) -> None:
    for each in left_out:
        sys.stderr.write(f"left out {printable(each.rule)!r}: {printable(each.why)}\n")


def _import(config: Config, rules_path: Path, *, dry_run: bool) -> Iterator[Answer]:
    """Add the rules of a file as candidates: each needs the same proof as any other."""
    given = read_rule_file(rules_path)
    _tell_left_out(given.left_out)
    if not given.rules:
        raise PartlyFailedError(f"{rules_path}: nothing was imported: all rules were left out")
    with open_as_it_is(config.store) if dry_run else open_to_change(config) as store:
        known = {record.rule for record in store.url_rules()}
        new = [rule for rule in given.rules if rule not in known]
        added = new if dry_run else [record.rule for record in store.add_url_rules(new)]
    yield {
        "file": str(rules_path),
        "format": given.format,
        "imported": [rule.text for rule in added],
        "known": len(given.rules) - len(new),
        "no_space": [rule.text for rule in new if rule not in {*added}],
        "left_out": [each._asdict() for each in given.left_out],
        "dry_run": dry_run,
    }


def _print(answer: Answer) -> Iterable[Part]:
    """Print an answer of any action."""
    if "lost_pages" in answer:
        yield from _print_audit(answer)
    elif "voted" in answer:
        yield ""
        yield style(f"voted {answer['voted']}:", _COLOURS[answer["voted"]])
        yield from print_explanation(answer)
    elif "lower_bound" in answer:
        yield from _print_rule(answer)
    elif "imported" in answer:
        yield from _print_import(answer)
    elif "released" in answer:
        which = printable(answer.get("rule") or answer["url"])
        said = f"{plural(answer['released'], 'request')} will be made by the next crawl"
        yield f"{said if answer['released'] else 'no request is parked'}: {which}"
    else:
        yield f"{printable(answer['file'])}: {plural(answer['written'], 'rule')}"


def _print_rule(answer: Answer) -> Iterable[Part]:
    """Print a rule with its votes, and its history if that was asked for."""
    state = answer["state"]
    imported = "  (imported)" if answer["imported"] else ""
    rule = f"{state:<8}  {answer['id']}  {printable(answer['rule'])}{imported}"
    yield style(rule, _COLOURS.get(state, ""))
    votes = ", ".join(f"{answer[each]:,} {each}" for each in ("same", "different", "grey"))
    told = [f"{votes}: at least {answer['lower_bound']:.2f} same"]
    if answer["parked"]:
        told.append(f"{answer['parked']:,} parked ({show_bytes(answer['bytes_saved'])})")
    if answer["sampled"]:
        told.append(f"{answer['sampled']:,} checked, {answer['sampled_different']:,} different")
    if answer.get("released"):
        told.append(f"{plural(answer['released'], 'request')} will be made by the next crawl")
    yield f"{_INDENT}{'; '.join(told)}"
    if answer.get("lacks"):
        yield f"{_INDENT}to be proven it lacks {', '.join(answer['lacks'])}"
    if answer["wrong"]:
        name = answer["id"]
        yield style(
            f"{_INDENT}PINNED, BUT WRONG: it makes different pages one. See `scrapy simhash urls "
            f"show {name}`; `scrapy simhash urls retire {name}` takes it back",
            "bold red",
        )
    for each in answer.get("history", ()):
        when, reason = format_time(each["time"]), printable(each["reason"])
        yield f"{_INDENT}{when}  {each['state']:<8}  {reason}"
    if answer.get("pairs") == 0:
        yield f"{_INDENT}no pair of pages has voted yet"


_INDENT = " " * 10


def _print_audit(answer: Answer) -> Iterable[Part]:
    yield (
        f"{plural(answer['rules'], 'rule')}, {plural(answer['pages'], 'page')}: "
        f"{answer['skipped']:,} would not have been fetched"
    )
    yield (
        f"  {answer['same']:,} of them the same as the page that stands for them, "
        f"{answer['different']:,} different, {answer['grey']:,} in between"
    )
    lost = f"  {plural(answer['lost'], 'distinct page')} lost"
    perhaps = answer["perhaps_lost"]
    yield style(
        lost + f", {perhaps:,} more perhaps" * bool(perhaps), "red" if answer["lost"] else "green"
    )
    if answer["by_rule"]:
        yield ""
        names = ("skipped", "same", "grey", "different", "lost")
        yield make_table(
            {**dict.fromkeys(names, "right"), "rule": "whole"},
            ((*(row[name] for name in names), row["rule"]) for row in answer["by_rule"]),
        )
    for name, title in (
        ("lost_pages", "lost"),
        ("perhaps_lost_pages", "perhaps lost: partly alike, or too short to tell"),
    ):
        if answer[name]:
            yield ""
            yield f"{title}:"
        for page in answer[name]:
            yield f"  {printable(page['url'])}"
            yield f"    not {printable(page['kept_url'])}, by {printable('; '.join(page['rules']))}"
            yield from (f"      {printable(why)}" for why in page["why"][-1:])
        if (count := answer[name.removesuffix("_pages")]) > len(answer[name]):
            yield f"  and {count - len(answer[name]):,} more; --top N lists more of them"


def _print_import(answer: Answer) -> Iterable[Part]:
    done = "would be added, to be proven" if answer["dry_run"] else "added, to be proven"
    told = f"{printable(answer['file'])}: {plural(len(answer['imported']), 'rule')} {done}"
    for count, why in (
        (answer["known"], "there already"),
        (len(answer["no_space"]), "not added: the host is full, or another rule undoes it"),
        (len(answer["left_out"]), "left out"),
    ):
        told += f", {count:,} {why}" * bool(count)
    yield told
    yield from (f"  {printable(rule)}" for rule in answer["imported"])


def _changing(action: RuleAction) -> Callable[..., Iterator[Answer]]:
    """Make the runner that changes rules in one way."""

    def run(config: Config, rules: Sequence[str]) -> Iterator[Answer]:
        return _change(config, rules, action)

    return run


_ACTIONS = {
    "list": _Action("List the rules of the store", list_rules, _add_filters_again),
    "show": _Action("Show the votes of rules, and their pairs of pages", show_rule, _add_show),
    "pin": _Action("Let rules act, whatever their votes", _changing("pin"), _add_rules),
    "ban": _Action("Let rules never act", _changing("ban"), _add_rules),
    "retire": _Action(
        "Stop rules until they are proven again; release what they parked",
        _changing("retire"),
        _add_rules,
    ),
    "learn": _Action("Let rules begin anew, without votes", _changing("learn"), _add_rules),
    "release": _Action(
        "Let parked requests be made by the next crawl of their spider", _release, _add_release
    ),
    "audit": _Action(
        "Count the pages of the store that a file of rules would have lost", _audit, _add_audit
    ),
    "export": _Action("Write the rules that act to a file", _export, _add_export),
    "import": _Action("Add the rules of a file as candidates", _import, _add_import),
}


COMMANDS = {
    "urls": Command(
        _run,
        _add_urls,
        _print,
        examples=(
            "urls                    # rules, those that act first",
            "urls --host www.example.com --state acting",
            "urls show www.example.com drop-parameter sid",
            "urls pin 0123456789abcdef",
            "urls release http://site.example/again?print=1",
            "urls audit rules.json",
            "urls export --format dud -o rules.json",
            "urls import rules.json",
        ),
        details="A rule is named by its text or its id of 16 hexadecimal digits. `urls ACTION "
        "--help` has the options of an action.",
    ),
}
