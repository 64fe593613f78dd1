"""Whether the texts of two pages, main and whole, are one: by their similarity and their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.pages.addresses import host_of

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import PageFacts

# Siblings of one template, in which the few words that differ are the subject, are short. With less
# main text than this, two pages are one only if a text is so much more alike, up to .9. Of the
# labelled pairs below that, 7 are duplicates and 5 are not. From 400 to 800 words nothing more is
# wrong.
WORDS_OF_A_SHORT_TEXT = 500
MORE_ALIKE_IF_SHORT = 0.12
MOST_ASKED_OF_SHORT = 0.9
# Main texts alike, whole texts not: the same article in another template, or the same stub (a
# cookie notice, a newsletter form) taken for the main text of different pages. It is an article
# with so many words that are at least such a share of the page; otherwise the whole texts must be
# alike, too.
ARTICLES = ((300, 0.0), (100, 0.2), (50, 0.3))
LEAST_WHOLE_OF_STUBS = 0.8
# Whole texts alike, main texts not: different products in a large template, or one page whose
# main text was found in two different places. It is one page where one main text is part of the
# other, at least such a share of it, or where both pages have little alone.
LEAST_MAIN_OF_TEMPLATE = 0.4
LEAST_CONTAINED = 0.8
# A text of fewer words may be a notice on any page, as above. Of one that is much shorter than the
# other, sketches cannot tell: bins that agree by chance are as good as some share of it, 0.2 (one
# standard error) at 16 times the length. Without the two, 3 more labelled duplicates were found.
LEAST_WORDS_CONTAINED = 50
MOST_TIMES_AS_LONG = 16
# What only one of two pages has is little if it has at most so many words, as a share of its main
# text's: then at least half of its main text must stand on the other page, too. And of two pages of
# one host with one main text, one has little alone (a print view, fewer comments); where both have
# much, they are two pages of a list, and the main text is what these share.
LITTLE_ALONE = 0.5
# The main text of one page is that page, with at least so many words and such a share of all, and
# wholes are alike: of the other page the reader found only a part. Flat from 300 words to 1,500.
WORDS_OF_A_WHOLE_PAGE = 600
LEAST_OF_A_WHOLE_PAGE = 0.8


def compare_texts(
    document: PageFacts, candidate: PageFacts, main: float, whole: float, least: float
) -> tuple[str, bool]:
    """Whether two pages have one text.

    Args:
        document: the one page.
        candidate: the other one.
        main: similarity of their main texts, 0 to 1.
        whole: similarity of their whole texts, 0 to 1.
        least: SIMHASH_CONFIRM, 0 to 1.

    Returns:
        What was found, for people, and the answer.
    """
    words, similarity = min(document.words, candidate.words), max(main, whole)
    if similarity < least:
        return f"neither reaches {least:g}", False
    asked = min(least + MORE_ALIKE_IF_SHORT, MOST_ASKED_OF_SHORT)
    if words < WORDS_OF_A_SHORT_TEXT and similarity < asked:
        return f"neither reaches {asked:g}, and one has only {words:,} words", False
    if main >= least and whole >= LEAST_WHOLE_OF_STUBS:
        return "main text is alike, whole text agrees", True
    if whole >= least:
        return _trust_whole_text(document, candidate, main, whole)
    return _trust_main_text(document, candidate, whole)


def _trust_main_text(document: PageFacts, candidate: PageFacts, whole: float) -> tuple[str, bool]:
    """Whether main texts that are alike outweigh whole texts that are not."""
    words = min(document.words, candidate.words)
    share = words / max(1, document.whole_words, candidate.whole_words)
    if not any(words >= enough and share >= large for enough, large in ARTICLES):
        return f"main text is alike, but has only {words:,} words, {share:.0%} of a page", False
    one_host = host_of(document.url) == host_of(candidate.url)
    if one_host and not any(_have_little_alone(document, candidate, whole)):
        return "main text is alike, but either page has much beside it", False
    return f"main text is alike, with {words:,} words, in another template", True


def _trust_whole_text(
    document: PageFacts, candidate: PageFacts, main: float, whole: float
) -> tuple[str, bool]:
    """Whether whole texts that are alike outweigh main texts that are not."""
    if main >= LEAST_MAIN_OF_TEMPLATE:
        return "whole text is alike, main text agrees", True
    share = share_contained(main, document.words, candidate.words)
    if share >= LEAST_CONTAINED:
        part = f"main text of one is part of the other's, by {min(share, 1):.2f}"
        return f"whole text is alike, {part}", True
    if all(_have_little_alone(document, candidate, whole)):
        return "whole text is alike, main text was found in two places of it", True
    if _is_whole_page(document) or _is_whole_page(candidate):
        return "whole text is alike, and the main text of one is all of it", True
    return "whole text is alike, but main text is another", False


def _is_whole_page(page: PageFacts) -> bool:
    """Whether nearly all of a page is its main text."""
    return page.words >= max(WORDS_OF_A_WHOLE_PAGE, LEAST_OF_A_WHOLE_PAGE * page.whole_words)


def _have_little_alone(
    document: PageFacts, candidate: PageFacts, whole: float
) -> tuple[bool, bool]:
    """Whether either page has little that the other one lacks, beside its main text."""
    shared = _count_shared(whole, document.whole_words, candidate.whole_words)
    mine, theirs = (
        page.whole_words - shared <= LITTLE_ALONE * page.words for page in (document, candidate)
    )
    return mine, theirs


def share_contained(similarity: float, words: int, others: int) -> float:
    """Estimate which share of the shorter text, 0 to 1 or a little more, is in the longer one."""
    shorter, longer = sorted((words, others))
    if shorter < LEAST_WORDS_CONTAINED or longer > MOST_TIMES_AS_LONG * shorter:
        return 0.0
    return _count_shared(similarity, words, others) / shorter


def _count_shared(similarity: float, words: int, others: int) -> float:
    """Estimate how many words two texts of so many words have in common."""
    # Of shingles, of which a text has about as many as words: |A and B| = J (|A| + |B|) / (1 + J).
    # Distinct words will not do for them: a text seven times as long has four times as many.
    return similarity * (words + others) / (1 + similarity)
