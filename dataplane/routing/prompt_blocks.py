"""The identity of a prompt's beginning, block by block: each hash stands for all before it.

Two prompts share their first k hashes exactly where they share the tokens of the first k blocks
and belong to the same isolation key: engines never reuse a prefix across tenants, so the key is
part of the first link of the chain. A hash that is wrong by chance costs a poor choice of a
replica, never a wrong answer.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

BLOCK_TOKENS = 32
"""Coarser than most engines' blocks of 16: half of the hashes, at most 31 tokens unseen."""
MAX_BLOCKS = 8192
"""Of one prompt: beginnings of more than a quarter of a million tokens need no finer choice."""
_DIGEST_BYTES = 8
_TOKEN_BYTES = 8


def hash_blocks(
    token_ids: Sequence[int], isolation_key: str, block_tokens: int = BLOCK_TOKENS
) -> tuple[bytes, ...]:
    """The chained hashes of the full blocks of a prompt. About a microsecond a block: off the
    event loop where prompts are long."""
    num_blocks = min(len(token_ids) // block_tokens, MAX_BLOCKS)
    if not num_blocks:
        return ()
    data = array("q", token_ids[: num_blocks * block_tokens]).tobytes()
    link = blake2b(isolation_key.encode(), digest_size=_DIGEST_BYTES).digest()
    stride = block_tokens * _TOKEN_BYTES
    blocks = []
    for start in range(0, num_blocks * stride, stride):
        link = blake2b(link + data[start : start + stride], digest_size=_DIGEST_BYTES).digest()
        blocks.append(link)
    return tuple(blocks)
