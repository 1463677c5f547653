"""Attention over the paged KV cache, and the torch path that runs anywhere.

The KV cache of one layer is [2, num_blocks, block_size, num_kv_heads, head_dim]: keys,
then values. Query heads that share a KV head are handled together as the rows of one small
matrix, so keys and values are never repeated for them.

Decodes are batched. Their contexts are gathered block by block into a padded copy, a group
of sequences at a time: they come sorted by context length, and a group ends where the copy
would grow too large or where padding would be most of it.
"""

import math
from collections.abc import Iterator
from collections.abc import Sequence as ReadableSequence
from typing import Protocol

import torch
from torch.nn import functional

from pilothouse_paged.batch import Batch, PrefillSegment

_MAX_GATHERED_BYTES = 2**25
_MAX_LENGTH_RATIO = 2.0


class DecodeAttention(Protocol):
    """Attention of one new token for each of several sequences."""

    def __call__(self, queries: torch.Tensor, kv_cache: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Queries and result: [num_decodes, num_heads, head_dim]. KV of the token is written."""
        ...


def attend(
    queries: torch.Tensor, kv_cache: torch.Tensor, batch: Batch, decode: DecodeAttention
) -> torch.Tensor:
    """Causal attention of every token of the batch to its own sequence's cached context.

    `queries` is [num_tokens, num_heads, head_dim], `kv_cache` that of one layer, with this
    step's keys and values already in it. Returns the shape of `queries`.
    """
    if not batch.prefills:
        return decode(queries, kv_cache, batch)
    output = torch.empty_like(queries)
    if batch.num_decodes:
        output[: batch.num_decodes] = decode(queries[: batch.num_decodes], kv_cache, batch)
    for segment in batch.prefills:
        rows = slice(segment.first_row, segment.first_row + segment.num_tokens)
        output[rows] = _attend_prefill(queries[rows], kv_cache, segment)
    return output


def attend_decodes(queries: torch.Tensor, kv_cache: torch.Tensor, batch: Batch) -> torch.Tensor:
    """The torch path of DecodeAttention."""
    _, _, block_size, num_kv_heads, head_dim = kv_cache.shape
    bytes_per_block = kv_cache[:, 0].numel() * kv_cache.element_size()
    output = torch.empty_like(queries)
    for start, stop in group_decodes(batch.decode_lengths, block_size, bytes_per_block):
        longest = batch.decode_lengths[stop - 1]
        blocks = batch.decode_blocks[start:stop, : -(-longest // block_size)]
        keys, values = _gather(kv_cache, blocks.flatten(), stop - start, longest)
        grouped = queries[start:stop].view(stop - start, num_kv_heads, -1, head_dim)
        mask = None
        if batch.decode_lengths[start] < longest:
            positions = torch.arange(longest, device=queries.device)
            mask = positions < batch.decode_lengths_tensor[start:stop, None]
            mask = mask[:, None, None, :]
        attended = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
        output[start:stop] = attended.reshape(stop - start, -1, head_dim)
    return output


def group_decodes(
    lengths: ReadableSequence[int], block_size: int, bytes_per_block: int
) -> Iterator[tuple[int, int]]:
    """Split ascending context lengths into ranges [start, stop) that are gathered together."""
    start = 0
    for index in range(1, len(lengths) + 1):
        if index < len(lengths):
            num_blocks = -(-lengths[index] // block_size)
            gathered = (index + 1 - start) * num_blocks * bytes_per_block
            is_padded = lengths[index] > _MAX_LENGTH_RATIO * lengths[start] + block_size
            if gathered <= _MAX_GATHERED_BYTES and not is_padded:
                continue
        yield start, index
        start = index


def _attend_prefill(
    queries: torch.Tensor, kv_cache: torch.Tensor, segment: PrefillSegment
) -> torch.Tensor:
    num_kv_heads, head_dim = kv_cache.shape[-2:]
    num_context = segment.start + segment.num_tokens
    keys, values = _gather(kv_cache, segment.block_ids, 1, num_context)
    # [1, heads, tokens, head_dim]; heads that share a KV head lie side by side.
    by_head = queries.transpose(0, 1).unsqueeze(0)
    mask = None
    if segment.start > 0:
        own = torch.arange(segment.start, num_context, device=queries.device)
        mask = torch.arange(num_context, device=queries.device) <= own[:, None]
    attended = functional.scaled_dot_product_attention(
        by_head,
        keys,
        values,
        attn_mask=mask,
        is_causal=segment.start == 0,
        scale=1 / math.sqrt(head_dim),
        enable_gqa=queries.shape[1] != num_kv_heads,
    )
    return attended[0].transpose(0, 1)


def _gather(
    kv_cache: torch.Tensor, block_ids: torch.Tensor, num_seqs: int, num_context: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values as [num_seqs, num_kv_heads, num_context, head_dim]."""
    num_kv_heads, head_dim = kv_cache.shape[-2:]
    keys, values = (
        kv_cache[part]
        .index_select(0, block_ids)
        .view(num_seqs, -1, num_kv_heads, head_dim)[:, :num_context]
        .transpose(1, 2)
        for part in (0, 1)
    )
    return keys, values
