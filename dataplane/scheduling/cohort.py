"""The sequences that decode: each step takes all of them one token further.

Nobody visits them one by one. They follow one tick, and wait where the next thing happens to
them::

    crossing   by tick modulo block_size: who has filled its last block at such a tick, and
               needs a block for the next token. Each step visits one of these places
    ending     by tick: whose script, or limit, ends there

What a step counts over all of them is kept as a sum. So a step costs what changes in it:
who joins, leaves, crosses into a new block, or ends.
"""

from bisect import insort
from operator import attrgetter

from dataplane.scheduling.sequence import Sequence, Tick

by_rank = attrgetter("rank")
_by_rank_of_member = attrgetter("sequence.rank")


class Member:
    """That a sequence is in the cohort; never changed, so that a plan can keep it.

    At any tick of its membership the sequence has KV of `offset` + tick tokens.
    """

    __slots__ = ("ends_at", "offset", "sequence")

    def __init__(self, sequence: Sequence, offset: int, ends_at: int | None) -> None:
        self.sequence = sequence
        self.offset = offset
        self.ends_at = ends_at
        """The tick at which its script or limit ends; None: nobody knows beforehand."""


class Cohort:
    """Decoding sequences, and the tick that they follow."""

    def __init__(self, block_size: int) -> None:
        self.tick = Tick()
        self.num_unscripted = 0
        """Members that are told each token."""
        self._block_size = block_size
        self._member_by_rank: dict[int, Member] = {}
        self._crossing: list[list[Member]] = [[] for _ in range(block_size)]  # oldest first
        self._ending: dict[int, list[Sequence]] = {}
        self._sum_of_offsets = 0
        self._members: tuple[Member, ...] | None = ()

    def __len__(self) -> int:
        return len(self._member_by_rank)

    @property
    def members(self) -> tuple[Member, ...]:
        """All of them, in no order; the same tuple until one joins or leaves."""
        if self._members is None:
            self._members = tuple(self._member_by_rank.values())
        return self._members

    @property
    def num_context_tokens(self) -> int:
        """Tokens that the next decode steps attend to, their own included."""
        return self._sum_of_offsets + len(self._member_by_rank) * (self.tick.now + 1)

    @property
    def crossing(self) -> list[Member]:
        """Who has KV of full blocks alone, oldest first: the next token begins a block."""
        return self._crossing[self.tick.now % self._block_size]

    @property
    def ending(self) -> list[Sequence]:
        """Who has selected the last token that its script or limit allows, in no order."""
        return self._ending.get(self.tick.now) or []

    def unscripted(self) -> list[Sequence]:
        """Who is told each token, in no order."""
        if not self.num_unscripted:
            return []
        return [m.sequence for m in self._member_by_rank.values() if m.ends_at is None]

    def join(self, sequence: Sequence) -> None:
        """Take in a sequence of which only the newest token lacks KV."""
        now = self.tick.now
        offset = sequence.num_computed_tokens - now
        ends_at = None
        if sequence.script is None:
            self.num_unscripted += 1
        else:
            ends_at = now + sequence.output_limit - sequence.num_output_tokens
            ending = self._ending.get(ends_at)
            if ending is None:
                self._ending[ends_at] = [sequence]
            else:
                ending.append(sequence)
        member = self._member_by_rank[sequence.rank] = Member(sequence, offset, ends_at)
        self._members = None
        self._sum_of_offsets += offset
        place = self._crossing[-offset % self._block_size]
        if place and place[-1].sequence.rank > sequence.rank:
            insort(place, member, key=_by_rank_of_member)
        else:  # as nearly always: who joins is the newest
            place.append(member)
        sequence.follow(self.tick)

    def leave(self, sequence: Sequence) -> None:
        """Let a member go; its counts stand where they are."""
        member = self._member_by_rank.pop(sequence.rank)
        self._members = None
        self._sum_of_offsets -= member.offset
        self._crossing[-member.offset % self._block_size].remove(member)
        if member.ends_at is None:
            self.num_unscripted -= 1
        else:
            ending = self._ending[member.ends_at]
            ending.remove(sequence)
            if not ending:
                del self._ending[member.ends_at]
        sequence.leave()

    def check_integrity(self) -> None:
        """Raises AssertionError when a member is not where its next event would find it."""
        members = self._member_by_rank
        if self._members is not None and set(self._members) != set(members.values()):
            raise AssertionError(f"a list of {len(self._members)} members, of {len(members)}")
        for what, places in (
            ("cross into a block", self._crossing),
            ("are to end", self._ending.values()),
        ):
            num_placed = sum(map(len, places))
            expected = len(members) - (self.num_unscripted if what == "are to end" else 0)
            if num_placed != expected:
                raise AssertionError(f"{num_placed} members {what}, expected {expected}")
        for place in self._crossing:
            ranks = [member.sequence.rank for member in place]
            if ranks != sorted(ranks):
                raise AssertionError(f"members cross out of order: {place}")
        for rank, member in members.items():
            self._check_member(rank, member)
        offsets = sum(member.offset for member in members.values())
        if self._sum_of_offsets != offsets:
            raise AssertionError(f"the offsets sum up to {offsets}, not {self._sum_of_offsets}")

    def _check_member(self, rank: int, member: Member) -> None:
        sequence, now = member.sequence, self.tick.now
        num_computed = sequence.num_computed_tokens
        num_to_come = None
        if sequence.script is not None:
            num_to_come = sequence.output_limit - sequence.num_output_tokens
        is_right = (
            sequence.rank == rank
            and sequence.tick is self.tick
            and num_computed == member.offset + now
            and sequence.num_tokens == num_computed + 1
            and member in self._crossing[(now - num_computed) % self._block_size]
            and (member.ends_at is None) == (num_to_come is None)
        )
        if num_to_come is not None:
            ending = self._ending.get(now + num_to_come, [])
            is_right = is_right and num_to_come > 0 and sequence in ending
        if not is_right:
            raise AssertionError(
                f"{sequence} is a member since {member.offset} tokens before tick 0, ends at "
                f"{member.ends_at}, and it is tick {now}"
            )
