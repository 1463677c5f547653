"""Settings that engines write when they start, all in one long line or in several, as facts."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.engine_settings import SETTINGS

KEYS = SETTINGS
"""A line that holds one of them as a word may state settings."""

_SETTING = re.compile(
    r"(?<![\w.])['\"]?(?P<name>" + "|".join(sorted(SETTINGS, key=len, reverse=True)) + r")['\"]?"
    r"\s*[=:]\s*(?:Some\()?(?P<value>'[^']*'|\"[^\"]*\"|[^\s,;()}\]{\[]+)"
)
_UNSET = frozenset({"", "None", "null", "auto", "nan"})


_ADVISED = re.compile(r"\b(?:set|use|try|pass|add|specify)\s+['\"`]*(?:--)?$", re.IGNORECASE)
"""`To run in eager mode, set 'enforce_eager=True'` says what could be set, and not what is."""

_BEFORE = 20
"""Characters: the longest such word, and what may stand between it and the name."""


def read_settings(text: str) -> Iterator[tuple[str, str]]:
    """Name and value of each that is set."""
    for found in _SETTING.finditer(text):
        value = found["value"].strip("'\"").rstrip(".")
        if value not in _UNSET and not _ADVISED.search(
            text, max(0, found.start() - _BEFORE), found.start()
        ):
            yield found["name"], value
