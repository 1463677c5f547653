"""What was changed, as somebody noted it."""

import re

from controlplane.diagnosis.sources.secrets import without_secrets
from controlplane.diagnosis.window import Change

_VERSION = re.compile(
    r"(?<![\w.])(?!\d+(?:\.\d+){3}\b)(?:v?(\d+\.\d+(?:\.\d+)*(?:[.-]?(?:rc|post|dev|a|b)\d+)*)|(b\d{4,5}))(?![\w.]*\d)"
)
"""`0.5.4`, `v0.22.1rc1`, `1.2.0.post1`, and the builds of llama.cpp, `b7200`; no addresses."""


def change_of(what: str, at: float) -> Change:
    """With the versions that its text names, in their order: usually the old one and the new."""
    what = without_secrets(what)
    versions = tuple(found[1] or found[2] for found in _VERSION.finditer(what))
    return Change(at=at, what=what, versions=versions)
