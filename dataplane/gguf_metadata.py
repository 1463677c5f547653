"""The key-value part of a GGUF file, read in one pass.

`gguf.GGUFReader` makes numpy arrays of every element of every array, which for a
vocabulary of fifty thousand tokens takes seconds. The gateway and the replica host need
the vocabulary each time they start, so this reads the same bytes with `struct` in about
a tenth of a second. It does not look at tensors: weights stay with the `gguf` library.
"""

import mmap
import struct
from pathlib import Path
from typing import Any

from gguf.constants import GGUF_VERSION, GGUFValueType

GGUFScalar = str | int | float | bool
GGUFValue = GGUFScalar | list[GGUFScalar]
"""What a metadata key holds: a scalar, a string, or a flat list of either."""

_MAGIC = b"GGUF"
_READABLE_VERSIONS = (2, GGUF_VERSION)
_HEADER = struct.Struct("<4sIQQ")
_FORMATS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}


class GGUFError(ValueError):
    """A file that is not the GGUF it should be; names the file and what is wrong with it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def read_gguf_metadata(path: Path) -> dict[str, GGUFValue]:
    """Every metadata key of the file.

    Raises OSError when it cannot be opened, and GGUFError when it is no little-endian GGUF
    file of version 2 or 3, ends too early or repeats a key.
    """
    with path.open("rb") as file:
        if path.stat().st_size < _HEADER.size:
            raise GGUFError(path, "it is too short to be a GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Cursor(path, data).metadata()
            except (struct.error, UnicodeDecodeError) as error:
                raise GGUFError(path, f"its metadata is cut off or damaged: {error}") from error


class _Cursor:
    """A position in the file that moves past what it reads."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._offset = 0

    def metadata(self) -> dict[str, GGUFValue]:
        magic, version, _, num_keys = _HEADER.unpack_from(self._data)
        if magic != _MAGIC:
            raise GGUFError(self._path, f"it starts with {magic!r}, not with {_MAGIC!r}")
        if version not in _READABLE_VERSIONS:
            raise GGUFError(
                self._path, f"GGUF version {version} is none of {_READABLE_VERSIONS}; convert it"
            )
        self._offset = _HEADER.size
        metadata: dict[str, GGUFValue] = {}
        for _ in range(num_keys):
            key = self._string()
            if key in metadata:
                raise GGUFError(self._path, f"key {key!r} appears twice")
            metadata[key] = self._value(self._type())
        return metadata

    def _value(self, value_type: GGUFValueType) -> GGUFValue:
        if value_type is GGUFValueType.ARRAY:
            return self._array(self._type(), self._scalar("Q"))
        if value_type is GGUFValueType.STRING:
            return self._string()
        scalar: GGUFScalar = self._scalar(_FORMATS[value_type])
        return scalar

    def _array(self, item_type: GGUFValueType, length: int) -> list[GGUFScalar]:
        if item_type is GGUFValueType.ARRAY:
            raise GGUFError(self._path, "nested arrays are not part of GGUF as it is written today")
        if length > len(self._data):
            raise GGUFError(self._path, f"an array claims {length} items, more than the file holds")
        if item_type is GGUFValueType.STRING:
            return [self._string() for _ in range(length)]
        layout = struct.Struct(f"<{length}{_FORMATS[item_type]}")
        items = layout.unpack_from(self._data, self._offset)
        self._offset += layout.size
        return list(items)

    def _scalar(self, letter: str) -> Any:
        layout = struct.Struct(f"<{letter}")
        (value,) = layout.unpack_from(self._data, self._offset)
        self._offset += layout.size
        return value

    def _type(self) -> GGUFValueType:
        number = self._scalar("I")
        try:
            return GGUFValueType(number)
        except ValueError as error:
            raise GGUFError(self._path, f"value type {number} is unknown") from error

    def _string(self) -> str:
        start = self._offset + 8
        end = start + int.from_bytes(self._data[self._offset : start], "little")
        if end > len(self._data):
            raise GGUFError(self._path, "a string reaches beyond the end of the file")
        self._offset = end
        return self._data[start:end].decode()
