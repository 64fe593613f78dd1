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

# What these do is not ours to check.
SHELL = {"cat", "cd", "cp", "diff", "echo", "export", "head", "ls", "mkdir", "mv", "rm", "sort"}
# Programs that a reader installs, with why the tests do not: only their names are checked.
OTHERS = {
    "apt-get": "changes the machine",
    "curl": "asks a server that the tests do not have",
    "docker": "needs a daemon",
    "playwright": "downloads browsers",
    "redis-server": "a service; tests/ start their own",
    "redis-cli": "asks a service",
    "scrapyd": "a service",
    "scrapyd-deploy": "needs scrapyd",
    "spark-submit": "needs Java",
    "sphinx-build": "run by tests/project/test_docs_site.py",
}
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


def check_command(words: Sequence[str], saved: Sequence[str] = ()) -> None:
    """Fail with a message when a program would not understand these words.

    Args:
        words: a simple command.
        saved: files that a reader has saved before.

    Raises:
        AssertionError, ValueError: what is wrong.
    """
    program, *arguments = words
    if program in CHECKS:
        CHECKS[program](arguments, saved)
    else:
        assert program in SHELL or program in OTHERS, f"{program}: unknown; mark it as not run"


def _check_scrapy(arguments: Sequence[str], _: Sequence[str]) -> None:
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


def _check_pip(arguments: Sequence[str], _: Sequence[str]) -> None:
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


def _check_python(arguments: Sequence[str], saved: Sequence[str]) -> None:
    first, *rest = arguments
    if first == "-m":
        first, *rest = f"{rest[0].replace('.', '/')}.py", *rest[1:]
        places = [ROOT, ROOT / "example_project"]
        paths = [place / name for place in places for name in (first, first[:-3] + "/__main__.py")]
    else:
        paths = [ROOT / first, ROOT / "example_project" / first]
    found = [path for path in paths if path.is_file()]
    assert found or first in saved, f"python {first}: there is no such program"
    # Arguments that programs share are added by a module beside them.
    beside = [source.read_text("utf-8") for path in found for source in path.parent.glob("*.py")]
    for option in (word.partition("=")[0] for word in rest if word.startswith("--") and found):
        assert any(f'"{option}"' in source for source in beside), f"{first} has no {option}"


def _check_pytest(arguments: Sequence[str], _: Sequence[str]) -> None:
    for word in arguments:
        if "/" in word:
            assert (ROOT / word.partition("::")[0]).exists(), f"pytest {word}: not there"


CHECKS: dict[str, Callable[[Sequence[str], Sequence[str]], None]] = {
    "scrapy": _check_scrapy,
    "pip": _check_pip,
    "python": _check_python,
    "pytest": _check_pytest,
}
