import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from dataplane.leases.tenant_use import WINDOW_SECONDS, TenantUse, TokenLease, UseLimit, UseShortage


@dataclass
class Limits:
    tokens_per_minute: int | None = None
    max_concurrent: int | None = None


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def open_use() -> tuple[TenantUse, Clock]:
    clock = Clock()
    return TenantUse(clock), clock


def taken(use: TenantUse, num_tokens: int, limits: Limits) -> TokenLease:
    lease = use.try_take("acme", num_tokens, limits)
    assert isinstance(lease, TokenLease)
    return lease


def refused(use: TenantUse, num_tokens: int, limits: Limits) -> UseShortage:
    shortage = use.try_take("acme", num_tokens, limits)
    assert isinstance(shortage, UseShortage)
    return shortage


def test_a_tenant_has_so_many_requests_at_once_and_no_clock_says_when_one_ends() -> None:
    use, _ = open_use()
    limits = Limits(max_concurrent=2)
    first, _second = taken(use, 10, limits), taken(use, 10, limits)
    shortage = refused(use, 10, limits)
    assert shortage.limit is UseLimit.CONCURRENCY
    assert shortage.retry_after_seconds is None
    assert shortage.reason == "tenant acme has 2 requests in flight, and max_concurrent is 2"
    first.release()
    taken(use, 10, limits)
    assert use.try_take("other", 10, limits) is not None
    assert use.num_in_flight("other") == 1


def test_a_charge_counts_for_a_minute_and_the_wait_until_it_is_gone_is_exact() -> None:
    use, clock = open_use()
    limits = Limits(tokens_per_minute=1000)
    taken(use, 400, limits)
    clock.now = 10.0
    taken(use, 500, limits)
    clock.now = 20.0
    few, many = refused(use, 200, limits), refused(use, 600, limits)
    assert few.retry_after_seconds == 40.0
    assert many.retry_after_seconds == 50.0
    clock.now = 59.9
    assert use.num_tokens("acme") == 900
    clock.now = 60.0
    assert use.num_tokens("acme") == 500
    taken(use, 200, limits)


def test_what_was_not_used_is_given_back_at_the_end() -> None:
    use, _ = open_use()
    limits = Limits(tokens_per_minute=1000)
    lease = taken(use, 900, limits)
    lease.settle(150)
    lease.settle(999)  # the first one counts
    lease.release()
    assert use.num_tokens("acme") == 150


def test_what_was_used_beyond_the_charge_is_charged_at_the_end_however_late() -> None:
    use, clock = open_use()
    limits = Limits(tokens_per_minute=1000)
    lease = taken(use, 100, limits)
    clock.now = 300.0
    lease.settle(450)
    lease.release()
    assert use.num_tokens("acme") == 350


def test_a_refund_of_what_has_slid_out_makes_no_room() -> None:
    use, clock = open_use()
    limits = Limits(tokens_per_minute=1000)
    lease = taken(use, 800, limits)
    clock.now = 61.0
    taken(use, 500, limits)
    lease.settle(10)
    assert use.num_tokens("acme") == 500


def test_a_request_that_ends_untold_stays_charged_with_what_was_expected() -> None:
    use, _ = open_use()
    with taken(use, 700, Limits(tokens_per_minute=1000)):
        pass
    assert use.num_tokens("acme") == 700
    assert use.num_in_flight("acme") == 0


def test_a_request_larger_than_a_whole_minute_comes_in_alone() -> None:
    use, clock = open_use()
    limits = Limits(tokens_per_minute=1000)
    taken(use, 1, limits)
    assert refused(use, 5000, limits).retry_after_seconds == WINDOW_SECONDS
    clock.now = 60.0
    taken(use, 5000, limits)
    assert refused(use, 1, limits).limit is UseLimit.TOKENS


Step = tuple[str, int, float]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["take", "settle", "release", "wait"]),
            st.integers(0, 1200),
            st.floats(0, 50, allow_nan=False),
        ),
        max_size=60,
    )
)
def test_room_comes_at_the_moment_that_a_refusal_named(steps: list[Step]) -> None:
    use, clock = open_use()
    limits = Limits(tokens_per_minute=1000)
    held: list[TokenLease] = []
    for what, number, seconds in steps:
        if what == "wait":
            clock.now += seconds
        elif what == "take":
            answer = use.try_take("acme", number, limits)
            if isinstance(answer, TokenLease):
                held.append(answer)
            else:
                assert answer.retry_after_seconds is not None
                now = clock.now
                clock.now = now + answer.retry_after_seconds * 0.999 - 1e-6
                assert clock.now < now or use.find_shortage("acme", number, limits) is not None
                clock.now = now + answer.retry_after_seconds + 1e-9
                assert use.find_shortage("acme", number, limits) is None
        elif held:
            lease = held[number % len(held)]
            if what == "settle":
                lease.settle(number)
            else:
                lease.release()
                held.remove(lease)
        use.check_integrity()
        assert use.num_in_flight("acme") == len(held)


def test_nothing_is_left_of_a_hundred_thousand_requests_however_they_ended() -> None:
    use, clock = open_use()
    stream = random.Random(5)
    limits = Limits(tokens_per_minute=200_000, max_concurrent=40)
    held: list[TokenLease] = []
    for _ in range(100_000):
        clock.now += stream.expovariate(30)
        tenant = f"tenant-{stream.randrange(20)}"
        answer = use.try_take(tenant, stream.randrange(1, 4000), limits)
        if isinstance(answer, TokenLease):
            held.append(answer)
        if held and stream.random() < 0.9:
            lease = held.pop(stream.randrange(len(held)))
            if stream.random() < 0.7:
                lease.settle(stream.randrange(6000))
            for _ in range(stream.choice((1, 1, 2))):
                lease.release()
    for lease in held:
        lease.release()
    use.check_integrity()
    assert use.in_flight_by_tenant() == {}
    clock.now += WINDOW_SECONDS
    assert [use.num_tokens(f"tenant-{n}") for n in range(20)] == [0] * 20
