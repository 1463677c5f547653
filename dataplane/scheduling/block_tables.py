"""The block tables of sequences: they start behind a reused prefix, grow, and are given back."""

from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.cohort import Member
from dataplane.scheduling.prefix_cache import NO_MATCH, PrefixCache, PrefixMatch
from dataplane.scheduling.sequence import Sequence


class BlockTables:
    """Moves blocks between one pool, its prefix cache (if there is one) and sequences."""

    def __init__(self, pool: BlockPool, is_prefix_caching: bool) -> None:
        self._pool = pool
        self._block_size = pool.block_size
        self.prefix_cache = PrefixCache(pool) if is_prefix_caching else None

    def num_owed(self, sequence: Sequence) -> int:
        """Blocks that an admitted sequence still needs for its tokens, and one to grow into.

        New ones are admitted behind these: an admission that the next steps would have to
        undo is worth nothing. A decoding one whose next token has a slot is owed exactly one.
        """
        return 1 + self._pool.num_blocks_for(sequence.num_tokens) - len(sequence.block_table)

    def find_match(self, sequence: Sequence, num_spare: int) -> PrefixMatch | None:
        """The reusable prefix of `sequence`; None when all its tokens need more than `num_spare`.

        Reused blocks that nobody references cost a free block too.
        """
        if num_spare < 1:
            return None
        num_new = self._pool.num_blocks_for(sequence.num_tokens)
        if self.prefix_cache is None:
            return NO_MATCH if num_new <= num_spare else None
        match = self.prefix_cache.match(sequence)
        ref_count = self._pool.ref_count
        num_revived = sum([ref_count(block_id) == 0 for block_id in match.block_ids])
        num_new -= len(match.block_ids)
        return match if num_new + num_revived <= num_spare else None

    def take_over(self, sequence: Sequence, match: PrefixMatch) -> None:
        """Let the table of `sequence`, which must hold nothing, begin with a match."""
        self._pool.reference(match.block_ids)
        self._begin(sequence, match)

    def extend(self, sequence: Sequence, num_tokens: int) -> bool:
        """Make room for the next tokens; False, and nothing taken, when too few blocks are free."""
        table = sequence.block_table
        end = sequence.num_computed_tokens + num_tokens
        num_needed = -(-end // self._block_size) - len(table)
        if num_needed > 0:
            block_ids = self._pool.allocate(num_needed)
            if block_ids is None:
                return False
            table.extend(block_ids)
        return True

    def extend_full(self, members: list[Member], tick: int) -> bool:
        """Give a block to each member whose table is full; they have KV of full blocks alone.

        False, and nothing taken, when too few are free, as when one of them holds the whole pool.
        """
        if not members:
            return True
        size = self._block_size
        tables = [
            table
            for member in members
            if len(table := member.sequence.block_table) * size == member.offset + tick
        ]
        return self._pool.allocate_each(tables)

    def release(self, sequence: Sequence) -> None:
        """Give every block of `sequence` back; it has no KV then."""
        self._pool.release(sequence.block_table)
        self._begin(sequence, NO_MATCH)

    def _begin(self, sequence: Sequence, match: PrefixMatch) -> None:
        sequence.block_table = list(match.block_ids)
        sequence.num_computed_tokens = match.num_tokens
        sequence.cache_node = match.node
        sequence.num_registered_blocks = len(match.block_ids)
