"""A port that refuses is told apart from a way that is lost, whatever libraries make of it."""

import asyncio
import errno

import httpx
import pytest

from controlplane.diagnosis.sources.live.connecting import is_refusal
from controlplane.diagnosis.sources.live.page import PageError, create_http, get_page
from controlplane.diagnosis.sources.live.silence import REFUSED, try_port
from tests.ports import free_ports

NO_ROUTE = OSError(errno.EHOSTUNREACH, "No route to host")
SHUT = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")
NO_SUCH_KIND = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")


def below(root: BaseException) -> OSError:
    """What a library makes of it."""
    error = OSError("All connection attempts failed")
    error.__cause__ = root
    return error


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (below(SHUT), True),
        (below(NO_ROUTE), False),
        (below(ExceptionGroup("several", [SHUT, NO_SUCH_KIND])), True),
        (below(ExceptionGroup("several", [SHUT, NO_ROUTE])), False),
        (OSError("Multiple exceptions: [Errno 111] failed, [Errno 111] failed"), True),
        (OSError("Multiple exceptions: [Errno 111] failed, [Errno 113] failed"), False),
        (ValueError("no error of the system"), False),
    ],
)
def test_a_refusal_is_one_by_every_address_that_was_asked(
    error: BaseException, is_refused: bool
) -> None:
    assert is_refusal(error) is is_refused


def test_a_real_port_without_a_listener_refuses() -> None:
    (port,) = free_ports(1)

    async def ask() -> tuple[PageError, str]:
        async with create_http() as http:
            with pytest.raises(PageError) as caught:
                await get_page(http, httpx.URL(f"http://127.0.0.1:{port}/metrics"))
            return caught.value, await try_port(httpx.URL(f"http://127.0.0.1:{port}"))

    error, connection = asyncio.run(ask())
    assert (error.is_refused, error.is_unheard) == (True, True)
    assert connection.startswith(REFUSED)
