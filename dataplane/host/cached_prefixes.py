"""Which prompts an engine can find again, block by block, kept up as its prefix cache changes.

The cache is a trie of runs (see `dataplane.scheduling.prefix_cache`), each behind a block of
another one. Here every run has the hashes of those blocks that end within it, in blocks of
BLOCK_TOKENS and not in the engine's own::

    run of A    [ 0 ][ 1 ][ 2 ][ 3 ]      engine's blocks of 16 tokens
                [    a0   ][    a1  ]      a1 is hashed behind a0
    run of B              [ 2'][ 3']      behind (A, 1)
                          [    b1  ]      hashed behind a0

A run that loses a block loses what hangs behind it as well, since nobody can reach that any more;
and what begins behind a block that went before, is lost from the beginning.
What comes and goes is written into a log of bounded length; who follows it is told what changed.
"""

import itertools
import secrets
import threading
from collections import Counter, deque
from dataclasses import dataclass, field

from dataplane.prefix_report import PrefixReport
from dataplane.routing.prompt_blocks import BLOCK_TOKENS, MAX_BLOCKS, first_link, hash_behind
from dataplane.scheduling.prefix_cache import Run

_MAX_LOGGED = 2**16
"""Changes that a follower may be behind before it is told everything."""
_MAX_TOLD = 400_000
"""Hashes of one report: some 3 MB. A cache of more is not followed."""


@dataclass(slots=True, eq=False)
class _Branch:
    """What is known of one run."""

    depth: int
    """Engine's blocks before it."""
    num_before: int
    """Blocks of ours that end before it."""
    hashes: list[bytes] = field(default_factory=list)
    branches: dict[Run, int] = field(default_factory=dict)
    """Runs behind one of its blocks, each with that one's position; nothing of those that are
    over."""
    is_lost: bool = False
    """What it hangs behind is gone."""


class CachedPrefixes:
    """Is told of changes by the engine's thread; `report` may be called from any."""

    def __init__(self, block_size: int) -> None:
        """`block_size`: tokens of the engine's own blocks."""
        self._block_size = block_size
        self._epoch = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._by_run: dict[Run, _Branch] = {}
        self._stored: dict[bytes, int] = {}
        """How many runs have each: where the engine's blocks are longer than ours, two that differ
        may begin alike."""
        self._log: deque[tuple[bytes, bool]] = deque(maxlen=_MAX_LOGGED)
        self._num_logged = 0

    @property
    def num_blocks(self) -> int:
        """Of ours, that can be found."""
        return len(self._stored)

    @property
    def num_runs(self) -> int:
        """Of the engine's cache, that are kept in mind."""
        return len(self._by_run)

    def note_extended(self, run: Run) -> None:
        """It begins, or has more blocks than before."""
        branch = self._by_run.get(run)
        if branch is None:
            branch = self._by_run[run] = self._begin(run)
        if branch.is_lost:
            return
        end = self._num_within(branch.depth + len(run.block_ids))
        begin = branch.num_before + len(branch.hashes)
        if end <= begin:
            return
        tokens = run.sequence.tokens(begin * BLOCK_TOKENS, end * BLOCK_TOKENS)
        new = hash_behind(self._link(run, branch), tokens)
        branch.hashes += new
        with self._lock:
            self._write([block for block in new if self._count(block, 1) == 1], is_stored=True)

    def note_cut(self, run: Run, num_left: int) -> None:
        """Only so many of its blocks can still be found."""
        branch = self._by_run[run]
        gone = self._cut(branch, num_left)
        if not num_left:
            self._end(run)
        if gone:
            with self._lock:
                last = [block for block in gone if not self._count(block, -1)]
                self._write(last, is_stored=False)

    def report(self, cursor: str | None) -> PrefixReport | None:
        """None: there is more than can be told."""
        with self._lock:
            if len(self._stored) > _MAX_TOLD:
                return None
            since = self._find(cursor)
            now = f"{self._epoch}:{self._num_logged}"
            changes: list[tuple[bytes, bool]] = []
            whole: list[bytes] | None = None
            if since is None:  # copied here, joined where the engine need not wait for it
                whole = list(self._stored)
            else:
                changes = list(itertools.islice(reversed(self._log), self._num_logged - since))
        if whole is not None:
            return PrefixReport(
                cursor=now, block_tokens=BLOCK_TOKENS, is_whole=True, stored=b"".join(whole)
            )
        first: dict[bytes, bool] = {}
        last: dict[bytes, bool] = {}
        for block, is_stored in reversed(changes):
            first.setdefault(block, is_stored)
            last[block] = is_stored
        # Of what came and went, or went and came, there is nothing to tell.
        return PrefixReport(
            cursor=now,
            block_tokens=BLOCK_TOKENS,
            is_whole=False,
            stored=b"".join(each for each, is_in in last.items() if is_in and first[each]),
            removed=b"".join(each for each, is_in in last.items() if not is_in and not first[each]),
        )

    def check_integrity(self) -> None:
        """Raises AssertionError when a run and what can be found disagree."""
        found = Counter(each for branch in self._by_run.values() for each in branch.hashes)
        if found != self._stored:
            raise AssertionError(
                f"runs have {len(found)} blocks, {len(self._stored)} are told, and "
                f"{len(found.items() ^ self._stored.items())} of them differ"
            )
        for run, branch in self._by_run.items():
            wanted = self._num_within(branch.depth + len(run.block_ids)) - branch.num_before
            if len(branch.hashes) != (0 if branch.is_lost else max(0, wanted)):
                raise AssertionError(f"a run of {len(run.block_ids)} has {len(branch.hashes)}")
            if not branch.branches.keys() <= self._by_run.keys():
                raise AssertionError("runs that are over are kept behind one that is not")

    def _begin(self, run: Run) -> _Branch:
        parent = run.identity.parent
        if parent is None:
            return _Branch(0, 0)
        before = self._by_run.get(parent.run)
        if before is None or parent.position >= len(parent.run.block_ids):
            # Its sequence has copies of its own of blocks that went where they were found.
            return _Branch(0, 0, is_lost=True)
        depth = before.depth + parent.position + 1
        before.branches[run] = parent.position
        return _Branch(depth, self._num_within(depth), is_lost=before.is_lost)

    def _end(self, run: Run) -> None:
        del self._by_run[run]
        parent = run.identity.parent
        before = None if parent is None else self._by_run.get(parent.run)
        if before is not None:
            before.branches.pop(run, None)

    def _num_within(self, num_engine_blocks: int) -> int:
        return min(num_engine_blocks * self._block_size // BLOCK_TOKENS, MAX_BLOCKS)

    def _link(self, run: Run, branch: _Branch) -> bytes:
        """The hash that its next block is hashed behind."""
        number = branch.num_before + len(branch.hashes)
        if not number:
            return first_link(run.identity.isolation_key)
        while branch.num_before >= number:
            parent = run.identity.parent
            assert parent is not None, "only a run at the root has no block before it"
            run, branch = parent.run, self._by_run[parent.run]
        return branch.hashes[number - 1 - branch.num_before]

    def _cut(self, branch: _Branch, num_left: int) -> list[bytes]:
        """The hashes that go with it, of whatever hangs behind as well."""
        num_kept = max(0, self._num_within(branch.depth + num_left) - branch.num_before)
        gone = branch.hashes[num_kept:]
        del branch.hashes[num_kept:]
        lost = [run for run, position in branch.branches.items() if position >= num_left]
        for run in lost:
            del branch.branches[run]
        while lost:
            other = self._by_run.get(lost.pop())
            if other is not None:
                other.is_lost = True
                gone += other.hashes
                other.hashes.clear()
                lost += other.branches
        return gone

    def _count(self, block: bytes, change: int) -> int:
        """One run more or less has it; how many have it then."""
        number = self._stored.get(block, 0) + change
        if number:
            self._stored[block] = number
        else:
            del self._stored[block]
        return number

    def _write(self, blocks: list[bytes], *, is_stored: bool) -> None:
        self._log.extend((block, is_stored) for block in blocks)
        self._num_logged += len(blocks)

    def _find(self, cursor: str | None) -> int | None:
        """The number of the first change that is not known there; None: it is not known any more,
        or of another process."""
        epoch, _, number = (cursor or "").partition(":")
        if epoch != self._epoch or not number.isdecimal():
            return None
        since = int(number)
        return since if self._num_logged - len(self._log) <= since <= self._num_logged else None
