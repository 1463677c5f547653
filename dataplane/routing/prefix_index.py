"""Which replica probably has how much of a prompt in its cache, by what was sent to it.

One entry for each block that any replica was sent, with a bit for each replica that has it::

    block hash ---> replicas     a chain of four blocks, of which two replicas have the first two
    b0              1 1 0        and one has all
    b1              1 1 0
    b2              1 0 0
    b3              1 0 0

Whoever has a block has all before it: a prompt is remembered from its end to its beginning, so
that the oldest entry, the first to go, is always an end. The deepest block that somebody has is
thus found by halving.

An engine forgets too. What a replica was sent counts for two *generations* of half its cache's
size: once so many new tokens went there, a generation begins, and the last but one is forgotten.
A bit stands for one generation of one replica and is never used again, so that forgetting a
replica, or its process, costs nothing; bits of which nothing is left are swept out now and then.

Some engines tell what they have (`take_report`). What they told has a bit of its own and no
generations; what such a replica was sent counts beside it only until it can have been told.
"""

from collections import OrderedDict
from collections.abc import Iterator, KeysView, Sequence
from dataclasses import dataclass

from dataplane.prefix_report import PrefixReport
from dataplane.routing.prompt_blocks import DIGEST_BYTES

MAX_BLOCKS = 200_000
"""Some 30 MB with ten replicas."""
_MAX_DEPTHS = 8
"""Different lengths of match that are told apart at one look-up."""
_MIN_SWEPT_BITS = 64
_SENT_SECONDS = 10.0
"""For so long at least, and twice as long at most, what was sent counts where an engine tells."""


@dataclass(slots=True)
class _Generations:
    """Of one replica. Bits, as masks."""

    capacity_tokens: int | None
    current: int
    previous: int = 0
    num_tokens: int = 0
    """Sent in the current one."""
    told: int = 0
    """Of what its engine told; 0: it tells nothing."""
    told_at: float | None = None
    """When it last did."""
    is_told_whole: bool = True
    """All of it is here; else this index had no room for it."""
    began_at: float = 0.0
    """The current one, where its engine tells."""

    @property
    def mask(self) -> int:
        return self.current | self.previous | self.told


class PrefixIndex:
    """Of one deployment. Nothing in it outlives `max_blocks` entries."""

    def __init__(self, block_tokens: int, max_blocks: int = MAX_BLOCKS) -> None:
        self.block_tokens = block_tokens
        self._max_blocks = max_blocks
        self._holders: OrderedDict[bytes, int] = OrderedDict()  # least recently sent first
        self._replicas: dict[str, _Generations] = {}
        self._replica_by_bit: dict[int, str] = {}  # by the bit's number, of the living
        self._living = 0
        self._num_bits = 0

    @property
    def num_blocks(self) -> int:
        """Entries."""
        return len(self._holders)

    def replica_ids(self) -> KeysView[str]:
        """Of whom something is remembered."""
        return self._replicas.keys()

    def set_capacity(self, replica_id: str, capacity_tokens: int | None) -> None:
        """What a replica's cache holds; None: nobody says, and only this index's own bound makes
        it forget."""
        self._of(replica_id).capacity_tokens = capacity_tokens

    def note_sent(self, replica_id: str, blocks: Sequence[bytes]) -> None:
        """A prompt goes to a replica, which will have it."""
        if not blocks:
            return
        generations = self._of(replica_id)
        holders = self._holders  # what a new replica may have swept is another one from here on
        known, bit = generations.mask, generations.current
        num_new = 0
        for block in reversed(blocks[: self._max_blocks]):
            mask = holders.get(block, 0)
            if not mask & known:
                num_new += 1
            holders[block] = mask | bit
            holders.move_to_end(block)
        self._shrink()
        generations.num_tokens += num_new * self.block_tokens
        if generations.capacity_tokens is not None and (
            2 * generations.num_tokens >= generations.capacity_tokens
        ):
            self._begin_generation(replica_id, generations)

    def take_report(self, replica_id: str, report: PrefixReport, now: float) -> bool:
        """An engine tells what it has. False: these are changes of what was never told, and all
        of it is to be asked for."""
        if report.block_tokens != self.block_tokens:
            return True  # of blocks that nobody asks about
        generations = self._of(replica_id)
        if report.is_whole:
            self._bury(generations.told)
            generations.told = 0
            self._sweep()
            generations.told = self._open_bit(replica_id)
            generations.is_told_whole = True
        elif not generations.told:
            return False
        generations.told_at = now
        holders, told = self._holders, generations.told
        for block in _split(report.removed):
            holders[block] = holders.get(block, 0) & ~told
            if not holders[block]:
                del holders[block]
        for block in _split(report.stored):
            holders[block] = holders.get(block, 0) | told
        self._shrink()
        # Where not all of it is known here, what was sent goes on to say the rest.
        if generations.is_told_whole and now - generations.began_at >= _SENT_SECONDS:
            generations.began_at = now
            self._begin_generation(replica_id, generations)
        return True

    def told_at(self, replica_id: str) -> float | None:
        """When its engine last told what it has, all of which is known here; None: it does not, or
        there was no room for it."""
        generations = self._replicas.get(replica_id)
        if generations is None or not generations.is_told_whole:
            return None
        return generations.told_at

    def find(self, blocks: Sequence[bytes]) -> dict[str, int]:
        """Tokens of the prompt that each replica has. Who has none of it is not named."""
        found: dict[str, int] = {}
        unseen, end = self._living, len(blocks)
        for _ in range(_MAX_DEPTHS):
            end = self._find_depth(blocks, unseen, end)
            if not end:
                break
            mask = self._holders[blocks[end - 1]] & unseen
            unseen &= ~mask
            for replica_id in self._named(mask):
                found.setdefault(replica_id, end * self.block_tokens)
        return found

    def forget_half(self, replica_id: str) -> None:
        """What it was sent first of all that is remembered."""
        generations = self._replicas.get(replica_id)
        if generations is not None:
            self._begin_generation(replica_id, generations)

    def forget(self, replica_id: str) -> None:
        """Its process is gone, and its cache with it."""
        generations = self._replicas.pop(replica_id, None)
        if generations is not None:
            for bit in (generations.current, generations.previous, generations.told):
                self._bury(bit)

    def check_integrity(self) -> None:
        """Raises AssertionError when a living bit is nobody's, or there are too many entries."""
        living = 0
        for replica_id, generations in self._replicas.items():
            if living & generations.mask:
                raise AssertionError(f"a bit of {replica_id} is another's as well")
            living |= generations.mask
        if living != self._living or living.bit_count() != len(self._replica_by_bit):
            raise AssertionError(f"bits {self._living:b} are held to live, {living:b} do")
        if self.num_blocks > self._max_blocks:
            raise AssertionError(f"{self.num_blocks} entries, more than {self._max_blocks}")

    def _shrink(self) -> None:
        """Within the bound; of whom something was told that goes now, not all is known any more."""
        gone = 0
        while len(self._holders) > self._max_blocks:
            gone |= self._holders.popitem(last=False)[1]
        if gone:
            for generations in self._replicas.values():
                if gone & generations.told:
                    generations.is_told_whole = False

    def _find_depth(self, blocks: Sequence[bytes], wanted: int, end: int) -> int:
        """The most blocks, not more than `end`, that one of the wanted has."""
        low, high = 0, end
        get = self._holders.get
        while low < high:
            middle = (low + high + 1) // 2
            if get(blocks[middle - 1], 0) & wanted:
                low = middle
            else:
                high = middle - 1
        return low

    def _named(self, mask: int) -> list[str]:
        names = []
        while mask:
            bit = mask & -mask
            names.append(self._replica_by_bit[bit.bit_length()])
            mask ^= bit
        return names

    def _of(self, replica_id: str) -> _Generations:
        generations = self._replicas.get(replica_id)
        if generations is None:
            self._sweep()
            generations = _Generations(None, self._open_bit(replica_id))
            self._replicas[replica_id] = generations
        return generations

    def _begin_generation(self, replica_id: str, generations: _Generations) -> None:
        self._bury(generations.previous)
        generations.previous = generations.current
        generations.current = self._open_bit(replica_id)
        generations.num_tokens = 0
        self._sweep()

    def _open_bit(self, replica_id: str) -> int:
        bit = 1 << self._num_bits
        self._num_bits += 1
        self._living |= bit
        self._replica_by_bit[self._num_bits] = replica_id
        return bit

    def _bury(self, bit: int) -> None:
        self._living &= ~bit
        if bit:
            del self._replica_by_bit[bit.bit_length()]

    def _sweep(self) -> None:
        """Number the living bits anew where most are dead, and drop what nobody has."""
        if self._num_bits < _MIN_SWEPT_BITS + 4 * len(self._replica_by_bit):
            return
        moved = {old: 1 << new for new, old in enumerate(sorted(self._replica_by_bit))}
        swept: OrderedDict[bytes, int] = OrderedDict()
        for block, mask in self._holders.items():
            kept = 0
            mask &= self._living
            while mask:
                bit = mask & -mask
                kept |= moved[bit.bit_length()]
                mask ^= bit
            if kept:
                swept[block] = kept
        self._holders = swept
        for generations in self._replicas.values():
            generations.current = moved[generations.current.bit_length()]
            if generations.previous:
                generations.previous = moved[generations.previous.bit_length()]
            if generations.told:
                generations.told = moved[generations.told.bit_length()]
        self._replica_by_bit = {
            moved[old].bit_length(): name for old, name in self._replica_by_bit.items()
        }
        self._num_bits = len(moved)
        self._living = (1 << self._num_bits) - 1


def _split(hashes: bytes) -> Iterator[bytes]:
    for start in range(0, len(hashes) - DIGEST_BYTES + 1, DIGEST_BYTES):
        yield hashes[start : start + DIGEST_BYTES]
