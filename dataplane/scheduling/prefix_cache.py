"""Finds computed KV again: full blocks, by exact identity, never across isolation keys.

KV at a position depends on every token before it, so a block is the same as another only
when its tokens, everything before it and its tenant are the same. The cache is a trie
whose nodes are blocks. A node's identity is (parent node, isolation key, token ids); a
dictionary's hash locates it, its `==` compares all three, so a hash collision costs time
and never serves wrong KV. Node ids are not reused: a child whose parent was evicted can
no longer be reached, instead of hanging below a stranger that took the parent's block.
"""

from dataclasses import dataclass
from typing import NamedTuple

from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.sequence import Sequence


class BlockIdentity(NamedTuple):
    """What makes a full block's KV the same as another's. `parent` is None at the start."""

    parent: int | None
    isolation_key: str
    token_ids: tuple[int, ...]


class _Node(NamedTuple):
    node_id: int
    block_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixMatch:
    """The longest reusable prefix of a sequence, from its first token on."""

    block_ids: tuple[int, ...] = ()
    node: int | None = None
    """Where the match ends in the trie."""
    num_tokens: int = 0


NO_MATCH = PrefixMatch()


class PrefixCache:
    """The trie over the cached blocks of one pool. It never holds references of its own."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._nodes: dict[BlockIdentity, _Node] = {}
        self._identities: dict[int, BlockIdentity] = {}  # by block id
        self._next_node_id = 0
        pool.set_eviction_listener(self._forget)

    def match(self, sequence: Sequence) -> PrefixMatch:
        """What of `sequence` is cached. Takes no references: reference the blocks at once.

        Its last token never matches: without computing it there is nothing to select from.
        """
        block_size = self._pool.block_size
        block_ids: list[int] = []
        parent: int | None = None
        for start in range(0, sequence.num_tokens - block_size, block_size):
            token_ids = sequence.tokens(start, start + block_size)
            node = self._nodes.get(BlockIdentity(parent, sequence.isolation_key, token_ids))
            if node is None:
                break
            block_ids.append(node.block_id)
            parent = node.node_id
        return PrefixMatch(
            block_ids=tuple(block_ids), node=parent, num_tokens=len(block_ids) * block_size
        )

    def register(self, sequence: Sequence) -> None:
        """Make the blocks that `sequence` has filled since the last call findable.

        Call it once their KV is written. Where another sequence computed the same block
        first, that one stays the findable one and this sequence's copy stays its own.
        """
        block_size = self._pool.block_size
        first = sequence.num_registered_blocks
        num_blocks = sequence.num_computed_tokens // block_size
        if first >= num_blocks:
            return
        start = first * block_size
        token_ids = sequence.tokens(start, num_blocks * block_size)
        node = sequence.cache_node
        for block_id in sequence.block_table[first:num_blocks]:
            offset, first = first * block_size - start, first + 1
            block = token_ids[offset : offset + block_size]
            node = self._find_or_insert(
                BlockIdentity(node, sequence.isolation_key, block), block_id
            )
        sequence.cache_node = node
        sequence.num_registered_blocks = num_blocks

    def check_integrity(self) -> None:
        """Raises AssertionError when trie and pool disagree on what is cached."""
        by_block = {node.block_id: identity for identity, node in self._nodes.items()}
        if by_block != self._identities or len(by_block) != self._pool.num_cached:
            raise AssertionError(
                f"the trie finds {len(by_block)} blocks, knows the identity of "
                f"{len(self._identities)}, and the pool holds {self._pool.num_cached} as cached"
            )

    def _find_or_insert(self, identity: BlockIdentity, block_id: int) -> int:
        fresh = _Node(self._next_node_id, block_id)
        node = self._nodes.setdefault(identity, fresh)
        if node is fresh:
            self._next_node_id += 1
            self._identities[block_id] = identity
            self._pool.mark_cached(block_id)
        return node.node_id

    def _forget(self, block_id: int) -> None:
        del self._nodes[self._identities.pop(block_id)]
