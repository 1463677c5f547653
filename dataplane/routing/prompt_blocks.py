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
DIGEST_BYTES = 8
_TOKEN_BYTES = 8


def hash_blocks(
    token_ids: Sequence[int], isolation_key: str, block_tokens: int = BLOCK_TOKENS
) -> tuple[bytes, ...]:
    """The chained hashes of the full blocks of a prompt. About a microsecond a block: off the
    event loop where prompts are long."""
    end = min(len(token_ids) // block_tokens, MAX_BLOCKS) * block_tokens
    return tuple(hash_behind(first_link(isolation_key), token_ids[:end], block_tokens))


def first_link(isolation_key: str) -> bytes:
    """What the first block of a prompt is hashed behind."""
    return blake2b(isolation_key.encode(), digest_size=DIGEST_BYTES).digest()


def hash_behind(
    link: bytes, token_ids: Sequence[int], block_tokens: int = BLOCK_TOKENS
) -> list[bytes]:
    """The hashes of full blocks that follow the one whose hash is `link`."""
    data = array("q", token_ids).tobytes()
    stride = block_tokens * _TOKEN_BYTES
    blocks = []
    for start in range(0, len(data) - stride + 1, stride):
        link = blake2b(link + data[start : start + stride], digest_size=DIGEST_BYTES).digest()
        blocks.append(link)
    return blocks
