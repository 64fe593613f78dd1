"""`urls`: rules are learned, listed, shown, changed, audited, and kept in files."""

import asyncio
from pathlib import Path
from shutil import copytree

import pytest

from scrapy_simhash.judging.rows import Owed, Why
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.owed import put
from scrapy_simhash.urls.rules import RuleState, UrlRuleRecord, parse_rule
from tests.helpers.addresses import LANG, PAGE, SID, SITE, add_rule, crawl_addresses
from tests.helpers.commanding import Run, assert_printable
from tests.helpers.documents import CRAWL, document, open_in_crawl, open_lmdb
from tests.helpers.owing import take_owed
from tests.helpers.parking import read_rule
from tests.helpers.redisservers import RedisServer

OTHER = "b.example strip-slash"
# 25 votes are proof; a difference is one against it.
DIRECTORIES = ("/*", *(f"/{name}/*" for name in "abcdef"))
PROVEN = {
    "same": 25,
    "grey": 2,
    "directories": DIRECTORIES,
    "examples": ((f"{SITE}/a?sid=2", f"{SITE}/a?sid=1"),),
}
WRONG = {
    "same": 3,
    "different": 2,
    "conflicts": (
        (f"{SITE}/list?page=2", f"{SITE}/list?page=1"),
        (f"{SITE}/list?page=3", f"{SITE}/list?page=1"),
    ),
    "examples": ((f"{SITE}/gone?page=2", f"{SITE}/list?page=1"),),
    "history": ((1_700_000_000.0, RuleState.ACTING, "25 same, 0 different: at least 0.902 same"),),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with four rules: a right one, a wrong one that is pinned, and two candidates."""
    path = tmp_path_factory.mktemp("urls") / "store"
    asyncio.run(crawl_addresses(path, keep_text=True))
    with open_store(str(path)) as opened:
        add_rule(opened, SID, "pin", state=RuleState.ACTING, **PROVEN)
        add_rule(opened, PAGE, "pin", **WRONG)
        add_rule(opened, LANG, same=1)
        add_rule(opened, OTHER)
    return path


@pytest.fixture
def store(crawled: Path, tmp_path: Path) -> Path:
    return Path(copytree(crawled, tmp_path / "store"))


def get(store: Path, text: str) -> UrlRuleRecord:
    with open_store(str(store), readonly=True) as opened:
        return read_rule(opened, parse_rule(text))


def id_of(text: str) -> str:
    return parse_rule(text).id


def park(store: Path, *names: str) -> None:
    """Park requests by a rule, as a crawl that has ended."""

    def work(stored: Documents) -> None:
        rows = [
            Owed(f"{SITE}{name}", Why.PARKED, "spider", "crawl-0", page=1, rules=(id_of(SID),))
            for name in names
        ]
        put(stored, rows)

    with open_store(str(store)) as opened:
        opened.write(work)


def list_released(store: Path) -> list[str]:
    with open_in_crawl(store) as opened:
        return sorted(owed.url for _, owed in take_owed(opened))


def test_rules_that_act_come_first(run: Run, crawled: Path) -> None:
    for words in ((), ("list",)):
        out = run.text("urls", *words, "--store", crawled)
        assert_printable(out)
        rules = [line for line in out.splitlines() if not line.startswith(" ")]
        assert rules == [
            f"pinned    {id_of(PAGE)}  {PAGE}  (imported)",
            f"acting    {id_of(SID)}  {SID}  (imported)",
            f"learning  {id_of(LANG)}  {LANG}  (imported)",
            f"learning  {id_of(OTHER)}  {OTHER}  (imported)",
        ]
        assert "25 same, 0 different, 2 grey: at least 0.90 same" in out
        assert "          in /*, /a/*, /b/*, /c/*, /d/*, /e/* and 1 more\n" in out
        assert out.count("it acts once it has 11 votes that are the same") == 2


def test_a_pinned_rule_that_is_wrong_is_shouted_about(run: Run, crawled: Path) -> None:
    for words in (("list",), ("show", PAGE)):
        out = run("urls", *words, "--store", crawled).out
        assert out.count("PINNED, BUT WRONG") == 1
        assert f"`scrapy simhash urls set retire {id_of(PAGE)}` undoes this" in out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--host", "b.example"), [OTHER]),
        (("--state", "learning"), [LANG, OTHER]),
        (("--state", "learning", "--host", "site.example"), [LANG]),
        (("list", "--state", "acting"), [SID]),
        (("--state", "acting", "list"), [SID]),
        (("--host", "c.example"), []),
        (("--state", "banned"), []),
    ],
)
def test_hosts_and_states(
    run: Run, crawled: Path, options: tuple[str, ...], expected: list[str]
) -> None:
    done = run("urls", *options, "--store", crawled, "--json")
    assert [answer["rule"] for answer in done.answers] == expected
    assert done.exit_code == (not expected)
    if not expected:
        assert run("urls", *options, "--store", crawled).out == "nothing found\n"


def test_json_has_all_of_a_rule(run: Run, crawled: Path) -> None:
    before, after = (
        run(*words).answers[0]
        for words in (
            ("urls", "--json", "--store", crawled, "list", "--state", "acting"),
            ("urls", "list", "--state", "acting", "--store", crawled, "--json"),
        )
    )
    assert before == after
    created = before.pop("created")
    assert created > 1_700_000_000
    assert before == {
        "rule": SID,
        "id": id_of(SID),
        "host": "site.example",
        "kind": "drop-parameter",
        "state": "acting",
        "wrong": False,
        "same": 25,
        "different": 0,
        "grey": 2,
        "lower_bound": 0.9023,
        "directories": [*DIRECTORIES],
        "parked": 0,
        "sampled": 0,
        "sampled_same": 0,
        "sampled_different": 0,
        "imported": True,
        "lacks": "",
    }


def test_conflicts_are_shown_first_as_explain_shows_pairs(run: Run, crawled: Path) -> None:
    out = run.text("urls", "show", PAGE, "--store", crawled)
    assert_printable(out)
    lines = out.splitlines()
    assert [line for line in lines if line.startswith("voted ")] == [
        "voted different:",
        "voted different:",
        "voted same:",
    ]
    assert (
        "          2023-11-14 22:13:20  acting    25 same, 0 different: at least 0.902 same"
        in lines
    )
    assert lines.count("by the current settings: different pages") == 2
    # The newest one first.
    assert lines.index(f"{SITE}/list?page=3") < lines.index(f"{SITE}/list?page=2")
    assert f"{SITE}/gone?page=2 was deleted since" in lines
    explained = run(
        *("explain", f"{SITE}/list?page=3", f"{SITE}/list?page=1", "--store", crawled)
    ).out.splitlines()
    shown = lines[lines.index("voted different:") + 1 : lines.index("voted different:", 20) - 1]
    assert shown == [line for line in explained if not line.startswith("seed ")]


def test_rules_are_found_by_text_by_words_and_by_id(run: Run, crawled: Path) -> None:
    for words in ([SID], SID.split(), [id_of(SID)], [id_of(SID).upper()]):
        rule, pair = run.answers("urls", "show", *words, "--store", crawled)
        assert (rule["rule"], rule["pairs"], rule["history"][-1]["state"]) == (SID, 1, "pinned")
        assert (pair["voted"], pair["judged"]) == ("same", True)
        assert [page["url"] for page in pair["pages"]] == [f"{SITE}/a?sid=2", f"{SITE}/a?sid=1"]
    both = run.answers("urls", "show", SID, id_of(LANG), "--store", crawled)
    assert [answer["rule"] for answer in both if "history" in answer] == [SID, LANG]
    assert "no pair of pages has voted yet" in run("urls", "show", LANG, "--store", crawled).out


@pytest.mark.parametrize("action", ["show", "set pin", "set ban", "set learn"])
def test_an_unknown_rule_is_named_and_nothing_is_changed(
    run: Run, crawled: Path, action: str
) -> None:
    before = (crawled / "data.mdb").read_bytes()
    for words, name in (
        ([SID, f"{SID}x"], f"{SID}x"),
        (f"{SID}x".split(), f"{SID}x"),
        (["0123456789abcdef"], "0123456789abcdef"),
    ):
        err = run.refused("urls", *action.split(), *words, "--store", crawled)
        assert f"there is no rule '{name}'" in err
        assert ("did you mean" in err) == (name != "0123456789abcdef")
        assert "`scrapy simhash urls` lists them all" in err
    assert (crawled / "data.mdb").read_bytes() == before


@pytest.mark.parametrize(
    ("action", "state"),
    [("pin", "pinned"), ("ban", "banned"), ("retire", "retired"), ("learn", "learning")],
)
def test_states_are_changed(run: Run, store: Path, action: str, state: str) -> None:
    assert run.text("urls", "set", action, SID, id_of(LANG), "--store", store).startswith(
        f"{state:<8}  {id_of(SID)}  {SID}"
    )
    for text in (SID, LANG):
        record = get(store, text)
        assert record.state == state
        assert record.history[-1][1] == state
    assert get(store, PAGE).state == RuleState.PINNED


def test_rules_are_learned_on_demand(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    pages = {
        f"/{'abc'[number % 3]}/p{number}{query}": number
        for query in ("", "?sid=#")
        for number in range(30)
    }
    asyncio.run(crawl_addresses(store, {path.replace("#", str(n)): n for path, n in pages.items()}))
    out = run.text("urls", "learn", "--store", store)
    assert out.startswith(f"acting    {id_of(SID)}  {SID}\n")
    assert out.endswith("1 rule, 1 of them act\n")
    assert run.answers("urls", "learn", "--store", store) == [{"rules": 1, "acting": 1}]


def test_parked_requests_are_counted(run: Run, store: Path) -> None:
    park(store, "/x?sid=1", "/y?sid=1")
    assert "; 2 parked\n" in run("urls", "--store", store).out
    assert list_released(store) == []


def test_on_a_server(run: Run, redis_server: RedisServer, tmp_path: Path) -> None:
    url = redis_server.url()
    with open_store(url) as opened:
        opened.start_crawl(CRAWL, "spider")
        opened.find_and_add([document("a", 1)], crawl=CRAWL)
        add_rule(opened, SID, "pin", state=RuleState.ACTING, **PROVEN)
    path = tmp_path / "rules"
    path.write_text(f"{PAGE}\n")
    where = ("--store", url)
    assert run("urls", "set", "learn", "--file", path, *where).exit_code == 0
    listed = run.answers("urls", *where)
    assert [(answer["rule"], answer["state"]) for answer in listed] == [
        (SID, "acting"),
        (PAGE, "learning"),
    ]
    assert run("urls", "set", "retire", SID, *where).out.startswith("retired ")
    assert run("urls", "set", "pin", PAGE, *where).exit_code == 0
    assert run("urls", "list", "-o", "-", *where).out.splitlines() == [PAGE]
    assert run("urls", "audit", *where).exit_code == 0
    assert run("urls", "show", SID, *where).exit_code == 0


def test_side_by_side_in_a_file(run: Run, crawled: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.html"
    out = run.text("urls", "show", PAGE, "--html", path, "--store", crawled)
    html = path.read_text("utf-8")
    assert html.count('class="difference"') == 2  # the third has a page that was deleted
    assert f"side by side    {path}" in out
    assert "exists already" in run.refused("urls", "show", PAGE, "--html", path, "--store", crawled)
    asked = ("urls", "show", LANG, "--html", path, "--overwrite", "--store", crawled)
    assert "there is no pair of texts" in run(*asked).err
    assert path.read_text("utf-8") == html


def test_audit(run: Run, crawled: Path, tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text(f"{SID}\n{PAGE}\n")
    done = run("urls", "audit", path, "--store", crawled)
    assert done.exit_code == 1
    assert done.err == "scrapy simhash urls: 1 rule gives different pages one address\n"
    lines = done.out.splitlines()
    assert lines[0].endswith(PAGE)
    assert "          0 same, 2 different, 0 grey: at least 0.00 same" in lines
    assert lines.count("voted different:") == 2
    assert f"{SITE}/list?page=2" in lines
    path.write_text(SID)
    run.text("urls", "audit", path, "--store", crawled)
    done = run("urls", "audit", "--store", crawled)  # those that act
    assert (done.exit_code, done.out.splitlines()[0]) == (1, lines[0])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "has no rule"),
        ("\x00\x1b[2J", "line 1: URL rule"),
    ],
)
@pytest.mark.parametrize("action", ["audit", "set learn --file"])
def test_what_is_no_file_of_rules_is_refused(
    run: Run, crawled: Path, tmp_path: Path, action: str, content: str, complaint: str
) -> None:
    path = tmp_path / "rules"
    path.write_text(content)
    before = (crawled / "data.mdb").read_bytes()
    err = run.refused("urls", *action.split(), path, "--store", crawled)
    assert complaint in err
    assert_printable(err)
    assert (crawled / "data.mdb").read_bytes() == before
    for missing in (tmp_path / "missing", tmp_path):
        assert f"{missing}: " in run.refused("urls", *action.split(), missing, "--store", crawled)


def test_rules_go_to_a_file_and_come_back_as_candidates(
    run: Run, store: Path, tmp_path: Path
) -> None:
    path, other = tmp_path / "rules", tmp_path / "other"
    out = run.text("urls", "list", "-o", "-", "--store", store)
    assert out.splitlines() == [PAGE, SID]
    assert run("urls", "list", "-o", "-", "--state", "learning", "--store", store).out == (
        f"{LANG}\n{OTHER}\n"
    )
    answer = run.answer("urls", "list", "-o", path, "--store", store)
    assert answer == {"file": str(path), "written": 2}
    assert path.read_text() == out
    asyncio.run(crawl_addresses(other, pages={"/x": 1}))
    before = (other / "data.mdb").read_bytes()
    for words in (["--dry-run"], []):
        out = run.text("urls", "set", "learn", "--file", path, *words, "--store", other)
        assert out.count("learning  ") == 2
        assert ((other / "data.mdb").read_bytes() == before) == (words != [])
    record = get(other, SID)
    assert (record.state, record.same, record.imported) == (RuleState.LEARNING, 0, True)
    assert run("urls", "set", "pin", "--file", path, "--store", other).exit_code == 0
    assert get(other, SID).state == RuleState.PINNED


def test_a_file_leaves_rules_alone_that_are_there(run: Run, store: Path, tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text(f"{SID}\nc.example use-https\n")
    answer = run.answer("urls", "set", "learn", "--file", path, "--store", store)
    assert answer["rule"] == "c.example use-https"
    record = get(store, SID)
    assert (record.state, record.same) == (RuleState.ACTING, 25)


def test_nothing_to_export(run: Run, store: Path, tmp_path: Path) -> None:
    assert "there is no rule that acts: nothing was written" in run.failed(
        "urls", "list", "--host", "c.example", "-o", tmp_path / "x", "--store", store
    )
    assert not (tmp_path / "x").exists()
    assert "is a folder" in run.refused("urls", "list", "-o", store, "--store", store)


def test_a_store_without_rules(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "store"
    open_lmdb(path).close()
    done = run("urls", "--store", path)
    assert (done.exit_code, done.out, done.err) == (1, "nothing found\n", "")


def test_names_of_a_hostile_site_are_printed_safely(run: Run, store: Path) -> None:
    hostile = "site.example drop-parameter \x1b[2J\u202e"
    with open_store(str(store)) as opened:
        conflict = ((f"{SITE}/\x1b[2J", f"{SITE}/\u202e"),)
        rule = parse_rule(hostile).text
        add_rule(opened, hostile, different=1, conflicts=conflict)
    assert_printable(run("urls", "--store", store).out)
    assert_printable(run("urls", "show", rule, "--store", store).out)
