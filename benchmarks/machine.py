"""Says what numbers were measured on; imported by the benchmarks."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def describe_machine() -> dict[str, str | int]:
    """Say what the numbers were measured on; no host name."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "model": model,
        "cores": os.cpu_count() or 0,
        "memory_gib": round(memory / 2**30),
        "system": platform.system(),
    }


def describe_versions(*names: str) -> dict[str, str]:
    """Say which versions of these distributions were measured."""
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
