"""A successor listens where it is asked to: on its predecessor's socket only if that is there."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dataplane.gateway.handover import Grant, Predecessor
from dataplane.gateway.listener import ListenError, choose_listener
from dataplane.gateway.settings import GatewaySettings


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def bound(opened: ExitStack, host: str) -> socket.socket:
    return opened.enter_context(closing(socket.create_server((host, 0))))


def predecessor_on(opened: ExitStack, host: str, is_kept: bool = False) -> Predecessor:
    ours, theirs = socket.socketpair()
    opened.callback(theirs.close)
    grant = Grant(gateway_id="gateway-1", pid=1, is_listener_kept=is_kept)
    return opened.enter_context(closing(Predecessor(grant, bound(opened, host), ours)))


def settings_for(folder: Path, host: str, port: int = 0) -> GatewaySettings:
    return GatewaySettings(name="gateway-t", state_dir=folder, host=host, port=port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_predecessors_socket_is_taken_where_it_listens_as_asked(
    tmp_path: Path, opened: ExitStack, host: str
) -> None:
    before = predecessor_on(opened, "127.0.0.1")
    port = before.listener.getsockname()[1]
    for asked in (0, port):
        chosen = choose_listener(settings_for(tmp_path, host, asked), None, before)
        assert chosen == (before.listener, False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_one_that_is_asked_for_this_machine_leaves_a_socket_that_is_open_to_all(
    tmp_path: Path, opened: ExitStack, host: str
) -> None:
    before = predecessor_on(opened, "0.0.0.0")
    chosen, is_kept = choose_listener(settings_for(tmp_path, host), None, before)
    opened.callback(chosen.close)
    assert chosen.getsockname()[0] == "127.0.0.1"
    assert not is_kept
    assert before.listener.fileno() == -1, "it must not stay open here"


def test_one_that_a_service_manager_keeps_is_taken_wherever_it_listens(
    tmp_path: Path, opened: ExitStack
) -> None:
    before = predecessor_on(opened, "0.0.0.0", is_kept=True)
    assert choose_listener(settings_for(tmp_path, "127.0.0.1"), None, before) == (
        before.listener,
        True,
    )


def test_an_inherited_socket_goes_before_the_predecessors_which_is_closed(
    tmp_path: Path, opened: ExitStack
) -> None:
    before, inherited = predecessor_on(opened, "127.0.0.1"), bound(opened, "127.0.0.1")
    assert choose_listener(settings_for(tmp_path, "127.0.0.1"), inherited, before) == (
        inherited,
        True,
    )
    assert before.listener.fileno() == -1


def test_a_taken_address_is_told_with_the_remedy(tmp_path: Path, opened: ExitStack) -> None:
    port = bound(opened, "127.0.0.1").getsockname()[1]
    with pytest.raises(ListenError, match="choose another --host or --port, or take the place"):
        choose_listener(settings_for(tmp_path, "127.0.0.1", port), None, None)
