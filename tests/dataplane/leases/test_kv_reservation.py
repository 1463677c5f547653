import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
)

from dataplane.engine import EngineStats
from dataplane.leases.kv_reservation import (
    KVDemand,
    KVReservations,
    KVSight,
    KVSignal,
    demand_of,
    sight_of,
)
from dataplane.leases.lease import Lease
from dataplane.leases.output_lengths import ExpectedOutput
from dataplane.policy import KVLimits, KVReserve


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def open_kv(num_blocks: int = 100) -> tuple[KVReservations, Clock]:
    clock = Clock()
    kv = KVReservations(clock)
    kv.see("a", sight(clock, num_blocks))
    return kv, clock


def sight(clock: Clock, num_blocks: int = 100, num_referenced: int | None = 0) -> KVSight:
    return KVSight(
        num_blocks=num_blocks,
        block_size=16,
        num_referenced_blocks=num_referenced,
        told_at=clock.now,
    )


def demand(num_blocks: int, watermark: float = 0.0) -> KVDemand:
    return KVDemand(num_prompt_tokens=16 * num_blocks, num_output_tokens=0, watermark=watermark)


def test_what_is_reserved_is_not_given_twice_and_the_watermark_to_nobody() -> None:
    kv, _ = open_kv(100)
    first = kv.try_take("a", demand(60, 0.1))
    assert isinstance(first, Lease)
    room = kv.room("a", demand(31, 0.1))
    assert not room.fits
    assert room.reason == "31 blocks wanted, 60 of 90 taken"
    assert kv.room("a", demand(30, 0.1)).fits
    first.release()
    first.release()
    assert kv.num_reserved("a") == 0
    assert kv.room("a", demand(90, 0.1)).fits


def test_what_the_engine_references_counts_where_it_is_more_than_what_was_reserved() -> None:
    kv, clock = open_kv()
    kv.take("a", demand(20))
    clock.now = 1.0
    kv.see("a", sight(clock, num_referenced=70))  # another gateway sends there, too
    assert kv.room("a", demand(1)).num_committed == 70
    kv.take("a", demand(25))  # the engine has not told of this one yet
    room = kv.room("a", demand(10))
    assert (room.num_committed, room.fits, room.signal) == (95, False, KVSignal.ENGINE)
    clock.now = 2.0
    kv.see("a", sight(clock, num_referenced=30))
    assert kv.room("a", demand(10)).num_committed == 45


def test_what_an_engine_told_too_long_ago_is_not_used_and_the_answer_says_so() -> None:
    kv, clock = open_kv()
    kv.see("a", sight(clock, num_referenced=100))
    kv.take("a", demand(20))
    assert not kv.room("a", demand(1)).fits
    clock.now = 5.1
    room = kv.room("a", demand(1))
    assert (room.fits, room.signal, room.num_committed) == (True, KVSignal.OWN_COUNTS, 20)
    assert room.age_seconds == 5.1
    assert "by this gateway's own counts: what a said is too old" in room.reason
    assert not kv.room("a", demand(81)).fits


def test_an_engine_that_does_not_show_its_blocks_refuses_nobody_and_the_answer_says_so() -> None:
    kv, clock = open_kv()
    kv.see("a", None)
    for replica_id in ("a", "never-seen"):
        room = kv.room(replica_id, demand(10**6, 0.05))
        assert (room.fits, room.signal) == (True, KVSignal.CANNOT_TELL)
        assert room.reason == f"cannot tell: {replica_id} does not show its KV blocks"
    lease = kv.take("b", demand(40))
    kv.see("b", sight(clock))  # now it does, and what was taken before is counted
    assert kv.num_reserved("b") == 40
    lease.release()
    assert kv.num_reserved("b") == 0
    kv.check_integrity()


def test_a_request_that_needs_more_than_there_is_goes_where_nothing_is_taken() -> None:
    kv, _ = open_kv(100)
    with kv.take("a", demand(1)):
        assert not kv.room("a", demand(500, 0.05)).fits
    assert kv.room("a", demand(500, 0.05)).fits


@pytest.mark.parametrize(
    ("reserve", "is_known", "num_output", "doubt"),
    [
        (KVReserve.NONE, False, 0, None),
        (KVReserve.EXPECTED, True, 80, None),
        (KVReserve.EXPECTED, False, 300, "too few"),
        (KVReserve.FULL, False, 300, None),
    ],
)
def test_a_policy_says_what_of_the_output_is_reserved(
    reserve: KVReserve, is_known: bool, num_output: int, doubt: str | None
) -> None:
    num_tokens, reason = (80, "known") if is_known else (300, "too few")
    expected = ExpectedOutput(num_tokens=num_tokens, reason=reason, is_known=is_known)
    limits = KVLimits(reserve=reserve, watermark=0.1)
    wanted = demand_of(limits, 40, 2, 300, expected)
    assert wanted == KVDemand(
        num_prompt_tokens=40,
        num_output_tokens=num_output,
        num_sequences=2,
        watermark=0.1,
        doubt=doubt,
    )
    assert demand_of(None, 40, 2, 300, expected) is None


def test_an_engine_s_snapshot_is_as_old_as_it_says_and_shows_blocks_or_nothing() -> None:
    told = EngineStats(
        age_seconds=0.5, num_blocks=100, block_size=16, num_free_blocks=70, num_running=3
    )
    assert sight_of(told, 10.0) == KVSight(
        num_blocks=100, block_size=16, num_referenced_blocks=30, told_at=9.5
    )
    assert sight_of(EngineStats(age_seconds=0.0, num_blocks=100), 10.0) is None
    assert sight_of(EngineStats(age_seconds=0.0), 10.0) is None


def test_what_ends_makes_room_at_once_and_not_when_the_engine_tells_of_it() -> None:
    kv, clock = open_kv()
    lease = kv.take("a", demand(60))
    clock.now = 1.0
    kv.see("a", sight(clock, num_referenced=60))
    assert not kv.room("a", demand(50)).fits
    lease.release()
    assert kv.room("a", demand(50)).fits


def test_several_answers_share_the_whole_blocks_of_their_prompt() -> None:
    wanted = KVDemand(num_prompt_tokens=40, num_output_tokens=24, num_sequences=3)
    assert wanted.num_blocks(16) == 4 + 2 * 2


def test_a_replica_that_is_lost_gives_everything_back_and_its_leases_nothing() -> None:
    kv, clock = open_kv()
    lease = kv.take("a", demand(90))
    kv.lose("a")
    kv.see("a", sight(clock))
    assert kv.room("a", demand(95, 0.05)).fits
    lease.release()
    assert kv.num_reserved("a") == 0
    kv.check_integrity()


class KVMachine(RuleBasedStateMachine):
    """Leases, looks at engines, losses and time, in any order."""

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.kv = KVReservations(self.clock)
        self.held: dict[str, dict[Lease, int]] = {"a": {}, "b": {}}
        self.size: dict[str, int | None] = {"a": None, "b": None}

    @rule(target=leases, replica=st.sampled_from("ab"), tokens=st.integers(1, 400))
    def take(self, replica: str, tokens: int) -> Lease:
        lease = self.kv.take(replica, KVDemand(num_prompt_tokens=tokens, num_output_tokens=3))
        self.held[replica][lease] = tokens + 3
        return lease

    @rule(lease=leases)
    def release(self, lease: Lease) -> None:
        lease.release()
        for held in self.held.values():
            held.pop(lease, None)

    @rule(lease=consumes(leases))
    def crash(self, lease: Lease) -> None:
        try:
            with lease:
                raise RuntimeError
        except RuntimeError:
            for held in self.held.values():
                held.pop(lease, None)

    @rule(
        replica=st.sampled_from("ab"),
        referenced=st.none() | st.integers(0, 50),
        size=st.sampled_from([None, 8, 16]),
    )
    def see(self, replica: str, referenced: int | None, size: int | None) -> None:
        self.size[replica] = size
        self.kv.see(
            replica,
            None
            if size is None
            else KVSight(
                num_blocks=50,
                block_size=size,
                num_referenced_blocks=referenced,
                told_at=self.clock.now,
            ),
        )

    @rule(replica=st.sampled_from("ab"))
    def lose(self, replica: str) -> None:
        self.kv.lose(replica)
        self.held[replica].clear()
        self.size[replica] = None

    @rule(seconds=st.floats(0, 10, allow_nan=False))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def what_is_reserved_is_what_is_held(self) -> None:
        self.kv.check_integrity()
        for replica, held in self.held.items():
            size = self.size[replica]
            blocks = 0 if size is None else sum(-(-tokens // size) for tokens in held.values())
            assert self.kv.num_reserved(replica) == blocks


TestKVMachine = KVMachine.TestCase
TestKVMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_nothing_is_left_of_a_hundred_thousand_reservations_however_they_ended() -> None:
    kv, clock = open_kv(2000)
    stream = random.Random(8)
    held: list[Lease] = []
    for _ in range(100_000):
        clock.now += 0.01
        replica = stream.choice("abcd")
        answer = kv.try_take(replica, demand(stream.randrange(1, 60), 0.05))
        if isinstance(answer, Lease):
            held.append(answer)
        if stream.random() < 0.02:
            kv.see(replica, sight(clock, 2000, stream.choice((None, stream.randrange(2000)))))
        if stream.random() < 0.001:
            kv.lose(replica)
        while held and stream.random() < 0.5:
            held.pop(stream.randrange(len(held))).release()
    for lease in held:
        lease.release()
    kv.check_integrity()
    assert kv.reserved_by_replica() == {}
