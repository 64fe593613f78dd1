"""What explain says of two pages as an HTML file: their texts side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.inspection import InspectionError
from scrapy_simhash.untrusted import show
from scrapy_simhash.wholefile import open_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def write_difference(
    answers: Sequence[dict[str, Any]], path: Path, *, overwrite: bool
) -> Sequence[dict[str, Any]]:
    """Write the first of the answers that has two texts.

    Args:
        answers: of explain.
        path: of the file.
        overwrite: replace a file that is there.

    Returns:
        The answers; that one has `html`, where it was written, too.

    Raises:
        InspectionError: none has two texts, or a library is missing; nothing was written.
        OSError: the file cannot be written; what was there before is there still.
    """
    try:
        from scrapy_simhash.report_page import pack, render  # noqa: PLC0415 - loads jinja2
    except ImportError as error:
        raise InspectionError(
            f"--html needs pip install 'scrapy-simhash[report]': {error}"
        ) from error
    answer = next((answer for answer in answers if "side_by_side" in answer), None)
    if answer is None:
        found = answers[0].get("note") or answers[0]["verdict"]
        raise InspectionError(f"{path} was not written, because there is no pair of texts: {found}")
    first, second = (
        {"url": show(each["url"]), "title": show(each["title"])} for each in answer["pages"]
    )
    page = render(
        "pair.html",
        {
            "verdict": answer["verdict"],
            "facts": _list_facts(answer),
            "tests": answer.get("tests", []),
        },
        pack({"pairs": [{"first": first, "second": second, "rows": answer["side_by_side"]}]}),
    )
    with open_whole(path, overwrite=overwrite) as file:
        file.write(page)
    return [{**each, "html": str(path)} if each is answer else each for each in answers]


def _list_facts(answer: dict[str, Any]) -> dict[str, str]:
    facts = {
        "bits apart": f"{answer['distance']}",
        "of words in common": f"{answer['jaccard']:.0%}",
    }
    for name in ("main", "whole"):
        if (alike := answer.get(f"{name}_similarity")) is not None:
            facts[f"{name} texts alike"] = f"{alike:.2f}"
    return facts
