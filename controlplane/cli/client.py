"""The command line's connection to the control plane."""

from typing import Any

import click
import httpx

DEFAULT_URL = "http://127.0.0.1:8700"

url_option = click.option(
    "--url",
    envvar="PILOTHOUSE_URL",
    default=DEFAULT_URL,
    show_default=True,
    show_envvar=True,
    help="Base URL of the control plane.",
)


class RefusedError(click.ClickException):
    """The control plane answered, and the answer is no."""

    def __init__(self, message: str, status_code: int, body: Any) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = body
        """Its JSON, None where it sent none."""


class UnreachableError(click.ClickException):
    """No control plane answers."""

    def __init__(self, url: str, error: Exception) -> None:
        super().__init__(
            f"no control plane answers at {url} ({error}). Start one with `pilothouse serve`, "
            f"or name another with --url or PILOTHOUSE_URL"
        )


def get_json(url: str, path: str, **parameters: str | int) -> Any:
    """GET. Raises UnreachableError and RefusedError, which end the command with one line."""
    return _call("GET", url, path, params=parameters)


def post_json(url: str, path: str, body: Any) -> Any:
    """POST. Raises UnreachableError and RefusedError."""
    return _call("POST", url, path, json=body)


def _call(method: str, url: str, path: str, **arguments: Any) -> Any:
    address = url.rstrip("/") + path
    try:
        response = httpx.request(method, address, timeout=30, **arguments)
    except (httpx.TransportError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise UnreachableError(url, error) from error
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.is_success and body is not None:
        return body
    raise RefusedError(_reason(address, response, body), response.status_code, body)


def _reason(address: str, response: httpx.Response, body: Any) -> str:
    detail = body.get("detail") if isinstance(body, dict) else None
    if isinstance(detail, str):
        return detail
    return f"{address} answered {response.status_code} {response.text[:200].strip()}"
