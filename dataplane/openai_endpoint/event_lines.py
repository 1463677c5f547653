"""The payloads of server-sent events, out of bytes as they come."""

from dataplane.line_stream import LineTooLongError

_PREFIX = b"data:"


class EventLines:
    """One stream's. Each `data:` line is an event of its own, as OpenAI's streams have it; lines
    end with CR, LF or both, and with nothing else."""

    def __init__(self, max_line_bytes: int) -> None:
        self._begun = b""
        self._max_line_bytes = max_line_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that `data` completes. Raises LineTooLongError before more than one line
        of the bound, and `data`, are held."""
        lines = (self._begun + data).splitlines()
        self._begun = lines.pop() if lines and not data.endswith((b"\n", b"\r")) else b""
        if len(self._begun) > self._max_line_bytes:
            raise LineTooLongError(self._max_line_bytes)
        return _payloads(lines)

    def end(self) -> list[bytes]:
        """That of a last line which no line end follows."""
        lines, self._begun = [self._begun], b""
        return _payloads(lines)


def _payloads(lines: list[bytes]) -> list[bytes]:
    told = [line[len(_PREFIX) :].strip() for line in lines if line.startswith(_PREFIX)]
    return [payload for payload in told if payload]
