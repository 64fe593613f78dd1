"""Reads what the judgement of a group will ask for: three round trips, however many documents.

What it did not foresee is read when it is asked for; so this decides how long a group takes, and
nothing else.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from scrapy_simhash.matching import MOST_CANDIDATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_simhash.redis_documents import RedisDocuments
    from scrapy_simhash.redis_numbers import Numbers
    from scrapy_simhash.stored import Document


def prefetch_group(
    stored: RedisDocuments,
    documents: Sequence[Document],
    marked: Iterable[int],
    distance: int,
    numbers: Numbers | None,
) -> None:
    """Read for `find_and_add`: identities and buckets, then what is near, then its records.

    Args:
        stored: of a new commit.
        documents: that will be judged.
        marked: documents that will be marked done or withdrawn.
        distance: bits within which they are compared.
        numbers: of documents; as many are reserved as there are new identities. None for none.
    """
    probes = {
        (fingerprint, 0 if document.stub else distance)
        for document in documents
        for fingerprint in document.fingerprints
    }
    identities = [
        identity for document in documents for identity in (document.identity, *document.aliases)
    ]
    marked = list(marked)
    stored.fetch(
        identities=identities,
        probes=probes,
        records=marked,
        duplicates=marked,
    )
    wanted = [number for identity in identities if (number := stored.find_number(identity))]
    if numbers is not None:
        numbers.reserve(sum(not stored.find_number(each.identity) for each in documents))
        wanted += numbers.reserved
    near: dict[int, set[str]] = {}
    for document in documents:
        for fingerprint in document.fingerprints:
            bits = 0 if document.stub else distance
            # As the judge asks for it.
            probe = stored.near(fingerprint, bits, MOST_CANDIDATES + 1, bounded=True)
            for _, found in probe.near[:MOST_CANDIDATES]:
                near.setdefault(found, set()).add(document.scope)
            if probe.complete_bits >= 0 and probe.near[:1] != [(0, fingerprint)]:
                stored.assume_none(fingerprint, document.scope)
    waiting = chain.from_iterable(map(stored.list_duplicates, marked))
    stored.fetch(
        rows=[(found, scope) for found, scopes in near.items() for scope in scopes],
        records=wanted,
        waiting=waiting,
    )
    candidates = (
        number
        for found, scopes in near.items()
        for scope in scopes
        for number in stored.numbers(found, scope, MOST_CANDIDATES)
        if number
    )
    stored.fetch(records=candidates)


def prefetch_matches(stored: RedisDocuments, fingerprint: int, distance: int) -> None:
    """Read for `query`: buckets, then the documents of what is near, then their records."""
    stored.fetch(probes=[(fingerprint, distance)])
    near = stored.near(fingerprint, distance).near
    stored.fetch(records=(n for _, found in near for n in stored.numbers(found) if n))
