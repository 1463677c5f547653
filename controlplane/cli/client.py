"""The command line's connection to the control plane."""

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import click

from controlplane.cli.credentials import key_headers
from controlplane.cli.failures import (
    DEFAULT_URL,
    RefusedError,
    UnreachableError,
    failure_of_answer,
    failure_of_transport,
    not_a_control_plane,
)

if TYPE_CHECKING:
    import ssl

__all__ = [
    "DEFAULT_URL",
    "RefusedError",
    "UnreachableError",
    "convert_answer",
    "delete_json",
    "get_json",
    "patch_json",
    "post_bytes",
    "post_json",
    "url_option",
]

_TIMEOUT_SECONDS = 30.0
_CONNECT_SECONDS = 5.0
_Answer = TypeVar("_Answer")

url_option = click.option(
    "--url",
    envvar="PILOTHOUSE_URL",
    default=DEFAULT_URL,
    show_default=True,
    show_envvar=True,
    help="Base URL of the control plane.",
)


def get_json(url: str, path: str, **parameters: str | int) -> Any:
    """GET. Raises a CallError, which ends the command with one line and its exit code."""
    return _call("GET", url, path, params=parameters)


def post_json(url: str, path: str, body: Any) -> Any:
    """POST. Raises a CallError."""
    return _call("POST", url, path, json=body)


def post_bytes(url: str, path: str, body: bytes) -> Any:
    """POST of a body that is JSON already. Raises a CallError."""
    return _call(
        "POST",
        url,
        path,
        content=body,
        headers={"content-type": "application/json", **key_headers()},
    )


def patch_json(url: str, path: str, body: Any) -> Any:
    """PATCH. Raises a CallError."""
    return _call("PATCH", url, path, json=body)


def delete_json(url: str, path: str, **parameters: str) -> Any:
    """DELETE. Raises a CallError."""
    return _call("DELETE", url, path, params=parameters)


def convert_answer(url: str, answer: Any, shape: type[_Answer]) -> _Answer:
    """An answer as `shape`. Raises UnreachableError when it has another one: who answered at
    `url` is no control plane of this version."""
    import msgspec

    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise not_a_control_plane(url, f"its answer is not as expected, {error}") from error


def _call(method: str, url: str, path: str, **arguments: Any) -> Any:
    import httpx  # here, so that help and completion do without it

    address = url.rstrip("/") + path
    timeout = httpx.Timeout(_TIMEOUT_SECONDS, connect=_CONNECT_SECONDS)
    arguments.setdefault("headers", key_headers())
    try:
        response = httpx.request(
            method, address, timeout=timeout, verify=_authorities(), **arguments
        )
    except (httpx.RequestError, httpx.InvalidURL) as error:
        raise failure_of_transport(url, error) from error
    try:
        body = response.json()
    except ValueError:
        body = None
    if not response.is_success:
        raise failure_of_answer(url, response, body)
    if body is None:
        raise not_a_control_plane(url, f"{address} answered with no JSON")
    return body


@cache
def _authorities() -> "ssl.SSLContext":
    """Read once: that takes longer than most calls, and some commands make many."""
    import httpx

    return httpx.create_ssl_context()
