"""The socket that the control plane listens on: taken before anything else is opened."""

import socket


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, for the server to listen on. Raises OSError when the address is taken or
    not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
