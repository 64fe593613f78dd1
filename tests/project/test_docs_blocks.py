"""Every block of code in README and docs/ is run, or read by the program it is meant for."""

import ast
import configparser
import json
import socket
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest
from scrapy.utils.misc import load_object

from scrapy_simhash.config import Config, read_config
from scrapy_simhash.judge.scopes import load_scope
from tests.helpers.documents_read import PAGES, Block, blocks_of, saved_name
from tests.helpers.documents_shell import check_command, check_settings, commands_of

NOT_RUN = [
    (block.place, block.mark[1])
    for page in PAGES
    for block in blocks_of(page)
    if block.mark[0] == "not run"
]


def check_json(code: str) -> None:
    """Parse one value, or one a line."""
    try:
        json.loads(code)
    except json.JSONDecodeError:
        for line in code.splitlines():
            json.loads(line)


CHECKS: dict[str, Callable[[str], Any]] = {
    "json": check_json,
    "toml": tomllib.loads,
    "yaml": import_module("yaml").safe_load,  # it ships no types
    "ini": configparser.ConfigParser().read_string,
    # Output and drawings; of pages whose commands are run, the output is compared.
    "sql": duckdb.extract_statements,
    "text": str,
}


def check_line(code: str) -> None:
    """Show every command to the program it is for."""
    for words in commands_of(code):
        check_command(words)


def is_settings(tree: ast.Module) -> bool:
    """Say whether all that a block does is to give values to upper-case names."""
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    return len(targets) == len(tree.body) and all(
        isinstance(target, ast.Name) and target.id.isupper() for target in targets
    )


def check_as_crawl(settings: dict[str, Any]) -> None:
    """Read settings as a crawl does, with all that they name."""
    check_settings(settings)
    config: Config = read_config(settings)
    load_scope(config.scope)
    for addon in settings.get("ADDONS", {}):
        load_object(addon)


def run_block(block: Block, namespace: dict[str, Any]) -> None:
    """Run Python; tracebacks name page and line."""
    tree = ast.parse(block.code)
    ast.increment_lineno(tree, block.line - 1)
    if is_settings(tree):
        namespace = {}
    exec(compile(tree, block.page, "exec"), namespace)  # noqa: S102 - our own documents
    if is_settings(tree):
        check_as_crawl({name: value for name, value in namespace.items() if name.isupper()})


def refuse(*_: Any) -> None:
    raise AssertionError("a block of the documentation asked for the network")


# The blocks of this one need the extra `beside`: test_beside_docs runs them.
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
        if name := saved_name(block):
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
                check_line(block.code)
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


def test_what_is_not_run_says_why() -> None:
    assert all(reason for _, reason in NOT_RUN), NOT_RUN
