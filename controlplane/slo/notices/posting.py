"""Posting JSON to an address that is a secret: whoever has a webhook's address can write there, so
it stands in a file, and in no argument, error or log."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from controlplane.hooks import NotifyError

_SECONDS = 5.0
"""To connect, and between two pieces of an answer."""
_DEADLINE_SECONDS = 10.0
_MAX_ANSWER = 2048
_MAX_SHOWN = 160
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


def post_json(address: Address, body: Any) -> str:
    """Returns what was answered, such as `HTTP 200`. Raises NotifyError for any answer but 2xx:
    nothing is followed elsewhere."""
    try:
        with (
            httpx.Client(timeout=_SECONDS, follow_redirects=False) as client,
            client.stream("POST", address.url, json=body, headers=dict(address.headers)) as answer,
        ):
            said = _read(answer)
    except httpx.TimeoutException as error:
        raise NotifyError(f"no answer within {_SECONDS:g} s") from error
    except httpx.HTTPError as error:
        raise NotifyError(_hidden(address, f"{type(error).__name__}: {error}")) from error
    status = f"HTTP {answer.status_code}"
    if not answer.is_success:
        shown = _hidden(address, said)
        raise NotifyError(f"{status}: {shown}" if shown else status)
    return status


def _read(answer: httpx.Response) -> str:
    """The beginning of it, for as long as there is time."""
    ends_at, read = time.monotonic() + _DEADLINE_SECONDS, b""
    for piece in answer.iter_bytes(_MAX_ANSWER):
        read += piece
        if len(read) >= _MAX_ANSWER or time.monotonic() > ends_at:
            break
    return read[:_MAX_ANSWER].decode(errors="replace")


def _hidden(address: Address, text: str) -> str:
    """In one short line, without what `address` holds."""
    url = httpx.URL(address.url)
    secrets = (address.url, url.raw_path.decode(), *address.headers.values())
    for secret in sorted((each for each in secrets if len(each) > 1), key=len, reverse=True):
        text = text.replace(secret, "***")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_MAX_SHOWN]


def _is_url(text: str) -> bool:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)
