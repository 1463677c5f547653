"""The blocks of the KV cache: who references them, and which one is handed out next.

The pool knows block ids and counts, never their content. Each block is in exactly one
of three places::

    referenced   ref_count > 0: some sequence reads it; never handed out, never evicted
    blank        ref_count = 0, nothing worth keeping: handed out first, last freed first
    evictable    ref_count = 0, still holds a prefix: handed out only when no blank is
                 left, least recently used first

`blank` and `evictable` together are free. A block table is released from its tail, so
that of one sequence the last blocks go first and the beginning, which others are most
likely to share, lives longest.

What is known of a block stands in arrays by its id: every token of every sequence passes here
in some block, and of all containers these are found in a processor's cache most often.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass

EvictionListener = Callable[[list[int]], object]
"""Is given blocks that were cached, in the order in which they went."""


class BlockReferenceError(Exception):
    """A block was used without being referenced: a bug in the caller."""

    def __init__(self, block_id: int, why: str) -> None:
        super().__init__(f"block {block_id}: {why}")
        self.block_id = block_id


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableBlock:
    """A block that only one table references. Copy the content first when `copy_from` is set."""

    block_id: int
    copy_from: int | None = None


class BlockPool:
    """`num_blocks` blocks of `block_size` token slots each, with reference counts.

    Single-threaded. Raises ValueError for sizes below one.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(
                f"a pool of {num_blocks} blocks of {block_size} tokens holds nothing; "
                f"both must be at least 1"
            )
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._ref_counts = [0] * num_blocks
        self._is_cached = bytearray(num_blocks)
        self._has_cached = False  # some block ever was
        self._blank = list(range(num_blocks - 1, -1, -1))  # popped from the end: block 0 first
        self._evictable: OrderedDict[int, None] = OrderedDict()
        self._lent: Counter[int] = Counter()
        self._on_evict: EvictionListener = _tell_nobody

    @property
    def num_free(self) -> int:
        """Blocks that `allocate` could hand out now, evictable ones included."""
        return len(self._blank) + len(self._evictable)

    @property
    def num_referenced(self) -> int:
        """Blocks in use; one that several sequences share counts once."""
        return self.num_blocks - self.num_free

    @property
    def num_evictable(self) -> int:
        """Cached blocks that nobody references."""
        return len(self._evictable)

    @property
    def num_cached(self) -> int:
        """Blocks whose content can be found again, referenced or not."""
        return self._is_cached.count(1)

    def ref_count(self, block_id: int) -> int:
        """How many tables hold the block."""
        return self._ref_counts[block_id]

    def num_blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens of one sequence occupy."""
        return -(-num_tokens // self.block_size)

    def set_eviction_listener(self, on_evict: EvictionListener) -> None:
        """`on_evict(block_ids)` is called when cached blocks are about to be reused."""
        self._on_evict = on_evict

    def allocate(self, num_blocks: int) -> list[int] | None:
        """That many blocks, each referenced once; None, and nothing taken, when too few are free.

        Blank blocks come first, then evictable ones, least recently used first.
        """
        blank = self._blank
        num_blank_left = len(blank) - num_blocks
        if num_blank_left >= 0:
            block_ids = blank[num_blank_left:]
            del blank[num_blank_left:]
            block_ids.reverse()
        elif -num_blank_left <= len(self._evictable):
            block_ids = blank[::-1]
            blank.clear()
            block_ids += self._evict(-num_blank_left)
        else:
            return None
        ref_counts = self._ref_counts
        for block_id in block_ids:
            ref_counts[block_id] = 1
        return block_ids

    def allocate_each(self, tables: ReadableSequence[list[int]]) -> bool:
        """One block for each table, appended; False, and nothing taken, when too few are free."""
        blank = self._blank
        if len(tables) > len(blank):
            return self._allocate_evicted(tables)
        ref_counts, pop = self._ref_counts, blank.pop
        for table in tables:
            block_id = pop()
            ref_counts[block_id] = 1
            table.append(block_id)
        return True

    def _allocate_evicted(self, tables: ReadableSequence[list[int]]) -> bool:
        block_ids = self.allocate(len(tables))
        if block_ids is None:
            return False
        for table, block_id in zip(tables, block_ids, strict=True):
            table.append(block_id)
        return True

    def reference(self, block_ids: Iterable[int]) -> None:
        """Share blocks: one more reference to each.

        Raises BlockReferenceError for a blank block: it holds nothing to share.
        """
        ref_counts = self._ref_counts
        for block_id in block_ids:
            if not ref_counts[block_id]:
                if not self._is_cached[block_id]:
                    raise BlockReferenceError(
                        block_id, "is blank and cannot be shared; allocate it instead"
                    )
                del self._evictable[block_id]
            ref_counts[block_id] += 1

    def release(self, block_ids: ReadableSequence[int]) -> None:
        """Give one reference to each block of a table back, last block first.

        Raises BlockReferenceError for a block that nobody references.
        """
        ref_counts, is_cached, blank = self._ref_counts, self._is_cached, self._blank
        if not self._has_cached and self._clear_counts(block_ids):
            # As below, where nothing is cached or shared, at a fraction of the cost.
            blank += block_ids[::-1]
            return
        for block_id in reversed(block_ids):
            ref_count = ref_counts[block_id]
            if ref_count == 1:
                ref_counts[block_id] = 0
                if is_cached[block_id]:
                    self._evictable[block_id] = None
                else:
                    blank.append(block_id)
            elif ref_count:
                ref_counts[block_id] = ref_count - 1
            else:
                raise BlockReferenceError(block_id, "is released more often than referenced")

    def _clear_counts(self, block_ids: ReadableSequence[int]) -> bool:
        """Of blocks that are referenced once; False, and nothing changed, where one is not."""
        ref_counts = self._ref_counts
        for place, block_id in enumerate(block_ids):
            if ref_counts[block_id] != 1:
                for cleared in block_ids[:place]:
                    ref_counts[cleared] = 1
                return False
            ref_counts[block_id] = 0
        return True

    def lend(self, num_blocks: int) -> list[int] | None:
        """As `allocate`, for what is no sequence: the blocks are in no table until `take_back`."""
        block_ids = self.allocate(num_blocks)
        if block_ids is not None:
            self._lent.update(block_ids)
        return block_ids

    def hold(self, block_ids: ReadableSequence[int]) -> None:
        """As `reference`, for what is no sequence: they stay, whatever tables do, until
        `take_back`."""
        self.reference(block_ids)
        self._lent.update(block_ids)

    def take_back(self, block_ids: ReadableSequence[int]) -> None:
        """End a `lend` or a `hold`. Raises BlockReferenceError for blocks that are not out."""
        for block_id in block_ids:
            if self._lent[block_id] == 0:
                raise BlockReferenceError(block_id, "is taken back and was not lent")
            self._lent[block_id] -= 1
        self.release(block_ids)

    def mark_cached(self, block_ids: Iterable[int]) -> None:
        """The content of these blocks is final and can be found again.

        Raises BlockReferenceError unless somebody references them.
        """
        ref_counts, is_cached = self._ref_counts, self._is_cached
        self._has_cached = True
        for block_id in block_ids:
            if not ref_counts[block_id]:
                raise BlockReferenceError(
                    block_id, "is free; only a referenced block can be cached"
                )
            is_cached[block_id] = 1

    def fork(self, block_table: ReadableSequence[int]) -> list[int]:
        """A second table over the same blocks. Call `make_writable` before either writes."""
        self.reference(block_table)
        return list(block_table)

    def make_writable(self, block_table: list[int], position: int) -> WritableBlock | None:
        """Make `block_table[position]` safe to write, and replace it there if it must be copied.

        A block that others reference, or that the prefix cache may hand out, is left to
        them: the table gets a fresh block, and the caller copies `copy_from` into it before
        anything else is allocated. None, and nothing changed, when no block is free.
        """
        block_id = block_table[position]
        ref_count = self._ref_counts[block_id]
        if not ref_count:
            raise BlockReferenceError(block_id, "is free and cannot be written")
        if ref_count == 1 and not self._is_cached[block_id]:
            return WritableBlock(block_id=block_id)
        fresh = self.allocate(1)
        if fresh is None:
            return None
        block_table[position] = fresh[0]
        self.release([block_id])
        return WritableBlock(block_id=fresh[0], copy_from=block_id)

    def check_integrity(self, block_tables: Iterable[ReadableSequence[int]] | None = None) -> None:
        """Raises AssertionError, naming both numbers, when a block is lost or counted twice.

        With `block_tables`, all that exist, the reference counts are checked against them and
        against what is lent.
        """
        referenced = [b for b, count in enumerate(self._ref_counts) if count > 0]
        cached = {b for b, is_cached in enumerate(self._is_cached) if is_cached}
        places = Counter(self._blank) + Counter(self._evictable.keys()) + Counter(referenced)
        _compare("free + referenced", self.num_free + len(referenced), self.num_blocks)
        _compare("distinct blocks with a place", len(places), self.num_blocks)
        unreferenced_cached = len(cached.difference(referenced))
        _compare("evictable blocks", len(self._evictable), unreferenced_cached)
        _compare("cached blocks that are blank", len(cached.intersection(self._blank)), 0)
        if block_tables is not None:
            held = Counter(block_id for table in block_tables for block_id in table) + self._lent
            for block_id in range(self.num_blocks):
                _compare(
                    f"references to block {block_id}", self.ref_count(block_id), held[block_id]
                )

    def _evict(self, num_blocks: int) -> list[int]:
        """Take the least recently used of the cached blocks that nobody references."""
        pop_oldest, is_cached = self._evictable.popitem, self._is_cached
        block_ids = [pop_oldest(last=False)[0] for _ in range(num_blocks)]
        for block_id in block_ids:
            is_cached[block_id] = 0
        self._on_evict(block_ids)
        return block_ids


def _tell_nobody(block_ids: list[int]) -> None:
    """Where nothing finds cached blocks again."""


def _compare(what: str, counted: int, expected: int) -> None:
    if counted != expected:
        raise AssertionError(f"{what}: {counted}, expected {expected}")
