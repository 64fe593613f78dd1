"""Whether one document is a near-duplicate of another. Pure: knows no database."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.judging.comparison import Answer as Answer, compare as compare
    from scrapy_simhash.judging.documents import (
        Document as Document,
        LostPage as LostPage,
        Marked as Marked,
        Match as Match,
        PageFacts as PageFacts,
        StoredDocument as StoredDocument,
        Verdict as Verdict,
        Version as Version,
        Wall as Wall,
        make_document as make_document,
    )
    from scrapy_simhash.judging.rule import Rule as Rule

make_face(
    __name__,
    {
        "comparison": "Answer compare",
        "documents": "Document LostPage Marked Match PageFacts StoredDocument Verdict Version Wall "
        "make_document",
        "rule": "Rule",
    },
    "comparison documents evidence interface judge names rows rule sinks texts",
)
