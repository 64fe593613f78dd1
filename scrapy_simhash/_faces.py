"""The face of a room (a subpackage): its public names, each loaded on first use.

Every `scrapy` call imports this package for its commands, so a face must load nothing: importing
trafilatura takes 0.3 s, numpy 0.1 s.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def make_face(room: str, names: Mapping[str, str], modules: str = "") -> None:
    """Give a room its `__all__` and its `__getattr__`, which loads names on first use.

    Args:
        room: the room's `__name__`.
        names: public names by module, separated by spaces; modules of other rooms by their path.
        modules: modules that other rooms may import, separated by spaces.
    """
    homes = {name: module for module, some in names.items() for name in some.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found = getattr(import_module(f".{homes[name]}", room), name)
        setattr(sys.modules[room], name, found)  # so that `get` is called once
        return found

    vars(sys.modules[room]).update(__getattr__=get, __all__=sorted([*homes, *modules.split()]))
