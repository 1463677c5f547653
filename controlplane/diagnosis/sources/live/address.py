"""From what somebody typed to the addresses at which metrics may be."""

import re
from dataclasses import dataclass

import httpx

_METRICS_PATHS = ("/metrics", "/prometheus/metrics")
"""The second is TensorRT-LLM's."""
_API_ROOT = "/v1"
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """One engine's address."""

    root: httpx.URL
    """Of its server, or of its part of a server behind a path."""
    metrics: tuple[httpx.URL, ...]
    """To be tried in this order."""
    label: str
    """Short, and tells it from others: host and port."""


def read_address(text: str) -> Address:
    """A URL with or without scheme, `/v1` or `/metrics`, `?model=` kept. Raises ValueError."""
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL as error:
        raise ValueError(_no_address(text)) from error
    is_port = url.port is None or 0 < url.port <= _LAST_PORT
    if url.scheme not in ("http", "https") or not url.host or not is_port:
        raise ValueError(_no_address(text))
    path = url.path.rstrip("/")
    own = next((each for each in reversed(_METRICS_PATHS) if path.endswith(each)), None)
    base = path.removesuffix(own or "").removesuffix(_API_ROOT)
    root = url.copy_with(path=base or "/", query=None)
    paths = (own,) if own else _METRICS_PATHS
    return Address(
        root=root,
        metrics=tuple(url.copy_with(path=f"{base}{each}") for each in paths),
        label=f"{url.host}:{url.port}" if url.port else url.host,
    )


def shown(url: httpx.URL) -> str:
    """As it may stand in a ticket: without the password that it may carry."""
    return str(url.copy_with(username=None, password=None)) if url.userinfo else str(url)


def _no_address(text: str) -> str:
    bare = re.sub(r"//[^/@]*@", "//", text)
    return f"{bare} is no address of an engine: give one such as http://host:8000"


def beside(address: Address, path: str) -> httpx.URL:
    """Another path of the same server."""
    return address.root.copy_with(path=f"{address.root.path.rstrip('/')}{path}")
