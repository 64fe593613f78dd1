"""What most large groups of near-duplicates are: "not found" pages that answer 200, and logins.

Section 4.2 of the paper names both as spikes in a store. This is a guess by the words of title and
heading, for people who look at the figures; no page is judged by it.
"""

import re

SOFT_404 = "not found"
LOGIN = "login"

_PATTERNS = {
    SOFT_404: re.compile(
        r"\b404\b|\bnot found\b|\b(does not|doesn't|no longer) exist|\bno longer available\b"
        r"|\bnicht (gefunden|verfügbar)\b|\b(introuvable|n'existe (pas|plus))"
        r"|\bno (encontrad[ao]|existe)\b|\bnão encontrad[ao]\b|\bnon trovat[ao]\b"
        r"|не найден|未找到|不存在|找不到|見つかりません|찾을 수 없|غير موجود|ไม่พบ",
        re.IGNORECASE,
    ),
    LOGIN: re.compile(
        r"\b(log|sign)[ -]?(in|on)\b|\b(anmelden|anmeldung|einloggen)\b"
        r"|\b(connexion|se connecter|identifiez-vous|authentification)\b"
        r"|\b(iniciar sesión|acceder)\b|\b(iniciar sessão|fazer login)\b|\b(accedi|login)\b"
        r"|\b(войти|вход|авторизация)\b|登录|登入|登陆|ログイン|로그인|تسجيل الدخول|เข้าสู่ระบบ",
        re.IGNORECASE,
    ),
}


def guess_kind(title: str, heading: str) -> str:
    """Guess what a page is by its names: `not found`, `login`, or "" for anything else.

    >>> guess_kind("Seite nicht gefunden - example.org", "")
    'not found'
    """
    for kind, pattern in _PATTERNS.items():
        if pattern.search(title) or pattern.search(heading):
            return kind
    return ""
