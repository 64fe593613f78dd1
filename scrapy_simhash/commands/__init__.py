"""`scrapy simhash COMMAND`: options, work and printing, one module for each family of commands."""

from scrapy_simhash.commands.command import SimhashCommand

__all__ = ["SimhashCommand"]
