"""`scrapy simhash plan`: the table of Example 3.1 for the user's numbers, bounds, refusals."""

from tests.helpers.commanding import Run


def test_the_example_of_the_paper(run: Run) -> None:
    out = run.text("plan", "--documents", 2**34, "--distance", 3)
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["documents:", "17,179,869,184"]
    named = {line[0]: line[1:7] for line in lines if len(line) == 12}
    assert named["20"] == ["20", "31", "33", "0", "20", "8"]
    assert named["16"] == ["16", "28", "28", "0", "16", "64"]
    assert named["10"] == ["10", "25", "26", "0", "10", "512"]
    assert named["4"] == ["4", "16", "16", "0", "4", "262k"]
    optimum = [line[:2] for line in lines if len(line) == 3 and line[0].isdigit()]
    assert optimum[:4] == [["4", "16"], ["10", "25"], ["16", "28"], ["20", "31"]]
    for extreme in ("scan all", "probe every neighbour", "store every neighbour"):
        assert f"\n{extreme} " in out
    assert ["setting:", "SIMHASH_TABLES", "=", '"10"'] in lines


def test_the_distance_is_that_of_the_settings(run: Run) -> None:
    arguments = ("--documents", "1M", "--json")
    (answer,) = run("plan", *arguments).answers
    assert answer["distance"] == 7
    (answer,) = run("-s", "SIMHASH_DISTANCE=2", "plan", *arguments).answers
    assert answer["distance"] == 2


def test_bounds(run: Run) -> None:
    arguments = ("--documents", "10M", "--distance", 3, "--json")
    for measure, most, limit in (
        ("bytes", "300M", 300_000_000),
        ("candidates", "10", 10),
        ("tables", "2", 2),
    ):
        (answer,) = run("plan", *arguments, f"--max-{measure}", most).answers
        assert answer["bounds"][measure] == limit
        within = [design for design in answer["designs"] if design[measure] <= limit]
        assert len(within) < len(answer["designs"])
        assert answer["choice"] == min(within, key=lambda one: one["microseconds"])
