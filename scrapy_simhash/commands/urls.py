"""The command `urls`: the rules by which addresses need not be fetched."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from scrapy_simhash._files import open_whole
from scrapy_simhash._printable import plural, printable
from scrapy_simhash._progress import show_progress
from scrapy_simhash.commands.frame import (
    Command,
    call,
    format_time,
    style,
)
from scrapy_simhash.commands.look import print_explanation
from scrapy_simhash.commands.upkeep import open_to_change
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.inspection.urlrules import (
    audit,
    describe_rule,
    find_rules,
    list_rules,
    read_rules,
    show_rule,
    sort_rules,
)
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.stores.rulebook import RuleAction
from scrapy_simhash.urls.rules import RuleState, UrlRuleRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.commands.frame import Answer, Part
    from scrapy_simhash.config import Config

_RULE = "a rule as `urls` lists it, or its id of 16 hexadecimal digits"
_COLOURS = {
    "acting": "green",
    "pinned": "green",
    "retired": "yellow",
    "banned": "red",
    "same": "green",
    "different": "red",
}


def _run(config: Config, options: argparse.Namespace) -> Iterable[Answer | str]:
    action = options.action or "list"
    if (options.host or options.filtered_state) and action != "list":
        raise ValueError(f"--host and --state choose rules to list; `urls {action}` has no list")
    runner = _ACTIONS[action][1].runner
    assert runner is not None  # noqa: S101 - all actions have one
    return call(runner, config, options)


def _list(
    config: Config,
    host: str | None,
    filtered_state: str | None,
    output_path: str | None = None,
    *,
    overwrite: bool = False,
) -> Iterator[Answer | str]:
    """List rules; or write those that act, or are in a state."""
    if output_path is None:
        yield from list_rules(config, host, filtered_state)
        return
    with open_as_it_is(config.store) as store:
        chosen = [
            record.rule
            for record in sort_rules(store.url_rules(host))
            if (record.acts if filtered_state is None else filtered_state == record.state)
        ]
    if not chosen:
        found = filtered_state or "that acts"
        raise PartlyFailedError(f"there is no rule {found}: nothing was written")
    text = "".join(f"{rule.text}\n" for rule in chosen)
    if output_path == "-":
        yield text
        return
    with open_whole(Path(output_path), overwrite=overwrite, private=False) as file:
        file.write(text.encode())
    yield {"file": output_path, "written": len(chosen)}


def _set(
    config: Config,
    state: RuleAction,
    rules: Sequence[str],
    rules_path: Path | None,
    *,
    dry_run: bool,
) -> Iterator[Answer]:
    """Change the state of rules; nothing is changed unless all of them are there."""
    if bool(rules) == (rules_path is not None):
        raise ValueError("name either rules or, with --file, a file of rules")
    given = read_rules(rules_path) if rules_path is not None else ()
    with open_as_it_is(config.store) if dry_run else open_to_change(config) as store:
        known = {record.rule: record for record in store.url_rules()}
        parked = store.owed.count_parked()
        if dry_run:
            named = [known.get(rule) or UrlRuleRecord(rule) for rule in given]
            found = named or find_rules(known.values(), rules)
            yield from (describe_rule(record, parked) for record in found)
            return
        new = {record.rule for record in store.add_url_rules(given)}
        if given:
            rules = [rule.id for rule in given if state != "learn" or rule in new]
        for record in find_rules(store.url_rules(), rules):
            changed = store.change_url_rule(record.rule.id, state)
            yield describe_rule(changed, {} if not changed.acts else parked)


def _learn(config: Config) -> Iterator[Answer]:
    """Learn from all pages of the store, and show the rules that act now, or do not any more."""
    with open_to_change(config) as store, show_progress("learning"):
        changed = {change.rule for change in store.learn_url_rules()}
        records, parked = store.url_rules(), store.owed.count_parked()
    yield from (describe_rule(record, parked) for record in records if record.rule.id in changed)
    yield {"rules": len(records), "acting": sum(record.acts for record in records)}


def _print(answer: Answer) -> Iterable[Part]:
    """Print an answer of any action."""
    if "voted" in answer:
        yield ""
        yield style(f"voted {answer['voted']}:", _COLOURS[answer["voted"]])
        yield from print_explanation(answer)
    elif "lower_bound" in answer:
        yield from _print_rule(answer)
    elif "acting" in answer:
        yield f"{plural(answer['rules'], 'rule')}, {answer['acting']:,} of them act"
    else:
        yield f"{printable(answer['file'])}: {plural(answer['written'], 'rule')}"


def _print_rule(answer: Answer) -> Iterable[Part]:
    """Print a rule with its votes, and its history if the answer has it."""
    state = answer["state"]
    imported = "  (imported)" if answer["imported"] else ""
    rule = f"{state:<8}  {answer['id']}  {printable(answer['rule'])}{imported}"
    yield style(rule, _COLOURS.get(state, ""))
    votes = ", ".join(f"{answer[name]:,} {name}" for name in ("same", "different", "grey"))
    counts = [f"{votes}: at least {answer['lower_bound']:.2f} same"]
    if answer["parked"]:
        counts.append(f"{answer['parked']:,} parked")
    if answer["sampled"]:
        counts.append(f"{answer['sampled']:,} checked, {answer['sampled_different']:,} different")
    yield f"{_INDENT}{'; '.join(counts)}"
    if answer["directories"]:
        shown = [printable(name) for name in answer["directories"][:_DIRECTORIES_SHOWN]]
        more = len(answer["directories"]) - len(shown)
        yield f"{_INDENT}in {', '.join(shown)}{f' and {more:,} more' * bool(more)}"
    if answer["lacks"]:
        yield f"{_INDENT}it acts once it has {answer['lacks']}"
    if answer["wrong"]:
        name = answer["id"]
        yield style(
            f"{_INDENT}PINNED, BUT WRONG: it gives different pages one address. See `scrapy "
            f"simhash urls show {name}`; `scrapy simhash urls set retire {name}` undoes this",
            "bold red",
        )
    for change in answer.get("history", ()):
        when, reason = format_time(change["time"]), printable(change["reason"])
        yield f"{_INDENT}{when}  {change['state']:<8}  {reason}"
    if answer.get("pairs") == 0:
        yield f"{_INDENT}no pair of pages has voted yet"


_INDENT = " " * 10
_DIRECTORIES_SHOWN = 6


_FILTERS = f"""
--host HOST: only rules of this host
--state STATE: only rules in this state: {", ".join(RuleState)}
"""
_LIST = f"""{_FILTERS}
-o --output FILE: write the rules that act, or those of --state, to a file for `urls set --file` and
    `urls audit`, one a line; - for standard output
--overwrite: replace an existing file
"""
_SHOW = f"""
RULE...: {_RULE}
--html FILE: write the texts of the pairs side by side to an HTML file
--overwrite: replace an existing file
"""
_SET = f"""
STATE: pin: they act everywhere on their host, whatever their votes; ban or retire: they do not act,
    and what they parked is made; learn: votes alone decide
[RULE...]: {_RULE}
--file FILE: rules of `urls list -o`; those that the store does not have are added
--dry-run: list the rules, change nothing
"""
_AUDIT = """
[FILE]: rules of `urls list -o` (default: the rules of the store that act)
"""
_STATES = {"choices": [str(state) for state in RuleState], "dest": "filtered_state"}
# A default behind the action would undo what stood before it.
_UNSET = {"default": argparse.SUPPRESS}
_ACTIONS = {
    "list": (
        "List the rules of the store, or write them to a file",
        Command(
            _list,
            _LIST,
            more={
                "host": _UNSET,
                "state": _STATES | _UNSET,
                "output": {"dest": "output_path", "type": str},
            },
        ),
    ),
    "show": (
        "Show the votes of rules, and their pairs of pages",
        Command(show_rule, _SHOW, more={"rule": {"dest": "rules"}, "html": {"dest": "html_path"}}),
    ),
    "set": (
        "Pin, ban or retire rules, or let them learn again",
        Command(
            _set,
            _SET,
            more={
                "state": {"choices": get_args(RuleAction)},
                "rule": {"dest": "rules"},
                "file": {"dest": "rules_path"},
            },
        ),
    ),
    "learn": ("Learn rules from the pages of the store, now", Command(_learn)),
    "audit": (
        "Let the pages of the store vote on the rules of a file",
        Command(audit, _AUDIT, more={"file": {"dest": "rules_path"}}),
    ),
}


COMMANDS = {
    "urls": Command(
        _run,
        _FILTERS,
        _print,
        examples=(
            "urls                    # rules, those that act first",
            "urls --host www.example.com --state acting",
            "urls show www.example.com drop-parameter sid",
            "urls learn",
            "urls set pin 0123456789abcdef",
            "urls set learn --file rules.txt",
            "urls audit rules.txt",
            "urls list --output rules.txt",
        ),
        details="A rule is named by its text or its id of 16 hexadecimal digits. `urls ACTION "
        "--help` has the options of an action; without one, `urls` lists the rules.",
        actions=_ACTIONS,
        more={"state": _STATES},
    ),
}
