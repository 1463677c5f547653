"""What an expression may read of a request and its tenant, found in its text. Pure.

CEL spells a name in one way only, so an expression in whose text `request` does not stand reads
nothing of one, and where each `request` is followed by the name of a field these are all it reads.
Words in strings and comments count as well: too much is found at worst, and never too little.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_TENANT = re.compile(r"\btenant\b")
_TENANT_FIELD = re.compile(r"\btenant\s*\.\s*(name|tier)\b")
_REQUEST = re.compile(r"\brequest\b")
_FIELD = re.compile(r"\brequest\s*\.\s*(model|stream|num_prompt_tokens|max_output_tokens)\b")
# One header by name: request.headers["x-class"], request.headers.absent, and one looked for as a
# whole: "x-class" in request.headers, but not "x-" + "class" in request.headers.
_HEADER = re.compile(
    r"""(?:(?:^|[(&|?:,\[])\s*(["'])(?P<before>[\w-]+)\1\s+in\s+)?\brequest\s*\.\s*headers\b"""
    r"""(?:\s*\[\s*(["'])(?P<key>[\w-]+)\3\s*\]|\s*\.\s*(?P<name>\w+)\b(?!\s*\())?"""
)


@dataclass(frozen=True, slots=True)
class MatchReads:
    """Names of what is read."""

    tenant: frozenset[str] = frozenset()
    """Fields of the tenant."""
    fields: frozenset[str] = frozenset()
    """Of the request, `headers` aside."""
    headers: frozenset[str] | None = frozenset()
    """None: perhaps all of them."""

    @property
    def is_told_by_few_values(self) -> bool:
        """Requests of one tenant are mostly alike in what is read; a count of tokens is not."""
        return self.headers is not None and self.fields <= {"model", "stream"}

    def select(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Of all headers those that may be read."""
        if self.headers is None:
            return dict(headers)
        return {name: headers[name] for name in self.headers if name in headers}


_ALL_OF_TENANT = frozenset({"name", "tier"})
_ALL_OF_REQUEST = frozenset({"model", "stream", "num_prompt_tokens", "max_output_tokens"})


def reads_of(expressions: Iterable[str]) -> MatchReads:
    """What all of them read together."""
    tenant: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    headers: frozenset[str] | None = frozenset()
    for expression in expressions:
        tenant |= _tenant_of(expression)
        own_fields, own_headers = _request_of(expression)
        fields |= own_fields
        headers = None if headers is None or own_headers is None else headers | own_headers
    return MatchReads(tenant, fields, headers)


def _tenant_of(expression: str) -> frozenset[str]:
    fields = _TENANT_FIELD.findall(expression)
    return _ALL_OF_TENANT if len(_TENANT.findall(expression)) > len(fields) else frozenset(fields)


def _request_of(expression: str) -> tuple[frozenset[str], frozenset[str] | None]:
    fields = _FIELD.findall(expression)
    headers = [_header_of(found) for found in _HEADER.finditer(expression)]
    if len(_REQUEST.findall(expression)) > len(fields) + len(headers):
        return _ALL_OF_REQUEST, None  # it takes it as a whole, or a field by a computed name
    is_all = any(name is None for name in headers)
    return frozenset(fields), None if is_all else frozenset(name for name in headers if name)


def _header_of(found: re.Match[str]) -> str | None:
    """None: the headers as a whole."""
    groups: Mapping[str, Any] = found.groupdict()
    name: str | None = groups["key"] or groups["name"] or groups["before"]
    return name
