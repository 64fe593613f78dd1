"""Whatever 0.1.0 refused is refused still, with the same message or a better one.

`errors-0.1.0.txt` lists what the `raise` statements of 0.1.0 say, a text a line, with `{}` for
each value. Each stands in the package still, or below: with its new wording, or with the reason
why nobody can meet it any more.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import scrapy_simhash

PACKAGE = Path(scrapy_simhash.__file__).parent
OLD = (Path(__file__).parent / "errors-0.1.0.txt").read_text("utf-8").splitlines()

# The old text: the new one, which the package has.
REWORDED = {
    "store URL {}: write {}:// with two slashes": (
        "store URL {}: write {}://HOST, or ./{} for a folder"
    ),
    "{} is neither in the store nor in the log {}": (
        "{} is neither in the store nor in the log {}; name it as it was fetched"
    ),
    "all worker processes ended, twice": ("{} workers ended before they were at it"),
    "{} was made otherwise than {} beside it ({}), so their fingerprints cannot be compared: "
    "import each from a folder of its own, into a store of its own, or make one of them again. "
    "Nothing was imported": (
        "{} was not made in the same way as {} beside it ({}), so their fingerprints cannot be "
        "compared: import each from a separate folder, into a separate store, or make one of them "
        "again. Nothing was imported"
    ),
    "the server at {} lost its last commits while this one was made": (
        "the server at {} lost its last commits while this one was made; try again"
    ),
    "the store at {} is being rewritten by another process for more than {} seconds": (
        "the store at {} has been rewritten by another process for more than {} seconds; try again "
        "when that is done"
    ),
    "this took so long that another process may have begun the same": (
        "this took so long that another process may have begun to write; try again"
    ),
    "store URL {}: {} is no number of a database; write /0 or nothing": (
        "store URL {}: {} does not number a database; write /0 or nothing"
    ),
    "{} is no store of scrapy_simhash but an LMDB file {}; name another folder": (
        "{} is not a store of scrapy_simhash but an LMDB file {}; name another folder"
    ),
    "{} is no file; move it away, or name another folder": (
        "{} is not a file; move it away, or name another folder"
    ),
    "table design {} leads with {} bits only; at least {} are needed: take fewer or wider blocks": (
        "table design {} leads with {} bits only; at least {} are needed: take fewer blocks"
    ),
    "{} is no table design; take auto, 4, 10, 16, 20, blocks and distance as 'm:k' ('6:3'), or "
    "block widths and distance ('11,11,10,11,11,10:3'); '+2' after any but auto probes with up "
    "to 2 bits flipped, 0 to {}": (
        "{} {}; take auto, 4, 10, 16, 20, or blocks and distance as 'm:k' ('6:3'); '+2' after any "
        "but auto ('4+2') probes with up to 2 bits flipped, 0 to {}"
    ),
    "--urls shows pages of a store: name it with --store": (
        "--urls shows the pages of a store; name it with --store"
    ),
    "say what is to be undone: URLs, --original, --distance, --crawl, --lost": (
        "name what to undo: URLs, --original, --distance, --crawl, --lost or --sink"
    ),
    "say what is to go: --days, --scope or --crawl": (
        "name what to delete: --days, --scope or --crawl"
    ),
    "say what is to go: URLs, --scope or --crawl": (
        "name what to delete: URLs, --scope or --crawl"
    ),
    "SIMHASH_NEVER_DROP: {} is no regular expression ({}); escape what is meant as it stands, "
    "such as '\\?'": (
        "SIMHASH_NEVER_DROP: {} is not a regular expression ({}); escape characters with a special "
        "meaning, such as '\\?'"
    ),
    "no documents yet": ("No document was"),
    "{} of {} documents": ("{} of {} documents were"),
    "{}. Taken over were {}; run the same again: it goes on there": (
        "{}. {} merged; run the same command again to merge the rest"
    ),
    "{} is neither 0 to 1 nor none": ("{} is neither a number from 0 to 1 nor none"),
    "{} is no whole number, 0 or more": ("{} is not a whole number, 0 or more"),
    "{} is there already, and no job finished it: use nothing of it; delete it, or name another "
    "folder": (
        "{} exists already, but no job finished it: do not use it; delete it, or name another "
        "folder"
    ),
    "{} is there already, and whole; name another folder": (
        "{} exists already and is complete; name another folder"
    ),
    "{} was not finished, its job was killed or is still running: make it again": (
        "{} is not complete: its job was killed or is still running; make it again"
    ),
    "{} {}: must be a whole number from 1 to 2**64, such as 8000000, 8e6 or 8M (k, M, G, T)": (
        "{}: must be a whole number from 1 to 2**64, such as 8000000, 8e6 or 8M (k, M, G, T)"
    ),
    "no two of {} fingerprints are within {} bits": "no two of {} are within {}",
    "{} labels left out: {}": "{} left out: {}",
    "{} problems; rebuild mends the tables, a damaged record needs a backup": (
        "{}; rebuild mends the tables, a damaged record needs a backup"
    ),
    "{} rows or pages left out: {}": ("rows or pages left out, {}: {}"),
    "not in the store, or in use by a running crawl: {}": (
        "not in the store, or in use by a running crawl: "
    ),
    " that keeps to the other bounds": (" and within the other bounds"),
    "--follow never ends, so --summary has to do without it": (
        "--follow never ends, so it cannot be combined with --summary"
    ),
    ". Nothing is read or written any more; it is verified when it is opened again": (
        ". Nothing more is read or written; the store is verified when it is reopened"
    ),
    "a code needs an entry for EQUAL and its longest for END, not {}": (
        "EQUAL needs a code, and END the longest one; the lengths are {}"
    ),
    "an archive takes one row of numpy uint64, got {} of shape {}": (
        "an archive takes a one-dimensional array of numpy.uint64, got {} of shape {}"
    ),
    "another import keeps its journal at {}; wait for its end, or name another journal for this "
    "one with --resume": (
        "another import is using the journal {}; wait for its end, or name another journal for "
        "this one with --resume"
    ),
    "clusters are not found after {} rounds; report this": (
        "clusters are not complete after {} rounds; report this"
    ),
    "crawl id {}: a crawl of this id is running": ("crawl id {}: a crawl with this id is running"),
    "distance {}: no design of up to {} tables and {} flipped bits is complete for so many "
    "bits; take a smaller one": (
        "distance {}: no design of up to {} tables and {} flipped bits is complete for it; take a "
        "smaller one"
    ),
    "distance {}: table design {} is complete for 0 to {} bits; take a smaller "
    "SIMHASH_DISTANCE, or a design for it, such as {} (`scrapy simhash rebuild` gives it to a "
    "store)": (
        "distance {}: table design {} is complete for 0 to {} bits; take a smaller "
        "SIMHASH_DISTANCE, or a wider design, such as {} (`scrapy simhash rebuild` gives it to a "
        "store)"
    ),
    "fingerprints are numpy uint64, got {}": ("fingerprints must be numpy.uint64, got {}"),
    "it has format {}, this version reads {}: upgrade scrapy-simhash; if it was made by this "
    "version, octets 8 to 11 are damaged": (
        "it has format {}, but this version reads {}: upgrade scrapy-simhash; if it was made by "
        "this version, octets 8 to 11 are damaged"
    ),
    "it is cut short, or no WARC": ("it is cut short, or not a WARC"),
    "it is no JSON array": ("it is not a JSON array"),
    "it is no archive of scrapy-simhash: it begins with {}": (
        "it is not a scrapy-simhash archive: it begins with {}"
    ),
    "key {} belongs to table {}, which is not there": (
        "key {} belongs to table {}, which does not exist"
    ),
    "key {} has {} octets, no whole rows": ("key {} has {} octets, not whole rows"),
    "no backup at {}, and nothing is left of it: {}. Make room there, or name a folder whose "
    "parent is there and can be written": (
        "no backup was made at {}, and nothing is left of it: {}. Make room there, or name a "
        "folder whose parent exists and can be written"
    ),
    "no backup was made, because the store has {} problems: {}{}. `scrapy simhash rebuild` "
    "mends its tables; all else needs an earlier backup": (
        "no backup was made, because the store has {} problems: {}{}. `scrapy simhash rebuild` "
        "mends its tables; all other damage needs an earlier backup"
    ),
    "others may have written because this one stood still; try again": (
        "this process paused, so others may have written; try again"
    ),
    "store URL {}: unknown option {}; {}": ("store URL {}: unknown option {}; take {}"),
    "store URL {}: unknown scheme {}; a folder, lmdb:///folder, or a server: {}": (
        "store URL {}: unknown scheme {}; name a folder, lmdb:///folder, or a server with {}"
    ),
    "store {} is on a network file system ({}), which does not keep what LMDB relies on: the "
    "store would be damaged. Set SIMHASH_STORE to a folder on a local disk, or {}=1 in the "
    "environment if only one machine ever uses it": (
        "store {} is on a network file system ({}), where LMDB's locks do not work between "
        "machines and the store would be damaged. Set SIMHASH_STORE to a folder on a local disk, "
        "or {}=1 in the environment if only one machine ever uses it"
    ),
    "the decision log {} has no whole line yet": ("the decision log {} has no complete line yet"),
    "the file of the store at {} could not be shrunk and is as it was: {}": (
        "the file of the store at {} could not be shrunk and is unchanged: {}"
    ),
    "the folder {} cannot be written, so crawls would not see that it is being read; run this "
    "as the user who owns it, or copy it when nobody has it open": (
        "the folder {} cannot be written, so crawls would not see that it is being read; run this "
        "as the user who owns it, or copy it when no process has it open"
    ),
    "the server at {} is Redis {}; at least {}.0 is needed": (
        "the server at {} is Redis {}; it must be {}.0 or later"
    ),
    "the server at {} is a replica and takes no writes; name the primary": (
        "the server at {} is a replica and accepts no writes; name the primary"
    ),
    "the server at {} throws away keys when its memory is full (maxmemory-policy {}), and "
    "tables with them; set it to noeviction, or take another server": (
        "the server at {} deletes keys when its memory is full (maxmemory-policy {}), parts of "
        "tables too; set it to noeviction, or take another server"
    ),
    "the store at {} has format {}, this version reads {}; it was made with scrapy-simhash {}": (
        "the store at {} has format {}, this version reads {}: use scrapy-simhash {}, which made it"
    ),
    "the store at {} is being compacted by another process; wait for it": (
        "another process is compacting the store at {}; wait for it to end"
    ),
    "the store at {} is being opened by another process for more than {} seconds, which "
    "verifies its file; try again when it is done": (
        "another process has been opening the store at {} for more than {} seconds, as it verifies "
        "the file; try again when that is done"
    ),
    "the store at {} is damaged since its disk failed: {} ({} problems). {}": (
        "the store at {} was damaged when its disk failed: {} ({} problems). {}"
    ),
    "the store at {} is on a server, which makes its own backups: BGSAVE writes them, and "
    "appendonly keeps what came since. `scrapy simhash export` writes the fingerprints into a "
    "file": (
        "the store at {} is on a server, which makes its own backups: BGSAVE writes them, and "
        "appendonly keeps later writes. `scrapy simhash export` writes the fingerprints to a file"
    ),
    "the store cannot be written: {}. {} was imported up to record {}; run this again when it "
    "can be: it goes on there": (
        "the store cannot be written: {}. {} was imported up to record {}; run this again when the "
        "store works: it resumes there"
    ),
    "the store has format {} of a version before the first release, this one reads {}; name "
    "another SIMHASH_STORE and crawl again": (
        "the store has format {}, from before the first release; this version reads {}: name "
        "another SIMHASH_STORE and crawl again"
    ),
    "the store has format {}, this version reads up to {}; upgrade scrapy-simhash (it was made "
    "with {})": (
        "the store has format {}, but this version reads up to {}; upgrade scrapy-simhash (it was "
        "made with {})"
    ),
    "the store was made with another recipe (store / wanted): {}. Set SIMHASH_EXTRACTOR and "
    "SIMHASH_FEATURES back, or name another SIMHASH_STORE and crawl again": (
        "the store was made with another recipe (store / wanted): {}. {}"
    ),
    "the store was made with another seed: fingerprints of different seeds cannot be compared. "
    "Name another store, a new one for instance (--store, --into, SIMHASH_STORE)": (
        "the store was made with another seed, and fingerprints of different seeds cannot be "
        "compared. Name another store, such as a new one (--store, --into, SIMHASH_STORE)"
    ),
    "the tables are damaged: key {} has {} octets, no whole rows; mend them with `scrapy "
    "simhash rebuild`": (
        "the tables are damaged: key {} has {} octets, not whole rows; mend them with `scrapy "
        "simhash rebuild`"
    ),
    "the tables of the store at {} were written anew while they were read, {} times; try again "
    "when nobody rebuilds or imports": (
        "the tables of the store at {} were rewritten while they were being read, {} times; try "
        "again when no rebuild or import is running"
    ),
    "the tables were rebuilt as {} meanwhile, complete for {} bits and not for the {} asked "
    "for; rebuild them with a wider design": (
        "the tables were rebuilt as {} meanwhile, which is complete for {} bits but not for "
        "distance {}; rebuild them with a wider design"
    ),
    "there is no decision log {}: no crawl wrote one yet, or SIMHASH_LOG is None; name another "
    "with --log": (
        "there is no decision log {}: no crawl has written it, or SIMHASH_LOG is None; name "
        "another with --log"
    ),
    "there is no {}; name a folder with pages.csv and pairs.csv, or a file of `scrapy simhash "
    "calibrate`": (
        "there is no {}; name a folder with pages.csv and pairs.csv, or a file from `scrapy "
        "simhash calibrate`"
    ),
    "there is {} on the server at {}, but no header of a store: it is another program's, or "
    "damaged. Name another prefix (?prefix=...) in SIMHASH_STORE": (
        "the server at {} has a key {}, but no header of a store: the data is another program's, "
        "or damaged. Name another prefix (?prefix=...) in SIMHASH_STORE"
    ),
    "{} blocks for {} bits are {} tables; take blocks with at most {}": (
        "{} blocks for {} bits need {} tables; take a number of blocks that needs at most {}"
    ),
    "{} blocks: pairs within {} bits are found by {} to {} blocks only, because each differing "
    "bit may spoil one of them": (
        "{} blocks: finding all pairs within {} bits takes {} to {} blocks, because each differing "
        "bit may be in another one"
    ),
    "{} cannot be read from record {} on: {}. Mend it, or get a whole copy, and run this again: "
    "it goes on there": (
        "{} cannot be read from record {} on: {}. Mend it, or get a whole copy, and run this "
        "again: it resumes there"
    ),
    "{} cannot be read from row {} of {} on: {}. Get a whole copy and run this again: it goes "
    "on there": (
        "{} cannot be read from row {} of {} on: {}. Get a whole copy and run this again: it "
        "resumes there"
    ),
    "{} cannot be read from {} on: {}. Get a whole copy and run this again: it goes on there": (
        "{} cannot be read from {} on: {}. Get a whole copy and run this again: it resumes there"
    ),
    "{} cannot be used: it is no archive, WARC, WACZ, Parquet file, store or folder by its "
    "content, nor a feed by its name ({}); if it is one of them all the same, say which with "
    "--kind": (
        "{} cannot be used: by its content it is not an archive, WARC, WACZ, Parquet file, store "
        "or folder, and by its name not a feed ({}); if it is one of them all the same, name its "
        "kind with --kind"
    ),
    "{} does not say with which recipe and seed its fingerprints were made, so they cannot be "
    "compared with others; make it with `scrapy simhash spark fingerprint`": (
        "{} does not name the recipe and seed of its fingerprints, so they cannot be compared with "
        "others; make it with `scrapy simhash spark fingerprint`"
    ),
    "{} has no page: no item has the fields {} and {}. The last one has: {}. Name its fields "
    "with --url-field and --html-field": (
        "{} has no page: no item has the fields {} and {}. The last item has: {}. Name its fields "
        "with --url-field and --html-field"
    ),
    "{} holds no labels of a store: its first line is {}, must be {}; name another file": (
        "{} has no labels of a store: its first line is {}, not {}; name another file"
    ),
    "{} is empty: it was cut to nothing, and LMDB would take it for a new store. {}": (
        "{} is empty: its content was lost, and LMDB would take it for a new store. {}"
    ),
    "{} is in use by another calibrate; end that one, or name another file": (
        "another calibrate is using {}; end that one, or name another file"
    ),
    "{} is no Parquet file, or cut short: {}. Get a whole copy; nothing was imported of it": (
        "{} is not a Parquet file, or cut short: {}. Get a whole copy; nothing was imported from it"
    ),
    "{} is no URL (http://...), no file that is there and no fingerprint (16 hexadecimal "
    "digits); for a text write --text": (
        "{} is not a URL (http://...), an existing file or a fingerprint (16 hexadecimal digits); "
        "for a text write --text"
    ),
    "{} is no WACZ, or cut short: {}. Get a whole copy": (
        "{} is damaged or not a WACZ: {}. Get a whole copy"
    ),
    "{} is no journal of an import ({}); name another file with --resume, or delete it: what "
    "was imported is found to be there": (
        "{} is not the journal of an import ({}); name another file with --resume, or delete it: "
        "pages imported before will be recognized"
    ),
    "{} is no output of `scrapy simhash spark fingerprint`: it has no column {} of type {}; it "
    "has {}. Nothing was imported of it": (
        "{} is not an output of `scrapy simhash spark fingerprint`: it has no column {} of type "
        "{}; it has {}. Nothing was imported from it"
    ),
    "{} is no text: {}": ("{} is not a text file: {}"),
    "{} was made with another recipe than {} ({} / {}): {}. What they hold cannot be compared: "
    "crawl one of them again": (
        "{} was made with another recipe than {} ({} / {}): {}. Their documents cannot be "
        "compared: crawl one of them again"
    ),
    "{} was made with another seed than {}: fingerprints of different seeds cannot be compared. "
    "Stores that are to be merged begin as copies of one, an empty one for instance (scrapy "
    "simhash merge STORE --into COPY)": (
        "{} was made with another seed than {}, and fingerprints of different seeds cannot be "
        "compared. New ones can only be made in plain simhash, from texts that SIMHASH_KEEP_TEXT "
        "kept, but {}. Start stores that you want to merge as copies of one store, even an empty "
        "one (scrapy simhash merge STORE --into COPY)"
    ),
    "{} was not finished, its job was killed or is still running: make it again. Nothing was "
    "imported of it": (
        "{} is not complete: its job was killed or is still running; make it again. Nothing was "
        "imported from it"
    ),
    "{}, line {}: the path {} is outside of the folder; nothing was imported of it": (
        "{}, line {}: the path {} is outside of the folder; nothing was imported from it"
    ),
    "{}: what is at {} is another program's, damaged, or of a newer version. Name another "
    "prefix (?prefix=...) in SIMHASH_STORE, restore the server's own backup, or open it with "
    "the newest scrapy-simhash": (
        "{}: the data at {} is another program's, damaged, or of a newer version. Name another "
        "prefix (?prefix=...) in SIMHASH_STORE, restore the server's own backup, or open it with "
        "the newest scrapy-simhash"
    ),
    "{}: {} is no decision": ("{}: {} is not a decision"),
    "SIMHASH_{} = {}: is a path below the folder of the project, which cannot be found here "
    "({}); must be an absolute path": (
        "SIMHASH_{} = {}: is a path below the project's folder, which cannot be found from here "
        "({}); must be an absolute path"
    ),
    "hashes and weights must be one-dimensional and of one length, got shapes {} and {}": (
        "hashes and weights must be one-dimensional and of the same length, got shapes {} and {}"
    ),
    "scrapy_simhash needs asyncio, and TWISTED_REACTOR names another reactor; set it to "
    "twisted.internet.asyncioreactor.AsyncioSelectorReactor": (
        "scrapy_simhash needs asyncio, but TWISTED_REACTOR names another reactor; set it to "
        "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
    ),
    "{} is no ordinary file; name one, or - where that is offered": (
        "{} is not a regular file; name one, or - if that is offered"
    ),
    "{} is there already; name a folder that is not": ("{} exists already; name a new folder"),
    "{} is there already; name another file, or overwrite it (--overwrite)": (
        "{} exists already; name another file, or overwrite it (--overwrite)"
    ),
}

# The old text: why it is gone.
_NO_BASE = "a store has no archive beneath its tables any more (`import --base`)"
_JINJA2 = "jinja2 is an ordinary dependency, and the report needs no matplotlib"
GONE = {
    "--html needs pip install 'scrapy-simhash[report]': {}": _JINJA2,
    "report needs pip install 'scrapy-simhash[report]': {}": _JINJA2,
    "no backup at {}: the archive of {} was replaced or is gone, {} times in a row; try again, and "
    "see what `check` says": _NO_BASE,
    "the archive beneath the tables of the store cannot be read: {}. Restore {} from a backup; if "
    "another process has just merged or rebuilt the store, try again": _NO_BASE,
    "the archive {} could not be written, nothing is lost: {}": _NO_BASE,
    "the store at {} is in the memory of a server and has no archive beneath its tables; import "
    "without --base, or into a store in a folder": _NO_BASE,
    "over {} bytes": "of a MemoryError that the workers turn into `out_of_memory`: never shown",
    "{} belongs to another store; restore it from a backup": _NO_BASE,
    "table design {}: its blocks have {} bits; widths are 1 or more and sum to {}": (
        "all block widths are refused: 'has block widths, which only 0.1.0 took'"
    ),
}


def _list_texts(node: ast.AST) -> Iterator[str]:
    """List the texts of an expression or module, with `{}` for each value in them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from _list_texts(part.value)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _list_texts(child)


def test_texts_are_found() -> None:
    tree = ast.parse("""raise ValueError(f"{a!r} is {b or 'no value'}: " "too few" + "!")""")
    assert list(_list_texts(tree)) == ["{} is {}: too few", "no value", "!"]


@cache
def read_texts() -> set[str]:
    """Read the texts of the package."""
    trees = (ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py"))
    return {text for tree in trees for text in _list_texts(tree)}


def test_no_message_of_0_1_0_was_lost() -> None:
    lost = [old for old in OLD if not {old, REWORDED.get(old)} & read_texts() and old not in GONE]
    advice = (
        "no longer in the package; add each to REWORDED in this module, with the text that stands "
        "in its place and has a cure as good, or to GONE, with the reason why it cannot occur"
    )
    assert not lost, "\n".join([advice, *lost])


def test_the_tables_are_up_to_date() -> None:
    unknown = [old for old in (*REWORDED, *GONE) if old not in OLD]
    assert unknown == [], "not in errors-0.1.0.txt: copy the text from there"
    there = [old for old in (*REWORDED, *GONE) if old in read_texts()]
    assert there == [], "in the package again: remove it from the tables"
    missing = [new for new in REWORDED.values() if new not in read_texts()]
    assert missing == [], "reworded once more: write the text that the package has into REWORDED"
