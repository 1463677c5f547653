"""Somebody at a port that a replica had, who passes everything on to another replica."""

import contextlib
import selectors
import socket
import threading
import time

_TAKE_SECONDS = 2.0


class PortHeldError(Exception):
    """The port did not become free."""


def usurp(port: int, of: int, seconds: float) -> threading.Thread:
    """Listen at `port` for so long, in a thread, and pass on to the replica at port `of`. Raises
    PortHeldError."""
    listener = _listen(port)
    thread = threading.Thread(target=_serve, args=(listener, of, seconds), daemon=True)
    thread.start()
    return thread


def _listen(port: int) -> socket.socket:
    deadline = time.monotonic() + _TAKE_SECONDS
    while True:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError as error:
            if time.monotonic() > deadline:
                raise PortHeldError(f"port {port}: {error}") from error
            time.sleep(0.01)


def _serve(listener: socket.socket, of: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with listener, selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        selector.register(listener, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fileobj is listener:
                    own, _ = listener.accept()
                    other = socket.create_connection(("127.0.0.1", of))
                    for one, peer in ((own, other), (other, own)):
                        selector.register(stack.enter_context(one), selectors.EVENT_READ, peer)
                    continue
                _pass_on(selector, key)


def _pass_on(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    one, other = key.fileobj, key.data
    assert isinstance(one, socket.socket)
    try:
        data = one.recv(2**16)
        other.sendall(data)
    except OSError:
        data = b""
    if not data:
        for each in (one, other):
            with contextlib.suppress(KeyError):
                selector.unregister(each)
            each.close()
