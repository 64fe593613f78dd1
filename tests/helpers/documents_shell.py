"""The command lines of the documentation: are they what the programs understand?"""

import argparse
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from packaging.requirements import Requirement
from scrapy.cmdline import ScrapyArgumentParser, _get_commands_dict
from scrapy.commands import ScrapyCommand
from scrapy.settings import Settings

from scrapy_simhash.config import read_config
from tests.helpers.processes import ROOT

_OPERATORS = {"&&", "||", ";", "|", "(", ")", "&"}


def commands_of(code: str) -> Iterator[list[str]]:
    """Split shell code into simple commands, without comments, variables and redirections."""
    for line in code.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        command: list[str] = []
        words = iter(lexer)
        for word in words:
            if word in _OPERATORS:
                yield from [command] if command else []
                command = []
            elif word in {">", ">>", "<"}:
                next(words)
            elif command or not re.match(r"\w+=", word):
                command.append(word)
        yield from [command] if command else []


def check_command(words: Sequence[str]) -> None:
    """Fail with an AssertionError or ValueError when a program would not understand a command."""
    program, *arguments = words
    if program in CHECKS:
        CHECKS[program](arguments)


def _check_scrapy(arguments: Sequence[str]) -> None:
    name, *rest = arguments
    assert name in _scrapy_commands(), f"scrapy {name}: no such command"
    command = _scrapy_commands()[name]
    parser = ScrapyArgumentParser(prog=f"scrapy {name}", conflict_handler="resolve")
    parser.exit_on_error = False
    command.settings = Settings()
    command.add_options(parser)
    options, more = _parse(parser, rest)
    given = dict(pair.split("=", 1) for pair in options.set)
    check_settings(given)
    if name == "simhash":
        assert more == [], f"scrapy simhash: unknown arguments {more}"
        assert options.simhash_command, "scrapy simhash: no command"
    assert not any(word.startswith("-") for word in more), f"scrapy {name}: unknown {more}"


def _parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> tuple[argparse.Namespace, list[str]]:
    try:
        return parser.parse_known_args(arguments)
    except SystemExit:
        raise AssertionError(f"{parser.prog} {shlex.join(arguments)}: refused") from None


@cache
def _scrapy_commands() -> dict[str, ScrapyCommand]:
    return _get_commands_dict(Settings(), True)  # noqa: FBT003 - Scrapy's own signature


def check_settings(settings: dict[str, object]) -> None:
    """Fail where a setting of the plugin does not exist or may not have its value."""
    config = read_config(settings)
    for name in settings:
        field = name.removeprefix("SIMHASH_").lower()
        assert not name.startswith("SIMHASH_") or hasattr(config, field), f"{name}: no such setting"


def _check_pip(arguments: Sequence[str]) -> None:
    action, *rest = arguments
    assert action in {"install", "uninstall"}, f"pip {action}"
    for word in rest:
        if not word.startswith("-"):
            asked = Requirement(re.sub(r"^\.(?=\[|$)", "scrapy-simhash", word))
            if asked.name == "scrapy-simhash":
                assert asked.extras <= _extras(), f"{word}: extras are {sorted(_extras())}"


@cache
def _extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["optional-dependencies"])


CHECKS: dict[str, Callable[[Sequence[str]], None]] = {"scrapy": _check_scrapy, "pip": _check_pip}
