"""Finds computed KV again: full blocks, by exact identity, never across isolation keys.

KV at a position depends on every token before it, so a block is the same as another only
when its tokens, everything before it and its tenant are the same. The cache is a trie over
blocks. Most of what a sequence computes nobody else has: so a node is not a block but a *run*,
blocks of one sequence that follow each other, and only where runs begin is anything hashed::

    run of A    [ 0 ][ 1 ][ 2 ][ 3 ][ 4 ]        begins at the root
    run of B              [ 2'][ 3']             begins at the spot (A, 1), by its identity

A run keeps its sequence and compares that one's tokens; where it begins is found by a
`BlockIdentity`: a dictionary's hash locates it, its `==` compares spot, tenant and tokens. So a
hash collision costs time and never serves wrong KV. A run that lost a block to eviction ends
before it, for good: what came behind can no longer be reached, instead of hanging below a
stranger that took the lost one's block.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.sequence import Sequence


class Spot(NamedTuple):
    """A block's place in the trie: the block at `position` of a run. It is never another's."""

    run: "Run"
    position: int


class BlockIdentity(NamedTuple):
    """What makes a full block's KV the same as another's. `parent` is None at the start."""

    parent: Spot | None
    isolation_key: str
    token_ids: tuple[int, ...]


class Run:
    """Cached blocks of one sequence, each following the one before it."""

    __slots__ = ("block_ids", "has_branches", "identity", "is_cut", "sequence")

    def __init__(self, identity: BlockIdentity, sequence: Sequence) -> None:
        self.identity = identity
        """Of its first block."""
        self.sequence = sequence
        """Who has the tokens; they never change, there are only more."""
        self.block_ids: list[int] = []
        """Those that can be found."""
        self.is_cut = False
        """It lost a block, and is not continued."""
        self.has_branches = False
        """Other runs began behind one of its blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixMatch:
    """The longest reusable prefix of a sequence, from its first token on."""

    block_ids: tuple[int, ...] = ()
    node: Spot | None = None
    """Where the match ends in the trie."""
    num_tokens: int = 0


NO_MATCH = PrefixMatch()


class CacheWatcher(Protocol):
    """Wants to know what can be found. Called in the middle of a step: it must not raise."""

    def note_extended(self, run: Run) -> None:
        """It begins, or has more blocks than before. Runs that it hangs behind came first."""
        ...

    def note_cut(self, run: Run, num_left: int) -> None:
        """Only so many of its blocks can still be found; with none left it is over."""
        ...


class PrefixCache:
    """The trie over the cached blocks of one pool. It never holds references of its own."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._block_size = pool.block_size
        self._runs: dict[BlockIdentity, Run] = {}
        # Of cached ones, found or not.
        self._run_by_block: list[Run | None] = [None] * pool.num_blocks
        self._watcher: CacheWatcher | None = None
        pool.set_eviction_listener(self._forget)

    def set_watcher(self, watcher: CacheWatcher) -> None:
        """Tell it of every change, from the empty cache on."""
        assert not self._runs, "what is cached already was told to nobody"
        self._watcher = watcher

    def match(self, sequence: Sequence) -> PrefixMatch:
        """What of `sequence` is cached. Takes no references: reference the blocks at once.

        Its last token never matches: without computing it there is nothing to select from.
        """
        spot, block_ids = self._find(
            sequence, None, 0, (sequence.num_tokens - 1) // self._block_size
        )
        if spot is None:
            return NO_MATCH
        return PrefixMatch(
            block_ids=tuple(block_ids), node=spot, num_tokens=len(block_ids) * self._block_size
        )

    def register(self, sequence: Sequence) -> None:
        """Make the blocks that `sequence` has filled since the last call findable.

        Call it once their KV is written. Where another sequence computed the same block
        first, that one stays the findable one and this sequence's copy stays its own.
        """
        depth = sequence.num_registered_blocks
        num_blocks = sequence.num_computed_tokens // self._block_size
        if depth >= num_blocks:
            return
        spot = sequence.cache_node
        run = None if spot is None else self._own_run(sequence, spot)
        if run is None or run.has_branches:
            spot, found = self._find(sequence, spot, depth, num_blocks)
            depth += len(found)
            run = None if spot is None else self._own_run(sequence, spot)
        if depth < num_blocks:
            if run is None:
                run = self._begin_run(sequence, spot, depth)
            spot = self._continue_run(run, sequence.block_table[depth:num_blocks])
        sequence.cache_node = spot
        sequence.num_registered_blocks = num_blocks

    def check_integrity(self) -> None:
        """Raises AssertionError when trie and pool disagree on what is cached."""
        findable = {b: run for run in self._runs.values() for b in run.block_ids}
        known = self._run_by_block
        num_known = len(known) - known.count(None)
        is_known = all(known[block_id] is run for block_id, run in findable.items())
        if not is_known or num_known != self._pool.num_cached:
            raise AssertionError(
                f"the trie finds {len(findable)} blocks, knows the place of {num_known}, and "
                f"the pool holds {self._pool.num_cached} as cached"
            )
        for identity, run in self._runs.items():
            if identity != run.identity or not run.block_ids:
                raise AssertionError(f"a run of {run.block_ids} is found by {identity}")

    def _find(
        self, sequence: Sequence, spot: Spot | None, depth: int, num_blocks: int
    ) -> tuple[Spot | None, list[int]]:
        """Go on behind `spot`, which ends `depth` blocks of `sequence`, while blocks are the same.

        Up to `num_blocks` from the first token on. Where this ends, and the blocks passed.
        """
        block_ids: list[int] = []
        while depth < num_blocks:
            if spot is not None and (num_same := self._num_same(sequence, spot, depth, num_blocks)):
                run, index = spot
                block_ids += run.block_ids[index + 1 : index + 1 + num_same]
                spot = Spot(run, index + num_same)
                depth += num_same
            branch = self._find_branch(sequence, spot, depth) if depth < num_blocks else None
            if branch is None:
                break
            block_ids.append(branch.block_ids[0])
            spot = Spot(branch, 0)
            depth += 1
        return spot, block_ids

    def _num_same(self, sequence: Sequence, spot: Spot, depth: int, num_blocks: int) -> int:
        """How many blocks behind `spot` in its own run are the next ones of `sequence`."""
        run, index = spot
        most = min(len(run.block_ids) - index - 1, num_blocks - depth)
        if most <= 0 or sequence is run.sequence:
            return max(most, 0)
        size = self._block_size
        start, stop = depth * size, (depth + most) * size
        return sequence.num_same_tokens(run.sequence, start, stop) // size

    def _find_branch(self, sequence: Sequence, spot: Spot | None, depth: int) -> Run | None:
        if spot is not None and not spot.run.has_branches:
            return None
        return self._runs.get(self._identify(sequence, spot, depth))

    def _identify(self, sequence: Sequence, spot: Spot | None, depth: int) -> BlockIdentity:
        start = depth * self._block_size
        token_ids = sequence.tokens(start, start + self._block_size)
        return BlockIdentity(spot, sequence.isolation_key, token_ids)

    def _own_run(self, sequence: Sequence, spot: Spot) -> Run | None:
        """The run that ends at `spot` and that `sequence` may continue."""
        run, index = spot
        is_own_end = run.sequence is sequence and index + 1 == len(run.block_ids)
        return run if is_own_end and not run.is_cut else None

    def _begin_run(self, sequence: Sequence, spot: Spot | None, depth: int) -> Run:
        """A run of `sequence` behind `spot`, for its blocks from `depth` on."""
        identity = self._identify(sequence, spot, depth)
        run = self._runs[identity] = Run(identity, sequence)
        if spot is not None:
            spot.run.has_branches = True
        return run

    def _continue_run(self, run: Run, block_ids: list[int]) -> Spot:
        """Make further blocks of it findable; where it ends then."""
        run.block_ids += block_ids
        for block_id in block_ids:
            self._run_by_block[block_id] = run
        self._pool.mark_cached(block_ids)
        if self._watcher is not None:
            self._watcher.note_extended(run)
        return Spot(run, len(run.block_ids) - 1)

    def _forget(self, block_ids: list[int]) -> None:
        for block_id in block_ids:
            run, self._run_by_block[block_id] = self._run_by_block[block_id], None
            assert run is not None, f"block {block_id} is cached and was not registered"
            findable = run.block_ids
            if findable and findable[-1] == block_id:  # as nearly always: tables go from the tail
                findable.pop()
            elif block_id in findable:
                del findable[findable.index(block_id) :]
            else:
                continue  # it was behind another that went before
            run.is_cut = True
            if self._watcher is not None:
                self._watcher.note_cut(run, len(findable))
            if not findable:
                del self._runs[run.identity]
