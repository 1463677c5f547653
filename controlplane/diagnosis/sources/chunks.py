"""The bytes that a stream holds, unpacked where they are packed, within bounds."""

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from controlplane.diagnosis.sources.bounds import MOST_UNPACKED
from controlplane.diagnosis.sources.input_error import InputError

Told = Callable[[str, float | None], None]
"""The place that is read, and how much of it was (0 to 1); None: nobody can say."""

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_CHUNK = 1 << 16
_ALWAYS_UNPACKED = 64 << 20
"""Bytes that may come of a file of any size."""
_MOST_TIMES = 200
"""Its own size. Logs are packed to a tenth or a fiftieth; gzip packs no text a thousandfold but
what says one thing again and again."""


def nobody_told(_place: str, _share: float | None) -> None:
    """Nobody watches."""


class Chunks(Iterator[bytes]):
    """Unpacked by gzip where needed, as much of it as there is and as is bounded; without the NUL
    bytes that a log begins with whose writer went on where it was when the log was cut to nothing
    (`copytruncate`)."""

    def __init__(
        self, place: str, stream: BinaryIO, size: int | None = None, told: Told = nobody_told
    ) -> None:
        """`size` in bytes, as it is stored."""
        self.place = place
        self._stream = stream
        self._size = size
        self._told = told
        self._num_read = 0
        self._num_unpacked = 0
        self._num_nul = 0
        self._has_begun = False
        self._packed = self._read()
        self._is_packed = self._packed.startswith(_GZIP)
        self._unpacking = zlib.decompressobj(_GZIP_WINDOW)
        self._is_cut = False
        self._is_bounded = False

    @property
    def is_whole_known(self) -> bool:
        """How long it is, before it is read."""
        return bool(self._size) and not self._is_packed

    def pass_to_newest(self, most: int) -> int:
        """Goes on with the last `most` bytes of what is left of a file, where its length is known.
        Returns how many were passed over."""
        if not self.is_whole_known or not self._stream.seekable():
            return 0
        start = (self._size or 0) - most
        passed = start - (self._num_read - len(self._packed))
        if passed <= 0:
            return 0
        self._stream.seek(start)
        self._num_read, self._size = 0, most  # how far it is read is told of what is read
        self._packed = self._read()
        return passed

    @property
    def shortcomings(self) -> tuple[str, ...]:
        """What is missing of it, or was passed over; known once all was read."""
        said = []
        if self._num_nul:
            said.append(
                f"it begins with {self._num_nul} NUL bytes, as a log does that was rotated while "
                "it was written; they were passed over"
            )
        if self._is_cut:
            said.append("it was packed by gzip and ends before its end; what is there was read")
        if self._is_bounded:
            said.append(
                f"it unpacks to more than {_MOST_TIMES} times its size, or more than "
                f"{MOST_UNPACKED >> 30} GiB; what follows its first {self._num_unpacked >> 20} MiB "
                "was left out: unpack it, and give the part that is meant"
            )
        return tuple(said)

    def __next__(self) -> bytes:
        while (chunk := self._next()) is not None:
            if not self._has_begun:
                begun = chunk.lstrip(b"\0")
                num_nul = len(chunk) - len(begun)
                self._num_nul += num_nul
                # What a text is, is seen in its first chunk: it is not to be a mere rest.
                chunk = begun + (self._next() or b"") if begun and num_nul else begun
            if chunk:
                self._has_begun = True
                return chunk
        raise StopIteration

    def _next(self) -> bytes | None:
        """May be empty; None at the end."""
        if not self._packed or self._is_bounded:
            self._is_cut = self._is_packed and not self._is_bounded and not self._unpacking.eof
            return None
        if self._is_packed:
            return self._unpack()
        chunk, self._packed = self._packed, self._read()
        return chunk

    def _read(self) -> bytes:
        chunk = self._stream.read(_CHUNK)
        self._num_read += len(chunk)
        self._told(self.place, min(1.0, self._num_read / self._size) if self._size else None)
        return chunk

    def _unpack(self) -> bytes:
        if self._unpacking.eof:  # several were packed one by one and appended
            self._unpacking = zlib.decompressobj(_GZIP_WINDOW)
        try:
            chunk = self._unpacking.decompress(self._packed, _CHUNK)
        except zlib.error as error:
            raise InputError(self.place, f"cannot be unpacked: {error}", "save it again") from error
        self._packed = (
            self._unpacking.unused_data or self._unpacking.unconsumed_tail or self._read()
        )
        self._num_unpacked += len(chunk)
        most = min(MOST_UNPACKED, max(_ALWAYS_UNPACKED, _MOST_TIMES * self._num_read))
        self._is_bounded = bool(self._packed) and self._num_unpacked >= most
        return chunk
