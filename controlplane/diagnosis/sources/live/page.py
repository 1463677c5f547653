"""One answer of somebody's server, within a bound of bytes and of time.

What answers at an address that somebody typed may be anything: a stream that never ends, one that
drips, a small answer that unpacks to a large one, or one that sends whoever asks elsewhere. Only
that server is asked: no other origin is followed, and no proxy of the environment sees it.
"""

import asyncio
import json
import re
import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from controlplane.diagnosis.sources.bounds import MOST_OF_PAGE
from controlplane.diagnosis.sources.decoding import decoded, unpacked
from controlplane.diagnosis.sources.live.connecting import is_refusal

MAX_PAGE_BYTES = MOST_OF_PAGE
SCRAPE_SECONDS = 5.0
_CONNECT_SECONDS = 3.0
_MAX_REDIRECTS = 3
_MAX_KIND = 60
"""Characters of a content type."""


class PageError(Exception):
    """There is no page to be had; the message says what came instead, without the address and
    without a word of the answer."""

    @property
    def is_late(self) -> bool:
        """Nothing, or not all, came in time."""
        return isinstance(self.__cause__, TimeoutError)

    @property
    def is_unheard(self) -> bool:
        """There was no connection, or one that ended or stood still."""
        return isinstance(self.__cause__, TimeoutError | httpx.TransportError)

    @property
    def is_refused(self) -> bool:
        """The host is there, and nothing listens at its port."""
        return isinstance(self.__cause__, httpx.ConnectError) and is_refusal(self.__cause__)


class NoPageError(PageError):
    """Somebody answered, with what is no page."""

    def __init__(self, what: str, in_full: str | None = None) -> None:
        super().__init__(what)
        self.in_full = in_full or what
        """The same for who typed the address, and may read what it answers."""

    @property
    def is_unheard(self) -> bool:
        """It was heard."""
        return False


class UnknownHostError(PageError):
    """Nobody was asked: the host's name has no address."""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """A whole answer, whatever its status."""

    status: int
    text: str
    content_type: str = ""
    """Without its parameters; empty where it says none."""

    @property
    def is_success(self) -> bool:
        """It is the page."""
        return httpx.codes.is_success(self.status)

    @property
    def kind(self) -> str:
        """What it is, without a word of what it says."""
        return f"{self.status} {self.content_type}".strip()


def create_http(headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """A client for servers that somebody named; authorities are those of SSL_CERT_FILE."""
    return httpx.AsyncClient(
        headers=headers,
        trust_env=False,
        verify=httpx.create_ssl_context(),
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
    )


async def get_page(
    http: httpx.AsyncClient,
    url: httpx.URL,
    *,
    headers: dict[str, str] | None = None,
    max_bytes: int = MAX_PAGE_BYTES,
    seconds: float = SCRAPE_SECONDS,
) -> PageAnswer:
    """GET it. Redirects are followed to other paths of the same server, and none by a request that
    shows a key. Raises PageError for whatever is no whole answer in time."""
    request = http.build_request("GET", url, headers=headers)
    return await get_answer(http, request, max_bytes=max_bytes, seconds=seconds)


async def get_answer(
    http: httpx.AsyncClient, request: httpx.Request, *, max_bytes: int, seconds: float
) -> PageAnswer:
    """The same for any request. Raises PageError."""
    request.headers["accept-encoding"] = "gzip"
    data = bytearray()
    try:
        async with asyncio.timeout(seconds):
            for _ in range(_MAX_REDIRECTS + 1):
                response = await http.send(request, stream=True, follow_redirects=False)
                try:
                    following = response.next_request
                    if following is None:
                        await _read(response, data, max_bytes)
                        return _answer(response, bytes(data), max_bytes)
                    _refuse_elsewhere(request, following)
                    request = following
                finally:
                    await response.aclose()
    except TimeoutError as error:
        came = f"{len(data)} bytes of an answer" if data else "no answer"
        raise PageError(f"{came} within {seconds:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        unknown = _unknown_host(error)
        if unknown is not None:
            raise UnknownHostError(f"its name does not resolve ({unknown})") from error
        if isinstance(error, httpx.RemoteProtocolError) and not _ENDED.search(str(error)):
            raise NoPageError(f"what it answers is no HTTP ({error})") from error
        raise PageError(said(error)) from error
    raise NoPageError(f"it redirects more than {_MAX_REDIRECTS} times")


_ENDED = re.compile(r"disconnected|closed connection")
"""It did so before it had answered."""


def _unknown_host(error: BaseException | None) -> str | None:
    """What the resolver said, where it was asked in vain."""
    while error is not None:
        if isinstance(error, socket.gaierror):
            return error.strerror or "no address is known"
        error = error.__cause__ or error.__context__
    return None


def _refuse_elsewhere(request: httpx.Request, following: httpx.Request) -> None:
    scheme, host, port = _origin(following.url)
    if host == request.url.host and (scheme, port) != (request.url.scheme, request.url.port):
        name = f"{scheme}://{host}" + (f":{port}" if port else "")
        raise NoPageError(f"it redirects to {name}, which is not followed: give that address")
    if host != request.url.host:
        elsewhere = f"{scheme}://{host}" + (f":{port}" if port else "")
        raise NoPageError(
            "it redirects to another server, which is not followed",
            f"it redirects to {elsewhere}, which is not followed: give that address if it is meant",
        )
    if "authorization" in request.headers:
        raise NoPageError("it redirects whoever shows a key, which is not followed")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _read(response: httpx.Response, data: bytearray, max_bytes: int) -> None:
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > max_bytes:
            raise NoPageError(_too_long(max_bytes))


def _answer(response: httpx.Response, data: bytes, max_bytes: int) -> PageAnswer:
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    if packing == "gzip":
        try:
            data = unpacked(data, max_bytes + 1)
        except zlib.error as error:
            raise NoPageError("its answer is called gzip, and is none") from error
    elif packing != "identity":
        raise NoPageError("its answer is packed in a way that was not asked for")
    try:
        text = decoded(data, max_bytes + 1)
    except zlib.error as error:
        raise NoPageError("its answer begins like gzip, and is none") from error
    if len(data) > max_bytes or len(text) > max_bytes:
        raise NoPageError(_too_long(max_bytes))
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    return PageAnswer(response.status_code, text, kind[:_MAX_KIND])


def _too_long(max_bytes: int) -> str:
    size = f"{max_bytes // 2**20} MiB" if max_bytes >= 2**20 else f"{max_bytes} bytes"
    return f"its answer is longer than {size}"


def said(error: Exception) -> str:
    """What happened, in words; many errors of connections have none of their own. The number of an
    error of the system is left out: among figures it reads as one. Where all attempts to connect
    failed, and not because its port refuses, it says that: a lost way is another thing."""
    words = _ERRNO.sub("", str(error))
    if isinstance(error, httpx.ConnectError) and words.endswith("attempts failed"):
        words = words if is_refusal(error) else f"{words} (no way to it)"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


_ERRNO = re.compile(r"\[Errno -?\d+\] ?")


def read_json(answer: PageAnswer) -> Any:
    """What it says. Raises ValueError where it is no JSON, or no success."""
    if not answer.is_success:
        raise ValueError(answer.kind)
    return json.loads(answer.text)
