"""The command `urls`: the rules by which several addresses lead to one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_simhash._files import write_whole
from scrapy_simhash._printable import plural, printable
from scrapy_simhash.commands.frame import Command, add_overwrite, style
from scrapy_simhash.inspection.urlrules import audit, describe, find_rules
from scrapy_simhash.urls.discarder import list_discarder_rules

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.commands.frame import Answer, Part
    from scrapy_simhash.config import Config


def _run(
    config: Config, output: Path | None, audited: Path | None, *, overwrite: bool
) -> Iterator[Answer]:
    """Find rules, and write them; or audit a list."""
    if audited is not None:
        yield from audit(config, audited)
        return
    found = find_rules(config)
    for each in found:
        written = len(list_discarder_rules([each]))
        yield {**describe(str(each.rule), each.votes, each.directories), "expressible": written}
    if output is not None:
        rules = list_discarder_rules(found)
        write_whole(output, [json.dumps(rules, indent=1) + "\n"], overwrite=overwrite)
        yield {"file": str(output), "written": len(rules)}


def _print(answer: Answer) -> Iterable[Part]:
    if "file" in answer:
        yield f"{printable(answer['file'])}: {plural(answer['written'], 'rule')}"
        return
    proven = ", ".join(map(printable, answer["directories"]))
    yield style(printable(answer["rule"]), "green" if proven else "")
    votes = ", ".join(f"{answer[name]:,} {name}" for name in ("same", "different", "grey"))
    yield f"    {votes}: at least {answer['lower_bound']:.2f} same"
    if proven:
        lacks = "; duplicate-url-discarder cannot express it" * (not answer["expressible"])
        yield f"    proven in {proven}{lacks}"
    for outcome in ("different", "same"):
        for pair in answer[f"pairs_{outcome}"]:
            yield f"    {outcome}: {' '.join(map(printable, pair))}"


def _add_arguments(parser: ArgumentParser) -> None:
    about = "write the proven rules that duplicate-url-discarder can express, as its list"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=about)
    add_overwrite(parser)
    about = "let pages speak against a list of duplicate-url-discarder; exit code 1 if some do"
    parser.add_argument("--audit", type=Path, metavar="FILE", dest="audited", help=about)


_EXAMPLES = ("urls", "urls --output rules.json", "urls --audit rules.json")
COMMANDS = {"urls": Command(_run, _add_arguments, _print, examples=_EXAMPLES)}
