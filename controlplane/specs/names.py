"""Names of documents, classes and tenants, and references to documents.

A name is a DNS label, dots allowed inside: it becomes part of URLs, metric labels, file
and process names without any escaping.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from controlplane.specs.written import Written

MAX_NAME_LENGTH = 63
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_REFERENCE = re.compile(r"(.*)@([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class Reference:
    """A document that another one refers to: a number pins it, None follows the latest."""

    name: str
    number: int | None = None

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.name}@{self.number}"


def check_name(name: str) -> str:
    """`name`, when it is one. Raises ValueError with a name that would do."""
    if len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name):
        return name
    rule = f"a name is 1 to {MAX_NAME_LENGTH} of a-z, 0-9, - and ., and starts and ends with a-z0-9"
    close = re.sub(r"[^a-z0-9.-]+", "-", name.lower())[:MAX_NAME_LENGTH].strip("-.")
    hint = f"; {close!r} would do" if close else ""
    raise ValueError(f"{name[:80]!r} is not a name: {rule}{hint}")


def parse_reference(text: Any) -> Reference:
    """`name` or `name@number`. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not a reference; write a name, or name@number to pin it")
    match = _REFERENCE.fullmatch(text)
    name, number = (match[1], int(match[2])) if match else (text, None)
    if match is None and "@" in text:
        raise ValueError(f"{text!r}: after @ comes the number of a revision, such as chat@3")
    return Reference(check_name(name), number)


def _check_reference(text: Any) -> Any:
    return str(parse_reference(text))


Name = Annotated[
    str,
    AfterValidator(check_name),
    Written(f"name: 1 to {MAX_NAME_LENGTH} of a-z, 0-9, - and .", "chat"),
]

ReferenceText = Annotated[
    str,
    BeforeValidator(_check_reference),
    Written("name of a document; name@3 pins its third revision", "chat"),
]
"""`name` or `name@number`; see parse_reference."""
