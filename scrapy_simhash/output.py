"""Prints the commands' answers: JSON lines, or text for people."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Answers of these commands are JSON with or without --json.
_JSON_COMMANDS = {"fingerprint", "find-all", "find-clusters", "batch-query"}
_FOUND, _NOTHING_FOUND = 0, 1


def show(command: str, answers: Iterable[dict[str, Any] | str], *, as_json: bool) -> int:
    """Print each answer as it comes; a `str` is ready to be printed, lines of JSON.

    Returns:
        The exit code: 0, or 1 when there was no answer.
    """
    code = _NOTHING_FOUND
    try:
        for answer in answers:
            code = _FOUND
            if isinstance(answer, str):
                print(answer, end="", flush=True)  # noqa: T201
            elif as_json or command in _JSON_COMMANDS:
                print(json.dumps(answer), flush=True)  # noqa: T201 - that is what a command does
            else:
                for line in _PRINTERS.get(command, _print_fields)(answer):
                    print(line, flush=True)  # noqa: T201
    except (KeyboardInterrupt, BrokenPipeError):
        # `log --follow` is ended so, and so is a pipe to `head`; the rest of the pipe is gone.
        sys.stderr.close()
    if code == _NOTHING_FOUND and not as_json and command not in {"log", *_JSON_COMMANDS}:
        print("nothing found")  # noqa: T201
    return code


def _print_fields(answer: dict[str, Any], indent: str = "") -> Iterable[str]:
    for key, value in answer.items():
        name = f"{indent}{key.replace('_', ' ')}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{name}:"
            yield from (f"{indent}  {_print_row(row)}" for row in value)
        elif isinstance(value, dict):
            yield f"{name}:"
            for inner, count in value.items():
                yield f"{indent}  {printable(inner) or '(global)'}: {_format(inner, count)}"
        else:
            yield f"{name}: {_format(key, value)}"


def _print_row(row: dict[str, Any]) -> str:
    """Print a group of near-duplicates in a line."""
    kind = f" ({printable(row['kind'])})" if row["kind"] else ""
    return f"{row['near_duplicates']:>6,}  {printable(row['url'])}{kind}"


def _format(key: str, value: object) -> str:
    if key in {"created", "time"} and isinstance(value, float):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(value)


def _print_decision(answer: dict[str, Any]) -> Iterable[str]:
    if "statuses" in answer:
        yield from _print_fields(answer)
        return
    when = datetime.fromtimestamp(answer.get("time", 0), UTC)
    line = f"{when:%H:%M:%S} {answer['status']:<14} {printable(answer['url'])}"
    if answer["status"] == "near_duplicate":
        line += f"  <- {answer.get('distance')} bits from {printable(answer.get('match_url'))}"
    elif answer.get("reason"):
        line += f"  ({printable(answer['reason'])})"
    yield line


def _print_match(answer: dict[str, Any]) -> Iterable[str]:
    yield f"{answer['distance']:>2} bits  {answer['state']:<11}  {printable(answer['url'])}"


def _print_explanation(answer: dict[str, Any]) -> Iterable[str]:
    if "verdict" in answer:
        yield f"{printable(answer['url'])}: {printable(answer['verdict'])}"
    if answer.get("decision"):
        yield "last decision in the log:"
        yield from ("  " + line for line in _print_decision(answer["decision"]))
    for page in answer.get("pages", ()):
        yield printable(page["url"])
        yield from _print_fields({k: v for k, v in page.items() if k != "url"}, "  ")
    if "distance" in answer:
        bits = " ".join(map(str, answer["differing_bits"])) or "none"
        tables = " ".join(map(str, answer["found_by_tables"])) or "none"
        yield f"distance: {answer['distance']} bits; differing bits: {bits}"
        yield f"tables of design {answer['design']} that find the pair: {tables}"
    for test in answer.get("tests", ()):
        yield f"test: {printable(test)}"
    if "jaccard" in answer:
        yield f"shared features: {answer['shared_features']:,} (Jaccard {answer['jaccard']})"
        for side in ("only_in_first", "only_in_second"):
            yield f"{side.replace('_', ' ')}: {printable(', '.join(answer[side])) or 'nothing'}"
        yield from map(printable, answer["text_difference"])
    if "note" in answer:
        yield answer["note"]


def _print_evaluation(answer: dict[str, Any]) -> Iterable[str]:
    confirm = answer["confirm"]
    rule = "without confirmation" if confirm is None else f"confirmed at {confirm:g}"
    yield f"{answer['pages']:,} pages, {answer['pairs']:,} pairs, {answer['unknown']:,} unknown"
    yield f"within {answer['distance']} bits, {rule}:"
    yield f"  precision {_share(answer, 'precision')}, {answer['false_positives']} wrong"
    yield f"  recall    {_share(answer, 'recall')}, {answer['false_negatives']} missed"
    mean = answer["mean_over_sources"]
    yield (
        f"  mean over sources: precision {_ratio(mean['precision'])}, "
        f"recall {_ratio(mean['recall'])}"
    )
    plain = answer["plain"]
    yield (
        f"plain simhash within {PLAIN_DISTANCE_BITS} bits: precision {_share(plain, 'precision')}, "
        f"recall {_share(plain, 'recall')}"
    )
    if left_out := answer["leave_one_source_out"]:
        yield (
            "each source judged with what is best on the others: "
            f"precision {_share(left_out, 'precision')}, recall {_share(left_out, 'recall')}"
        )
    if (hard := answer["hard"])["pairs"]:
        yield (
            f"hard distinct pairs: {hard['false_positives']} of {hard['pairs']} wrong "
            f"({hard['false_positive_rate']:.1%})"
        )
    links = answer["duplicates_with_new_links"]
    yield f"duplicates with mostly new links: {links['mostly_new']} of {links['with_links']}"
    for reason, count in answer["unjudged"].items():
        yield f"not judged: {count} pages ({printable(reason)})"
    costs = answer["milliseconds_per_page"]
    yield "milliseconds a page: " + ", ".join(f"{name} {costs[name]}" for name in costs)
    yield from _print_table(
        "bits",
        [{"name": row["distance"], **row} for row in answer["by_distance"]],
        _DISTANCE_COLUMNS,
    )
    for group in ("source", "language", "tag"):
        rows = [{"name": name, **tally} for name, tally in answer[f"by_{group}"].items()]
        yield from _print_table(group, rows, _TALLY_COLUMNS)
    for error in answer.get("errors", ()):
        yield ""
        yield f"{error['label']}, judged {error['judged']} ({error['distance']} bits)"
        yield from (f"  {printable(error[key])}" for key in ("first", "second", "why"))
        yield from (f"  {printable(test)}" for test in error["tests"])


def _share(figures: dict[str, Any], name: str) -> str:
    if figures[name] is None:
        return "-"
    low, high = figures[f"{name}_interval"]
    return f"{figures[name]:.3f} ({low:.3f} to {high:.3f})"


def _ratio(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


_TALLY_COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "false_positives": "wrong",
    "false_negatives": "missed",
}
_DISTANCE_COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "false_positives": "wrong",
    "plain_precision": "plain precision",
    "plain_recall": "plain recall",
}


def _print_table(name: str, rows: list[dict[str, Any]], columns: dict[str, str]) -> Iterable[str]:
    """Lay out figures in columns; names that are too long lose their beginning."""
    yield ""
    yield f"{name:<34}" + "".join(f"{title:>{len(title) + 2}}" for title in columns.values())
    for row in rows:
        cells = (f"{_cell(row[key]):>{len(title) + 2}}" for key, title in columns.items())
        yield f"{printable(row['name'])[-33:]:<34}" + "".join(cells)


def _cell(value: float | None) -> str:
    return str(value) if isinstance(value, int) else _ratio(value)


def _print_plan(answer: dict[str, Any]) -> Iterable[str]:
    yield (
        f"{answer['documents']:,} documents (d = {answer['log2_documents']}), "
        f"within {answer['distance']} bits"
    )
    yield ""
    yield (
        f"{'design':<9}{'tables':>7}{'p':>7}{'flips':>6}{'keys':>8}{'2^(d-p)':>10}"
        f"{'candidates':>11}{'bytes':>10}{'us':>11}"
    )
    for row in answer["designs"]:
        narrow, wide = row["narrowest_bits"], row["widest_bits"]
        yield (
            f"{row['design']:<9}{row['tables']:>7}"
            f"{narrow if narrow == wide else f'{narrow}-{wide}':>7}{row['flips']:>6}"
            f"{_short(row['keys']):>8}{_short(row['prefix_candidates']):>10}"
            f"{_short(row['candidates']):>11}{_short(row['bytes']):>10}"
            f"{_short(row['microseconds']):>11}"
        )
    for row in answer["extremes"]:
        yield (
            f"{row['name']:<29}{_short(row['keys']):>8}{'':>10}{_short(row['candidates']):>11}"
            f"{_short(row['bytes']):>10}{_short(row['microseconds']):>11}"
        )
    yield "2^(d-p): fingerprints of a table with the narrowest prefix; keys, candidates"
    yield "and microseconds: of a query, in all tables; bytes: after compact"
    yield ""
    yield f"fewest tables for a prefix of at least p bits, X(64, {answer['distance']}, d):"
    for start in range(0, len(answer["optimum"]), _OPTIMA_A_LINE):
        part = answer["optimum"][start : start + _OPTIMA_A_LINE]
        for title, key in (
            ("tables", "tables"),
            ("p", "narrowest_bits"),
            ("2^(d-p)", "prefix_candidates"),
        ):
            yield f"{title:<8}" + "".join(f"{_short(each[key]):>9}" for each in part)
    yield ""
    choice = answer["choice"]
    yield (
        f"fastest within the bounds: {choice['tables']} tables, {_short(choice['bytes'])} bytes, "
        f"{_short(choice['microseconds'])} us"
    )
    yield answer["setting"]


_OPTIMA_A_LINE = 8


def _print_compaction(answer: dict[str, Any]) -> Iterable[str]:
    for key, unit in (
        ("table_bytes_per_fingerprint", "table bytes a fingerprint"),
        ("file_bytes", "bytes of the file"),
    ):
        yield f"{answer[f'{key}_before']:,} -> {answer[f'{key}_after']:,} {unit}"
    if not answer["shrunk"]:
        yield (
            "the file was not shrunk because somebody has the store open; what became free in it "
            "is used again. Run compact once more when nobody does"
        )


def _print_check(answer: dict[str, Any]) -> Iterable[str]:
    yield from map(printable, answer["problems"])
    if not answer["problems"]:
        yield (
            f"no problems: {answer['tables']} tables of {answer['fingerprints']:,} fingerprints "
            "compared with each other and with the documents"
        )


def _print_backup(answer: dict[str, Any]) -> Iterable[str]:
    yield from map(printable, answer["problems"])
    if answer["folder"]:
        yield (
            f"{printable(answer['folder'])}: {answer['documents']:,} documents, "
            f"{answer['fingerprints']:,} fingerprints, {answer['file_bytes']:,} bytes; "
            f"{'no problems' if answer['checked'] else 'not checked'}"
        )


def _print_removal(answer: dict[str, Any]) -> Iterable[str]:
    if "url" in answer:
        yield f"{answer['state']:<9}  {printable(answer['url'])}"
    else:
        done = "deleted" if answer["deleted"] else "would delete"
        yield (
            f"{done} {answer['documents']:,} documents and {answer['near_duplicates']:,} "
            "near-duplicates of them"
        )


def _short(number: float) -> str:
    """Write a number in three digits: 0.298, 512, 17.2G."""
    rounded = float(f"{number:.3g}")
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if scale <= rounded < 1e3 * scale:
            return f"{rounded / scale:.3g}{unit}"
    return f"{rounded:.3g}"


_PRINTERS: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
    "log": _print_decision,
    "query": _print_match,
    "explain": _print_explanation,
    "evaluate": _print_evaluation,
    "plan": _print_plan,
    "compact": _print_compaction,
    "check": _print_check,
    "backup": _print_backup,
    "prune": _print_removal,
    "delete": _print_removal,
    "undo": lambda answer: [printable(answer["url"])],
}
