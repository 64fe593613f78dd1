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
    assert named["4"] == ["4", "16", "16", "0", "4", "262,144"]
    optimum = [line[:2] for line in lines if len(line) == 3 and line[0].isdigit()]
    assert optimum[:4] == [["4", "16"], ["10", "25"], ["16", "28"], ["20", "31"]]
    for extreme in ("scan all", "probe every neighbour", "store every neighbour"):
        assert f"\n{extreme} " in out
    assert ["setting:", "SIMHASH_TABLES", "=", '"10"'] in lines
