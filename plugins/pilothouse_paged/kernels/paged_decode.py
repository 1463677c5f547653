"""Paged decode attention: one new token for each sequence, keys and values read in place.

One program handles one sequence and one KV head, with all query heads that share it as the
rows of a tile::

    for each tile of context tokens:      block table -> block ids -> keys   [tile, head_dim]
        scores = queries . keys           running maximum and sum of the softmax
        output = output * correction + softmax(scores) . values

Tiles need not match blocks: every token of a tile looks its own block up, so contexts and
block sizes of any length work. Sums are kept in float32 whatever the dtype.
"""

import torch
import triton
import triton.language as tl

from pilothouse_paged.batch import Batch

TILE = 64
ENABLE_FP_FUSION = True  # said, because releases of triton differ in their default
_MIN_ROWS = 16  # the smallest tile side that tensor cores multiply


# triton.jit is not typed, and kernel parameters are pointers and scalars that Python's types
# do not describe.
@triton.jit  # type: ignore[untyped-decorator]
def paged_decode_kernel(  # type: ignore[no-untyped-def]
    queries,
    kv_cache,
    block_tables,
    context_lengths,
    output,
    scale,
    query_stride,
    output_stride,
    value_offset,
    table_stride,
    block_size: tl.constexpr,
    num_kv_heads: tl.constexpr,
    group_size: tl.constexpr,
    head_dim: tl.constexpr,
    padded_group: tl.constexpr,
    padded_dim: tl.constexpr,
    tile: tl.constexpr,
    is_widened: tl.constexpr,
):
    """Strides and offsets count elements; heads and dimensions are contiguous."""
    sequence = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    rows = tl.arange(0, padded_group)
    dims = tl.arange(0, padded_dim)
    steps = tl.arange(0, tile)
    is_row = rows < group_size
    is_dim = dims < head_dim
    is_element = is_row[:, None] & is_dim[None, :]
    heads = kv_head * group_size + rows
    query_offsets = sequence * query_stride + heads[:, None] * head_dim + dims[None, :]
    query = tl.load(queries + query_offsets, mask=is_element, other=0.0)
    if is_widened:
        query = query.to(tl.float32)

    length = tl.load(context_lengths + sequence)
    maximum = tl.full((padded_group,), float("-inf"), tl.float32)
    total = tl.zeros((padded_group,), tl.float32)
    result = tl.zeros((padded_group, padded_dim), tl.float32)
    for start in range(0, length, tile):
        tokens = start + steps
        is_token = tokens < length
        blocks = tl.load(
            block_tables + sequence * table_stride + tokens // block_size, mask=is_token, other=0
        )
        slots = blocks.to(tl.int64) * block_size + tokens % block_size
        offsets = (slots[:, None] * num_kv_heads + kv_head) * head_dim + dims[None, :]
        is_loaded = is_token[:, None] & is_dim[None, :]
        keys = tl.load(kv_cache + offsets, mask=is_loaded, other=0.0)
        values = tl.load(kv_cache + value_offset + offsets, mask=is_loaded, other=0.0)

        if is_widened:
            keys, values = keys.to(tl.float32), values.to(tl.float32)
        scores = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(is_token[None, :], scores, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, axis=1))
        correction = tl.exp(maximum - new_maximum)
        weights = tl.exp(scores - new_maximum[:, None])
        total = total * correction + tl.sum(weights, axis=1)
        product = tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        result = result * correction[:, None] + product
        maximum = new_maximum

    output_offsets = sequence * output_stride + heads[:, None] * head_dim + dims[None, :]
    result = result / total[:, None]
    tl.store(output + output_offsets, result.to(output.dtype.element_ty), mask=is_element)


def paged_decode(queries: torch.Tensor, kv_cache: torch.Tensor, batch: Batch) -> torch.Tensor:
    """The kernel as DecodeAttention (see `attention`)."""
    return run_paged_decode(queries, kv_cache, batch.decode_blocks, batch.decode_lengths_tensor)


def run_paged_decode(
    queries: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lengths: torch.Tensor,
    *,
    is_widened: bool = False,
) -> torch.Tensor:
    """Attention of [num_seqs, num_heads, head_dim] queries to `context_lengths` tokens each.

    `kv_cache` is [2, num_blocks, block_size, num_kv_heads, head_dim], contiguous;
    `block_tables` int32 [num_seqs, blocks], `context_lengths` int32 [num_seqs], each at
    least 1. Returns the shape of `queries`. `is_widened` multiplies in float32 whatever the
    dtype: Triton's interpreter multiplies the bits of bfloat16 as if they were integers.
    """
    num_seqs, num_heads, head_dim = queries.shape
    _, _, block_size, num_kv_heads, _ = kv_cache.shape
    group_size = num_heads // num_kv_heads
    queries = queries.contiguous()
    output = torch.empty_like(queries)
    paged_decode_kernel[(num_seqs, num_kv_heads)](
        queries,
        kv_cache,
        block_tables,
        context_lengths,
        output,
        head_dim**-0.5,
        queries.stride(0),
        output.stride(0),
        kv_cache.stride(0),
        block_tables.stride(0),
        block_size=block_size,
        num_kv_heads=num_kv_heads,
        group_size=group_size,
        head_dim=head_dim,
        padded_group=max(_MIN_ROWS, triton.next_power_of_2(group_size)),
        padded_dim=max(_MIN_ROWS, triton.next_power_of_2(head_dim)),
        tile=TILE,
        is_widened=is_widened,
        enable_fp_fusion=ENABLE_FP_FUSION,
    )
    return output
