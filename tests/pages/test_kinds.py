"""Guesses at what a large group of near-duplicates is."""

import pytest

from scrapy_simhash.pages.kinds import LOGIN, SOFT_404, guess_kind


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("404 - example.org", SOFT_404),
        ("Page Not Found", SOFT_404),
        ("Seite nicht gefunden", SOFT_404),
        ("Page introuvable", SOFT_404),
        ("Страница не найдена", SOFT_404),
        ("页面不存在", SOFT_404),
        ("ページが見つかりません", SOFT_404),
        ("Log in to your account", LOGIN),
        ("Sign-in", LOGIN),
        ("Anmelden", LOGIN),
        ("Вход на сайт", LOGIN),
        ("用户登录", LOGIN),
        ("Blog", ""),
        ("Logging in Python", ""),
        ("The 4040 project", ""),
        ("Designing interfaces", ""),
        ("", ""),
    ],
)
def test_guess_kind(title: str, kind: str) -> None:
    assert guess_kind(title, "") == kind
    assert guess_kind("", title) == kind
