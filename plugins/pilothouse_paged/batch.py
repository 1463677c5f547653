"""One step's tokens, laid out for the model: decodes first, then prefill chunks.

::

    rows      0 .. num_decodes        one token of each decoding sequence, short contexts first
              then chunk by chunk     consecutive tokens of one sequence

Every token knows its position and the KV slot it is written to (`block_id * block_size +
offset`). Decodes read their context through a padded table of blocks, a prefill chunk
through its own list.
"""

from collections.abc import Iterable
from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens of one sequence that are computed in this step; their KV blocks are reserved."""

    sequence_id: int
    token_ids: tuple[int, ...]
    start: int
    """Position of the first of them."""
    block_table: ReadableSequence[int]
    selects_token: bool
    is_decode: bool

    @property
    def context_length(self) -> int:
        """Tokens with KV once these are computed."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillSegment:
    """Rows [first_row, first_row + num_tokens) of a batch: one prefill chunk."""

    first_row: int
    num_tokens: int
    start: int
    """Position of its first token; the context before it is in `block_ids`."""
    block_ids: torch.Tensor
    """int64 [blocks that hold start + num_tokens tokens]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What `model.forward` reads. Index tensors are int64 on the model's device."""

    token_ids: torch.Tensor
    """[num_tokens]"""
    positions: torch.Tensor
    """[num_tokens]"""
    slot_mapping: torch.Tensor
    """[num_tokens]"""
    selecting_rows: torch.Tensor
    """[rows whose logits are wanted]"""
    selecting_ids: tuple[int, ...]
    """The sequence of each of them."""
    num_decodes: int
    decode_lengths: tuple[int, ...]
    """Context of each decode, ascending."""
    decode_lengths_tensor: torch.Tensor
    """int32 [num_decodes]"""
    decode_blocks: torch.Tensor
    """int32 [num_decodes, most blocks of any]; padded with block 0."""
    prefills: tuple[PrefillSegment, ...]


def lay_out(chunks: Iterable[Chunk], block_size: int, device: torch.device) -> Batch:
    """The batch of one step. `chunks` must not be empty."""
    chunks = tuple(chunks)
    decodes = sorted((c for c in chunks if c.is_decode), key=lambda c: c.context_length)
    prefills = [c for c in chunks if not c.is_decode]
    ordered = [*decodes, *prefills]
    positions = [p for c in ordered for p in range(c.start, c.context_length)]
    slots = [
        c.block_table[p // block_size] * block_size + p % block_size
        for c in ordered
        for p in range(c.start, c.context_length)
    ]
    lengths = [c.context_length for c in decodes]
    rows = list(_last_rows(ordered))

    def to_tensor(values: object, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).to(device, non_blocking=True)

    return Batch(
        token_ids=to_tensor([token_id for c in ordered for token_id in c.token_ids]),
        positions=to_tensor(positions),
        slot_mapping=to_tensor(slots),
        selecting_rows=to_tensor(
            [row for row, c in zip(rows, ordered, strict=True) if c.selects_token]
        ),
        selecting_ids=tuple(c.sequence_id for c in ordered if c.selects_token),
        num_decodes=len(decodes),
        decode_lengths=tuple(lengths),
        decode_lengths_tensor=to_tensor(lengths, torch.int32),
        decode_blocks=to_tensor(_pad_tables(decodes, block_size), torch.int32),
        prefills=tuple(
            PrefillSegment(
                first_row=last_row + 1 - len(c.token_ids),
                num_tokens=len(c.token_ids),
                start=c.start,
                block_ids=to_tensor(_used_blocks(c, block_size)),
            )
            for last_row, c in zip(rows[len(decodes) :], prefills, strict=True)
        ),
    )


def _last_rows(chunks: Iterable[Chunk]) -> Iterable[int]:
    end = 0
    for chunk in chunks:
        end += len(chunk.token_ids)
        yield end - 1


def _used_blocks(chunk: Chunk, block_size: int) -> list[int]:
    return list(chunk.block_table[: -(-chunk.context_length // block_size)])


def _pad_tables(decodes: list[Chunk], block_size: int) -> list[list[int]]:
    tables = [_used_blocks(c, block_size) for c in decodes]
    width = max(map(len, tables), default=0)
    return [table + [0] * (width - len(table)) for table in tables]
