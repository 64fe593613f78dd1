"""Run the tests of the Scrapy that is installed, without and with the plugin, and compare.

    pip install '.[suite]'         # in an environment of its own
    python -m tests.scrapy_suite [--short] [FILE ...]

Exit code 1: a test ends otherwise with the plugin, and `differing.toml` does not name it.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
# Files of Scrapy's tests that crawl, half a minute of them.
SHORT = (
    "tests/test_pipelines.py",
    "tests/test_spider_start.py",
    "tests/test_spidermiddleware_output_chain.py",
)
ENDS = {"failure": "failed", "error": "error", "skipped": "skipped"}
# Pytest 9.2 warns of fixtures of Scrapy 2.19; and there may be no internet.
OPTIONS = (
    *("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestWarning"),
    *("-m", "not requires_internet"),
)


def fetch_suite(folder: Path) -> Path:
    """Download the source of the Scrapy that is installed; its package is put out of the way."""
    wanted = f"scrapy=={version('scrapy')}"
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "scrapy")
    subprocess.run((*pip, "--dest", str(folder), wanted), check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    suite = archive.with_name(archive.name.removesuffix(".tar.gz"))
    (suite / "scrapy").rename(suite / "not-imported")
    return suite


def run_suite(suite: Path, tests: Sequence[str], *, plugged: bool) -> dict[str, str]:
    """Run tests; how each ended by its name: passed, failed, error or skipped."""
    results = suite.parent / "results.xml"
    environment = {**os.environ, "SIMHASH_SUITE": str(suite.parent)}
    plugin: tuple[str, ...] = ()
    if plugged:
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE / "plugged"), str(suite)])
        plugin = ("-p", "ownstores")
    command = (sys.executable, "-m", "pytest", *OPTIONS, *plugin, f"--junitxml={results}", *tests)
    subprocess.run(command, cwd=suite, env=environment, check=False)
    found = {}
    for case in ET.parse(results).iter("testcase"):  # noqa: S314
        ends = [ENDS[part.tag] for part in case if part.tag in ENDS]
        found[f"{case.get('classname')}.{case.get('name')}"] = ends[0] if ends else "passed"
    return found


def main() -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help=f"only {', '.join(SHORT)}")
    parser.add_argument("files", nargs="*", help="files of Scrapy's tests (default: all)")
    options = parser.parse_args()
    tests = options.files or (SHORT if options.short else ("tests",))
    reasons: dict[str, str] = tomllib.loads((HERE / "differing.toml").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        suite = fetch_suite(Path(folder))
        without = run_suite(suite, tests, plugged=False)
        plugged = run_suite(suite, tests, plugged=True)
    for label, ends in (("without", without), ("with", plugged)):
        counted = ", ".join(
            f"{number:,} {how}" for how, number in sorted(Counter(ends.values()).items())
        )
        print(f"Scrapy {version('scrapy')} {label} the plugin: {counted}")
    names = sorted(without.keys() | plugged.keys())
    differing = [name for name in names if without.get(name) != plugged.get(name)]
    for name in differing:
        how = f"{without.get(name)} without, {plugged.get(name)} with"
        print(f"{name}: {how}: {reasons.get(name, 'NO REASON IS KNOWN')}")
    return int(not without or not reasons.keys() >= {*differing})


if __name__ == "__main__":
    sys.exit(main())
