"""Taking secrets out of text and data. Pure.

Two nets, one behind the other: whatever stands under a name that promises a secret is masked
whole, and every text is searched for what looks like one, wherever it stands. Values of secret
environment variables are known, and are taken out by value.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

MASK = "***"
_SECRET_NAME = re.compile(
    r"pass(?!ed|es)|secret|token(?!s|_|iz)|api_?key|access_?key|private_?key|\bkey$|_key$|"
    r"credential|authoriz|cookie|\bdsn\b|headers?$",
    re.IGNORECASE,
)
_SURE = r"(?:[\w-]*(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|authorization)[\w-]*+)"
_TOKEN = r"(?:[\w-]*token(?!s|_|iz)[\w-]*+)"
_NO_FIGURE = r"(?!-?\d{1,7}(?:\.\d+)?(?:\s?[a-z%]{1,3})?(?![\w.~+/=-]))"
"""`#new-token: 8192` and `time_per_output_token=0.04` count: no token is so short a number."""


def _named(name: str, value: str) -> Iterator[tuple[re.Pattern[str], str]]:
    """What stands under `name`, of which `value` says where it begins: quoted, in brackets, bare,
    and as an option of a command line."""
    named = rf"(?<![\w-]){name}(?:\\*[\"'])?\s*[:=]\s*"
    quoted = rf"({named}(\\*[\"'])){value}(?:(?!\2)(?:\\.|.))*+"
    yield re.compile(quoted, re.I), rf"\1{MASK}"
    yield re.compile(rf"({named}\[){value}[^\]]*+", re.I), rf'\1"{MASK}"'
    yield re.compile(rf"({named}){value}(?![\"'\[])[^\s\"'&,;}}\]]+", re.I), rf"\1{MASK}"
    option = rf"(?<![\w-])(--?{name}(?:\s+|[\"'],\s*[\"'])){value}(?!-)[^\s\"',\]]+"
    yield re.compile(option, re.I), rf"\1{MASK}"


_PATTERNS = (
    # -----BEGIN PRIVATE KEY----- and what follows
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.S), MASK),
    (re.compile(r"\bphk_[A-Za-z0-9]+_[\w.~+/=-]+"), f"phk_{MASK}"),
    (re.compile(r"\b(?:sk|pk|ghp|gho|hf|xox[a-z])[-_][A-Za-z0-9_-]{8,}"), MASK),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.?[\w-]*"), MASK),
    (re.compile(r"\b(bearer|basic|digest)\s+[\w.~+/=-]{4,}", re.I), rf"\1 {MASK}"),
    (re.compile(r"(\b(?:set-)?cookie\s*[:=]\s*)[^\r\n\"']+", re.I), rf"\1{MASK}"),
    # scheme://user:password@host; a user alone may be a token.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://)[^\s\"']+@", re.I), rf"\1{MASK}@"),
    *_named(_SURE, ""),
    *_named(_TOKEN, _NO_FIGURE),
)
_PASSWORD_IN_URL = re.compile(r"[^:/]+://[^:/]*:([^@]+)@")
_MIN_KNOWN_LENGTH = 6
"""A shorter value would mask innocent words."""


class Scrubber:
    """Masks what it knows and what it recognizes. Made once for a bundle."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        """`known`: secrets by value."""
        values = {value for value in known if len(value) >= _MIN_KNOWN_LENGTH}
        # The longest first: one may be the beginning of another.
        ordered = sorted(values, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        """`text` without secrets."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        return text

    def data(self, value: Any) -> Any:
        """JSON data without secrets; everything under a name of a secret is masked whole."""
        if isinstance(value, Mapping):
            return {
                self.text(str(name)): MASK if is_secret_name(str(name)) else self.data(inner)
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.data(each) for each in value]
        return self.text(value) if isinstance(value, str) else value


def is_secret_name(name: str) -> bool:
    """Whether what a setting, field or variable of this name holds is a secret."""
    return _SECRET_NAME.search(name) is not None


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Values of the variables whose name promises a secret, and the parts of a list of them."""
    found = []
    for name, value in environment.items():
        if is_secret_name(name):
            found.append(value)
            # OTEL_EXPORTER_OTLP_HEADERS: name=value,name=value
            found += [part.partition("=")[2] for part in value.split(",") if "=" in part]
    return found


def passwords_in(urls: Iterable[str]) -> list[str]:
    """Passwords of database URLs, as written and decoded; what is no URL is a secret whole."""
    found: list[str] = []
    for text in urls:
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            found.append(text)
            continue
        written = _PASSWORD_IN_URL.match(text)
        found += [written[1]] if written else []
        found += [str(url.password)] if url.password else []
        for name, value in url.query.items():
            if is_secret_name(name):
                found += [value] if isinstance(value, str) else value
    return found
