"""What most large groups of near-duplicates are: "not found" pages that answer 200, and logins.

Section 4.2 of the paper names both as spikes in a store. This is a guess by the words of title and
heading, for people who look at the figures; no page is judged by it.
"""

import re

SOFT_404 = "not found"
LOGIN = "login"

_WORDS = {
    SOFT_404: (
        r"\b404\b",
        r"\bnot found\b",
        r"\b(does not|doesn't|no longer) exist",
        r"\bno longer available\b",
        r"\bnicht (gefunden|verfügbar)\b",
        r"\b(introuvable|n'existe (pas|plus))",
        r"\bno (encontrad[ao]|existe)\b",
        r"\bnão encontrad[ao]\b",
        r"\bnon trovat[ao]\b",
        r"не найден",
        r"未找到|不存在|找不到",
        r"見つかりません|見つかりませんでした",
        r"찾을 수 없",
        r"غير موجود",
        r"ไม่พบ",
    ),
    LOGIN: (
        r"\b(log|sign)[ -]?(in|on)\b",
        r"\b(anmelden|anmeldung|einloggen)\b",
        r"\b(connexion|se connecter|identifiez-vous|authentification)\b",
        r"\b(iniciar sesión|acceder)\b",
        r"\b(iniciar sessão|fazer login)\b",
        r"\b(accedi|login)\b",
        r"\b(войти|вход|авторизация)\b",
        r"登录|登入|登陆",
        r"ログイン",
        r"로그인",
        r"تسجيل الدخول",
        r"เข้าสู่ระบบ",
    ),
}
_PATTERNS = {kind: re.compile("|".join(words), re.IGNORECASE) for kind, words in _WORDS.items()}


def guess_kind(title: str, heading: str) -> str:
    """Guess what a page is by its names: `not found`, `login`, or "" for anything else.

    >>> guess_kind("Seite nicht gefunden - example.org", "")
    'not found'
    """
    for kind, pattern in _PATTERNS.items():
        if pattern.search(title) or pattern.search(heading):
            return kind
    return ""
