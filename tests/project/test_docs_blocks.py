"""README and docs: blocks are run, or read by what they are for; links lead on; the site builds."""

import argparse
import ast
import configparser
import json
import re
import shlex
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from itertools import dropwhile, groupby
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import duckdb
import pytest
from scrapy.utils.misc import load_object

import scrapy_simhash
from scrapy_simhash.commands.command import add_commands
from scrapy_simhash.config import Config, read_config
from scrapy_simhash.pages.scopes import load_scope
from tests.helpers.documents_read import LINKED, PAGES, Block, anchors_of, blocks_of, targets_of
from tests.helpers.needing import require_modules
from tests.helpers.processes import ROOT, run_python

CHECKS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": import_module("yaml").safe_load,  # it ships no types
    "ini": configparser.ConfigParser().read_string,
    # Output and drawings; of pages whose commands are run, the output is compared.
    "sql": duckdb.extract_statements,
    "text": str,
}
_OPERATORS = {"&&", "||", ";", "|", "(", ")", "&", ">", ">>", "<"}


def commands_of(code: str) -> Iterator[list[str]]:
    """Split shell code into simple commands, without comments and variables, and into files."""
    for line in code.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        for is_operator, words in groupby(lexer, _OPERATORS.__contains__):
            command = [*dropwhile(re.compile(r"\w+=").match, words)]
            if command and not is_operator:
                yield command


def check_scrapy(name: str, *rest: str) -> None:
    """Fail with an AssertionError or ValueError where `scrapy` would not understand a command."""
    words = list(rest)
    given = {}
    while "-s" in words:
        at = words.index("-s")
        setting, equals, value = words[at + 1].partition("=")
        assert equals, f"scrapy {name} -s {setting}: no value"
        given[setting] = value
        del words[at : at + 2]
    check_settings(given)
    if name == "simhash":
        parser = argparse.ArgumentParser()
        add_commands(parser)
        try:
            assert parser.parse_args(words).simhash_command, "scrapy simhash: no command"
        except SystemExit:
            raise AssertionError(f"scrapy simhash {shlex.join(words)}: refused") from None


def check_settings(settings: Mapping[str, object]) -> None:
    """Fail where a setting of the plugin does not exist or may not have its value."""
    config = read_config(settings)
    for name in settings:
        field = name.removeprefix("SIMHASH_").lower()
        assert not name.startswith("SIMHASH_") or hasattr(config, field), f"{name}: no such setting"


def run_block(block: Block, namespace: dict[str, Any]) -> None:
    """Run Python; tracebacks name page and line. What it gives upper-case names are settings."""
    tree = ast.parse(block.code)
    ast.increment_lineno(tree, block.line - 1)
    exec(compile(tree, block.page, "exec"), namespace)  # noqa: S102 - our own documents
    settings = {name: value for name, value in namespace.items() if name.isupper()}
    check_settings(settings)
    load_scope(read_config(settings).scope)
    for addon in settings.get("ADDONS", {}):
        load_object(addon)


def refuse(*_: Any) -> None:
    raise AssertionError("a block of the documentation asked for the network")


# The blocks of this one need the extra `beside`: test_beside_poet runs them.
@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/beside.md"])
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, tmp_path, monkeypatch)


def run_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page has a folder and a namespace of its own; blocks go on where the last one ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    before = set(sys.modules)
    namespace: dict[str, Any] = {"__name__": "a_page_of_the_documentation"}
    for block in blocks_of(page):
        if block.language != "python" or block.mark[0] == "not run":
            continue
        if name := block.saved_as:
            compile(block.code, block.place, "exec")
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_text(block.code, encoding="utf-8")
        else:
            run_block(block, namespace)
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


@pytest.mark.parametrize("page", PAGES)
def test_command_lines_are_understood(page: str) -> None:
    for block in blocks_of(page):
        if block.language == "sh" and block.mark[0] != "not run":
            try:
                for program, *arguments in commands_of(block.code):
                    if program == "scrapy":
                        check_scrapy(*arguments)
            except Exception as error:
                raise AssertionError(f"{block.place}: {error}") from error


@pytest.mark.parametrize("page", PAGES)
def test_other_blocks_are_what_they_say(page: str) -> None:
    for block in blocks_of(page):
        directive = block.language.startswith("{")
        if directive or block.mark[0] == "not run" or block.language in {"python", "sh"}:
            continue
        # Indented blocks have no language; highlighters and this test need one.
        assert block.language in CHECKS, f"{block.place}: {block.language!r} is checked by nothing"
        CHECKS[block.language](block.code)


@pytest.mark.parametrize("page", LINKED)
def test_links_lead_somewhere(page: str) -> None:
    for line, target in targets_of(page):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = unquote(target).partition("#")
            file = (ROOT / page).parent / path if path else ROOT / page
            assert file.exists(), f"{page}:{line}: {target}: no such file"
            if anchor and PurePosixPath(file).suffix == ".md":
                known = anchors_of(str(file.resolve().relative_to(ROOT)))
                assert anchor in known, f"{page}:{line}: {target}: no such heading"


FIGURES = ROOT / "docs" / "figures"
# What `pip install 'scrapy-simhash[docs]'` brings.
TOOLS = ("sphinx", "myst_parser", "furo", "sphinx_argparse_cli")


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    require_modules("docs", *TOOLS)
    site = tmp_path / "site"
    options = ("-q", "-W", "--keep-going", "-n", "-d", tmp_path / "doctrees")
    done = run_python("-m", "sphinx", *options, "docs", site, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    made = {f"docs/{path.stem}.md" for path in site.glob("*.html")}
    assert {page for page in PAGES if page.startswith("docs/")} <= made
    names = ("index", "settings", "commands", "api")
    index, settings, commands, python = (
        (site / f"{name}.html").read_text("utf-8") for name in names
    )
    assert f"scrapy-simhash {scrapy_simhash.__version__}" in index
    anchors = [f"simhash-{field.name.replace('_', '-')}" for field in fields(Config)]
    assert all(f'id="{anchor}"' in settings for anchor in anchors)
    every = add_commands(argparse.ArgumentParser())
    assert all(f'id="scrapy-simhash-{name}"' in commands for name in every)
    assert 'id="scrapy_simhash.stores.store.Store.find_and_add"' in python


def test_the_text_about_the_figures_has_their_numbers() -> None:
    data = json.loads((FIGURES / "data.json").read_text("utf-8"))
    text = " ".join((ROOT / "docs" / "paper.md").read_text("utf-8").split())
    labelled, site = data["labelled"], data["site"]["all pages"]
    assert f"{labelled['pairs']:,} labelled pairs of {labelled['pages']:,} real pages" in text
    assert min(row["precision"] for row in labelled["by_distance"]) > 0.995
    assert f"{site['positions'][-1]} of {site['fingerprints'] - 1} neighbours are equal" in text
    assert f"{data['site']['one of each document']['fingerprints']} pages of two manuals" in text
