"""The arguments of all commands, for the page that is generated from them."""

import argparse

from scrapy_simhash.commands.command import add_commands


def make_parser() -> argparse.ArgumentParser:
    """Make the parser that `scrapy simhash` has, without Scrapy's own options."""
    parser = argparse.ArgumentParser("scrapy simhash", add_help=False)
    add_commands(parser)
    return parser
