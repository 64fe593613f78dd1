"""Feature sets that cut Chinese into words with jieba (`pip install 'scrapy-simhash[zh]'`).

Everything else is cut as usual. `docs/study.md` compares them with the default, which takes
pairs of neighbouring characters.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import jieba
import jieba.analyse
import numpy as np

from scrapy_simhash.pages.features import FeatureSet, count_weights, tokenise

if TYPE_CHECKING:
    from numpy.typing import NDArray

jieba.setLogLevel(logging.WARNING)

_HAN = re.compile("([\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+)")
# yanyiwu/simhash takes only the heaviest words of a page; its examples take 5 to 200. A page needs
# more than a few, or two pages on one subject become the same.
_KEYWORDS = 200


def cut_words(text: str) -> list[str]:
    """Cut runs of Han characters into jieba's words, and the rest as `features.tokenise` does."""
    tokens: list[str] = []
    for place, run in enumerate(_HAN.split(text)):
        # `split` puts what the pattern captured at every other place.
        tokens += jieba.lcut(run) if place % 2 else tokenise(run)
    return tokens


def cut_keywords(text: str) -> list[str]:
    """Keep the words with the largest TF-IDF weights."""
    keywords = set(jieba.analyse.extract_tags(text, topK=_KEYWORDS))
    return [word for word in cut_words(text) if word in keywords]


def idf_weights(tokens: list[str]) -> NDArray[np.float64]:
    """Weigh words by jieba's inverse document frequencies; unknown ones by their median."""
    weights, median = jieba.analyse.default_tfidf.idf_loader.get_idf()
    return np.array([weights.get(token, median) for token in tokens])


WORDS = FeatureSet("zh-words", tokenise=cut_words)
KEYWORDS = FeatureSet(
    "zh-keywords", tokenise=cut_keywords, weigh=count_weights, weigh_tokens=idf_weights
)
