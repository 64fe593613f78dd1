"""The site builds without a warning, and its figures are drawn from the data beside them."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

import scrapy_simhash
from scrapy_simhash.commands.command import COMMANDS
from scrapy_simhash.config import Config
from tests.helpers.documents_read import PAGES
from tests.helpers.needing import require_modules
from tests.helpers.processes import ROOT, run_python

FIGURES = ROOT / "docs" / "figures"
# What `pip install 'scrapy-simhash[docs]'` brings.
TOOLS = ("sphinx", "myst_parser", "furo", "sphinx_argparse_cli")


@pytest.fixture
def sphinx() -> None:
    """Skip the test, or fail, where the site cannot be built."""
    require_modules("docs", *TOOLS)


@pytest.mark.slow
@pytest.mark.usefixtures("sphinx")
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
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
    assert all(f'id="scrapy-simhash-{name}"' in commands for name in COMMANDS)
    assert 'id="scrapy_simhash.stores.store.Store.find_and_add"' in python


def test_the_text_about_the_figures_has_their_numbers() -> None:
    data = json.loads((FIGURES / "data.json").read_text("utf-8"))
    text = " ".join((ROOT / "docs" / "paper.md").read_text("utf-8").split())
    labelled, site = data["labelled"], data["site"]["all pages"]
    assert f"{labelled['pairs']:,} labelled pairs of {labelled['pages']:,} real pages" in text
    assert min(row["precision"] for row in labelled["by_distance"]) > 0.995
    assert f"{site['positions'][-1]} of {site['fingerprints'] - 1} neighbours are equal" in text
    assert f"{data['site']['one of each document']['fingerprints']} pages of two manuals" in text
