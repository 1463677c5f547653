"""Posting JSON to an address that is a secret and shows in no error."""

import asyncio
import re
from contextlib import suppress
from typing import Any

import httpx

from controlplane.hooks import NotifyError
from controlplane.slo.notices.address import Address

_SECONDS = 5.0
"""To connect, and between two pieces of an answer."""
_DEADLINE_SECONDS = 10.0
"""For all of it, however slowly pieces come."""
_MAX_ANSWER = 2048
_MAX_SHOWN = 160
_LEAST_SECRET = 5
"""Characters; a shorter part is a word like any other."""


def post_json(address: Address, body: Any) -> str:
    """Returns what was answered, such as `HTTP 200`. Raises NotifyError for any answer but 2xx:
    nothing is followed elsewhere."""
    return asyncio.run(_post(address, body))


async def _post(address: Address, body: Any) -> str:
    try:
        async with (
            asyncio.timeout(_DEADLINE_SECONDS),
            httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False) as client,
            client.stream("POST", address.url, json=body, headers=dict(address.headers)) as answer,
        ):
            status = f"HTTP {answer.status_code}"
            # What was taken was, whatever becomes of the rest of the answer.
            said = await _read(answer)
    except httpx.TimeoutException as error:
        raise NotifyError(f"no answer within {_SECONDS:g} s") from error
    except TimeoutError as error:
        raise NotifyError(f"no answer within {_DEADLINE_SECONDS:g} s") from error
    except httpx.HTTPError as error:
        raise NotifyError(_hidden(address, f"{type(error).__name__}: {error}")) from error
    if not answer.is_success:
        shown = _hidden(address, said)
        raise NotifyError(f"{status}: {shown}" if shown else status)
    return status


async def _read(answer: httpx.Response) -> str:
    """The beginning of it, as far as it comes."""
    read = b""
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(_SECONDS / 2):
            async for piece in answer.aiter_bytes():
                read += piece
                if len(read) >= _MAX_ANSWER:
                    break
    return read[:_MAX_ANSWER].decode(errors="replace")


def _hidden(address: Address, text: str) -> str:
    """In one short line, without what `address` holds."""
    url = httpx.URL(address.url)
    # Whoever answers may quote a part of it: the path alone, or a token without its `Bearer`.
    shown = (*address.headers.values(), url.query.decode(), url.userinfo.decode())
    parts = [part for each in shown for part in re.split(r"[ &=:]", each)]
    secrets = {each for each in (address.url, url.raw_path.decode(), url.path, *shown) if each[1:]}
    secrets |= {part for part in parts if len(part) >= _LEAST_SECRET}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_MAX_SHOWN]
