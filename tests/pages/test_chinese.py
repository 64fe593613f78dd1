"""Chinese words by jieba, where pairs of characters will not do."""

import sys

import numpy as np
import pytest

from scrapy_simhash.pages.fingerprint import fingerprint_page, load_features, make_recipe
from scrapy_simhash.simhash import hamming_distance

SENTENCE = "我们今天去北京大学学习 Machine Learning 的方法"


def test_words_are_jiebas_and_the_rest_is_cut_as_usual() -> None:
    words = load_features("zh-words").count(SENTENCE)
    assert {"北京大学", "学习", "machine", "learning"} <= set(words)
    assert "京大" not in words


def test_keywords_weigh_rare_words_more() -> None:
    features = load_features("zh-keywords")
    text = features.read(SENTENCE * 3)
    weighed = features.weigh_features(text)
    weights = dict(zip(weighed.hashes.tolist(), weighed.weights.tolist(), strict=True))
    hashes = dict(zip(text.tokens, text.hashes.tolist(), strict=True))
    assert weights[hashes["北京大学"]] > weights[hashes["我们"]]
    assert weighed.weights.dtype == np.int64


@pytest.mark.parametrize("name", ["zh-words", "zh-keywords"])
def test_fingerprints_of_alike_texts_are_near(name: str) -> None:
    sentences = [f"第{number}句说的是另一件事情。地点在城市{number * 7}。" for number in range(60)]
    pages = [
        fingerprint_page(f"<article><p>{'</p><p>'.join(text)}</p></article>", recipe=recipe)
        for recipe in [make_recipe("trafilatura-fast", name)]
        for text in (sentences, sentences[:-1], ["今天天气很好。我们去公园散步。"] * 60)
    ]
    near = hamming_distance(pages[0].fingerprint, pages[1].fingerprint)
    far = hamming_distance(pages[0].fingerprint, pages[2].fingerprint)
    assert near <= 7 < far


def test_without_jieba_the_message_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    load_features.cache_clear()
    with pytest.raises(ValueError, match=r"pip install 'scrapy-simhash\[zh\]'"):
        load_features("zh-words")
