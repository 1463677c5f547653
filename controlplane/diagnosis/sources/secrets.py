"""Keys and passwords in what is read: they are taken out before anything is kept of it.

Engines write their command line when they start, clients their URLs when they fail; and what is
kept may be quoted in an answer, stored with an incident and shown in the console. What a secret
looks like is known to `controlplane.support.scrub`. Here only texts that may hold one are shown to
it: of a million log lines hardly any.
"""

import re

from controlplane.support.scrub import MASK, Scrubber, is_secret_name

_WORDS = (
    *("passw", "pwd", "secret", "api_key", "api-key", "apikey", "access_key", "access-key"),
    *("accesskey", "authorization", "bearer ", "basic ", "digest ", "cookie", "private key"),
    *("sk-", "sk_", "pk-", "pk_", "ghp_", "gho_", "ghp-", "gho-", "hf_", "hf-", "xox", "eyj"),
    *("phk_", "akia", "asia"),
)
_TOKEN = re.compile(
    r"token(?!s|_|iz)[\w-]*[\"'\\]*\s*[:=]\s*[\"'\\\[]*(?!\d{1,7}(?!\w))\S"
    r"|(?<![\w-])-[\w-]*token(?!s|_|iz)[\w-]*[\"'\\]*,?\s"
)
"""A setting, or an option of a command line: `token usage` of every line of statistics is none."""
_SURE_NAME = re.compile(r"passw(?:or)?d|pwd\b|secret|api.?key|access.?key", re.IGNORECASE)
_CREDENTIAL = re.compile(r"(?=[^\s]*\d)[\w.~+/=-]{8,}")
_FIGURE = re.compile(r"-?\d[\d,.]*\s?[a-zA-Zµ%]{0,3}(?:/[a-z]+)?")
_SCRUBBER = Scrubber()


def without_secrets(text: str) -> str:
    """`text`, its secrets masked."""
    return _SCRUBBER.text(text) if may_hold_secret(text) else text


def told_without_secrets(key: str, text: str) -> str:
    """What somebody told under `key`. One word under the name of a password is masked, and what
    looks like a credential under any name that promises one; a figure or a sentence
    (`first_token: no answer`) is none."""
    looks_like_one = _CREDENTIAL.fullmatch(text) and not _FIGURE.fullmatch(text)
    if looks_like_one and is_secret_name(key):
        return MASK
    if text and " " not in text and _SURE_NAME.search(key):
        return MASK
    return without_secrets(text)


def may_hold_secret(text: str) -> bool:
    """Whether it has to be looked through; no digit of it counts."""
    lowered = text.lower()
    if "://" in lowered and "@" in lowered:
        return True
    if any(map(lowered.__contains__, _WORDS)):
        return True
    return "token" in lowered and _TOKEN.search(lowered) is not None
