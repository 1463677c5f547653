"""Segments: the files in which a spool keeps records, one JSON line each, in order.

A segment is appended to by the process that made it, read from its front as records are
sent, and deleted when all were. Where sending has got to is kept in memory alone: a
successor sends a half-sent segment again, and the receiver knows records by their numbers.
"""

import os
from pathlib import Path

SEGMENT_GLOB = "*.records"


class Segment:
    """One file. Offsets and sizes are in bytes."""

    def __init__(self, gateway_id: str, path: Path) -> None:
        self.gateway_id = gateway_id
        self.path = path
        self.num_bytes = 0
        self.num_records = 0
        """In the file that are not yet sent."""
        self._num_sent_bytes = 0
        self._file: int | None = None

    @classmethod
    def create(cls, gateway_id: str, path: Path) -> "Segment":
        """A new one to append to. Raises OSError."""
        segment = cls(gateway_id, path)
        segment._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return segment

    @classmethod
    def adopt(cls, gateway_id: str, path: Path) -> "Segment":
        """A predecessor's. A last line that its death cut off is not part of it."""
        segment = cls(gateway_id, path)
        data = path.read_bytes()
        segment.num_bytes = data.rfind(b"\n") + 1
        segment.num_records = data.count(b"\n")
        return segment

    def append(self, line: bytes) -> None:
        """Add one record. Raises OSError, and then nothing of it stays."""
        assert self._file is not None, "only the process that created a segment appends to it"
        data = line + b"\n"
        try:
            num_written = os.pwrite(self._file, data, self.num_bytes)
        except OSError:
            num_written = 0
            self._cut()
            raise
        if num_written < len(data):
            self._cut()
            raise OSError(f"only {num_written} of {len(data)} bytes fitted into {self.path}")
        self.num_bytes += num_written
        self.num_records += 1

    def _cut(self) -> None:
        assert self._file is not None
        os.ftruncate(self._file, self.num_bytes)

    def read_unsent(self, max_records: int, max_bytes: int) -> list[bytes]:
        """The next records, at least one if there is one, each without its newline."""
        lines: list[bytes] = []
        size = 0
        with self.path.open("rb") as file:
            file.seek(self._num_sent_bytes)
            while len(lines) < max_records and size < max_bytes:
                remaining = self.num_bytes - file.tell()
                line = file.readline() if remaining > 0 else b""
                if not line:
                    break
                lines.append(line[:-1])
                size += len(line)
        return lines

    def mark_sent(self, lines: list[bytes]) -> None:
        """These, the next ones, need not be sent again."""
        self._num_sent_bytes += sum(len(line) + 1 for line in lines)
        self.num_records -= len(lines)

    def close(self) -> None:
        """No more is appended."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def delete(self) -> None:
        """All of it was sent, or given up."""
        self.close()
        self.path.unlink(missing_ok=True)
