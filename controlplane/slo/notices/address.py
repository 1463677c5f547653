"""The address of a webhook, which is a secret: whoever has it can write there, so it stands in a
file, and in no argument, error or log. Imports nothing heavy."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_MAX_FILE = 16 * 2**10


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Where to post, and what to show there."""

    url: str
    headers: Mapping[str, str]


def read_address(file: Path) -> Address:
    """The first line of `file` is the address; further ones, where there are any, are headers such
    as `Authorization: Bearer ...`. Lines that begin with # count for nothing.

    Raises ValueError, which says nothing of what stands in it.
    """
    try:
        with file.open(encoding="utf-8") as stream:
            text = stream.read(_MAX_FILE)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ValueError(f"{file} cannot be read: {why}") from error
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines or not _is_url(lines[0]):
        raise ValueError(f"{file}: its first line must be the address, beginning with https://")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name.strip().replace("-", "").isalnum() or not value.strip().isascii():
            raise ValueError(f"{file}: after the address come headers, such as Authorization: ...")
        headers[name.strip()] = value.strip()
    return Address(lines[0], headers)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = text.isprintable() and " " not in text
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and is_plain
