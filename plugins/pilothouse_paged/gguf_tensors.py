"""The tensors of a GGUF file, dequantized by the `gguf` library.

`gguf.GGUFReader` builds several numpy arrays for every vocabulary entry and merge, which
takes it seconds. `TensorReader` steps over such arrays instead: weights need none of them,
and the metadata is read by `dataplane.gguf_metadata`.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, ReaderTensor
from gguf.constants import GGUFValueType
from gguf.quants import dequantize

from dataplane.gguf_metadata import GGUFError

_CHUNK_BYTES = 2**15  # its temporaries stay in the processor cache
_LENGTH = struct.Struct("<Q")

# What the library's parser lets through when bytes are missing or make no sense.
_DAMAGE = (ValueError, KeyError, IndexError, OverflowError, struct.error, UnicodeDecodeError)

FieldParts = tuple[int, list[npt.NDArray[Any]], list[int], list[GGUFValueType]]


class TensorReader(GGUFReader):
    """A GGUFReader that leaves the elements of metadata arrays unread."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> FieldParts:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        item_type = self._get(orig_offs, np.uint32)
        length = self._get(orig_offs + 4, np.uint64)
        start = orig_offs + 12
        if int(item_type[0]) == GGUFValueType.STRING:
            end = self._skip_strings(start, int(length[0]))
        else:
            scalar = self.gguf_scalar_to_np[GGUFValueType(item_type[0])]
            end = start + int(length[0]) * np.dtype(scalar).itemsize
        return end - orig_offs, [item_type, length], [], [GGUFValueType.ARRAY]

    def _skip_strings(self, offset: int, count: int) -> int:
        data = np.asarray(self.data).data
        read_length = _LENGTH.unpack_from
        for _ in range(count):
            offset += 8 + read_length(data, offset)[0]
        return offset


def read_tensors(path: Path) -> dict[str, ReaderTensor]:
    """The tensors by name, still quantized, mapped from the file.

    Raises OSError when the file cannot be opened and GGUFError when it is damaged.
    """
    try:
        reader = TensorReader(path)
    except _DAMAGE as error:
        raise GGUFError(path, f"its tensors are cut off or damaged: {error}") from error
    return {tensor.name: tensor for tensor in reader.tensors}


def shape_of(tensor: ReaderTensor) -> tuple[int, ...]:
    """Rows first, as numpy and torch write it; GGUF writes the fastest dimension first."""
    return tuple(int(size) for size in reversed(tensor.shape))


def dequantize_rows(tensor: ReaderTensor) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Chunks of a matrix as (first row, float32 [rows, columns]).

    The library works on sixteen rows at a time, which for narrow matrices is mostly
    overhead. Rows are whole quantization blocks, so several laid end to end are one valid
    row, and a chunk is handed over as that.
    """
    *_, num_columns = shape_of(tensor)
    rows = tensor.data.reshape(-1, tensor.data.shape[-1])
    rows_per_chunk = max(1, _CHUNK_BYTES // (rows.shape[1] * rows.itemsize))
    for start in range(0, rows.shape[0], rows_per_chunk):
        chunk = rows[start : start + rows_per_chunk]
        flat = dequantize(np.ascontiguousarray(chunk).reshape(1, -1), tensor.tensor_type)
        yield start, flat.reshape(chunk.shape[0], num_columns)
