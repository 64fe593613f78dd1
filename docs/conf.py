"""The documentation as a site: `sphinx-build -W --keep-going -n docs FOLDER` (extra `docs`)."""

import os
import sys
from pathlib import Path

# Modules import for the type checker what only annotations name; autodoc reads these, too.
os.environ["SPHINX_AUTODOC_RELOAD_MODULES"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import scrapy_simhash

project = "scrapy-simhash"
author = "scrapy_simhash maintainers"
release = version = scrapy_simhash.__version__
html_theme = "furo"
html_title = f"scrapy-simhash {release}"
# The page `settings` as text is `_sources/settings.md`, for programs.
html_sourcelink_suffix = ""
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosectionlabel",
    "sphinx.ext.napoleon",
    "sphinx_argparse_cli",
]
if os.environ.get("READTHEDOCS"):  # elsewhere the site is built without network
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "scrapy": ("https://docs.scrapy.org/en/latest", None),
        "numpy": ("https://numpy.org/doc/stable", None),
    }

# Other projects link to a setting, meta key, stat or command by its heading, such as
# `settings:SIMHASH_ACTION` or `meta:simhash/pages`, which the inventory of the site has.
autosectionlabel_prefix_document = True

# All headings can be linked to, by the names that GitHub gives them.
myst_heading_anchors = 4

# Docstrings write code in single backquotes, as Markdown does.
default_role = "code"
# How their objects are made is of no interest: users get them, and attributes are listed.
autodoc_class_signature = "separated"
autodoc_default_options = {"exclude-members": "__init__, __new__"}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# Other projects' names, which are links on Read the Docs only. And of
# "Shape (n, 2): ..." napoleon takes the shape for types.
nitpick_ignore_regex = [
    ("py:class", r"collections\.\w+(\.\w+)?|NDArray|np\..*|numpy\..*|(pathlib\.)?Path"),
    ("py:class", "BaseSettings|Response"),
    ("py:class", r"Shape|n|pairs|matches|\d+"),
    # What one store hands to another that takes it over.
    ("py:class", r"(.*\.)?(Documents|Result)"),
    ("py:class", r"(.*\.)?(Found|Marks)"),
    # An alias of `Literal`; and what stands before a colon in a sentence, taken for a type.
    ("py:class", r"RuleAction|Kept|XXH3-64|.*\s.*"),
]
