"""The documentation as a site: `sphinx-build -W --keep-going -n docs FOLDER` (extra `docs`)."""

import os
import sys
from pathlib import Path

# Modules import for the type checker what only annotations name; autodoc reads these, too.
os.environ["SPHINX_AUTODOC_RELOAD_MODULES"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import scrapy_simhash

project = "scrapy-simhash"
author = "the authors of scrapy-simhash"
release = version = scrapy_simhash.__version__
html_theme = "furo"
html_title = f"scrapy-simhash {release}"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_argparse_cli"]

# All headings can be linked to, by the names that GitHub gives them.
myst_heading_anchors = 4

# Docstrings write code in single backquotes, as Markdown does.
default_role = "code"
# How their objects are made is of no interest: users get them, and attributes are listed.
autodoc_class_signature = "separated"
autodoc_default_options = {"exclude-members": "__init__, __new__"}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# Other projects' names: there is no network to ask them for links when the site is built. And of
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
